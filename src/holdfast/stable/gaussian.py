r"""The decision for regression: the same three hypotheses, with a normal likelihood.

Let x be a feature, y the label and e the site.

- **Mechanism (N)**: the other features predict x among rows of one label and site.
- **Label alone, stable (C)**: x depends on the label and on nothing else, with the same effect b at every site.
- **Label alone, changing (S)**: the same, with effects b_e ~ N(b, (rho b)^2).

An effect is a slope, and slopes also differ for other reasons. Noise and ranges that differ between sites change the
slope of x on y or that of y on x, but not both. So a change has to show in both directions; that of y on x is beside o,
what the other features say of y out of fold. It has to show in units and in ranks within the site. In each of these
four comparisons an effect that depends on the row (a bend, a product with another feature) competes with the change.
Each site has its own noise, as large as the robust variance of its slope says. "The label alone" against N is the
Bayes factor of `holdfast.stable.hypotheses`, whose priors are used throughout.

The loss is that of a normal likelihood: the slope expected at the next site is the share max(0, 1 - 2 caution P).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from holdfast.fitting.folds import deal_evenly
from holdfast.rows.keys import row_keys
from holdfast.stable import hypotheses
from holdfast.stable.columns import Columns
from holdfast.stable.decision import CAUTION, EVERYTHING, LEAST_GAIN, NOTHING
from holdfast.stable.design import (
    MOST_FEATURES,
    N_FOLDS,
    QUANTITY,
    TAILS,
    BySite,
    cell_means,
    dense,
    features_of,
    pool_sites,
    standardize,
    unit_variance,
)
from holdfast.stable.hypotheses import BENT, CHANGING, SPREADS, Posterior

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# Numerics: none of these is part of the model.
KNOTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)  # quantiles at which a bend may turn
MOST_CROSSED = 12  # features whose products are among what the others say of the label
MOST_PRODUCTS = 3  # products that compete with a change


@dataclass(frozen=True, eq=False)
class NumberDesign(BySite):
    """Rows as the hypotheses see them; every array has a row for each row of the table."""

    features: tuple[tuple[int, ...], ...]  # the encoded columns of each feature
    values: Array  # (n_rows, n_features) standardized; a category is what it says of the label, out of fold
    parts: Array  # (n_rows, n_features) what each feature says of the label, out of fold
    others: Array  # (n_rows, n_features) what the other features say of it, out of fold
    label: Array  # (n_rows,) standardized
    unit: float  # of the label: effects on the standardized one times this are in its own units
    sites: Codes  # (n_rows,) small sites are pooled
    weights: Array  # (n_rows,) how many rows each row stands for


def make_number_design(
    columns: Columns, y: Array, sites: Codes, *, weights: Array | None = None, subjects: Codes | None = None
) -> NumberDesign:
    """Read a table; parameters as for `holdfast.stable.design.make_design`, with numbers as labels."""
    order = np.lexsort((row_keys(columns.values), y, sites))  # whatever order the rows came in
    counts = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    sites = pool_sites(np.zeros(len(y), dtype=np.intp), sites)
    folds = deal_evenly(order, sites, N_FOLDS)
    if subjects is not None:
        counts = counts / np.bincount(subjects)[subjects]
        firsts = np.unique(subjects[order], return_index=True)[1]
        folds = folds[order][firsts][subjects]
    features = features_of(columns)
    label = standardize(y[:, None])[:, 0]
    centered = _within(label[:, None], sites, counts)[:, 0]
    if len(features) > MOST_FEATURES:
        says = np.abs(_within(standardize(dense(columns.values)), sites, counts).T @ (counts * centered))
        best = np.argsort([-says[list(feature)].max() for feature in features], kind="stable")[:MOST_FEATURES]
        features = tuple(features[place] for place in sorted(best.tolist()))
    owners = np.repeat(np.arange(len(features)), [len(feature) for feature in features])
    raw = dense(columns.values[:, [c for feature in features for c in feature]])
    scaled = standardize(raw)
    bends, of_bends = [scaled], [owners]
    for place, column in enumerate(scaled.T):
        if len(np.unique(column[:2000])) >= QUANTITY:
            bends.append(_hinges(column))
            of_bends.append(np.full(bends[-1].shape[1], owners[place]))
    matrix, of = _within(np.hstack(bends), sites, counts), np.concatenate(of_bends)
    parts = _parts(matrix, of, centered, counts, folds)
    values = np.column_stack(
        [
            unit_variance(parts[:, place]) if len(feature) > 1 else scaled[:, owners == place][:, 0]
            for place, feature in enumerate(features)
        ]
    )
    crossed = np.sort(np.argsort(-parts.var(axis=0), kind="stable")[:MOST_CROSSED])
    first, second = np.array(list(combinations(crossed.tolist(), 2)), dtype=np.intp).reshape(-1, 2).T
    products = _within(unit_variance(values[:, first] * values[:, second]), sites, counts)
    made_of = np.concatenate([of, first]), np.concatenate([of, second])
    others = _others_say(np.hstack([matrix, products]), made_of, len(features), centered, counts, folds)
    return NumberDesign(features, values, parts, others, label, _spread(y), sites, counts)


def posteriors_of_numbers(design: NumberDesign) -> tuple[Posterior, ...]:
    """Return what the model says of each feature."""
    within = _within_labels(design)
    others = hypotheses._others(within)
    mechanism = hypotheses.POWER * np.array(
        [hypotheses._log_dependence(within, j, some) for j, some in enumerate(others)]
    )
    plain = [_slopes(design.values[:, j], design.label, None, design) for j in range(len(others))]
    signals = np.array([_signal(found) for found in plain])
    worth = special.expit(-mechanism) * signals**2 / (1 + signals**2)
    changing = CHANGING if design.n_sites > 1 else 0.0  # small sites that are pooled into one cannot be compared
    priors = changing * worth / max(worth.sum(), 1e-12)
    return tuple(
        _posterior(design, j, others[j], float(signals[j]), float(mechanism[j]), float(priors[j]))
        for j in range(len(others))
    )


def kept_slope(found: Posterior, caution: float = CAUTION) -> float:
    """Return how much of a feature's effect to keep, between 0 and 1.

    Examples
    --------
    >>> sure, unsure = Posterior(0.99, effect=1.5), Posterior(0.02, effect=1.5)
    >>> kept_slope(sure), kept_slope(sure, caution=0.0), kept_slope(unsure)
    (0.0, 1.0, 1.0)
    """
    share = max(0.0, 1 - 2 * caution * found.probability)
    gain = 0.5 * ((1 - share) * found.effect) ** 2  # log loss saved, in nats for each row
    share = 1 - (1 - share) * gain**3 / (gain**3 + LEAST_GAIN**3)
    return 0.0 if share < NOTHING else 1.0 if share > EVERYTHING else share


def _posterior(
    design: NumberDesign, j: int, others: NDArray[np.bool_], signal: float, mechanism: float, prior: float
) -> Posterior:
    """Return the probability that a feature's relation changes, by the comparison that shows least of a change."""
    x, y, o = design.values[:, j], design.label, design.others[:, j]
    products = x[:, None] * design.values[:, others]
    ranks = [_normal_scores(column, design) for column in (x, y, o)]
    marginal = _slopes(y, x, None, design)
    found = [
        _compare(y, x, o, products, design),
        _compare(ranks[1], ranks[0], ranks[2], None, design),
        _compare(x, y, None, None, design),
        _compare(ranks[0], ranks[1], None, None, design),
    ]
    weakest = min(found, key=lambda one: one.evidence)
    probability = hypotheses._probability(weakest.evidence, mechanism, prior)
    return Posterior(
        probability,
        signal,
        marginal.slopes * design.unit,
        np.sqrt(marginal.variances) * design.unit,
        mechanism,
        min(one.change for one in found[:2]),
        min(one.change for one in found[2:]),
        min(one.evidence for one in found),
    )


