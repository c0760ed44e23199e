import os
import signal
import time

import pytest

from holdfast.exceptions import StorageError
from holdfast.saving.locks import FileLock


def test_one_holder_at_a_time(tmp_path):
    """A second taker waits for as long as it says, and gets the lock once it is free."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire(timeout=0)
    started = time.monotonic()
    assert not second.acquire(timeout=0.05)
    assert time.monotonic() - started >= 0.05
    first.release()
    first.release()  # twice does no harm
    assert second.acquire(timeout=0)
    second.release()


def test_a_killed_holder_gives_its_lock_back(tmp_path):
    """The system releases the lock of a process that was killed."""
    lock = FileLock(tmp_path / "lock")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        FileLock(tmp_path / "lock").acquire()
        os.write(write_end, b"held")
        time.sleep(60)
        os._exit(0)
    assert os.read(read_end, 4) == b"held"
    assert not lock.acquire(timeout=0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert lock.acquire(timeout=1)
    lock.release()


def test_counts_of_many_processes_add_up(tmp_path):
    """Eight processes that add one under the lock lose no addition."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            for _ in range(25):
                with FileLock(tmp_path / "lock"):
                    counter.write_text(str(int(counter.read_text()) + 1))
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert counter.read_text() == "200"


def test_a_lock_in_a_missing_folder_is_an_error_of_ours(tmp_path):
    """The lock's path is named."""
    with pytest.raises(StorageError, match="Could not lock .*: its folder does not exist"):
        FileLock(tmp_path / "no" / "lock").acquire()
