"""What the stable classifier and regressor share: reading columns, choosing what to keep, and the mixture of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.auditing.run import AuditSettings, read_columns
from holdfast.environments import PerRow, label_array, listed, unique_labels
from holdfast.exceptions import EnvironmentsError, FeaturesError, HoldfastWarning, ParameterError, warn
from holdfast.fitting.estimators import stopped_like
from holdfast.fitting.kinds import Estimator
from holdfast.judging.judges import JudgeSettings, deal_folds, fit_folds, warn_of_empty_columns
from holdfast.metrics import Interval
from holdfast.rows.kinds import is_sparse
from holdfast.rows.mapped import is_mapped
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding
from holdfast.stable.columns import Columns, split_categories
from holdfast.stable.decision import CAUTION, level_weights, removal_levels
from holdfast.stable.design import Design
from holdfast.stable.findings import Finding, find
from holdfast.stable.gaussian import NumberDesign
from holdfast.stable.hypotheses import Posterior
from holdfast.stable.removal import Removal, join_removals, plan_removal
from holdfast.stable.verdict import SUSPECTED, Accuracy, Verdict

VerdictT = TypeVar("VerdictT", bound=Verdict)
N_FOLDS = 2  # for price and gain
CAUTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of `path_`
MOST_LEFT_OUT = 5  # rounds of leaving environments out
ROWS_FOR_ONE_DRAW = 4000  # with fewer rows, columns are shuffled several times
COPIED, DISTINCT = 0.1, 0.9  # share of rows that are copies; of the rows without copies that one column tells apart


def check_caution(estimator: Any) -> None:
    """Refuse a caution outside of 0 to 1."""
    if not isinstance(estimator.caution, int | float | np.number) or not 0 <= estimator.caution <= 1:
        raise ParameterError(
            f"The 'caution' parameter of {type(estimator).__name__} must lie between 0 and 1. "
            f"Got {estimator.caution!r} instead."
        )


def read_comparable(
    training: TrainingRows, subjects: PerRow, words: Sequence[frozenset[str]] | None = None
) -> tuple[Columns, TrainingRows, NDArray[np.intp] | None]:
    """Return the columns whose effects can be compared, the rows with folds by subject, and each row's subject.

    What cannot be used is refused here, before any work. Without subjects the last is None.
    """
    columns = _read_table(training.X, training.names)
    if words is not None:
        columns = _without_phrases(columns, words)
    _warn_of_split_categories(columns)
    warn_of_empty_columns(training, "its effect there is not known, so it cannot be compared")
    together = _read_subjects(subjects, training, columns)
    if together is not None:
        training = replace(training, folds=_subject_folds(together, training))
    return columns, training, together


@dataclass(frozen=True, eq=False)
class Choice:
    """What is known of each column by its name, and how much of its effect is kept."""

    posteriors: dict[str, Posterior]
    sources: dict[str, list[int]]  # the columns of X behind each
    rule: Callable[[Posterior, float], float]  # share to keep, by the caution
    kept: dict[str, float]
    shown: tuple[Finding, ...]  # columns that are used less, or whose effects seem to differ
    doubts: list[str]  # columns that are kept and may change at the next site

    def at(self, caution: float) -> dict[str, float]:
        """Return how much of each column's effect another caution keeps."""
        return {name: self.rule(posterior, caution) for name, posterior in self.posteriors.items()}


