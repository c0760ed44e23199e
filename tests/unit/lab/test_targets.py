"""Which runs the tables need, and what they show."""

import sys
from dataclasses import astuple

import numpy as np
import pytest

from holdfast.estimators.pi import RECIPES
from holdfast.exceptions import MissingExtraError
from holdfast.lab import paper, runner
from holdfast.lab.execution import run_on_ray
from holdfast.lab.experiments import PlannedRun, parse_experiment
from holdfast.lab.inputs import Prepared
from holdfast.lab.reproduction import compact
from holdfast.lab.store import RunStore
from holdfast.lab.targets import TARGETS
from holdfast.lab.targets.reports import report_table1
from holdfast.lab.targets.results import summarize
from holdfast.lab.targets.sources import Options, Plan, make_like_test, make_run


def test_runs_have_the_authors_settings():
    """Table 1's runs on MNIST are those of the authors; halves are those of PI."""
    run = make_run("mnist", "irm", Options(), seed=2)
    assert (run.weight_decay, run.dropout, run.warm_up, run.penalty_weight, run.seed) == (1e-2, 0.5, 1000, 0.01, 2)
    assert (run.estimator, run.batch_size, run.patience, run.max_epochs) == ("cnn", 50, 20, 1000)
    assert run.dataset_options == {"test_colorings": 10}
    halves = make_run("mnist", "halves", Options())
    assert halves.as_dict() == {
        "dataset": "colored_mnist", "method": "halves", "estimator": "cnn", "weight_decay": 0.01, "dropout": 0.5,
    }  # fmt: skip


def test_each_validation_column_has_its_own_settings(tmp_path, monkeypatch):
    """IRM on MNIST has the authors' settings where validation is like training, a strong penalty otherwise."""
    monkeypatch.setattr("holdfast.lab.targets.sources.find_missing", lambda key, options: None)
    (tmp_path / "wiki.en.vec").touch()
    plan = TARGETS["table1"].plan(Options(tmp_path, n_seeds=1))
    runs = {run.name: run.config for run in plan.runs}
    published, tuned = runs["mnist IRM"], runs["mnist IRM, as test"]
    assert (published.validations, published.penalty_weight, published.learning_rate) == (("train",), 0.01, 1e-3)
    assert (tuned.validations, tuned.penalty_weight, tuned.learning_rate) == (("test",), 10_000.0, 1e-4)
    assert (tuned.warm_up, tuned.weight_decay) == (1000, 1e-3)
    assert runs["mnist ERM"].validations == ("train", "test")
    assert runs["mnist IRM"] in [run.config for run in TARGETS["time"].plan(Options(tmp_path, n_seeds=1)).runs]


def test_texts_have_the_robust_recipe_as_it_is(tmp_path, monkeypatch):
    """The recipe decides what the run does not set: judges stop early, the final network trains for 800 steps."""
    monkeypatch.setattr("holdfast.lab.targets.sources.find_missing", lambda key, options: None)
    (tmp_path / "wiki.en.vec").touch()
    plan = TARGETS["table1"].plan(Options(tmp_path, n_seeds=1))
    run = next(run for run in plan.runs if run.name == "beer_look PI, robust")
    network = runner.make_estimator(run.config, Prepared(None))
    final = RECIPES["robust"].network(network, final=True)
    assert (final.max_epochs, final.learning_rate, final.options_for("network")["dropout"], final.loss) == (
        16,
        2e-3,
        0.3,
        "gce",
    )
    assert RECIPES["robust"].network(network, final=False).patience == 2


@pytest.mark.parametrize("target", ["table2", "correlations"])
def test_a_finished_run_of_pi_serves_for_its_halves(target, tmp_path):
    """Halves are not made twice: PI's record holds them; a record of the halves alone comes first."""
    plan = TARGETS[target].plan(Options(tmp_path, quick=True, n_seeds=1))
    run = plan.runs[0]
    assert (run.config.method, run.served_by.method) == ("halves", "pi")
    pi, halves = run.served_by.identity, run.config.identity
    assert plan.served(set().__contains__).runs[0].config.method == "halves"
    assert plan.served({pi}.__contains__).runs[0].config == run.served_by
    assert plan.served({pi, halves}.__contains__).runs[0].config == run.config
    assert plan.served({pi}.__contains__).runs[1:] == plan.runs[1:]


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_quick_plans_need_no_files(target, tmp_path):
    """Every quick run is on synthetic data, and the seeds asked for are there."""
    plan = TARGETS[target].plan(Options(tmp_path, quick=True, n_seeds=2))
    assert plan.runs
    assert plan.missing == ()
    assert all(run.config.synthetic or run.config.dataset == "toy" for run in plan.runs)


def test_the_ablation_has_45_pairs(tmp_path, monkeypatch):
    """All pairs of ten agreements, the larger in E1."""
    monkeypatch.setattr("holdfast.lab.targets.reports.find_missing", lambda key, options: None)
    (tmp_path / "wiki.en.vec").touch()
    plan = TARGETS["ablation"].plan(Options(tmp_path, n_seeds=1))
    etas = [tuple(run.config.dataset_options["etas"]) for run in plan.runs]
    assert len(set(etas)) == 45
    assert all(high > low for high, low in etas)
    assert {run.config.dataset_options["aspect"] for run in plan.runs} == {"aroma"}
    authors = make_run("beer_aroma", "pi", Options(tmp_path))
    for name in ("learning_rate", "max_epochs", "estimator_options"):
        assert {str(getattr(run.config, name)) for run in plan.runs} == {str(getattr(authors, name))}
    small = TARGETS["ablation"].plan(Options(tmp_path, n_seeds=1, small=True)).runs[0].config
    assert (small.max_epochs, small.estimator_options) == (12, {"n_filters": 100})


