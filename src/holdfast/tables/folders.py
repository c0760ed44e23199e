"""Folders of Parquet files as one table, also one that is larger than the memory: linear models in passes over blocks.

Of a folder beyond the memory a random sample of the rows is read. It decides what the columns are, their preprocessing
and the verdict. The classifiers themselves are then fitted on all rows by Newton's method: every pass over the files
adds up gradients and curvatures block by block, so that memory does not grow with the number of rows. Blocks are tasks
of `holdfast.parallel`, and their sums are added in the same order wherever they ran.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from holdfast.environments import listed
from holdfast.exceptions import ParameterError, SolverWarning, TableError, suggest
from holdfast.interpolation.convex.solver import supports_convex
from holdfast.interpolation.removal import MixedClassifier, Removal
from holdfast.learners import last_step
from holdfast.parallel import sharing
from holdfast.seeding import Seeding
from holdfast.tables.files import CHUNK_ROWS, PARQUET, SMALLER, TableFile, TableSource, memory_bytes

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.roles import TableRoles

log = logging.getLogger(__name__)
Array = NDArray[np.float64]
OnBadFile = Literal["stop", "skip"]
ON_BAD_FILE = ("stop", "skip")
SAMPLE_ROWS = 200_000  # of a folder beyond the memory
BYTES_PER_NUMBER = 140  # that fitting a table in memory takes at its peak, measured (docs/scale.md)
PART_ROWS = 1_000_000  # rows of a task; a row group is never cut
MOST_PARAMETERS = 2_000  # coefficients of a model that is fitted in passes: its curvature is a matrix of them
MOST_PASSES = 30
ENOUGH = 1e-6  # log-likelihood, summed over all rows, that another pass would gain


@dataclass(frozen=True)
class _File:
    """A file of a folder."""

    path: Path
    row_groups: tuple[int, ...]  # rows of each
    partition: Mapping[str, Any]  # columns that its folders' names state, such as year=2024


class TableFolder(TableSource):
    """All Parquet files in a folder and its subfolders, whose names may state columns: ``year=2024/site=A``.

    Parameters
    ----------
    path : path
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
        if on_bad_file not in ON_BAD_FILE:
            raise ParameterError(f"on_bad_file={on_bad_file!r} is unknown. {suggest(on_bad_file, ON_BAD_FILE)}")
        self.path, self.missing, self.on_bad_file = Path(path), tuple(missing), on_bad_file
        self.name = str(self.path)
        self.memory = memory_bytes() if max_memory is None else int(max_memory * 2**30)
        self.skipped: dict[str, str] = {}
        paths = sorted(p for p in self.path.rglob("*") if p.suffix.lower() in PARQUET and not p.name.startswith("."))
        if not paths:
            raise TableError(f"{self.path} is a folder without {' or '.join(PARQUET)} files. Pass another one.")
        partitions = _partitions(self.path, paths)
        self._schema: dict[str, str] = {}
        self.files: list[_File] = []
        for path, partition in zip(paths, partitions, strict=True):
            try:
                self.files.append(self._open(path, partition))
            except TableError as problem:
                self._refuse(path, problem)
        if not self.files:
            raise TableError(f"No file in {self.path} can be read. {next(iter(self.skipped.values()))}")
        self.notes = self._left_out()
        self._name_columns([*self._schema, *partitions[0]])

    def _open(self, path: Path, partition: Mapping[str, Any]) -> _File:
        """Read a file's footer, and compare its columns with those of the first file."""
        import pyarrow.parquet

        file = TableFile(path)
        with file._reading():
            footer = pyarrow.parquet.read_metadata(path)
            schema = {field.name: str(field.type) for field in footer.schema.to_arrow_schema()}
        if not self._schema:
            self._schema = schema
        elif schema != self._schema:
            first = self.files[0].path
            raise TableError(f"{path} has another schema than {first}: {_difference(self._schema, schema)}.")
        rows = tuple(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
        return _File(path, rows, partition)

    def _refuse(self, path: Path, problem: TableError) -> None:
        """Stop at a bad file, or note that it is left out."""
        if self.on_bad_file == "stop":
            raise TableError(f"{problem} Repair it, or pass on_bad_file='skip' to do without such files.") from problem
        self.skipped[str(path)] = str(problem)

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
        if 16 * self.n_rows * len(names) > self.memory:
            raise TableError(
                f"{self.path} has {self.n_rows:,} rows; {len(names)} columns of them need at least "
                f"{16 * self.n_rows * len(names) / 2**30:.1f} GiB of memory, and {self.memory / 2**30:.1f} GiB are "
                f"there. {SMALLER}"
            )
        frame = pd.concat(list(self._by_file(names)), ignore_index=True)
        self._refuse_empty(not len(frame))
        return frame

    def sample(self, columns: Sequence[str], n_rows: int, seeding: Seeding) -> pd.DataFrame:
        """Read about `n_rows` rows, each with the same chance, in one pass over all files."""
        import pandas as pd

        self.require(columns)
        frame = pd.concat(list(self._by_file(columns, n_rows / max(self.n_rows, 1), seeding)), ignore_index=True)
        self._refuse_empty(not len(frame))
        return frame

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read at most `n_rows` rows at a time."""
        self.require(columns)
        for file in self.files:
            yield from self.file_chunks(file, list(columns), None, n_rows)

    def parts(self) -> list[tuple[_File, list[int]]]:
        """Return files and row groups of them: about `PART_ROWS` rows each."""
        found: list[tuple[_File, list[int]]] = []
        for file in self.files:
            groups: list[int] = []
            for number in range(len(file.row_groups)):
                groups.append(number)
                if sum(file.row_groups[g] for g in groups) >= PART_ROWS or number == len(file.row_groups) - 1:
                    found.append((file, groups))
                    groups = []
        return found

    def file_chunks(
        self, file: _File, names: list[str], row_groups: list[int] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read some rows of one file at a time."""
        import pyarrow as pa
        import pyarrow.parquet

        inside = [name for name in names if name not in file.partition]
        source = TableFile(file.path, self.missing)
        with source._reading(), pyarrow.parquet.ParquetFile(file.path) as opened:
            for batch in opened.iter_batches(n_rows, row_groups=row_groups, columns=inside, use_threads=False):
                frame = source._frame(pa.table(batch), inside)
                stated = {name: file.partition[name] for name in names if name in file.partition}
                yield frame.assign(**stated)[names] if stated else frame

    def _by_file(
        self, names: Sequence[str], share: float = 1.0, seeding: Seeding | None = None
    ) -> Iterator[pd.DataFrame]:
        """Yield rows, or a random share of them; a file whose pages are damaged is refused or left out, whole."""
        for file in list(self.files):
            try:
                parts = self.file_chunks(file, list(names))
                if seeding is not None:
                    draws = seeding.generator("sample", file.path.relative_to(self.path).as_posix())
                    parts = (part[draws.random(len(part)) < share] for part in parts)
                yield from list(parts)
            except TableError as problem:
                self._refuse(file.path, problem)
                self.files.remove(file)


def _partitions(root: Path, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the columns that folders' names state, for each file; numbers where all values of a column are."""
    found: list[dict[str, Any]] = [
        {
            key: unquote(value)
            for part in path.relative_to(root).parts[:-1]
            for key, s, value in [part.partition("=")]
            if s
        }
        for path in paths
    ]
    for path, partition in zip(paths, found, strict=True):
        if re.search("[\ud800-\udfff]", str(path)):
            raise TableError(f"{str(path)!r} is not a name in UTF-8. Rename it.")
        if partition.keys() != found[0].keys():
            raise TableError(
                f"{path} lies in folders that state other columns than those of {paths[0]}. Put all files into folders "
                "of the same form, such as year=2024."
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


def refuse_what_cannot_stream(source: TableFolder, n_columns: int, names: Mapping[str, str], method: Any) -> None:
    """Refuse a method and an estimator that would need all rows of a folder beyond the memory at once."""
    from holdfast.estimators.erm import ERMClassifier
    from holdfast.estimators.stable import StableClassifier

    inner = method.estimator
    is_logistic = isinstance(last_step(inner), LogisticRegression) and supports_convex(inner)
    if is_logistic and isinstance(method, ERMClassifier | StableClassifier):
        return
    raise TableError(
        f"{source.path} has {source.n_rows:,} rows. Fitting {names['method']} with {names['estimator']} on them needs "
        f"about {source.needed_bytes(n_columns) / 2**30:.0f} GiB of memory, and {source.memory / 2**30:.1f} GiB are "
        "there. Passes over the files fit method='stable' and method='erm' with estimator='logistic'. Choose these, "
        f"or pass fewer rows. {SMALLER}"
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """A logistic regression inside a fitted pipeline, and how its rows are made of a table's features."""

    regression: LogisticRegression
    steps: tuple[Any, ...]  # transformers before it
    removal: Removal

    def rows(self, features: pd.DataFrame) -> Array:
        """Return what the regression sees, (n_rows, n_columns)."""
        X = self.removal.apply(features)
        for step in self.steps:
            X = step.transform(X)
        return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Stream:
    """What the tasks of a pass share."""

    source: TableFolder
    roles: TableRoles
    classes: NDArray[Any]
    models: tuple[_Model, ...]


def refit(pipeline: Pipeline, source: TableFolder, roles: TableRoles, n_jobs: int | None = None) -> int:
    """Fit the logistic regressions inside a fitted pipeline again, on all rows of a folder; return the passes made.

    The problem is the one that scikit-learn's solvers have: the sum of log losses plus ‖w‖² / (2·C).
    """
    models = _models(pipeline)
    stream = _Stream(source, roles, pipeline[-1].classes_, models)
    tasks = source.parts()
    found = [np.hstack([m.regression.coef_, m.regression.intercept_[:, None]]) for m in models]
    before: list[tuple[float, Array] | None] = [None] * len(models)
    with sharing(stream, n_jobs) as run:
        for n_passes in range(1, MOST_PASSES + 1):
            parts = run(_sums, ((file, groups, found) for file, groups in tasks))
            settled = True
            for number, model in enumerate(models):
                value, gradient, curvature = (sum(part[number][k] for part in parts) for k in range(3))
                last = before[number]
                penalty = np.zeros_like(found[number])
                penalty[:, :-1] = 1 / model.regression.C
                value += 0.5 * float((penalty * found[number] ** 2).sum())
                if last is not None and value > last[0] * (1 + 1e-12) + ENOUGH:  # too far: halve the step
                    found[number] = (found[number] + last[1]) / 2
                    settled = False
                    continue
                gradient = gradient + (penalty * found[number]).ravel()
                curvature = curvature + np.diag(penalty.ravel() + 1e-9 * np.trace(curvature) / len(curvature))
                step = linalg.solve(curvature, gradient, assume_a="pos")
                before[number] = (value, found[number])
                if 0.5 * float(gradient @ step) > max(ENOUGH, 1e-13 * abs(value)):
                    found[number] = found[number] - step.reshape(found[number].shape)
                    settled = False
            log.info("pass %d over %d rows", n_passes, source.n_rows)
            if settled:
                break
        else:
            warnings.warn(
                f"The coefficients still changed after {MOST_PASSES} passes over {source.path}. Scale columns of very "
                "large numbers, or lower the estimator's C.",
                SolverWarning,
                stacklevel=4,
            )
    for model, weights in zip(models, found, strict=True):
        model.regression.coef_, model.regression.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        model.regression.n_iter_ = np.array([n_passes], dtype=np.int32)
    return n_passes


def _models(pipeline: Pipeline) -> tuple[_Model, ...]:
    """Return the regressions of a fitted pipeline; they are changed in place."""
    outside = tuple(step for _, step in pipeline.steps[:-1])
    method = pipeline[-1]
    mixed = method.estimator_
    pairs = [(mixed, Removal())]
    if isinstance(mixed, MixedClassifier):
        pairs = list(zip(mixed.estimators, mixed.removals, strict=True))
    ordinary = getattr(method, "ordinary_", mixed)
    if all(fitted is not ordinary for fitted, _ in pairs):
        pairs.append((ordinary, Removal()))
    found = []
    for fitted, removal in pairs:
        inside = tuple(step for _, step in fitted.steps[:-1]) if isinstance(fitted, Pipeline) else ()
        regression = last_step(fitted)
        if not isinstance(regression, LogisticRegression):
            raise TableError("The sample of the rows has one class only. Pass more rows of the other classes.")
        if regression.coef_.size > MOST_PARAMETERS:
            raise TableError(
                f"The model has {regression.coef_.size:,} coefficients, but passes over files fit at most "
                f"{MOST_PARAMETERS:,}. Leave out columns with many levels with drop=, or pass fewer rows."
            )
        found.append(_Model(regression, (*outside, *inside), removal))
    return tuple(found)


def _sums(
    stream: _Stream, file: _File, row_groups: list[int], weights: Sequence[Array]
) -> list[tuple[float, Array, Array]]:
    """Return for each model the sum of losses over some rows, its gradient and its curvature."""
    from holdfast.tables.roles import read_labels

    roles, label = stream.roles, stream.roles.label
    found: list[list[Any]] = [[0.0, 0.0, 0.0] for _ in stream.models]
    names = list(dict.fromkeys([label, *roles.schema.names()]))
    for chunk in stream.source.file_chunks(file, names, row_groups):
        labels = read_labels(chunk[label], label, stream.classes)
        codes = np.searchsorted(stream.classes, labels)
        unknown = stream.classes[np.minimum(codes, len(stream.classes) - 1)] != labels
        if unknown.any():
            raise TableError(
                f"{file.path}: {label!r} contains {str(labels[unknown][0])!r}, which is too rare to be in a sample of "
                f"{SAMPLE_ROWS:,} rows. Leave such rows out, or merge the class with another one."
            )
        features = roles.schema.features(chunk)
        for sums, model, w in zip(found, stream.models, weights, strict=True):
            for k, value in enumerate(_derivatives(model.rows(features), codes, w)):
                sums[k] = sums[k] + value
    return [tuple(sums) for sums in found]


def _derivatives(X: Array, codes: NDArray[np.intp], weights: Array) -> tuple[float, Array, Array]:
    """Return the sum of log losses, its gradient and its curvature; weights are (n_outputs, n_columns + 1)."""
    X = np.hstack([X, np.ones((len(X), 1))])
    z = X @ weights.T
    if len(weights) == 1:
        signed = np.where(codes == 1, z[:, 0], -z[:, 0])
        chance = special.expit(z[:, 0])
        gradient = X.T @ (chance - codes)
        return float(np.logaddexp(0, -signed).sum()), gradient, X.T @ (X * (chance * (1 - chance))[:, None])
    logs = special.log_softmax(z, axis=1)
    chances, (n_outputs, n_columns) = np.exp(logs), weights.shape
    left = chances - np.eye(n_outputs)[codes]
    curvature = np.empty((n_outputs, n_columns, n_outputs, n_columns))
    for k in range(n_outputs):
        for other in range(k, n_outputs):
            share = chances[:, k] * ((k == other) - chances[:, other])
            curvature[k, :, other] = curvature[other, :, k] = X.T @ (X * share[:, None])
    value = -float(logs[np.arange(len(codes)), codes].sum())
    return value, (left.T @ X).ravel(), curvature.reshape(weights.size, weights.size)
