import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
LINES = [
    line
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def package_name(requirement: str) -> str:
    """Return the normalized name at the start of a requirement."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def every_requirement() -> list[str]:
    """Return the requirements of the package, of each extra and of the build."""
    extras = [requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra]
    return [*PROJECT["dependencies"], *extras, *BUILD["requires"]]


@pytest.mark.parametrize("requirement", every_requirement())
def test_every_requirement_has_a_lower_bound_and_one_pin(requirement):
    """What the code needs is a lower bound; what is tested together is pinned in one file."""
    assert re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+", requirement)
    assert [line for line in LINES if package_name(line) == package_name(requirement)] != []


def test_every_constraint_is_an_exact_version():
    """A constraint is name==version, perhaps for some platforms only, without a local suffix such as +cpu."""
    assert [line for line in LINES if not re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; .+)?", line)] == []


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "requirements-cuda.lock"])
def test_every_locked_version_is_the_pinned_one_and_has_hashes(name):
    """The lock files add hashes to the pins, and nothing else; to renew them: scripts/lock."""
    text = (ROOT / name).read_text(encoding="utf-8").replace(" \\\n    --hash=", " --hash=")
    for line in text.splitlines()[1:]:
        pin, *hashes = line.split(" --hash=")
        assert pin.split(" ;")[0].rstrip() in {pinned.split(" ;")[0] for pinned in LINES}
        assert hashes != []
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)


def test_everything_the_scripts_install_is_locked():
    """Core, tools and build backend are in the lock files by name; the libraries of CUDA are apart."""
    for name, needed in (
        ("requirements.lock", PROJECT["dependencies"]),
        ("requirements-dev.lock", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]),
    ):
        locked = {package_name(line) for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if "==" in line}
        assert {package_name(requirement) for requirement in [*needed, *BUILD["requires"], "editables"]} <= locked
        assert not any(package.startswith(("nvidia", "cuda", "triton")) for package in locked)


def test_torch_pin():
    """A bare torch pulls gigabytes; the pin is met by the CPU build too."""
    assert "torch==2.13.0" in LINES


def test_extras():
    """The extras are the ones the documentation names."""
    assert sorted(PROJECT["optional-dependencies"]) == ["dev", "docs", "ray", "tensorboard"]


def test_core_needs_no_extra():
    """The packages of the optional parts are no core dependencies."""
    core = {package_name(requirement) for requirement in PROJECT["dependencies"]}
    assert core.isdisjoint({"ray", "tensorboard", "polars", "pytest", "mypy"})
    assert {"numpy", "scikit-learn", "torch", "safetensors", "skops"} <= core