@dataclass(frozen=True)
class _Comparison:
    """Log Bayes factors against "one slope at all sites, for all rows"."""

    change: float  # slopes differ between sites
    bend: float = -np.inf  # the slope depends on the row
    both: float = -np.inf

    @property
    def evidence(self) -> float:
        """Log Bayes factor of a change against none, whether the slope depends on the row or not."""
        prior = np.array([np.log1p(-BENT), np.log(BENT)])
        with_change, without = prior + [self.change, self.both], prior + [0.0, self.bend]
        return float(np.logaddexp(*with_change) - np.logaddexp(*without))


@dataclass(frozen=True, eq=False)
class _Slopes:
    """The slopes of a number on a column at each site, and rows on their scale of noise."""

    slopes: Array  # (n_sites,)
    variances: Array  # (n_sites,) robust
    spreads: Array  # (n_sites,) of what is left of the target
    column_spreads: Array  # (n_sites,)
    noise: Array  # (n_rows,) standard deviation of each row's noise


def _slopes(target: Array, x: Array, o: Array | None, design: NumberDesign) -> _Slopes:
    """Return the slope of a target on x at each site, beside o, with robust variances."""
    n = design.n_sites
    slopes, variances, spreads, x_spreads = np.zeros(n), np.ones(n), np.ones(n), np.ones(n)
    noise = np.ones(len(x))
    t, z = _beside(target[:, None], o, design)[:, 0], _beside(x[:, None], o, design)[:, 0]
    for site, rows in enumerate(design.rows_of_sites):
        w, own, column = design.weights[rows], t[rows], z[rows]
        square, size = float(w @ column**2), float(w.sum())
        if square <= 1e-9 * size:  # a constant column says nothing
            slopes[site], variances[site] = 0.0, 1e6
            continue
        slopes[site] = float(w @ (column * own)) / square
        rest = own - slopes[site] * column
        variance = float(w @ rest**2) / max(size - 3.0, 1.0) + 1e-9
        robust = float((w**2) @ (column * rest) ** 2) / square**2 * size / max(size - 3.0, 1.0)
        variances[site] = max(robust, variance / square)
        noise[rows] = np.sqrt(variances[site] * square)
        spreads[site], x_spreads[site] = np.sqrt(variance), np.sqrt(square / size)
    return _Slopes(slopes, variances, spreads, x_spreads, noise)


