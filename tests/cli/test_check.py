"""`holdfast check`."""

import re

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a stable model, and rows of a site in another unit."""
    from .conftest import invoke  # noqa: TID252 - runs a command

    folder = tmp_path_factory.mktemp("check")
    generator = np.random.default_rng(0)
    ill = generator.integers(2, size=900)
    age = 60 + 10 * ill + generator.normal(0, 10, 900)
    table = pd.DataFrame({"site": np.repeat(["A", "B", "C"], 300), "age": age, "ill": np.where(ill, "yes", "no")})
    table.to_csv(folder / "train.csv", index=False)
    table[:200].drop(columns="ill").to_csv(folder / "fine.csv", index=False)
    table[:200].assign(age=12 * age[:200]).drop(columns="ill").to_csv(folder / "months.csv", index=False)
    options = ("--label", "ill", "--environment", "site", "--out", folder / "model")
    assert invoke("fit", folder / "train.csv", *options).code == 0
    return folder


def test_the_first_line_is_the_advice(holdfast, folder):
    """Use it; then the forecast, the predictions, and the next command."""
    outcome = holdfast("check", folder / "model", folder / "fine.csv")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("Use the model at this site.\nExpected accuracy: 0.")
    assert "Next: holdfast predict" in outcome.out


def test_rows_of_several_sites_are_said(holdfast, folder):
    """A file with two sites is a mixture, about which an answer says little; one site says nothing."""
    said = "These rows come from 2 sites (A, B). The answer is about the mixture: pass the rows of one site"
    pd.read_csv(folder / "train.csv")[:600].to_csv(folder / "two.csv", index=False)
    assert said in " ".join(holdfast("check", folder / "model", folder / "two.csv").out.split())
    assert "come from" not in holdfast("check", folder / "model", folder / "fine.csv").out


def test_ages_in_months_are_found(holdfast, folder, tmp_path):
    """The advice, the page, and the warning of `predict`."""
    page = tmp_path / "page.html"
    outcome = holdfast("check", folder / "model", folder / "months.csv", "--out", page)
    assert outcome.out.startswith("Do not use the model at this site yet: `age` must be repaired first.\n`age` may be")
    assert "Next: holdfast check" in outcome.out
    html = page.read_text(encoding="utf-8")
    assert "The model cannot be used at this site yet" in html
    assert "may be in another unit" in html
    predicted = holdfast("predict", folder / "model", folder / "months.csv", "--out", tmp_path / "p.csv")
    assert predicted.code == 0
    assert re.search(r"warning: `age` may be in another unit", predicted.err)


def test_json_has_all_of_it(holdfast, folder):
    """One object."""
    result = holdfast("check", folder / "model", folder / "fine.csv", "--json").json
    assert result["advice"] == "use"
    assert result["n_rows"] == 200
    assert result["forecast"]["low"] < result["forecast"]["value"] < result["forecast"]["high"]
    assert sum(result["predicted"].values()) == pytest.approx(1)


def test_a_missing_column_is_named(holdfast, folder, tmp_path):
    """Code 2 and one line."""
    pd.DataFrame({"aeg": [1.0, 2.0]}).to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("check", folder / "model", tmp_path / "t.csv")
    assert outcome.code == 2
    assert "Column 'age' is missing" in outcome.err


def test_a_few_rows_are_no_reason_to_use_a_model(holdfast, folder):
    """Ten rows say little: the advice is to label some."""
    pd.read_csv(folder / "fine.csv")[:10].to_csv(folder / "ten.csv", index=False)
    outcome = holdfast("check", folder / "model", folder / "ten.csv")
    assert outcome.out.startswith("Label about 50 rows of this site")
    assert "10 rows are too few to say much about a site. Pass 30 or more." in " ".join(outcome.out.split())
