"""Every command begins with its answer in a plain sentence and ends with a command that can be pasted."""

import re
import shlex

import pytest

COLUMNS = ("--label", "diagnosis", "--environment", "site")
SWEEP = """
name = "tiny"
seeds = [0]

[run]
dataset = "toy"
estimator = "logistic"

[[methods]]
name = "ERM"
method = "erm"
"""
CALLS = {
    "fit": ["fit", "{train}", *COLUMNS, "--out", "model"],
    "predict": ["predict", "{erm}", "{test}", "--out", "predictions.csv"],
    "evaluate": ["evaluate", "{erm}", "{test}"],
    "audit": ["audit", "{train}", *COLUMNS],
    "compare": ["compare", "{train}", *COLUMNS, "--method", "erm", "--method", "balanced"],
    "diagnose": ["diagnose", "{train}", *COLUMNS],
    "partition": ["partition", "{train}", *COLUMNS, "--out", "halves.csv"],
    "report": ["report", "{erm}", "--out", "report.html"],
    "sweep": ["sweep", "tiny.toml", "--out", "runs"],
}


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_is_first_and_the_last_line_can_be_pasted(holdfast, hospitals, tmp_path, monkeypatch, name):
    """The first paragraph is one or two sentences without figures in columns; the last line is a command that runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SWEEP)
    places = {"train": hospitals.train, "test": hospitals.test, "erm": hospitals.folder / "erm"}
    outcome = holdfast(*(word.format(**places) for word in CALLS[name]))
    assert outcome.code == 0, outcome.err
    answer = outcome.out.split("\n\n")[0]
    assert len(re.findall(r"[a-z]+", answer)) > 5, answer
    assert answer.endswith(".")
    assert not re.search(r"\S {2,}\S", answer), "columns of a table, not a sentence"
    *_, last = outcome.out.rstrip().splitlines()
    program, *words = shlex.split(last.removeprefix("Next: "))
    if name == "report":
        assert [program, *words] == ["python", "-m", "webbrowser", "report.html"]
        return
    assert program == "holdfast"
    following = holdfast(*words)
    assert following.code == 0, following.err


def test_the_verdict_goes_with_every_command_about_a_saved_classifier(holdfast, hospitals, tmp_path):
    """`fit`, `predict`, `evaluate` and `report` give the same verdict; a method without one says null."""
    model, table = tmp_path / "model", hospitals.test
    fitted = holdfast("fit", hospitals.train, *COLUMNS, "--out", model, "--json").json["verdict"]
    assert fitted["fitted"] in ("ordinary", "partly", "stable")
    calls = (
        ("predict", model, table, "--out", tmp_path / "p.csv"),
        ("evaluate", model, table),
        ("report", model, "--out", tmp_path / "page.html"),
    )
    for call in calls:
        assert holdfast(*call, "--json").json["verdict"] == fitted
    assert holdfast("evaluate", hospitals.folder / "erm", table, "--json").json["verdict"] is None
