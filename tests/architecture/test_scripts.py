"""The scripts, with a stand-in for Python that installs nothing but writes down what it was asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts need bash")

STAND_IN = f"""#!/usr/bin/env bash
case "$1 $2" in
    "-m venv") bin="${{@: -1}}/bin"; mkdir -p "$bin" && cp "$0" "$bin/python" && exec "$0" --make-scripts "$bin" ;;
    "--make-scripts "*) for name in holdfast lint-imports; do
        printf '#!/bin/sh\\necho "%s $*"\\n' "$name" >"$2/$name" && chmod +x "$2/$name"; done ;;
    "-m pip") shift 2; case "$*" in *install*|*check*) echo "pip $*" >>"$LOG"; exit "${{PIP_STATUS:-0}}" ;; esac ;;
    "-c import importlib.metadata"*) exit "${{CUDA_STATUS:-1}}" ;;
    "-c "*) exec {sys.executable!r} "$@" ;;
    "--version "*) echo "Python 3.11" ;;
    *) echo "python $*" ;;
esac
"""


class Checkout:
    """A copy of the scripts, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.root, self.log = folder / "a check out", folder / "log"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        shutil.copytree(ROOT / ".ci", self.root / ".ci")
        for path in (ROOT / "pyproject.toml", ROOT / "constraints.txt", *ROOT.glob("requirements*.lock")):
            shutil.copy(path, self.root)
        self.python = folder / "stand in"
        self.python.write_text(STAND_IN, encoding="utf-8")
        self.python.chmod(0o755)

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script from another folder; forget what was installed before."""
        self.log.write_text("", encoding="utf-8")
        environment = {**os.environ, "PYTHON": str(self.python), "LOG": str(self.log), **variables}
        return subprocess.run(
            [self.root / script, *arguments], capture_output=True, text=True, timeout=600, env=environment, cwd="/"
        )

    def installed(self) -> list[str]:
        """Return the pip commands of the last run."""
        return self.log.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a fresh checkout without an environment."""
    return Checkout(tmp_path)


def test_demo_installs_once(checkout):
    """The first call installs what is locked, then the package alone; the second installs nothing."""
    first = checkout.run("scripts/demo", "--json")
    assert first.returncode == 0, first.stderr
    assert first.stdout == "holdfast demo --json\n"
    assert checkout.installed() == [
        "pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements.lock",
        "pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .",
        "pip --disable-pip-version-check check",
    ]
    second = checkout.run("scripts/demo", "--json")
    assert (second.stdout, second.stderr) == ("holdfast demo --json\n", "")
    assert checkout.installed() == []


def test_test_script_installs_the_tools_and_passes_arguments_on(checkout):
    """Lint, format, types, layers and tests run in this order; arguments reach pytest; the demo is served too."""
    done = checkout.run("scripts/test", "-k", "two words")
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(str(checkout.root / ".venv/bin/"), "").splitlines() == [
        "python -m ruff check",
        "python -m ruff format --check",
        "python -m mypy",
        "python /lint-imports",
        "python -m pytest -n 2 -k two words",
    ]
    assert checkout.installed()[0].endswith("--no-deps --require-hashes -r requirements-dev.lock")
    assert checkout.installed()[1].endswith("--no-deps --no-build-isolation -e .[dev]")
    checkout.run("scripts/demo")
    assert checkout.installed() == []


def test_bench_script_passes_arguments_on(checkout):
    """The benchmarks run in the environment of the demo, with the arguments as they are."""
    done = checkout.run("scripts/bench", "--quick", "--only", "convex")
    assert (done.returncode, done.stdout) == (0, "python benchmarks/run.py --quick --only convex\n"), done.stderr


def test_continuous_integration_runs_the_test_script(checkout):
    """`.ci/run` prints what `scripts/test` prints."""
    assert checkout.run(".ci/run").stdout == checkout.run("scripts/test").stdout


def test_the_tools_are_added_to_a_demo_installation(checkout):
    """An installation without tools does not satisfy the test script."""
    checkout.run("scripts/demo")
    checkout.run("scripts/test")
    assert checkout.installed()[1].endswith("-e .[dev]")


def test_the_libraries_of_cuda_come_with_its_torch_alone(checkout):
    """Where the torch that was chosen needs them, they are installed, with hashes too."""
    checkout.run("scripts/demo", CUDA_STATUS="0")
    assert checkout.installed()[1].endswith("--no-deps --require-hashes -r requirements-cuda.lock")


def test_the_hashes_can_be_left_out(checkout):
    """HOLDFAST_UNLOCKED installs the pinned versions, whatever the build; a failed installation names it."""
    failed = checkout.run("scripts/demo", PIP_STATUS="1")
    assert failed.returncode == 1
    assert "HOLDFAST_UNLOCKED=1" in failed.stderr.splitlines()[-1]
    checkout.run("scripts/demo", HOLDFAST_UNLOCKED="1")
    assert [line.split("--quiet ")[1] for line in checkout.installed()] == [
        "-c constraints.txt hatchling editables",
        "-c constraints.txt --no-build-isolation -e .",
    ]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "requirements.lock"])
def test_a_changed_requirement_installs_again(checkout, name):
    """Editing the requirements or the pins makes the next call install."""
    checkout.run("scripts/demo")
    with (checkout.root / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    checkout.run("scripts/demo")
    assert len(checkout.installed()) == 3


def test_a_failed_installation_is_repeated(checkout):
    """An installation that stopped halfway leaves no stamp behind, also over an older complete one."""
    checkout.run("scripts/demo")
    failed = checkout.run("scripts/test", PIP_STATUS="3")
    assert failed.returncode == 3
    assert len(checkout.installed()) == 1
    checkout.run("scripts/demo")
    assert len(checkout.installed()) == 3


def test_no_usable_python_is_said(checkout):
    """Without Python 3.11 the script stops with status 1 and says what to do."""
    done = checkout.run("scripts/demo", PYTHON="/nowhere/python3.11")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "holdfast needs Python 3.11 or newer with its venv module; /nowhere/python3.11 did not answer to that."
    )
    assert not (checkout.root / ".venv").exists()
