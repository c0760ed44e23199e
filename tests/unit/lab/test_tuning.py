"""Choosing grid points."""

import math

import pytest

from holdfast.exceptions import ConfigError
from holdfast.lab.execution import SweepResult
from holdfast.lab.experiments import PlannedRun, parse_experiment, parse_run
from holdfast.lab.tuning import average_over_data, search_points, tune


def planned(dropout, seed):
    """Return a run of a small grid."""
    return PlannedRun("ERM", parse_run({"dataset": "toy", "method": "erm", "dropout": dropout, "seed": seed}))


RUNS = [planned(dropout, seed) for dropout in (0.1, 0.3, 0.5) for seed in (0, 1)]


def record(run, train, test):
    """Return the record of a run: selection values of both settings; the test accuracy tells the run."""
    config = run.config
    accuracy = config.dropout + 0.01 * config.seed
    setting = {"selection": "min_train_validation", "test": {"accuracy": accuracy}}
    settings = {"train": {**setting, "value": train}, "test": {**setting, "value": test}}
    return {"config": config.as_dict(), "settings": settings, "seconds": 7.0}


def test_each_setting_chooses_its_own_point():
    """The best mean selection value over seeds wins, unfinished runs are left out, and test scores do not matter."""
    values = {0.1: (0.9, 0.2), 0.3: (0.8, 0.7)}  # 0.5 is not finished
    records = {
        run.config.identity: record(run, *values[run.config.dropout]) for run in RUNS if run.config.dropout in values
    }
    by_train, by_test = tune(RUNS, records.get)
    assert (by_train.setting, by_train.point, by_train.n_points, by_train.n_seeds) == ("train", {"dropout": 0.1}, 2, 2)
    assert by_train.test == pytest.approx(0.105)
    assert (by_test.setting, by_test.point) == ("test", {"dropout": 0.3})
    assert by_test.value == pytest.approx(0.7)
    assert by_test.spread == pytest.approx(0.01 / math.sqrt(2))
    assert math.isnan(by_test.worst)
    assert by_test.selection == "min_train_validation"


def test_data_sets_are_not_compared_with_one_another():
    """A grid over data sets gives a row for each of them, which says whose it is."""
    runs = [
        PlannedRun("ERM", parse_run({"dataset": name, "method": "erm", "dropout": dropout}))
        for name in ("toy", "gaussian")
        for dropout in (0.1, 0.3)
    ]
    values = {("toy", 0.1): 0.9, ("toy", 0.3): 0.8, ("gaussian", 0.1): 0.5, ("gaussian", 0.3): 0.6}
    records = {run.config.identity: record(run, values[run.config.dataset, run.config.dropout], 0) for run in runs}
    found = [best for best in tune(runs, records.get) if best.setting == "train"]
    assert [(best.point, best.value) for best in found] == [
        ({"dataset": "toy", "dropout": 0.1}, 0.9),
        ({"dataset": "gaussian", "dropout": 0.3}, 0.6),
    ]


def test_gains_over_several_data_sets_have_an_interval():
    """Each method's gain on the first one is a mean of paired differences; one data set has no means."""
    accuracies = {("ERM", "toy"): 0.5, ("ERM", "gaussian"): 0.7, ("PI", "toy"): 0.6, ("PI", "gaussian"): 0.9}
    methods = {"ERM": "erm", "PI": "pi"}
    runs = [PlannedRun(name, parse_run({"dataset": data, "method": methods[name]})) for name, data in accuracies]
    records = {}
    for run in runs:
        found = record(run, 0.0, 0.0)
        found["settings"] = {"train": found["settings"]["train"]}
        found["settings"]["train"]["test"] = {"accuracy": 0.1, "worst": accuracies[run.name, run.config.dataset]}
        records[run.config.identity] = found
    erm, pi = average_over_data(tune(runs, records.get))
    assert (erm["worst group"], pi["worst group"]) == (pytest.approx(0.6), pytest.approx(0.75))
    assert (pi["test accuracy"], pi["better in"], erm["gain on ERM"]) == (pytest.approx(0.1), "2 of 2", 0.0)
    reach = 12.7062 * 0.05  # Student's quantile of one degree of freedom times the standard error of 0.1 and 0.2
    assert (pi["low"], pi["high"]) == (pytest.approx(0.15 - reach, abs=1e-4), pytest.approx(0.15 + reach, abs=1e-4))
    assert average_over_data(tune(runs[::2], records.get)) == []


