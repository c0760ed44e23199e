"""`holdfast adapt` and `holdfast predict --adapt`."""

import numpy as np
import pandas as pd
import pytest


def patients(site, n_rows, agreement, seed):
    """Return rows whose marker tells 3 of 4 diagnoses, and whose scanner tells `agreement` of them."""
    generator = np.random.default_rng(seed)
    ill = generator.integers(2, size=n_rows)
    marker = np.where(generator.random(n_rows) < 0.75, ill, 1 - ill)
    scanner = np.where(generator.random(n_rows) < agreement, ill, 1 - ill)
    return pd.DataFrame({"site": site, "marker": marker, "scanner": scanner, "diagnosis": np.where(ill, "ill", "well")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a stable model, and rows of a site where the scanner turned."""
    from .conftest import invoke  # noqa: TID252 - runs a command

    folder = tmp_path_factory.mktemp("adapt")
    train = pd.concat([patients("Boston", 1000, 0.95, 0), patients("Chicago", 1000, 0.85, 1)])
    train.to_csv(folder / "train.csv", index=False)
    denver = patients("Denver", 500, 0.1, 2)
    denver.to_csv(folder / "denver-labeled.csv", index=False)
    denver.drop(columns="diagnosis").to_csv(folder / "denver.csv", index=False)
    options = ("--label", "diagnosis", "--environment", "site", "--out", folder / "model")
    assert invoke("fit", folder / "train.csv", *options).code == 0
    return folder


def accuracy(holdfast, model, table):
    """Return the accuracy that `evaluate` finds."""
    return holdfast("evaluate", model, table, "--json").json["overall"]["accuracy"]["value"]


def test_an_adapted_model_is_saved(holdfast, folder, tmp_path):
    """The command says what was learned, and `evaluate` finds the gain: 0.75 becomes 0.9."""
    outcome = holdfast("adapt", folder / "model", folder / "denver.csv", "--out", tmp_path / "denver")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("Adapted to 500 rows without labels: the classifier has learned the effect of\n")
    assert "`scanner` agrees with the label in 1" in outcome.out
    assert "Next: holdfast predict" in outcome.out
    before = accuracy(holdfast, folder / "model", folder / "denver-labeled.csv")
    assert before == pytest.approx(0.75, abs=0.04)
    assert accuracy(holdfast, tmp_path / "denver", folder / "denver-labeled.csv") == pytest.approx(0.9, abs=0.03)


def test_predict_adapts_first(holdfast, folder, tmp_path):
    """The predictions are those of the adapted model; labels that are there are not used."""
    out = tmp_path / "p.csv"
    result = holdfast("predict", folder / "model", folder / "denver-labeled.csv", "--adapt", "--out", out, "--json")
    assert result.json["adaptation"]["adapted"]
    truth = pd.read_csv(folder / "denver-labeled.csv")["diagnosis"]
    assert (pd.read_csv(out)["prediction"] == truth).mean() > 0.86
    assert "The label column 'diagnosis' is ignored." in result.err


def test_a_refusal_saves_nothing(holdfast, folder, tmp_path):
    """Ten rows are too few: said, exit code 0, and no folder."""
    pd.read_csv(folder / "denver.csv")[:10].to_csv(tmp_path / "few.csv", index=False)
    outcome = holdfast("adapt", folder / "model", tmp_path / "few.csv", "--out", tmp_path / "m")
    assert outcome.code == 0
    assert outcome.out.startswith("Not adapted: it needs at least 30 rows of the site.")
    assert "Nothing was saved." in outcome.out
    assert not (tmp_path / "m").exists()


def test_other_methods_are_refused(holdfast, hospitals, tmp_path):
    """Code 2 and one line."""
    outcome = holdfast("adapt", hospitals.folder / "erm", hospitals.test, "--out", tmp_path / "m")
    assert outcome.code == 2
    assert "Only a classifier of the method 'stable' can be adapted" in outcome.err
