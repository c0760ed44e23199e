"""The scripts, with a stand-in for Python that installs nothing but writes down what it was asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = Path("src/holdfast/__init__.py")
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts need bash")

STAND_IN = f"""#!/usr/bin/env bash
case "$1 $2" in
    "-m venv") bin="${{@: -1}}/bin"; mkdir -p "$bin" && cp "$0" "$bin/python" && exec "$0" --make-scripts "$bin" ;;
    "--make-scripts "*) for name in holdfast lint-imports; do
        printf '#!/bin/sh\\necho "%s $*"\\n' "$name" >"$2/$name" && chmod +x "$2/$name"; done ;;
    "-m pip") shift 2; case "$*" in
        *torch-cpu*|*torch==*) echo "pip $*" >>"$LOG"; echo "${{TORCH_SAYS:-}}" >&2; exit "${{TORCH_STATUS:-0}}" ;;
        *install*|*check*) echo "pip $*" >>"$LOG"; exit "${{PIP_STATUS:-0}}" ;; esac ;;
    "-c import importlib.metadata"*) exit "${{CUDA_STATUS:-1}}" ;;
    "-m compileall") [[ "${{@: -1}}" == .venv*/lib ]] ;;
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
        (self.root / "src" / "holdfast").mkdir(parents=True)
        shutil.copy(ROOT / VERSION, self.root / VERSION)
        self.python = folder / "stand in"
        self.python.write_text(STAND_IN, encoding="utf-8")
        self.python.chmod(0o755)
        self.gpu = folder / "no GPU"
        self.gpu.mkdir()
        self._write_gpu("exit 9")

    def _write_gpu(self, answer: str) -> None:
        command = self.gpu / "nvidia-smi"
        command.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
        command.chmod(0o755)

    def add_gpu(self) -> None:
        """Make `nvidia-smi -L` list a GPU."""
        self._write_gpu("echo 'GPU 0: one'")

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script from another folder; forget what was installed before."""
        self.log.write_text("", encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        path = f"{self.gpu}:{os.environ['PATH']}"
        environment = {**kept, "PATH": path, "PYTHON": str(self.python), "LOG": str(self.log), **variables}
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
        "pip --disable-pip-version-check install --no-compile --quiet --no-deps --require-hashes -r requirements.lock",
        "pip --disable-pip-version-check install --no-compile --quiet --no-deps --no-build-isolation -e .",
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
    assert [line.split(" --quiet ")[-1] for line in checkout.installed()] == [
        "--no-deps --require-hashes -r requirements-torch-cpu.lock",
        "--no-deps --require-hashes -r requirements-dev.lock",
        "--no-deps --no-build-isolation -e .[dev]",
        "pip --disable-pip-version-check check",
    ]
    checkout.run("scripts/demo")
    assert checkout.installed() == []


def test_test_script_runs_what_is_skipped_without_the_optional_tools(checkout):
    """`--extras` installs the tools in the pinned versions, and runs the files that skip tests without them."""
    (checkout.root / "tests").mkdir()
    (checkout.root / "tests" / "test_one.py").write_text('pytest.importorskip("ray")\n', encoding="utf-8")
    (checkout.root / "tests" / "test_two.py").write_text("", encoding="utf-8")
    done = checkout.run("scripts/test", "--extras", "-x")
    assert (done.returncode, done.stdout) == (0, "python -m pytest -n 2 tests/test_one.py -x\n"), done.stderr
    assert "-c constraints.txt" in checkout.installed()[-1]
    assert "skorch" in checkout.installed()[-1]


def test_bench_script_passes_arguments_on(checkout):
    """The benchmarks run in the environment of the tests, with the arguments as they are."""
    done = checkout.run("scripts/bench", "--quick", "--only", "convex")
    assert (done.returncode, done.stdout) == (0, "python benchmarks/run.py --quick --only convex\n"), done.stderr


def test_docs_script_builds_the_site(checkout):
    """A warning fails the build; what was installed before stays good for the other scripts."""
    checkout.run("scripts/test")
    done = checkout.run("scripts/docs")
    build = "python -m sphinx --fail-on-warning --keep-going --quiet"
    assert (done.returncode, done.stdout) == (0, f"{build} docs site\n"), done.stderr
    assert checkout.installed()[1].endswith("--require-hashes -r requirements-docs.lock")
    assert checkout.run("scripts/docs", "-D", "plot_gallery=0").stdout == f"{build} -D plot_gallery=0 docs site\n"
    checkout.run("scripts/test")
    assert checkout.installed() == []


def test_wheel_script_tries_the_wheel_without_extras(checkout):
    """The wheel goes into an environment of its own, with the locked core alone."""
    done = checkout.run("scripts/wheel")
    assert done.stdout.splitlines() == ["holdfast --version", "holdfast doctor", "holdfast demo --seeds 1"], done.stderr
    assert [line.split(" --quiet ")[-1] for line in checkout.installed()[-3:]] == [
        "--no-deps --require-hashes -r requirements.lock",
        "--no-deps dist/*.whl",
        "pip --disable-pip-version-check check",
    ]


def test_continuous_integration_runs_the_test_script(checkout):
    """`.ci/run` prints what `scripts/test` prints."""
    assert checkout.run(".ci/run").stdout == checkout.run("scripts/test").stdout


def test_the_tools_are_added_to_a_demo_installation(checkout):
    """An installation without tools does not satisfy the test script."""
    checkout.run("scripts/demo")
    checkout.run("scripts/test")
    assert checkout.installed()[2].endswith("-e .[dev]")


def test_the_libraries_of_cuda_come_with_its_torch_alone(checkout):
    """Where the torch that was chosen needs them, they are installed, with hashes too; the demo never asks."""
    checkout.run("scripts/demo", CUDA_STATUS="0")
    assert "cuda" not in " ".join(checkout.installed())
    checkout.run("scripts/test", CUDA_STATUS="0")
    assert checkout.installed()[2].endswith("--no-deps --require-hashes -r requirements-cuda.lock")


linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the package index has CPU builds")


@linux
def test_a_cpu_build_of_torch_is_looked_for_in_the_index_that_the_user_names(checkout):
    """The other packages are not: an index could offer its own versions of them."""
    checkout.run("scripts/test", HOLDFAST_TORCH_INDEX="https://example.org/cpu")
    first, second, *_ = checkout.installed()
    assert first.endswith("-r requirements-torch-cpu.lock --extra-index-url https://example.org/cpu")
    assert second.endswith("-r requirements-dev.lock")


@linux
def test_without_a_cpu_build_of_torch_the_gigabytes_are_announced(checkout):
    """The index's build is taken then, and a sentence says what that means and what to do."""
    missing = "ERROR: No matching distribution found for torch==2.13.0+cpu"
    done = checkout.run("scripts/test", TORCH_STATUS="1", TORCH_SAYS=missing, CUDA_STATUS="0")
    assert done.returncode == 0
    assert "No CPU build of torch was found" in done.stderr
    assert "HOLDFAST_TORCH_INDEX=URL" in done.stderr
    assert [line.split(" -r ")[1] for line in checkout.installed() if " -r " in line] == [
        "requirements-torch-cpu.lock",
        "requirements-dev.lock",
        "requirements-cuda.lock",
    ]


