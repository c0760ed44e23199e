import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from holdfast import ERMClassifier, load, save
from holdfast.tables import model as table_model


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predict_writes_labels_and_probabilities_in_order(holdfast, hospitals, tmp_path, monkeypatch, suffix):
    """Chunks of 64 rows give the same as the whole table through the loaded pipeline."""
    monkeypatch.setattr(table_model, "CHUNK_ROWS", 64)
    table, out = hospitals.folder / f"test.{suffix}", tmp_path / f"p.{suffix}"
    outcome = holdfast("predict", hospitals.folder / "pi", table, "--keep", "site", "--out", out)
    assert outcome.code == 0
    assert re.match(r"Predicted 200 rows: \d\d\.\d% (ill|well), ", outcome.out)
    written = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert list(written.columns) == ["site", "prediction", "probability_ill", "probability_well"]
    assert written["site"].tolist() == ["Boston"] * 100 + ["Denver"] * 100
    pipeline = load(hospitals.folder / "pi")
    features = pd.read_parquet(hospitals.folder / "test.parquet")[["marker", "scanner", "sex"]].astype(
        {"scanner": object}
    )
    np.testing.assert_allclose(written["probability_ill"], pipeline.predict_proba(features)[:, 0], rtol=1e-12)
    expected = np.where(written["probability_ill"] > 0.5, "ill", "well")
    assert written["prediction"].tolist() == expected.tolist()


def test_predict_counts_as_json(holdfast, hospitals, tmp_path):
    """One object with the number of rows for each predicted label."""
    out = tmp_path / "p.csv"
    result = holdfast("predict", hospitals.folder / "erm", hospitals.test, "--out", out, "--json").json
    assert result["n_rows"] == 200
    assert sum(result["predicted"].values()) == 200
    assert result["out"] == str(out)


