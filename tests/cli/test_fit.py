import json
import re

import numpy as np
import pandas as pd
import pytest

from holdfast import PIClassifier, load

PAPER = ("--method", "pi")


def test_fit_reports_stages_in_80_columns(holdfast, hospitals, tmp_path):
    """Environments, judges, partitions and group risks are printed; every number agrees with the next."""
    outcome = holdfast(
        "fit", hospitals.train, *hospitals.fit_options, "--drop", "note", *PAPER, "--out", tmp_path / "m"
    )
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines() if "/" not in line) <= 80  # paths are not cut
    for part in (
        "Fitted pi with logistic on 400 rows of 2 environments; ",
        "1 numeric, 2 categorical, 1 date",
        "2 classes of 'diagnosis'",
    ):
        assert part in " ".join(outcome.out.split())
    assert "  Boston        200          0.500\n" in outcome.out
    judged = re.search(r"Boston   Chicago +(0\.\d{3}) +(\d+) +(\d+)\n", outcome.out)
    assert int(judged[2]) + int(judged[3]) == 200
    assert float(judged[1]) == int(judged[2]) / 200
    assert "Stage 3 (convex): worst-case risk" in outcome.out


def test_fit_takes_a_folder_beyond_the_memory(holdfast, tmp_path):
    """A sample decides the verdict, all rows are fitted in passes over the files, and a bad file is named."""
    turning(tmp_path / "t.csv")
    frame, folder = pd.read_csv(tmp_path / "t.csv"), tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet")
    options = [folder, "--label", "ill", "--environment", "site", "--out", tmp_path / "m", "--max-memory", "0.0001"]
    outcome = holdfast("fit", *options, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["n_rows"] == outcome.json["n_rows_read"] == len(frame)  # few rows are all in the sample
    assert [column["feature"] for column in outcome.json["verdict"]["columns"]] == ["scanner"]
    assert f"{folder} has {len(frame):,} rows" in outcome.err
    assert f"fitted on all {len(frame):,} rows" in outcome.err
    assert load(tmp_path / "m")["classifier"].verdict_.fitted == "stable"
    refused = holdfast("fit", *options, "--estimator", "boosting", "--overwrite")
    assert refused.code == 2
    assert "Larger folders can be fitted with --method stable or 'erm' and --estimator logistic" in refused.err
    (folder / "2.parquet").write_bytes(b"no Parquet")
    stopped = holdfast("fit", *options, "--overwrite")
    assert stopped.code == 2
    assert "2.parquet cannot be read" in stopped.err
    assert "--on-bad-file skip" in stopped.err
    assert holdfast("fit", *options, "--overwrite", "--on-bad-file", "skip").code == 0


def test_fit_begins_with_the_verdict(holdfast, tmp_path):
    """The default says first what was fitted and why, names columns of the table, and gives price and gain."""
    turning(tmp_path / "t.csv")
    options = ["--label", "ill", "--environment", "site", "--out", tmp_path / "m"]
    outcome = holdfast("fit", tmp_path / "t.csv", *options)
    assert outcome.code == 0, outcome.err
    text = " ".join(outcome.out.split())
    assert text.startswith("Stable classifier: the effect of `scanner` differs between sites (probability 0.")
    assert "If the effect vanishes: 0." in text
    result = holdfast("fit", tmp_path / "t.csv", *options, "--overwrite", "--json").json
    assert result["answer"] == load(tmp_path / "m")["classifier"].verdict_.answer
    assert result["verdict"]["fitted"] == "stable"
    assert [column["feature"] for column in result["verdict"]["columns"]] == ["scanner"]
    assert result["method"] == "stable"
    accuracies = [
        *result["verdict"]["by_environment"].values(),
        result["verdict"]["vanished"],
        result["verdict"]["reversed"],
    ]
    places = ["in Boston", "in Chicago", "if the effect vanishes", "if it reverses"]
    for place, accuracy in zip(places, accuracies, strict=True):
        assert re.search(rf"\n  {place} +{accuracy['ordinary']:.3f} +{accuracy['fitted']:.3f}\n", outcome.out)


def test_an_ordinary_classifier_has_one_accuracy_in_each_environment(holdfast, tmp_path):
    """Nothing is compared with itself, and of many environments the first are shown."""
    generator = np.random.default_rng(0)
    ill = np.arange(1400) % 2
    sites = [f"s{number}" for number in np.arange(1400) // 100]
    marker = (ill + generator.normal(size=1400)).round(3)
    pd.DataFrame({"site": sites, "marker": marker, "ill": ill}).to_csv(tmp_path / "t.csv", index=False)
    options = ["--label", "ill", "--environment", "site", "--out", tmp_path / "m"]
    outcome = holdfast("fit", tmp_path / "t.csv", *options)
    assert outcome.code == 0, outcome.err
    assert "Ordinary classifier" in outcome.out
    table = outcome.out.split("Accuracy on rows that it was not fitted on\n")[1].split("\n\n")[0].splitlines()
    assert table[0].split() == ["where", "accuracy"]
    assert [len(line.split()) for line in table[1:13]] == [3] * 12
    assert table[13:] == ["  … and 2 more; --json has them all"]


def turning(file):
    """Write 1,200 rows of two sites: the marker goes with the label in both, the scanner less in one."""
    generator = np.random.default_rng(0)
    ill = generator.integers(2, size=1200)
    follows = generator.random(1200) < np.repeat([0.95, 0.3], 600)
    scanner = np.where(np.where(follows, ill, 1 - ill), "B", "A")
    marker = (ill + generator.normal(size=1200)).round(3)
    columns = {"site": np.repeat(["Boston", "Chicago"], 600), "marker": marker, "scanner": scanner}
    pd.DataFrame({**columns, "ill": ill}).to_csv(file, index=False)


def test_fit_prints_one_json_object(holdfast, hospitals, tmp_path):
    """The same as values: environments, accuracies, partitions, groups, risks."""
    result = holdfast(
        "fit", hospitals.train, *hospitals.fit_options, "--drop", "note", *PAPER, "--out", tmp_path / "m", "--json"
    ).json
    assert result["classes"] == ["ill", "well"]
    assert result["columns"] == {"marker": "numeric", "scanner": "categorical", "sex": "categorical", "visit": "date"}
    assert [(e["name"], e["n_rows"], e["shares"]) for e in result["environments"]] == [
        ("Boston", 200, {"ill": 0.5, "well": 0.5}),
        ("Chicago", 200, {"ill": 0.5, "well": 0.5}),
    ]
    by_pair = {(p["judge"], p["judged"]): p["accuracy"] for p in result["partitions"]}
    assert by_pair["Boston", "Chicago"] == result["accuracies"]["Boston"]["Chicago"]
    assert result["worst_case_risk"] == max(group["risk"] for group in result["groups"])
    assert sum(group["weight"] for group in result["groups"]) == pytest.approx(1)
    assert result["gap"] < 1e-3
    assert result["warnings"] == []


def test_saved_folder_loads_as_a_pipeline(hospitals):
    """What the command line saves is a scikit-learn pipeline that ends in one of our methods."""
    pipeline = load(hospitals.folder / "pi")
    assert isinstance(pipeline.named_steps["classifier"], PIClassifier)
    manifest = json.loads((hospitals.folder / "pi" / "manifest.json").read_text())
    assert manifest["extra"]["table"]["label"] == "diagnosis"


def test_fit_needs_overwrite_and_leaves_foreign_folders_alone(holdfast, hospitals, tmp_path):
    """A folder of ours is replaced only when asked, another one never."""
    options = (hospitals.train, *hospitals.fit_options, "--method", "erm", "--drop", "note")
    folder = tmp_path / "m"
    assert holdfast("fit", *options, "--out", folder).code == 0
    again = holdfast("fit", *options, "--out", folder)
    assert again.code == 2
    assert again.err == f"error: {folder} already contains a saved model. Choose another --out, or pass --overwrite.\n"
    assert holdfast("fit", *options, "--out", folder, "--overwrite").code == 0
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("precious")
    refused = holdfast("fit", *options, "--out", foreign, "--overwrite")
    assert refused.err == f"error: {foreign} exists and was not written by holdfast. Choose another --out.\n"
    assert (foreign / "thesis.txt").read_text() == "precious"


def test_environments_are_crossed_and_dates_cut(holdfast, hospitals, tmp_path):
    """Two environment columns are crossed; a date column is cut by quarter."""
    result = holdfast(
        "fit", hospitals.train, "--label", "diagnosis", "--environment", "sex", "--environment", "visit",
        "--environment-by", "year", "--drop", "note", "--method", "erm", "--out", tmp_path / "m", "--json",
    ).json  # fmt: skip
    names = [e["name"] for e in result["environments"]]
    assert names == [f"{sex} × {year}" for sex in "fm" for year in (2025, 2026, 2027, 2028)]
    assert sum(e["n_rows"] for e in result["environments"]) == 400


def test_text_columns_are_used_by_their_words(holdfast, hospitals, tmp_path):
    """The note tells the diagnosis, so that its words alone classify every row."""
    drop = [option for name in ("marker", "scanner", "sex", "visit") for option in ("--drop", name)]
    folder = tmp_path / "m"
    fit = holdfast(
        "fit", hospitals.train, *hospitals.fit_options, *drop, "--text", "note", "--method", "erm", "--out", folder
    )
    assert fit.code == 0
    assert holdfast("evaluate", folder, hospitals.test, "--json").json["overall"]["accuracy"]["value"] == 1.0


@pytest.mark.parametrize("labels", [[0, 1], [True, False], ["no", "yes"], [1.0, 2.0]])
def test_labels_of_any_type_survive(holdfast, tmp_path, labels):
    """Numbers, booleans and texts come back as they were, through Parquet."""
    codes = np.arange(60) % 2
    frame = pd.DataFrame({"x": codes + 0.0, "e": np.arange(60) // 30, "y": np.array(labels)[codes]})
    table, folder, out = tmp_path / "t.parquet", tmp_path / "m", tmp_path / "p.parquet"
    frame.to_parquet(table)
    fit = holdfast("fit", table, "--label", "y", "--environment", "e", "--method", "erm", "--out", folder)
    assert fit.code == 0, fit.err
    assert holdfast("predict", folder, table, "--out", out).code == 0
    assert pd.read_parquet(out)["prediction"].tolist() == frame["y"].tolist()


def test_notes_say_what_is_left_out_or_guessed(holdfast, tmp_path):
    """A row index, an empty column and prose are named on stderr."""
    frame = pd.DataFrame(
        {
            "x": np.arange(40) % 2,
            "gone": np.nan,
            "story": [f"the long tale number {i}" for i in range(40)],
            "e": np.arange(40) // 20,
            "y": np.arange(40) % 2,
        }
    )
    frame.to_csv(tmp_path / "t.csv")
    outcome = holdfast(
        "fit", tmp_path / "t.csv", "--label", "y", "--environment", "e", "--method", "erm", "--out", tmp_path / "m"
    )
    assert outcome.err.splitlines()[:3] == [
        "note: column 'unnamed_1' is left out: has no name (a saved row index?)",
        "note: column 'gone' is left out: missing in every row",
        "note: 'story' looks like free text; pass --text story to use the words",
    ]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ["--label", "diagnsis"], "has no column 'diagnsis'. Did you mean 'diagnosis'?"),
        ({}, ["--environment", "sight"], "has no column 'sight'. Did you mean 'site'?"),
        ({}, ["--estimator", "logstic"], "There is no estimator 'logstic'. Did you mean 'logistic'?"),
        ({}, ["--method", "grup_dro"], "There is no method 'grup_dro'. Did you mean 'group_dro'?"),
        ({}, ["--method", "oracle"], "There is no method 'oracle'. Choose from 'stable', 'pi', 'erm'"),
        (
            {},
            ["--method", "pi", "--halves", "medium"],
            "The 'halves' parameter of PIClassifier must be one of 'hard', 'soft'",
        ),
        (
            {},
            ["--label", "marker", "--task", "classification"],
            "Label column 'marker' contains decimal numbers such as 0.5, so it is an amount",
        ),
        ({}, ["--label", "site"], "Column 'site' cannot be both the label and an environment."),
        ({}, ["--drop", "site"], "Column 'site' is the label or an environment; it cannot be a feature or dropped."),
        ({}, ["--drop", "marker"], "has no feature column left. Keep at least one besides label and environment."),
        ({}, ["--environment-by", "yaer"], "--environment-by yaer is not a period. Did you mean 'year'?"),
        ({"diagnosis": None}, [], "Label column 'diagnosis' is missing in 1 of 6 rows (first in data row 1). Fill"),
        ({"site": None}, [], "Environment column 'site' is missing in 1 of 6 rows (first in data row 1). Fill"),
        ({"marker": np.inf}, [], "Column 'marker' is infinite or beyond 1e+100 in 1 rows (first in data row 1)."),
        ({"diagnosis": ["ill"] * 6}, [], "Label column 'diagnosis' contains only the class 'ill'. Pass rows of at"),
    ],
)
def test_bad_input_is_one_line_and_code_2(holdfast, tmp_path, change, options, message):
    """What was asked, what came and what to do, on one line; nothing is written."""
    frame = pd.DataFrame(
        {"diagnosis": ["ill", "well"] * 3, "site": list("aabbcc"), "marker": [0.5, 1, 2, 3, 4, 5]}, dtype=object
    )
    for column, value in change.items():
        if isinstance(value, list):
            frame[column] = value
        else:
            frame.loc[0, column] = value
    frame.to_csv(tmp_path / "t.csv", index=False)
    defaults = {"--label": "diagnosis", "--environment": "site"}
    asked = dict(zip(options[::2], options[1::2], strict=True))
    pairs = [item for pair in (defaults | asked).items() for item in pair]
    outcome = holdfast("fit", tmp_path / "t.csv", *pairs, "--out", tmp_path / "m")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "does not exist. Check the path."),
        ("t.sav", b"x", "is of the unknown type '.sav'. Save it as one of .csv, .tsv, .jsonl, .ndjson,"),
        ("t.csv", b"", "is empty. Pass a file with a header and rows."),
        ("t.csv", b"site,x,diagnosis\n", "has a header but no rows. Pass a file with rows."),
        ("t.csv", b"site,x,diagnosis\na,1\n", "is ragged: line 2 has 2 fields, the header has 3."),
        ("t.csv", b"site,x,diagnosis\na,\xff,b\n", "is not UTF-8: byte 0xff at position 19 (line 2)."),
        ("t.parquet", b"PAR1", "cannot be read (Parquet file size is 4 bytes"),
    ],
)
def test_broken_files_are_one_line_and_code_2(holdfast, hospitals, tmp_path, name, content, message):
    """Every way a file can be broken ends alike."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    outcome = holdfast("fit", tmp_path / name, *hospitals.fit_options, "--out", tmp_path / "m")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"error: {tmp_path / name} {message}")


def test_environment_dates_need_a_period(holdfast, hospitals, tmp_path):
    """Every day an environment of its own is not what is meant."""
    outcome = holdfast(
        "fit", hospitals.train, "--label", "diagnosis", "--environment", "visit", "--out", tmp_path / "m"
    )
    assert outcome.err == (
        "error: Environment column 'visit' contains dates. Say how to cut them: --environment-by year (or quarter, "
        "month, day).\n"
    )


@pytest.mark.parametrize(("option", "value"), [("--halves", "hard"), ("--caution", "0.5")])
def test_settings_of_other_methods_are_refused(holdfast, hospitals, tmp_path, option, value):
    """What another method would not use is not accepted in silence."""
    out = ["--out", tmp_path / "m"]
    outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, *out, "--method", "erm", option, value)
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        outcome.err == f"error: --method erm has no setting {option} {value}. Leave it out, or choose another method.\n"
    )


@pytest.mark.parametrize(("option", "value"), [("--strength", "0.5"), ("--expect", "as_seen")])
def test_settings_of_older_versions_name_the_new_one(holdfast, hospitals, tmp_path, option, value):
    """One sentence says what to use instead."""
    outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, "--out", tmp_path / "m", option, value)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: There is no {option} anymore. Use --caution: relations that change stay (0), vanish (0.5) or reverse "
        "(1) at a new environment. See 'holdfast fit --help'.\n"
    )
    assert "No such option: --strength" in holdfast("audit", hospitals.train, "--strength", "1").err


def test_caution_lies_between_0_and_1(holdfast, hospitals, tmp_path):
    """Another number is refused in one line."""
    out = ["--out", tmp_path / "m", "--caution", "2"]
    outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, *out)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith("error: ")
    assert "must lie between 0 and 1. Got 2.0 instead." in outcome.err


def test_the_next_command_checks_the_table_of_another_site(holdfast, hospitals, tmp_path, monkeypatch):
    """The newest other table with the model's columns is checked; without one the page of the model comes next."""
    monkeypatch.chdir(tmp_path)
    rows = pd.read_csv(hospitals.train)
    rows.to_csv("train.csv", index=False)
    options = ("--label", "diagnosis", "--environment", "site", "--drop", "note", "--drop", "visit", "--json")
    assert holdfast("fit", "train.csv", *options, "--out", "a").json["next"] == "holdfast report a --table train.csv"
    rows[["site", "sex"]].to_csv("other.csv", index=False)
    pd.read_csv(hospitals.test).drop(columns="diagnosis").to_csv("denver.csv", index=False)
    following = holdfast("fit", "train.csv", *options, "--out", "b", "--report", "b.html").json["next"]
    assert following == "holdfast check b denver.csv"
    assert holdfast(*following.split()[1:]).code == 0
