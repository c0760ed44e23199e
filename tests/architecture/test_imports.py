import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
# Modules, or whole packages, that need an extra. Everything else works with the core alone.
NEEDS_AN_EXTRA = {
    "holdfast.neural": "networks are torch modules",
    "holdfast.interpolation.gradient": "the solver for networks; only an estimator from holdfast.neural reaches it",
    "holdfast.saving.monitors": "writes checkpoints of networks while they are trained",
    "holdfast.lab.validation": "selects the epochs of networks; other runs do without",
}


def module_names() -> list[str]:
    """Return the dotted name of every module of the package."""
    names = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def run_python(code: str, *arguments: str) -> str:
    """Return what a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_holdfast_loads_nothing_heavy():
    """`import holdfast` loads neither torch nor scikit-learn nor pandas, nor even numpy."""
    loaded = json.loads(run_python("import holdfast, json, sys; print(json.dumps(list(sys.modules)))"))
    assert {"torch", "sklearn", "pandas", "scipy", "matplotlib", "numpy"}.isdisjoint(loaded)


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["demo", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    """`holdfast --help`, also of a command, loads neither torch nor scikit-learn nor pandas."""
    code = """
import sys
from holdfast.cli import main
sys.argv[0] = "holdfast"
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("loaded:", *sorted({"torch", "sklearn", "pandas", "scipy", "matplotlib"} & set(sys.modules)))
"""
    output = run_python(code, *arguments)
    assert "Usage" in output
    assert output.splitlines()[-1] == "loaded:"


def needs_an_extra(name: str) -> bool:
    """Return whether a module is on the list of those that do."""
    return any(name == entry or name.startswith(f"{entry}.") for entry in NEEDS_AN_EXTRA)


def test_only_the_listed_modules_need_an_extra(run_without_extras):
    """Every other module can be imported without torch, matplotlib and the other packages of the extras."""
    done = run_without_extras(
        "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)",
        *(name for name in module_names() if not needs_an_extra(name)),
    )
    assert done.returncode == 0, done.stderr


def test_only_the_listed_modules_load_torch():
    """No other module loads torch where it is installed, which would cost a second at every start."""
    code = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{name} loads torch; import it inside the function that needs it")
"""
    run_python(code, *(name for name in module_names() if not needs_an_extra(name)))


@pytest.mark.parametrize("entry", NEEDS_AN_EXTRA)
def test_every_listed_module_exists_and_needs_its_extra(entry, run_without_extras):
    """An entry that matches no module, or one that no longer needs its extra, has to go."""
    assert entry in module_names()
    done = run_without_extras("import importlib, sys; importlib.import_module(sys.argv[1])", entry)
    assert "No module named 'torch'" in done.stderr


def test_layers_hold(monkeypatch):
    """Lower layers never import higher ones, and the three stages do not import one another."""
    root = PACKAGE.parents[1]
    if not (root / "pyproject.toml").exists():
        pytest.skip("the package is installed without its source tree, where the layers are written down")
    monkeypatch.chdir(root)
    # In a process of its own: the linter configures logging, which silences every logger that exists already.
    run_python("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")
