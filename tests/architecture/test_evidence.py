"""The tables of evidence follow from the records beside them."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"


def read_records(suite):
    """Return the committed records of a suite."""
    path = EVIDENCE / f"{suite}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def load_script(name):
    """Return a module of the benchmarks' folder; benchmarks are scripts, not a package."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables():
    """Return the module that makes the tables."""
    return load_script("beyond_tables")


def test_tables_are_those_of_the_records(tables):
    """Made again from the records, no table of the document changes: none is typed."""
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    assert tables.with_tables(text, read_records) == text


def test_no_record_is_there_twice():
    """A cell, seed and method has one record."""
    for suite in ("generators", "digits", "adult", "guards"):
        records = read_records(suite)
        named = [
            tuple(
                record.get(key) for key in ("data", "rows", "environments", "left out", "estimator", "method", "seed")
            )
            for record in records
        ]
        assert len(named) == len(set(named))


def test_a_missing_mark_is_named(tables):
    """A table without its place in the document is refused."""
    with pytest.raises(SystemExit, match="has no marks for the table 'aim'"):
        tables.with_tables("nothing", read_records)


def test_shares_of_the_gap(tables):
    """ERM 0.5, stable-only 0.7 and a method at 0.65 in both seeds: three quarters are closed, without an error."""
    records = [
        {
            "data": "d",
            "environments": 2,
            "estimator": "e",
            "method": method,
            "seed": seed,
            "accuracy": {"flipped": value},
        }
        for method, value in (("erm", 0.5), ("stable only", 0.7), ("invariant", 0.65))
        for seed in (0, 1)
    ]
    share, error, gain = tables.closed(tables.generator_scores(records, "flipped"), ("d", 2, "e"))
    assert (share, error, gain) == pytest.approx((0.75, 0.0, 0.15))


def test_the_table_of_coverage_is_that_of_its_record(monkeypatch):
    """docs/intervals.md shows what was measured: 10,000 draws a row or more, and no interval below its level."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    coverage = load_script("coverage")
    record = json.loads(coverage.RECORD.read_text(encoding="utf-8"))
    page = coverage.PAGE.read_text(encoding="utf-8")
    assert coverage.fill(page, record) == page
    assert len(record["rows"]) > 30
    for row in record["rows"]:
        assert row["draws"] >= 10_000
        error = (0.95 * 0.05 / row["draws"]) ** 0.5
        assert row["held"] / row["draws"] > record["level"] - 3 * error
