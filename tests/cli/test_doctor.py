import re
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast as package
from holdfast.cli.doctor import EXTRAS, OLDEST_PYTHON

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
MODULE = sys.modules["holdfast.cli.doctor"]  # the package shows the command under this name


@pytest.fixture
def declare(monkeypatch):
    """Return a function that declares what holdfast needs, as the metadata of its installation does."""
    return lambda *needs: monkeypatch.setattr(MODULE, "declared_requirements", lambda: list(needs))


def test_the_lists_are_those_of_the_project(holdfast):
    """Packages, extras and their oldest versions are those that the project declares, and every extra is explained."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found = MODULE._requirements()
    assert found.pop("") == project["dependencies"]
    extras = project["optional-dependencies"]
    for name in ("dev", "docs"):
        assert extras[name].pop(0) == "holdfast[neural,plots]"
        extras[name] += extras["neural"] + extras["plots"]
    other = "==" if sys.platform != "darwin" else "!="  # the package is another one on macOS
    extras["boosters"] = [need.partition(";")[0] for need in extras["boosters"] if f"{other} 'darwin'" not in need]
    assert {name: set(needs) for name, needs in found.items()} == {name: set(needs) for name, needs in extras.items()}
    assert set(EXTRAS) == set(extras)
    assert project["requires-python"] == f">={'.'.join(map(str, OLDEST_PYTHON))}"


def test_a_working_installation(holdfast, monkeypatch, tmp_path):
    """Everything that is needed works: code 0, with versions, machine and cache."""
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "not" / "yet"))
    result = holdfast("doctor", "--json").json
    assert result["problems"] == []
    assert result["holdfast"] == package.__version__
    needed = [need.partition(">=")[0] for need in MODULE._requirements()[""]]
    assert {p["name"]: p["problem"] for p in result["packages"]} == dict.fromkeys(needed)
    assert result["cache"]["folder"] == str(tmp_path / "not" / "yet")
    assert result["cache"]["writable"] is True
    assert not (tmp_path / "not").exists()
    assert result["cache"]["free_bytes"] > 0
    assert result["processor"]["cores"] >= 1
    assert result["processor"]["precision"] in ("fp32", "bf16")


def test_text_fits_80_columns(holdfast):
    """Tables of packages, machine and extras, and a last line that says it all."""
    outcome = holdfast("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.match(r"holdfast \S+, Python 3\.\d+\.\d+", lines[2])
    assert {"Packages", "Machine", "Extras"} <= set(lines)
    assert (lines[0], lines[-1]) == ("Everything that holdfast needs works.", "Next: holdfast demo")


def test_missing_extras_come_with_their_command(holdfast, monkeypatch, declare):
    """What an extra lacks is no failure; the command that installs it is printed."""
    needs = ("numpy>=2.0", "rocket[fuel]>=9", "numpy>=999")
    declare("numpy>=2.0", *(f'{need}; extra == "moon"' for need in needs))
    monkeypatch.setattr(MODULE, "EXTRAS", {"moon": "flying there"})
    outcome = holdfast("doctor")
    assert outcome.code == 0
    assert "\n  moon: pip install 'rocket[fuel]>=9' 'numpy>=999'\n" in outcome.out
    assert re.search(r"\n  moon has numpy 2\.\S+\n", outcome.out)
    assert all(f"{name} " in " ".join(outcome.out.split()) for name in MODULE.OTHERS)


@pytest.mark.parametrize(
    ("required", "problem"),
    [
        ("no-such-thing>=1.0", "no-such-thing is not installed."),
        ("numpy>=999.1", r"numpy \S+ is too old: 999.1 or newer is needed."),
        ("numpy>=1.0", r"numpy \S+ cannot be imported \(ModuleNotFoundError: No module"),
    ],
)
def test_what_is_needed_and_broken_is_code_1(holdfast, monkeypatch, declare, required, problem):
    """A package that is missing, too old or broken is named, with the command that mends it."""
    declare(required)
    monkeypatch.setattr(MODULE, "MODULES", {"numpy": "numpy.broken"})
    outcome = holdfast("doctor", "--json")
    assert outcome.code == 1
    (found,), mend = outcome.json["problems"], outcome.json["next"]
    assert re.match(problem, found)
    assert mend.startswith("pip install --upgrade ")
    assert mend.endswith(f"'{required}'")


def test_code_that_was_never_installed_is_named(holdfast, monkeypatch):
    """Without its metadata nobody knows what holdfast needs, so that itself is what is missing."""
    monkeypatch.setattr(MODULE, "declared_requirements", lambda: None)
    monkeypatch.setattr(MODULE, "installed_version", lambda name: None)
    outcome = holdfast("doctor", "--json")
    assert outcome.code == 1
    assert outcome.json["problems"] == ["holdfast is not installed."]


def test_a_cache_that_cannot_be_written_is_a_remark(holdfast, monkeypatch, declare):
    """Data sets cannot be downloaded then, and the remark says what to set."""
    declare("numpy>=2.0")
    monkeypatch.setattr(MODULE, "_can_write", lambda folder: False)
    monkeypatch.setenv("HOLDFAST_DATA", "/somewhere")
    outcome = holdfast("doctor", "--json")
    assert outcome.code == 0
    assert outcome.json["remarks"][0] == (
        "The cache folder /somewhere cannot be written: data sets cannot be downloaded. "
        "Set HOLDFAST_DATA to a folder that can."
    )
