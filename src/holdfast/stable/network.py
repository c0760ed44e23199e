r"""The decision for inputs without columns: does a network rely on something that differs between sites.

Two classifiers of all sites are asked about every row out of fold: the ordinary one, with the log-odds f, and a stable
one, with the log-odds g: Predict then Interpolate, whose network goes on from the ordinary one. At each site e

    logit P(y = c | x, e) = a_ec + alpha_e f_c + beta_e g_c,    labels wrong in a share v_e.

*Nothing changes*: the weights of f and g are in the same proportion everywhere, (alpha_e, beta_e) = t_e (alpha, beta).
Label shift is in a_ec, calibration and other ranges are in t_e, noisier labels in v_e. *Unstable*: the weight of
h = f - gamma g, what f has beyond g, varies between sites with the standard deviation tau. The posterior probability P
of the latter follows from Bayes' rule.

With P below 1/2 the ordinary classifier is kept. Else g becomes PI trained anew, unless that is clearly worse where h
has vanished, and the classifier is softmax(w_f f + w_g g) with the weights, at least zero, of least log loss on rows
that are weighted as at the next site: h predicts the label in the share

    q = 1/K + (p - 1/K) max(0, 1 - 2 caution P)

of the rows, where p is that share now and 1/K that of guessing. With w_f = 0 it is the stable classifier itself.

Nothing here knows what a network is: scores go in, a decision comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import minimize, minimize_scalar

from holdfast.fitting.calibration import log_softmax
from holdfast.metrics import Interval
from holdfast.stable.removal import centered
from holdfast.stable.scenarios import next_reach
from holdfast.stable.verdict import Accuracy

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

PRIOR = 0.2  # probability that a network relies on something that changes
SPREADS = (0.1, 0.25, 0.5, 1.0)  # tau, in units of the ordinary classifier's own weight; equally probable
LIKELY = 0.5  # probability from which on the classifier acts
DETECTABLE = 0.5  # a spread of the weight that must be found half of the time, else there are too few rows to tell
FEW_ROWS = 100  # of a site, below which nothing can be told
HALF_SKILL = 0.5  # of the ordinary classifier's skill that the stable one must have, else comparing them tells little
READABLE = 0.8  # skill of telling sites apart (0 chance, 1 perfect) from which on a difference is no evidence
MOST_NOISE = 0.8  # share of wrong labels that a site may have


@dataclass(frozen=True, eq=False)
class SiteFit:
    """Weights of some scores at one site, with their covariance; wrong labels and label rates are fitted beside."""

    weights: Array  # (n_parts,)
    covariance: Array  # (n_parts, n_parts)
    offsets: Array  # (n_classes,) sum zero
    noise: float  # share of labels that are drawn at random
    loss: float  # minus the log likelihood


def fit_site(
    parts: Sequence[Array], y: Codes, counts: Array | None = None, *, noise: bool = True, curvature: bool = True
) -> SiteFit:
    """Fit logit P(y = c) = a_c + sum_j w_j s_jc, with a share of the labels drawn at random, by maximum likelihood.

    Examples
    --------
    Log-odds that are twice too large get the weight one half:

    >>> f = np.log([[0.8, 0.2]] * 1000 + [[0.2, 0.8]] * 1000) * 2
    >>> y = np.array([0] * 800 + [1] * 200 + [0] * 200 + [1] * 800)
    >>> fit_site([f], y, noise=False).weights.round(2).tolist()
    [0.5]
    """
    scores = np.stack([centered(part) for part in parts])  # (n_parts, n_rows, n_classes)
    n_parts, n_rows, n_classes = scores.shape
    counts = np.ones(n_rows) if counts is None else counts
    truth = np.eye(n_classes)[y]
    faint = 1e-3  # decides only what the rows leave open

    def loss(parameters: Array, with_noise: bool) -> tuple[float, Array]:
        weights, offsets = parameters[:n_parts], parameters[n_parts : n_parts + n_classes]
        logs = log_softmax(np.tensordot(weights, scores, 1) + offsets)
        chances = np.exp(logs)
        share = MOST_NOISE * special.expit(parameters[-1]) if with_noise else 0.0
        own = chances[np.arange(n_rows), y]
        mixed = (1 - share) * own + share / n_classes
        pull = counts * (1 - share) * own / np.maximum(mixed, 1e-300)
        slope = pull[:, None] * (chances - truth)  # (n_rows, n_classes)
        value = -float(counts @ np.log(np.maximum(mixed, 1e-300))) + faint * float(parameters @ parameters) / 2
        gradient = [np.einsum("prc,rc->p", scores, slope), slope.sum(axis=0)]
        if with_noise:
            by_share = -float(counts @ ((1 / n_classes - own) / np.maximum(mixed, 1e-300)))
            gradient.append(np.array([by_share * share * (1 - share / MOST_NOISE)]))
        return value, np.concatenate(gradient) + faint * parameters

    start = np.zeros(n_parts + n_classes)
    start[:n_parts] = 1 / n_parts
    found = minimize(loss, start, (False,), jac=True, method="L-BFGS-B").x
    with_noise = False
    if noise:
        tried = minimize(loss, np.append(found, -3.0), (True,), jac=True, method="L-BFGS-B").x
        share = MOST_NOISE * special.expit(tried[-1])
        if share > 0.002:  # at zero the noise is no parameter, and says nothing about the others' errors
            found, with_noise = tried, True
    covariance = np.full((n_parts, n_parts), np.nan)
    if curvature:
        steps = 1e-4 * np.eye(len(found))
        bend = np.stack([loss(found + s, with_noise)[1] - loss(found - s, with_noise)[1] for s in steps]) / 2e-4
        covariance = np.linalg.pinv((bend + bend.T) / 2, rcond=1e-10)[:n_parts, :n_parts]
    offsets = found[n_parts : n_parts + n_classes]
    share = float(MOST_NOISE * special.expit(found[-1])) if with_noise else 0.0
    return SiteFit(found[:n_parts], covariance, offsets - offsets.mean(), share, loss(found, with_noise)[0])


@dataclass(frozen=True)
class Evidence:
    """Whether the weight of what the ordinary classifier has beyond the stable one varies between sites."""

    probability: float  # that it varies
    statistic: float  # Q, chi-squared with n_sites - 1 degrees of freedom where nothing varies
    p_value: float
    log_factor: float  # logarithm of the Bayes factor of "varies" against "does not"
    detectable: float  # spread that would be found half of the time, in units of the ordinary classifier's weight


def weigh(f: Array, g: Array, y: Codes, sites: Codes) -> Evidence:
    """Return the evidence in log-odds f of the ordinary and g of the stable classifier, (n_rows, n_classes) each."""
    f, g = centered(f), centered(g)
    n_sites = int(sites.max()) + 1
    gamma = _within_slope(f, g, y, sites)
    fits = [fit_site([f[sites == e] - gamma * g[sites == e], g[sites == e]], y[sites == e]) for e in range(n_sites)]
    unit = abs(float(fit_site([f], y, noise=False, curvature=False).weights[0]))
    thetas = np.stack([found.weights for found in fits])  # (n_sites, 2): of h and of g
    precisions = np.stack([np.linalg.pinv(found.covariance) for found in fits])
    angle = _common_angle(thetas, precisions)
    common, other = np.array([np.cos(angle), np.sin(angle)]), np.array([1.0, 0.0])
    statistic = _misfit(angle, thetas, precisions)
    # The weights in the coordinates (t_e, delta_e): theta_e = t_e common + delta_e (weight of h).
    if abs(common[1]) < 1e-3:  # h alone carries the common score: what varies is g's weight
        other = np.array([0.0, 1.0])
    inverse = np.linalg.inv(np.stack([common, other], axis=1))
    deltas = (thetas @ inverse.T)[:, 1]
    errors = np.array([np.sqrt(max((inverse @ found.covariance @ inverse.T)[1, 1], 1e-12)) for found in fits])
    factors = [_log_factor(deltas, errors, spread * unit) for spread in SPREADS]
    factor = float(special.logsumexp(factors) - np.log(len(SPREADS)))
    probability = float(special.expit(factor + special.logit(PRIOR)))
    p_value = float(special.chdtrc(n_sites - 1, statistic))
    return Evidence(probability, statistic, p_value, factor, _detectable(errors, unit))


def _within_slope(f: Array, g: Array, y: Codes, sites: Codes) -> float:
    """Return gamma, the regression of f on g among rows of one label and site."""
    cells = sites * (int(y.max()) + 1) + y
    n = np.maximum(np.bincount(cells), 1)

    def within(scores: Array) -> Array:
        means = np.stack([np.bincount(cells, column) / n for column in scores.T], axis=1)
        return np.asarray(scores - means[cells])

    f, g = within(f), within(g)
    return float((f * g).sum() / max(float((g * g).sum()), 1e-12))


def _misfit(angle: float, thetas: Array, precisions: Array) -> float:
    """Return how far the sites' weights are from multiples of one direction, in squared standard errors."""
    common = np.array([np.cos(angle), np.sin(angle)])
    total = 0.0
    for theta, precision in zip(thetas, precisions, strict=True):
        scale = max(float(common @ precision @ theta) / max(float(common @ precision @ common), 1e-12), 0.0)
        rest = theta - scale * common
        total += float(rest @ precision @ rest)
    return total


