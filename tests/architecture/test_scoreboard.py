"""The scoreboard and the README say what the records say."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("measuring", "page", "rtables", "scoreboard", "tables", "targets", "trust", "worlds")


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
    """The first section is what is lost, and it is not empty."""
    text = scoreboard.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[0] == "Losses"
    assert scoreboard.losses().count("\n") > 2


def test_networks_appear_with_their_records(scoreboard, monkeypatch):
    """Without records the section is not there; with two seeds their mean is."""
    monkeypatch.setattr(scoreboard, "read_lines", lambda name: [])
    assert scoreboard.networks() == ""
    records = [{"key": {"task": "color", "seed": s}, "turned": {"PI": 0.6 + 0.2 * s}, "seconds": 0.5} for s in (0, 1)]
    monkeypatch.setattr(scoreboard, "read_lines", lambda name: records)
    assert scoreboard.networks().splitlines()[-3:] == [
        "| task | seeds | turned: PI |",
        "| --- | --- | --- |",
        "| color | 2 | 0.700 |",
    ]
