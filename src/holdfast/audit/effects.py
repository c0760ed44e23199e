"""Effects of columns by environment: which of them change between environments, and by how much.

The model is a logistic regression with an intercept for each environment and a small penalty; with more than two
classes there is one for each pair of classes, on the rows of the two, so that other frequencies of the rest do not
matter. Score tests ask of each column whether its effect differs between environments; the column with the strongest
evidence gets an effect for each environment, and the others are tested again, until no test passes. All rows are used;
nothing is drawn, so neither a seed nor the order of the rows plays a part.

Three things must not be taken for a change of a column's effect:

- Labels that are noisier in one environment weaken all effects there alike: a scale of the whole score, and the form of
  label noise, are tested against each column.
- A measurement in other units, or more spread in one environment: every number column is tested twice, in its units and
  in standard deviations of each environment, and must pass both times.
- A bent relation together with other values of the column: the model has squares of the number columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import linalg, special
from scipy.stats import chi2
from scipy.stats import t as student

from holdfast.audit.columns import Block
from holdfast.rows import is_sparse

Array = NDArray[np.float64]
MOST_PAIRS = 6  # pairs of classes that are all compared
LOOSE = 4.0  # a scale for each environment is a looser story than noisier labels: it must win by this much
MOST_NAMED = 12  # columns that get an effect for each environment
MOST_EXACT = 150  # columns that are tested exactly; wider tables are screened first
SCREENED = 60  # columns of a wide table that are kept for their evidence, and as many for their weight
QUANTITY = 5  # different values from which on a column is a quantity and no code
TAILS = 0.005  # share of the smallest and of the largest values that is pulled in


@dataclass(frozen=True, eq=False)
class Effect:
    """A column whose effect on the label changes between environments.

    Effects are log-odds for one standard deviation of the column, of the second class of each pair against the first.
    """

    column: int
    statistic: float
    p_value: float  # adjusted for the number of columns
    rival: float  # the statistic of "labels are noisier there", which the column had to beat
    by_environment: Array  # (n_pairs, n_environments)
    errors: Array  # (n_pairs, n_environments) standard errors
    means: Array  # (n_pairs,) mean over environments
    spreads: Array  # (n_pairs,) standard deviation between environments, noise taken out

    @property
    def main_pair(self) -> int:
        """The pair of classes for which the change matters most."""
        return int(np.argmax(np.abs(self.means) * self.spreads))

    @property
    def size(self) -> float:
        """How much the column's part in the log-odds varies: |mean effect| × spread, summed over the classes."""
        n_pairs = len(self.means)
        n_classes = round((1 + math.sqrt(1 + 8 * n_pairs)) / 2) if n_pairs <= MOST_PAIRS else n_pairs + 1
        return float((np.abs(self.means) * self.spreads).mean() * (n_classes - 1))


@dataclass(frozen=True, eq=False)
class Search:
    """What the search found."""

    effects: tuple[Effect, ...]  # strongest evidence first
    p_values: Array  # (n_columns,) adjusted, of every column when it was last tested
    noisier: bool  # whether all effects change together, as noisier labels would make them
    n_tests: int
    pairs: tuple[tuple[int, int], ...]  # codes of the classes that are compared


@dataclass(frozen=True, eq=False)
class _Pair:
    """Rows of two classes: which of the two each is, its environment and its weight."""

    rows: NDArray[np.intp]
    target: Array  # (n_rows,) 1 for the second class
    codes: NDArray[np.intp]  # (n_rows,) environment of each row
    weights: Array  # (n_rows,)
    indicators: Array  # (n_rows, n_environments)
    ridge: float
    agreed: Array | None  # (n_rows,) log-odds that hold everywhere

    @property
    def n_environments(self) -> int:
        return int(self.indicators.shape[1])


@dataclass(eq=False)
class _Coding:
    """The columns in one coding, and what has an effect for each environment already."""

    columns: Array  # (n_rows, n_columns) tested
    common: Array  # (n_rows, …) one effect for all environments: the columns and their squares
    offsets: list[list[Array]]  # for each pair: the columns that were screened out, and what the judges agree on
    scales: list[list[Array]]  # for each pair: the whole score, and label noise
    starts: list[_Fit | None]  # for each pair: the last fit, where the next one begins

    def design(self, number: int, pair: _Pair, *, agreed: bool = True) -> Array:
        """Return what has one effect for all environments; what the judges agree on holds parts of every effect."""
        without = not agreed and pair.agreed is not None
        offsets = self.offsets[number][:-1] if without else self.offsets[number]
        return np.hstack([self.common[pair.rows], *(offset[:, None] for offset in offsets)])