def _common_angle(thetas: Array, precisions: Array) -> float:
    """Return the direction that fits the weights of all sites best."""
    grid = np.linspace(-np.pi, np.pi, 361)
    best = grid[int(np.argmin([_misfit(angle, thetas, precisions) for angle in grid]))]
    step = grid[1] - grid[0]
    found = minimize_scalar(
        _misfit, bounds=(best - step, best + step), args=(thetas, precisions), method="bounded", options={"xatol": 1e-6}
    )
    return float(found.x)


def _log_factor(deltas: Array, errors: Array, spread: float) -> float:
    """Return the log Bayes factor of delta_e ~ N(mean, spread²) against one common delta, with flat means."""

    def log_marginal(variances: Array) -> float:
        weights = 1 / variances
        mean = weights @ deltas / weights.sum()
        return float(
            -0.5 * np.log(variances).sum() - 0.5 * np.log(weights.sum()) - 0.5 * weights @ (deltas - mean) ** 2
        )

    return log_marginal(errors**2 + spread**2) - log_marginal(errors**2)


def _detectable(errors: Array, unit: float) -> float:
    """Return the spread at which the probability reaches one half for effects that lie at plus and minus it."""
    signs = np.where(np.arange(len(errors)) % 2, 1.0, -1.0)
    for spread in np.geomspace(0.02, 20, 60):
        factors = [_log_factor(signs * spread * unit, errors, tau * unit) for tau in SPREADS]
        if special.logsumexp(factors) - np.log(len(SPREADS)) + special.logit(PRIOR) > 0:
            return float(spread)
    return float("inf")