@linux
def test_a_cpu_build_of_torch_with_another_hash_is_refused(checkout):
    """Nothing is installed instead of it; HOLDFAST_UNLOCKED=torch takes this one file without a known hash."""
    refused = checkout.run("scripts/test", TORCH_STATUS="4", TORCH_SAYS="ERROR: THESE PACKAGES DO NOT MATCH THE HASHES")
    assert refused.returncode == 4
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert "HOLDFAST_UNLOCKED=torch" in refused.stderr.splitlines()[-1]
    assert len(checkout.installed()) == 1
    checkout.run("scripts/test", HOLDFAST_UNLOCKED="torch")
    assert [line.split(" --quiet ")[-1] for line in checkout.installed()[:2]] == [
        "--no-deps torch==2.13.0+cpu",
        "--no-deps --require-hashes -r requirements-dev.lock",
    ]


def test_a_machine_with_a_gpu_gets_the_build_of_the_index(checkout):
    """There the libraries of CUDA are wanted."""
    checkout.add_gpu()
    checkout.run("scripts/test", CUDA_STATUS="0")
    assert [line.split(" -r ")[1] for line in checkout.installed() if " -r " in line] == [
        "requirements-dev.lock",
        "requirements-cuda.lock",
    ]


def test_the_oldest_versions_have_an_environment_of_their_own(checkout):
    """HOLDFAST_OLDEST installs them and runs the tests alone; .venv stays away."""
    done = checkout.run("scripts/test", "-k", "one", HOLDFAST_OLDEST="1")
    assert done.stdout.splitlines() == ["python -m pytest -n 2 -k one"], done.stderr
    assert checkout.installed()[-3].endswith("--no-deps --require-hashes -r requirements-oldest.lock")
    assert (checkout.root / ".venv-oldest").is_dir()
    assert not (checkout.root / ".venv").exists()
    (checkout.root / ".venv-oldest" / ".holdfast-installed").unlink()
    checkout.run("scripts/test", HOLDFAST_OLDEST="1", HOLDFAST_UNLOCKED="1")
    pins = (checkout.root / ".venv-oldest" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert "torch==2.13.0" in pins
    unlocked = checkout.installed()[-1]
    assert unlocked.endswith("-c .venv-oldest/constraints.txt --no-build-isolation -e .[dev]")


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


@pytest.mark.parametrize(("added", "n_calls"), [('__version__ = "99"', 3), ("# changed", 0)])
def test_a_new_version_installs_again(checkout, added, n_calls):
    """The metadata of an installation has the version; other lines of the source are read where they are."""
    checkout.run("scripts/demo")
    with (checkout.root / VERSION).open("a", encoding="utf-8") as file:
        file.write(f"{added}\n")
    checkout.run("scripts/demo")
    assert len(checkout.installed()) == n_calls


def test_a_failed_installation_is_repeated(checkout):
    """An installation that stopped halfway leaves no stamp behind, also over an older complete one."""
    checkout.run("scripts/demo")
    failed = checkout.run("scripts/test", PIP_STATUS="3")
    assert failed.returncode == 3
    assert len(checkout.installed()) == 2
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
