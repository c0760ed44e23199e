"""`holdfast recalibrate`."""

import re

import numpy as np
import pandas as pd
import pytest


def test_a_recalibrated_model_is_saved_and_evaluated(holdfast, hospitals, tmp_path):
    """The command says what was done, and `evaluate` and `predict` take the result, which is better."""
    out = tmp_path / "boston"
    table = pd.read_csv(hospitals.test).sample(frac=1, random_state=0)
    sick = (table["diagnosis"] == table["diagnosis"].max()).to_numpy()
    table = table[sick | (np.arange(len(table)) % 4 == 0)]  # patients without it are rare there
    table[:60].to_csv(tmp_path / "labeled.csv", index=False)
    outcome = holdfast("recalibrate", hospitals.folder / "pi", tmp_path / "labeled.csv", "--out", out)
    assert outcome.code == 0, outcome.err
    assert re.match(
        r"Recalibrated with 60 labeled rows\. Their AUROC is 0\.\d\d \[[^:]+\]\. About \d+ labeled rows would be "
        r"enough\. ",
        " ".join(outcome.out.split()),
    )
    assert "Next: holdfast evaluate" in outcome.out
    table[60:].to_csv(tmp_path / "rest.csv", index=False)
    losses = [
        holdfast("evaluate", folder, tmp_path / "rest.csv", "--json").json["overall"]["log_loss"]
        for folder in (hospitals.folder / "pi", out)
    ]
    assert losses[1] < losses[0] - 0.02
    predicted = holdfast("predict", out, tmp_path / "rest.csv", "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err


def test_a_ranking_that_is_upside_down_is_not_recalibrated(holdfast, hospitals, tmp_path):
    """The ordinary classifier ranks Denver's patients upside down: said first, nothing is saved, and what to do."""
    table = pd.read_csv(hospitals.test).query("site == 'Denver'")[:60]
    table.to_csv(tmp_path / "labeled.csv", index=False)
    outcome = holdfast("recalibrate", hospitals.folder / "erm", tmp_path / "labeled.csv", "--out", tmp_path / "m")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("The ranking is reversed at this site (AUROC 0.")
    assert "Nothing was saved." in outcome.out
    assert "Next: holdfast check" in outcome.out
    assert not (tmp_path / "m").exists()


def test_the_result_as_json(holdfast, hospitals, tmp_path):
    """Coefficients, the number of labels, and how many would be enough."""
    command = ("recalibrate", hospitals.folder / "erm", hospitals.test, "--out", tmp_path / "m", "--json")
    result = holdfast(*command).json
    assert result["n_labels"] == 200
    assert result["kind"] in ("none", "intercept", "slope and intercept")
    assert len(result["intercepts"]) == len(result["classes"]) == 2
    assert set(result["probabilities"]) == {"none", "intercept", "slope and intercept"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["marker", "scanner", "sex"], "'diagnosis'"), (["diagnosis", "marker", "sex"], "Column 'scanner' is missing")],
)
def test_columns_that_are_not_there_are_named(holdfast, hospitals, tmp_path, columns, message):
    """A table without labels, or without a feature: code 2, one line, nothing written."""
    pd.read_csv(hospitals.test)[columns].to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("recalibrate", hospitals.folder / "erm", tmp_path / "t.csv", "--out", tmp_path / "m")
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "m").exists()


def test_an_existing_model_is_not_replaced_by_accident(holdfast, hospitals):
    """--out on a saved model needs --overwrite."""
    outcome = holdfast("recalibrate", hospitals.folder / "erm", hospitals.test, "--out", hospitals.folder / "pi")
    assert outcome.code != 0
    assert "already contains a saved model" in outcome.err
