"""The scoreboard and the README say what the records say."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("measuring", "networks", "page", "rtables", "scoreboard", "tables", "targets", "trust", "worlds")


@pytest.fixture
def scoreboard(monkeypatch):
    """Return the module of the benchmarks' folder."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("scoreboard")
    for name in NAMES:
        sys.modules.pop(name, None)


def test_the_page_is_made_of_the_records(scoreboard):
    """Making it again changes nothing, and every block is on the page."""
    text = scoreboard.PAGE.read_text(encoding="utf-8")
    assert scoreboard.fill(text) == text
    assert {name for _, name, _ in scoreboard.BLOCK.findall(text)} == set(scoreboard.BLOCKS)


def test_the_readme_has_the_figures_of_the_records(scoreboard):
    """Every figure that rests on a record stands in the README, as `python benchmarks/scoreboard.py` writes it."""
    text = scoreboard.README.read_text(encoding="utf-8")
    assert scoreboard.fill_readme(text) == text
    assert {name for _, name, _ in scoreboard.FIGURE.findall(text)} == set(scoreboard.readme_figures())


def test_losses_come_first(scoreboard):
    """The first section is what is lost, and it is not empty; of the targets of speed the missed ones are first."""
    text = scoreboard.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[0] == "Losses"
    assert scoreboard.losses().count("\n") > 2
    met = [line[-1] for line in scoreboard._promised()]
    assert met == sorted(met) and {"yes", scoreboard.MISSED} == set(met)


def test_every_section_begins_with_its_answer(scoreboard):
    """Every block but one without a record is a sentence, then a table."""
    for name, make in scoreboard.BLOCKS.items():
        answer, _, rest = make().partition("\n\n")
        if name == "sizes" and not rest:
            continue
        assert answer.endswith((".", ":")) and not answer.startswith("|"), name
        assert rest.startswith("| "), name


def test_networks_are_grouped_by_what_is_planted(scoreboard, monkeypatch):
    """Without records the block says so; with some, kinds of tasks have a row, and where PI is ahead a loss."""
    monkeypatch.setattr(scoreboard, "read_lines", lambda name: [])
    assert scoreboard.networks() == "Not measured yet."
    scores = {"erm": (0.9, 0.2), "pi": (0.7, 0.6), "stable": (0.9, 0.4)}
    methods = {method: {"known": known, "turned": turned} for method, (known, turned) in scores.items()}
    records = [{"key": {"task": "colour", "seed": seed}, "outcome": "unstable", **methods} for seed in (0, 1)]
    monkeypatch.setattr(scoreboard, "read_lines", lambda name: records)
    answer, *_, row = scoreboard.networks().splitlines()
    assert "in 2 of 2 runs. At the new site it gains 50 % of what PI gains." in answer
    assert row == "| planted, chosen on | 2 | 2 | 90.0 | 70.0 | 90.0 | 20.0 | 60.0 | 40.0 |"
    assert [line[1:] for line in scoreboard._network_losses()] == [("StableClassifier 40.0", "PI 60.0", "20.0")]
