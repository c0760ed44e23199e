"""The tables of evidence follow from the records next to them."""

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
SUITES = sorted(path.stem.removeprefix("trust-") for path in EVIDENCE.glob("trust-*.jsonl"))


@pytest.fixture(autouse=True)
def _benchmarks_import_each_other(monkeypatch):
    """Put the benchmarks' folder on the path, as running one of them does."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def load_script(name):
    """Return a module of the benchmarks' folder; benchmarks are scripts, not a package."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("suite", SUITES)
def test_the_tables_of_trust_are_those_of_the_records(suite):
    """docs/when-it-helps.md shows what the committed records say: no table is typed."""
    page = (ROOT / "docs" / "when-it-helps.md").read_text(encoding="utf-8")
    tables = {name: lines for name, lines in load_script("trust").tables(EVIDENCE) if name.split("-")[0] == suite}
    assert tables
    for name, lines in tables.items():
        shown = page.split(f"<!-- table {name} -->\n")[1].split("<!-- end -->")[0]
        assert shown == "\n".join(lines) + "\n"


@pytest.mark.parametrize("suite", SUITES)
def test_no_fit_is_recorded_twice(suite):
    """Every fit has one line, by its settings."""
    path = EVIDENCE / f"trust-{suite}.jsonl"
    keys = [json.dumps(json.loads(line)["key"], sort_keys=True) for line in path.read_text("utf-8").splitlines()]
    assert keys
    assert len(keys) == len(set(keys))


def test_tables_are_written_between_their_marks(tmp_path):
    """Only what stands between a table's marks is replaced; two of three accuracies above 0.65 are counted."""
    trust = load_script("trust")
    records = [{"key": {"draw": n}, "accuracy": a, "fitted": "stable"} for n, a in enumerate((0.7, 0.6, 0.75))]
    (tmp_path / "trust-draws.jsonl").write_text("\n".join(map(json.dumps, records)))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table draws -->\nold\n<!-- end -->\nafter\n")
    trust.write_tables(page, trust.tables(tmp_path))
    assert page.read_text() == (
        "before\n<!-- table draws -->\nIn 2 of 3 fresh draws the accuracy at the new site is above 0.65 (least 0.60).\n"
        "<!-- end -->\nafter\n"
    )


def test_the_table_of_coverage_is_that_of_its_record():
    """docs/intervals.md shows what was measured: 10,000 draws a row or more, and no interval below its level."""
    coverage = load_script("coverage")
    record = json.loads(coverage.RECORD.read_text(encoding="utf-8"))
    page = coverage.PAGE.read_text(encoding="utf-8")
    assert coverage.fill(page, record) == page
    assert len(record["rows"]) > 30
    for row in record["rows"]:
        assert row["draws"] >= 10_000
        error = (0.95 * 0.05 / row["draws"]) ** 0.5
        assert row["held"] / row["draws"] > record["level"] - 3 * error


def test_the_tables_of_a_new_site_are_those_of_the_records():
    """docs/new-site-evidence.md shows what the committed records say: no table is typed."""
    newsite = load_script("newsite")
    page = newsite.PAGE.read_text(encoding="utf-8")
    for name, lines in newsite.tables(EVIDENCE):
        shown = page.split(f"<!-- table {name} -->\n")[1].split("<!-- end -->")[0]
        assert shown == "\n".join(lines) + "\n"
        assert len(lines) > 2


def test_the_tables_of_the_extensions_are_those_of_their_records():
    """docs/extensions.md shows what the records say, in at most 600 words, and every table is there."""
    extensions = load_script("extensions")
    page = extensions.PAGE.read_text(encoding="utf-8")
    made = extensions.tables(*extensions.read())
    assert extensions.fill(page, made) == page
    assert sorted(extensions.BLOCK.findall(page)) == sorted(made)
    assert len(extensions.BLOCK.sub("", page).split()) <= 600


def test_the_reproduction_fits_behind_one_table():
    """At most 1,200 words follow the table at a glance."""
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert len(page.split("<!-- end -->")[1].split()) <= 1_200


def test_the_tables_of_networks_are_those_of_the_records():
    """docs/network-evidence.md shows what the committed records say, and an ordinary verdict is the same network."""
    pytest.importorskip("torch")
    networks = importlib.import_module("networks")
    records = networks.read_records()
    page = networks.PAGE.read_text(encoding="utf-8")
    assert networks.fill(page, records) == page
    assert all(record["same"] for record in records)
    keys = [json.dumps(record["key"], sort_keys=True) for record in records]
    assert len(keys) == len(set(keys)) > 10
    for record in records:
        if record["fitted"] == "ordinary":
            assert record["stable"] == record["erm"]
