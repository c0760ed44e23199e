"""The page about the architecture names modules that exist, and its tree has every module."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TREE = TEXT.partition("<!-- tree -->")[2].partition("<!-- end -->")[0]


def tree_paths():
    """Return the paths that the tree shows; four spaces are one level."""
    folders, paths = [], []
    for line in TREE.splitlines():
        found = re.match(r"((?:    )+)(\S+\.py|\S+/)(\s|$)", line)
        if not found:
            continue
        depth, name = len(found[1]) // 4 - 1, found[2]
        folders = folders[:depth]
        paths.append("/".join([*folders, name.rstrip("/")]))
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
    return paths


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/]+(?:\.py|/))`", TEXT))))
def test_every_named_module_exists(name):
    """What stands in backquotes and looks like a module or package is one, or a script of the repository."""
    assert (SOURCE / name).exists() or (ROOT / name).exists()


def test_the_tree_shows_what_is_there():
    """Every module and package is in the tree, and nothing else; `scripts/pages` renews it."""
    modules = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py") if not p.name.startswith("__")}
    packages = {p.parent.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("__init__.py")} - {"."}
    assert set(tree_paths()) == modules | packages
