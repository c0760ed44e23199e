r"""The model of the decision: three hypotheses about each feature, and the probability that its effect changes.

Let x be a feature, y the label, e the site, and o the log-odds of y given the other features (out of fold).

- **Mechanism (N)**: x is one part of what makes the label. Then the other features predict x among rows of one label
  and site, and how strongly x goes with y may vary with them.
- **Label alone, stable (C)**: x depends on the label and on nothing else, with the same effect b at every site. Rivals
  that look like a change and are none belong here: labels flipped in a share v_e of the rows of a site, and an effect
  that depends on the row instead of the site: x is distributed differently (covariate shift), and the label given x
  is the same line or curve at all sites, perhaps with products of x and other features.
- **Label alone, changing (S)**: the same, with effects b_e ~ N(b, (rho b)^2).

For C and S the likelihood of a site is

    p(y, x | o, e) = sum over y* of P(y* | a_e + s_e o) P(y | y*; v_e) p(x | y*, e; b_e),

with x Bernoulli (codes) or normal (scores of ranks within the site) given the true label y*. a_e and s_e are maximized,
v_e, b_e and b are integrated out. "The label alone" against N is a Bayes factor of the R² of x on the other features
within label and site (g-priors). The probability of S follows from Bayes' rule, with all likelihoods to the power 0.7.

A feature depends on the label alone, or not, whatever its effect: that is what tells a spurious code from a natural
measurement, and it is the assumption of Predict then Interpolate about unstable features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import CubicSpline

from holdfast.fitting.newton import LogisticFit, fit_logistic
from holdfast.stable.density import log_any, log_given_label
from holdfast.stable.design import Codes, Design, binormal_scores, cell_means

Array = NDArray[np.float64]

# The priors of the model.
LABEL_ALONE = 0.5  # a feature depends on the label and the site alone; else it is part of a mechanism
CHANGING = 0.1  # expected number of features whose relation changes, shared by what features are worth
VARIES = 0.01  # the effect of a mechanism's feature varies as much as one that changes
SPREADS = np.array([0.2, 0.4, 0.8])  # rho: standard deviation between sites of an effect that changes, over the effect
FLIPPED = 0.5  # labels are flipped at a site
FLIPPED_SHARE = 0.1  # scale of the share of flipped labels at a site (half normal)
BENT = 0.1  # where an effect depends on the row instead of the site, it has a bend, or products with other features
COLLIDER = 0.2  # a mechanism's features go together through the label alone
R_SQUARED = np.array([0.03, 0.1, 0.3, 0.6])  # of a mechanism's feature on the others, within label and site
TWIN = 0.5  # correlation within label and site from which on the closest feature is a copy and not one of the others
POWER = 0.7  # of every likelihood: features are only about normal, so the evidence counts less

# Numerics.
FLIP_KNOTS = np.array([0.0, 0.015, 0.04, 0.08, 0.14, 0.22, 0.34])  # shares of flipped labels that are computed
FLIP_SHARES = np.linspace(0.0, 0.34, 60)
LOG_FLIPPED = special.log_softmax(-0.5 * (FLIP_SHARES / FLIPPED_SHARE) ** 2)  # their prior
EM_STEPS = 25
MOST_EFFECTS = 200  # effects b that are integrated over
WEAK = 0.25  # precision of intercepts and slopes: their prior says as much as about one row
TINY = 1e-300  # keeps logarithms finite
LEFT = 1e-8  # share of a column's variance below which nothing is left of it but rounding
COPY = 0.99  # correlation within label and site from which on features are the same
NEGLIGIBLE = 0.01  # probability of a change without rivals up to which nothing would be given up: they are not computed
O_BINS, X_BINS = 32, 16  # cells into which the rows of a large site are put
BEND_KNOTS = (0.2, 0.4, 0.6, 0.8)  # quantiles at which a bend may turn
MOST_PRODUCTS = 3  # products that are added one after another


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the model says of one feature.

    The three log Bayes factors are those of a change against the best single rival of its kind.
    """

    probability: float  # that the feature depends on the label alone and its relation changes
    effect: float = 0.0  # typical size at a site: log-odds of a code, standard deviations between labels of a number
    by_site: Array = field(default_factory=lambda: np.zeros(0))  # (n_sites,) effects
    errors: Array = field(default_factory=lambda: np.zeros(0))  # (n_sites,) their standard errors
    mechanism: float = np.inf  # log Bayes factor of "part of a mechanism" against "depends on the label alone"
    change: float = -np.inf  # of "changes" against "the same effect everywhere"
    noise: float = np.inf  # of "changes" against "labels are flipped"
    bend: float = np.inf  # of "changes" against "the effect depends on the row, and not on the site"


