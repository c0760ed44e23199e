import re
import shlex

import numpy as np
import pandas as pd
import pytest

OPTIONS = ("--label", "ill", "--environment", "site")
SITES = ("Boston", "Chicago", "Denver")


@pytest.fixture(scope="module")
def patients():
    """Return rows of three sites; the scanner tells the diagnosis at two of them, and the opposite at the third."""
    generator = np.random.default_rng(0)
    sites, ill = np.repeat(SITES, 150), generator.integers(2, size=450)
    agreement = np.array([{"Boston": 0.95, "Chicago": 0.75, "Denver": 0.1}[site] for site in sites])
    return pd.DataFrame(
        {
            "site": sites,
            "marker": (generator.normal(size=450) + 1.5 * ill).round(2),
            "scanner": np.where(generator.random(450) < agreement, ill, 1 - ill),
            "ill": ill,
        }
    )


def test_answer_tables_and_a_next_command_that_runs(holdfast, patients, tmp_path):
    """The answer comes first, the five questions below in 80 columns, and the last line can be pasted."""
    patients.to_csv(tmp_path / "rows.csv", index=False)
    outcome = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--out", tmp_path / "page.html")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("An ordinary model breaks at a site it has not seen, mostly because effects of")
    questions = ("1. Does the model break?", "2. Why?", "3. Which columns?", "4. Is the data sound?", "5. What should")
    places = [outcome.out.index(f"\n{question}") for question in questions]
    assert places == sorted(places)
    *lines, last = outcome.out.splitlines()
    assert max(map(len, (line for line in lines if not line.startswith("Wrote ")))) <= 80
    assert ": the model at known sites, out of fold" in outcome.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "will the model hold at the next site?" in page
    assert last.removeprefix("Next: ").split(" --")[0] in re.sub("</?span>", "", page)
    words = shlex.split(last.removeprefix("Next: "))
    assert words[:2] == ["holdfast", "fit"]
    assert words[-2:] == ["--out", "model"]
    assert holdfast(*words[1:-1], tmp_path / "model").code == 0


def test_notes_end_with_one_period_and_small_sites_have_names(holdfast, patients, tmp_path):
    """Several sites are left out at a time, which a note says; of few rows, the smallest site is named."""
    rows = patients.assign(site=[f"S{row % 11}" for row in range(450)])[:130]
    rows.loc[rows.index[:3], "site"] = "tiny"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    outcome = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS)
    assert outcome.code == 0, outcome.err
    assert "several at a time.\n" in outcome.out
    assert "first in tiny." in outcome.out.replace("\n", " ")


def test_json_has_all_of_it(holdfast, patients, tmp_path):
    """--json has the same answer, scores, parts, columns and the recommendation."""
    patients.to_csv(tmp_path / "rows.csv", index=False)
    result = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--json").json
    assert result["answer"] == result["text"]
    assert [site["name"] for site in result["sites"]] == list(SITES)
    assert result["recommendation"]["action"] == "stable"
    assert [column["feature"] for column in result["columns"]] == ["scanner"]
    assert result["cause"] == "concept_shift"
    assert result["next"].startswith("holdfast fit ")
    fitted = holdfast("fit", tmp_path / "rows.csv", *OPTIONS, "--out", tmp_path / "model", "--json").json["verdict"]
    assert result["forecast"] == fitted["forecast"]
    assert result["verdict"]["n_tests"] == fitted["n_tests"] == 2


def test_question_marks_lead_to_the_option(holdfast, patients, tmp_path):
    """Numbers with question marks are noted; the next command reads them as missing, and so does the saved model."""
    patients["marker"] = patients["marker"].astype(str).mask(np.arange(len(patients)) % 11 == 0, "?")
    file = tmp_path / "rows.csv"
    patients.to_csv(file, index=False)
    outcome = holdfast("diagnose", file, *OPTIONS)
    assert "note: 'marker' has numbers and '?'" in outcome.err
    assert "pass --missing '?' if that means a missing value" in outcome.err
    assert outcome.out.splitlines()[-1].endswith("--missing '?'")
    options = (*OPTIONS, "--method", "erm", "--missing", "?", "--out", tmp_path / "model", "--json")
    assert holdfast("fit", file, *options).json["columns"] == {"marker": "numeric", "scanner": "numeric"}
    patients.to_parquet(tmp_path / "rows.parquet", index=False)
    results = [
        holdfast("evaluate", tmp_path / "model", tmp_path / f"rows.{kind}", "--json").json
        for kind in ("csv", "parquet")
    ]
    assert results[0]["overall"]["accuracy"] == results[1]["overall"]["accuracy"]
    out = tmp_path / "out.csv"
    assert holdfast("predict", tmp_path / "model", tmp_path / "rows.parquet", "--out", out).code == 0
    refused = holdfast("audit", tmp_path / "model", file, "--missing", "?")
    assert (refused.code, "--missing cannot be used with a saved model" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "page.csv"), "--out page.csv is of the unknown type '.csv'"),
        (("--estimator", "logistc"), "There is no estimator 'logistc'. Did you mean 'logistic'?"),
    ],
)
def test_bad_options_are_refused_before_the_table_is_read(holdfast, tmp_path, options, message):
    """A wrong page or estimator is noticed at once."""
    outcome = holdfast("diagnose", tmp_path / "not there.csv", *OPTIONS, *options)
    assert (outcome.code, message in outcome.err) == (2, True)


