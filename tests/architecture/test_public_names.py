import ast
import importlib
from importlib import metadata
from pathlib import Path

import pytest

import holdfast

LAZY = sorted(holdfast._PUBLIC)


def test_all_equals_the_lazy_names():
    """`__all__` holds exactly the names that load lazily, and the version; it is sorted."""
    assert sorted([*LAZY, "__version__"]) == holdfast.__all__


def test_type_checkers_see_the_same_names():
    """The block for type checkers imports every lazy name from the module that it loads from."""
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            path = f"{statement.module}:{alias.name}"
            whole_module = path.replace(":", ".")
            name = alias.asname or alias.name
            seen[name] = whole_module if holdfast._PUBLIC.get(name) == whole_module else path
    assert seen == holdfast._PUBLIC


@pytest.mark.parametrize("name", LAZY)
def test_every_public_name_loads(name):
    """Each name is the object of its home module, and has a docstring."""
    path, _, attribute = holdfast._PUBLIC[name].partition(":")
    home = importlib.import_module(path)
    assert getattr(holdfast, name) is (getattr(home, attribute) if attribute else home)
    assert getattr(holdfast, name).__doc__


def test_dir_lists_the_public_names():
    """Tab completion offers the public names before any of them is loaded."""
    assert dir(holdfast) == sorted(holdfast.__all__)


def test_unknown_name_is_an_attribute_error():
    """A name that nobody knows fails as in any module."""
    with pytest.raises(AttributeError, match=r"^module 'holdfast' has no attribute 'PICLassifier'$"):
        _ = holdfast.PICLassifier


def test_version_is_the_installed_one():
    """The package says the version that it was installed as."""
    try:
        installed = metadata.version("holdfast")
    except metadata.PackageNotFoundError:
        pytest.skip("holdfast is on the path but not installed")
    assert holdfast.__version__ == installed