def posteriors(design: Design) -> tuple[Posterior, ...]:
    """Return what the model says of each feature."""
    within = _within_cells(design)
    others = _others(within)
    mechanism = POWER * np.array([_log_dependence(within, j, some) for j, some in enumerate(others)])
    plain = [_plain_sites(design, j) for j in range(len(others))]
    effects = np.array([_typical_effect(sites) for sites in plain])
    worth = special.expit(-mechanism) * np.tanh(effects / 2) ** 2
    changing = CHANGING if design.n_sites > 1 else 0.0  # small sites that are pooled into one cannot be compared
    priors = changing * worth / max(worth.sum(), 1e-12)
    return tuple(
        _posterior(design, j, others[j], plain[j], float(effects[j]), float(mechanism[j]), float(priors[j]))
        for j in range(len(others))
    )


def _typical_effect(sites: Array) -> float:
    """Return the root mean square of the sites' effects, without their sampling error, with the sign of their mean.

    The mean alone would say of an effect that turned at some site that there is little of it.
    """
    effects, variances = sites[:, 1], sites[:, 2]
    mean = float(np.average(effects, weights=1 / variances))
    square = float(np.mean(effects**2 - variances))
    return float(np.copysign(np.sqrt(max(square, mean**2)), mean))


def _posterior(
    design: Design, j: int, others: NDArray[np.bool_], plain: Array, effect: float, mechanism: float, prior: float
) -> Posterior:
    """Return the probability that a feature's relation changes, with all rivals."""
    is_code = bool(design.is_code[j])
    grid = _effect_grid(plain[:, None, :])
    same, varies = _marginals([_log_likelihood(site, grid[0], is_code) for site in plain], grid)
    change, noise, bend = varies - same, np.inf, np.inf
    probability = _probability(change, mechanism, prior)
    if probability > NEGLIGIBLE:  # the rivals can only lower it
        sites = _flipped_sites(design, j, others)
        grid = _effect_grid(sites)
        shares = np.log(FLIPPED) + LOG_FLIPPED
        shares[0] = np.logaddexp(shares[0], np.log1p(-FLIPPED))
        found = [_log_sum(_log_likelihood(site, grid[0], is_code) + shares[:, None]) for site in sites]
        alike, log_change = _marginals(found, grid)
        noise, bend = log_change - alike, _row_evidence(design, j, others)
        stable = float(np.logaddexp(alike, log_change - bend) - np.log(2.0))
        probability = _probability(log_change - stable, mechanism, prior)
    return Posterior(probability, effect, plain[:, 1], np.sqrt(plain[:, 2]), mechanism, change, noise, bend)


def _probability(change: float, mechanism: float, prior: float) -> float:
    """Return P(S) by Bayes' rule, from the log Bayes factors of "changes" and of "mechanism", the latter tempered."""
    change *= POWER
    hypotheses = [
        np.log(LABEL_ALONE) + np.log(max(prior, TINY)) + change,
        np.log(LABEL_ALONE) + np.log1p(-prior),
        np.log1p(-LABEL_ALONE) + min(mechanism, 1e6) + np.logaddexp(np.log1p(-VARIES), np.log(VARIES) + change),
    ]
    return float(np.exp(hypotheses[0] - _log_sum(np.array(hypotheses))))


@dataclass(frozen=True, eq=False)
class _Within:
    """Sums of products within label and site: of the features, and of what they say of the label."""

    features: Array  # (n_sites, n_features, n_features)
    said: Array  # (n_sites, n_features, n_features)
    across: Array  # (n_sites, n_features said, n_features)
    signs: Array  # (n_features,) direction in which each feature goes with the label
    n: float  # rows, less the cells and sites whose means and slopes are taken out


