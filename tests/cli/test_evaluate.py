import numpy as np
import pandas as pd
import pytest


def test_scores_agree_with_the_predictions(holdfast, hospitals, tmp_path):
    """Accuracies by environment and by label × attribute are those of the written predictions."""
    holdfast("predict", hospitals.folder / "pi", hospitals.test, "--out", tmp_path / "p.csv")
    truth = pd.read_csv(hospitals.test)
    truth["right"] = truth["diagnosis"] == pd.read_csv(tmp_path / "p.csv")["prediction"]
    options = ("--attribute", "sex", "--attribute", "scanner", "--positive", "ill", "--json")
    result = holdfast("evaluate", hospitals.folder / "pi", hospitals.test, *options).json
    assert result["overall"]["accuracy"]["value"] == truth["right"].mean()
    by_site = {e["name"]: e for e in result["environments"]}
    assert by_site["Denver"]["accuracy"]["value"] == truth[truth["site"] == "Denver"]["right"].mean()
    assert (by_site["Boston"]["known"], by_site["Denver"]["known"]) == (True, False)
    assert by_site["Boston"]["shares"] == {"ill": 0.5, "well": 0.5}
    cells = truth.groupby(["diagnosis", "scanner"])["right"].mean()
    scanner = result["attributes"][1]
    assert scanner["worst"]["value"] == cells.min()
    assert scanner["average"]["value"] == pytest.approx(cells.mean())
    assert scanner["worst"]["low"] < cells.min() < scanner["worst"]["high"]
    mean = (truth.groupby(["diagnosis", "sex"])["right"].mean().min() + cells.min()) / 2
    assert result["mean_over_attributes"]["worst"] == pytest.approx(mean)
    ill = truth[truth["diagnosis"] == "ill"]["right"].mean()
    assert result["overall"]["sensitivity"] == pytest.approx(ill)
    assert 0.5 < result["overall"]["auroc"] <= 1


def test_baseline_shows_price_and_gain(holdfast, hospitals):
    """PI is worse than ERM where the scanner helps, and much better where it misleads."""
    comparison = holdfast(
        "evaluate", hospitals.folder / "pi", hospitals.test, "--baseline", hospitals.folder / "erm", "--json"
    ).json["comparison"]
    assert comparison["baseline"]["method"] == "erm"
    assert comparison["known"]["value"] <= 0
    assert comparison["new"]["value"] > 0.2
    assert comparison["new"]["low"] > 0.1
    boston = comparison["environments"][0]
    assert boston["difference"]["value"] == pytest.approx(boston["accuracy"] - boston["baseline_accuracy"])
    assert boston["difference"] == comparison["known"]


def test_text_fits_80_columns(holdfast, hospitals):
    """Tables, legend and comparison."""
    outcome = holdfast(
        "evaluate", hospitals.folder / "pi", hospitals.test, "--attribute", "scanner", "--baseline",
        hospitals.folder / "erm",
    )  # fmt: skip
    assert outcome.code == 0
    body = [line for line in outcome.out.splitlines() if not line.startswith(("Against", "Next"))]  # they have paths
    assert max(map(len, body)) <= 80
    for part in ("Denver (new)", "Boston (known)", "all rows", "price at known environments:", "gain at new"):
        assert part in outcome.out


def test_a_table_without_environments_is_one_environment(holdfast, hospitals, tmp_path):
    """Said in a note; labels and features are enough."""
    pd.read_csv(hospitals.test).drop(columns="site").to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("evaluate", hospitals.folder / "pi", tmp_path / "t.csv", "--json")
    assert "note: there is no environment column 'site': all rows count as one environment\n" in outcome.err
    assert [e["name"] for e in outcome.json["environments"]] == ["all rows"]


def test_unlike_prevalence_is_warned_of(holdfast, hospitals, tmp_path):
    """Nine in ten ill at one site and half at the other: the theory's assumption does not hold."""
    frame = pd.read_csv(hospitals.test)
    keep = (frame["site"] == "Denver") | (frame["diagnosis"] == "ill") | (frame.index % 16 == 0)
    frame[keep].to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("evaluate", hospitals.folder / "pi", tmp_path / "t.csv", "--json")
    assert outcome.json["unlike_prevalence"] == ["Boston"]
    assert outcome.err == f"warning: {outcome.json['warnings'][0]}\n"
    assert "The class frequencies of Boston differ much from those elsewhere" in outcome.err


def test_labels_never_fitted_count_as_mistaken(holdfast, hospitals, tmp_path):
    """They are named, and left out of the scores of probabilities."""
    frame = pd.read_csv(hospitals.test).head(40)
    frame.loc[:9, "diagnosis"] = "unclear"
    frame.to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("evaluate", hospitals.folder / "pi", tmp_path / "t.csv", "--json")
    assert outcome.json["labels_never_fitted"] == ["unclear"]
    assert outcome.json["overall"]["accuracy"]["value"] <= 0.75
    assert outcome.json["overall"]["log_loss"] is not None
    assert "note: the classifier was not fitted on the label 'unclear'" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--attribute", "sxe"], "has no column 'sxe'. Did you mean 'sex'?"),
        (["--positive", "sick"], "There is no label 'sick'. Choose from 'ill', 'well'."),
        (["--environment", "state"], "has no column 'state'. Did you mean 'site'?"),
        (["--baseline", "none"], "The model folder 'none' does not exist. Check the path."),
    ],
)
def test_bad_input_is_one_line_and_code_2(holdfast, hospitals, options, message):
    """Columns, labels and folders that do not exist."""
    outcome = holdfast("evaluate", hospitals.folder / "pi", hospitals.test, *options)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert message in outcome.err


def test_exchanged_labels_are_noticed(holdfast, tmp_path):
    """Rows of a site whose labels are turned are ranked upside down, which the first sentence says."""
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=600)
    frame = pd.DataFrame({"site": np.repeat(["A", "B", "C"], 200), "marker": ill + rng.normal(size=600), "ill": ill})
    frame[:400].to_csv(tmp_path / "train.csv", index=False)
    frame[400:].assign(ill=1 - ill[400:]).to_csv(tmp_path / "turned.csv", index=False)
    frame[400:].to_csv(tmp_path / "fine.csv", index=False)
    columns = ("--label", "ill", "--environment", "site", "--method", "erm")
    assert holdfast("fit", tmp_path / "train.csv", *columns, "--out", tmp_path / "m").code == 0
    said = "In C the ranking is reversed"
    assert said in " ".join(holdfast("evaluate", tmp_path / "m", tmp_path / "turned.csv").out.split())
    assert said not in " ".join(holdfast("evaluate", tmp_path / "m", tmp_path / "fine.csv").out.split())
