"""Tables 3 and 4, running times, and the correlations of attributes in the halves."""

import math
from dataclasses import astuple

import pytest

from holdfast.lab import paper
from holdfast.lab.experiments import PlannedRun
from holdfast.lab.targets.reports import (
    plan_ablation,
    plan_irm,
    report_ablation,
    report_correlations,
    report_irm,
    report_natural,
    report_time,
)
from holdfast.lab.targets.sources import Options, Plan, make_run
from holdfast.reports.values import Spread


def test_claims_of_the_text_stand_beside_ours():
    """PI's mean worst accuracy minus DRO's and minus IRM's, in percent."""
    worst = {"erm": 0.3, "group_dro": 0.5, "irm": 0.4, "rgm": 0.45, "pi": 0.6}
    attribute = {"worst": 0.1, "average": 0.2, "worst_low": 0.0, "worst_high": 0.3, "worst_rows": 4}
    runs, records = [], {}
    for method, value in worst.items():
        run = PlannedRun(f"ask2me {paper.METHODS[method]}", make_run("ask2me", method, Options(quick=True)))
        test = {"worst": value, "average": 0.7, "attributes": {"melanoma": attribute}}
        settings = {"train": {"selection": "worst_group_validation", "test": test}}
        records[run.config.identity] = {"settings": settings, "data": {"notes": []}}
        runs.append(run)
    means, claims, *_ = report_natural("ask2me", Plan(tuple(runs)), lambda config: records[config.identity]).tables
    assert means.note == "Selection: worst_group_validation."
    assert [row[1:] for row in claims.rows] == [
        (6.81, pytest.approx(10.0)), (pytest.approx(16.29), pytest.approx(20.0)),
    ]  # fmt: skip
    assert "PI over IRM, mean of ASK2ME and CelebA, 12.41" in claims.note


def test_running_times_are_those_of_the_processor():
    """A run that had half a core for 400 s of both stages took 200 s, however long it then went on for other rows."""
    run = PlannedRun("mnist PI", make_run("mnist", "pi", Options(quick=True)))
    found = {"selection": "min_train_validation", "seconds": 300.0, "epochs": 7, "training_score": 0.6}
    scores = {"validation": {"accuracy": 0.7}, "test": {"accuracy": 0.7}}
    record = {
        "seconds": 1000.0,
        "cpu_seconds": 500.0,
        "stages": {"stage 1: E1": {"seconds": 100.0}, "stage 3": {"seconds": 800.0}},
        "settings": {"train": found | scores},
        "data": {"notes": []},
    }
    (table,) = report_time(Plan((run,)), lambda config: record).tables
    assert table.columns[3] == "core min"
    assert table.rows[0][3] == Spread(pytest.approx(200 / 60), pytest.approx(math.nan, nan_ok=True))


def record(values, n_correct):
    """Return a run on two environments; `values` are the correlations of `a` and `b` in the halves."""
    environments = [
        {"environment": name, "n_rows": 10, "correlations": {"a": 0.5, "b": 0.1, "Male": math.nan}}
        for name in ("Male=0", "Male=1")
    ]
    halves = [
        {
            "judged": judged,
            "judge": judge,
            "half": half,
            "n_rows": n,
            "correlations": dict(zip("ab", found, strict=True)),
        }
        for judged, judge in (("Male=1", "Male=0"), ("Male=0", "Male=1"))
        for half, n, found in (("correct", n_correct, values[0]), ("mistaken", 10 - n_correct, values[1]))
    ]
    return {"data": {"environments": environments, "notes": []}, "halves": halves}


@pytest.fixture
def report():
    """Return the report of two seeds."""
    runs = [PlannedRun("celeba", make_run("celeba", "halves", Options(quick=True), seed=seed)) for seed in (0, 1)]
    records = [record([(0.4, 0.2), (-0.2, 0.3)], 6), record([(0.2, 0.2), (-0.4, math.nan)], 7)]
    found = {run.config.identity: one for run, one in zip(runs, records, strict=True)}
    return report_correlations(Plan(tuple(runs)), lambda config: found[config.identity])


def test_the_table_has_means_and_spreads_over_seeds(report):
    """Each cell is the mean, with the spread where several seeds know it."""
    table = report.tables[0]
    assert table.title == "celeba: correlation with the label, mean of 2 seeds"
    assert table.columns[3] == "Male=1 by Male=0: correct"
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert astuple(table.rows[0][3]) == pytest.approx((0.3, 0.02**0.5))
    assert astuple(table.rows[1][4]) == pytest.approx((0.3, math.nan), nan_ok=True)
    assert "Male=1 by Male=0: correct: 6–7" in table.note