def _within_cells(design: Design) -> _Within:
    """Return the sums of products about the means of each label and site."""
    weights, n_features = design.weights, len(design.features)
    both = design.values - cell_means(design.values, design.cells, weights)
    both = np.hstack([both, design.said - cell_means(design.said, design.cells, weights)])
    products = np.stack([(both[rows] * weights[rows, None]).T @ both[rows] for rows in design.rows_of_sites])
    label = design.label[:, None].astype(float)
    about = label - cell_means(label, design.sites, weights)
    signs = np.sign((weights * about[:, 0]) @ design.values)
    n = float(weights.sum()) - int(design.cells.max()) - 1 - design.n_sites
    k = n_features
    return _Within(products[:, :k, :k], products[:, k:, k:], products[:, k:, :k], signs, n)


def _others(within: _Within) -> NDArray[np.bool_]:
    """Return for each feature which features count as others, (n_features, n_features): not its twin, nor copies."""
    products = within.features.sum(axis=0)
    lengths = np.sqrt(np.maximum(np.diag(products), 1e-12))
    together = np.abs(products) / lengths / lengths[:, None]
    others = ~np.eye(len(together), dtype=bool)
    together[~others] = 0.0
    others &= together < COPY
    for j, twin in enumerate(together.argmax(axis=1)):
        others[j, twin] &= together[j, twin] < TWIN
    return others


def _log_dependence(within: _Within, j: int, others: NDArray[np.bool_]) -> float:
    """Return the log Bayes factor of "others predict the feature, within label and site" against "they do not".

    Flipped labels would make the feature go with what the others say of the label. So that direction is taken out at
    each site, but for its sign: causes of one label go against one another within it.
    """
    chosen = np.concatenate([[j], np.flatnonzero(others)])
    said = others.astype(float)
    squares = np.maximum(within.said @ said @ said, 1e-9)  # (n_sites,)
    along = np.einsum("k,ekf->ef", said, within.across)[:, chosen]
    total = within.features[:, chosen][:, :, chosen].sum(axis=0)
    products = total - (along.T / squares) @ along
    is_left = np.diag(products) > LEFT * np.diag(total)
    if not is_left[0]:
        return np.inf
    lengths = np.sqrt(np.where(is_left, np.diag(products), 1.0))
    products = (products / np.outer(lengths, lengths))[is_left][:, is_left]
    c, n = products[1:, 0], within.n
    q = min(len(c), int(n) - 2)
    correlation = float(within.signs[j] * along[:, 0].sum() / np.sqrt(total[0, 0] * squares.sum() + 1e-12))
    if q > 0:
        explained = c @ np.linalg.solve(products[1:, 1:] + 1e-6 * np.eye(len(c)), c)
        evidence = _log_r_squared(n, q, float(np.clip(explained, 0.0, 1 - 1e-9)))
    else:  # with one other column, its direction is the only one; with none, nothing predicts the feature
        evidence = _log_r_squared(n, 1, correlation**2)
    against = max(-correlation, 0.0)
    return float(np.logaddexp(np.log1p(-COLLIDER) + evidence, np.log(COLLIDER) + _log_r_squared(n, 1, against**2)))


def _log_r_squared(n: float, q: int, r_squared: float) -> float:
    """Return the log Bayes factor of a regression on q columns against none, averaged over priors of its R²."""
    g = n / q * R_SQUARED / (1 - R_SQUARED)
    factors = 0.5 * (n - 1 - q) * np.log1p(g) - 0.5 * (n - 1) * np.log1p(g * (1 - r_squared))
    return float(_log_sum(factors) - np.log(len(factors)))


def _said_by(design: Design, others: NDArray[np.bool_]) -> Array:
    """Return o: what the other features say of the label, out of fold, (n_rows,)."""
    return np.asarray(design.parts @ others.astype(float))


def _cells_of(
    x: Array, label: Codes, o: Array, weights: Array, is_code: bool
) -> tuple[Array, Array, Codes, Array, Array]:
    """Return x, x², label, o and weights of a site's rows; those of a large site are put into cells."""
    if len(x) <= O_BINS * X_BINS * 2:
        return x, x**2, label, o, weights
    x_bin = x.astype(np.intp) if is_code else _quantile_bins(x, X_BINS)
    _, cells = np.unique((_quantile_bins(o, O_BINS) * X_BINS + x_bin) * 2 + label, return_inverse=True)
    total = np.maximum(np.bincount(cells, weights), 1e-12)
    means = [np.bincount(cells, weights * values) / total for values in (x, x**2, o, label)]
    return means[0], means[1], means[3].round().astype(np.intp), means[2], total


