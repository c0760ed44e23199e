import errno
import os
import threading

import pytest

from holdfast.exceptions import CorruptFileError, StorageError, UntrustedFileError
from holdfast.saving.files import TEMPORARY, read_regular, write_bytes
from holdfast.saving.locks import inject_faults

STEPS = ("create", "write", "fsync", "rename")


def failing(step, code):
    """Return a fault that fails at one step as the system would."""

    def fault(name, path):
        if name == step:
            raise OSError(code, os.strerror(code))

    return fault


def test_bytes_come_back(tmp_path):
    """What is written is read, also above the size of one write call."""
    data = os.urandom((1 << 20) + 17)
    write_bytes(tmp_path / "a", data)
    assert read_regular(tmp_path / "a", max_bytes=len(data)) == data
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_steps_are_in_the_order_that_survives_a_crash(tmp_path):
    """The bytes reach the disk before the name does, and the name before the call returns."""
    steps = []
    with inject_faults(lambda name, path: steps.append((name, path.name.startswith(TEMPORARY)))):
        write_bytes(tmp_path / "a", b"new")
    expected = [("create", True), ("write", True), ("write", True), ("fsync", True), ("rename", False)]
    assert steps == [*expected, ("fsync-folder", False)]


@pytest.mark.parametrize("step", STEPS)
def test_old_bytes_survive_a_full_disk(tmp_path, step):
    """A failure before the rename leaves the old file alone and no other file behind."""
    write_bytes(tmp_path / "a", b"old")
    message = (
        rf"^Could not write '{tmp_path}/a': the disk is full \(ENOSPC\)\. Nothing older was changed\. Free some space"
    )
    with inject_faults(failing(step, errno.ENOSPC)), pytest.raises(StorageError, match=message) as caught:
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
    assert caught.value.errno == errno.ENOSPC
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "permission is denied"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EIO, "the disk reports an error"),
    ],
)
def test_the_reason_is_said(tmp_path, code, reason):
    """Each way in which writing fails has its own words."""
    with inject_faults(failing("create", code)), pytest.raises(StorageError, match=reason):
        write_bytes(tmp_path / "a", b"new")


def test_an_error_without_words_of_ours_keeps_the_systems(tmp_path):
    """Rare errors are passed on with the system's text."""
    with inject_faults(failing("create", errno.ENXIO)), pytest.raises(StorageError, match=os.strerror(errno.ENXIO)):
        write_bytes(tmp_path / "a", b"new")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    """The temporary name is short, so the final one is what fails, and nothing stays behind."""
    with pytest.raises(StorageError, match="the name is too long"):
        write_bytes(tmp_path / ("x" * 300), b"new")
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path):
    """Files are written into folders that exist."""
    with pytest.raises(StorageError, match="its folder does not exist .* Create the folder first"):
        write_bytes(tmp_path / "no" / "a", b"new")


def test_without_overwrite_a_name_is_taken_once(tmp_path):
    """Of many writers that race for a name, one wins and the others are told."""
    winners, losers = [], []

    def write(number):
        try:
            write_bytes(tmp_path / "a", str(number).encode(), overwrite=False)
            winners.append(number)
        except StorageError as problem:
            losers.append(str(problem))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert (tmp_path / "a").read_bytes() == str(winners[0]).encode()
    assert all("it exists already" in message for message in losers)
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_is_not_read(tmp_path):
    """A link could lead anywhere."""
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UntrustedFileError, match="link' is a link, not an ordinary file"):
        read_regular(tmp_path / "link", max_bytes=100)


def test_a_pipe_does_not_hang_the_reader(tmp_path):
    """Pipes, folders and devices are refused without opening them."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UntrustedFileError, match="a folder, pipe or device"):
            read_regular(path, max_bytes=100)


def test_a_file_above_the_limit_is_not_read(tmp_path):
    """Sizes are checked before reading, so a sparse terabyte costs nothing."""
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UntrustedFileError, match="has 1099511627776 bytes, more than the 100 allowed here"):
        read_regular(tmp_path / "a", max_bytes=100)


def test_a_missing_file_is_named(tmp_path):
    """A part that is gone is said by name."""
    with pytest.raises(CorruptFileError, match="a' is missing"):
        read_regular(tmp_path / "a", max_bytes=100)