def find_unstable(
    values: Block,
    y: NDArray[np.intp],
    codes: NDArray[np.intp],
    *,
    n_classes: int,
    level: float = 0.05,
    sample_weight: Array | None = None,
    agreed: Array | None = None,
) -> Search:
    """Search for the columns whose effect on the label changes between environments.

    Parameters
    ----------
    values : array or sparse matrix of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
        Class codes.
    codes : array of shape (n_rows,)
        Number of each row's environment.
    n_classes : int
    level : float
        Chance that anything is named where nothing changes.
    sample_weight : array of shape (n_rows,), optional
    agreed : array of shape (n_rows, n_classes), optional
        Log-odds that hold in every environment, as far as is known: bends and interactions that the model would miss.
    """
    n_rows, n_columns = values.shape
    weights = np.ones(n_rows) if sample_weight is None else sample_weight * (n_rows / sample_weight.sum())
    pairs = _class_pairs(y, n_classes)
    indicators = np.eye(int(codes.max()) + 1)[codes]
    parts = []
    for first, second in pairs:
        rows = np.flatnonzero((y == first) | (y == second))
        shared = None if agreed is None else _unit((agreed[:, second] - agreed[:, first])[rows])
        target = (y[rows] == second).astype(float)
        parts.append(_Pair(rows, target, codes[rows], weights[rows], indicators[rows], n_columns / 2, shared))
    tested, back, offsets = _dense_columns(values, parts)
    for offset, part in zip(offsets, parts, strict=True):
        offset += [] if part.agreed is None else [part.agreed]
    tested, varies = _standardized(tested, weights)
    back = back[varies]
    quantities = np.array([j for j in range(tested.shape[1]) if len(np.unique(tested[:, j])) >= QUANTITY], dtype=int)
    codings = []
    for columns in (tested, _standardized_within(tested, codes, quantities)):
        squares = [_squares(columns, quantities)] if n_columns <= MOST_EXACT else []
        codings.append(
            _Coding(columns, np.hstack([columns, *squares]), offsets, [[] for _ in parts], [None] * len(parts))
        )
    return _forward_search(parts, codings, back, n_columns, level, pairs)


