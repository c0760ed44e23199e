"""Tables as people have them: whole-number labels, times, codes with zeros, small sites, empty batches, long names."""

import numpy as np
import pandas as pd
import pytest


def made(sites=("a", "b"), n_rows=60, seed=0, **columns):
    """Return rows of each site whose marker follows the label."""
    rng = np.random.default_rng(seed)
    site = np.repeat(sites, n_rows)
    ill = rng.integers(2, size=len(site))
    return pd.DataFrame({"site": site, "marker": ill + rng.normal(size=len(site)), "ill": ill, **columns})


@pytest.fixture
def fitted(holdfast, tmp_path):
    """Return a function that writes a table, fits it with options, and gives the model's folder."""

    def fit(frame, *options, label="ill"):
        frame.to_csv(tmp_path / "train.csv", index=False)
        folder = tmp_path / "model"
        arguments = ("--label", label, "--environment", "site", "--out", folder, "--overwrite", *options)
        outcome = holdfast("fit", tmp_path / "train.csv", *arguments)
        assert outcome.code == 0, outcome.err
        return folder

    return fit


def test_whole_number_labels_are_scored_like_texts(holdfast, fitted, tmp_path):
    """A CSV's 0 and 1 are the classes that were fitted, with all scores and no word about unknown labels."""
    folder = fitted(made())
    made(seed=1).to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("evaluate", folder, tmp_path / "t.csv", "--json")
    assert "never fitted" not in outcome.err
    assert outcome.json["overall"]["auroc"] > 0.6
    assert outcome.json["overall"]["log_loss"] < 0.7
    assert set(outcome.json["environments"][0]["shares"]) == {"0", "1"}
    audited = holdfast("audit", folder, tmp_path / "t.csv", "--json")
    assert audited.code == 0
    assert audited.json["environments"] == ["a", "b"]