def _signal(found: _Slopes) -> float:
    """Return the typical size of an effect of y on x: standard deviations of x for one of y; its sign is the mean's."""
    scale = found.column_spreads / found.spreads
    effects, variances = found.slopes * scale, found.variances * scale**2
    usable = variances < 100
    if not usable.any():
        return 0.0
    effects, variances = effects[usable], variances[usable]
    mean = float(np.average(effects, weights=1 / variances))
    square = float(np.mean(effects**2 - variances))
    return float(np.copysign(np.sqrt(max(square, mean**2)), mean))


def _compare(target: Array, x: Array, o: Array | None, products: Array | None, design: NumberDesign) -> _Comparison:
    """Compare: one slope of the target on x, slopes that differ between sites, and slopes that depend on the row."""
    found = _slopes(target, x, o, design)
    change, typical = _log_change(found)
    if change <= 0:
        return _Comparison(change)
    extra = [_hinges(x)] if len(np.unique(x[:2000])) >= QUANTITY else []
    n_bends = extra[0].shape[1] if extra else 0
    if products is not None and products.shape[1]:
        extra.append(products / np.maximum(products.std(axis=0), 1e-9))
    if not extra:
        return _Comparison(change)
    scale = (np.sqrt(design.weights) / found.noise)[:, None]
    beside = _beside(np.hstack([target[:, None], x[:, None], *extra]), o, design) * scale
    column = beside[:, 1]
    left = np.delete(beside, 1, axis=1)
    left = left - np.outer(column, column @ left / (float(column @ column) + 1e-12))
    said, scatter = left[:, 1:].T @ left[:, 0], left[:, 1:].T @ left[:, 1:]

    def explained(chosen: list[int]) -> tuple[float, Array]:
        """Return the log evidence for coefficients about as large as the effect itself, and the coefficients."""
        matrix = scatter[np.ix_(chosen, chosen)] + np.eye(len(chosen)) / typical**2
        factor = linalg.cho_factor(matrix, lower=True)
        coefficients = linalg.cho_solve(factor, said[chosen])
        size = float(np.log(np.diag(factor[0])).sum()) + len(chosen) * np.log(typical)
        return float(0.5 * said[chosen] @ coefficients) - size, coefficients

    bends, n_products = list(range(n_bends)), left.shape[1] - 1 - n_bends
    tried = [(bends, 0.0)] if bends else []
    if n_products:
        strength = np.abs(said[n_bends:]) / np.sqrt(np.diag(scatter)[n_bends:] + 1e-12)
        best = np.argsort(-strength, kind="stable")[:MOST_PRODUCTS] + n_bends
        tried += [([*bends, int(k)], float(np.log(n_products))) for k in best]
    fits = [explained(chosen) for chosen, _ in tried]
    values = np.array([value - price for (value, _), (_, price) in zip(fits, tried, strict=True)])
    bend = float(hypotheses._log_sum(values) - np.log(2.0))
    chosen, coefficients = tried[int(values.argmax())][0], fits[int(values.argmax())][1]
    straight = target - np.hstack(extra)[:, chosen] @ coefficients
    return _Comparison(change, bend, bend + _log_change(_slopes(straight, x, o, design))[0])


