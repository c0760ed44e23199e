"""A way to run code in a new process where the packages of the extras cannot be imported, as if not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Import names of what the extras neural, plots, boosters, ray, tensorboard, tracking, onnx, docs and dev install.
BLOCKED = (
    "torch",
    "PIL",
    "matplotlib",
    "catboost",
    "lightgbm",
    "xgboost",
    "ray",
    "tensorboard",
    "mlflow",
    "optuna",
    "onnx",
    "onnxruntime",
    "skl2onnx",
    "sphinx",
    "hypothesis",
    "polars",
    "pytest",
)
# Python runs a module of this name when it starts, in child processes too.
SITE = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def run_without_extras(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return the function that runs code in `tmp_path`, with the arguments as sys.argv[1:]."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
        )

    return run