def _quantile_bins(values: Array, n_bins: int) -> Codes:
    """Return for each value which of about equally filled bins it lies in."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1]))
    return np.asarray(np.searchsorted(edges, values, side="right"), dtype=np.intp)


def _plain_sites(design: Design, j: int) -> Array:
    """Return what each site says of the effect without flipped labels, (n_sites, n_statistics), as `_effect` does.

    The likelihood is the same whatever the effects are, and left at 0.
    """
    found = []
    for rows in design.rows_of_sites:
        x, post = design.own[rows, j], design.label[rows].astype(float)[None, :]
        found.append(_effect(x, x**2, post, design.weights[rows], is_code=bool(design.is_code[j]))[0])
    return np.array(found)


def _effect(x: Array, squares: Array, post: Array, weights: Array, *, is_code: bool) -> Array:
    """Return 0, effect and variance for probabilities `post` of label 1, (n_shares, n_rows); (n_shares, 3 or 7).

    For a code also the shares of ones by true label, and how many rows these are worth.
    """
    ones, zeros = post * weights, (1 - post) * weights
    unsure = post * (1 - post) * weights  # what the true labels hide
    n1, n0 = ones.sum(axis=1) + 1e-9, zeros.sum(axis=1) + 1e-9
    m1, m0 = ones @ x / n1, zeros @ x / n0
    if is_code:
        q1, q0 = (n1 * m1 + 0.5) / (n1 + 1), (n0 * m0 + 0.5) / (n0 + 1)
        scale1, scale0 = q1 * (1 - q1), q0 * (1 - q0)
        effect = 0.5 * (special.logit(q1) - special.logit(q0))
        extra: Any = 0.0
        gradient = 0.5
    else:
        q1, q0 = m1, m0
        variance = np.maximum((weights @ squares - n1 * m1**2 - n0 * m0**2) / (n1 + n0), 0.0) + 0.02
        scale1 = scale0 = variance
        effect = (m1 - m0) / np.sqrt(variance)
        extra, gradient = effect**2 / 2 / (n1 + n0), np.sqrt(variance)
    # Information about both means (Louis, 1982): that of known labels less what is hidden.
    sums = [unsure @ power for power in (squares, x)] + [unsure.sum(axis=1)]
    hidden11, hidden00, hidden10 = (
        sums[0] - (a + b) * sums[1] + a * b * sums[2] for a, b in ((q1, q1), (q0, q0), (q1, q0))
    )
    known1, known0 = n1 * scale1, n0 * scale0
    i11, i00 = np.maximum(known1 - hidden11, 0.01 * known1), np.maximum(known0 - hidden00, 0.01 * known0)
    determinant = np.maximum(i11 * i00 - hidden10**2, 0.01 * i11 * i00)
    error = (i11 + i00 + 2 * hidden10) / determinant * gradient**2
    columns = [np.zeros_like(effect), effect, np.maximum(error + extra, 1e-9)]
    if is_code:
        worth = np.minimum(0.25 * (1 / known1 + 1 / known0) / error, 1.0)
        columns += [m1, m0, n1 * worth, n0 * worth]
    return np.stack(columns, axis=1)


def _log_likelihood(site: Array, effects: Array, is_code: bool) -> Array:
    """Return the log-likelihood of effects at a site: (..., n_statistics) and (n_effects,) give (..., n_effects).

    That of a number is normal. That of a code is binomial, maximized over how frequent the code is: a normal one would
    lose most of the evidence of codes that are nearly always right.
    """
    total, effect, variance, *counts = np.moveaxis(site, -1, 0)[..., None]
    if not is_code:
        return np.asarray(total - 0.5 * (effect - effects) ** 2 / variance)
    q1, q0, n1, n0 = counts
    k = n1 * q1 + n0 * q0
    odds = np.exp(effects)
    a, b = n1 + n0 - k, n1 * odds + n0 / odds - k * (odds + 1 / odds)  # a u² + b u - k = 0, with u = exp(intercept)
    root = np.sqrt(b**2 + 4 * a * k)
    intercept = np.log(np.where(b > 0, 2 * k / (b + root + TINY), (root - b) / (2 * a + TINY)) + TINY)
    fitted = sum(
        n * (q * log_odds - np.logaddexp(0.0, log_odds))
        for n, q, log_odds in ((n1, q1, intercept + effects), (n0, q0, intercept - effects))
    )
    best = sum(n * (special.xlogy(q, q) + special.xlogy(1 - q, 1 - q)) for n, q in ((n1, q1), (n0, q0)))
    return np.asarray(total + fitted - best)


def _flipped_sites(design: Design, j: int, others: NDArray[np.bool_]) -> Array:
    """Return what each site says of the effect for each share of flipped labels, (n_sites, n_shares, n_statistics)."""
    o, is_code, found = _said_by(design, others), bool(design.is_code[j]), []
    for rows in design.rows_of_sites:
        cells = _cells_of(design.own[rows, j], design.label[rows], o[rows], design.weights[rows], is_code)
        found.append(_site_likelihood(*cells, is_code))
    return np.stack(found)


def _site_likelihood(x: Array, squares: Array, label: Codes, o: Array, weights: Array, is_code: bool) -> Array:
    """Maximize log p(y, x | o) of one site by EM, for every share of flipped labels; (n_shares, n_statistics)."""
    shares = FLIP_KNOTS[:, None]
    start = fit_logistic(np.column_stack([np.ones(len(o)), o]), label.astype(float), np.full(2, 1e-2), weights=weights)
    a, s = (np.full(len(shares), value) for value in start.coefficients)
    given1 = np.where(label == 1, 1 - shares, shares) + 1e-200  # P(y | y* = 1)
    given0 = np.where(label == 1, shares, 1 - shares) + 1e-200
    post = np.tile(label.astype(float), (len(shares), 1))
    total = np.full(len(shares), -np.inf)
    for step in range(EM_STEPS):
        if step:  # one Newton step for y* ~ a + s o
            chances = special.expit(a[:, None] + s[:, None] * o)
            curvature = (chances * (1 - chances) + 1e-12) * weights
            h0, h1, h2 = curvature.sum(axis=1) + 0.01, curvature @ o, curvature @ o**2 + 0.01
            rest = (post - chances) * weights
            g0, g1 = rest.sum(axis=1) - 0.01 * a, rest @ o - 0.01 * s
            determinant = np.maximum(h0 * h2 - h1**2, 1e-12)
            a = np.clip(a + np.clip((h2 * g0 - h1 * g1) / determinant, -2, 2), -15, 15)
            s = np.clip(s + np.clip((h0 * g1 - h1 * g0) / determinant, -1, 1), -5, 15)
        chances = np.clip(special.expit(a[:, None] + s[:, None] * o), 1e-9, 1 - 1e-9)
        log1, log0 = _log_densities(x, squares, post, weights, is_code)
        lead = np.log(chances / (1 - chances)) + np.log(given1 / given0) + log1 - log0
        post = special.expit(lead)
        new = (np.log((1 - chances) * given0) + log0 + np.logaddexp(0, lead)) @ weights
        done, total = new - total < 1e-3, new
        if done.all():
            break
    found = _effect(x, squares, post, weights, is_code=is_code)
    found[:, 0] = total
    found[:, 2] = np.log(found[:, 2])
    smooth = CubicSpline(FLIP_KNOTS, found)(FLIP_SHARES)
    smooth[:, 2] = np.exp(smooth[:, 2])
    smooth[:, 3:5] = np.clip(smooth[:, 3:5], 0.0, 1.0)
    smooth[:, 5:] = np.maximum(smooth[:, 5:], 1e-9)
    return np.asarray(smooth)


def _log_densities(x: Array, squares: Array, post: Array, weights: Array, is_code: bool) -> tuple[Array, Array]:
    """Return log p(x | y* = 1) and log p(x | y* = 0), (n_shares, n_rows), with the best parameters."""
    ones, zeros = post * weights, (1 - post) * weights
    n1, n0 = ones.sum(axis=1) + 1e-9, zeros.sum(axis=1) + 1e-9
    if is_code:
        q1, q0 = (ones @ x + 0.5) / (n1 + 1), (zeros @ x + 0.5) / (n0 + 1)
        q1, q0 = q1[:, None], q0[:, None]
        return np.where(x > 0.5, np.log(q1), np.log1p(-q1)), np.where(x > 0.5, np.log(q0), np.log1p(-q0))
    m1, m0 = ones @ x / n1, zeros @ x / n0
    variance = np.maximum((weights @ squares - n1 * m1**2 - n0 * m0**2) / (n1 + n0), 0.0) + 0.02
    variance, m1, m0 = variance[:, None], m1[:, None], m0[:, None]
    constant = np.log(variance)
    log1 = -0.5 * ((squares - 2 * m1 * x + m1**2) / variance + constant)
    return log1, -0.5 * ((squares - 2 * m0 * x + m0**2) / variance + constant)


def _effect_grid(sites: Array) -> tuple[Array, Array]:
    """Return effects to integrate over, and the logarithms of their widths."""
    middle = sites.shape[1] // 3
    near = []
    for share in {0, middle}:
        for effect, variance in sites[:, share, 1:3]:
            near.append(np.linspace(effect - 5 * np.sqrt(variance), effect + 5 * np.sqrt(variance), 41))
    effects = sites[:, 0, 1]
    near.append(np.linspace(effects.min(), effects.max(), 100))
    grid = np.unique(np.clip(np.concatenate(near), -12, 12))
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_EFFECTS).astype(np.intp))]
    if len(grid) < 2:
        grid = np.array([grid[0] - 1e-6, grid[0] + 1e-6])
    return grid, np.log(np.maximum(np.gradient(grid), 1e-300))


def _same_effect(sites: Sequence[Array], grid: tuple[Array, Array]) -> float:
    """Return the log-likelihood of one effect b at all sites, integrated over b."""
    return float(_log_sum(np.sum(sites, axis=0) + grid[1]))


def _marginals(sites: Sequence[Array], grid: tuple[Array, Array]) -> tuple[float, float]:
    """Return the log-likelihoods of the same effect b at all sites, and of effects drawn about b.

    Both are integrated over b, the second is averaged over how much effects change. `sites` are log-likelihoods of the
    effects of the grid.
    """
    effects, log_widths = grid
    highest = np.max(sites, axis=1)
    likelihoods = np.exp(np.array(sites) - highest[:, None]).T  # (n_effects, n_sites)
    widths = np.exp(log_widths)
    changing = []
    for rho in SPREADS:
        spread = np.maximum(rho * np.abs(effects), widths)[:, None]
        drawn = np.exp(-0.5 * ((effects - effects[:, None]) / spread) ** 2) * widths / (spread * np.sqrt(2 * np.pi))
        changing.append(_log_sum(np.log(drawn @ likelihoods + TINY).sum(axis=1) + log_widths))
    varies = float(highest.sum() + _log_sum(np.array(changing)) - np.log(len(changing)))
    return _same_effect(sites, grid), varies


def _log_sum(values: Array) -> Array:
    """Return the logarithm of the sum of exponentials along the first axis; scipy's takes much longer to begin."""
    highest = values.max(axis=0)
    return np.asarray(highest + np.log(np.exp(values - highest).sum(axis=0)))


