"""`holdfast recalibrate`."""

import pandas as pd
import pytest


def test_a_recalibrated_model_is_saved_and_evaluated(holdfast, hospitals, tmp_path):
    """The command says what was corrected, and `evaluate` and `predict` take the result."""
    out = tmp_path / "denver"
    table = pd.read_csv(hospitals.test).query("site == 'Denver'")
    table[:60].to_csv(tmp_path / "labeled.csv", index=False)
    outcome = holdfast("recalibrate", hospitals.folder / "erm", tmp_path / "labeled.csv", "--out", out)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("Recalibrated the slope and intercept with 60 labeled rows. About 100 would be")
    assert "Next: holdfast evaluate" in outcome.out
    table[60:].to_csv(tmp_path / "rest.csv", index=False)
    losses = [
        holdfast("evaluate", folder, tmp_path / "rest.csv", "--json").json["overall"]["log_loss"]
        for folder in (hospitals.folder / "erm", out)
    ]
    assert losses[1] < losses[0] - 0.5
    predicted = holdfast("predict", out, tmp_path / "rest.csv", "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err


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
