"""What an audit found: a finding for each feature, and the sentences that say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 4  # environments that a sentence names


@dataclass(frozen=True)
class Finding:
    """One feature: whether its relation with the label changes between environments, and how.

    Effects are log-odds of the label for one standard deviation of the feature. They are measured for named features.
    """

    feature: str
    p_value: float  # adjusted for the number of features
    named: bool
    is_input: bool = True  # False for an attribute that classifiers do not see
    label: str = ""  # the class that the effects are about
    effects: Mapping[str, float] = field(default_factory=dict)  # by environment
    errors: Mapping[str, float] = field(default_factory=dict)  # standard errors
    mean: float = float("nan")
    spread: float = float("nan")  # standard deviation between environments, noise taken out
    low: float = float("nan")  # 80 % prediction interval for the next environment
    high: float = float("nan")
    level: str = ""  # of a category with two values the one that the effects are about

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.named:
            return f"`{self.feature}`: no evidence of a change (p {format_p(self.p_value)})."
        order = sorted(self.effects, key=lambda name: self.effects[name])
        weakest, strongest = order[0], order[-1]
        if self.mean < 0:
            weakest, strongest = strongest, weakest
        direction = "goes with" if self.mean >= 0 else "speaks against"
        it = self.level or "it"
        if self.effects[weakest] * self.effects[strongest] < 0:
            how = f"{it} {direction} {self.label} in {strongest}, and the other way in {weakest}"
        elif abs(self.effects[weakest]) < 0.25 * abs(self.effects[strongest]):
            how = f"{it} {direction} {self.label} in {strongest}, hardly in {weakest}"
        else:
            how = f"{it} {direction} {self.label} more strongly in {strongest} than in {weakest}"
        return f"`{self.feature}` does not mean the same everywhere: {how} (p {format_p(self.p_value)})."

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return {
            "feature": self.feature,
            "named": self.named,
            "p_value": self.p_value,
            "is_input": self.is_input,
            "label": self.label,
            "level": self.level,
            "effects": dict(self.effects),
            "errors": dict(self.errors),
            "mean": self.mean,
            "spread": self.spread,
            "low": self.low,
            "high": self.high,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Audit:
    """Every feature, the named ones first, by strength of evidence.

    Attributes
    ----------
    findings : tuple of Finding
    environments : tuple of str
    level : float
        Chance that anything is named where nothing changes.
    n_tests : int
        Columns that were tested; a column and its missing values count once.
    noisier : bool
        Whether all relations are weaker in some environments, as noisier labels would make them.
    """

    findings: tuple[Finding, ...]
    environments: tuple[str, ...]
    level: float
    n_tests: int
    noisier: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """Features whose relation with the label changes between environments, strongest evidence first."""
        return tuple(finding.feature for finding in self.findings if finding.named)

    def best(self, feature: str) -> Finding:
        """Return the finding about `feature`."""
        for finding in self.findings:
            if finding.feature == feature:
                return finding
        raise KeyError(feature)

    def sentences(self) -> tuple[str, ...]:
        """Return the answer, then one sentence for each named feature."""
        return (self.answer, *(finding.sentence for finding in self.findings if finding.named), *self._remarks())

    @property
    def unchanged(self) -> dict[str, float]:
        """Adjusted p values of the columns without evidence of a change; a column and its missing values are one.

        Examples
        --------
        >>> found = [Finding(name, p, named=False) for name, p in (("age is missing", 0.2), ("age", 0.7), ("sex", 1.0))]
        >>> Audit(tuple(found), ("a", "b"), 0.05, 2).unchanged
        {'age': 0.2, 'sex': 1.0}
        """
        features = {finding.feature for finding in self.findings}
        found: dict[str, float] = {}
        for finding in self.findings:  # strongest evidence first
            column = finding.feature.removesuffix(" is missing")
            name = column if column in features else finding.feature
            if not finding.named and name not in self.named:
                found.setdefault(name, finding.p_value)
        return found

    @property
    def answer(self) -> str:
        """What the audit says, in one sentence."""
        sites = listed(list(self.environments), most=MOST_SHOWN)
        if self.named:
            names = listed([f"`{name}`" for name in self.named], most=MOST_SHOWN)
            verb = "does" if len(self.named) == 1 else "do"
            return (
                f"{names} {verb} not mean the same in every environment ({len(self.named)} of {self.n_tests:,} tested)."
            )
        smallest = min((finding.p_value for finding in self.findings), default=1.0)
        return (
            f"No evidence that any of {self.n_tests:,} columns means something else in one of {sites} than in the "
            f"others (smallest adjusted p {format_p(smallest)})."
        )

    def _remarks(self) -> tuple[str, ...]:
        if not self.noisier:
            return ()
        return (
            "All relations are weaker in some environments than in others, as noisier labels would make them. Columns "
            "are named for what they show beyond that.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain values."""
        return {
            "answer": self.answer,
            "named": list(self.named),
            "environments": list(self.environments),
            "level": self.level,
            "n_tests": self.n_tests,
            "noisier": self.noisier,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each feature; effects and errors have a column for each environment."""
        import pandas as pd

        rows = []
        for finding in self.findings:
            facts = finding.to_dict()
            effects, errors = facts.pop("effects"), facts.pop("errors")
            for name in self.environments:
                facts[f"effect in {name}"] = effects.get(name, float("nan"))
                facts[f"error in {name}"] = errors.get(name, float("nan"))
            rows.append(facts)
        return pd.DataFrame(rows)


def format_p(value: float) -> str:
    """Write a p value with its sign.

    Examples
    --------
    >>> format_p(0.0004), format_p(0.0312)
    ('< 0.001', '= 0.031')
    """
    return "unknown" if value != value else "< 0.001" if value < 0.001 else f"= {value:.3f}"
