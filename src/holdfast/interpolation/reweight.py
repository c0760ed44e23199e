"""The solver for any estimator with sample weights: Hedge over the groups, with a fit in each round.

Round t has three steps. The estimator is fitted with the row weights sum_g q_g·p_g(row). The risk R_g(f_t) of every
group is measured on rows that the model was *not* fitted on: on its own rows a forest or a boosted ensemble has hardly
any risk. Then q moves towards the groups of larger risk: q_g is proportional to exp(rate · sum_t R_g(f_t)).

The average risk of the rounds approaches the min–max value like sqrt(log(n_groups) / n_rounds) (Freund and Schapire,
1999). The answer is the ensemble that averages the probabilities of all rounds. As the log loss is convex in the
probability, it is at least as good as the average of the rounds.

No classifier has a lower risk in its worst group than the least risk in the mixture q_t. This is <q_t, R(f_t)>, as far
as the estimator minimizes the risk of q_t. So the rounds end as soon as this gap is closed:

    max_g R_g(ensemble) − max_t <q_t, R(f_t)>

The rate is sqrt(8·log(n_groups) / sum_t range_t²), where range_t is the range of the groups' risks in round t. It needs
no number of rounds, and it is larger if the groups differ less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from sklearn.base import RegressorMixin, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from holdfast.environments import Group, Rows, take_rows
from holdfast.exceptions import DivergedError, ParameterError
from holdfast.fitting.estimators import (
    PROBABILITY_FLOOR,
    FittedClassifier,
    FittedParts,
    code_probabilities,
    fit_rows,
    has_probabilities,
    require_sample_weight,
    seeded_clone,
)
from holdfast.fitting.kinds import Estimator
from holdfast.interpolation import Solution, SolverSettings
from holdfast.parallel import sharing
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding

MOST_ROWS = 200_000  # with more, scikit-learn draws a sample by weight and places the bins without


def binned_for(estimator: Estimator, X: Any) -> Any:
    """Return rows to fit a histogram booster on, X itself for every other estimator.

    Bins are those of the unweighted rows in every fit, so that rounds differ by their weights alone.
    Values stay in the units of X, so that what is fitted on them predicts rows of X.
    """
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and len(X) <= MOST_ROWS
    if is_array and isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        return bin_columns(X, estimator.max_bins)
    return X


def bin_columns(X: NDArray[np.floating], n_bins: int) -> NDArray[np.floating]:
    """Return a copy of X whose columns have at most `n_bins` different values, the means of equally large bins.

    Columns with few enough values, and missing values, stay as they are.

    Examples
    --------
    >>> bin_columns(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, np.nan]]), 2)
    array([[1.5, 0. ],
           [1.5, 1. ],
           [3.5, 0. ],
           [3.5, nan]])
    """
    binned = X.copy()
    for column in binned.T:
        known = ~np.isnan(column)
        values = column[known].astype(np.float64)
        if len(np.unique(values)) > n_bins:
            edges = np.percentile(values, np.linspace(0.0, 100.0, n_bins + 1)[1:-1], method="averaged_inverted_cdf")
            bins = np.searchsorted(edges, values)
            sums = np.bincount(bins, weights=values, minlength=n_bins)
            column[known] = (sums / np.maximum(np.bincount(bins, minlength=n_bins), 1))[bins]
    return binned


# The largest loss of one row is log(1000) = 6.9: Hedge needs bounded losses, and so does a mean over a small group.


@dataclass(eq=False, repr=False)
class WeightedEnsemble(FittedClassifier):
    """Fitted classifiers over codes 0..n_classes-1 that answer with their weighted mean probability.

    A classifier without probabilities takes part with a vote. Weights are scaled to sum one.
    """

    estimators: list[Any]
    weights: NDArray[np.float64]
    n_classes: int

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(self.n_classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the weighted mean of the probabilities, (n_rows, n_classes)."""
        return _mean((code_probabilities(part, X, self.n_classes) for part in self.estimators), self.weights)


@dataclass(eq=False, repr=False)
class WeightedMean(RegressorMixin, FittedParts):
    """Fitted regressors that answer with their weighted mean."""

    estimators: list[Any]
    weights: NDArray[np.float64]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the weighted mean of the predictions."""
        return _mean((np.asarray(part.predict(X), dtype=np.float64) for part in self.estimators), self.weights)


def _mean(answers: Iterable[NDArray[np.float64]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted mean of what the parts answer."""
    shares = np.asarray(weights) / np.sum(weights)
    total: NDArray[np.float64] = sum(share * answer for share, answer in zip(shares, answers, strict=True))
    return total


