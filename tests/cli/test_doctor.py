import re
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast as package
from holdfast.cli.doctor import EXTRAS, OLDEST_PYTHON, REQUIRED

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
MODULE = sys.modules["holdfast.cli.doctor"]  # the package shows the command under this name
SMALL = {"numpy": REQUIRED["numpy"]}


def test_the_lists_are_those_of_the_project():
    """Packages, extras and their oldest versions are those that the project declares."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert [f"{name}>={oldest}" for name, (_, oldest) in REQUIRED.items()] == project["dependencies"]
    extras = project["optional-dependencies"]
    assert extras["dev"].pop(0) == "holdfast[neural,plots]"
    assert {name: list(needs) for name, (_, needs) in EXTRAS.items()} == extras
    assert project["requires-python"] == f">={'.'.join(map(str, OLDEST_PYTHON))}"


def test_a_working_installation(holdfast, monkeypatch, tmp_path):
    """Everything that is needed works: code 0, with versions, machine and cache."""
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "not" / "yet"))
    result = holdfast("doctor", "--json").json
    assert result["problems"] == []
    assert result["holdfast"] == package.__version__
    assert {p["name"]: p["problem"] for p in result["packages"]} == dict.fromkeys(REQUIRED)
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


def test_missing_extras_come_with_their_command(holdfast, monkeypatch):
    """What an extra lacks is no failure; the command that installs it is printed."""
    monkeypatch.setattr(MODULE, "REQUIRED", SMALL)
    monkeypatch.setattr(MODULE, "EXTRAS", {"moon": ("flying there", ("numpy>=2.0", "rocket[fuel]>=9", "numpy>=999"))})
    outcome = holdfast("doctor")
    assert outcome.code == 0
    assert "\n  moon: pip install 'rocket[fuel]>=9' 'numpy>=999'\n" in outcome.out


@pytest.mark.parametrize(
    ("required", "problem"),
    [
        ({"no-such-thing": ("nothing", "1.0")}, "no-such-thing is not installed."),
        ({"numpy": ("numpy", "999.1")}, r"numpy \S+ is too old: 999.1 or newer is needed."),
        ({"numpy": ("numpy.broken", "1.0")}, r"numpy \S+ cannot be imported \(ModuleNotFoundError: No module"),
    ],
)
def test_what_is_needed_and_broken_is_code_1(holdfast, monkeypatch, required, problem):
    """A package that is missing, too old or broken is named, with the command that mends it."""
    monkeypatch.setattr(MODULE, "REQUIRED", required)
    outcome = holdfast("doctor", "--json")
    assert outcome.code == 1
    (found,), mend = outcome.json["problems"], outcome.json["next"]
    assert re.match(problem, found)
    name, (_, oldest) = next(iter(required.items()))
    assert mend.startswith("pip install --upgrade ")
    assert mend.endswith(f"'{name}>={oldest}'")


def test_a_cache_that_cannot_be_written_is_a_remark(holdfast, monkeypatch):
    """Data sets cannot be downloaded then, and the remark says what to set."""
    monkeypatch.setattr(MODULE, "REQUIRED", SMALL)
    monkeypatch.setattr(MODULE, "_can_write", lambda folder: False)
    monkeypatch.setenv("HOLDFAST_DATA", "/somewhere")
    outcome = holdfast("doctor", "--json")
    assert outcome.code == 0
    assert outcome.json["remarks"][0] == (
        "The cache folder /somewhere cannot be written: data sets cannot be downloaded. "
        "Set HOLDFAST_DATA to a folder that can."
    )
