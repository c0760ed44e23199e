"""A classifier that uses less of the columns whose meaning changes between environments, and says so."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import special
from sklearn.utils import estimator_html_repr

from holdfast.audit.columns import Columns, split_categories
from holdfast.audit.effects import Search, find_unstable
from holdfast.audit.run import AuditSettings, finding_of, read_columns
from holdfast.environments import Environment, listed, take_rows
from holdfast.estimators.base import MethodClassifier, check_choice, fit_erm, warn_single_environment
from holdfast.exceptions import FeaturesError, HoldfastWarning, ParameterError, warn
from holdfast.interpolation.removal import MixedClassifier, Removal, join_removals, mix_scores, plan_removal
from holdfast.interpolation.stress import Part, StressTest, ask_out_of_fold, stress_test
from holdfast.interpolation.verdict import (
    RARE,
    WHOLE,
    Accuracy,
    Verdict,
    doubt_about,
    fitted_as,
    is_given_up,
    kept_share,
    removal_levels,
)
from holdfast.judging.calibration import Calibration, calibrate, class_scores, log_softmax
from holdfast.judging.judgements import Judgements, accuracy_matrix, ask_for_scores, judge_environments
from holdfast.judging.judges import JudgeSettings, deal_folds, fit_folds
from holdfast.learners import fit_rows, has_threshold, last_step, refit_logistic, seeded_clone, stopped_like
from holdfast.metrics import Interval
from holdfast.parallel import run_each
from holdfast.rows import TrainingRows, is_mapped
from holdfast.seeding import RandomState, Seeding

Array = NDArray[np.float64]
N_FOLDS = 2  # for the judges, and for price and gain
MOST_JUDGES = 8
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of `path_`
FINE = np.linspace(0.0, 1.0, 11)  # strengths that are tried for "as_seen"
MOST_LEFT_OUT = 5  # rounds of leaving environments out
ROWS_FOR_ONE_DRAW = 4000  # with fewer rows, the stress test is made several times
MOST_COPIED = 2**30  # bytes of a memory map that are copied into memory; joblib maps every array above a megabyte
LEAST_CERTAIN = 0.7  # the least factor by which log-odds that fit known environments are lowered


@dataclass(frozen=True)
class PathPoint:
    """What one strength costs and saves."""

    strength: float
    price: Interval
    known: Accuracy
    vanished: Accuracy
    reversed: Accuracy


@dataclass(eq=False, repr=False)
class StableClassifier(MethodClassifier):
    """Train a classifier that does not rely on columns whose meaning changes between environments.

    One classifier is fitted on each environment and asked about all rows; what they agree on is common ground. Beyond
    it, every column is tested for an effect that differs between environments. Where one does, a second classifier is
    fitted without it, and the two are mixed: the stronger the evidence and the larger the change, the less of the
    column is used. Where nothing differs, the result is the ordinary classifier, to the last bit. `verdict_` says what
    was fitted, why, what it costs at known environments and what it saves if the relation vanishes or reverses.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        Any classifier or Pipeline. None: columns scaled to unit variance, then a logistic regression.
    expect : "may_turn" or "as_seen"
        What may happen at the next environment. "may_turn": the relations that change may vanish or reverse. "as_seen":
        it is like the known ones; how much is given up is decided by leaving environments out.
    strength : float between 0 and 1
        0 is the ordinary classifier, 1 gives up all that the evidence says. `path_` has price and gain of others.
    n_jobs : int or None
        Fits that run at the same time.
    random_state : int or None
        Seeds the estimator where its own `random_state` is unset. The verdict does not depend on it, nor on
        the order of rows, unless the estimator draws at random, as forests do: then it moves a little.

    Attributes
    ----------
    verdict_ : Verdict
        What was fitted and why; `str(verdict_)` is the answer in words.
    path_ : tuple of PathPoint
        Price and accuracies for several strengths.
    estimator_ : fitted classifier over class codes
    ordinary_ : fitted classifier over class codes
        The ordinary classifier, for comparison.
    environments_, classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = StableClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> model.verdict_.fitted
    'stable'
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this
    reads_columns: ClassVar[bool] = True  # which ones are unstable: a table's columns are worth more than a matrix
    # What only `TableClassifier` knows, and sets for one fit:
    _all_rows: ClassVar[Any] = None  # of columns, classes and environments, returns `make_search` of `find_unstable`
    _words: ClassVar[Any] = None  # the words of each column of a matrix; none where it is no word or phrase

    estimator: Any = None
    _: KW_ONLY
    expect: Literal["may_turn", "as_seen"] = "may_turn"
    strength: float = 1.0
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self, X: Any, y: Any, *, environments: Any = None, sample_weight: Any = None, folds: Any = None
    ) -> StableClassifier:
        """Fit in three stages.

        Parameters
        ----------
        X : array, sparse matrix, frame or list of texts
        y : labels of shape (n_rows,)
        environments : labels of shape (n_rows,)
            Which environment each row came from. None, or one label only: the ordinary classifier, with a warning.
        sample_weight : array of shape (n_rows,), optional
        folds : labels of shape (n_rows,), optional
            Fold of each row, so that rows of one patient stay together.
        """
        check_choice(self, "expect", ("may_turn", "as_seen"))
        if not isinstance(self.strength, int | float | np.number) or not 0 <= self.strength <= 1:
            raise ParameterError(
                f"The 'strength' parameter of StableClassifier must lie between 0 and 1. Got {self.strength!r} instead."
            )
        training = self._read_training(X, y, environments, sample_weight=sample_weight, folds=folds)
        seeding = Seeding(self.random_state)
        estimator = self._coded_estimator(training)
        alone = warn_single_environment(training.environments, type(self).__name__)
        if is_mapped(training.X) and training.X.nbytes <= MOST_COPIED:
            training = replace(training, X=np.array(training.X))
        if not alone:  # what cannot be used is refused before any work
            columns = _read_table(training.X, training.names)
            training.check_folds()
            if split := split_categories(columns):
                which = listed([f"{first!r} to {last!r}" for first, last in split], most=3)
                each = "" if len(split) == 1 else " each,"
                warn(
                    f"The columns {which} are one category{each} in columns of 0 and 1. Tested one by one, they show "
                    "much less of a change. Put the category into one column of words (pandas.from_dummies): "
                    "holdfast fit and TableClassifier take it as it is; StableClassifier needs an encoder inside.",
                    HoldfastWarning,
                )
        self.ordinary_ = self.estimator_ = fit_erm(estimator, training, seeding)
        if alone:
            unknown, nothing = Accuracy(np.nan, np.nan), Interval(0.0, 0.0, 0.0)
            self.path_: tuple[PathPoint, ...] = ()
            forecast = Interval(np.nan, np.nan, np.nan)
            self.verdict_ = Verdict("ordinary", (), {}, nothing, unknown, unknown, unknown, forecast)
            return self

        # What the ordinary classifier was fitted on need not be looked at again.
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            self._fit_stages(estimator, training, columns, seeding)
        return self

    def _fit_stages(self, estimator: Any, training: TrainingRows, columns: Columns, seeding: Seeding) -> None:
        """Judge, search, interpolate."""
        # Stage 1: one judge for each environment (of many, several share one), asked about rows it was not fitted on.
        settings = JudgeSettings(n_folds=N_FOLDS, alike=True, n_jobs=self.n_jobs, start=self.ordinary_)
        part = stopped_like(estimator, self.ordinary_)
        judgements = judge_environments(
            part, _for_judges(training), settings, seeding, classes=self.classes_, probabilities=True, pooled=True
        )

        # Stage 2: beyond what the judges agree on, which columns mean something else in some environments?
        labels = [environment.label for environment in training.environments]
        make_search = None if self._all_rows is None else self._all_rows(columns, self.classes_, labels)
        is_linear = make_search is not None or hasattr(last_step(self.ordinary_), "coef_")
        search = find_unstable(
            columns.values,
            training.y,
            training.environment_codes,
            n_classes=len(self.classes_),
            sample_weight=training.sample_weight,
            agreed=_agreement(judgements) if make_search is None else None,  # linear judges say what the columns say
            ordinary=None if is_linear else partial(_ordinary_scores, judgements, training, len(self.classes_)),
            groups=tuple(columns.groups.values()),
            given_up=is_given_up,
            make_search=make_search,
        )

        # Stage 3: use as much of these columns as the evidence supports.
        self._interpolate(estimator, training, judgements, columns, search, settings, seeding)

    def _interpolate(
        self,
        estimator: Any,
        training: TrainingRows,
        judgements: Judgements,
        columns: Columns,
        search: Search,
        settings: JudgeSettings,
        seeding: Seeding,
    ) -> None:
        """Mix the ordinary classifier with others that do without the unstable columns, and write the verdict."""
        features, kept = _unstable_features(columns, search)
        if self._words is not None:
            features = {name: _with_phrases(sources, self._words) for name, sources in features.items()}
        levels = removal_levels(list(kept.values()))
        plans = [plan_removal(training.X, sources, [name]) for name, sources in features.items()]
        removals = [join_removals([plans[i] for i in chosen]) for _, chosen in levels]
        full = [weight for weight, _ in levels]  # at strength 1
        parts = [Part(Removal(), judgements.pooled_estimators, judgements.pooled_rows)]
        reduced = [replace(training, X=removal.apply(training.X)) for removal in removals[1:]]
        if reduced:
            assert judgements.folds is not None
            part = stopped_like(estimator, self.ordinary_)
            fits, fold_rows = fit_folds(part, reduced, judgements.folds, settings, seeding)
            parts += [Part(removal, found, fold_rows) for removal, found in zip(removals[1:], fits, strict=True)]
        n_draws = max(1, min(5, ROWS_FOR_ONE_DRAW // training.n_rows))
        test = stress_test(parts, training, len(self.classes_), n_draws=n_draws)
        strength = float(self.strength)
        if self.expect == "as_seen" and len(parts) > 1:
            strength *= _strength_as_seen(estimator, training, removals, full, seeding, self.n_jobs)
        weights = _at_strength(full, strength)
        if weights[0] < 1.0:
            if has_threshold(estimator):
                name = type(last_step(estimator)).__name__
                warn(
                    f"The threshold of {name} is not used, because classifiers with and without some columns are mixed "
                    f"by their probabilities. Put it around StableClassifier: {name}(StableClassifier(...)).",
                    HoldfastWarning,
                )
            tasks = [
                (number, estimator, seeding, self.ordinary_, part.estimators) for number, part in enumerate(parts[1:])
            ]
            models = [self.ordinary_, *run_each(_fit_reduced, tuple(reduced), tasks, self.n_jobs)]
            mixed = mix_scores(test.known, weights)
            offsets = not hasattr(self.ordinary_, "predict_proba")
            calibration = calibrate(mixed, training.y, training.sample_weight, offsets=offsets)
            certainty = _certainty(judgements, reduced[-1], len(self.classes_))
            calibration = Calibration(certainty * calibration.scale, certainty * calibration.offsets)
            self.estimator_ = MixedClassifier(models, removals, weights, calibration)
        self.path_ = tuple(_point(test, s, _at_strength(full, s)) for s in STRENGTHS)
        findings = tuple(
            finding_of(effect, columns, self.classes_, [e.name for e in training.environments])
            for effect in _strongest(columns, search).values()
        )
        used = {name: 1.0 - strength * (1.0 - share) for name, share in kept.items()}
        forecast = test.forecast(weights, _transfer_loss(judgements, training))
        verdict = self._verdict(training, test, weights, findings, used, search, strength, forecast)
        doubts = {
            name: doubt_about(effect) for name, effect in _strongest(columns, search).items() if kept[name] >= WHOLE
        }
        self.verdict_ = replace(verdict, n_tests=columns.n_columns, doubts=doubts)

    def _html_repr(self) -> str:
        """Return what notebooks show: the verdict above scikit-learn's diagram."""
        diagram = str(estimator_html_repr(self))
        if not hasattr(self, "verdict_"):
            return diagram
        first, _, rest = html.escape(str(self.verdict_)).partition(". ")
        style = "margin:0 0 .8em; padding:.5em .8em; border-left:.3em solid currentColor; max-width:48em"
        return f'<p style="{style}"><strong>{first.rstrip(".")}.</strong> {rest}</p>{diagram}'

    def _verdict(
        self,
        training: TrainingRows,
        test: StressTest,
        weights: list[float],
        findings: tuple[Any, ...],
        used: dict[str, float],
        search: Search,
        strength: float,
        forecast: Interval,
    ) -> Verdict:
        """Return what was fitted, why, and what it costs and saves."""
        names = [environment.name for environment in training.environments]
        ordinary = test.accuracies("known", [1.0] + [0.0] * (len(weights) - 1))
        fitted = test.accuracies("known", weights)
        shares = np.bincount(training.y, training.weights) / training.weights.sum()
        return Verdict(
            fitted_as(list(used.values())),
            findings,
            used,
            test.price(weights),
            test.compare("known", weights),
            test.compare("vanished", weights),
            test.compare("reversed", weights),
            forecast,
            {name: Accuracy(float(a), float(b)) for name, a, b in zip(names, ordinary, fitted, strict=True)},
            float(shares.max()),
            float(min((e.p_value for e in search.effects), default=search.p_values.min(initial=1.0))),
            auroc=test.ranks(weights) if shares.max() >= RARE else {},
            noisier=search.noisier,
            expect=self.expect,
            strength=strength,
        )


def _for_judges(training: TrainingRows) -> TrainingRows:
    """Return the rows with few environments: of many, several share a judge, so that the cost does not grow."""
    environments = training.environments
    if len(environments) <= MOST_JUDGES:
        return training
    shared = [environments[first::MOST_JUDGES] for first in range(MOST_JUDGES)]
    merged = tuple(
        Environment(listed([e.name for e in s]), np.sort(np.concatenate([e.rows for e in s]))) for s in shared
    )
    return replace(training, environments=merged, folds=deal_folds(training, N_FOLDS))


def _transfer_loss(judgements: Judgements, training: TrainingRows) -> float:
    """Return by how much a judge of another environment is worse than an environment's own, out of fold."""
    accuracies = accuracy_matrix(judgements.predictions, training.y, judgements.environments, training.sample_weight)
    own, n = np.diag(accuracies), len(accuracies)
    others = (np.nansum(accuracies, axis=0) - np.nan_to_num(own)) / (n - 1)
    lost = own - others
    return float(np.nanmean(lost)) if np.isfinite(lost).any() else 0.0


def _certainty(judgements: Judgements, stable: TrainingRows, n_classes: int) -> float:
    """Return by which factor the log-odds are lowered, because a new environment is less certain than known ones.

    A judge is calibrated on its own environment, here without the unstable columns. In other environments it is too
    certain; the scale that would calibrate it there says how much. A classifier of n environments is assumed to need
    the nth root of that scale. The factor goes half of the way, because it is used at known environments too.
    """
    logs = []
    for judge, scores in zip(judgements.judges, ask_for_scores(judgements.judges, stable, n_classes), strict=True):
        asked = ~np.isnan(scores[:, 0])
        asked[judge.environment.rows] = False
        weights = None if stable.sample_weight is None else stable.sample_weight[asked]
        logs.append(np.log(calibrate(scores[asked], stable.y[asked], weights).scale) if asked.any() else 0.0)
    elsewhere = sum(logs) / len(judgements.judges)
    return float(np.clip(np.exp(elsewhere / (2 * len(stable.environments))), LEAST_CERTAIN, 1.0))


def _read_table(X: Any, names: Any) -> Columns:
    """Return the columns of X as numbers, or the words of texts; `names` are those of the frame that X was."""
    if getattr(X, "ndim", 2) > 2:
        raise FeaturesError(
            f"StableClassifier looks at columns, but X has shape {X.shape}. Pass a table, or use PIClassifier."
        )
    if is_mapped(X):
        raise FeaturesError(
            f"StableClassifier has to change columns, which a memory map of {X.nbytes / 2**30:.1f} GiB does not allow. "
            "Pass an array in memory, or use PIClassifier."
        )
    return read_columns(X, None, AuditSettings(min_count=1, n_words=(1, 1)), names=names)


def _agreement(judgements: Judgements) -> Array:
    """Return what the judges agree on: for each row and class the mean log-odds over judges, (n_rows, n_classes)."""
    scores = judgements.scores
    assert scores is not None
    mean = np.nan_to_num(np.nanmean(scores, axis=0))
    return np.asarray(mean - mean.mean(axis=1, keepdims=True))


def _ordinary_scores(judgements: Judgements, training: TrainingRows, n_classes: int) -> Array:
    """Return what the ordinary classifier says of rows that it was not fitted on, calibrated, as log-probabilities."""
    ordinary = Part(Removal(), judgements.pooled_estimators, judgements.pooled_rows)
    scores = np.nan_to_num(ask_out_of_fold(ordinary, training, n_classes))
    return calibrate(scores, training.y, training.sample_weight).log_probabilities(scores)


def _strongest(columns: Columns, search: Search) -> dict[str, Any]:
    """Return the strongest effect of each named feature."""
    features = columns.features()
    found: dict[str, Any] = {}
    for effect in search.effects:
        found.setdefault(features[effect.column], effect)
    return found


def _unstable_features(columns: Columns, search: Search) -> tuple[dict[str, list[int]], dict[str, float]]:
    """Return for each named feature the columns of X it stands in, and how much of its effect is used."""
    features = columns.features()
    sources: dict[str, list[int]] = {}
    kept: dict[str, float] = {}
    for effect in search.effects:
        name = features[effect.column]
        source = columns.sources[effect.column] if columns.sources else effect.column
        sources[name] = sorted({*sources.get(name, []), int(source)})
        kept[name] = min(kept.get(name, 1.0), kept_share(effect))
    return sources, kept


def _with_phrases(columns: list[int], words: Sequence[frozenset[str]]) -> list[int]:
    """Return columns, and those of all phrases that contain them: "per protocol" and "cough per" tell of "per" too."""
    named = [words[column] for column in columns if words[column]]
    phrases = [j for j, own in enumerate(words) if any(some <= own for some in named)]
    return sorted({*columns, *phrases})


def _at_strength(weights: list[float], strength: float) -> list[float]:
    """Return the weights of the mixture at a strength: that much of the way from the ordinary classifier."""
    return [1.0 - strength * (1.0 - weights[0]), *(strength * weight for weight in weights[1:])]


def _point(test: StressTest, strength: float, weights: list[float]) -> PathPoint:
    return PathPoint(
        strength,
        test.price(weights),
        test.compare("known", weights),
        test.compare("vanished", weights),
        test.compare("reversed", weights),
    )


def _fit_reduced(
    tables: tuple[TrainingRows, ...], number: int, estimator: Any, seeding: Seeding, ordinary: Any, folds: Sequence[Any]
) -> Any:
    """Fit without the unstable columns; a logistic regression begins with the fits of its folds."""
    training = tables[number]
    quick = refit_logistic(ordinary, folds, estimator, training.X, training.y)
    return fit_erm(estimator, training, seeding) if quick is None else quick


def _ask_left_out(training: TrainingRows, estimator: Any, removal: Removal, out: NDArray[np.intp]) -> Array:
    """Fit without some columns and some rows; return the scores of these rows."""
    rest = np.setdiff1d(np.arange(training.n_rows), out)
    X = removal.apply(training.X)
    weights = None if training.sample_weight is None else training.sample_weight[rest]
    model = fit_rows(estimator, X, training.y, rest, weights)
    return class_scores(model, take_rows(X, out), int(training.y.max()) + 1)


def _strength_as_seen(
    estimator: Any,
    training: TrainingRows,
    removals: list[Removal],
    weights: list[float],
    seeding: Seeding,
    n_jobs: int | None,
) -> float:
    """Return the strength with the least log loss in environments left out, shrunk by how uncertain its advantage is.

    The standard error counts with Student's factor: two environments say little about how much a third gains. With many
    environments several are left out at a time, so that no more than `MOST_LEFT_OUT` rounds are needed.
    """
    losses = np.empty((len(FINE), training.n_rows))
    n_rounds = min(len(training.environments), MOST_LEFT_OUT)
    left_out = [np.concatenate([e.rows for e in training.environments[n::MOST_LEFT_OUT]]) for n in range(n_rounds)]
    tasks = [(seeded_clone(estimator, seeding, "erm"), removal, out) for out in left_out for removal in removals]
    asked = run_each(_ask_left_out, training, tasks, n_jobs)
    for held_out, out in enumerate(left_out):
        scores = asked[held_out * len(removals) : (held_out + 1) * len(removals)]
        for number, strength in enumerate(FINE):
            logs = log_softmax(mix_scores(scores, _at_strength(weights, strength)))
            losses[number, out] = -logs[np.arange(len(out)), training.y[out]]
    saved = np.array([[(losses[0] - row)[e.rows].mean() for e in training.environments] for row in losses])
    best = int(saved.mean(axis=1).argmax())
    gain, n = float(saved[best].mean()), len(training.environments)
    if best == 0 or gain <= 0:
        return 0.0
    error = float(saved[best].std(ddof=1)) / np.sqrt(n) * float(special.stdtrit(n - 1, special.ndtr(1)))
    return float(FINE[best] * max(0.0, 1.0 - (error / gain) ** 2))
