r"""Learn from rows without labels how an unstable column is related to the label at one site.

A classifier that does without the column, the *stable part*, gives P(y | rest) for each row. If the column x is
independent of the rest given the label, then at the site

    P(x | rest) = sum over y of P(y | rest) q(x | y),

and EM on rows without labels finds q(x | y):

    E: r_iy ∝ P(y | rest_i) q(x_i | y)          M: q(x | y) ∝ sum of r_iy over rows i with x_i = x.

The weights P(y | rest) are known, so the likelihood of a discrete x is concave in q and has one maximum. Numbers are
cut at the site's own quantiles. The probability with the column is

    P(y | rest, x) ∝ P(y | rest) · (q(x | y) / p(x))^t · exp(b_y),    t = max(0, 1 - d / 2L),

where p(x) is the share of x at the site, L the log-likelihood that q gains over p and d its number of free parameters
(James and Stein's shrinkage): a column that says nothing there is ignored. The offsets b keep the class shares of the
stable part: EM would change them for the worse more often than not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import listed
from holdfast.fitting.calibration import Calibration, log_softmax
from holdfast.newsite.codes import Coding, UnstableColumn
from holdfast.rows.kinds import count_rows

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

PRIOR_ROWS = 2.0  # rows of each class that a column is believed to say nothing with
MOST_STEPS = 500
CONVERGED = 1e-4  # largest change of a share by a step of EM
APART = 0.1  # share of rows by which a column must differ from every known site to be named


@dataclass(frozen=True, eq=False)
class Relation:
    """What a column says about the label at one site."""

    name: str
    coding: Coding
    logs: Array  # (n_codes, n_classes) logarithms of q(x | y) / p(x), times the weight
    weight: float  # t: 0 where the rows do not tell, 1 where they tell for sure
    right: float = float("nan")  # share of the site's rows in which the column says what it said at the known sites
    error: float = float("nan")  # its standard error
    known: Mapping[str, float] = field(default_factory=dict)  # the same share at each known site

    @property
    def differs(self) -> bool:
        """Whether the column is right there in surely fewer, or more, rows than at every known site."""
        if not self.known or not np.isfinite(self.error):
            return False
        low, high = (self.right + sign * 1.96 * self.error for sign in (-1, 1))
        least, most = min(self.known.values()), max(self.known.values())
        below, above = high < least and self.right < least - APART, low > most and self.right > most + APART
        return bool(below or above)

    @property
    def is_told(self) -> bool:
        """Whether the rows tell what the column says there."""
        return bool(np.isfinite(self.right) and (self.weight > 0 or self.differs))

    @property
    def sentence(self) -> str:
        """What the column says there, in words."""
        if not self.is_told:
            return f"The effect of `{self.name}` cannot be estimated from these rows."
        known = [f"{share:.0%} in {site}" for site, share in list(self.known.items())[:3]]
        than = f"; {listed(known)}" if known else ""
        reach = f" ± {1.96 * self.error:.0%}" if np.isfinite(self.error) else ""
        return f"`{self.name}` agrees with the label in {self.right:.0%}{reach} of these rows (estimated){than}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "column": self.name,
            "weight": self.weight,
            "right": self.right,
            "error": self.error,
            "differs": self.differs,
            "known": dict(self.known),
            "sentence": self.sentence,
        }


def relearn(column: UnstableColumn, X: Any, chances: Array) -> Relation:
    """Return what a column says about the label at a site, from rows without labels.

    `chances` are P(y | rest) of the stable part, (n_rows, n_classes).

    Examples
    --------
    The rest tells 95 of 100 labels, and the column is the opposite of what it was:

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(2, size=2000)
    >>> told = np.where(generator.random(2000) < 0.95, y, 1 - y)
    >>> chances = np.where(np.eye(2)[told] == 1, 0.95, 0.05)
    >>> turned = np.where(generator.random(2000) < 0.1, y, 1 - y)
    >>> column = UnstableColumn("scanner", (0,), sides={"0.0": 0, "1.0": 1})
    >>> relation = relearn(column, turned[:, None].astype(float), chances)
    >>> round(relation.right, 2), round(relation.weight, 2)
    (0.1, 1.0)
    """
    coding = column.coding(X)
    codes, n_codes, n_classes = coding.encode(X), coding.n_codes, chances.shape[1]
    counts = np.bincount(codes, minlength=n_codes).astype(np.float64) + 1e-9
    marginal: Array = counts / counts.sum()
    q, gain = _em(codes, chances, marginal)
    n_free = (n_classes - 1) * (int((marginal > 1e-6).sum()) - 1)
    weight = max(0.0, 1 - n_free / (2 * gain)) if n_free and gain > 0 else 0.0
    logs = weight * (np.log(q) - np.log(marginal)[:, None])
    sides = column.sided(coding) if n_free else np.full(n_codes, -1)  # one value says nothing
    right, error = _agreement(sides, codes, chances, q)
    return Relation(column.name, coding, logs, weight, right, error, column.right)


def _em(codes: Codes, chances: Array, marginal: Array) -> tuple[Array, float]:
    """Return q(x | y), (n_codes, n_classes), and the log-likelihood that it gains over the marginal distribution.

    Every two steps of EM are extended by a third (SQUAREM; Varadhan and Roland 2008), unless that lowers the objective.
    """
    member = np.eye(len(marginal))[codes]  # (n_rows, n_codes)
    prior = PRIOR_ROWS * marginal[:, None]

    def step(q: Array) -> tuple[Array, float]:
        """Return the next q, and the objective at this one."""
        joint = chances * q[codes]
        total = joint.sum(axis=1)
        post = joint / total[:, None]
        after = (member.T @ post + prior) / (post.sum(axis=0) + PRIOR_ROWS)
        return after, float(np.log(total).sum() + (prior * np.log(q)).sum())

    q = (member.T @ chances + prior) / (chances.sum(axis=0) + PRIOR_ROWS)
    for _ in range(MOST_STEPS):
        once, before = step(q)
        if np.abs(once - q).max() < CONVERGED:
            break
        twice, _ = step(once)
        first, bend = once - q, twice - 2 * once + q
        length = np.linalg.norm(first) / max(float(np.linalg.norm(bend)), 1e-300)
        far = q + 2 * length * first + length**2 * bend if length > 1 else twice
        q, value = step(far) if far.min() > 0 else (twice, np.inf)
        if value < before:
            q = twice
    likelihood = float(np.log((chances * q[codes]).sum(axis=1)).sum())
    return q, likelihood - float(np.log(marginal[codes]).sum())


def _agreement(sides: Codes, codes: Codes, chances: Array, q: Array) -> tuple[float, float]:
    """Return in which share of the rows a column speaks for their class, and its standard error.

    The share is the sum over classes of P(y) q(x speaks for y | y). Its error is that of a regression of "x speaks for
    the class" on P(y | rest), which the rows without labels stand for.
    """
    if (sides < 0).all():
        return float("nan"), float("nan")
    shares, n_classes = chances.mean(axis=0), chances.shape[1]
    speaks = np.stack([sides == k for k in range(n_classes)], axis=1)  # (n_codes, n_classes)
    right = float(shares @ (speaks * q).sum(axis=0))
    errors = np.zeros(n_classes)
    for k in range(n_classes):
        x, p = speaks[codes, k].astype(float), chances[:, k]
        about = p - p.mean()
        spread = float(about @ about)
        if spread < 1e-9:
            return right, float("nan")
        slope = float(about @ x) / spread
        rest = x - x.mean() - slope * about
        level = 1 - p.mean()  # at p = 1
        errors[k] = np.sqrt(float(rest @ rest) / max(len(x) - 2, 1) * (1 / len(x) + level**2 / spread))
    return right, float(np.sqrt(((shares * errors) ** 2).sum()))


def said_by(relations: Sequence[Relation], X: Any, n_classes: int) -> Array:
    """Return what columns add to the log-probabilities, (n_rows, n_classes)."""
    total = np.zeros((count_rows(X), n_classes))
    for relation in relations:
        if relation.weight > 0:
            total += relation.logs[relation.coding.encode(X)]
    return total


def join(logs: Array, added: Array, scale: float) -> Calibration:
    """Return the offsets b after which log P(y | rest) plus what columns add has the class shares of the former."""
    n_rows, n_classes = logs.shape
    shares, offsets = np.exp(logs).mean(axis=0), np.zeros(n_classes)
    total = logs + scale * added
    for _ in range(MOST_STEPS):
        chances = np.exp(log_softmax(total + offsets))
        now = chances.mean(axis=0)
        if np.abs(now - shares).max() < 1e-7:
            break
        # Newton's step; the ridge settles the sum of the offsets, which means nothing
        curvature = np.diag(now) - chances.T @ chances / n_rows + np.eye(n_classes) / 1e4
        offsets += np.clip(np.linalg.solve(curvature, shares - now), -1.0, 1.0)
    return Calibration(1.0, offsets - offsets.mean())
