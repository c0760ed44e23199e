"""UCI Adult: incomes of the 1994 census, a table with natural environments."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.datasets.drawing import check_choice, check_probability, deal_rows
from holdfast.datasets.files import BytesProgress, check_sha256, fetch, read_plain, read_text
from holdfast.datasets.folders import candidate_folders, existing_folders, find_file, missing_file
from holdfast.datasets.own_table import TableDescription, make_dataset
from holdfast.datasets.values import Dataset, DatasetEntry
from holdfast.exceptions import DatasetError
from holdfast.seeding import Seeding

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
LABEL = "income"
SUBFOLDERS = ("adult",)
ROWS = {"adult.data": 32_561, "adult.test": 16_281}


def load_adult(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    environment: str = "sex",
    attributes: Sequence[str] = ("race", "workclass"),
    validation_share: float = 0.2,
) -> Dataset:
    """Load Adult, where the label is whether an income is above 50,000 dollars; X is a frame, ``?`` a missing value.

    Parameters
    ----------
    seed : int, default=0
        Deals training rows to validation, by label and environment.
    environment : str, default="sex"
        Column whose values are the environments.
    attributes : sequence of str, default=("race", "workclass")
        Columns to evaluate by. They are not inputs, nor is the census weight ``fnlwgt``.
    validation_share : float, default=0.2
        Share of ``adult.data``; ``adult.test`` is the test split.
    """
    import pandas as pd

    for name in (environment, *attributes):
        check_choice("environment" if name == environment else "attributes", name, COLUMNS[:-1])
    check_probability("validation_share", validation_share)
    folders = candidate_folders(folder, SUBFOLDERS)
    frames, notes = [], []
    for name, n_rows in ROWS.items():
        path = find_file(name, folders, f"{name}.gz")
        if path is None:
            raise missing_file("adult", f"{name} (plain or .gz)", folder)
        frame = _read(path)
        if len(frame) != n_rows:
            notes.append(f"{path.name}: {len(frame):,} rows, UCI's file has {n_rows:,}")
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    frame[environment] = frame[environment].fillna("unknown")
    n_train = len(frames[0])
    cells = frame[environment].astype(str).to_numpy()[:n_train] + frame[LABEL].to_numpy(dtype=str)[:n_train]
    deal = deal_rows(
        cells, 1, validation_share=validation_share, test_share=0.0, generator=Seeding(seed).generator("splits")
    )
    description = TableDescription(
        file=Path("adult"), label=LABEL, environment=environment, attributes=list(attributes), drop=["fnlwgt"]
    )
    parts = (deal.environments[0], deal.validation, np.arange(n_train, len(frame)))
    return make_dataset("adult", frame, description, parts, notes)


def _read(path: Path) -> pd.DataFrame:
    """Read one file; blank lines and the test file's remark are left out, as is the full stop behind its labels."""
    import pandas as pd

    rows = []
    reader = csv.reader(io.StringIO(read_text(path)), skipinitialspace=True)
    try:
        for number, cells in enumerate(reader, start=1):
            if cells and not cells[0].startswith("|"):
                rows.append(_row(cells, path, number))
    except csv.Error as problem:
        raise DatasetError(f"{path}, line {reader.line_num}: {problem}. Get the file again.") from problem
    if not rows:
        raise DatasetError(f"{path} has no rows. Get the file again.")
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(NUMBERS, float))


def _row(cells: list[str], path: Path, line: int) -> list[str | float | None]:
    """Return the values of one line: numbers, texts, None for a question mark, the label without its full stop."""
    remedy = "Correct the line, or get the file again."
    if len(cells) != len(COLUMNS):
        raise DatasetError(f"{path}, line {line}: {len(cells)} values where {len(COLUMNS)} are expected. {remedy}")
    label = cells[-1].rstrip(".")
    if label not in ("<=50K", ">50K"):
        raise DatasetError(
            f"{path}, line {line}: the last value must be <=50K or >50K. Got {cells[-1][:40]!r}. {remedy}"
        )
    values: list[str | float | None] = []
    for name, cell in zip(COLUMNS[:-1], cells[:-1], strict=True):
        try:
            values.append(None if cell == "?" else float(cell) if name in NUMBERS else cell)
        except ValueError as problem:
            raise DatasetError(
                f"{path}, line {line}: {name} must be a number. Got {cell[:40]!r}. {remedy}"
            ) from problem
    return [*values, label]


SOURCE = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
PAGE = "archive.ics.uci.edu/dataset/2/adult"
# File -> sha256 of its uncompressed bytes.
ADULT_SHA256: Mapping[str, str] = MappingProxyType(
    {
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    }
)


MAX_BYTES = 1 << 23  # the larger file has 3,974,305


def download_adult(
    folder: Path, *, source: str = SOURCE, timeout: float = 30.0, progress: BytesProgress | None = None
) -> list[Path]:
    """Put ``adult.data`` and ``adult.test`` into a folder; each is verified, and existing ones are kept."""
    found = {name: _present(name, folder) for name in ADULT_SHA256}
    options: dict[str, Any] = {"max_bytes": MAX_BYTES, "timeout": timeout, "progress": progress}
    try:
        return [
            path or fetch([source + name], folder / name, check=check_sha256(ADULT_SHA256[name]), **options)
            for name, path in found.items()
        ]
    except DatasetError as problem:
        raise DatasetError(f"{problem} The files are also on the page {PAGE}.") from problem


def _present(name: str, folder: Path) -> Path | None:
    """Return the verified file if the folder has it, and None if it is absent.

    Any other file of that name is refused: it would be read in place of what is fetched, and it is not ours to delete.
    """
    path = find_file(name, existing_folders(folder, SUBFOLDERS), f"{name}.gz")
    if path is None:
        return None
    sha256 = hashlib.sha256(read_plain(path, max_bytes=MAX_BYTES)).hexdigest()
    if sha256 != ADULT_SHA256[name]:
        raise DatasetError(
            f"{path} has the sha256 {sha256} (uncompressed), not {ADULT_SHA256[name]}: it is not UCI's file. "
            "Move it away to get the original, or load it as it is."
        )
    return path


ADULT = DatasetEntry(
    summary="UCI Adult incomes; any column as environment.",
    loader=load_adult,
    downloader=download_adult,
    instructions=(
        "In FOLDER or FOLDER/adult, plain or gzip (.gz), from archive.ics.uci.edu/dataset/2/adult:\n"
        "  adult.data  adult.test\n"
        "To get them (6 MB) with their checksums verified, run: COMMAND"
    ),
)
