"""The finding about one feature, as a value and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.stable.columns import Columns
from holdfast.stable.decision import reason_for
from holdfast.stable.design import Design
from holdfast.stable.hypotheses import Posterior

if TYPE_CHECKING:
    from holdfast.stable.gaussian import NumberDesign

LIKELY = 0.5  # probability from which on a relation is said to change
COVERED = 0.8  # of the prediction interval for the next environment
REASONS: Mapping[str, str] = {
    "weak_evidence": "the evidence is weak",
    "label_noise": "noisier labels at some sites would explain it",
    "small_change": "the change is too small to act on",
    "part_of_mechanism": "other columns predict it, as they do when it is part of one mechanism",
    "bend_or_product": "a curved effect or an interaction that is the same at every site would explain it",
}
OF_SEVERAL = {"part_of_mechanism": "other columns predict them, as they do when they are part of one mechanism"}


@dataclass(frozen=True)
class Finding:
    """One feature: whether its relation with the label changes between environments, and how.

    Attributes
    ----------
    feature : str
    probability : float
        That its relation with the label changes between environments.
    p_value : float
        Of the test of equal effects, adjusted for the number of features.
    reason : str
        Why a relation that seems to differ is not said to change: a key of `REASONS`, or empty.
    is_input : bool
        False for an attribute that classifiers do not see.
    label : str
        The class that the effects are about.
    effects, errors : mapping of str to float
        Effect and standard error in each environment: log-odds of the label for one standard deviation of the feature.
        For a label that is a number: how much larger it is.
    mean, spread : float
        Mean effect, and its standard deviation between environments without the sampling error.
    low, high : float
        Prediction interval for the effect at the next environment (80 %).
    is_number : bool
        Whether the label is a number.
    level : str
        Of a category with two values, the one that the effects are about.
    has_direction : bool
        Whether the effects are about larger values and one class. False for categories with several values, and for
        labels with several classes: there a positive effect says that the feature predicts the label as usual.
    """

    feature: str
    probability: float = 0.0
    p_value: float = 1.0
    reason: str = ""
    is_input: bool = True
    label: str = ""
    effects: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    mean: float = float("nan")
    spread: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    is_number: bool = False
    level: str = ""
    has_direction: bool = True

    @property
    def named(self) -> bool:
        """Whether the relation is said to change."""
        return self.probability >= LIKELY

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.effects:
            return f"`{self.feature}`: other columns predict it, so its effects were not compared."
        order = sorted(self.effects, key=lambda name: self.effects[name])
        weakest, strongest = order[0], order[-1]
        if self.mean < 0:
            weakest, strongest = strongest, weakest
        what = f"{self.level!r}" if self.level else "a higher value"
        hardly = abs(self.effects[weakest]) < min(
            abs(self.effects[strongest]) / 4, 2 * self.errors.get(weakest, np.inf)
        )
        raises = "raises" if self.mean >= 0 else "lowers"
        odds = self.label if self.is_number else f"the odds of {self.label}"
        if not self.has_direction:
            less = "misleading" if self.effects[weakest] < 0 else "hardly seen" if hardly else "weaker"
            how = f"it is strongest in {strongest}, and {less} in {weakest}"
        elif self.effects[weakest] * self.effects[strongest] < 0:
            how = f"{what} {raises} {odds} in {strongest}, and does the opposite in {weakest}"
        elif hardly:
            how = f"{what} {raises} {odds} in {strongest}, and hardly in {weakest}"
        else:
            how = f"{what} {raises} {odds}, more so in {strongest} than in {weakest}"
        if self.named:
            return f"The effect of `{self.feature}` differs between sites (probability {self.probability:.2f}): {how}."
        why = REASONS.get(self.reason, "")
        return f"`{self.feature}` is not said to change (probability {self.probability:.2f}): {why or how}."

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return {"feature": self.feature, "named": self.named, **asdict(self), "sentence": self.sentence}


def find(
    columns: Columns,
    design: Design | NumberDesign,
    posteriors: Sequence[Posterior],
    classes: NDArray[Any],
    environments: Sequence[str],
    sites: NDArray[np.intp],
) -> dict[str, Finding]:
    """Return the finding of each feature that was looked at, the most probable change first.

    `sites` are the codes of the environments of all rows, before small ones were pooled.
    """
    names, n_features = columns.features(), len(design.features)
    firsts = np.unique(sites, return_index=True)[1]
    pooled = design.sites[firsts]  # for each environment its pool
    label = str(classes[1]) if len(classes) == 2 else "its class"
    found: dict[str, Finding] = {}
    order = sorted(range(n_features), key=lambda place: -posteriors[place].probability)
    for place in order:
        feature, posterior = design.features[place], posteriors[place]
        name = names[feature[0]]
        is_one_of_two = len(columns.groups.get(name, ())) == 1
        mean, spread, p_value = summarize(posterior)
        half = float(special.stdtrit(max(design.n_sites - 1, 1), (1 + COVERED) / 2)) * np.hypot(
            spread, spread / np.sqrt(design.n_sites)
        )
        found[name] = Finding(
            name,
            posterior.probability,
            min(p_value * n_features, 1.0),
            _reason(posterior),
            bool(columns.inputs[feature[0]]),
            label,
            dict(zip(environments, posterior.by_site[pooled].tolist(), strict=True)),
            dict(zip(environments, posterior.errors[pooled].tolist(), strict=True)),
            mean,
            spread,
            float(mean - half),
            float(mean + half),
            level=columns.names[feature[0]].removeprefix(f"{name}=") if is_one_of_two else "",
            has_direction=len(classes) <= 2 and len(feature) == 1,  # a number has no classes
        )
    return found


def _reason(posterior: Posterior) -> str:
    """Return why a relation is not said to change; none where it is."""
    return "" if posterior.probability >= LIKELY else reason_for(posterior)


def summarize(posterior: Posterior) -> tuple[float, float, float]:
    """Return mean effect, standard deviation between sites, and the p value of equal effects (Cochran's Q)."""
    effects, variances = posterior.by_site, posterior.errors**2
    weights = 1 / variances
    mean, degrees = float(np.average(effects, weights=weights)), len(effects) - 1
    statistic = float(weights @ (effects - mean) ** 2)
    scale = float(weights.sum() - (weights @ weights) / weights.sum())
    between = max(0.0, (statistic - degrees) / max(scale, 1e-12))  # DerSimonian and Laird
    weights = 1 / (variances + between)
    mean = float(np.average(effects, weights=weights))
    return mean, float(np.sqrt(between)), float(special.chdtrc(max(degrees, 1), statistic))
