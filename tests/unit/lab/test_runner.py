"""One run: two validation settings from one training, halves, scores, warnings."""

import sys
import time

import pytest

from holdfast.exceptions import ConfigError
from holdfast.lab import validation
from holdfast.lab.experiments import parse_run
from holdfast.lab.runner import run
from holdfast.lab.validation import CheckpointMonitor, SettingsMonitor

DIGITS = {
    "dataset": "colored_digits",
    "estimator": "linear",
    "learning_rate": 0.01,
    "max_epochs": 12,
    "steps_per_epoch": 5,
    "batch_size": 20,
    "patience": 2,
    "precision": "fp32",
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """PI with both settings at once, and with each of them alone."""
    cache = tmp_path_factory.mktemp("cache")
    choices = {"both": ["train", "test"], "train": ["train"], "test": ["test"]}
    return {
        name: run(parse_run({**DIGITS, "method": "pi", "validations": validations}), cache=cache)
        for name, validations in choices.items()
    }


@pytest.mark.parametrize("setting", ["train", "test"])
def test_one_training_serves_both_settings(records, setting):
    """Each setting selects, stops and scores as if it had been trained for alone; its history ends at its own stop."""
    both, alone = (dict(records[name]["settings"][setting]) for name in ("both", setting))
    assert both.pop("seconds") >= 0
    assert alone.pop("seconds") >= 0
    assert both == alone
    assert len(both["history"]) == both["epochs"] <= 12
    assert both["epochs"] == min(both["epoch"] + 2, 12)
    best = both["history"][both["epoch"] - 1]
    assert both["value"] == pytest.approx(min(best["training_score"], best["validation_score"]), abs=1e-5)
    assert both["validation"]["accuracy"] == pytest.approx(best["validation_score"], abs=1e-5)


class Cut(Exception):
    """The end of a process."""


@pytest.mark.parametrize("moment", [7, 19])
def test_a_run_that_was_cut_goes_on(records, tmp_path, monkeypatch, moment):
    """Cut in any stage and run again, the record is that of a run that was not; its time is that of both parts."""
    config = parse_run({**DIGITS, "method": "pi"})
    seen = []

    def epoch(self, report, look=SettingsMonitor.epoch):
        if len(seen) < moment:
            time.sleep(0.1)
        look(self, report)
        seen.append(report.epoch)
        if len(seen) == moment:
            raise Cut("cut here")

    monkeypatch.setattr(validation, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(SettingsMonitor, "epoch", epoch)
    with pytest.raises(Cut, match="cut here"):
        run(config, cache=tmp_path, checkpoints=tmp_path / "checkpoints")
    resumed = run(config, cache=tmp_path, checkpoints=tmp_path / "checkpoints")
    assert len(seen) < 2 * moment + 30
    assert resumed["seconds"] > 0.1 * (moment - 2)  # a checkpoint after two epochs
    for name, setting in records["both"]["settings"].items():
        found = dict(resumed["settings"][name])
        assert {**found, "seconds": 0} == {**setting, "seconds": 0}
    assert resumed["halves"] == records["both"]["halves"]
    epochs = {name: stage["epochs"] for name, stage in resumed["stages"].items()}
    assert epochs == {name: stage["epochs"] for name, stage in records["both"]["stages"].items()}


def test_halves_do_not_depend_on_the_validation_rows(records, tmp_path):
    """Stages 1 and 2 see the training environments alone; run without stage 3 they are the same."""
    assert records["train"]["halves"] == records["test"]["halves"]
    alone = run(parse_run({**DIGITS, "method": "halves"}), cache=tmp_path)
    assert alone["halves"] == records["both"]["halves"]
    assert "settings" not in alone


def test_a_record_says_how_it_came_about(records):
    """Versions, threads, precision, settings, sizes and times are in the record."""
    record = records["both"]
    assert record["identity"] == parse_run({**DIGITS, "method": "pi"}).identity
    assert {"holdfast", "numpy", "torch", "threads", "precision"} <= set(record["runtime"])
    assert record["runtime"]["precision"] == "fp32"
    assert record["config"]["max_epochs"] == 12
    assert list(record["stages"]) == ["stage 1: E1", "stage 1: E2", "stage 3"]
    assert record["seconds"] > 0
    assert [e["environment"] for e in record["data"]["environments"]] == ["E1", "E2"]
    assert record["data"]["environments"][0]["correlations"]["color"] > 0.8
    n_rows = sum(half["n_rows"] for half in record["halves"])
    assert n_rows == record["data"]["n_train"]


def test_tables_of_numbers_and_texts_are_run_by_trees_and_lines(tmp_path):
    """A table is prepared for scikit-learn's estimators; each attribute has a worst and an average accuracy."""
    for estimator in ("logistic", "boosting"):
        config = {"dataset": "adult", "method": "erm", "estimator": estimator, "synthetic": True}
        record = run(parse_run(config), cache=tmp_path)
        setting = record["settings"]["train"]
        assert list(record["settings"]) == ["train"]
        assert setting["selection"] == "one fit"
        assert setting["test"]["accuracy"] > 0.6
        assert set(setting["test"]["attributes"]) == {"race", "workclass"}
        assert setting["test"]["worst"] <= setting["test"]["average"]


def test_texts_with_fixed_vectors_are_explained_word_by_word(tmp_path):
    """Word vectors and a vocabulary over all splits reach the network; one review's words get their importance."""
    config = {
        "dataset": "beer", "method": "erm", "synthetic": True, "estimator": "text_cnn", "vectors": "vectors.npz",
        "estimator_options": {"n_filters": 4}, "max_epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "explain": 1,
    }  # fmt: skip
    record = run(parse_run(config), cache=tmp_path)
    words = record["settings"]["train"]["words"]
    assert len(words["words"]) == len(words["drops"]) == 21
    assert record["data"]["vector_dimension"] == 16
    assert record["data"]["coverage"] > 0.9


def test_several_texts_are_explained(tmp_path):
    """explain_rows = 3 from row 1 on: three reviews, each with the words of its own text."""
    config = {
        "dataset": "beer", "method": "erm", "synthetic": True, "estimator": "text_cnn", "vectors": "vectors.npz",
        "estimator_options": {"n_filters": 4}, "max_epochs": 1, "steps_per_epoch": 2, "batch_size": 8,
        "explain": 1, "explain_rows": 3,
    }  # fmt: skip
    setting = run(parse_run(config), cache=tmp_path)["settings"]["train"]
    assert [review["row"] for review in setting["reviews"]] == [1, 2, 3]
    assert "words" not in setting


def test_a_known_attribute_refines_the_groups(tmp_path):
    """PI's halves are cut by its values and the label, which are group DRO's groups; other methods have none."""
    config = {"dataset": "adult", "method": "pi", "estimator": "logistic", "synthetic": True, "known_attribute": "race"}
    plain = run(parse_run({**config, "known_attribute": None}), cache=tmp_path)["settings"]["train"]["test"]
    known = run(parse_run(config), cache=tmp_path)["settings"]["train"]["test"]
    assert known["attributes"] != plain["attributes"]
    assert run(parse_run({**config, "method": "group_dro"}), cache=tmp_path)["settings"]
    with pytest.raises(ConfigError, match="Method 'irm' has no groups that known_attribute could refine"):
        run(parse_run({**config, "method": "irm", "estimator": "mlp"}), cache=tmp_path)
    with pytest.raises(ConfigError, match="Data set 'adult' has no attribute 'rase' that could be known. Did you mean"):
        run(parse_run({**config, "known_attribute": "rase"}), cache=tmp_path)


def test_irm_reports_its_penalty(tmp_path):
    """The penalty and the risk on the training rows are beside the scores."""
    config = {**DIGITS, "method": "irm", "penalty_weight": 10.0, "warm_up": 5, "max_epochs": 2}
    found = run(parse_run(config), cache=tmp_path)["settings"]["train"]["penalty"]
    assert 0 <= found["penalty"] < found["risk"]


def test_an_oracle_needs_a_planted_attribute(tmp_path):
    """Natural data have no oracle."""
    with pytest.raises(ConfigError, match="Data set 'adult' has no planted attribute"):
        run(
            parse_run({"dataset": "adult", "method": "oracle", "estimator": "logistic", "synthetic": True}),
            cache=tmp_path,
        )


def test_records_say_seed_and_rule(records):
    """Also where they are the defaults, which the settings leave out."""
    record = records["both"]
    assert (record["seed"], record["selection"]) == (0, "min_train_validation")
    assert record["runtime"]["threads"] >= 1


def test_the_last_epoch_is_worth_its_validation_accuracy(tmp_path):
    """Not its number, by which all points of a grid would be equal."""
    record = run(parse_run({**DIGITS, "method": "erm", "selection": "last"}), cache=tmp_path)
    for setting in record["settings"].values():
        assert setting["epoch"] == 12
        assert setting["value"] == setting["validation"]["accuracy"]


def test_one_fit_is_worth_its_worst_group_where_the_rule_says_so(tmp_path):
    """The least accurate label in any environment of the validation rows."""
    settings = {"dataset": "adult", "synthetic": True, "method": "erm", "estimator": "logistic"}
    plain, worst = (
        run(parse_run({**settings, "selection": rule}), cache=tmp_path)["settings"]["train"]
        for rule in ("validation_accuracy", "worst_group_validation")
    )
    assert plain["value"] == plain["validation"]["accuracy"] == worst["validation"]["accuracy"]
    assert worst["value"] < min(worst["validation"]["environments"].values())


def test_a_label_of_the_test_rows_alone_does_not_shift_the_others(tmp_path):
    """Outputs stand for the labels of the training rows: "b" between "a" and "c" is none of them."""
    rows = [
        f"{site},{label},{value + number / 100}"
        for site in ("north", "south", "east")
        for label, value in (("a", -1), ("c", 1), *((("b", 0),) if site == "east" else ()))
        for number in range(20)
    ]
    (tmp_path / "table.csv").write_text("\n".join(["site,diagnosis,marker", *rows]))
    (tmp_path / "table.toml").write_text(
        'file = "table.csv"\nlabel = "diagnosis"\nenvironment = "site"\ntest_environments = ["east"]\n'
    )
    settings = {**DIGITS, "dataset": "table", "method": "erm", "validations": ["train"], "learning_rate": 0.1}
    found = run(parse_run(settings), folder=tmp_path, cache=tmp_path / "cache")["settings"]["train"]
    best = found["history"][found["epoch"] - 1]
    assert best["validation_score"] == found["validation"]["accuracy"] == 1.0


QUICK = {
    "dataset": "toy", "dataset_options": {"n_rows": 40, "test_etas": [1.0]}, "method": "erm", "estimator": "mlp",
    "steps_per_epoch": 2, "batch_size": 5, "max_epochs": 30, "patience": 3, "precision": "fp32",
}  # fmt: skip


class Stopped(Exception):
    """Ends a run from inside."""


def test_a_run_cut_between_selection_and_training_ends_at_the_same_epoch(tmp_path, monkeypatch):
    """The selection knows the end already, the training does not: its epochs are made again, all of them."""
    config = parse_run(QUICK)
    expected = run(config, cache=tmp_path, checkpoints=tmp_path / "whole")
    assert expected["stages"]["training"]["epochs"] % 5 > 1  # the last checkpoint before the end is not of the end

    training_checkpoints = sys.modules[CheckpointMonitor.__module__]
    write = training_checkpoints.write_checkpoint

    def dying(folder, state, **options):
        if state[0]["finished"]:
            raise Stopped
        write(folder, state, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training_checkpoints, "write_checkpoint", dying)
        with pytest.raises(Stopped, match="^$"):
            run(config, cache=tmp_path, checkpoints=tmp_path / "cut")
    resumed = run(config, cache=tmp_path, checkpoints=tmp_path / "cut")
    assert resumed["stages"]["training"]["epochs"] == expected["stages"]["training"]["epochs"]
    for name, setting in expected["settings"].items():
        assert resumed["settings"][name]["history"] == setting["history"]
        assert resumed["settings"][name]["test"] == setting["test"]
