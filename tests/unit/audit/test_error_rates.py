from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the script that measures the error rates."""
    spec = importlib.util.spec_from_file_location("audit_error_rates", ROOT / "benchmarks" / "audit_error_rates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_documents_tables_are_those_of_the_records(script: ModuleType) -> None:
    """docs/audit.md shows what the records say, and nothing else."""
    text = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    shown = text.split("<!-- tables -->")[1].split("<!-- /tables -->")[0].strip()
    assert shown == script.tables(script.read(script.RECORDS))


def test_tables_add_up_the_records_of_a_cell(script: ModuleType) -> None:
    """Two records of 20 draws are 40 draws; a share comes with its exact interval."""
    cell = "flip rate 0.1 / 0.3, 800 + 800"
    record = {"cell": cell, "first_seed": 0, "draws": 20, "found": 19, "others": 0, "cpu_seconds": 2.0}
    table = script.tables([record, record | {"first_seed": 20, "found": 20, "others": 1}])
    assert f"| {cell} | 40 | 97.5% (86.8%–99.9%) | 2.5% (0.1%–13.2%) | 0.10 |" in table


def test_every_law_gives_a_table_that_can_be_audited(script: ModuleType) -> None:
    """One draw of a null cell names nothing, one of a planted cell names what was planted."""
    assert script.audit_once(script.NOTHING_CHANGES["categorical columns, 400 + 300"], 1) == (False, False)
    assert script.audit_once(script.ONE_CHANGES["flip rate 0.1 / 0.3, 800 + 800"], 1) == (True, False)
