"""The page of benchmarks says what its records say."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs" / "benchmarks").glob("*.json"))
NAMES = ("measuring", "page", "run", "tables", "targets")


@pytest.fixture
def benchmarks(monkeypatch):
    """Return a function that imports a module of the benchmarks' folder."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def test_the_page_is_made_of_the_records(benchmarks):
    """Making the page and the plots again changes nothing."""
    page = benchmarks("page")
    records = page.read_records(page.RECORDS)
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.fill(text, records) == text
    for name, drawn in page.plots(records).items():
        assert (page.RECORDS / name).read_text(encoding="utf-8") == drawn


def test_every_benchmark_has_a_script_and_a_place_on_the_page(benchmarks):
    """What `scripts/bench` runs exists, is described, and appears in a page's blocks and among the promises."""
    run, page = benchmarks("run"), benchmarks("page")
    text = page.PAGE.read_text(encoding="utf-8")
    blocks = {name for _, name, _ in page.BLOCK.findall(text)}
    assert blocks == set(page.BLOCKS)
    blocks |= {name for _, name, _ in page.BLOCK.findall((page.PAGE.parent / "scoreboard.md").read_text("utf-8"))}
    together = {"user_fit": "fits", "whole_fit": "fits"}
    for name in run.BENCHMARKS:
        assert run.summary(name)
        assert together.get(name, name) in blocks
        assert name in benchmarks("targets").TARGETS


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_where_it_comes_from(path):
    """Command, machine, versions, threads and load stand beside the numbers, and no path of a person's machine."""
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["benchmark"] == path.stem
    assert record["command"].startswith(f"python benchmarks/{path.stem}.py")
    assert "--quick" not in record["command"]
    assert record["threads"] == 1
    assert record["repetitions"] >= 1
    assert record["load"] >= 0
    assert {"processor", "cores", "has", "lacks"} <= set(record["machine"])
    assert {"python", "numpy", "scikit-learn", "torch"} <= set(record["versions"])
    assert record["rows"]
    assert "/home/" not in path.read_text(encoding="utf-8")


def test_a_missing_record_is_said(benchmarks):
    """Without a record a block tells how to make one."""
    page = benchmarks("page")
    filled = page.fill("<!-- made: convex -->\nold\n<!-- end -->\n", {})
    assert filled == (
        "<!-- made: convex -->\nNot measured on this machine yet: `./scripts/bench --only convex`.\n<!-- end -->\n"
    )


def test_the_command_leaves_out_where_files_are(benchmarks):
    """Options that change the measurement are kept, folders are not."""
    told = benchmarks("measuring").command(
        ["/a/growth.py", "--rows", "10", "--record", "/b", "--quick", "--folder", "/c"]
    )
    assert told == "python benchmarks/growth.py --rows 10 --quick"
