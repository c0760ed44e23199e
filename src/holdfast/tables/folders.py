"""Read folders of Parquet files as one table, also those larger than the memory.

From a folder beyond the memory, a random sample of the rows is read, with 20,000 rows of each environment if there are
as many. The sample decides the kinds of columns, their preprocessing and the verdict. Then all rows are fitted on by
`holdfast.tables.passes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, get_args
from urllib.parse import unquote

import numpy as np

from holdfast.environments import listed
from holdfast.exceptions import ParameterError, TableError, suggest
from holdfast.parallel import run_each
from holdfast.seeding import Seeding
from holdfast.tables.files import (
    ADDRESS,
    CHUNK_ROWS,
    INDEX,
    PARQUET,
    OnBadFile,
    TableFile,
    TableSource,
    memory_bytes,
    open_filesystem,
    reading,
)

if TYPE_CHECKING:
    import pandas as pd

SAMPLE_ROWS = 200_000  # of a folder beyond the memory
LEAST_ROWS = 20_000  # of each environment in it, or as many as there are: they show every change that is acted on
MOST_PLACES = 10_000  # environments up to which this is looked after
BYTES_PER_NUMBER = 140  # that fitting a table in memory takes at its peak, measured (docs/scale.md)
PART_ROWS = 1_000_000  # rows of a task; a row group is never cut


@dataclass(frozen=True, eq=False)
class File:
    """A file of a folder."""

    name: str  # its path or address
    place: str  # inside the folder
    row_groups: tuple[int, ...]  # rows of each
    partition: Mapping[str, Any]  # columns that its folders' names state, such as year=2024


Part: TypeAlias = tuple[File, list[int]]  # a file, and row groups of it


class TableFolder(TableSource):
    """All Parquet files in a folder and its subfolders, whose names may state columns: ``year=2024/site=A``.

    Parameters
    ----------
    path : path or address
        Such as ``s3://bucket/rows``: what `pyarrow.fs` or fsspec opens.
    missing : sequence of str
        Texts that mean a missing value.
    on_bad_file : {"stop", "skip"}
        What to do with a file that cannot be read, or has other columns than the first: refuse the folder, or do
        without the file. `skipped` names these files, each with the reason.
    max_memory : float, optional
        GiB to use; None: the memory of the machine.
    """

    def __init__(
        self,
        path: str | Path,
        missing: Sequence[str] = (),
        *,
        on_bad_file: OnBadFile = "stop",
        max_memory: float | None = None,
    ) -> None:
        if on_bad_file not in get_args(OnBadFile):
            raise ParameterError(f"on_bad_file={on_bad_file!r} is unknown. {suggest(on_bad_file, get_args(OnBadFile))}")
        self.name, self.missing, self.on_bad_file = str(path), tuple(missing), on_bad_file
        self.memory = memory_bytes() if max_memory is None else int(max_memory * 2**30)
        self.skipped: dict[str, str] = {}
        found = _list_files(self.name)
        if not found:
            raise TableError(f"{self.name} is a folder without {' or '.join(PARQUET)} files. Pass another one.")
        partitions = _partitions(found)
        self._schema: dict[str, str] = {}
        self.files: list[File] = []
        for (name, place), partition in zip(found.items(), partitions, strict=True):
            try:
                self.files.append(self._open(name, place, partition))
            except TableError as problem:
                self._refuse(name, problem)
        if not self.files:
            raise TableError(f"No file in {self.name} can be read. {next(iter(self.skipped.values()))}")
        self.notes = self._left_out()
        self._name_columns([*self._schema, *partitions[0]])

    def _open(self, name: str, place: str, partition: Mapping[str, Any]) -> File:
        """Read a file's footer, and compare its columns with those of the first file."""
        file = TableFile(name)
        with file._reading():
            footer = file.fragment().metadata
            fields = [field for field in footer.schema.to_arrow_schema() if not INDEX.fullmatch(field.name)]
            schema = {field.name: str(field.type) for field in fields}
        if not self._schema:
            self._schema = schema
        elif schema != self._schema:
            first = self.files[0].name
            raise TableError(f"{name} has another schema than {first}: {_difference(self._schema, schema)}.")
        rows = tuple(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
        return File(name, place, rows, partition)

    def _refuse(self, name: str, problem: TableError) -> None:
        """Stop at a bad file, or note that it is left out."""
        if self.on_bad_file == "stop":
            raise TableError(f"{problem} Repair it, or pass on_bad_file='skip' to leave such files out.") from problem
        self.skipped[name] = str(problem)

    @property
    def n_rows(self) -> int:
        """Rows of all files that can be read."""
        return sum(sum(file.row_groups) for file in self.files)

    def needed_bytes(self, n_columns: int) -> int:
        """Return the memory that a fit on all rows at once would take."""
        return BYTES_PER_NUMBER * self.n_rows * n_columns

    def is_beyond_memory(self, n_columns: int) -> bool:
        """Return whether the rows are more than a fit can hold."""
        return self.needed_bytes(n_columns) > self.memory

    def _left_out(self) -> tuple[str, ...]:
        """Say which files were left out."""
        if not self.skipped:
            return ()
        n_files = len(self.skipped) + len(self.files)
        first = next(iter(self.skipped.values()))
        return (f"{len(self.skipped)} of {n_files} files were skipped: {listed(list(self.skipped), most=3)}. {first}",)

    def read(self, columns: Sequence[str] | None = None, types: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Read whole columns into memory."""
        import pandas as pd

        names = list(self.columns if columns is None else columns)
        self.require(names)
        self._refuse_beyond_memory(self.n_rows, len(names), self.memory)
        frame = pd.concat(list(self._by_file(names)), ignore_index=True)
        self._refuse_empty(not len(frame))
        return frame

    def sample(self, columns: Sequence[str], n_rows: int, seeding: Seeding, by: Sequence[str] = ()) -> pd.DataFrame:
        """Read about `n_rows` rows, each with the same chance, in one pass over all files.

        Rows with rare values of the columns `by` have a larger chance, so that `LEAST_ROWS` of each are read. A pass
        over these columns alone counts the values.
        """
        import pandas as pd

        self.require([*columns, *by])
        share = n_rows / max(self.n_rows, 1)
        counts: Counter[Any] = Counter()
        for part in run_each(_counted, self, [(file, list(by)) for file in self.files if by]):
            counts.update(part)
        least = min(LEAST_ROWS, n_rows // max(len(counts), 1)) if len(counts) <= MOST_PLACES else 0
        rare = {place: min(least / count, 1.0) for place, count in counts.items() if least > share * count}
        tasks = [(file, list(columns), share, rare, list(by), seeding) for file in self.files]
        found = dict(zip(list(self.files), run_each(_sampled, self, tasks), strict=True))
        for file, part in found.items():
            if isinstance(part, TableError):
                self._leave_out(file, part)
        parts = [found[file] for file in self.files if found[file] is not None]
        self._refuse_empty(not any(map(len, parts)))
        frame: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return frame

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read at most `n_rows` rows at a time."""
        self.require(columns)
        for file in self.files:
            yield from self.file_chunks(file, list(columns), None, n_rows)

    def parts(self) -> list[Part]:
        """Return files and row groups of them: about `PART_ROWS` rows each."""
        found: list[Part] = []
        for file in self.files:
            groups: list[int] = []
            for number in range(len(file.row_groups)):
                groups.append(number)
                if sum(file.row_groups[g] for g in groups) >= PART_ROWS or number == len(file.row_groups) - 1:
                    found.append((file, groups))
                    groups = []
        return found

    def file_chunks(
        self, file: File, names: list[str], row_groups: list[int] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read some rows of one file at a time."""
        import pyarrow as pa
        import pyarrow.parquet

        inside = [name for name in names if name not in file.partition]
        source = TableFile(file.name, self.missing)
        with source._reading():
            if source.filesystem is None:
                opened: Any = pyarrow.parquet.ParquetFile(source.path)
                batches = opened.iter_batches(n_rows, row_groups=row_groups, columns=inside, use_threads=False)
            else:
                groups = range(len(file.row_groups)) if row_groups is None else row_groups
                opened, ahead = source.fragment().subset(row_group_ids=groups), {"batch_readahead": 0}
                batches = opened.to_batches(columns=inside, batch_size=n_rows, use_threads=False, **ahead)
            for batch in batches:
                frame = source._frame(pa.table(batch), inside)
                stated = {name: file.partition[name] for name in names if name in file.partition}
                yield frame.assign(**stated)[names] if stated else frame

    def _by_file(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield all rows; a file whose pages are damaged is refused or left out, whole."""
        for file in list(self.files):
            try:
                yield from list(self.file_chunks(file, list(names)))
            except TableError as problem:
                self._leave_out(file, problem)

    def _leave_out(self, file: File, problem: TableError) -> None:
        """Refuse a file whose pages are damaged, or go on without it."""
        self._refuse(file.name, problem)
        self.files.remove(file)
        self.notes = self._left_out()


def _counted(source: TableFolder, file: File, by: list[str]) -> dict[Any, int]:
    """Return how many rows of a file have each value of some columns; nothing where it cannot be read."""
    if all(name in file.partition for name in by):
        values = tuple(file.partition[name] for name in by)
        return {values if len(by) > 1 else values[0]: sum(file.row_groups)}
    counts: Counter[Any] = Counter()
    try:
        for chunk in source.file_chunks(file, by):
            counts.update(chunk.groupby(by[0] if len(by) == 1 else by, sort=False).size().to_dict())
            if len(counts) > MOST_PLACES:
                break
    except TableError:  # reading the rows will say so
        return {}
    return counts


def _sampled(
    source: TableFolder,
    file: File,
    names: list[str],
    share: float,
    rare: Mapping[Any, float],
    by: list[str],
    seeding: Seeding,
) -> Any:
    """Return a random share of a file's rows, a larger one of those with rare values, or why it cannot be read.

    None of a file without rows.
    """
    import pandas as pd

    draws, parts = seeding.generator("sample", file.place), []
    try:
        for part in source.file_chunks(file, names):
            shares: Any = share
            if rare:
                groups = part.groupby(by[0] if len(by) == 1 else by, sort=False, dropna=False)
                each = np.array([rare.get(place, share) for place in groups.size().index])
                shares = each[groups.ngroup().to_numpy()]
            parts.append(part[draws.random(len(part)) < shares])
    except TableError as problem:
        return problem
    return pd.concat(parts) if parts else None


def _list_files(folder: str) -> dict[str, str]:
    """Return the Parquet files in a folder: their paths or addresses, and their places inside it."""
    if ADDRESS.match(folder):
        import pyarrow.fs

        with reading(folder):
            filesystem, root = open_filesystem(folder)
            listed = filesystem.get_file_info(pyarrow.fs.FileSelector(root.rstrip("/"), recursive=True))
            places = [PurePosixPath(file.path).relative_to(root) for file in listed if file.type.name == "File"]
    else:
        places = [PurePosixPath(path.relative_to(folder).as_posix()) for path in Path(folder).rglob("*")]
    address, mark, query = folder.partition("?") if ADDRESS.match(folder) else (folder, "", "")
    return {
        f"{address.rstrip('/')}/{place}{mark}{query}": str(place)
        for place in sorted(places)
        if place.suffix.lower() in PARQUET and not place.name.startswith(".")
    }


def _partitions(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the columns that folders' names state, for each file; numbers where all values of a column are."""
    found: list[dict[str, Any]] = [
        {key: unquote(value) for part in place.split("/")[:-1] for key, s, value in [part.partition("=")] if s}
        for place in files.values()
    ]
    for name, partition in zip(files, found, strict=True):
        if re.search("[\ud800-\udfff]", name):
            raise TableError(f"{name!r} is not a name in UTF-8. Rename it.")
        if partition.keys() != found[0].keys():
            raise TableError(
                f"{name} lies in folders that state other columns than those of {next(iter(files))}. Put all files "
                "into folders of the same form, such as year=2024."
            )
    for key in found[0]:
        if all(re.fullmatch(r"-?[0-9]{1,18}", partition[key]) for partition in found):
            for partition in found:
                partition[key] = int(partition[key])
    return found


def _difference(first: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Say how two schemas differ."""
    for name, kind in first.items():
        if name not in other:
            return f"it lacks the column {name!r}"
        if other[name] != kind:
            return f"column {name!r} contains {other[name]} values there and {kind} values here"
    further = [name for name in other if name not in first]
    return f"it has a further column {further[0]!r}" if further else "its columns have another order"