def _log_change(found: _Slopes) -> tuple[float, float]:
    """Return the log Bayes factor of slopes that differ between sites against one slope, and a typical slope."""
    slopes, variances = found.slopes, found.variances
    weights = 1 / variances
    mean = float(np.average(slopes, weights=weights))
    square = float(np.average(slopes**2 - variances, weights=np.minimum(weights, np.median(weights))))
    typical = float(np.sqrt(max(square, mean**2, 1e-6)))
    changing = np.array([_log_normal(slopes, variances + (rho * typical) ** 2) for rho in SPREADS])
    return float(hypotheses._log_sum(changing)) - float(np.log(len(changing))) - _log_normal(slopes, variances), typical


def _log_normal(slopes: Array, variances: Array) -> float:
    """Return the log-likelihood of slopes about one mean, which is integrated out."""
    weights = 1 / variances
    mean = float(np.average(slopes, weights=weights))
    rest = float(weights @ (slopes - mean) ** 2)
    return 0.5 * float(np.log(weights).sum() - np.log(weights.sum()) - rest)


def _beside(values: Array, o: Array | None, design: NumberDesign) -> Array:
    """Return columns without their means at each site, and without what goes along with o there."""
    values = _within(values, design.sites, design.weights)
    if o is None:
        return values
    control = _within(o[:, None], design.sites, design.weights)[:, 0]
    for rows in design.rows_of_sites:
        weighted = design.weights[rows] * control[rows]
        square = float(weighted @ control[rows])
        if square > 1e-12:
            values[rows] -= np.outer(control[rows], weighted @ values[rows] / square)
    return values


def _within_labels(design: NumberDesign) -> hypotheses._Within:
    """Return the sums of products within label and site: without what any bent function of the label says there."""
    both = np.hstack([design.values, design.parts])
    basis = np.column_stack([np.ones(len(both)), design.label, _hinges(design.label)])
    products = []
    for rows in design.rows_of_sites:
        root = np.sqrt(design.weights[rows])[:, None]
        own, known = both[rows] * root, basis[rows] * root
        left = own - known @ linalg.lstsq(known, own, lapack_driver="gelsy")[0]
        products.append(left.T @ left)
    k = len(design.features)
    stacked = np.stack(products)
    about = _within(design.label[:, None], design.sites, design.weights)[:, 0]
    signs = np.sign((design.weights * about) @ design.values)
    n = float(design.weights.sum()) - design.n_sites * (basis.shape[1] + 1)
    return hypotheses._Within(stacked[:, :k, :k], stacked[:, k:, k:], stacked[:, k:, :k], signs, n)