def test_opposite_signs_are_counted_in_every_seed(report):
    """The count's mean and spread, and each seed's own, without the attributes that a half does not know."""
    assert report.tables[1].rows[0] == ("celeba", "Male=1", "Male=0", "22 of 38", Spread(1.0, 0.0), "1 of 2, 1 of 1")
    assert "Judges are selected by other_environments." in report.tables[1].note


def test_the_picture_is_that_of_the_means(report):
    """An environment stands above its halves."""
    (picture,) = report.figures
    assert picture.rows == (
        "Male=0 (10)", "Male=0 by Male=1: correct (6–7)", "Male=0 by Male=1: mistaken (3–4)",
        "Male=1 (10)", "Male=1 by Male=0: correct (6–7)", "Male=1 by Male=0: mistaken (3–4)",
    )  # fmt: skip
    assert picture.breaks == (3,)
    assert picture.values[1] == pytest.approx((0.3, 0.2))


def test_irm_has_curves_of_accuracy_cross_entropy_and_penalty():
    """Points are means over seeds at the powers of ten; the penalty has a logarithmic axis."""
    options = Options(quick=True, n_seeds=2)

    def read(config):
        score = 0.5 + 0.1 * config.seed
        setting = {
            "selection": "min_train_validation", "training_score": 0.9, "epoch": 3,
            "validation": {"accuracy": 0.8}, "test": {"accuracy": score},
            "penalty": {"risk": 1.0 + config.seed, "penalty": score / 10},
        }  # fmt: skip
        return {"settings": {"train": setting, "test": setting}, "data": {"notes": []}}

    accuracy, cross_entropy, penalty = report_irm(plan_irm(options), read).figures
    assert [line.y for line in cross_entropy.lines] == [pytest.approx((1.5,) * 3)] * 2
    lines = {line.name: line for figure in (accuracy, penalty) for line in figure.lines}
    assert {line.name for line in accuracy.lines} == {
        f"{rows} rows, validation {as_}" for rows in ("training", "test") for as_ in ("as test", "as training")
    }
    assert lines["test rows, validation as test"].x == pytest.approx((-2, 1, 4))
    assert lines["test rows, validation as test"].y == pytest.approx((0.55,) * 3)
    assert penalty.log
    assert lines["validation as training"].y == pytest.approx((0.055,) * 3)


@pytest.mark.parametrize(("small", "ending", "told"), [(True, ", smaller training", True), (False, "as test", False)])
def test_irm_has_a_smaller_training_that_is_named(monkeypatch, small, ending, told):
    """It is longer than the warm-up, has the authors' settings otherwise, and is known again from its records."""
    monkeypatch.setattr("holdfast.lab.targets.reports.find_missing", lambda key, options: None)
    plan = plan_irm(Options(small=small, n_seeds=1))
    config = plan.runs[0].config
    assert (config.max_epochs, config.penalty_weight, config.learning_rate) == (15 if small else 1000, 0.01, 1e-3)
    assert config.max_epochs * config.steps_per_epoch > config.warm_up
    recorded = tuple({"config": run.config.as_dict()} for run in plan.runs)
    assert plan_irm(Options(recorded=recorded, n_seeds=1)).runs == plan.runs
    setting = {
        "selection": "min_train_validation", "training_score": 0.9, "epoch": 3, "validation": {"accuracy": 0.8},
        "test": {"accuracy": 0.5}, "penalty": {"risk": 1.0, "penalty": 0.1},
    }  # fmt: skip
    table, _ = report_irm(
        plan, lambda run: {"settings": {"train": setting, "test": setting}, "data": {"notes": []}}
    ).tables
    assert table.title.endswith(ending)
    assert ("Trained for 15 epochs." in table.note) == told


@pytest.mark.parametrize(("slope", "told"), [(1, "1.00 with their difference"), (-1, "-1.00 with their difference")])
def test_the_ablation_says_its_trend(slope, told):
    """Where accuracy follows the difference of the agreements, their rank correlation is one, or minus one."""
    plan = plan_ablation(Options(quick=True, n_seeds=1))

    def read(config):
        high, low = config.dataset_options["etas"]
        scores = {"selection": "min_train_validation", "test": {"accuracy": round(0.5 + slope * (high - low), 3)}}
        return {"settings": {"train": scores}, "data": {"notes": []}}

    (table,) = report_ablation(plan, read).tables
    assert f"over 3 pairs: {told}" in table.note
    (one,) = report_ablation(Plan(plan.runs[:1]), read).tables
    assert "Rank correlation" not in one.note
