"""Records, claims and failures in one folder."""

import errno
import os
import subprocess
import sys
import time

import pytest

from holdfast.exceptions import CorruptFileError, StorageError
from holdfast.lab.store import RunStore
from holdfast.saving.files import inject_faults
from holdfast.saving.json_files import read_record


def test_records_come_back_and_are_never_replaced(tmp_path):
    """A finished run is kept as it is, and forgets its failure."""
    store = RunStore(tmp_path / "out")
    store.write_failure("a", {"error": "x"})
    assert read_record(store.failure_path("a")) == {"error": "x"}
    assert (store.has("a"), store.read("a")) == (False, None)
    store.write("a", {"value": 1})
    assert store.read("a") == {"value": 1}
    assert not store.failure_path("a").exists()
    with pytest.raises(StorageError, match="it exists already"):
        store.write("a", {"value": 2})
    assert store.records() == [{"value": 1}]


def test_a_finished_run_has_no_failure(tmp_path):
    """A sweep whose worker died says so late, when another sweep has finished the run: the record holds."""
    store = RunStore(tmp_path)
    store.write("a", {"value": 1})
    store.write_failure("a", {"error": "the process died"})
    assert not store.failure_path("a").exists()
    assert store.read("a") == {"value": 1}


def test_a_claim_is_exclusive_and_free_again(tmp_path):
    """Nobody else gets a claimed run; the lock of a finished one is removed."""
    store = RunStore(tmp_path)
    with store.claim("a") as mine, RunStore(tmp_path).claim("a") as other:
        assert (mine, other) == (True, False)
    with store.claim("a") as mine:
        assert mine
        store.write("a", {})
    assert list((tmp_path / "claims").iterdir()) == []


def test_the_claim_of_a_dead_process_is_taken_over(tmp_path):
    """A claim lasts as long as its process, however that ends."""
    code = (
        "import sys, time\nfrom holdfast.lab.store import RunStore\n"
        "with RunStore(sys.argv[1]).claim('a') as mine:\n    print(mine, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "True\n"
        store = RunStore(tmp_path)
        with store.claim("a") as mine:
            assert not mine
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            with store.claim("a") as mine:
                if mine:
                    break
        assert mine
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_run(tmp_path):
    """A sweep does not work for hours to find the disk full."""

    def fault(step, path):
        if step == "fsync":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with inject_faults(fault), pytest.raises(StorageError, match="the disk is full"):
        RunStore(tmp_path / "out")


def test_a_damaged_record_is_refused_or_left_out(tmp_path):
    """Nothing damaged is taken for a result; who only looks at what is there can do without it."""
    store = RunStore(tmp_path)
    for name in ("a", "b"):
        store.write(name, {"name": name})
    store.path("a").write_text("x")
    with pytest.raises(CorruptFileError, match="a.json' is damaged"):
        store.records()
    assert store.records(damaged="skip") == [{"name": "b"}]


def test_the_last_failure_counts_and_each_run_has_its_own_checkpoints(tmp_path):
    """A run that fails again says why it failed now."""
    store = RunStore(tmp_path)
    for error in ("first", "second"):
        store.write_failure("a", {"error": error})
    assert read_record(store.failure_path("a")) == {"error": "second"}
    assert store.checkpoints("a") == tmp_path / "checkpoints" / "a"


def test_nobody_waits_for_a_claim_or_removes_anothers(tmp_path, monkeypatch):
    """A sweep goes on to the next run at once; a claim that is held stays, also where the record is written already."""
    store = RunStore(tmp_path)
    with store.claim("a"):
        store.write("a", {})
        monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
        with RunStore(tmp_path).claim("a") as other:
            assert not other
        assert (tmp_path / "claims" / "a.lock").exists()