# --- Decision --------------------------------------------------------------------------------------------------------

Outcome = Literal["unstable", "nothing_found", "cannot_tell"]
Reason = Literal["", "few_rows", "weak_stable", "site_readable"]
WORDS: dict[str, tuple[str, str]] = {
    # why nothing can be told, and what would help
    "few_rows": ("there are too few rows at each site", "More labeled rows for each site would help."),
    "weak_stable": (
        "the stable network learned too little to be compared with",
        "Longer training, more rows or sites whose spurious features differ more would help.",
    ),
    "site_readable": (
        "the site can be read off the input, so one network can treat sites differently",
        "Inputs that look alike at all sites (same size, brightness, format, vocabulary) would help.",
    ),
}


@dataclass(frozen=True)
class NetworkFinding:
    """What was found about a classifier whose inputs have no columns, for `Verdict.network`.

    Attributes
    ----------
    outcome : "unstable", "nothing_found" or "cannot_tell"
    reason : str
        Why nothing can be told: a key of `WORDS`.
    probability, statistic, p_value : float
        Posterior probability that the network relies on something that changes; Cochran's Q and its p value.
    kept : float
        Share of what the ordinary network has beyond the stable one that is used.
    stable_price : Interval
        Accuracy that the stable network, which the ordinary one was compared with, loses at known sites.
    readable : float
        How well the site can be read off the input: 0 as by chance, 1 always. NaN where it was not looked at.
    """

    outcome: Outcome
    reason: Reason
    probability: float
    statistic: float
    p_value: float
    kept: float
    stable_price: Interval
    readable: float = float("nan")

    @property
    def answer(self) -> str:
        """The outcome in one or two sentences."""
        if self.outcome == "unstable":
            found = "the network relies on something whose relation with the label differs between sites"
            chance = f"probability {self.probability:.2f}"
            if self.kept == 0.0:
                return f"Stable classifier: {found} ({chance}), so the classifier is the PI network."
            return f"Partly stable classifier: {found} ({chance}), so the PI network is mixed in."
        if self.outcome == "nothing_found":
            return (
                "Ordinary classifier: nothing was found that the network relies on and that differs between sites "
                f"(probability {self.probability:.2f})."
            )
        why, help_ = WORDS[self.reason]
        return (
            f"Ordinary classifier: it cannot be told whether the network relies on something unstable: {why}. {help_}"
        )

    @property
    def price(self) -> str:
        """What the stable network would cost."""
        low, value, high = (100 * x for x in (self.stable_price.low, self.stable_price.value, self.stable_price.high))
        cost = f"{value:.1f} points of accuracy at known sites [{low:.1f}, {high:.1f}]"
        more = "" if self.outcome == "unstable" else " PIClassifier may cost more."
        return f"A network trained on PI's halves would cost {cost if value > 0 else 'nothing at known sites'}.{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        readable = None if np.isnan(self.readable) else self.readable
        price = self.stable_price.to_dict()
        return {**asdict(self), "stable_price": price, "readable": readable, "answer": self.answer}


