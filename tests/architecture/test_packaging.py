import re
import tomllib
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
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
    packages = [requirement for requirement in extras if not requirement.startswith("holdfast[")]  # our own extras
    return [*PROJECT["dependencies"], *packages, *BUILD["requires"]]


@pytest.mark.parametrize("requirement", every_requirement())
def test_every_requirement_has_a_lower_bound_and_one_pin(requirement):
    """What the code needs is a lower bound; what is tested together is pinned in one file."""
    assert re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+(; sys_platform [!=]= 'darwin')?", requirement)
    assert [line for line in LINES if package_name(line) == package_name(requirement)] != []


def test_every_constraint_is_an_exact_version():
    """A constraint is name==version, perhaps for some platforms only, without a local suffix such as +cpu."""
    assert [line for line in LINES if not re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; .+)?", line)] == []


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "requirements-neural.lock",
        "requirements-docs.lock",
        "requirements-dev.lock",
        "requirements-cuda.lock",
    ],
)
def test_every_locked_version_is_the_pinned_one_and_has_hashes(name):
    """The lock files add hashes to the pins, and nothing else; to renew them: scripts/lock."""
    text = (ROOT / name).read_text(encoding="utf-8").replace(" \\\n    --hash=", " --hash=")
    for line in text.splitlines()[1:]:
        pin, *hashes = line.split(" --hash=")
        assert pin.split(" ;")[0].rstrip() in {pinned.split(" ;")[0] for pinned in LINES}
        assert hashes != []
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)


def locked_versions(name: str) -> dict[str, str]:
    """Return package -> version of a lock file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [line.split(" ")[0].split("==") for line in lines if "==" in line]
    return {package_name(package): version for package, version in pins}


def test_everything_the_scripts_install_is_locked():
    """Core, extras and build backend are in the lock files by name; the libraries of CUDA are apart."""
    extras = PROJECT["optional-dependencies"]
    tools = [requirement for requirement in extras["dev"] if not requirement.startswith("holdfast[")]
    for name, needed in (
        ("requirements.lock", []),
        ("requirements-neural.lock", extras["neural"]),
        ("requirements-docs.lock", [*extras["neural"], *extras["plots"], *extras["docs"][1:]]),
        ("requirements-dev.lock", [*extras["neural"], *extras["plots"], *tools]),
        ("requirements-oldest.lock", [*extras["neural"], *extras["plots"], *tools]),
    ):
        locked = locked_versions(name)
        needed = [*needed, *PROJECT["dependencies"], *BUILD["requires"], "editables"]
        assert {package_name(requirement) for requirement in needed} <= set(locked)
        assert not any(package.startswith(("nvidia", "cuda", "triton")) for package in locked)


def test_the_core_lock_has_nothing_heavy():
    """The demo installs it: neither torch nor what only torch or plots bring."""
    assert {"torch", "sympy", "networkx", "pillow", "matplotlib"}.isdisjoint(locked_versions("requirements.lock"))


def test_the_oldest_versions_are_the_promised_ones():
    """The lock of HOLDFAST_OLDEST has each lower bound of pyproject.toml; torch alone is newer."""
    locked = locked_versions("requirements-oldest.lock")
    for requirement in every_requirement():
        name, oldest = requirement.split(">=")
        if package_name(name) in locked and name != "torch":
            numbers = [[int(part) for part in text.split(".")[:3]] for text in (oldest, locked[package_name(name)])]
            assert numbers[1][: len(numbers[0])] == numbers[0], requirement


def test_torch_pin():
    """A bare torch pulls gigabytes; the pin is met by the CPU build too, which is locked under its full version."""
    assert "torch==2.13.0" in LINES
    for name in ("requirements-neural.lock", "requirements-dev.lock", "requirements-oldest.lock"):
        assert locked_versions(name)["torch"] == "2.13.0"
    assert locked_versions("requirements-torch-cpu.lock") == {"torch": "2.13.0+cpu"}


def test_extras():
    """The extras are the ones the documentation names."""
    names = ["boosters", "dask", "dev", "docs", "excel", "files", "neural", "onnx", "plots", "ray", "tensorboard"]
    names += ["tracking"]
    assert sorted(PROJECT["optional-dependencies"]) == names


def test_core_needs_no_extra():
    """The core is what tables need: nothing of it is heavy, and nothing of it belongs to an optional part."""
    assert {package_name(requirement) for requirement in PROJECT["dependencies"]} == {
        "filelock",
        "jinja2",
        "narwhals",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "rich",
        "safetensors",  # saved models keep their arrays in its format; its numpy part is one small file
        "scikit-learn",
        "scipy",
        "threadpoolctl",  # scikit-learn brings it
        "typer",
    }


def test_the_citation_and_the_changelog_have_the_version():
    """CITATION.cff names the version of the package, and the changelog begins with it."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [holdfast.__version__]
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[0] == holdfast.__version__


def test_the_workflow_runs_our_scripts_on_the_supported_versions():
    """Every step of the workflow is a script of the project; the Python versions are those of the classifiers."""
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    scripts = re.findall(
        r"- run: (?:HOLDFAST_OLDEST=1 )?\./(scripts/[\w-]+)(?: --extras| \$\{\{ matrix\.tests \}\})?\n", text
    )
    assert len(scripts) == text.count("- run:")
    assert set(scripts) == {"scripts/demo", "scripts/test", "scripts/wheel", "scripts/docs"}
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    matrices = re.findall(r"python: \[(.+)\]", text)
    assert matrices != []
    assert {matrix.replace('"', "") for matrix in matrices} == {", ".join(versions)}
    assert {"macos-latest", "windows-latest"} <= set(re.findall(r"os: ([\w-]+),", text))
    assert "- run: ./scripts/test --extras\n" in text


def test_contributing_lists_the_layers():
    """The layers in CONTRIBUTING.md are those that import-linter checks, in the same order."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [sorted(re.findall(r"\w+", layer)) for layer in contracts[0]["layers"]]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.search(r"```\n(cli →.+?)```", text, re.DOTALL)
    assert drawn is not None
    assert [sorted(re.findall(r"\w+", layer)) for layer in drawn[1].split("→")] == layers[1:]
    assert layers[0] == ["__main__"]