def choose(
    columns: Columns,
    design: Design | NumberDesign,
    posteriors: Sequence[Posterior],
    training: TrainingRows,
    classes: NDArray[Any],
    caution: float,
    rule: Callable[[Posterior, float], float],
    words: Sequence[frozenset[str]] | None = None,
) -> Choice:
    """Decide how much of each column's effect to keep.

    Parameters
    ----------
    columns, design, posteriors
        What the model looked at, and what it found for each feature.
    training : TrainingRows
    classes : array of shape (n_classes,)
        Empty for a label that is a number.
    caution : float
    rule : function of a posterior and the caution
        `kept_share` for classes, `kept_slope` for numbers.
    words : sequence of sets of str, optional
        The words of each column: a phrase goes with its words.
    """
    names = [columns.features()[feature[0]] for feature in design.features]
    by_name = dict(zip(names, posteriors, strict=True))
    sources = {
        name: sorted({int(columns.sources[column]) if columns.sources else column for column in feature})
        for name, feature in zip(names, design.features, strict=True)
    }
    if words is not None:
        sources = {name: _with_phrases(places, words) for name, places in sources.items()}
    kept = {name: rule(posterior, caution) for name, posterior in by_name.items()}
    sites = [environment.name for environment in training.environments]
    findings = find(columns, design, posteriors, classes, sites, training.environment_codes)
    shown = tuple(
        finding
        for name, finding in findings.items()
        if kept[name] < 1.0 or (finding.p_value < SUSPECTED and by_name[name].change > 0)
    )
    doubts = [finding.feature for finding in shown if kept[finding.feature] == 1.0]
    if shown:  # where columns change, others that nothing shows to be part of a mechanism may be the next
        named = {finding.feature for finding in shown}
        doubts += sorted(name for name, found in by_name.items() if name not in named and found.mechanism < 0)
    return Choice(by_name, sources, rule, kept, shown, doubts)


class Owner(Protocol):
    """A stable estimator, once its ordinary model is fitted."""

    n_jobs: int | None
    ordinary_: Any


