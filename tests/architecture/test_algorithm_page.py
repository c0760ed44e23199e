"""The pages that put every equation beside its function must not name functions that are gone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("algorithm.md", "theory.md")]
REFERENCES = {found for page in PAGES for found in re.findall(r"`([\w/]+\.py::\w+)`", page.read_text("utf-8"))}


@pytest.mark.parametrize("reference", sorted(REFERENCES))
def test_every_named_function_exists(reference: str) -> None:
    """`file::name` on a page is a function or class of that file."""
    file, name = reference.split("::")
    tree = ast.parse((ROOT / "src" / "holdfast" / file).read_text("utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert name in defined
