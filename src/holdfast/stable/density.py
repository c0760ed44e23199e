"""How well a number's distribution is described: by normal ones given the label, or by mixtures that know no label.

Logarithms of likelihoods, less log(n) / 2 for each parameter (BIC), so that they can be compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

MOST_COMPONENTS = 4  # normal distributions in a mixture
FLOOR = 1e-4  # of the variance: the least variance of a component
EM_STEPS = 60
MOST_CELLS = 500  # into which the sorted rows of a larger site are put


def log_given_label(x: Array, label: NDArray[np.intp], weights: Array) -> float:
    """Return the log likelihood of x and the label: a rate, two means and a variance, less that of their number."""
    n = weights.sum()
    ones, zeros = weights * label, weights * (1 - label)
    n1, n0 = ones.sum() + 1e-9, zeros.sum() + 1e-9
    m1, m0 = ones @ x / n1, zeros @ x / n0
    variance = max(float(ones @ (x - m1) ** 2 + zeros @ (x - m0) ** 2) / n, FLOOR * _variance(x, weights))
    labels = special.xlogy(n1, n1 / n) + special.xlogy(n0, n0 / n)
    return float(labels - 0.5 * n * (np.log(2 * np.pi * variance) + 1) - 2 * np.log(n))


def log_any(x: Array, weights: Array) -> float:
    """Return the log likelihood of x under the mixture of normal distributions that fits best for its parameters.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> one, two = log_any(x, np.ones(500)), log_any(np.concatenate([x, x + 9]), np.ones(1000))
    >>> round(one / 500, 1), round(two / 1000 - one / 500, 1)  # a component more costs log 2 for each row
    (-1.4, -0.7)
    """
    if len(x) > MOST_CELLS:
        order = np.argsort(x, kind="stable")
        cells = np.empty(len(x), dtype=np.intp)
        cells[order] = np.arange(len(x)) * MOST_CELLS // len(x)
        total = np.asarray(np.bincount(cells, weights), dtype=np.float64)
        x, weights = np.bincount(cells, weights * x) / np.maximum(total, 1e-12), total
    found = [_log_mixture(x, weights, k, equal=equal) for k, equal in _FORMS]
    return max(found)


_FORMS = [(1, True), (2, True), *((k, False) for k in range(2, MOST_COMPONENTS + 1))]  # and whether variances are equal


def _variance(x: Array, weights: Array) -> float:
    return max(float(np.average((x - np.average(x, weights=weights)) ** 2, weights=weights)), 1e-12)


def _log_mixture(x: Array, weights: Array, n_components: int, *, equal: bool) -> float:
    """Fit a mixture by EM, with equal variances or not; return its log likelihood less that of its parameters."""
    n, whole = weights.sum(), _variance(x, weights)
    edges = np.quantile(x, np.linspace(0, 1, n_components + 1)[1:-1])
    shares = np.eye(n_components)[np.searchsorted(edges, x)] * 0.9 + 0.1 / n_components  # (n_rows, n_components)
    before = -np.inf
    for _ in range(EM_STEPS):
        sizes = weights @ shares + 1e-9
        means = (weights * x) @ shares / sizes
        squares = np.einsum("r,rk,rk->k", weights, shares, (x[:, None] - means) ** 2)
        variances = np.full(n_components, squares.sum() / n) if equal else squares / sizes
        variances = np.maximum(variances, FLOOR * whole)
        logs = np.log(sizes / n) - 0.5 * ((x[:, None] - means) ** 2 / variances + np.log(2 * np.pi * variances))
        highest = logs.max(axis=1)
        rows = highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
        shares = np.exp(logs - rows[:, None])
        now = float(weights @ rows)
        if now - before < 0.1:
            break
        before = now
    n_parameters = 2 * n_components if equal else 3 * n_components - 1
    return now - 0.5 * n_parameters * float(np.log(n))