class Mixture:
    """The ordinary model and those without some columns: their fits on folds, on all rows, and on other sites.

    Level 0 sees every column, each further level does without more of them. Their weights are such that a column is
    seen by as much of the mixture as is kept of its effect.

    Parameters
    ----------
    owner : StableClassifier or StableRegressor
        With its ordinary model, which was fitted on all rows.
    estimator : unfitted estimator
    training : TrainingRows
    seeding : Seeding
    choice : Choice
        Where it gives nothing up, the levels are those of the default caution: `path_` shows what that would save.
    """

    def __init__(
        self, owner: Owner, estimator: Estimator, training: TrainingRows, seeding: Seeding, choice: Choice
    ) -> None:
        self.estimator, self.training, self.seeding, self.choice = estimator, training, seeding, choice
        self.ordinary, self.n_jobs = owner.ordinary_, owner.n_jobs
        self.part = stopped_like(estimator, owner.ordinary_)  # for fits on parts of the rows
        planned = choice.kept if any(share < 1.0 for share in choice.kept.values()) else choice.at(CAUTION)
        self.names = list(planned)
        self.levels = removal_levels(list(planned.values()))
        plans = {i: self.plan([self.names[i]]) for i in self.levels[-1][1]}
        self.removals = [join_removals([plans[i] for i in chosen]) for _, chosen in self.levels]
        self.tables = [training, *(replace(training, X=r.apply(training.X)) for r in self.removals[1:])]
        self.settings = JudgeSettings(n_folds=N_FOLDS, n_jobs=owner.n_jobs, start=owner.ordinary_)
        folds = deal_folds(training, N_FOLDS)
        assert folds is not None
        self.folds, self.rounds = folds, training.environment_codes % min(len(training.environments), MOST_LEFT_OUT)
        self.fits, self.fold_rows = fit_folds(self.part, self.tables, folds, self.settings, seeding)
        self.n_draws = max(1, min(5, ROWS_FOR_ONE_DRAW // training.n_rows))
        self.doubted = self.plan(choice.doubts)

    def plan(self, names: Sequence[str]) -> Removal:
        """Return the removal of columns by their names."""
        return join_removals([plan_removal(self.training.X, self.choice.sources[name], [name]) for name in names])

    def weights(self, kept: Mapping[str, float]) -> list[float]:
        """Return the weight of each level."""
        return level_weights(self.levels, [kept[name] for name in self.names])

    def leave_out(self, tables: Sequence[TrainingRows]) -> tuple[Any, Any]:
        """Return fits without each environment in turn, for each table, and the rows that each leaves out."""
        return fit_folds(self.part, tables, self.rounds, self.settings, self.seeding)


def uncompared(kind: type[VerdictT]) -> VerdictT:
    """Return the verdict where there is one environment only."""
    unknown, nothing = Accuracy(np.nan, np.nan), Interval(0.0, 0.0, 0.0)
    return kind("ordinary", (), {}, nothing, unknown, unknown, unknown, Interval(np.nan, np.nan, np.nan))


def _read_table(X: Any, names: Any) -> Columns:
    """Return the columns of X as numbers, or the words of texts; `names` are those of the frame that X was."""
    if is_mapped(X):
        raise FeaturesError(
            f"The stable method has to change columns, but X is a memory map of {X.nbytes / 2**30:.1f} GiB. Pass an "
            "array in memory, or use PIClassifier."
        )
    return read_columns(X, None, AuditSettings(min_count=1, n_words=(1, 1)), names=names)


def _warn_of_split_categories(columns: Columns) -> None:
    """Say which categories came as columns of 0 and 1."""
    if split := split_categories(columns):
        which = listed([f"{first!r} to {last!r}" for first, last in split], most=3)
        each = "" if len(split) == 1 else " each,"
        warn(
            f"The columns {which} are one category{each} in columns of 0 and 1. Looked at one by one, they show "
            "much less of a change. Put the category into one column of words (pandas.from_dummies): "
            "holdfast fit and TableClassifier take it as it is; StableClassifier needs an encoder inside.",
            HoldfastWarning,
        )


def _read_subjects(subjects: PerRow, training: TrainingRows, columns: Columns) -> NDArray[np.intp] | None:
    """Return the subject of each row; copies of rows are one subject where they cannot be chance."""
    if subjects is not None:
        labels = label_array(
            subjects, training.n_rows, what="subjects", error=EnvironmentsError, example="frame['patient']"
        )
        return unique_labels(labels, what="subjects", error=EnvironmentsError)[1]
    keys = np.stack([training.row_keys, training.y.astype(np.uint64), training.environment_codes.astype(np.uint64)])
    codes = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    n_rows, n_distinct = training.n_rows, int(codes.max()) + 1
    if n_rows - n_distinct < COPIED * n_rows or not isinstance(columns.values, np.ndarray):
        return None
    if max(len(np.unique(column)) for column in columns.values.T) < DISTINCT * n_distinct:
        return None  # few values: equal rows are no wonder
    warn(
        f"{n_rows - n_distinct:,} of {n_rows:,} rows are exact copies of others. Copies count as one row here. Leave "
        "them out, or pass subjects= with a label for the rows that belong together.",
        HoldfastWarning,
    )
    return np.asarray(codes, dtype=np.intp)


def _subject_folds(subjects: NDArray[np.intp], training: TrainingRows) -> NDArray[np.intp]:
    """Return a fold for each row, the same for all rows of a subject, dealt in turn within each environment."""
    order = training.content_order
    firsts = order[np.sort(np.unique(subjects[order], return_index=True)[1])]
    if len(firsts) < N_FOLDS:
        raise EnvironmentsError("subjects has one label only. Rows of at least two subjects are needed for two folds.")
    folds = np.zeros(len(firsts), dtype=np.intp)
    folds[subjects[firsts]] = np.arange(len(firsts)) % N_FOLDS
    return folds[subjects]


def _without_phrases(columns: Columns, words: Sequence[frozenset[str]]) -> Columns:
    """Return the columns that are no phrases, with 1 where a text has a word.

    Next to its phrases every word would seem to be predicted by other columns, and so it would by the lengths of texts,
    which weights of words are divided by.
    """
    sources = columns.sources or tuple(range(len(columns)))
    kept = [place for place, source in enumerate(sources) if len(words[source]) < 2]
    if not kept:
        return columns
    is_word = np.array([bool(words[sources[place]]) for place in kept])
    values = columns.values[:, kept]
    if is_sparse(values):
        values.data = np.where(is_word[values.indices], values.data != 0, values.data)
    else:
        values = np.where(is_word, values != 0, values)
    names, sources = tuple(columns.names[place] for place in kept), tuple(sources[place] for place in kept)
    return Columns(names, values, columns.inputs[kept], sources=sources)


def _with_phrases(columns: list[int], words: Sequence[frozenset[str]]) -> list[int]:
    """Return columns, and those of all phrases that contain them: "per protocol" and "cough per" belong to "per"."""
    named = [words[column] for column in columns if words[column]]
    phrases = [j for j, own in enumerate(words) if any(some <= own for some in named)]
    return sorted({*columns, *phrases})