def sound_patients(n_rows=600):
    """Return rows of three sites at which the same columns tell the diagnosis."""
    generator = np.random.default_rng(1)
    ill = generator.integers(2, size=n_rows)
    return pd.DataFrame(
        {
            "site": np.array(SITES)[np.arange(n_rows) % 3],
            "marker": (generator.normal(size=n_rows) + 1.5 * ill).round(2),
            "age": (generator.normal(60, 10, n_rows) + 5 * ill).round(),
            "weight": generator.normal(80, 10, n_rows).round(1),
            "ill": ill,
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_wrong_with_the_data_is_the_headline(holdfast, tmp_path, suffix):
    """A code for missing values and a leak come first; the next command mends both, and then nothing is wrong."""
    rows = sound_patients()
    rows["code"] = np.where(rows["ill"] == 1, "X1", "Y2")
    rows["age"] = rows["age"].mask(np.arange(len(rows)) % 15 == 0, 999.0)
    file = tmp_path / f"rows.{suffix}"
    rows.to_csv(file, index=False) if suffix == "csv" else rows.to_parquet(file, index=False)
    found = holdfast("diagnose", file, *OPTIONS, "--json").json
    assert found["answer"].startswith("`code` alone predicts `ill` in 100% of rows, which looks like a leak. `age` is")
    assert [(p["key"], p["column"]) for p in found["problems"]] == [("leak", "code"), ("sentinel", "age")]
    assert found["next"].endswith("--missing 999 --drop code")
    again = holdfast(*shlex.split(found["next"])[1:], "--json").json
    assert again["problems"] == []
    assert again["recommendation"]["action"] in ("keep", "recalibrate")


def test_clinical_measures_by_site_and_pooled(holdfast, tmp_path):
    """Calibration and net benefit of every site left out, pooled with what to expect at the next site."""
    sound_patients().to_csv(tmp_path / "rows.csv", index=False)
    outcome = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--threshold", "0.3")
    assert "Calibration and net benefit at left-out sites (event: 1)" in outcome.out
    assert "net benefit at a risk of 0.30; treating nobody has 0" in outcome.out
    assert "If rows with a risk of 0.30 or more are treated" in outcome.out
    assert max(map(len, outcome.out.splitlines()[:-1])) <= 80
    holdfast("fit", tmp_path / "rows.csv", *OPTIONS, "--method", "erm", "--out", tmp_path / "model")
    clinical = holdfast("evaluate", tmp_path / "model", tmp_path / "rows.csv", "--json").json["clinical"]
    assert [site["name"] for site in clinical["sites"]] == list(SITES)
    assert [pooled["measure"] for pooled in clinical["pooled"]][:4] == ["auroc", "oe", "slope", "intercept"]
    assert 0 < clinical["sites"][0]["sensitivity"]["value"] < 1
    assert len(clinical["curves"]["pooled"]) == len(clinical["curves"]["risks"])
    assert clinical["threshold"] == pytest.approx(0.5, abs=0.1)


def test_a_score_of_any_tool_is_measured_without_fitting(holdfast, tmp_path):
    """The site that is off is named, the page has the same sections, and the next command runs as pasted."""
    rows = sound_patients()
    chance = rows.groupby("site")["ill"].transform("mean")
    generator = np.random.default_rng(0)
    rows["risk"] = (0.2 + 0.6 * rows["ill"] * generator.random(len(rows)) + 0.1 * chance).clip(0.01, 0.99)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    page = tmp_path / "page.html"
    outcome = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--score", "risk", "--out", page)
    assert outcome.code == 0, outcome.err
    assert "fit 1 of" not in outcome.err
    assert "risk at every site (95 % intervals)" in outcome.out
    text = page.read_text(encoding="utf-8")
    for title in ("Calibration by site", "Decision curves", "Predicted risk by outcome", "For TRIPOD-Cluster"):
        assert f"<figcaption>{title}</figcaption>" in text or f'<p class="caption">{title}</p>' in text
    found = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--score", "risk", "--json").json
    assert [site["name"] for site in found["clinical"]["sites"]] == list(SITES)
    assert found["next"].endswith("--drop risk")
    assert holdfast(*shlex.split(found["next"])[1:], "--json").code == 0


def test_a_saved_model_is_measured_without_fitting(holdfast, tmp_path):
    """--model takes the folder of fit; a label that it does not predict, and two models at once, are refused."""
    file, model = tmp_path / "rows.csv", tmp_path / "model"
    sound_patients().to_csv(file, index=False)
    holdfast("fit", file, *OPTIONS, "--method", "erm", "--out", model)
    found = holdfast("diagnose", file, *OPTIONS, "--model", model, "--threshold", "0.4", "--json").json
    assert found["known"] == list(SITES)
    assert found["clinical"]["threshold"] == 0.4
    assert found["next"] == f"holdfast evaluate {model} {file}"
    both = holdfast("diagnose", file, *OPTIONS, "--model", model, "--score", "age")
    assert both.code == 2
    assert "Pass only one of them" in both.err
    other = holdfast("diagnose", file, "--label", "age", "--environment", "site", "--model", model)
    assert "predicts 'ill', not 'age'" in other.err


def test_weights_of_rows_count_in_fits_and_measures(holdfast, tmp_path):
    """A row of weight three gives the accuracies of three rows, and the weight is no feature."""
    rows = sound_patients().assign(times=lambda frame: 1 + 2 * (np.arange(len(frame)) % 4 == 0))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    found = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--weight", "times", "--json").json
    assert "--weight times" in found["next"]
    plain = holdfast("diagnose", tmp_path / "rows.csv", *OPTIONS, "--drop", "times", "--json").json
    assert found["clinical"]["sites"][0]["n_rows"] == plain["clinical"]["sites"][0]["n_rows"]
    assert found["accuracy"]["new"] != plain["accuracy"]["new"]
    fitted = holdfast(
        "fit",
        tmp_path / "rows.csv",
        *OPTIONS,
        "--weight",
        "times",
        "--method",
        "erm",
        "--out",
        tmp_path / "m",
        "--json",
    ).json
    assert "times" not in fitted["columns"]
