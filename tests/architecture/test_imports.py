import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
# Modules, or whole packages, that must start without torch: they serve help, reports and scikit-learn estimators.
TORCH_FREE = (
    "holdfast.cli",
    "holdfast.datasets",
    "holdfast.environments",
    "holdfast.estimators.base",
    "holdfast.estimators.erm",
    "holdfast.estimators.group_dro",
    "holdfast.estimators.pi",
    "holdfast.estimators.splitting",
    "holdfast.exceptions",
    "holdfast.lab.config",
    "holdfast.learners",
    "holdfast.metrics",
    "holdfast.reports",
    "holdfast.seeding",
    "holdfast.interpolation.convex.solver",
    "holdfast.interpolation.reweight",
    "holdfast.partition",
    "holdfast.saving",
    "holdfast.tables",
    "holdfast.judging",
    "holdfast.rows",
    "holdfast.audit",
    "holdfast.theory",
)


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


def test_torch_free_modules_load_no_torch():
    """None of the modules that promise to start without torch brings it in, not even through another module."""
    names = [name for name in module_names() if any(name == free or name.startswith(f"{free}.") for free in TORCH_FREE)]
    code = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{name} loads torch; import it inside the function that needs it")
"""
    run_python(code, *names)


def test_no_module_needs_an_extra():
    """Every module can be imported without the packages of the extras."""
    code = """
import importlib, sys
for extra in ("mkdocs", "ray", "tensorboard", "hypothesis", "polars", "pytest"):
    sys.modules[extra] = None  # importing it now fails
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
    run_python(code, *module_names())


def test_layers_hold(monkeypatch):
    """Lower layers never import higher ones, and the three stages do not import one another."""
    root = PACKAGE.parents[1]
    if not (root / "pyproject.toml").exists():
        pytest.skip("the package is installed without its source tree, where the layers are written down")
    monkeypatch.chdir(root)
    # In a process of its own: the linter configures logging, which silences every logger that exists already.
    run_python("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")
