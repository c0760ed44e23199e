"""Names and values of data are shown, never obeyed."""

import io
import json
import sys
import unicodedata

import numpy as np
import pandas as pd
import pytest
import typer

from holdfast.cli import app
from holdfast.cli.terminal import counting, escape, in_options, showing_progress, showing_stages

RED, TURNED = "\x1b[31mBoston\x9b0m", "\u202ereversed\x07"


@pytest.fixture
def hostile(tmp_path):
    """Write a table whose sites, labels and columns hold escape sequences and marks that turn text."""
    generator = np.random.default_rng(0)
    y = np.arange(400) % 2
    follows = generator.random(400) < np.repeat([0.95, 0.3], 200)
    frame = pd.DataFrame(
        {
            "site": np.repeat([RED, "Chicago"], 200),
            f"x{RED}": y + generator.normal(size=400),
            f"unstable{TURNED}": np.where(np.where(follows, y, 1 - y) == 1, f"b{RED}", "a"),
            "note": [f"=cmd|' /C calc'!A0 {number}" for number in range(400)],
            "y": np.where(y == 1, f"ill{TURNED}", "well"),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def is_plain(text):
    """Return whether a text has nothing that a terminal obeys."""
    return not [c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs") or c in "\u202e\u202d\u2066")]


@pytest.mark.parametrize("command", ["fit", "partition", "audit", "compare", "diagnose"])
def test_escapes_in_data_do_not_reach_the_terminal(holdfast, hostile, tmp_path, command):
    """They are shown as text; JSON gives them back as they are."""
    options = [hostile, "--label", "y", "--environment", "site", "--drop", "note"]
    options += (
        ["--out", tmp_path / {"fit": "out", "diagnose": "out.html"}.get(command, "out.csv")]
        if command != "compare"
        else []
    )
    options += ["--method", "pi"] if command in ("fit", "compare") else []
    outcome = holdfast(command, *options)
    assert outcome.code == 0, outcome.err
    assert is_plain(outcome.out + outcome.err)
    assert "\\x1b[31m" in outcome.out
    outcome = holdfast(command, *options, *(["--overwrite"] if command != "compare" else []), "--json")
    assert is_plain(outcome.out)
    assert RED in json.dumps(outcome.json, ensure_ascii=False).replace("\\u001b", "\x1b")


def test_escapes_in_errors_do_not_reach_the_terminal(holdfast, hostile, tmp_path):
    """Names of columns that are not there, and paths."""
    outcome = holdfast("fit", hostile, "--label", TURNED, "--environment", "site", "--out", tmp_path / "m")
    assert outcome.code == 2
    assert is_plain(outcome.err)
    outcome = holdfast("fit", f"{RED}.csv", "--label", "y", "--environment", "site", "--out", tmp_path / "m")
    assert (outcome.code, is_plain(outcome.err)) == (2, True)
    assert "\\x1b[31mBoston\\x9b0m.csv does not exist" in outcome.err


def test_formulas_are_kept_or_neutralized(holdfast, hostile, tmp_path):
    """`predict --keep` copies cells as they are; with --for-spreadsheets they cannot be computed."""
    options = ("--label", "y", "--environment", "site", "--drop", "note", "--method", "erm", "--out", tmp_path / "m")
    assert holdfast("fit", hostile, *options).code == 0
    command = ("predict", tmp_path / "m", hostile, "--keep", "note", "--overwrite", "--out", tmp_path / "p.csv")
    assert holdfast(*command).code == 0
    assert pd.read_csv(tmp_path / "p.csv")["note"].str.startswith("=cmd").all()
    assert holdfast(*command, "--for-spreadsheets").code == 0
    assert pd.read_csv(tmp_path / "p.csv")["note"].str.startswith("'=cmd").all()


class Terminal(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self):
        """Say so."""
        return True


def test_brackets_are_no_markup(monkeypatch):
    """A path such as `[/x].csv` is shown on the status lines of stages, steps and sweeps."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with showing_stages("fitting [/x] \x1b[2J"):
        pass
    with counting("fitting [/y]", 2) as step:
        step("step [/z]")
        step("step [/z]")
    with showing_progress():
        pass
    shown = terminal.getvalue()
    assert "[/x] \\x1b[2J" in shown
    assert "[/y]" in shown
    assert "[/z]" in shown


def test_escape_leaves_text_alone():
    """Letters of any script, emoji and line ends stay."""
    assert escape("Zürich 東京 😀 a\nb") == "Zürich 東京 😀 a\nb"
    assert escape("\t\r\x00\x7f\u2028\ud800") == "\\t\\r\\x00\\x7f\\u2028\\ud800"


def test_a_switch_is_typed_without_a_value(monkeypatch):
    """A parameter that is True is the option alone."""
    command = typer.main.get_command(app).commands["fit"]
    monkeypatch.setattr("holdfast.cli.terminal._running", [command])
    assert in_options("Pass overwrite=True, or method='erm'.") == "Pass --overwrite, or --method erm."


def test_parameters_stay_where_no_command_runs():
    """Options are named only for the command that has them."""
    assert in_options("Pass method='erm'.") == "Pass method='erm'."
