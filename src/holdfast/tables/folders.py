"""Folders of Parquet files as one table, also one that is larger than the memory: linear models in passes over blocks.

Of a folder beyond the memory a random sample of the rows is read, 20,000 of each environment where there are as many.
It decides what the columns are, their preprocessing and the verdict. The classifiers are then fitted on all rows:
logistic regressions, also PI's judges, by Newton's method, and PI's worst case by quadratic programs. Every pass adds
up gradients and curvatures block by block: memory does not grow with the rows.
Blocks are tasks of `holdfast.parallel`, and their sums are added in the same order wherever they ran. Boosters ask for
the blocks themselves (`holdfast.tables.boosting`).
"""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, get_args
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse, special
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from holdfast.environments import listed
from holdfast.exceptions import ParameterError, SolverWarning, TableError, suggest, warn
from holdfast.interpolation.convex.minimax import maximize_on_simplex
from holdfast.interpolation.convex.solver import supports_convex
from holdfast.learners import last_step
from holdfast.parallel import Runner, cluster_memory, run_each, sharing
from holdfast.seeding import Seeding
from holdfast.stable.removal import MixedClassifier, Removal
from holdfast.tables.boosting import ROW_BYTES, boost, booster_of
from holdfast.tables.files import (
    ADDRESS,
    CHUNK_ROWS,
    INDEX,
    PARQUET,
    SMALLER,
    OnBadFile,
    TableFile,
    TableSource,
    memory_bytes,
    open_filesystem,
    reading,
)

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.roles import TableRoles

log = logging.getLogger(__name__)
Array = NDArray[np.float64]
SAMPLE_ROWS = 200_000  # of a folder beyond the memory
LEAST_ROWS = 20_000  # of each environment in it, or as many as there are: they show every change that is acted on
MOST_PLACES = 10_000  # environments up to which this is looked after
BYTES_PER_NUMBER = 140  # that fitting a table in memory takes at its peak, measured (docs/scale.md)
PART_ROWS = 1_000_000  # rows of a task; a row group is never cut
MOST_PARAMETERS = 2_000  # coefficients of a model that is fitted in passes: its curvature is a matrix of them
MOST_PASSES = 30
ENOUGH = 1e-6  # log-likelihood, summed over all rows, that another pass would gain
ENOUGH_RISK = 1e-7  # worst-case risk that another pass would gain


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


def refuse_what_cannot_stream(source: TableFolder, roles: TableRoles, names: Mapping[str, str], method: Any) -> None:
    """Refuse a method and an estimator that would need all rows of a folder beyond the memory at once."""
    from holdfast.estimators.erm import ERMClassifier
    from holdfast.estimators.pi import PIClassifier
    from holdfast.estimators.stable import StableClassifier

    n_columns = len(roles.schema.columns) + 1 + len(roles.environments)
    needed, memory = source.needed_bytes(n_columns), source.memory
    plain = isinstance(method, ERMClassifier | StableClassifier)
    if isinstance(last_step(method.estimator), LogisticRegression) and supports_convex(method.estimator):
        is_paper = isinstance(method, PIClassifier) and method.solver in ("auto", "convex")
        if plain or (is_paper and method.halves == "hard" and method.rounds == 1 and method.objective == "max"):
            return
    elif plain and (booster := booster_of(method.estimator, has_texts=bool(roles.schema.names("text")))):
        needed, memory = source.n_rows * (n_columns + ROW_BYTES[booster]), cluster_memory() or source.memory
        if needed <= memory:
            return
    raise TableError(
        f"{source.name} has {source.n_rows:,} rows. Fitting {names['method']} with {names['estimator']} on them needs "
        f"about {max(needed / 2**30, 0.1):.1f} GiB of memory, and {memory / 2**30:.1f} GiB are available. "
        "Larger folders can be fitted with method='stable' or 'erm' and estimator='logistic', 'xgboost' or 'lightgbm'. "
        "The method 'pi' (hard halves, one round) works with estimator='logistic'. The boosters keep a byte of each "
        "number, and 'lightgbm' takes no texts and no class_weight. Choose one of these, or pass fewer rows. "
        f"{SMALLER}"
    )