def test_points_with_fewer_seeds_do_not_compete():
    """One lucky seed does not beat the mean of two."""
    finished = [planned(0.1, 0), planned(0.1, 1), planned(0.3, 0)]
    records = {run.config.identity: record(run, run.config.dropout, 0) for run in finished}
    best = tune(RUNS, records.get)[0]
    assert (best.point, best.n_seeds, best.n_points) == ({}, 2, 1)


class Store:
    """Keeps records in memory and counts the runs; the best dropout is 0.4."""

    def __init__(self, folder):
        self.folder, self.records, self.n_run = folder, {}, 0

    def read(self, identity):
        """Return a record, or None."""
        return self.records.get(identity)

    def run(self, runs):
        """Run what has no record."""
        new = [run for run in runs if run.config.identity not in self.records]
        self.n_run += len(new)
        for run in new:
            value = 1 - abs(run.config.dropout - 0.4) + 0.001 * run.config.seed
            self.records[run.config.identity] = record(run, value, 0.5)
        return SweepResult(len(runs), len(runs), len(new))


def test_a_study_chooses_points_and_goes_on(tmp_path):
    """Each point is run once with all its seeds; a second sweep runs nothing, more trials more; the best is found."""
    pytest.importorskip("optuna")
    content = {
        "name": "search",
        "seeds": [0, 1],
        "run": {"dataset": "toy", "dropout": [round(0.05 * i, 2) for i in range(12)]},
        "methods": [{"method": "erm"}, {"method": "pi"}],
        "search": {"sampler": "optuna", "trials": 4},
    }
    store = Store(tmp_path)
    chosen, done = search_points(parse_experiment(content), store, store.run)
    assert len(chosen) == store.n_run == 2 * 4 * 2
    assert (done.n_runs, done.n_new) == (16, 16)
    assert (tmp_path / "optuna.journal").is_file()
    again, done = search_points(parse_experiment(content), store, store.run)
    assert {run.config.identity for run in again} == {run.config.identity for run in chosen}
    assert (store.n_run, done.n_new) == (16, 0)
    content["search"] = {"sampler": "optuna", "trials": 50}
    everything, _ = search_points(parse_experiment(content), store, store.run)
    assert len(everything) == 2 * 12 * 2
    assert {best.point["dropout"] for best in tune(everything, store.read) if best.setting == "train"} == {0.4}


def test_halving_keeps_the_best_third_of_each_round(tmp_path):
    """Nine points for two epochs, three for four, one with all epochs and seeds: the best; again, nothing is run."""
    content = {
        "seeds": [0, 1],
        "run": {"dataset": "toy", "dropout": [round(0.1 * i, 1) for i in range(9)]},
        "methods": [{"method": "erm"}, {"method": "pi"}],
        "search": {"sampler": "halving", "epochs": [2, 4]},
    }
    store = Store(tmp_path)
    chosen, done = search_points(parse_experiment(content), store, store.run)
    assert [(run.config.method, run.config.dropout, run.config.seed) for run in chosen] == [
        ("erm", 0.4, 0), ("erm", 0.4, 1), ("pi", 0.4, 0), ("pi", 0.4, 1),
    ]  # fmt: skip
    epochs = [record["config"].get("max_epochs") for record in store.records.values()]
    assert {count: epochs.count(count) for count in (2, 4, None)} == {2: 18, 4: 6, None: 4}
    assert epochs[:14] == [2] * 9 + [4] * 3 + [None] * 2  # one method is finished before the next begins
    assert (done.n_runs, done.n_new) == (4, 28)
    assert search_points(parse_experiment(content), store, store.run)[1].n_new == 0


def test_a_search_is_checked():
    """An unknown sampler or key is refused with the file's name."""
    content = {"methods": [{"method": "erm"}], "run": {"dataset": "toy"}}
    with pytest.raises(ConfigError, match=r"\[search\] has a value of 'sampler' that cannot be used"):
        parse_experiment({**content, "search": {"sampler": "random"}})
    with pytest.raises(ConfigError, match=r"\[search\] has an unknown key 'trails'. Did you mean 'trials'"):
        parse_experiment({**content, "search": {"sampler": "optuna", "trails": 3}})