def _class_pairs(y: NDArray[np.intp], n_classes: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of classes to compare: all while they are few, else each class with the most frequent one."""
    pairs = tuple(itertools.combinations(range(n_classes), 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs
    most = int(np.bincount(y, minlength=n_classes).argmax())
    return tuple((most, code) for code in range(n_classes) if code != most)


def random_effects(effects: Array, errors: Array) -> tuple[float, float, float]:
    """Return mean, standard deviation between environments and standard error of the mean (Paule and Mandel).

    Examples
    --------
    Effects that differ by no more than their errors do not vary:

    >>> mean, spread, _ = random_effects(np.array([1.0, 1.1]), np.array([0.2, 0.2]))
    >>> round(mean, 2), spread
    (1.05, 0.0)
    """
    variances = errors**2

    def at(between: float) -> tuple[float, float, Array]:
        shares = 1 / (variances + between)
        mean = float(shares @ effects / shares.sum())
        return float(shares @ (effects - mean) ** 2), mean, shares

    low = high = 0.0
    if at(0.0)[0] > len(effects) - 1:
        high = 10 * float(np.var(effects)) + 1e-6
        while at(high)[0] > len(effects) - 1:
            high *= 4
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle)[0] > len(effects) - 1 else (low, middle)
    _, mean, shares = at(low)
    return mean, float(np.sqrt(low)), float(np.sqrt(1 / shares.sum()))


def prediction_interval(mean: float, spread: float, n_environments: int, level: float = 0.8) -> tuple[float, float]:
    """Return where the effect at the next environment is expected, from effects that vary by `spread` around `mean`.

    Student's t with E − 2 degrees of freedom, as in meta-analysis. Two environments say next to nothing about a third:
    the interval then is that of one degree of freedom.

    Examples
    --------
    >>> low, high = prediction_interval(1.0, 0.2, 6)
    >>> round(low, 2), round(high, 2)
    (0.67, 1.33)
    """
    quantile = float(student.ppf(0.5 + level / 2, max(n_environments - 2, 1)))
    half = quantile * spread * math.sqrt(1 + 1 / n_environments)
    return mean - half, mean + half


def _forward_search(
    parts: list[_Pair],
    codings: list[_Coding],
    back: NDArray[np.intp],
    n_columns: int,
    level: float,
    pairs: tuple[tuple[int, int], ...],
) -> Search:
    """Give the column with the strongest evidence an effect for each environment, and test the others again."""
    n_tested, n_classes = codings[0].columns.shape[1], 1 + max(itertools.chain(*pairs))
    degrees = (parts[0].n_environments - 1) * (n_classes - 1)
    own: list[int] = []
    found: list[tuple[int, float, float, float]] = []
    p_values, noisier = np.ones(n_columns), False

    def tests(own: Sequence[int]) -> tuple[list[_Tests], Array]:
        both = [_test_columns(parts, codings[0], own, n_classes)]
        if _adjusted(both[0].statistics, degrees, both[0].importance, own, n_columns).min() < level:
            both.append(_test_columns(parts, codings[1], own, n_classes))  # a column must pass in both codings
        statistic = np.min([test.statistics for test in both], axis=0)
        statistic[list(own)] = 0.0
        return both, statistic

    while len(own) < min(MOST_NAMED, n_tested):
        both, statistic = tests(own)
        p = _adjusted(statistic, degrees, both[0].importance, own, n_columns)
        free = np.setdiff1d(np.arange(n_tested), own)
        p_values[back[free]] = p[free]
        strongest = int(np.argmin(p))
        if p[strongest] >= level:
            break
        least = int(np.argmin([test.statistics[strongest] for test in both]))
        rival = 0.0 if noisier else both[least].rival
        together, path = float(statistic[strongest]), [strongest]
        while rival > together and len(path) < min(n_classes - 1, n_tested - len(own)):
            more = tests([*own, *path])[1]  # a class code may be spread over K - 1 columns
            path.append(int(np.argmax(more)))
            together += float(more[path[-1]]) - 2 * degrees
        reached = max(float(statistic[strongest]), together)
        if rival > reached:
            noisier = True  # all effects change together: each environment gets a scale, and the columns their chance
            for coding, test in zip(codings, both, strict=True):
                coding.scales = test.scales
            continue
        own.append(strongest)
        found.append((strongest, reached, float(p[strongest]), rival))
    effects = _measure(parts, codings, found, own, noisier)
    named = tuple(replace(effect, column=int(back[effect.column])) for effect in effects)
    return Search(named, p_values, noisier, n_columns, pairs)


@dataclass(frozen=True, eq=False)
class _Tests:
    """Score tests of every column, and of what noisier labels would do to all of them."""

    statistics: Array  # (n_columns,) summed over targets
    rival: float
    importance: Array  # (n_columns,) squared common effect
    scales: list[list[Array]]


def _test_columns(parts: list[_Pair], coding: _Coding, own: Sequence[int], n_classes: int) -> _Tests:
    n_columns = coding.columns.shape[1]
    statistics, importance, rival, scales = np.zeros(n_columns), np.zeros(n_columns), 0.0, []
    for number, part in enumerate(parts):
        columns, common = coding.columns[part.rows], coding.design(number, part)
        fit = coding.starts[number] = _fit(part, common, own, coding.scales[number], start=coding.starts[number])
        shared = fit.common.copy()
        shared[list(own)] = 0
        score = common @ shared + sum(columns[:, j] * fit.own[i][part.codes] for i, j in enumerate(own))
        chance = special.expit(fit.log_odds)
        noise = (2 * chance - 1) / np.maximum(chance * (1 - chance), 0.02)  # what flipped labels do to the log-odds
        pair = [_unit(score), _unit(noise)]
        scales.append(pair)
        given = [columns[:, j] for j in own] + coding.scales[number]
        values = _score_tests(part, common, fit.log_odds, given, np.column_stack([columns, *pair]))
        statistics += values[:n_columns]
        rival += float(max(values[n_columns] - LOOSE, values[n_columns + 1]))
        importance += shared[:n_columns] ** 2
    share = (n_classes - 1) / len(parts)  # pairs share rows: together they are worth K - 1 comparisons
    return _Tests(statistics * share, rival * share, importance, scales)


def _adjusted(statistic: Array, degrees: int, importance: Array, own: Sequence[int], n_columns: int) -> Array:
    """Return p values adjusted for the number of columns; half of the level is shared out by what columns are worth."""
    free = np.setdiff1d(np.arange(len(statistic)), own)
    n_left = n_columns - len(own)
    weight = np.zeros(len(statistic))
    weight[free] = 0.5 + 0.5 * n_left * importance[free] / max(float(importance[free].sum()), 1e-12)
    p = np.ones(len(statistic))
    p[free] = np.minimum(1.0, chi2.sf(statistic[free], degrees) * n_left / np.maximum(weight[free], 1e-12))
    return p


def _measure(
    parts: list[_Pair],
    codings: list[_Coding],
    found: list[tuple[int, float, float, float]],
    own: list[int],
    noisier: bool,
) -> list[Effect]:
    """Return the named columns with their effects in each environment, in the coding in which they vary less."""
    if not own:
        return []
    measured: list[list[list[tuple[Array, Array, float, float]]]] = []  # coding, column, pair
    for coding in codings:
        by_column: list[list[tuple[Array, Array, float, float]]] = [[] for _ in own]
        for number, part in enumerate(parts):
            fit = _fit(part, coding.design(number, part, agreed=False), own, [], errors=True)
            scales = [np.ones(part.n_environments)]
            scales += [_relative_scales(part, coding.scales[number][0])] if noisier else []
            for i in range(len(own)):
                choices = []
                for scale in scales:
                    effects, errors = fit.own[i] / scale, fit.errors[i] / scale
                    choices.append((effects, errors, *random_effects(effects, errors)[:2]))
                by_column[i].append(min(choices, key=lambda choice: abs(choice[2]) * choice[3]))
        measured.append(by_column)
    result = []
    for i, (column, statistic, p_value, rival) in enumerate(found):
        sizes = [max(abs(mean) * spread for _, _, mean, spread in by_column[i]) for by_column in measured]
        best = measured[int(np.argmin(sizes))][i]
        effects, errors, means, spreads = (np.array([part[k] for part in best]) for k in range(4))
        result.append(Effect(column, statistic, p_value, rival, effects, errors, means, spreads))
    return result


@dataclass(frozen=True, eq=False)
class _Fit:
    """Coefficients of the columns, effects by environment with their errors, and the log-odds of every row."""

    common: Array
    intercepts: Array  # (n_environments,)
    own: Array  # (n_own, n_environments)
    errors: Array  # (n_own, n_environments); zeros where they were not asked for
    log_odds: Array


def _fit(
    part: _Pair,
    common: Array,
    own: Sequence[int],
    scales: list[Array],
    *,
    start: _Fit | None = None,
    errors: bool = False,
) -> _Fit:
    """Fit common effects, an intercept for each environment, and deviations by environment of the columns `own`.

    Deviations have a prior standard deviation of one, so that few or collinear rows say little.
    """
    n_common, n_environments = common.shape[1], part.n_environments
    varying = [*(common[:, j] for j in own), *scales]
    design = np.hstack([common, part.indicators, *(column[:, None] * part.indicators for column in varying)])
    penalty = np.ones(design.shape[1])
    penalty[:n_common] = part.ridge
    penalty[n_common : n_common + n_environments] = 1e-4
    penalty[list(own)] = 1e-2
    begin = np.zeros(design.shape[1])
    if start is not None:  # the columns that came since begin with the common effect everywhere
        begin[:n_common], begin[n_common : n_common + n_environments] = start.common, start.intercepts
    for i, j in enumerate(own if start is not None else ()):
        if start is not None and i < len(start.own):
            begin[n_common + n_environments * (i + 1) + np.arange(n_environments)] = start.own[i] - start.common[j]
    coefficients, log_odds = _ridge_logistic(design, part.target, part.weights, penalty, begin)
    effects, deviations = np.zeros((len(own), n_environments)), np.zeros((len(own), n_environments))
    covariance = linalg.inv(_curvature(design, log_odds, part.weights, penalty)) if errors else None
    for i, j in enumerate(own):
        places = n_common + n_environments * (i + 1) + np.arange(n_environments)
        effects[i] = coefficients[j] + coefficients[places]
        if covariance is not None:
            variance = covariance[j, j] + covariance[places, places] + 2 * covariance[j, places]
            deviations[i] = np.sqrt(np.maximum(variance, 1e-12))
    intercepts = coefficients[n_common : n_common + n_environments]
    return _Fit(coefficients[:n_common], intercepts, effects, deviations, log_odds)


def _ridge_logistic(
    design: Array, target: Array, weights: Array, penalty: Array, start: Array, most_steps: int = 40
) -> tuple[Array, Array]:
    """Return coefficients and log-odds of a penalized logistic regression, by damped Newton steps."""

    def value(at: Array) -> tuple[float, Array]:
        log_odds = design @ at
        loss = weights @ (np.logaddexp(0, log_odds) - target * log_odds)
        return float(loss + 0.5 * penalty @ at**2), log_odds

    at = start
    loss, log_odds = value(at)
    for _ in range(most_steps):
        gradient = design.T @ (weights * (special.expit(log_odds) - target)) + penalty * at
        step = linalg.solve(_curvature(design, log_odds, weights, penalty), gradient, assume_a="pos")
        if 0.5 * float(gradient @ step) < 1e-9 * (1 + abs(loss)):  # what a step can still gain
            break
        size = 1.0
        next_loss, next_log_odds = value(at - step)
        while next_loss > loss and size > 1e-4:
            size /= 2
            next_loss, next_log_odds = value(at - size * step)
        at, loss, log_odds = at - size * step, next_loss, next_log_odds
    return at, log_odds


def _curvature(design: Array, log_odds: Array, weights: Array, penalty: Array) -> Array:
    """Return the Hessian of the penalized loss."""
    chance = special.expit(log_odds)
    root = np.sqrt(weights * chance * (1 - chance))
    scaled = design * root[:, None]
    hessian = scaled.T @ scaled  # a product with its own transpose costs half of one of two matrices
    hessian[np.diag_indices_from(hessian)] += penalty + 1e-8
    return hessian


def _score_tests(part: _Pair, common: Array, log_odds: Array, given: list[Array], tested: Array) -> Array:
    """Return for each tested column the score statistic of its interaction with the environments."""
    chance = special.expit(log_odds)
    curvature, residuals = part.weights * chance * (1 - chance), part.weights * (part.target - chance)
    n_environments, n_tested, n_common = part.n_environments, tested.shape[1], common.shape[1]
    cross = np.zeros((n_environments, n_tested, n_common))
    own, scores = np.zeros((n_environments, n_tested)), np.zeros((n_environments, n_tested))
    total = np.zeros((n_common, n_common))
    for code in range(n_environments):
        rows = part.codes == code
        if not rows.any():  # this environment has neither of the two classes
            continue
        share = curvature[rows][:, None]
        basis = np.column_stack([np.ones(int(rows.sum())), *(column[rows] for column in given)])
        gram = (basis * share).T @ basis
        gram[np.diag_indices_from(gram)] += 1e-6 * max(float(np.trace(gram)), 1e-9)
        both = np.hstack([common[rows], tested[rows]])
        left = both - basis @ linalg.solve(gram, (basis * share).T @ both, assume_a="pos")
        left_common, left_tested = left[:, :n_common], left[:, n_common:]
        total += (left_common * share).T @ left_common
        cross[code] = (left_tested * share).T @ left_common
        own[code] = (left_tested**2 * share).sum(axis=0)
        scores[code] = left_tested.T @ residuals[rows]
    total[np.diag_indices_from(total)] += part.ridge
    factor = linalg.cho_factor(total)
    contrasts = linalg.null_space(np.ones((1, n_environments)))
    statistics = np.zeros(n_tested)
    for column in range(n_tested):
        shared = cross[:, column, :]
        variance = contrasts.T @ (np.diag(own[:, column]) - shared @ linalg.cho_solve(factor, shared.T)) @ contrasts
        score = contrasts.T @ scores[:, column]
        size = float(np.trace(variance)) / (n_environments - 1)
        if size > 1e-9:
            variance[np.diag_indices_from(variance)] += 1e-6 * size
            statistics[column] = score @ linalg.solve(variance, score, assume_a="pos")
    return statistics


def _relative_scales(part: _Pair, score: Array) -> Array:
    """Return the slope of the whole score in each environment, relative to their mean."""
    design = np.hstack([part.indicators, score[:, None] * part.indicators])
    penalty = np.repeat([1e-4, 1e-2], part.n_environments)
    coefficients, _ = _ridge_logistic(design, part.target, part.weights, penalty, np.zeros(design.shape[1]))
    slopes = np.maximum(coefficients[part.n_environments :], 1e-3)
    return np.asarray(slopes / slopes.mean())


def _dense_columns(values: Block, parts: list[_Pair]) -> tuple[Array, NDArray[np.intp], list[list[Array]]]:
    """Return the columns to test as an array, their numbers, and for each pair an offset of the others."""
    if values.shape[1] > MOST_EXACT:
        return _screened(values, parts)
    dense = values.toarray() if is_sparse(values) else np.asarray(values, dtype=np.float64)
    return dense, np.arange(values.shape[1]), [[] for _ in parts]


def _screened(values: Block, parts: list[_Pair]) -> tuple[Array, NDArray[np.intp], list[list[Array]]]:
    """Fit all columns of a wide table, and keep those with most evidence or most weight; the rest is an offset."""
    from sklearn.linear_model import LogisticRegression

    matrix = sp.csr_array(values)
    n_columns = matrix.shape[1]
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(np.asarray(matrix.multiply(matrix).mean(axis=0)).ravel() - mean**2, 0))
    scaled = sp.csr_array(matrix @ sp.diags_array(1 / np.where(deviation > 1e-9, deviation, np.inf)))
    rank, coefficients = np.zeros(n_columns), []
    for part in parts:
        rows = sp.csr_array(scaled[part.rows])
        # Intercepts of environments are hardly penalized: their columns are long.
        design = sp.hstack([rows, 3 * np.sqrt(n_columns) * part.indicators], format="csr")
        fitted = LogisticRegression(C=2 / n_columns, max_iter=300).fit(design, part.target, sample_weight=part.weights)
        chance = special.expit(fitted.decision_function(design))
        curvature, residuals = part.weights * chance * (1 - chance), part.weights * (part.target - chance)
        scores = np.zeros((part.n_environments, n_columns))
        information = np.full((part.n_environments, n_columns), 1e-3)
        for code in np.unique(part.codes):
            there = np.flatnonzero(part.codes == code)
            block, share = rows[there], curvature[there]
            center = np.asarray(block.T @ share).ravel() / share.sum()
            scores[code] = np.asarray(block.T @ residuals[there]).ravel() - center * residuals[there].sum()
            known = np.asarray(block.multiply(block).T @ share).ravel() - center**2 * share.sum()
            information[code] = np.maximum(known, 1e-3)
        pooled = scores.sum(axis=0) ** 2 / information.sum(axis=0)
        rank = np.maximum(rank, (scores**2 / information).sum(axis=0) - pooled)
        coefficients.append(fitted.coef_.ravel()[:n_columns])
    size = sum(coefficient**2 for coefficient in coefficients)
    chosen = np.union1d(np.argsort(-rank, kind="stable")[:SCREENED], np.argsort(-size, kind="stable")[:SCREENED])
    rest = np.setdiff1d(np.arange(n_columns), chosen)
    offsets = [
        [_unit(np.asarray(scaled[part.rows][:, rest] @ coefficient[rest]).ravel())]
        for part, coefficient in zip(parts, coefficients, strict=True)
    ]
    return matrix[:, chosen].toarray(), chosen, offsets


def _standardized(columns: Array, weights: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return columns with their tails pulled in, of mean 0 and variance 1, and the numbers of those that vary."""
    low, high = np.quantile(columns, [TAILS, 1 - TAILS], axis=0)
    flat = low >= high
    low[flat], high[flat] = columns.min(axis=0)[flat], columns.max(axis=0)[flat]
    columns = np.clip(columns, low, high)
    share = weights / weights.sum()
    centered = columns - share @ columns
    deviation = np.sqrt(share @ centered**2)
    varies = deviation > 1e-9 * np.maximum(np.abs(columns).max(axis=0), 1e-300)
    return centered[:, varies] / deviation[varies], np.flatnonzero(varies)


def _standardized_within(columns: Array, codes: NDArray[np.intp], quantities: NDArray[np.intp]) -> Array:
    """Return the columns with quantities in standard deviations of each environment, where they vary in it at all."""
    result = columns.copy()
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        part = columns[np.ix_(rows, quantities)]
        deviation = part.std(axis=0)
        result[np.ix_(rows, quantities)] = (part - part.mean(axis=0)) / np.where(deviation > 0.1, deviation, 1.0)
    return result


def _squares(columns: Array, quantities: NDArray[np.intp]) -> Array:
    """Return the standardized square of every quantity."""
    squares = np.clip(columns[:, quantities], -3, 3) ** 2
    deviation = squares.std(axis=0)
    varies = deviation > 1e-9
    return np.asarray((squares - squares.mean(axis=0))[:, varies] / deviation[varies])


def _unit(values: Array) -> Array:
    """Return values of mean 0 and variance 1."""
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))