def _row_evidence(design: Design, j: int, others: NDArray[np.bool_]) -> float:
    """Return the log Bayes factor of an effect that differs between sites against one that depends on the row alone.

    The label is regressed on site and x; then also on a curve of x; then also on products of x and other features, one
    after another, beside o. To the best of these, slopes of x at each site are added. It asks about the label given x:
    that x is distributed differently (covariate shift) is no evidence. x is the number, its ranks, or what it adds to
    the log-odds, whichever predicts best. The curve has all three, and splines of the ranks: outliers do not matter.

    A number, or scores of its ranks among all rows, may also be normal given the label, with effects that differ. As a
    whole this is compared with "it is distributed in any way, and the label follows the curve", in which it would be
    normal given the label only by coincidence.
    """
    site = np.eye(design.n_sites)[design.sites]
    value, part = design.values[:, [j]], design.parts[:, [j]]
    forms = [value] if design.is_code[j] else [_normal_scores(value), value, part]  # those of a code are all the same
    fits = [_regress(design, (np.hstack([site, form]), WEAK)) for form in forms]
    found, x = max(zip(fits, forms, strict=True), key=lambda pair: pair[0].log_evidence)
    line, columns = (np.hstack([site, x]), WEAK), x[:, :0]
    rivals = [(np.log1p(-BENT), found, columns)]

    def add(log_prior: float, columns: Array) -> LogisticFit:
        fit = _regress(design, line, (columns, 1.0), start=found)
        rivals.append((log_prior, fit, columns))
        return fit

    log_prior = np.log(BENT / 2)
    if not design.is_code[j]:
        hinges = np.maximum(forms[0] - np.unique(np.quantile(forms[0], BEND_KNOTS)), 0.0)
        columns = _scaled(np.hstack([hinges, *forms]))
        found = add(log_prior, columns)
    products = _scaled(design.values[:, [j]] * design.values[:, others])
    if others.any():  # products add to what the other features say themselves
        columns, before = np.hstack([columns, _scaled(_said_by(design, others)[:, None])]), found.log_evidence
        found = _regress(design, line, (columns, 1.0), start=found)
        log_prior += before - found.log_evidence
    for _ in range(MOST_PRODUCTS if others.any() else 0):
        chances = special.expit(np.hstack([line[0], columns]) @ found.coefficients)
        gains = np.abs((design.weights * (design.label - chances)) @ products)
        product = products[:, [gains.argmax()]]
        columns, log_prior = np.hstack([columns, product]), log_prior - np.log(products.shape[1])
        found = add(log_prior, columns)
        products = np.hstack([products, _scaled(product * design.values[:, others])])
    log_prior, best, columns = max(rivals, key=lambda rival: rival[0] + rival[1].log_evidence)
    size = _typical_slope(_regress(design, (np.hstack([site, site * x]), WEAK)), design.n_sites)
    blocks = [(line, (columns, 1.0), (site * x, (rho * size) ** -2)) for rho in SPREADS]
    differ = [_regress(design, *some, start=best).log_evidence for some in blocks]
    same = float(_log_sum(np.array([prior + fit.log_evidence for prior, fit, _ in rivals])))
    slopes = float(log_prior + _log_sum(np.array(differ)) - np.log(len(SPREADS))) - same
    if design.is_code[j]:
        return slopes
    scores = binormal_scores(value[:, 0], design.label, np.zeros_like(design.sites), design.weights)
    normal = 0.0
    for rows in (rows[design.weights[rows] > 0] for rows in design.rows_of_sites if design.weights[rows].any()):
        normal += log_given_label(scores[rows], design.label[rows], design.weights[rows])
        normal -= log_any(scores[rows], design.weights[rows])
    return float(np.logaddexp(slopes, normal - same) - np.log(2.0))