def _within(values: Array, sites: Codes, weights: Array) -> Array:
    """Return columns without their means at each site."""
    return values - cell_means(values, sites, weights)


def _parts(matrix: Array, owners: Codes, y: Array, counts: Array, folds: Codes) -> Array:
    """Return what each feature says of y, out of fold, (n_rows, n_features)."""
    membership = np.eye(int(owners.max()) + 1)[owners]
    parts = np.empty((len(y), membership.shape[1]))
    everything = np.ones(matrix.shape[1], dtype=bool)
    for rows, found in _ridge(_sums(matrix, y, counts, folds), folds, everything):
        parts[rows] = (matrix[rows] * found) @ membership
    return parts


def _others_say(
    matrix: Array, made_of: tuple[Codes, Codes], n_features: int, y: Array, counts: Array, folds: Codes
) -> Array:
    """Return for each feature what columns that are not made of it say of y, out of fold, (n_rows, n_features)."""
    found, sums = np.zeros((len(y), n_features)), _sums(matrix, y, counts, folds)
    for place in range(n_features):
        chosen = (made_of[0] != place) & (made_of[1] != place)
        if chosen.any():
            for rows, weights in _ridge(sums, folds, chosen):
                found[rows, place] = matrix[np.ix_(rows, chosen)] @ weights
    return found


def _sums(matrix: Array, y: Array, counts: Array, folds: Codes) -> tuple[Array, Array]:
    """Return the sums of products of the columns with one another and with y, for each fold."""
    parts = [folds == fold for fold in range(int(folds.max()) + 1)]
    weighted = [(matrix[rows] * counts[rows, None]).T for rows in parts]
    return (
        np.stack([columns @ matrix[rows] for columns, rows in zip(weighted, parts, strict=True)]),
        np.stack([columns @ y[rows] for columns, rows in zip(weighted, parts, strict=True)]),
    )


def _ridge(sums: tuple[Array, Array], folds: Codes, chosen: NDArray[np.bool_]) -> Iterator[tuple[Codes, Array]]:
    """Yield the rows of each fold and the coefficients of a ridge regression on all other rows."""
    scatter, said = (parts.sum(axis=0) - parts for parts in sums)
    for fold in range(len(scatter)):
        left = scatter[fold][np.ix_(chosen, chosen)]
        left[np.diag_indices_from(left)] += 1.0 + np.sqrt(len(left))
        yield np.flatnonzero(folds == fold), linalg.solve(left, said[fold][chosen], assume_a="pos")


def _hinges(column: Array) -> Array:
    """Return how far values lie above each of a few knots, with variance 1."""
    knots = np.unique(np.quantile(column, KNOTS))
    return np.column_stack([unit_variance(np.maximum(column - knot, 0.0)) for knot in knots])


def _spread(values: Array) -> float:
    """Return the standard deviation of values whose tails are drawn in."""
    return float(np.clip(values, *np.quantile(values, [TAILS, 1 - TAILS])).std())


def _normal_scores(column: Array, design: NumberDesign) -> Array:
    """Return the normal scores of ranks within the site; values that are equal share one."""
    scores = np.empty(len(column))
    for rows in design.rows_of_sites:
        places = np.unique(column[rows], return_inverse=True)[1]
        counts = np.bincount(places, design.weights[rows])
        ranks = (np.cumsum(counts) - counts / 2) / max(float(counts.sum()), 1e-9)
        scores[rows] = special.ndtri(np.clip(ranks, 1e-6, 1 - 1e-6))[places]
    return scores
