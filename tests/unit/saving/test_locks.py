import errno
import fcntl
import os
import signal
import socket
import time

import pytest

from holdfast.exceptions import StorageError
from holdfast.saving.files import locked


def no_locks(monkeypatch, code=errno.ENOLCK):
    """Let the system answer as a network file system without locks does."""

    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.fixture(params=["locks", errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def either_file_system(request, monkeypatch):
    """Run on a file system with locks, and on those that refuse them."""
    if request.param != "locks":
        no_locks(monkeypatch, request.param)


@pytest.mark.usefixtures("either_file_system")
def test_one_holder_at_a_time(tmp_path):
    """A second taker waits for as long as it says, and gets the lock once it is free."""
    with locked(tmp_path / "lock") as first:
        assert first
        started = time.monotonic()
        with locked(tmp_path / "lock", timeout=0.05) as second:
            assert not second
        assert time.monotonic() - started >= 0.05
        with locked(tmp_path / "lock", timeout=0) as third:  # the second one's end did not end the first one's
            assert not third
    with locked(tmp_path / "lock", timeout=0) as free:
        assert free


@pytest.mark.usefixtures("either_file_system")
def test_a_killed_holder_gives_its_lock_back(tmp_path):
    """The lock of a process that was killed is free again."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        with locked(tmp_path / "lock"):
            os.write(write_end, b"held")
            time.sleep(60)
        os._exit(0)
    assert os.read(read_end, 4) == b"held"
    with locked(tmp_path / "lock", timeout=0) as mine:
        assert not mine
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with locked(tmp_path / "lock", timeout=1) as mine:
        assert mine


@pytest.mark.usefixtures("either_file_system")
def test_counts_of_many_processes_add_up(tmp_path):
    """Eight processes that add one under the lock lose no addition."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            for _ in range(5):
                with locked(tmp_path / "lock"):
                    counter.write_text(str(int(counter.read_text()) + 1))
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert counter.read_text() == "40"


def test_a_marker_of_another_machine_is_respected(tmp_path, monkeypatch):
    """Without locks nobody can know whether a process of another machine lives, so its marker stays."""
    no_locks(monkeypatch)
    (tmp_path / "lock.marker").write_text(f"{os.getpid()}\nnot-{socket.gethostname()}\n")
    with locked(tmp_path / "lock", timeout=0) as mine:
        assert not mine
    assert (tmp_path / "lock.marker").exists()


@pytest.mark.parametrize(
    ("folder", "reason"), [("no", "its folder does not exist"), ("file", "a part of the path is a file")]
)
def test_a_lock_that_cannot_be_made_is_an_error_of_ours(tmp_path, folder, reason):
    """The lock's path is named, and no folder is created."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=f"Could not lock '.*lock': {reason}"), locked(tmp_path / folder / "lock"):
        pass
    assert os.listdir(tmp_path) == ["file"]
