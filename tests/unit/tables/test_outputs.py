"""Tables on their way to the disk: whole, flushed and under their name, or an error."""

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast.exceptions import StorageError
from holdfast.saving.files import TEMPORARY, inject_faults, remove_leftovers
from holdfast.tables.outputs import TableWriter, check_file, check_folder

FRAMES = [pd.DataFrame({"x": np.arange(n, dtype=float), "name": [f"ä{n}"] * n}) for n in (3, 2, 4)]
READERS = {
    ".csv": pd.read_csv,
    ".tsv": lambda file: pd.read_csv(file, sep="\t"),
    ".parquet": pd.read_parquet,
}


@pytest.mark.parametrize("suffix", READERS)
def test_frames_come_back_in_their_order(tmp_path, suffix):
    """All rows are there, once, under one header; the temporary file is gone."""
    file = tmp_path / f"table{suffix}"
    with TableWriter(file) as writer:
        for frame in FRAMES:
            writer.write(frame)
    assert writer.n_rows == 9
    pd.testing.assert_frame_equal(READERS[suffix](file), pd.concat(FRAMES, ignore_index=True))
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", READERS)
def test_a_writer_that_pauses_keeps_its_file(tmp_path, suffix):
    """Another process that sweeps leftovers leaves the file of a living writer alone, however old it looks."""
    file = tmp_path / f"table{suffix}"
    with TableWriter(file) as writer:
        writer.write(FRAMES[0])
        for name in os.listdir(tmp_path):
            os.utime(tmp_path / name, (0, 0))
        assert remove_leftovers(tmp_path) == 0
        writer.write(FRAMES[1])
    assert len(READERS[suffix](file)) == 5


@pytest.mark.parametrize("suffix", READERS)
def test_a_vanished_file_is_an_error(tmp_path, suffix):
    """A table whose temporary file was deleted is not reported as written, and the older one stays."""
    file = tmp_path / f"table{suffix}"
    file.write_bytes(b"old")
    with pytest.raises(StorageError, match="deleted or replaced while it was written"), TableWriter(file) as writer:
        writer.write(FRAMES[0])
        for name in os.listdir(tmp_path):
            if name.startswith(TEMPORARY):
                os.unlink(tmp_path / name)
        writer.write(FRAMES[1])
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("step", ["create", "write", "fsync", "rename"])
def test_a_full_disk_leaves_the_older_table(tmp_path, suffix, step):
    """Whichever step fails, the older file is as it was, nothing else is left, and the error is ours."""
    file = tmp_path / f"table{suffix}"
    file.write_bytes(b"old")

    def fault(name, path):
        if name == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    message = f"^Could not write '{file}': the disk is full"
    with inject_faults(fault), pytest.raises(StorageError, match=message), TableWriter(file) as writer:
        writer.write(FRAMES[0])
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", READERS)
def test_an_error_of_the_caller_keeps_its_type(tmp_path, suffix):
    """An error while rows are computed is not called an error of writing, and leaves no file."""
    with pytest.raises(OSError, match="^the input"), TableWriter(tmp_path / f"table{suffix}") as writer:
        writer.write(FRAMES[0])
        raise OSError("the input is gone")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", READERS)
def test_a_table_is_flushed_before_it_gets_its_name(tmp_path, suffix, monkeypatch):
    """The whole file, then its folder."""
    file, flushed, fsync = tmp_path / f"table{suffix}", [], os.fsync

    def spy(descriptor):
        flushed.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size, file.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    with TableWriter(file) as writer:
        writer.write(FRAMES[0])
    status = file.stat()
    assert flushed[0] == (status.st_ino, status.st_size, False)
    assert [entry[0] for entry in flushed[1:]] == [tmp_path.stat().st_ino]


@pytest.mark.parametrize("check", [check_file, check_folder])
def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path, check):
    """A read-only disk is noticed by the check, not after hours."""

    def fault(name, path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with inject_faults(fault), pytest.raises(StorageError, match="out.csv': the file system is read-only"):
        check(Path(tmp_path / "out.csv"), overwrite=False)
