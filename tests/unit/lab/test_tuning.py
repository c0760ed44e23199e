"""Choosing grid points."""

import math

import pytest

from holdfast.lab.experiments import PlannedRun, parse_run
from holdfast.lab.tuning import tune


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


def test_points_with_fewer_seeds_do_not_compete():
    """One lucky seed does not beat the mean of two."""
    finished = [planned(0.1, 0), planned(0.1, 1), planned(0.3, 0)]
    records = {run.config.identity: record(run, run.config.dropout, 0) for run in finished}
    best = tune(RUNS, records.get)[0]
    assert (best.point, best.n_seeds, best.n_points) == ({}, 2, 1)