def test_columns_may_be_reordered_extra_or_partly_missing(holdfast, hospitals, tmp_path):
    """Only the fitted columns count, wherever they stand; levels never seen and empty cells are fine."""
    frame = pd.DataFrame({"sex": ["x", None], "other": [1, 2], "scanner": ["C", None], "marker": [None, 1.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("predict", hospitals.folder / "pi", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert outcome.code == 0, outcome.err
    assert len(pd.read_csv(tmp_path / "p.csv")) == 2


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"marker": [1.0], "sex": ["f"]}, "Column 'scanner' is missing, and the classifier needs it."),
        (
            {"marker": ["high"], "sex": ["f"], "scanner": ["A"]},
            "column 'marker' contains 'high' (line 2), which is not a",
        ),
        ({"marker": [np.inf], "sex": ["f"], "scanner": ["A"]}, "Column 'marker' is infinite or beyond 1e+100"),
    ],
)
def test_tables_that_do_not_fit_are_refused(holdfast, hospitals, tmp_path, frame, message):
    """Missing columns, other types and infinite values: code 2, one line, nothing written."""
    pd.DataFrame(frame).to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("predict", hospitals.folder / "pi", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_parquet_columns_of_another_type_are_refused(holdfast, hospitals, tmp_path):
    """A Parquet file knows its types: numbers where levels were fitted are refused."""
    pd.DataFrame({"marker": [1.0], "sex": ["f"], "scanner": [3]}).to_parquet(tmp_path / "t.parquet")
    outcome = holdfast("predict", hospitals.folder / "pi", tmp_path / "t.parquet", "--out", tmp_path / "p.csv")
    assert outcome.err == (
        "error: Column 'scanner' contains number values such as '3', but it contained string values when the "
        "classifier was fitted. Convert it to string values.\n"
    )


def test_output_file_is_checked_before_the_work(holdfast, hospitals, tmp_path):
    """Type, folder, existing file and the input itself."""
    folder = hospitals.folder / "pi"
    (tmp_path / "p.csv").write_text("old")
    for out, message in (
        (tmp_path / "p.xlsx", "is of the unknown type '.xlsx'. Use one of .csv, .tsv, .parquet, .pq."),
        (tmp_path / "none" / "p.csv", "is in a folder that does not exist. Create it first."),
        (tmp_path / "p.csv", "exists. Choose another file, or pass --overwrite."),
        (hospitals.test, "is the input itself. Choose another file."),
    ):
        outcome = holdfast("predict", folder, hospitals.test, "--out", out)
        assert (outcome.code, outcome.err) == (2, f"error: --out {out} {message}\n")
    assert (tmp_path / "p.csv").read_text() == "old"
    assert holdfast("predict", folder, hospitals.test, "--out", tmp_path / "p.csv", "--overwrite").code == 0


def test_folders_that_are_no_saved_tables_are_refused(holdfast, hospitals, tmp_path):
    """A folder that does not exist, and a classifier that was not fitted on a table."""
    outcome = holdfast("predict", tmp_path / "none", hospitals.test, "--out", tmp_path / "p.csv")
    assert (outcome.code, outcome.err) == (
        2,
        f"error: The model folder '{tmp_path / 'none'}' does not exist. Check the path.\n",
    )
    save(ERMClassifier().fit(np.arange(8.0).reshape(-1, 1), [0, 1] * 4), tmp_path / "m")
    outcome = holdfast("predict", tmp_path / "m", hospitals.test, "--out", tmp_path / "p.csv")
    assert outcome.code == 2
    assert "is a classifier that was not fitted on a table" in outcome.err


def test_a_scikit_learn_model_predicts_without_torch(hospitals, tmp_path):
    """What was fitted without a network is loaded and used without torch, which takes seconds to import."""
    script = (
        "import sys\nfrom holdfast.cli import app\n"
        "try:\n    app(['predict', *sys.argv[1:]], prog_name='holdfast')\n"
        "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)\n"
    )
    args = [str(hospitals.folder / "pi"), str(hospitals.test), "--out", str(tmp_path / "p.csv")]
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False"


def test_a_pipe_in_and_a_pipe_out(holdfast, hospitals, tmp_path):
    """Rows come from standard input with semicolons; standard output has the predictions and nothing else."""
    rows = pd.read_csv(hospitals.test).to_csv(index=False, sep=";", decimal=",")
    command = [sys.executable, "-m", "holdfast", "predict", str(hospitals.folder / "erm"), "-"]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, check=True)
    holdfast("predict", hospitals.folder / "erm", hospitals.test, "--out", tmp_path / "p.csv")
    assert done.stdout == (tmp_path / "p.csv").read_text()
    assert done.stderr == "note: standard input is read as separated by semicolons, with decimal commas\n"
    outcome = holdfast("predict", hospitals.folder / "erm", hospitals.test, "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert "where --json would print. Name a file with --out." in outcome.err


def test_the_layout_of_text_is_an_option(holdfast, hospitals, tmp_path):
    """What separates cells and the encoding can be said; what cannot be is refused with the option's name."""
    text = pd.read_csv(hospitals.test).to_csv(index=False, sep="~")
    (tmp_path / "t.csv").write_bytes(text.encode("utf-16-le"))
    options = ("--separator", "~", "--encoding", "utf-16-le")
    outcome = holdfast("predict", hospitals.folder / "erm", tmp_path / "t.csv", *options, "--out", tmp_path / "p.csv")
    assert (outcome.code, outcome.err) == (0, "")
    outcome = holdfast("predict", hospitals.folder / "erm", hospitals.test, "--separator", "::", "--out", "-")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--separator :: must be one character" in outcome.err


def test_recalibrating_corrects_the_level_at_a_site_with_other_rates(holdfast, hospitals, tmp_path):
    """Labeled rows of the new site bring the predicted share to the true one; the order of the rows stays."""
    site = pd.read_csv(hospitals.test)
    site = pd.concat([site[site["diagnosis"] == "ill"]] * 9 + [site[site["diagnosis"] == "well"]])
    site.to_csv(tmp_path / "site.csv", index=False)
    plain, corrected = tmp_path / "plain.csv", tmp_path / "corrected.csv"
    call = ("predict", hospitals.folder / "erm", tmp_path / "site.csv", "--out")
    assert holdfast(*call, plain).code == 0
    outcome = holdfast(*call, corrected, "--recalibrate", tmp_path / "site.csv")
    assert f"recalibratedwith{tmp_path / 'site.csv'};wrote" in "".join(outcome.out.split())  # wrapped anywhere
    before, after = pd.read_csv(plain)["probability_ill"], pd.read_csv(corrected)["probability_ill"]
    truth = (site["diagnosis"] == "ill").mean()
    assert after.mean() == pytest.approx(truth, abs=0.01)
    assert abs(before.mean() - truth) > 0.1
    assert (np.argsort(before, kind="stable").to_numpy() == np.argsort(after, kind="stable").to_numpy()).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["ill"] * 200,
            "at least two classes of 'diagnosis'. The label is 'ill' in all 200 labeled",
        ),
        (["ill", "dead"] * 100, "has labels that the classifier does not know: dead. It knows ill, well."),
    ],
)
def test_rows_that_cannot_recalibrate_are_refused(holdfast, hospitals, tmp_path, labels, message):
    """One class says nothing about the level of both, and an unknown label is a mistake."""
    pd.read_csv(hospitals.test).assign(diagnosis=labels).to_csv(tmp_path / "labeled.csv", index=False)
    call = ("predict", hospitals.folder / "erm", hospitals.test, "--out", tmp_path / "p.csv")
    outcome = holdfast(*call, "--recalibrate", tmp_path / "labeled.csv")
    assert outcome.code == 2
    assert message in outcome.err