def test_table1_is_compared_with_the_paper():
    """Means, spreads and differences come from the records; the gain is over the best baseline."""
    found = {"erm": (0.2, 0.1), "group_dro": (0.3, 0.2), "irm": (0.4, 0.1), "rgm": (0.4, 0.1), "pi": (0.7, 0.7)}
    options = Options(n_seeds=2)
    runs, records = [], {}
    for method, (test, train) in found.items():
        for seed in (0, 1):
            title = f"mnist {paper.METHODS[method]}"
            made = [PlannedRun(title, make_run("mnist", method, options, seed=seed))]
            if method in paper.LIKE_TEST["mnist"]:
                made.append(PlannedRun(f"{title}, as test", make_like_test("mnist", method, options, seed=seed)))
            runs += made
            for run in made:
                scores = {
                    setting: {"selection": "min_train_validation", "test": {"accuracy": value + 0.02 * seed}}
                    for setting, value in (("test", test), ("train", train))
                    if setting in run.config.validations
                }
                records[run.config.identity] = {"settings": scores, "data": {"notes": ["as the paper"]}}
    table, claims = report_table1(Plan(tuple(runs)), lambda config: records[config.identity]).tables
    row = next(row for row in table.rows if row[1] == "PI" and row[2] == "as training")
    assert row[3:5] == ("authors'", 69.68)
    assert astuple(row[5]) == pytest.approx((71.0, 2**0.5))
    assert row[6] == pytest.approx(71.0 - 69.68)
    assert row[7:] == (2,)
    irm = {row[2]: (row[3], row[5].value) for row in table.rows if row[1] == "IRM"}
    assert irm == {"as test": ("ours", pytest.approx(41.0)), "as training": ("authors'", pytest.approx(11.0))}
    assert [claim[1:3] for claim in claims.rows[:3]] == [
        (12.97, pytest.approx(30.0)), (20.06, pytest.approx(50.0)), (23.85, pytest.approx(60.0)),
    ]  # fmt: skip
    assert [claim[3] for claim in claims.rows] == ["MNIST: 30.0", "MNIST: 50.0", "MNIST: 60.0", "not run"]
    assert table.note == "Selection: min_train_validation. as the paper."


def test_kept_records_have_a_texts_words_but_not_the_text():
    """Words stand by the alphabet, each with what it weighs; histories are left out."""
    words = {"row": 0, "label": 1, "prediction": 1, "words": ["nice", "dark", "nice"], "drops": [0.3, 0.1, 0.2]}
    kept = compact({"identity": "a", "settings": {"train": {"history": [1], "words": words, "value": 0.5}}})
    assert kept["settings"]["train"] == {
        "words": {**words, "words": ["dark", "nice", "nice"], "drops": [0.1, 0.3, 0.2]}, "value": 0.5,
    }  # fmt: skip
    assert words["words"] == ["nice", "dark", "nice"]


def test_spreads():
    """One seed has no spread, none no mean."""
    assert astuple(summarize([1.0, 3.0]).cell()) == pytest.approx((2.0, 2**0.5))
    assert summarize([1.0]).n_seeds == 1
    assert summarize([float("nan")]).cell() is None


def test_a_cluster_needs_ray(tmp_path, monkeypatch):
    """Without the extra one sentence says how to get it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    experiment = parse_experiment({"run": {"dataset": "toy"}, "methods": [{"method": "erm"}]})
    with pytest.raises(
        MissingExtraError,
        match=r"^Sweeps on a cluster need ray, .* pip install -c constraints.txt '.\[ray\]' in a clone of holdfast\.$",
    ):
        run_on_ray(experiment.runs, RunStore(tmp_path))


def test_the_toy_figure_has_three_panels(tmp_path):
    """E1 with x2 = y, the halves of E2 with x2 = y and its opposite, and their mixture, where x2 says nothing."""
    plan = TARGETS["toy"].plan(Options(tmp_path))
    halves = next(run.config for run in plan.runs if run.config.method == "halves")
    record = runner.run(halves, cache=tmp_path)
    (figure,) = TARGETS["toy"].report(plan, lambda config: record if config == halves else None).figures
    same, opposite, nothing = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]], [[0.25, 0.25]] * 2
    np.testing.assert_allclose(figure.values, [*same, *same, *opposite, *nothing], atol=1e-12)
    assert figure.breaks == (2, 4, 6)


def test_the_toy_table_does_without_a_run_that_is_not_there(tmp_path):
    """What is finished is shown, whichever it is."""
    plan = TARGETS["toy"].plan(Options(tmp_path))
    test = {"environments": {"0.9": 0.9, "0.1": 0.1}}
    told = TARGETS["toy"].report(
        plan, lambda config: {"settings": {"train": {"test": test}}} if config.method == "erm" else None
    )
    (table,) = told.tables
    assert table.columns[:3] == ("method", "0.9", "0.1")
    assert [row[0] for row in table.rows] == ["ERM"]