def test_times_of_day_are_seconds_at_every_step(holdfast, fitted, tmp_path):
    """What was fitted from a CSV is predicted from one."""
    times = [f"{hour:02d}:56:00" for hour in np.arange(120) % 24]
    folder = fitted(made(admitted=times))
    made(admitted=times, seed=1).to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("predict", folder, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert (outcome.code, outcome.err) == (0, "")


def test_codes_with_leading_zeros_stay_the_sites_they_were(holdfast, fitted, tmp_path):
    """Texts at fitting are texts at evaluation, also where a file has digits alone; so the other way round."""
    folder = fitted(made(sites=("0012", "00A3")))
    made(sites=("0012", "0013"), seed=1).to_csv(tmp_path / "t.csv", index=False)
    known = {
        e["name"]: e["known"] for e in holdfast("evaluate", folder, tmp_path / "t.csv", "--json").json["environments"]
    }
    assert known == {"0012": True, "0013": False}
    folder = fitted(made(sites=("0012", "0013")))
    made(sites=("0012", "00A3"), seed=1).to_csv(tmp_path / "t.csv", index=False)
    known = {
        e["name"]: e["known"] for e in holdfast("evaluate", folder, tmp_path / "t.csv", "--json").json["environments"]
    }
    assert known == {"12": True, "00A3": False}
    assert set(holdfast("audit", folder, tmp_path / "t.csv", "--json").json["environments"]) == {"12", "00A3"}


def test_small_sites_that_were_merged_are_known(holdfast, fitted, tmp_path):
    """Their rows were fitted."""
    table = pd.concat([made(), made(sites=("c", "d"), n_rows=3, seed=2)])
    folder = fitted(table)
    made(sites=("c", "e"), seed=1).to_csv(tmp_path / "t.csv", index=False)
    known = {
        e["name"]: e["known"] for e in holdfast("evaluate", folder, tmp_path / "t.csv", "--json").json["environments"]
    }
    assert known == {"c": True, "e": False}


def test_a_period_cuts_dates_and_nothing_else(holdfast, tmp_path):
    """Dates in another order are texts, of which every one would be an environment."""
    made().assign(site="03/15/2020").to_csv(tmp_path / "t.csv", index=False)
    arguments = ("--label", "ill", "--environment", "site", "--environment-by", "year", "--out", tmp_path / "m")
    outcome = holdfast("fit", tmp_path / "t.csv", *arguments)
    assert outcome.code == 2
    assert "cuts dates, but 'site' contains string values such as '03/15/2020'. Write dates as" in " ".join(
        outcome.err.split()
    )


def test_nothing_is_written_into_a_models_folder(holdfast, fitted, tmp_path):
    """It would not be loaded any more."""
    folder = fitted(made())
    outcome = holdfast("predict", folder, tmp_path / "train.csv", "--out", folder / "p.csv")
    assert outcome.code == 2
    assert "is in the folder of a saved model. Choose a place outside of it." in " ".join(outcome.err.split())
    for arguments in (("--out", folder / "r.html"), ("--out", tmp_path / "r.html", "--assets", folder / "figures")):
        outcome = holdfast("report", folder, *arguments)
        assert outcome.code == 2
        assert "is in the folder of a saved model" in " ".join(outcome.err.split())
    (folder / "mine.txt").write_text("notes")
    arguments = ("--label", "ill", "--environment", "site", "--out", folder, "--overwrite")
    outcome = holdfast("fit", tmp_path / "train.csv", *arguments)
    assert outcome.code != 0
    assert "mine.txt" in outcome.err
    assert "fitting" not in outcome.err  # refused before any work


def test_classifiers_of_other_labels_are_not_compared(holdfast, fitted, tmp_path):
    """Neither by --baseline nor on a page."""
    folder = fitted(made()).rename(tmp_path / "first")
    other = fitted(made().assign(ill=lambda rows: rows["ill"].map({0: "well", 1: "ill"})))
    made().to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("evaluate", folder, tmp_path / "t.csv", "--baseline", other)
    assert outcome.code == 2
    assert "predict different labels, 'ill' (0, 1) and 'ill' (ill, well)" in " ".join(outcome.err.split())


def test_the_page_of_a_saved_model_has_the_warnings_of_its_fit(holdfast, fitted, tmp_path):
    """Or says that there were none."""
    small = made(sites=("c", "d"), n_rows=3, seed=2)
    folder = fitted(pd.concat([made(n_rows=100), small]))
    assert holdfast("report", folder, "--out", tmp_path / "r.html").code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "There were no warnings." not in page
    assert "2 of 4 environments have fewer than 5 rows and are merged into one" in page


def test_soft_halves_are_told_in_expected_rows(holdfast, fitted, tmp_path):
    """Every row is in both: the sizes are those of which the accuracy is the share."""
    made().to_csv(tmp_path / "t.csv", index=False)
    arguments = ("--label", "ill", "--environment", "site", "--out", tmp_path / "m", "--json")
    arguments += ("--method", "pi", "--halves", "soft")
    for partition in holdfast("fit", tmp_path / "t.csv", *arguments).json["partitions"]:
        assert partition["soft"] is True
        assert partition["n_correct"] + partition["n_mistaken"] == 60
        assert partition["n_correct"] == pytest.approx(60 * partition["accuracy"], abs=0.51)


@pytest.mark.parametrize("ending", ["\n", ""])
@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_a_batch_without_rows_gives_a_file_without_rows(holdfast, fitted, tmp_path, ending, out):
    """With its columns, a note and exit code 0."""
    folder = fitted(made())
    (tmp_path / "t.csv").write_text(f"site,marker{ending}")
    outcome = holdfast("predict", folder, tmp_path / "t.csv", "--out", tmp_path / out, "--keep", "site")
    assert (outcome.code, outcome.err) == (0, f"note: {tmp_path / 't.csv'} has no rows\n")
    written = pd.read_parquet(tmp_path / out) if out.endswith("parquet") else pd.read_csv(tmp_path / out)
    assert list(written.columns) == ["site", "prediction", "probability_0", "probability_1"]
    assert len(written) == 0


def test_text_columns_may_have_any_name(holdfast, fitted, tmp_path):
    """Two underscores are common in exports."""
    folder = fitted(made(admission__note=["good beer", "bad beer"] * 60), "--text", "admission__note")
    outcome = holdfast("predict", folder, tmp_path / "train.csv", "--out", tmp_path / "p.csv")
    assert outcome.code == 0


def test_kept_columns_do_not_collide(holdfast, fitted, tmp_path):
    """One that is named twice is kept once; one that has the name of a result is refused."""
    folder = fitted(made())
    made().assign(prediction=1).to_csv(tmp_path / "t.csv", index=False)
    keep = ("--keep", "site", "--keep", "site")
    assert holdfast("predict", folder, tmp_path / "t.csv", "--out", tmp_path / "p.parquet", *keep).code == 0
    assert list(pd.read_parquet(tmp_path / "p.parquet").columns)[:2] == ["site", "prediction"]
    outcome = holdfast("predict", folder, tmp_path / "t.csv", "--out", tmp_path / "q.csv", "--keep", "prediction")
    assert outcome.code == 2
    assert "--keep prediction is the name of a column that is written." in " ".join(outcome.err.split())


def test_a_category_is_one_question_also_beside_texts():
    """Its values are tested together, whatever else is there."""
    from holdfast.tables.audits import _encode

    frame = pd.DataFrame({"ward": ["x", "y", "z"] * 40, "note": ["good beer", "bad beer"] * 60})
    columns = _encode(frame, ["note"])
    assert {name: [columns.names[i] for i in places] for name, places in columns.groups.items()} == {
        "ward": ["ward=x", "ward=y", "ward=z"]
    }


def test_tables_with_long_labels_fit_80_columns(holdfast, tmp_path, monkeypatch):
    """Headers are cut, numbers are not."""
    long = {
        0: "Diabetes mellitus type 2 without complications",
        1: "Diabetes mellitus type 2 with kidney complications",
    }
    table = made(sites=("a hospital with a rather long name", "b"))
    table.assign(ill=table["ill"].map(long)).to_csv(tmp_path / "t.csv", index=False)
    arguments = ("--label", "ill", "--environment", "site", "--out", "m")
    monkeypatch.chdir(tmp_path)
    outcome = holdfast("fit", tmp_path / "t.csv", *arguments)
    assert max(len(line) for line in outcome.out.splitlines() if not line.startswith("Next: ")) <= 80


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("fit", 0, "warning: StableClassifier compares environments, but each has too few rows, so they were merged"),
        ("audit", 2, "error: Column 'site' has 600 environments with fewer than 5 rows each, which were merged into"),
        ("partition", 2, "error: Column 'site' has 600 environments with fewer than 5 rows each, which were merged"),
    ],
)
def test_many_small_sites_are_not_called_one(holdfast, tmp_path, command, code, message):
    """600 sites of two rows are merged, and the message says so."""
    made(sites=[f"s{number}" for number in range(600)], n_rows=2).to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / ("m" if command == "fit" else "o.csv")
    outcome = holdfast(command, tmp_path / "t.csv", "--label", "ill", "--environment", "site", "--out", out)
    assert outcome.code == code
    assert message in outcome.err
    assert "only one" not in outcome.err


def test_messages_name_options_of_the_command(holdfast, tmp_path):
    """What the library calls a parameter is an option to type."""
    table = made(sites=["a"])
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "ill", "--environment", "site", "--out", tmp_path / "m")
    outcome = holdfast("fit", tmp_path / "t.csv", *options)
    assert outcome.code == 0
    assert "Pass rows of at least two environments, named with --environment COL." in outcome.err
    assert "environments=" not in outcome.err