def _regress(design: Design, *blocks: tuple[Array, float], start: LogisticFit | None = None) -> LogisticFit:
    """Regress the label on blocks of columns, each with the precision of its coefficients.

    `start` is the fit of the first of these columns, which it begins with.
    """
    precision = np.concatenate([np.full(columns.shape[1], value) for columns, value in blocks])
    matrix, first = np.hstack([columns for columns, _ in blocks]), np.zeros(len(precision))
    if start is not None:
        first[: len(start.coefficients)] = start.coefficients
    return fit_logistic(matrix, design.label.astype(float), precision, weights=design.weights, start=first)


def _typical_slope(fit: LogisticFit, n_sites: int) -> float:
    """Return the typical size of the last coefficients, which are slopes of sites: they may have both signs."""
    slopes, variances = fit.coefficients[-n_sites:], np.diag(np.linalg.inv(fit.information))[-n_sites:]
    return max(abs(_typical_effect(np.stack([0 * slopes, slopes, variances], axis=1))), 1e-2)


def _normal_scores(values: Array) -> Array:
    """Return scores that depend on ranks alone and are about normal, with mean 0 and variance 1."""
    places, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    return _scaled(special.ndtri((np.cumsum(counts) - counts / 2) / len(values))[places].reshape(-1, 1))


def _scaled(values: Array) -> Array:
    """Return values with mean 0 and variance 1."""
    return np.asarray((values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9))
