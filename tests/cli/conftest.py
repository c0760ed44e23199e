"""Tables of three hospitals, classifiers fitted on two of them, and a way to run commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast.cli import app


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


def invoke(*args: object) -> Outcome:
    """Run a command in this process, as a terminal of 80 columns would."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="holdfast", env={"COLUMNS": "80"})
    return Outcome(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def holdfast():
    """Return the function that runs a command."""
    return invoke


@dataclass(frozen=True)
class Hospitals:
    """Files and folders that the commands work on."""

    folder: Path
    fit_options: tuple[str, ...] = ("--label", "diagnosis", "--environment", "site")

    @property
    def train(self) -> Path:
        """Boston and Chicago, where the scanner tells the diagnosis in 95 and 85 of 100 rows."""
        return self.folder / "train.csv"

    @property
    def test(self) -> Path:
        """Boston again, and Denver, where the scanner tells the opposite."""
        return self.folder / "test.csv"

    @property
    def many(self) -> Path:
        """Boston and Denver with 800 rows each: the scanner tells the diagnosis in 95 and 65 of 100."""
        return self.folder / "many.csv"


def _hospital(site: str, n_rows: int, agreement: float, generator: np.random.Generator) -> pd.DataFrame:
    """Return patients of whom the marker tells 75 of 100 diagnoses, and the scanner `agreement`, by exact counts."""
    y = np.arange(n_rows) % 2
    marker = np.where(generator.permutation(n_rows) < 0.75 * n_rows, y, 1 - y)
    scanner = np.where(generator.permutation(n_rows) < agreement * n_rows, y, 1 - y)
    frame = pd.DataFrame(
        {
            "site": site,
            "marker": marker + generator.normal(0, 0.1, n_rows).round(3),
            "scanner": np.where(scanner == 1, "B", "A"),
            "sex": np.where(np.arange(n_rows) // 2 % 2, "f", "m"),
            "visit": pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n_rows) * 7, unit="D"),
            "note": np.where(y == 1, "patient reports pain again", "patient feels rather well"),
            "diagnosis": np.where(y == 1, "ill", "well"),
        }
    )
    frame.loc[generator.permutation(n_rows)[:10], "marker"] = np.nan
    return frame


@pytest.fixture(scope="session")
def hospitals(tmp_path_factory) -> Hospitals:
    """Write the tables, and fit PI and ERM (folders `pi` and `erm`) once for all tests."""
    folder = tmp_path_factory.mktemp("hospitals")
    generator = np.random.default_rng(5)
    train = [_hospital("Boston", 200, 0.95, generator), _hospital("Chicago", 200, 0.85, generator)]
    test = [_hospital("Boston", 100, 0.95, generator), _hospital("Denver", 100, 0.1, generator)]
    pd.concat(train).to_csv(folder / "train.csv", index=False)
    pd.concat(test).to_csv(folder / "test.csv", index=False)
    pd.concat(test).to_parquet(folder / "test.parquet", index=False)
    many = [_hospital("Boston", 800, 0.95, generator), _hospital("Denver", 800, 0.65, generator)]
    pd.concat(many).to_csv(folder / "many.csv", index=False)
    files = Hospitals(folder)
    for method in ("pi", "erm"):
        outcome = invoke(
            "fit", files.train, *files.fit_options, "--drop", "note", "--drop", "visit", "--method", method,
            "--out", folder / method,
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
    return files