ALL = Removal()  # of no column


@dataclass(frozen=True, eq=False)
class _Model:
    """A classifier inside a fitted pipeline, and how its rows are made of a table's features."""

    fitted: Any  # the last step: a LogisticRegression or a booster
    steps: tuple[Any, ...]  # transformers before it
    removal: Removal = ALL
    site: int | None = None  # the environment whose rows it is fitted on; None: all

    def rows(self, features: pd.DataFrame) -> Any:
        """Return what the classifier sees."""
        X: Any = self.removal.apply(features)
        for step in self.steps:
            X = step.transform(X)
        return X

    def matrix(self, features: pd.DataFrame, known: dict[Any, Array]) -> Array:
        """Return what a regression sees and a column of ones, (n_rows, n_columns + 1); `known` are earlier ones."""
        key = (tuple(map(id, self.steps)), id(self.removal) if len(self.removal) else None)
        if key not in known:
            X = self.rows(features)
            X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
            known[key] = np.hstack([X, np.ones((len(X), 1))])
        return known[key]

    @property
    def weights(self) -> Array:
        """The coefficients and intercepts of a regression, (n_outputs, n_columns + 1)."""
        return np.hstack([self.fitted.coef_, self.fitted.intercept_[:, None]])

    def keep(self, weights: Array, n_passes: int) -> None:
        """Replace them."""
        self.fitted.coef_, self.fitted.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        self.fitted.n_iter_ = np.array([n_passes], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Stream:
    """What the tasks of a pass share."""

    source: TableFolder
    roles: TableRoles
    classes: NDArray[Any]
    models: tuple[_Model, ...]  # of PI, the judges
    sites: tuple[Any, ...] = ()  # environments, where models are of one
    last: Any = None  # PI's own classifier
    halves: Any = None  # (judges, environments, 2) the group of mistaken and of correct rows, or -1

    def blocks(
        self, file: File, row_groups: list[int]
    ) -> Iterator[tuple[pd.DataFrame, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the features of some rows, their class codes, and the numbers of their environments."""
        from holdfast.tables.roles import read_environments, read_labels

        roles, label = self.roles, self.roles.label
        further = roles.environments if self.sites else ()
        for chunk in self.source.file_chunks(
            file, list(dict.fromkeys([label, *further, *roles.schema.names()])), row_groups
        ):
            labels = read_labels(chunk[label], label, self.classes)
            codes = np.searchsorted(self.classes, labels)
            known = self.classes[np.minimum(codes, len(self.classes) - 1)] == labels
            self._refuse_rare(file, label, labels[~known])
            sites = np.zeros(len(codes), dtype=np.intp)
            if self.sites:
                places = read_environments(chunk, roles.environments, roles.period, roles.environment_storages)
                sites = _numbers(places, self.sites)
                merged = [number for number, site in enumerate(self.sites) if str(site) not in roles.known]
                if merged:  # small environments are one
                    sites[sites < 0] = merged[0]
                self._refuse_rare(file, " × ".join(roles.environments), places[sites < 0])
            yield roles.features(chunk), codes, sites

    def _refuse_rare(self, file: File, column: str, values: NDArray[Any]) -> None:
        if len(values):
            raise TableError(
                f"{file.name}: {column!r} contains {str(values[0])!r}, which is too rare to be in a sample of "
                f"{SAMPLE_ROWS:,} rows. Leave such rows out, or merge them with others."
            )


def _numbers(values: NDArray[Any], known: Sequence[Any]) -> NDArray[np.intp]:
    """Return the place of each value among the known ones, -1 where it is not."""
    import pandas as pd

    return np.asarray(pd.Index(list(known)).get_indexer(pd.Index(values)), dtype=np.intp)


def refit(pipeline: Pipeline, source: TableFolder, roles: TableRoles, n_jobs: int | None = None) -> int:
    """Fit the classifiers inside a fitted pipeline again, on all rows of a folder; return the passes made.

    The problems are the ones that they have in memory: of a logistic regression the sum of log losses plus
    ‖w‖² / (2·C), of PI the least worst-case risk over the halves that its judges, fitted on all rows, cut.
    """
    method = pipeline[-1]
    judges: Mapping[Any, Any] = getattr(method, "environment_classifiers_", {})
    if not judges:
        stream = Stream(source, roles, method.classes_, _models(pipeline))
        if library := booster_of(stream.models[0].fitted):
            return boost(library, stream, n_jobs)
        with sharing(stream, n_jobs) as run:
            return _fit_regressions(run, stream)
    outside, names = tuple(step for _, step in pipeline.steps[:-1]), [group.name for group in method.groups_]
    halves = np.full((len(judges), len(judges), 2), -1)
    for (i, judge), (j, judged) in itertools.permutations(enumerate(judges), 2):
        for k, half in enumerate(("mistaken", "correct")):
            name = f"{judged} judged by {judge}: {half}"
            halves[i, j, k] = names.index(name) if name in names else -1
    if halves.max() < 0:
        raise TableError("The sample of the rows has no half that is large enough to interpolate. Pass more rows.")
    models = tuple(_model(fitted, outside, len(method.classes_), site=k) for k, fitted in enumerate(judges.values()))
    last = _model(method.estimator_, outside, len(method.classes_))
    stream = Stream(source, roles, method.classes_, models, tuple(judges), last, halves)
    with sharing(stream, n_jobs) as run:
        return _fit_regressions(run, stream) + _interpolate(run, stream, method)


def _models(pipeline: Pipeline) -> tuple[_Model, ...]:
    """Return the classifiers of a fitted pipeline; they are changed in place."""
    outside, method = tuple(step for _, step in pipeline.steps[:-1]), pipeline[-1]
    mixed = method.estimator_
    pairs = [(mixed, ALL)]
    if isinstance(mixed, MixedClassifier):
        pairs = list(zip(mixed.estimators, mixed.removals, strict=True))
    ordinary = getattr(method, "ordinary_", mixed)
    if all(fitted is not ordinary for fitted, _ in pairs):
        pairs.append((ordinary, ALL))
    return tuple(_model(fitted, outside, len(method.classes_), removal) for fitted, removal in pairs)


def _model(
    fitted: Any, outside: tuple[Any, ...], n_classes: int, removal: Removal = ALL, site: int | None = None
) -> _Model:
    """Return a fitted classifier as a model, unless it cannot be fitted in passes."""
    last, inside = last_step(fitted), fitted.steps[:-1] if isinstance(fitted, Pipeline) else ()
    if getattr(last, "classes_", np.arange(1)).size < n_classes:
        where = "" if site is None else " of one environment"
        raise TableError(f"The sample of the rows{where} lacks a class. Pass more rows of each class.")
    if isinstance(last, LogisticRegression) and last.coef_.size > MOST_PARAMETERS:
        raise TableError(
            f"The model has {last.coef_.size:,} coefficients, but passes over files fit at most {MOST_PARAMETERS:,}. "
            "Leave out columns with many levels with drop=, or pass fewer rows."
        )
    return _Model(last, (*outside, *(step for _, step in inside)), removal, site)


def _fit_regressions(run: Runner, stream: Stream) -> int:
    """Fit logistic regressions by Newton's method, all of them in the same passes; return their number."""
    models, tasks = stream.models, stream.source.parts()
    found = [model.weights for model in models]
    before: list[tuple[float, Array, float] | None] = [None] * len(models)  # value, coefficients, gain
    for n_passes in range(1, MOST_PASSES + 1):
        parts = run(_sums, ((*task, found) for task in tasks))
        settled = True
        for number, model in enumerate(models):
            value, gradient, curvature = (sum(part[number][k] for part in parts) for k in range(3))
            last = before[number]
            penalty = np.zeros_like(found[number])
            penalty[:, :-1] = 1 / model.fitted.C
            value += 0.5 * float((penalty * found[number] ** 2).sum())
            if last is not None and value > last[0] * (1 + 1e-12) + ENOUGH:  # too far: halve the step
                found[number] = (found[number] + last[1]) / 2
                settled = False
                continue
            gradient = gradient + (penalty * found[number]).ravel()
            curvature = curvature + np.diag(penalty.ravel() + 1e-9 * np.trace(curvature) / len(curvature))
            step = linalg.solve(curvature, gradient, assume_a="pos")
            gain = 0.5 * float(gradient @ step)
            before[number] = (value, found[number], gain)
            if gain > max(ENOUGH, 1e-13 * abs(value)):
                found[number] = found[number] - step.reshape(found[number].shape)
                # Newton's steps gain the square of what the one before gained: the last one is not looked at.
                settled &= last is not None and gain * (gain / last[2]) ** 2 < ENOUGH
        log.info("pass %d over %d rows", n_passes, stream.source.n_rows)
        if settled:
            break
    else:
        _warn_of_passes(stream)
    for model, weights in zip(models, found, strict=True):
        model.keep(weights, n_passes)
    return n_passes


def _warn_of_passes(stream: Stream) -> None:
    warn(
        f"The coefficients still changed after {MOST_PASSES} passes over {stream.source.name}. Scale columns of very "
        "large numbers, or lower the estimator's C.",
        SolverWarning,
    )


def _interpolate(run: Runner, stream: Stream, method: Any) -> int:
    """Minimize the worst-case risk over the halves of all rows, as `minimize_worst_case` does, in passes.

    A pass has the risk and gradient of every half, and the curvature of the mixture that the program before has found.
    """
    tasks, judges = stream.source.parts(), [model.weights for model in stream.models]
    weights, mixture = stream.last.weights, method.group_weights_
    penalty = np.zeros_like(weights)
    penalty[:, :-1] = 1 / (stream.last.fitted.C * stream.source.n_rows)
    sizes = np.array([len(group) for group in method.groups_], dtype=np.float64)  # of the sample, then of all rows
    best: Any = None  # objective, coefficients, risks, mixture
    method.history_ = []
    for n_passes in range(1, MOST_PASSES + 1):
        parts = run(_half_sums, ((*task, judges, weights, mixture / sizes) for task in tasks))
        counts, losses, gradients, curvature = (sum(part[k] for part in parts) for k in range(4))
        curvature, sizes = curvature / float(mixture @ (counts / sizes)), np.maximum(counts, 1.0)
        risks, gradients = losses / sizes, gradients / sizes[:, None]
        pull = (penalty * weights).ravel()
        ridge = 0.5 * float(pull @ weights.ravel())
        objective = float(risks.max()) + ridge
        method.history_.append({"iteration": n_passes, "worst_case_risk": float(risks.max()), "gap": float("nan")})
        if best is not None and objective >= best[0]:  # the halves curve differently: a shorter step, and all of them
            if objective - best[0] <= ENOUGH_RISK:
                break
            weights, mixture = (weights + best[1]) / 2, 0.9 * mixture + 0.1 / len(mixture)
            continue
        best = objective, weights, risks, mixture
        curvature += np.diag(penalty.ravel() + 1e-9 * np.trace(curvature) / len(curvature))
        lower = linalg.cholesky(curvature, lower=True)
        factor = linalg.solve_triangular(lower, (gradients + pull).T, lower=True)
        if objective - float(mixture @ risks) - ridge + 0.5 * float(((factor @ mixture) ** 2).sum()) <= ENOUGH_RISK:
            break
        mixture = maximize_on_simplex(risks, factor, start=mixture)
        step = linalg.solve_triangular(lower.T, factor @ mixture, lower=False)
        weights = weights - step.reshape(weights.shape)
    else:
        _warn_of_passes(stream)
    _, weights, method.group_risks_, method.group_weights_ = best
    stream.last.keep(weights, n_passes)
    method.worst_case_risk_, method.gap_ = float(method.group_risks_.max()), float("nan")  # nothing certifies it
    both = (stream.halves >= 0).all(axis=2)  # which judge and judged
    halves = sizes[stream.halves[both]]
    method.accuracies_[both] = halves[:, 1] / halves.sum(axis=1)
    return n_passes


def _sums(
    stream: Stream, file: File, row_groups: list[int], weights: Sequence[Array]
) -> list[tuple[float, Array, Array]]:
    """Return for each model the sum of losses over some rows, its gradient and its curvature."""
    found: list[list[Any]] = [[0.0, 0.0, 0.0] for _ in stream.models]
    for features, codes, sites in stream.blocks(file, row_groups):
        known: dict[Any, Array] = {}
        for sums, model, w in zip(found, stream.models, weights, strict=True):
            here = slice(None) if model.site is None else sites == model.site
            X = model.matrix(features, known)[here]
            losses, left, chances = _predicted(X, codes[here], w)
            for k, value in enumerate((float(losses.sum()), (left.T @ X).ravel(), _curvature(X, chances))):
                sums[k] = sums[k] + value
    return [tuple(sums) for sums in found]


def _half_sums(
    stream: Stream, file: File, row_groups: list[int], judges: Sequence[Array], weights: Array, shares: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the rows, losses and gradients of every half, and the curvature where halves weigh as `shares` says."""
    n_groups, counts, sums = len(shares), np.zeros(len(shares)), np.zeros(len(shares))
    gradients, curvature = np.zeros((n_groups, weights.size)), np.zeros((weights.size, weights.size))
    for features, codes, sites in stream.blocks(file, row_groups):
        known: dict[Any, Array] = {}
        outputs = [model.matrix(features, known) @ w.T for model, w in zip(stream.models, judges, strict=True)]
        answers = np.stack([z[:, 0] > 0 if z.shape[1] == 1 else z.argmax(axis=1) for z in outputs])
        groups = stream.halves[np.arange(len(judges))[:, None], sites, (answers == codes).astype(np.intp)]
        inside = groups >= 0  # (n_judges, n_rows)
        rows, numbers = np.nonzero(inside)[1], groups[inside]
        member = sparse.csr_array((np.ones(len(rows)), (numbers, rows)), shape=(n_groups, len(codes)))
        X = stream.last.matrix(features, known)
        losses, left, chances = _predicted(X, codes, weights)
        counts += np.bincount(numbers, minlength=n_groups)
        sums += member @ losses
        gradients += np.hstack([member @ (X * residual[:, None]) for residual in left.T])
        curvature += _curvature(X, chances, member.T @ shares)
    return counts, sums, gradients, curvature


def _predicted(X: Array, codes: NDArray[np.intp], weights: Array) -> tuple[Array, Array, Array]:
    """Return each row's log loss, its derivative, and probabilities; the last two have shape (n_rows, n_outputs)."""
    z = X @ weights.T
    if len(weights) == 1:
        chances = special.expit(z)
        return np.logaddexp(0, np.where(codes == 1, -z[:, 0], z[:, 0])), chances - codes[:, None], chances
    logs = special.log_softmax(z, axis=1)
    chances = np.exp(logs)
    return -logs[np.arange(len(codes)), codes], chances - np.eye(len(weights))[codes], chances


def _curvature(X: Array, chances: Array, row_weights: Array | None = None) -> Array:
    """Return the sum of the rows' second derivatives, (n_outputs × n_columns) in both directions."""
    n_outputs, n_columns = chances.shape[1], X.shape[1]
    weights = np.ones(len(X)) if row_weights is None else row_weights
    found = np.empty((n_outputs, n_columns, n_outputs, n_columns))
    for k, other in itertools.combinations_with_replacement(range(n_outputs), 2):
        share = weights * chances[:, k] * ((k == other) - chances[:, other])
        found[k, :, other] = found[other, :, k] = X.T @ (X * share[:, None])
    return found.reshape(n_outputs * n_columns, -1)