def solve_reweight(
    estimator: Estimator,
    training: TrainingRows,
    groups: Sequence[Group],
    settings: SolverSettings,
    seeding: Seeding,
    *,
    n_classes: int | None,
    tolerance: float = 1e-3,
) -> Solution:
    """Find the mixture of groups that is hardest for the estimator, and the ensemble that answers it.

    A clone of the estimator is fitted for each round and fold; unset random states come from `seeding`. The sum of the
    sample weights is that of every fit, so that the estimator's own penalty keeps its strength. Groups may overlap,
    their weights include the sample weights, and rows in no group are not used. Where the training rows have no folds
    of their own, they are dealt, stratified by group and label. `n_classes` is None for a regressor. The rounds stop
    once the gap is below `tolerance`.

    Of the solution, `group_risks` are the ensemble's, out of fold, `gap` is how far their largest is from the min–max
    value, as far as the estimator answers best, and `group_weights` is the mean of q_t.
    """
    require_sample_weight(estimator, asked_by="solver='reweight'")
    if settings.reweight_rounds < 1:
        raise ParameterError(
            f"The number of reweighting rounds must be at least 1. Got {settings.reweight_rounds!r} instead."
        )
    y = training.y
    masses = group_masses(groups, len(y))  # (n_rows, n_groups), columns sum to one
    used = np.flatnonzero(masses.sum(axis=1) > 0)
    n_folds = max(settings.n_folds, 2)
    fold_of_row = assign_folds(n_folds if training.folds is None else training.folds, y, masses, seeding)
    n_outputs = None if is_regressor(estimator) else n_classes
    fits = _Fits(training, binned_for(estimator, training.X), used, fold_of_row, n_outputs)

    n_groups = masses.shape[1]
    q = np.full(n_groups, 1.0 / n_groups)
    cumulative, spread = np.zeros(n_groups), 0.0  # sum_t R_g(f_t); sum_t range_t²
    bound = 0.0  # max_t <q_t, R(f_t)>; no risk is below 0
    answers = np.zeros(len(y) if n_outputs is None else (len(y), n_outputs))  # sum of the rounds'
    parts: list[Any] = []
    mixtures: list[NDArray[np.float64]] = []
    history: list[dict[str, Any]] = []
    with sharing(fits, settings.n_jobs) as run:
        for t in range(1, settings.reweight_rounds + 1):
            row_weights = np.asarray(masses @ q)
            used_folds = np.unique(fits.fold_of_row[fits.used])
            fitted = run(
                _fit_fold, ((seeded_clone(estimator, seeding, t, fold), fold, row_weights) for fold in used_folds)
            )
            parts += [model for model, _, _ in fitted]
            outcome = np.zeros_like(answers)
            for _, rows, answer in fitted:
                outcome[rows] = answer
            answers += outcome
            votes = n_outputs is not None and not all(has_probabilities(model) for model in parts)
            risks = _group_risks(masses, outcome, y, used, votes=votes)
            if not np.isfinite(risks).all():
                raise DivergedError(
                    f"round {t}: the risk of a group is not finite ({risks.tolist()}); {type(estimator).__name__} "
                    "gave NaN or infinite predictions. Scale the features or regularize the estimator more strongly."
                )
            bound = max(bound, float(q @ risks))
            mixtures.append(q)
            ensemble_risks = _group_risks(masses, answers / t, y, used, votes=votes)
            gap = max(float(ensemble_risks.max()) - bound, 0.0)
            history.append({"round": t, "group_weights": q.tolist(), "group_risks": risks.tolist(), "gap": gap})
            if gap < tolerance:
                break
            cumulative += risks
            spread += max(float(np.ptp(risks)), 1e-12) ** 2
            q = _hedge(cumulative, np.sqrt(8.0 * np.log(n_groups) / spread))
    weights = np.full(len(parts), 1.0 / len(parts))
    ensemble = WeightedMean(parts, weights) if n_outputs is None else WeightedEnsemble(parts, weights, n_outputs)
    return Solution(ensemble, ensemble_risks, gap, np.mean(mixtures, axis=0), "reweight", history)


