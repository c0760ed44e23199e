import ast
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
TESTS = Path(__file__).parents[1]
MODULES = sorted(PACKAGE.rglob("*.py"))
TEST_FILES = sorted(TESTS.rglob("test_*.py"))


def short_name(file: Path) -> str:
    """Return the path below the package or the test folder."""
    return file.relative_to(PACKAGE if file.is_relative_to(PACKAGE) else TESTS).as_posix()


def parse(file: Path) -> ast.Module:
    """Return the file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@pytest.mark.parametrize("module", MODULES, ids=short_name)
def test_module_has_a_docstring(module):
    """Every module says what it is for."""
    assert ast.get_docstring(parse(module))


@pytest.mark.parametrize("module", [m for m in MODULES if not m.is_relative_to(PACKAGE / "cli")], ids=short_name)
def test_only_the_command_line_prints(module):
    """Libraries log: the name `print` occurs in the command line only."""
    assert [node.lineno for node in ast.walk(parse(module)) if isinstance(node, ast.Name) and node.id == "print"] == []


@pytest.mark.parametrize("module", MODULES, ids=short_name)
def test_nothing_is_unpickled(module):
    """No module imports pickle or a relative of it, so nothing in a user's file can execute code."""
    relatives = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
    imported = set()
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported & relatives == set()


@pytest.mark.parametrize("file", TEST_FILES, ids=short_name)
def test_every_test_states_a_behavior(file):
    """Every test function has a docstring, of one line unless it needs more."""
    silent = [
        node.name
        for node in ast.walk(parse(file))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not ast.get_docstring(node)
    ]
    assert silent == []


@pytest.mark.parametrize("file", TEST_FILES, ids=short_name)
def test_every_expected_error_names_its_message(file):
    """`pytest.raises` and `pytest.warns` always come with `match`: the message is part of the behavior."""
    vague = [
        node.lineno
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("raises", "warns")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "pytest"
        and "match" not in {keyword.arg for keyword in node.keywords}
    ]
    assert vague == []
