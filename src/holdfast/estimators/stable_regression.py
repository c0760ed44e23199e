"""The stable regressor: it uses less of the columns whose effect differs between environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.environments import PerRow, Rows
from holdfast.estimators.base import MethodRegressor, fit_erm, warn_single_environment
from holdfast.estimators.mixing import CAUTIONS, Mixture, check_caution, choose, read_comparable, uncompared
from holdfast.estimators.stable import PathPoint
from holdfast.fitting.kinds import Estimator
from holdfast.metrics import Interval
from holdfast.rows.training import TrainingRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.decision import CAUTION
from holdfast.stable.gaussian import kept_slope, make_number_design, posteriors_of_numbers
from holdfast.stable.removal import MixedRegressor, Removal, join_removals, shuffled_partners
from holdfast.stable.verdict import Accuracy, RegressionVerdict, fitted_as

Array = NDArray[np.float64]
USUAL_SPREAD = 0.1  # of logarithms of the RMSE between environments; counts like two environments
QUESTIONS = ("known", "vanished", "reversed")


@dataclass(eq=False, repr=False)
class StableRegressor(MethodRegressor):
    """Train a regressor that relies less on columns whose effect differs between environments.

    It decides like `StableClassifier`, with a normal likelihood (`holdfast.stable.gaussian`). For each column it
    computes the probability that the effect changes, and then the share of the effect to keep. The ordinary model is
    mixed with one that was fitted without the changing columns. If there are none, the result is exactly the ordinary
    model.

    Parameters
    ----------
    estimator : scikit-learn regressor or None
        Any regressor or Pipeline. None: columns scaled to unit variance, then a ridge regression.
    caution : float between 0 and 1
        Assumed effect of a changing column at the next environment: as seen (0), none (0.5) or reversed (1).
    n_jobs : int or None
        Number of fits that run at the same time.
    random_state : int or None
        Seed of the estimator if its own `random_state` is None.

    Attributes
    ----------
    verdict_ : RegressionVerdict
        What was fitted and why; `str(verdict_)` is the answer in words.
    path_ : tuple of PathPoint
        R² lost and R² saved for several values of caution.
    estimator_ : fitted regressor
    ordinary_ : fitted regressor
        The ordinary model, for comparison.
    environments_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site, age = np.repeat(["Boston", "Chicago", "Denver"], 300), rng.normal(size=900)
    >>> cost = age + rng.normal(size=900)
    >>> device = np.where(site == "Denver", -1, 1) * cost + rng.normal(size=900)  # reversed in Denver
    >>> model = StableRegressor().fit(np.column_stack([age, device]), cost, environments=site)
    >>> model.verdict_.fitted, model.verdict_.kept
    ('stable', {'x1': 0.0})
    """

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this
    reads_columns: ClassVar[bool] = True  # a table's columns are worth more than a matrix

    estimator: Estimator | None = None
    _: KW_ONLY
    caution: float = CAUTION
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow,
        *,
        environments: PerRow = None,
        sample_weight: PerRow = None,
        subjects: PerRow = None,
    ) -> StableRegressor:
        """Fit the ordinary model, decide which columns to use less, and mix.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
        y : numbers of shape (n_rows,)
        environments : labels of shape (n_rows,)
            Which environment each row came from. None, or one label only: the ordinary model, with a warning.
        sample_weight : array of shape (n_rows,), optional
            How many rows each row stands for.
        subjects : labels of shape (n_rows,), optional
            Rows that belong together. They share a fold, and count as one row as evidence.
        """
        check_caution(self)
        training = self._read_training(X, y, environments, sample_weight=sample_weight)
        seeding, estimator = Seeding(self.random_state), self._base_estimator(training.X)
        self._check_network(estimator, None)
        alone = warn_single_environment(training.environments, type(self).__name__)
        if not alone:
            columns, training, together = read_comparable(training, subjects)
        self.ordinary_ = self.estimator_ = fit_erm(estimator, training, seeding)
        if alone:
            self.path_: tuple[PathPoint, ...] = ()
            self.verdict_ = uncompared(RegressionVerdict)
            return self
        design = make_number_design(
            columns, training.y, training.environment_codes, weights=training.sample_weight, subjects=together
        )
        caution, found = float(self.caution), posteriors_of_numbers(design)
        choice = choose(columns, design, found, training, np.empty(0), caution, kept_slope)
        kept = choice.kept
        shown = tuple(replace(finding, label="the label", is_number=True) for finding in choice.shown)
        mixture = _RegressorMixture(self, estimator, training, seeding, choice)
        weights, ordinary = mixture.weights(kept), mixture.weights(dict.fromkeys(kept, 1.0))
        if weights[0] < 1.0:
            self.estimator_ = mixture.fit(weights)
        self.path_ = tuple(mixture.point(c, mixture.weights(choice.at(c))) for c in CAUTIONS)
        self.verdict_ = RegressionVerdict(
            fitted_as(list(kept.values())),
            shown,
            {finding.feature: kept[finding.feature] for finding in shown},
            mixture.price(weights),
            mixture.r2("known", weights),
            mixture.r2("vanished", weights),
            mixture.r2("reversed", weights),
            mixture.forecast(weights),
            mixture.by_site(ordinary, weights),
            chance=0.0,  # R² of always predicting the mean
            n_tests=columns.n_columns,
            caution=caution,
            rmse={question: mixture.rmse(question, weights) for question in QUESTIONS},
        )
        return self


class _RegressorMixture(Mixture):
    """The mixture of a `StableRegressor`, with its answers to "what if"."""

    def fit(self, weights: Sequence[float]) -> MixedRegressor:
        """Return the models on all rows, mixed."""
        used = [i for i, weight in enumerate(weights) if weight > 0]
        models = [fit_erm(self.estimator, self.tables[i], self.seeding) if i else self.ordinary for i in used]
        return MixedRegressor(models, [self.removals[i] for i in used], [weights[i] for i in used])

    @cached_property
    def answers(self) -> dict[str, Array]:
        """Predictions of every part out of fold, (n_draws, n_parts, n_rows), for each question.

        `doubted` is as `vanished`, with further columns shuffled.
        """
        removed, training = self.removals[-1], self.training
        shuffled = [shuffled_partners(training, other_label=False, draw=draw) for draw in range(self.n_draws)]
        known = self._ask(Removal(), np.arange(training.n_rows))
        return {
            "known": known[None],
            "vanished": np.stack([self._ask(removed, partners) for partners in shuffled]),
            "reversed": self._ask(removed, _mirrored_partners(training))[None],
            "doubted": np.stack([self._ask(join_removals([removed, self.doubted]), own) for own in shuffled]),
        }

    def _ask(self, changed: Removal, partners: Rows) -> Array:
        """Return the predictions of every part out of fold, with some columns of other rows, (n_parts, n_rows)."""
        found = np.empty((len(self.removals), self.training.n_rows))
        for part, (removal, fits) in enumerate(zip(self.removals, self.fits, strict=True)):
            for model, rows in zip(fits, self.fold_rows, strict=True):
                asked = changed.exchange(self.training.X, rows, partners[rows])
                found[part, rows] = model.predict(removal.apply(asked))
        return found

    def squares(self, question: str, weights: Sequence[float]) -> Array:
        """Return the squared errors of a mixture, mean over draws, (n_rows,)."""
        predicted = np.tensordot(self.answers[question], np.asarray(weights), (1, 0))  # (n_draws, n_rows)
        return np.asarray(((predicted - self.training.y) ** 2).mean(axis=0))

    @property
    def _ordinary(self) -> list[float]:
        return [1.0] + [0.0] * (len(self.levels) - 1)

    @cached_property
    def _variance(self) -> float:
        y, weights = self.training.y, self.training.weights
        return float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)) or 1.0

    def r2(self, question: str, weights: Sequence[float]) -> Accuracy:
        """Return the R² over all rows of the ordinary model and of the mixture."""
        return Accuracy(*(1 - self._mean(question, w) / self._variance for w in (self._ordinary, weights)))

    def rmse(self, question: str, weights: Sequence[float]) -> Accuracy:
        """Return the RMSE over all rows of the ordinary model and of the mixture."""
        return Accuracy(*(float(np.sqrt(self._mean(question, w))) for w in (self._ordinary, weights)))

    def _mean(self, question: str, weights: Sequence[float]) -> float:
        return float(np.average(self.squares(question, weights), weights=self.training.weights))

    def by_site(self, *mixtures: Sequence[float]) -> dict[str, Accuracy]:
        """Return the R² in each environment; NaN where its labels are all the same."""
        found, y, shares = {}, self.training.y, self.training.weights + 1e-12
        squares = [self.squares("known", weights) for weights in mixtures]
        for environment in self.training.environments:
            rows = environment.rows
            mean = np.average(y[rows], weights=shares[rows])
            variance = float(np.average((y[rows] - mean) ** 2, weights=shares[rows])) or np.nan
            found[environment.name] = Accuracy(
                *(1 - float(np.average(errors[rows], weights=shares[rows])) / variance for errors in squares)
            )
        return found

    def price(self, weights: Sequence[float]) -> Interval:
        """Return the R² that a mixture loses at the known environments."""
        lost = (self.squares("known", weights) - self.squares("known", self._ordinary)) / self._variance
        shares = self.training.weights / self.training.weights.sum()
        value = float(shares @ lost)
        error = float(np.sqrt((shares**2) @ (lost - value) ** 2))
        return Interval(value, value - 1.96 * error, value + 1.96 * error)

    def point(self, caution: float, weights: Sequence[float]) -> PathPoint:
        """Return what a caution costs and saves."""
        known, vanished, turned = (self.r2(question, weights) for question in QUESTIONS)
        return PathPoint(caution, self.price(weights), known, vanished, turned)

    def forecast(self, weights: Sequence[float]) -> Interval:
        """Return the RMSE to expect at the next environment (95 %).

        It is drawn like those of environments that were left out of the fit. What is kept of columns whose effects
        differ may reverse there, and what is kept of those whose effects seem to differ may be worth nothing.
        """
        training, used = self.training, [i for i, weight in enumerate(weights) if weight > 0]
        tables = [self.tables[i] for i in used]
        fits, parts = self.leave_out(tables)
        predicted = np.zeros(training.n_rows)
        for i, table, models in zip(used, tables, fits, strict=True):
            for model, rows in zip(models, parts, strict=True):
                predicted[rows] += weights[i] * model.predict(table.take(rows).X)
        shares = training.weights + 1e-12
        squares = (predicted - training.y) ** 2
        logs = np.array(
            [0.5 * np.log(np.average(squares[e.rows], weights=shares[e.rows]) + 1e-300) for e in training.environments]
        )
        n = len(logs)
        spread = np.sqrt((((logs - logs.mean()) ** 2).sum() + 2 * USUAL_SPREAD**2) / (n + 1))
        half = float(special.stdtrit(n + 1, 0.975)) * spread * np.sqrt(1 + 1 / n)
        known, *changed = (0.5 * np.log(self._mean(q, weights) + 1e-300) for q in ("known", "doubted", "reversed"))
        usual = float(logs.mean())
        low, high = min(usual, known), max(usual, *changed)
        return Interval(float(np.exp(usual)), float(np.exp(low - half)), float(np.exp(high + half)))


def _mirrored_partners(training: TrainingRows) -> Rows:
    """Return for each row the row of its environment whose label is as far from the other end."""
    partners = np.arange(training.n_rows)
    ends = np.cumsum([len(environment) for environment in training.environments])
    for rows in np.split(training.content_order, ends[:-1]):
        order = rows[np.argsort(training.y[rows], kind="stable")]
        partners[order] = order[::-1]
    return partners
