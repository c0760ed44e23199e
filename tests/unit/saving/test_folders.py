import errno
import os

import pytest

from holdfast.exceptions import StorageError
from holdfast.saving import files as folders
from holdfast.saving.files import TEMPORARY, inject_faults, new_folder, recover_folder, remove_leftovers, write_new


def write(path, text, **options):
    """Write a folder with one file."""
    with new_folder(path, **options) as temporary:
        write_new(temporary / "part", text)


def read(path):
    """Return the one file of a folder."""
    assert os.listdir(path) == ["part"]
    return (path / "part").read_bytes()


@pytest.fixture(params=["exchange", "two renames"])
def either_system(request, monkeypatch):
    """Run on a system that exchanges two names in one step, and on one that cannot."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "_exchange", lambda first, second: False)


def test_a_new_folder_appears_with_its_parents(tmp_path):
    """Missing parents are created; nothing else is left."""
    write(tmp_path / "a" / "b", b"1")
    assert read(tmp_path / "a" / "b") == b"1"
    assert os.listdir(tmp_path / "a") == ["b"]


@pytest.mark.usefixtures("either_system")
def test_overwriting_replaces_the_whole_folder(tmp_path):
    """The old folder is gone, the new one is there, and nothing else is left."""
    write(tmp_path / "a", b"1")
    write(tmp_path / "a", b"2", overwrite=True)
    assert read(tmp_path / "a") == b"2"
    assert os.listdir(tmp_path) == ["a"]


def test_without_overwrite_a_folder_is_kept(tmp_path):
    """A folder that is there, perhaps since a moment ago, is not replaced."""
    write(tmp_path / "a", b"1")
    with pytest.raises(StorageError, match="it exists already"):
        write(tmp_path / "a", b"2")
    assert read(tmp_path / "a") == b"1"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.usefixtures("either_system")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_every_failing_step_leaves_the_old_or_the_new_folder(tmp_path, code):
    """Whichever step fails, a whole folder stands at the name, and the old one unless the new one is in place."""
    for failing in range(100):
        write(tmp_path / "a", b"1", overwrite=True)
        steps = []

        def fault(name, path, failing=failing, steps=steps):
            steps.append(name)
            if len(steps) == failing + 1:
                raise OSError(code, os.strerror(code))

        try:
            with inject_faults(fault):
                write(tmp_path / "a", b"2", overwrite=True)
            in_place = True
        except StorageError:
            in_place = steps[-1] == "fsync-folder" and "rename" in steps
        assert read(tmp_path / "a") == (b"2" if in_place else b"1")
        recover_folder(tmp_path / "a")
        remove_leftovers(tmp_path, age=0.0)
        assert os.listdir(tmp_path) == ["a"]
        if len(steps) <= failing:
            break
    assert failing >= 9  # mkdir, create, 2 × write, fsync, fsync-folder, rename (or two), fsync-folder, remove


def test_a_replacement_cut_between_two_renames_is_put_back(tmp_path, monkeypatch):
    """Where two renames are needed, a kill between them is repaired by the next reader or writer."""
    monkeypatch.setattr(folders, "_exchange", lambda first, second: False)
    write(tmp_path / "a", b"1")
    renames = []

    def fault(name, path):
        if name == "rename":
            renames.append(path)
            if len(renames) == 2:
                os._exit(9)

    child = os.fork()
    if child == 0:
        with inject_faults(fault):
            write(tmp_path / "a", b"2", overwrite=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (tmp_path / "a").exists()
    recover_folder(tmp_path / "a")
    assert read(tmp_path / "a") == b"1"


def test_an_error_of_the_caller_leaves_nothing(tmp_path):
    """An exception inside the block removes the half-filled folder and passes through."""
    with pytest.raises(KeyError, match="mine"), new_folder(tmp_path / "a") as temporary:
        write_new(temporary / "part", b"1")
        raise KeyError("mine")
    assert os.listdir(tmp_path) == []


def test_leftovers_of_the_dead_are_swept_and_the_living_are_not(tmp_path):
    """Only names that are old enough and that nobody holds are removed."""
    (tmp_path / f"{TEMPORARY}file").write_bytes(b"")
    (tmp_path / f"{TEMPORARY}folder").mkdir()
    (tmp_path / f"{TEMPORARY}folder" / "part").write_bytes(b"1")
    (tmp_path / "other").write_bytes(b"")
    assert remove_leftovers(tmp_path) == 0  # too young
    with new_folder(tmp_path / "a") as living:
        assert remove_leftovers(tmp_path, age=0.0) == 2
        assert living.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["a", "other"]
    assert remove_leftovers(tmp_path, age=0.0) == 0


def test_a_leftover_that_is_a_link_is_not_followed(tmp_path):
    """Sweeping never reaches outside of the folder."""
    (tmp_path / "store").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"1")
    (tmp_path / "store" / f"{TEMPORARY}link").symlink_to(tmp_path / "precious")
    assert remove_leftovers(tmp_path / "store", age=0.0) == 0
    assert (tmp_path / "precious" / "file").read_bytes() == b"1"
