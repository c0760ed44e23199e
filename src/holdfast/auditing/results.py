"""The result of an audit: one finding for each feature, and the sentences about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.stable.findings import Finding

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 4  # environments that a sentence names


@dataclass(frozen=True)
class Audit:
    """Every feature, the most probable change first.

    Attributes
    ----------
    findings : tuple of Finding
    environments : tuple of str
    level : float
        Family-wise error rate of `differing`.
    n_tests : int
        Columns that were looked at; a column and its missing values count once.
    """

    findings: tuple[Finding, ...]
    environments: tuple[str, ...]
    level: float
    n_tests: int

    @property
    def named(self) -> tuple[str, ...]:
        """Features whose relation with the label changes with a probability of at least one half."""
        return tuple(finding.feature for finding in self.findings if finding.named)

    @property
    def differing(self) -> tuple[str, ...]:
        """Features whose effects differ by a test at `level`, whatever may explain it."""
        return tuple(finding.feature for finding in self.findings if finding.p_value < self.level)

    def best(self, feature: str) -> Finding:
        """Return the finding about `feature`."""
        for finding in self.findings:
            if finding.feature == feature:
                return finding
        raise KeyError(feature)

    def sentences(self) -> tuple[str, ...]:
        """Return the answer, then one sentence for each named feature and for each that differs for another reason."""
        named = [finding.sentence for finding in self.findings if finding.named]
        others = [finding.sentence for finding in self.findings if not finding.named and finding.p_value < self.level]
        return (self.answer, *named, *others)

    @property
    def unchanged(self) -> dict[str, float]:
        """Probabilities of a change of the features that are not named; a column and its missing values are one.

        Examples
        --------
        >>> found = [Finding(name, p) for name, p in (("age is missing", 0.2), ("age", 0.1), ("sex", 0.0))]
        >>> Audit(tuple(found), ("a", "b"), 0.05, 2).unchanged
        {'age': 0.2, 'sex': 0.0}
        """
        features = {finding.feature for finding in self.findings}
        found: dict[str, float] = {}
        for finding in self.findings:  # most probable first
            column = finding.feature.removesuffix(" is missing")
            name = column if column in features else finding.feature
            if not finding.named and name not in self.named:
                found.setdefault(name, finding.probability)
        return found

    @property
    def answer(self) -> str:
        """What the audit says, in one sentence."""
        if self.named:
            names = listed([f"`{name}`" for name in self.named], most=MOST_SHOWN)
            differ = f"The effect of {names} differs" if len(self.named) == 1 else f"The effects of {names} differ"
            return f"{differ} between sites ({len(self.named)} of {self.n_tests:,} columns)."
        sites = listed(list(self.environments), most=MOST_SHOWN)
        largest = max((finding.probability for finding in self.findings), default=0.0)
        return (
            f"None of {self.n_tests:,} columns is likely to have an effect that differs between {sites} "
            f"(largest probability {largest:.2f})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain values."""
        return {
            "answer": self.answer,
            "named": list(self.named),
            "differing": list(self.differing),
            "environments": list(self.environments),
            "level": self.level,
            "n_tests": self.n_tests,
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
