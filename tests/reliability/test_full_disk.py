"""A full disk or a read-only folder loses nothing older and says so in one line; real file systems where possible."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from holdfast.exceptions import StorageError
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.files import inject_faults
from holdfast.saving.json_files import read_record, write_record

UNSHARE = [shutil.which("unshare") or "unshare", *(["-m"] if os.geteuid() == 0 else ["-Urm"]), "--"]


def can_mount():
    """Return whether a file system can be mounted that only a child sees."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0
    except OSError:
        return False


needs_mounts = pytest.mark.skipif(
    not can_mount(), reason="mounting is not allowed here; see the injected faults instead"
)

PRELUDE = """
import os, subprocess, sys
import numpy as np
from pathlib import Path
from holdfast.saving import *
from holdfast.exceptions import StorageError
place = Path(sys.argv[1])

def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)

def refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except StorageError as problem:
        assert "\\n" not in str(problem)
        return str(problem)
    raise SystemExit("was not refused")

def everything():
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}

small, large = {"weights": np.zeros(100)}, {"weights": np.zeros(1 << 20)}
"""


def run_in_namespace(script, folder):
    """Run a script with mounts of its own; return what it prints."""
    command = [*UNSHARE, sys.executable, "-c", PRELUDE + textwrap.dedent(script), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@needs_mounts
def test_a_full_disk_keeps_what_was_there(tmp_path):
    """On a file system of one MiB, a model, checkpoint and record that do not fit leave the old ones as they were."""
    script = """
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    write_checkpoint(place / "checkpoint", small)
    write_checkpoint(place / "model", small)
    write_record(place / "record.json", {"n": 1})
    before = everything()
    print(refused(write_checkpoint, place / "checkpoint", large))
    print(refused(write_checkpoint, place / "new", large))
    print(refused(write_record, place / "record.json", {"n": "x" * (1 << 20)}, overwrite=True))
    assert everything() == before
    assert sorted(os.listdir(place)) == ["checkpoint", "model", "record.json"]
    # Not even room for a name: every byte is taken.
    filler = os.open(place / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(filler, bytes(4096)):
            pass
    except OSError:
        os.close(filler)
    before = everything()
    print(refused(write_checkpoint, place / "checkpoint", small))
    print(refused(write_record, place / "record.json", {"n": 2}, overwrite=True))
    assert everything() == before
    os.unlink(place / "filler")
    write_checkpoint(place / "checkpoint", {"weights": np.ones(3)})
    assert read_checkpoint(place / "checkpoint")["weights"].tolist() == [1, 1, 1]
    """
    lines = run_in_namespace(script, tmp_path).splitlines()
    assert len(lines) == 5
    assert f"Could not write '{tmp_path}/checkpoint/arrays.safetensors'" in lines[0]
    assert all("the disk is full (ENOSPC). Nothing older was changed." in line for line in lines)


@needs_mounts
def test_a_read_only_disk_keeps_what_was_there(tmp_path):
    """On a file system that became read-only everything is still read, and every write is refused in one line."""
    script = """
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    write_checkpoint(place / "checkpoint", small)
    write_record(place / "record.json", {"n": 1})
    mount("-o", "remount,ro", str(place))
    before = everything()
    print(refused(write_checkpoint, place / "checkpoint", small))
    print(refused(write_checkpoint, place / "deep" / "new", small))
    print(refused(write_record, place / "record.json", {"n": 2}, overwrite=True))
    assert everything() == before
    assert read_checkpoint(place / "checkpoint")["weights"].shape == (100,)
    assert read_record(place / "record.json") == {"n": 1}
    """
    lines = run_in_namespace(script, tmp_path).splitlines()
    assert len(lines) == 3
    assert all("the file system is read-only (EROFS). Nothing older was changed." in line for line in lines)


@needs_mounts
def test_no_more_names_keep_what_was_there(tmp_path):
    """A disk with bytes left but no room for another name behaves the same."""
    script = """
    mount("-t", "tmpfs", "-o", "size=4m,nr_inodes=12", "tmpfs", str(place))
    write_checkpoint(place / "checkpoint", small)
    for number in range(20):
        try:
            (place / str(number)).touch()
        except OSError:
            break
    before = everything()
    print(refused(write_checkpoint, place / "checkpoint", small))
    assert everything() == before
    """
    assert "the disk is full (ENOSPC)" in run_in_namespace(script, tmp_path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_every_write_may_fail(memory_folder, code):
    """Whichever step fails, checkpoint and record are the old or the new ones, whole, and the error has one line."""
    outcomes = set()
    for failing in range(60):
        write_checkpoint(memory_folder / "checkpoint", {"epoch": 1})
        write_record(memory_folder / "record.json", {"run": 1}, overwrite=True)
        steps = []

        def fault(name, path, failing=failing, steps=steps):
            steps.append(name)
            if len(steps) == failing + 1:
                raise OSError(code, os.strerror(code))

        with inject_faults(fault):
            try:
                write_checkpoint(memory_folder / "checkpoint", {"epoch": 2})
                write_record(memory_folder / "record.json", {"run": 2}, overwrite=True)
            except StorageError as problem:
                assert "\n" not in str(problem)
                assert problem.errno == code
        state = (
            read_checkpoint(memory_folder / "checkpoint")["epoch"],
            read_record(memory_folder / "record.json")["run"],
        )
        outcomes.add(state)
        if len(steps) <= failing:
            break
    assert outcomes == {(1, 1), (2, 1), (2, 2)}
    assert failing > 15
