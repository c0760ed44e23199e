"""Many runs: each executed once, failures recorded, processes replaced when they die."""

import multiprocessing
import os
import signal
import threading

import pytest

from holdfast.datasets.synthetic import make_files
from holdfast.lab.execution import estimate, rough_seconds, run_all
from holdfast.lab.experiments import PlannedRun, parse_run
from holdfast.lab.store import RunStore
from holdfast.saving.json_files import read_record


def toy(method, seed=0, **settings):
    """Return a run that takes no time."""
    config = parse_run({"dataset": "toy", "method": method, "estimator": "logistic", "seed": seed, **settings})
    return PlannedRun(method, config)


@pytest.fixture
def store(tmp_path):
    """Return an empty store."""
    return RunStore(tmp_path / "out")


def test_finished_runs_are_never_repeated(store):
    """The second sweep makes nothing and leaves every byte as it is."""
    runs = [toy("erm"), toy("pi"), toy("pi", seed=1)]
    told = []
    first = run_all(runs, store, jobs=0, on_progress=told.append)
    assert (first.n_runs, first.n_done, first.n_new, first.failures) == (3, 3, 3, ())
    assert [(p.n_done, p.n_running, p.n_left) for p in told] == [
        (0, 1, 2), (1, 0, 2), (1, 1, 1), (2, 0, 1), (2, 1, 0), (3, 0, 0),
    ]  # fmt: skip
    assert told[-1].remaining == 0
    before = {path: path.stat().st_mtime_ns for path in (store.folder / "runs").iterdir()}
    second = run_all(runs, store, jobs=0)
    assert (second.n_done, second.n_new) == (3, 0)
    assert before == {path: path.stat().st_mtime_ns for path in (store.folder / "runs").iterdir()}


def test_a_failing_run_is_recorded_and_the_others_go_on(store):
    """A failure has its traceback on disk, is named at the end, and is tried again by the next sweep."""
    bad, good = toy("irm"), toy("erm")
    for _ in range(2):
        result = run_all([bad, good], store, jobs=0)
        assert result.n_done == 1
        assert [run.name for run, _ in result.failures] == ["irm"]
        assert result.failures[0][1].startswith("ParameterError: The 'estimator' parameter of IRMClassifier")
    record = read_record(store.failure_path(bad.config.identity))
    assert record["traceback"].startswith("Traceback (most recent call last)")
    assert record["config"] == bad.config.as_dict()


def test_a_finished_run_of_other_data_is_not_passed_off_as_this_one(store, tmp_path):
    """A changed table or description is a failure that says what to do; touching or losing the file changes nothing."""
    folder = make_files("table", tmp_path / "data")
    settings = {"dataset": "table", "method": "erm", "estimator": "logistic"}
    runs = [PlannedRun("ERM", parse_run(settings))]
    assert run_all(runs, store, folder=folder, jobs=0).n_new == 1
    description = folder / "table.toml"
    text = description.read_text()
    os.utime(description, (1, 1))
    assert run_all(runs, store, folder=folder, jobs=0).n_done == 1
    description.write_text(f"{text}test_share = 0.4\n")
    result = run_all(runs, store, folder=folder, jobs=0)
    assert (result.n_done, result.n_new) == (0, 0)
    assert "finished, but table.toml has changed since. Use another --out, or delete" in result.failures[0][1]
    description.write_text(text)
    table = next(folder.glob("*.csv"))
    table.write_text(table.read_text().replace("1", "2", 1))
    assert f"{table.name} has changed since" in run_all(runs, store, folder=folder, jobs=0).failures[0][1]
    table.unlink()
    assert run_all(runs, store, folder=folder, jobs=0).n_done == 1


@pytest.mark.filterwarnings("ignore")
def test_concurrent_sweeps_lose_and_duplicate_nothing(store):
    """Two sweeps of the same runs make each run once, and both see all of them done."""
    runs = [toy("erm", seed=seed) for seed in range(6)]
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(run_all(runs, RunStore(store.folder), jobs=0))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.n_done for result in results] == [6, 6]
    assert sum(result.n_new for result in results) == 6
    assert len(store.records()) == 6


def test_a_process_that_dies_is_replaced(store):
    """The run of a killed process is recorded as failed; the next process makes the others; none is left behind."""
    runs = [toy("erm"), toy("pi")]
    killed = []

    def kill_once(progress):
        if not killed and progress.last.endswith("started"):
            killed.append(multiprocessing.active_children()[0])
            os.kill(killed[0].pid, signal.SIGKILL)

    result = run_all(runs, store, jobs=1, on_progress=kill_once)
    assert [(run.name, message) for run, message in result.failures] == [("erm", "the process died (SIGKILL)")]
    assert store.read(runs[1].config.identity)["runtime"]["threads"] == 1
    assert multiprocessing.active_children() == []


def test_estimates_are_those_of_runs_like_them():
    """Finished runs of the same kind tell the time; without any it is a rough guess that grows with the work."""
    runs = [toy("erm", seed=seed) for seed in range(6)]
    assert estimate(runs, [{"config": runs[0].config.as_dict(), "seconds": 9.0, "cpu_seconds": 7.0}]) == ([7.0] * 6, 0)
    assert estimate(runs, [])[1] == 6
    small, large = (parse_run({"dataset": "toy", "method": "pi", "estimator": name}) for name in ("mlp", "cnn"))
    assert rough_seconds(large) > 10 * rough_seconds(small)
    assert rough_seconds(large.changed(max_epochs=5)) < rough_seconds(large)
