"""Fit on all rows of a folder larger than the memory, in passes over its blocks.

Logistic regressions, also the judges of PI, are fitted by Newton's method, and PI's worst case by quadratic programs.
Each pass adds up gradients and curvatures block by block, so memory does not grow with the number of rows. Blocks are
tasks of `holdfast.parallel`. Their sums are added in the same order wherever they ran. Boosters read the blocks
themselves (`holdfast.tables.boosting`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from holdfast.exceptions import SolverWarning, TableError, warn
from holdfast.fitting.estimators import last_step
from holdfast.fitting.newton import LossSums, Newton, add_up, curvature, row_losses
from holdfast.interpolation.convex.passes import GroupSums, minimize_in_passes
from holdfast.interpolation.convex.solver import supports_convex
from holdfast.parallel import Runner, cluster_memory, sharing
from holdfast.rows.kinds import as_dense
from holdfast.stable.removal import MixedClassifier, Removal
from holdfast.tables.boosting import ROW_BYTES, boost, booster_of
from holdfast.tables.files import SMALLER
from holdfast.tables.folders import SAMPLE_ROWS, File, TableFolder

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.estimators.pi import PIClassifier
    from holdfast.tables.roles import TableRoles

log = logging.getLogger(__name__)
Array = NDArray[np.float64]
MOST_PARAMETERS = 2_000  # coefficients of a model that is fitted in passes: its curvature is a matrix of them
MOST_PASSES = 30
ENOUGH = 1e-6  # log-likelihood, summed over all rows, that another pass would gain


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
            X = np.asarray(as_dense(X), dtype=np.float64)
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
        return _fit_regressions(run, stream) + _fit_worst_case(run, stream, method)


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
    models, tasks, solvers = stream.models, stream.source.parts(), []
    for model in models:
        precision = np.full_like(model.weights, 1 / model.fitted.C)
        precision[:, -1] = 0.0
        solvers.append(Newton(model.weights, precision, ENOUGH))
    for n_passes in range(1, MOST_PASSES + 1):
        parts = run(_sums, ((*task, [solver.coefficients for solver in solvers]) for task in tasks))
        sums = [reduce(add, of_model) for of_model in zip(*parts, strict=True)]
        settled = [solver.step(total) for solver, total in zip(solvers, sums, strict=True)]
        log.info("pass %d over %d rows", n_passes, stream.source.n_rows)
        if all(settled):
            break
    else:
        _warn_of_passes(stream)
    for model, solver in zip(models, solvers, strict=True):
        model.keep(solver.coefficients, n_passes)
    return n_passes


def _fit_worst_case(run: Runner, stream: Stream, method: PIClassifier) -> int:
    """Minimize the worst-case risk over the halves of all rows, as `minimize_worst_case` does, in passes."""
    tasks, judges = stream.source.parts(), [model.weights for model in stream.models]

    def sums(weights: Array, shares: Array) -> GroupSums:
        parts: list[GroupSums] = run(_half_sums, ((*task, judges, weights, shares) for task in tasks))
        return reduce(add, parts)

    found = minimize_in_passes(
        sums,
        start=stream.last.weights,
        mixture=method.group_weights_,
        sizes=np.array([len(group) for group in method.groups_], dtype=np.float64),
        penalty=1 / (stream.last.fitted.C * stream.source.n_rows),
        most=MOST_PASSES,
    )
    if not found.is_done:
        _warn_of_passes(stream)
    n_passes = len(found.history)
    stream.last.keep(found.weights, n_passes)
    method.history_, method.group_risks_, method.group_weights_ = found.history, found.risks, found.mixture
    method.worst_case_risk_, method.gap_ = float(found.risks.max()), float("nan")  # nothing certifies it
    both = (stream.halves >= 0).all(axis=2)  # which judge and judged
    halves = found.sizes[stream.halves[both]]
    method.accuracies_[both] = halves[:, 1] / halves.sum(axis=1)
    return n_passes


def _warn_of_passes(stream: Stream) -> None:
    warn(
        f"The coefficients still changed after {MOST_PASSES} passes over {stream.source.name}. Scale columns of very "
        "large numbers, or lower the estimator's C.",
        SolverWarning,
    )


def _sums(stream: Stream, file: File, row_groups: list[int], weights: Sequence[Array]) -> list[LossSums]:
    """Return for each model the sum of losses over some rows, its gradient and its curvature."""
    found = [LossSums(0.0, np.zeros(w.size), np.zeros((w.size, w.size))) for w in weights]
    for features, codes, sites in stream.blocks(file, row_groups):
        known: dict[Any, Array] = {}
        for number, (model, w) in enumerate(zip(stream.models, weights, strict=True)):
            here = slice(None) if model.site is None else sites == model.site
            found[number] += add_up(model.matrix(features, known)[here], codes[here], w)
    return found


def _half_sums(
    stream: Stream, file: File, row_groups: list[int], judges: Sequence[Array], weights: Array, shares: Array
) -> GroupSums:
    """Return the sums of every half over some rows; the curvature is that of halves that weigh as `shares` says."""
    n_groups, size = len(shares), weights.size
    total = GroupSums(np.zeros(n_groups), np.zeros(n_groups), np.zeros((n_groups, size)), np.zeros((size, size)))
    for features, codes, sites in stream.blocks(file, row_groups):
        known: dict[Any, Array] = {}
        outputs = [model.matrix(features, known) @ w.T for model, w in zip(stream.models, judges, strict=True)]
        answers = np.stack([z[:, 0] > 0 if z.shape[1] == 1 else z.argmax(axis=1) for z in outputs])
        groups = stream.halves[np.arange(len(judges))[:, None], sites, (answers == codes).astype(np.intp)]
        inside = groups >= 0  # (n_judges, n_rows)
        rows, numbers = np.nonzero(inside)[1], groups[inside]
        member = sparse.csr_array((np.ones(len(rows)), (numbers, rows)), shape=(n_groups, len(codes)))
        X = stream.last.matrix(features, known)
        losses, left, chances = row_losses(X @ weights.T, codes)
        total += GroupSums(
            np.bincount(numbers, minlength=n_groups).astype(np.float64),
            member @ losses,
            np.hstack([member @ (X * residual[:, None]) for residual in left.T]),
            curvature(X, chances, member.T @ shares),
        )
    return total
