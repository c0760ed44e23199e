"""The commands on a table whose label is an amount."""

import numpy as np
import pandas as pd

OPTIONS = ("--label", "cost", "--environment", "site")


def write_costs(file):
    """Write rows of three hospitals."""
    generator = np.random.default_rng(0)
    site, age = np.repeat(["Boston", "Chicago", "Denver"], 120), generator.normal(60, 10, 360).round()
    pd.DataFrame({"site": site, "age": age, "cost": (3 * age + generator.normal(0, 9, 360)).round(2)}).to_csv(
        file, index=False
    )
    return file


def test_diagnose_fit_evaluate_predict(holdfast, tmp_path):
    """The road of a classifier, with R² and RMSE; each command says that it is a regression."""
    file, page = write_costs(tmp_path / "costs.csv"), tmp_path / "page.html"
    found = holdfast("diagnose", file, *OPTIONS, "--out", page)
    assert found.code == 0, found.err
    assert "label 'cost' is numeric, so this is a regression; --task classification" in found.err
    assert "R², RMSE and mean error at left-out sites" in found.out
    assert found.out.rstrip().endswith("--task regression --out model")
    assert "RMSE at each site when it is left out" in page.read_text(encoding="utf-8")
    fitted = holdfast("fit", file, *OPTIONS, "--out", tmp_path / "model", "--json")
    assert (fitted.json["method"], fitted.json["verdict"]["fitted"]) == ("stable", "ordinary")
    scored = holdfast("evaluate", tmp_path / "model", file, "--json").json
    assert 0.85 < scored["overall"]["r2"] < 0.95
    assert [site["name"] for site in scored["sites"]] == ["Boston", "Chicago", "Denver"]
    assert "next site" not in scored["answer"]  # the rows that it was fitted on
    out = tmp_path / "predictions.csv"
    assert holdfast("predict", tmp_path / "model", file, "--keep", "site", "--out", out).code == 0
    assert list(pd.read_csv(out).columns) == ["site", "prediction"]


def test_a_column_that_reverses_is_named_by_both_commands(holdfast, tmp_path):
    """`diagnose` recommends the stable model, on the page too; `fit` makes it, and --caution goes with it."""
    file, page = write_costs(tmp_path / "costs.csv"), tmp_path / "page.html"
    frame, noise = pd.read_csv(file), np.random.default_rng(1).normal(0, 5, 360)
    centered = frame["cost"] - frame["cost"].mean()  # else all numbers of Denver are negative, which is said first
    frame["device"] = np.where(frame["site"] == "Denver", -1, 1) * centered + noise
    frame.to_csv(file, index=False)
    found = holdfast("diagnose", file, *OPTIONS, "--out", page)
    assert "Use the stable model, which relies less on `device`, a column whose effect differs" in " ".join(
        found.out.split()
    )
    assert "the effect of `device`" in found.out
    assert "Effects by site" in page.read_text(encoding="utf-8")
    fitted = holdfast("fit", file, *OPTIONS, "--out", tmp_path / "model")
    assert "table model: the effect of `device`" in fitted.out
    assert "R² on rows that it was not fitted on" in fitted.out
    kept = holdfast("fit", file, *OPTIONS, "--out", tmp_path / "kept", "--caution", "0", "--json").json
    assert kept["verdict"]["fitted"] == "ordinary"
    refused = holdfast("fit", file, *OPTIONS, "--out", tmp_path / "pi", "--method", "pi", "--caution", "0")
    assert "--method pi has no setting --caution 0.0" in refused.err


def test_what_is_wrong_with_the_data_comes_first(holdfast, tmp_path):
    """`diagnose` and `fit` name a column in another unit, and the next command converts it."""
    file = write_costs(tmp_path / "costs.csv")
    frame = pd.read_csv(file)
    weight = np.random.default_rng(1).normal(80, 12, len(frame)).round(1)
    frame["weight"] = np.where(frame["site"] == "Denver", (2.2046 * weight).round(1), weight)
    frame.to_csv(file, index=False)
    found = holdfast("diagnose", file, *OPTIONS, "--out", tmp_path / "page.html")
    said = " ".join(found.out.split())
    assert said.startswith("`weight` is about 2.2 times as large in Denver as elsewhere")
    assert "Is the data sound?" in said and "--scale weight@Denver=1/2.20462" in said
    assert "Correct the data first" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert holdfast("fit", file, *OPTIONS, "--out", tmp_path / "model", "--json").json["advice"]["rule"] == "wrong_data"


def test_what_belongs_to_classifiers_is_refused(holdfast, tmp_path):
    """Thresholds, recalibration and other commands say that the model is one of numbers."""
    file, model = write_costs(tmp_path / "costs.csv"), tmp_path / "model"
    holdfast("fit", file, *OPTIONS, "--method", "pi", "--out", model)
    outcome = holdfast("evaluate", model, file, "--threshold", "0.5")
    assert "is a regression model, which has no --threshold" in outcome.err
    assert "which --adapt and --recalibrate do not support" in holdfast("predict", model, file, "--adapt").err
    assert "is a regression model" in holdfast("check", model, file).err
    assert "is an amount, not a class" in holdfast("fit", file, *OPTIONS, "--task", "classification", "--out", "x").err
    assert "There is no --task 'ranking'" in holdfast("diagnose", file, *OPTIONS, "--task", "ranking").err


def test_gaps_are_read_as_in_the_fit(holdfast, tmp_path):
    """A text that means a missing value in the fit means one in predictions and scores, too."""
    file, out = write_costs(tmp_path / "costs.csv"), tmp_path / "predictions.csv"
    frame = pd.read_csv(file, dtype=str)
    frame.loc[:40, "age"] = "?"
    frame.to_csv(file, index=False)
    assert holdfast("fit", file, *OPTIONS, "--missing", "?", "--out", tmp_path / "model").code == 0
    assert holdfast("predict", tmp_path / "model", file, "--out", out).err == ""
    assert len(pd.read_csv(out)) == 360