@dataclass(frozen=True, eq=False)
class NetworkRows:
    """Scores of every row out of fold, (n_rows, n_classes), with labels and sites."""

    ordinary: Array
    stable: Array
    y: Codes
    sites: Codes
    counts: Array | None = None  # how many rows each row stands for
    readable: float = float("nan")  # how well the site can be read off the input, see `read_skill`
    found: Evidence | None = None  # None: that of these scores
    evidence: Evidence = field(init=False)
    gamma: float = field(init=False)  # h = f - gamma g

    def __post_init__(self) -> None:
        found = weigh(self.ordinary, self.stable, self.y, self.sites) if self.found is None else self.found
        gamma = _within_slope(centered(self.ordinary), centered(self.stable), self.y, self.sites)
        object.__setattr__(self, "evidence", found)
        object.__setattr__(self, "gamma", gamma)

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return int(self.sites.max()) + 1

    @property
    def _right(self) -> NDArray[np.bool_]:
        """Whether h, what the ordinary classifier has beyond the stable one, predicts the label of each row."""
        h = centered(self.ordinary) - self.gamma * centered(self.stable)
        return np.asarray(h.argmax(axis=1) == self.y)

    def share(self, caution: float, probability: float = 1.0) -> float:
        """Return in which share of the rows h predicts the label at the next site."""
        chance, seen = 1 / self.ordinary.shape[1], float(self._right.mean())
        return chance + max(seen - chance, 0.0) * max(0.0, 1 - 2 * caution * probability) if seen > chance else seen

    @property
    def reversed_share(self) -> float:
        """The share in which h predicts the label where its relation is reversed."""
        n_classes, seen = self.ordinary.shape[1], float(self._right.mean())
        return float(min((1 - seen) / (n_classes - 1), seen))

    def reweighted(self, share: float) -> Array:
        """Return a weight for each row, as if h predicted the label in such a share of the rows of each site and label.

        A site and label in which h is always right, or never, stays as it is.
        """
        right = self._right
        cells = self.sites * self.ordinary.shape[1] + self.y
        n = np.bincount(cells)
        hits = np.bincount(cells, right)
        shares = np.clip(hits / np.maximum(n, 1), 1e-9, 1 - 1e-9)[cells]
        weights = np.where(right, share / shares, (1 - share) / (1 - shares))
        return np.where(((hits > 0) & (hits < n))[cells], weights, 1.0)

    @property
    def has_evidence(self) -> bool:
        """Whether the weight of h differs between sites.

        Where the site can be read off the input, one network can treat sites differently, so a difference is none.
        """
        return self.evidence.probability >= LIKELY and not self.readable >= READABLE

    def weights(self, caution: float) -> tuple[float, float]:
        """Return the weights of both classifiers' log-odds; (1, 0) where there is no evidence."""
        probability = self.evidence.probability
        if caution == 0 or not self.has_evidence:
            return 1.0, 0.0
        return self._mix(self.share(caution, probability))[0]

    def _mix(self, share: float) -> tuple[tuple[float, float], Array]:
        """Return the weights, at least zero, of least log loss where h predicts the label in a share.

        And the log-likelihood of every row's label.
        """
        parts, used = np.stack([centered(self.ordinary), centered(self.stable)]), [0, 1]
        fit = partial(fit_site, y=self.y, counts=self._counted(share), noise=False, curvature=False)
        found = fit(list(parts))
        if found.weights.min() <= 0:
            used = [int(found.weights.argmax())]
            found = fit(list(parts[used]))
        weights = np.zeros(2)
        weights[used] = found.weights
        logs = log_softmax(np.tensordot(weights, parts, 1) + found.offsets)
        mixture = (0.0, 1.0) if used == [1] else (1.0, 0.0) if used == [0] else (float(weights[0]), float(weights[1]))
        return mixture, logs[np.arange(len(self.y)), self.y]

    def choose(self, stable: Array) -> tuple[bool, NetworkRows]:
        """Return whether the stable classifier is PI itself, whose scores are given, and the rows with it.

        The one that found the evidence is used only where its mixture is better by two standard errors of the log loss
        where h has vanished. The evidence remains.
        """
        anew, share = replace(self, stable=stable, found=self.evidence), self.share(0.5)
        lead = self._counted(share) * (self._mix(share)[1] - anew._mix(share)[1])
        if lead.sum() > 2 * lead.std() * np.sqrt(len(lead)):
            return False, self
        return True, anew

    def _counted(self, share: float | None) -> Array:
        """Return how many rows each row stands for: now, or where h predicts the label in another share."""
        counts = np.ones(len(self.y)) if share is None else self.reweighted(share)
        return counts if self.counts is None else counts * self.counts

    def kept(self, weights: tuple[float, float]) -> float:
        """Return the share of what the ordinary classifier has beyond the stable one that a mixture uses."""
        alone = self.weights_alone
        return float(np.clip(weights[0] / max(alone, 1e-9), 0.0, 1.0)) if weights[1] else 1.0

    @property
    def weights_alone(self) -> float:
        """The weight that the ordinary classifier's log-odds have without the others: one if they are calibrated."""
        return float(fit_site([self.ordinary], self.y, noise=False, curvature=False).weights[0])

    def mixed(self, weights: tuple[float, float]) -> Array:
        """Return the scores of a mixture."""
        return np.asarray(weights[0] * centered(self.ordinary) + weights[1] * centered(self.stable))

    # What if

    def accuracies(self, weights: tuple[float, float], share: float | None = None) -> Array:
        """Return the accuracy of a mixture at each site: now, or where h predicts the label in another share."""
        right = self.mixed(weights).argmax(axis=1) == self.y
        counts = self._counted(share)
        return np.asarray(np.bincount(self.sites, counts * right) / np.bincount(self.sites, counts))

    def compare(self, weights: tuple[float, float], share: float | None = None) -> Accuracy:
        """Return the accuracy of the ordinary classifier and of a mixture, mean over sites."""
        return Accuracy(*(float(self.accuracies(w, share).mean()) for w in ((1.0, 0.0), weights)))

    def price(self, weights: tuple[float, float]) -> Interval:
        """Return the accuracy that a mixture loses at the known sites."""
        ordinary, fitted = (self.mixed(w).argmax(axis=1) == self.y for w in ((1.0, 0.0), weights))
        lost = ordinary.astype(np.float64) - fitted
        counts = np.ones(len(lost)) if self.counts is None else self.counts
        sums = np.bincount(self.sites, counts)
        means = np.bincount(self.sites, counts * lost) / sums
        shares = counts / sums[self.sites] / self.n_sites
        value, error = float(means.mean()), float(np.sqrt(np.sum((shares * (lost - means[self.sites])) ** 2)))
        return Interval(value, value - 1.96 * error, value + 1.96 * error)

    def forecast(self, weights: tuple[float, float], left_out: Array) -> Interval:
        """Return the accuracy to expect at the next site (95 %).

        `left_out` are the accuracies at each site of classifiers of the other sites.
        """
        known = float(self.accuracies(weights).mean())
        gone = known if weights == (1.0, 0.0) else float(self.accuracies(weights, self.share(0.5)).mean())
        elsewhere = float(left_out.mean())
        half = next_reach(left_out, np.ones(len(left_out)))
        low, high = min(elsewhere, gone) - half, max(elsewhere, known) + half
        return Interval(elsewhere, max(low, 0.0), min(high, 1.0))

    def too_little(self) -> Reason:
        """Return why a missing difference says nothing, as far as scores tell; "" where it says something."""
        sizes = np.bincount(self.sites)
        if sizes.min() < FEW_ROWS or self.evidence.detectable > DETECTABLE:
            return "few_rows"
        chance = float(np.bincount(self.y).max() / len(self.y))
        ordinary, stable = (float((scores.argmax(axis=1) == self.y).mean()) for scores in (self.ordinary, self.stable))
        if stable - chance < HALF_SKILL * (ordinary - chance):
            return "weak_stable"
        return ""


def find_network(rows: NetworkRows, weights: tuple[float, float]) -> NetworkFinding:
    """Return the finding that goes with the weights of a mixture."""
    evidence = rows.evidence
    outcome: Outcome = "unstable" if evidence.probability >= LIKELY else "nothing_found"
    reason: Reason = "site_readable" if rows.readable >= READABLE else ""
    if outcome == "nothing_found" and not reason:
        reason = rows.too_little()
    outcome = "cannot_tell" if reason else outcome
    return NetworkFinding(
        outcome,
        reason,
        evidence.probability,
        evidence.statistic,
        evidence.p_value,
        rows.kept(weights),
        rows.price((0.0, 1.0)),
        rows.readable,
    )


def read_skill(predicted: Codes, sites: Codes) -> float:
    """Return how well sites are told apart: 0 as by chance, 1 always right; every site counts the same.

    Examples
    --------
    >>> read_skill(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])), read_skill(np.zeros(4, int), np.array([0, 0, 1, 1]))
    (1.0, 0.0)
    """
    n_sites = int(sites.max()) + 1
    right = float(np.mean([(predicted[sites == site] == site).mean() for site in range(n_sites)]))
    return max(0.0, (right - 1 / n_sites) / (1 - 1 / n_sites))
