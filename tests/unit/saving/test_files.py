import errno
import fcntl
import os
import threading

import pytest

from holdfast.exceptions import CorruptFileError, StorageError, UntrustedFileError
from holdfast.saving import files
from holdfast.saving.files import (
    TEMPORARY,
    check_writable,
    inject_faults,
    new_file,
    new_folder,
    read_regular,
    remove_leftovers,
    write_bytes,
    write_new,
)

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


def no_locks(monkeypatch, code=errno.ENOLCK):
    """Let the system answer as a network file system without locks does."""

    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_files_are_written_where_locks_are_unknown(tmp_path, monkeypatch, code):
    """A network file system without locks is written to like any other."""
    no_locks(monkeypatch, code)
    write_bytes(tmp_path / "a", b"new")
    with new_folder(tmp_path / "b") as folder:
        write_new(folder / "part", b"new")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b" / "part").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_nothing_is_swept_where_locks_are_unknown(tmp_path, monkeypatch):
    """Without locks nobody can tell a leftover from the file of a living writer."""
    no_locks(monkeypatch)
    with new_file(tmp_path / "a") as file, new_folder(tmp_path / "b"):
        assert remove_leftovers(tmp_path, age=0.0) == 0
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_an_open_file_is_not_swept(tmp_path):
    """However long a writer pauses, its file is not a leftover."""
    with new_file(tmp_path / "a") as file:
        os.utime(file.name, (0, 0))
        assert remove_leftovers(tmp_path) == 0
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_living_writer_without_its_lock_would_be_swept(tmp_path, monkeypatch):
    """It is the lock that keeps the file: without it, the same file is removed, and the writer says so."""
    monkeypatch.setattr(files, "try_lock", lambda descriptor: True)
    with (
        pytest.raises(StorageError, match="a': its temporary file was deleted or replaced .*ESTALE.* Run the command"),
        new_file(tmp_path / "a") as file,
    ):
        os.utime(file.name, (0, 0))
        assert remove_leftovers(tmp_path) == 1
    assert os.listdir(tmp_path) == []


def test_a_file_that_was_replaced_while_it_was_written_is_not_taken(tmp_path):
    """Bytes that somebody else put under the temporary name do not get the final one."""
    write_bytes(tmp_path / "a", b"old")
    with pytest.raises(StorageError, match="deleted or replaced"), new_file(tmp_path / "a") as file:
        file.write(b"new")
        os.unlink(file.name)
        with open(file.name, "wb") as other:
            other.write(b"other")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_is_flushed_before_it_gets_its_name(tmp_path, monkeypatch):
    """All bytes are in the file that is flushed, then the name changes, then the folder is flushed."""
    flushed = []
    fsync = os.fsync

    def spy(descriptor):
        status = os.fstat(descriptor)
        flushed.append((status.st_ino, status.st_size, os.path.exists(tmp_path / "a")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    with new_file(tmp_path / "a") as file:
        file.write(b"x" * 100)
        file.write(b"y" * 100)
    assert flushed[0] == (os.stat(tmp_path / "a").st_ino, 200, False)
    assert (flushed[1][0], flushed[1][2]) == (os.stat(tmp_path).st_ino, True)
    assert len(flushed) == 2


def test_an_error_in_the_block_is_the_callers_and_leaves_nothing(tmp_path):
    """An error that is not about this file keeps its type; what is in the buffer is not written."""
    with pytest.raises(OSError, match="of the caller") as caught, new_file(tmp_path / "a") as file:
        file.write(b"new")
        raise OSError(errno.EIO, "of the caller")
    assert type(caught.value) is OSError
    assert os.listdir(tmp_path) == []


def test_a_closed_file_takes_nothing_more(tmp_path):
    """Bytes that come after the end of the block are an error, not lost."""
    with new_file(tmp_path / "a") as file:
        file.write(b"new")
    with pytest.raises(ValueError, match="detached"):
        file.write(b"late")


def test_without_links_a_name_is_still_taken_once(tmp_path, monkeypatch):
    """A file system without hard links refuses a name that exists all the same."""

    def link(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    write_bytes(tmp_path / "a", b"1", overwrite=False)
    with pytest.raises(StorageError, match="it exists already"):
        write_bytes(tmp_path / "a", b"2", overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["create", "write", "fsync"])
def test_a_place_that_cannot_be_written_is_known_before_the_work(tmp_path, step):
    """The check fails as writing would, leaves nothing, and does not create missing folders."""
    message = r"^Could not write '.*/no/model': the disk is full"
    with inject_faults(failing(step, errno.ENOSPC)), pytest.raises(StorageError, match=message):
        check_writable(tmp_path / "no" / "model")
    check_writable(tmp_path / "no" / "model")
    assert os.listdir(tmp_path) == []


def test_the_check_sweeps_leftovers(tmp_path):
    """What killed writers left is removed when the next one begins."""
    (tmp_path / f"{TEMPORARY}old").write_bytes(b"")
    os.utime(tmp_path / f"{TEMPORARY}old", (0, 0))
    check_writable(tmp_path / "a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_temporary_name_that_exists_is_not_written_to(tmp_path, monkeypatch, kind):
    """Whoever guesses the name can neither hand over a file nor lead the writer elsewhere."""
    (tmp_path / "other").write_bytes(b"other")
    name = tmp_path / "other" if kind == "file" else tmp_path / "link"
    if kind == "link":
        name.symlink_to(tmp_path / "other")
    monkeypatch.setattr(files, "temporary_beside", lambda path: name)
    with pytest.raises(StorageError, match="it exists already"):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "other").read_bytes() == b"other"
    assert not (tmp_path / "a").exists()
