"""Records, claims and failures in one folder."""

import errno
import os
import subprocess
import sys
import time

import pytest

from holdfast.exceptions import StorageError
from holdfast.lab.store import RunStore
from holdfast.saving.files import inject_faults


def test_records_come_back_and_are_never_replaced(tmp_path):
    """A finished run is kept as it is, and forgets its failure."""
    store = RunStore(tmp_path / "out")
    store.write_failure("a", {"error": "x"})
    assert store.read_failure("a") == {"error": "x"}
    assert (store.has("a"), store.read("a")) == (False, None)
    store.write("a", {"value": 1})
    assert store.read("a") == {"value": 1}
    assert store.read_failure("a") is None
    with pytest.raises(StorageError, match="it exists already"):
        store.write("a", {"value": 2})
    assert store.records() == [{"value": 1}]


def test_a_finished_run_has_no_failure(tmp_path):
    """A sweep whose worker died says so late, when another sweep has finished the run: the record holds."""
    store = RunStore(tmp_path)
    store.write("a", {"value": 1})
    store.write_failure("a", {"error": "the process died"})
    assert store.read_failure("a") is None
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