def group_masses(groups: Sequence[Group], n_rows: int) -> csc_array:
    """Return p_g(row) as a sparse (n_rows, n_groups) matrix whose columns sum to one."""
    empty = [group.name for group in groups if len(group) == 0 or group.effective_size() == 0]
    if not groups or empty:
        what = f"{', '.join(empty)} without rows" if empty else "no groups"
        raise ParameterError(f"A min–max problem needs groups with rows. Got {what}. Drop empty halves first.")
    sizes = [len(group) for group in groups]
    columns = np.repeat(np.arange(len(groups)), sizes)
    rows = np.concatenate([group.rows for group in groups])
    values = np.concatenate([group.probabilities() for group in groups])
    return csc_array((values, (rows, columns)), shape=(n_rows, len(groups)))


def assign_folds(folds: int | Rows, y_codes: NDArray[Any], masses: csc_array, seeding: Seeding) -> Rows:
    """Return each row's fold: as given, or balanced within every set of groups and every label."""
    n_rows = len(y_codes)
    if not isinstance(folds, int | np.integer):
        given = np.asarray(folds)
        if given.shape != (n_rows,) or len(np.unique(given)) < 2:
            raise ParameterError(
                f"folds must be a number of folds or one fold number for each of the {n_rows} rows, with at least two "
                f"different ones. Got an array of shape {given.shape} with {len(np.unique(given))} different values."
            )
        return np.unique(given, return_inverse=True)[1].astype(np.intp)
    if folds < 2:
        raise ParameterError(f"folds must be at least 2, since risks are judged out of fold. Got {folds!r} instead.")
    # Rows with the same groups and label are neighbors after the sort and are dealt out in turn;
    # a random number for each set of groups tells the sets apart.
    generator = seeding.generator("folds")
    member = masses.copy()
    member.data = np.ones_like(member.data)
    signature = np.round(np.asarray(member @ generator.random(masses.shape[1])), 9)
    labels = y_codes if np.issubdtype(np.asarray(y_codes).dtype, np.integer) else np.argsort(np.argsort(y_codes))
    shuffle = generator.permutation(n_rows)
    order = shuffle[np.lexsort((labels[shuffle], signature[shuffle]))]
    result = np.empty(n_rows, dtype=np.intp)
    result[order] = np.arange(n_rows) % folds
    return result


@dataclass(frozen=True, eq=False)
class _Fits:
    """What the fits of all rounds share."""

    training: TrainingRows
    binned: Any  # the rows to fit on
    used: Rows  # rows of some group
    fold_of_row: Rows  # (n_rows,)
    n_outputs: int | None  # None for regression


def _fit_fold(
    fits: _Fits, estimator: Estimator, fold: int, row_weights: NDArray[np.float64]
) -> tuple[Any, Rows, NDArray[np.float64]]:
    """Fit on the used rows outside of a fold; return the model, the fold's used rows and the answers there."""
    is_held_out = fits.fold_of_row[fits.used] == fold
    inside, outside = fits.used[~is_held_out], fits.used[is_held_out]
    # The mean is that of the sample weights: the estimator's own penalty keeps its strength.
    weights = row_weights[inside] / row_weights[inside].mean() * fits.training.weights[inside].mean()
    model = fit_rows(estimator, fits.binned, fits.training.y, inside, weights)
    features = take_rows(fits.training.X, outside)
    if fits.n_outputs is None:
        return model, outside, np.asarray(model.predict(features), dtype=np.float64)
    return model, outside, code_probabilities(model, features, fits.n_outputs)


def _group_risks(
    masses: csc_array, answers: NDArray[np.float64], y: NDArray[Any], used: Rows, *, votes: bool
) -> NDArray[np.float64]:
    """Return R_g: mean squared error, mean log loss, or the mean share of wrong votes."""
    losses = np.zeros(len(y))
    if answers.ndim == 1:
        losses[used] = (answers[used] - y[used]) ** 2
    else:
        truth = answers[used, y[used]]
        losses[used] = 1.0 - truth if votes else -np.log(np.maximum(truth, PROBABILITY_FLOOR))
    return np.asarray(masses.T @ losses)


def _hedge(cumulative: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Return q_g proportional to exp(rate · cumulative risk)."""
    scores = rate * (cumulative - cumulative.max())
    q = np.exp(scores)
    return np.asarray(q / q.sum())
