import ast
import importlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import holdfast

LAZY = sorted(holdfast._PUBLIC)


def test_the_public_list_is_short():
    """These names, and no others, are promised to stay; everything else may change between versions."""
    assert [
        *("ERMClassifier", "GroupDROClassifier", "LeaveOneEnvironmentOut", "PIClassifier", "PIRegressor"),
        *("StableClassifier", "StableRegressor", "TableClassifier", "audit", "check", "compare", "diagnose"),
        *("diagnose_scores", "load", "save"),
    ] == LAZY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("NeuralClassifier", "neural.NeuralClassifier"),
        ("IRMClassifier", "methods.IRMClassifier"),
        ("partition_by_correctness", "partition.partition_by_correctness"),
        ("load_model", "load"),
        ("compare_methods", "compare"),
    ],
)
def test_old_names_say_the_new_one(old, new):
    """Whoever imports a name that has moved reads where it is."""
    with pytest.raises(ImportError, match=rf"^holdfast\.{old} is now holdfast\.{new}\. Import it from there\.$"):
        getattr(holdfast, old)


@pytest.mark.parametrize("old", sorted(holdfast._MOVED))
def test_moved_names_are_where_the_message_says(old):
    """No message leads nowhere."""
    module, _, name = f"holdfast.{holdfast._MOVED[old].format(old)}".rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_type_checkers_see_misspelled_parameters(tmp_path):
    """mypy refuses a parameter that does not exist, also of a name that loads when it is first used."""
    script = tmp_path / "script.py"
    script.write_text(
        "from holdfast import PIClassifier\n"
        "from holdfast.neural import NeuralClassifier\n"
        "NeuralClassifier('mlp', max_epoch=2)\n"
        "NeuralClassifier('mlp', network__droput=0.5)\n"
        "NeuralClassifier('mlp', training__precision='fp16')\n"
        "NeuralClassifier('mlp', network__dropout=0.5, data__n_workers=2, scheduler='cosine')\n"
        "PIClassifier(halfs='soft')\n"
    )
    source = Path(holdfast.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", source.parent / "pyproject.toml", script],
        capture_output=True,
        text=True,
        cwd=source.parent,
        env={**os.environ, "MYPYPATH": str(source)},
    )
    assert 'Unexpected keyword argument "max_epoch" for "NeuralClassifier"' in found.stdout, found.stdout
    assert 'Unexpected keyword argument "network__droput" for "NeuralClassifier"' in found.stdout, found.stdout
    assert 'Argument "training__precision" to "NeuralClassifier" has incompatible type' in found.stdout, found.stdout
    assert "Found 4 errors" in found.stdout, found.stdout
    assert 'Unexpected keyword argument "halfs" for "PIClassifier"' in found.stdout, found.stdout


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
            seen[alias.asname or alias.name] = path
    assert seen == holdfast._PUBLIC


@pytest.mark.parametrize("name", LAZY)
def test_every_public_name_loads(name):
    """Each name is the object of its home module, and has a docstring."""
    path, _, attribute = holdfast._PUBLIC[name].partition(":")
    assert getattr(holdfast, name) is getattr(importlib.import_module(path), attribute)
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
