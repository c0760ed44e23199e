"""What an audit found: findings, the sentences they make, and what stands in the way of finding more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from holdfast.environments import listed

if TYPE_CHECKING:
    import pandas as pd

ANY_LABEL = "the label"  # of a group of columns: all labels together
SHARPNESS = "noisier labels"  # stands for a change that all features share


@dataclass(frozen=True)
class Finding:
    """One column, one partition, one label: its correlations and what they are worth."""

    feature: str
    judge: str
    judged: str
    label: str
    environment_correlation: float  # with the label, in the whole judged environment
    correct_soft: float  # in the half the judge gets right, weighted by its probability of being right
    mistaken_soft: float  # in the half the judge gets wrong; 0, up to noise, if nothing changes
    correct_hard: float  # among rows predicted correctly: what the paper's pictures show
    mistaken_hard: float  # among rows predicted wrongly; every feature the judge uses flips here
    home_mistaken_soft: float  # the control: the same half of the judge's own rows, out of fold
    flip_score: float  # mistaken_soft − home_mistaken_soft
    statistic: float  # contrast of the two, in standard errors
    p_value: float
    q_value: float  # corrected for everything else that was tested
    named: bool  # a discovery that no stronger one explains
    explained_by: str | None  # the named feature that explains this discovery
    is_input: bool  # whether the judges saw the feature

    @property
    def sentence(self) -> str:
        """The finding in words."""
        label = self.label if self.label == ANY_LABEL else f"*{self.label}*"
        start = (
            f"In {self.judged}, `{self.feature}` predicts {label} at {self.correct_soft:+.2f} among rows that "
            f"{self.judge}'s model gets right and {self.mistaken_soft:+.2f} among those it gets wrong"
        )
        if self.named:
            return f"{start} ({self.home_mistaken_soft:+.2f} if nothing had changed; q {_q(self.q_value)})."
        if self.explained_by is not None:
            return f"{start}, which `{self.explained_by}` explains."
        return f"{start}: no evidence of a change (q {_q(self.q_value)})."

    @property
    def flips(self) -> bool:
        """Whether the correlation has opposite signs in the two halves."""
        return self.correct_soft * self.mistaken_soft < 0


@dataclass(frozen=True)
class PartitionEvidence:
    """How much one partition can tell."""

    judge: str
    judged: str
    alpha: float  # share of the judged environment that the judge is expected to get right
    correct_size: float  # effective rows of the soft correct half
    mistaken_size: float  # effective rows of the soft mistaken half
    detectable: float  # change of correlation in the mistaken half that would have been named; NaN where not tested
    problem: str | None  # why it cannot tell anything, None where it can
    remark: str | None = None  # what to keep in mind though it was tested


@dataclass(frozen=True)
class Audit:
    """Every finding, the named ones first, each part by flip score.

    Attributes
    ----------
    findings : tuple of Finding
    partitions : tuple of PartitionEvidence
    level : float
        Chance that anything is named wrongly, see `correction` of `audit_data`.
    n_tests : int
        Hypotheses: columns, or groups of columns such as a category's values, and that of noisier labels.
    sharpness : str or None
        A sentence where all correlations shrink or grow together, as noisier labels make them.
    """

    findings: tuple[Finding, ...]
    partitions: tuple[PartitionEvidence, ...]
    level: float
    n_tests: int
    sharpness: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Features whose correlation with the label changes between environments, strongest evidence first."""
        strongest = sorted((f for f in self.findings if f.named), key=lambda f: -abs(f.statistic))
        return tuple(dict.fromkeys(finding.feature for finding in strongest))

    def best(self, feature: str) -> Finding:
        """Return the finding that tells most about `feature`: a named one, one whose sign flips, the strongest."""
        about = [finding for finding in self.findings if finding.feature == feature]
        if not about:
            raise KeyError(feature)
        return max(about, key=lambda finding: (finding.named, finding.flips, abs(finding.statistic)))

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each named feature, then what it explains, then the state of the evidence."""
        lines = []
        for feature in self.named:
            lines.append(self.best(feature).sentence)
            if followers := self._explained_by(feature):
                lines.append(f"`{feature}` explains what {listed(followers)} would show alone.")
        return (*lines, *self.evidence)

    @property
    def evidence(self) -> tuple[str, ...]:
        """What can and cannot be concluded, in sentences; never empty."""
        tested = [partition for partition in self.partitions if partition.problem is None]
        lines = []
        if not tested:
            lines.append("No evidence either way: no pair of environments could be compared.")
        elif not self.named and self.sharpness is not None:
            lines.append(
                f"No feature is named: none of {self.n_tests} hypotheses shows a change of its own at level "
                f"{self.level:g}, beside one that they share."
            )
        elif not self.named:
            smallest = min((finding.q_value for finding in self.findings), default=1.0)
            lines.append(
                "No evidence that anything changes between the environments: "
                f"none of {self.n_tests} hypotheses is a discovery at level {self.level:g} (smallest q {_q(smallest)})"
                ". With so many rows, a change of correlation among mistaken rows below about "
                f"{min(partition.detectable for partition in tested):.2f} would not be seen."
            )
        else:
            lines.append(f"Named: {len(self.named)} of {self.n_tests} hypotheses tested, at level {self.level:g}.")
        if self.sharpness is not None:
            lines.append(self.sharpness)
            if followers := self._explained_by(SHARPNESS):
                lines.append(
                    f"It explains what {listed(followers)} would show alone. Where labels are as reliable in one place "
                    "as in the other, it is these that changed."
                )
        for partition in self.partitions:
            if said := partition.problem or partition.remark:
                lines.append(f"{partition.judged} judged by {partition.judge}: {said}")
        return tuple(lines)

    def _explained_by(self, feature: str) -> list[str]:
        """Return the features that would be discoveries but for this one, in quotes."""
        return list(dict.fromkeys(f"`{f.feature}`" for f in self.findings if f.explained_by == feature and not f.named))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each finding."""
        import pandas as pd

        columns = [field.name for field in fields(Finding)]
        rows = [[getattr(finding, column) for column in columns] + [finding.sentence] for finding in self.findings]
        return pd.DataFrame(rows, columns=[*columns, "sentence"])


def sort_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the named ones first, each part by the size of the flip score; unknown ones last."""

    def order(finding: Finding) -> tuple[bool, bool, float]:
        known = finding.flip_score == finding.flip_score
        return not finding.named, not known, -abs(finding.flip_score) if known else 0.0

    return tuple(sorted(findings, key=order))


def _q(value: float) -> str:
    """Write a q value, with its sign."""
    return "unknown" if value != value else "< 0.001" if value < 0.001 else f"= {value:.3f}"
