"""The verdict: how much of an unstable column's effect is used, why, what it costs and what it saves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from holdfast.audit.effects import CLEAR, FAINT, Effect, rising
from holdfast.audit.results import Finding, format_p
from holdfast.environments import listed
from holdfast.metrics import Interval

# How much of a named effect is given up rises smoothly with four things, each between 0 and 1:
LEVEL, SURE = 0.05, 0.005  # the adjusted p value at which evidence begins to count, and at which it counts in full
LARGE = 0.1, 0.2  # a lead that is such a share of the other statistic needs not rise with the number of environments
HALF_SIZE, STEEPNESS = 0.14, 6  # size of the change that counts half; how fast it rises
# Variance of a column that others explain, from which on its interval and what the classifier knows count; in full:
SHARED = 0.0, 0.02
MOST_LEVELS = 3  # classifiers that do without some columns
UNCERTAIN = 0.2  # accuracy that the next environment may lack, from which on the answer is no good news
APART = 0.1  # kept shares that differ by less belong to one level
RARE = 0.9  # share of the most frequent label from which on accuracy says little, and AUROC is said too
DOUBTS = {
    "evidence": "the evidence is too weak to act on",
    "own": "labels that are noisier somewhere would explain it as well",
    "size": "the change is too small to act on",
    "turns": "most of the effect is to be expected at a new environment too",
    "known": "the classifier can predict that from other columns",
}
USED_UP, WHOLE = 0.1, 0.9  # used shares up to which a column is given up; from which on it is no reason for anything


def kept_share(effect: Effect) -> float:
    """Return how much of a named column's effect is used, between 0 and 1.

    What is given up is evidence × not merely noisier labels × size of the change × what may turn, each rising smoothly
    from 0 to 1. Less than a tenth is not given up at all. Of a column that others predict, no more is given up than
    what the ordinary classifier cannot tell from them.
    """
    kept = _kept_by_itself(effect)
    if effect.unexplained is None:
        return kept
    return kept + float(rising(effect.shared, *SHARED)) * max(0.0, _kept_by_itself(effect.unexplained) - kept)


def _kept_by_itself(effect: Effect) -> float:
    """Return how much of an effect is used, whatever the ordinary classifier knows."""
    return 1.0 - max(0.0, (math.prod(_grounds(effect).values()) - (1 - WHOLE)) / WHOLE)


def doubt_about(effect: Effect) -> str:
    """Return why a column is used although it changes: the weakest ground for giving it up, a key of `DOUBTS`."""
    if effect.unexplained is not None and _kept_by_itself(effect) < WHOLE:  # what the classifier knows is the reason
        rest = _grounds(effect.unexplained)
        return "own" if rest["own"] < rest["evidence"] else "known"
    grounds = _grounds(effect)
    return min(grounds, key=grounds.__getitem__)


def _grounds(effect: Effect) -> dict[str, float]:
    """Return four grounds for giving a column up, each between 0 and 1.

    A column that only depends on the label may turn altogether. One that others predict is a part of what they tell:
    what its prediction interval supports is kept.
    """
    evidence = float(np.clip(np.log(LEVEL / max(effect.p_value, 1e-300)) / np.log(LEVEL / SURE), 0.0, 1.0))
    own = _blamed(effect.statistic - effect.rival, effect.rival, len(effect.by_environment))
    power = effect.size**STEEPNESS
    turns = 1.0 - float(rising(effect.shared, *SHARED)) * effect.supported
    return {"evidence": evidence, "own": own, "size": power / (power + HALF_SIZE**STEEPNESS), "turns": turns}


def is_given_up(effect: Effect) -> bool:
    """Return whether the classifier does without most of a named effect, so that other columns may stand in for it."""
    return kept_share(effect) < 0.5


def fitted_as(used: Sequence[float]) -> Literal["ordinary", "partly", "stable"]:
    """Return what a classifier is that uses so much of each column that changes.

    Examples
    --------
    >>> fitted_as([0.02, 1.0]), fitted_as([0.02, 0.5]), fitted_as([1.0])
    ('stable', 'partly', 'ordinary')
    """
    most = max((used[place] for place in _reasons(used)), default=1.0)
    return "ordinary" if most == 1.0 else "stable" if most <= USED_UP else "partly"


def _reasons(used: Sequence[float]) -> list[int]:
    """Return which columns are the reason of a verdict: those of which clearly less is used; else less; else all."""
    for limit in (WHOLE, 1.0):
        if below := [place for place, share in enumerate(used) if share < limit]:
            return below
    return list(range(len(used)))


def _blamed(lead: float, rival: float, n_environments: int) -> float:
    """Return how clearly a column's change explains more than noisier labels, between 0 and 1.

    The more environments, the more both statistics vary: as the root of their degrees of freedom.
    """
    for_many = rising(lead - FAINT * (math.sqrt(n_environments - 1) - 1), FAINT, CLEAR)
    return float(min(rising(lead, FAINT, CLEAR), max(for_many, rising(lead / max(rival, 1e-9), *LARGE))))


def _cancels(finding: Finding) -> bool:
    """Return whether a column's effects go both ways, so that little is left of them over all environments."""
    effects = list(finding.effects.values())
    return bool(effects) and min(effects) < 0 < max(effects) and abs(finding.mean) < 0.25 * max(map(abs, effects))


def says_little(share: float) -> str:
    """Say that accuracy tells little, where such a share of the rows has the same label.

    Examples
    --------
    >>> says_little(0.984), says_little(0.9996)[:6]
    ('98.4% of the rows have the same label, so accuracy says little', '99.9% ')
    """
    return f"{min(100 * share, 99.9):.3g}% of the rows have the same label, so accuracy says little"


def removal_levels(kept: Sequence[float]) -> list[tuple[float, tuple[int, ...]]]:
    """Return nested sets of columns to do without, each with its weight in the mixture; the first has none.

    Weights sum to one, and a column is seen by parts of the mixture that weigh about its kept share.

    Examples
    --------
    >>> [(round(weight, 2), columns) for weight, columns in removal_levels([0.2, 1.0, 0.7])]
    [(0.2, ()), (0.5, (0,)), (0.3, (0, 2))]
    """
    order = [i for i in np.argsort(kept, kind="stable").tolist() if kept[i] < 1.0]
    if not order:
        return [(1.0, ())]
    groups = [[order[0]]]
    for i in order[1:]:
        if len(groups) < MOST_LEVELS and kept[i] - kept[groups[-1][0]] > APART:
            groups.append([i])
        else:
            groups[-1].append(i)
    shares = [float(np.mean([kept[i] for i in group])) for group in groups] + [1.0]
    levels: list[tuple[float, tuple[int, ...]]] = [(shares[0], ())]
    removed: list[int] = []
    for group, (share, upper) in zip(groups, zip(shares, shares[1:], strict=False), strict=True):
        removed = [*removed, *group]
        levels.append((upper - share, tuple(removed)))
    return levels


@dataclass(frozen=True)
class Accuracy:
    """Accuracy, or AUROC, of the ordinary classifier and of the fitted one, out of fold, mean over environments."""

    ordinary: float
    fitted: float


@dataclass(frozen=True)
class Verdict:
    """What was fitted, why, what it costs and what it saves.

    Attributes
    ----------
    fitted : "ordinary", "partly" or "stable"
        The ordinary classifier; one that uses less of the unstable columns; one that uses (almost) nothing of them.
    columns : tuple of Finding
        The columns whose relation with the label changes between environments, with effects by environment and the
        prediction interval for the next one.
    kept : mapping of str to float
        How much of each of these columns' effect is used.
    price : Interval
        Accuracy lost at environments like the known ones, out of fold.
    known, vanished, reversed : Accuracy
        Accuracy now; if the columns' relation with the label vanishes; if it reverses. The latter two are a test on
        the same rows with the columns shuffled, or exchanged between labels, inside each environment.
    forecast : Interval
        Accuracy of the fitted classifier to expect at the next environment.
    by_environment : mapping of str to Accuracy
        Empty where there was one environment only, so that nothing could be compared.
    chance : float
        Accuracy of always predicting the most frequent label.
    p_value : float
        Smallest adjusted p value of any column.
    n_tests : int
        Columns that were tested; a column and its missing values count once.
    auroc : mapping of str to Accuracy
        AUROC in place of accuracy, for "known", "vanished" and "reversed", where nine rows in ten or more have the same
        label, so that accuracy says little; else empty.
    doubts : mapping of str to str
        Why a column is used although it changes: "evidence" (weak), "own" (noisier labels would explain it as well),
        "size" (of the change), "turns" (other columns predict it, and most of its effect is expected to hold) or
        "known" (the classifier can predict the change from other columns).
    noisier : bool
        Whether all relations are weaker in some environments, as noisier labels would make them.
    expect, strength
        As asked for; with `expect="as_seen"`, the strength that leaving environments out supports.
    """

    fitted: Literal["ordinary", "partly", "stable"]
    columns: tuple[Finding, ...]
    kept: Mapping[str, float]
    price: Interval
    known: Accuracy
    vanished: Accuracy
    reversed: Accuracy
    forecast: Interval
    by_environment: Mapping[str, Accuracy] = field(default_factory=dict)
    chance: float = float("nan")
    p_value: float = 1.0
    n_tests: int = 0
    auroc: Mapping[str, Accuracy] = field(default_factory=dict)
    noisier: bool = False
    expect: str = "may_turn"
    strength: float = 1.0
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def gain(self) -> tuple[float, float]:
        """Accuracy saved if the columns' relation with the label vanishes, and if it reverses."""
        return self.vanished.fitted - self.vanished.ordinary, self.reversed.fitted - self.reversed.ordinary

    @property
    def acted_on(self) -> tuple[Finding, ...]:
        """The columns that are the reason of the verdict: those of which less is used, or all that change.

        The least used come first; of those that are used alike (to a tenth) the ones with the strongest evidence.
        """
        used = [self.kept[found.feature] for found in self.columns]
        return tuple(self.columns[place] for place in sorted(_reasons(used), key=lambda place: round(used[place], 1)))

    def __str__(self) -> str:
        return " ".join([self.answer, *self.remarks])

    @property
    def answer(self) -> str:
        """What was fitted and why, in one sentence."""
        if not self.by_environment:
            return "Ordinary classifier: there is only one environment, so whether it holds at others is not known."
        if not self.columns:
            what = "its one column" if self.n_tests == 1 else f"any of {self.n_tests:,} columns"
            return (
                f"Ordinary classifier: no evidence that {what} means something else in one "
                f"environment than in another (smallest adjusted p {format_p(self.p_value)})."
            )
        columns = self.acted_on
        names = listed([f"`{finding.feature}`" for finding in columns], most=3)
        verb, they = ("does", "it is") if len(columns) == 1 else ("do", "they are")
        largest = format_p(max(finding.p_value for finding in columns))
        p = largest if len(columns) == 1 else largest.replace("=", "≤")
        why = f"{names} {verb} not mean the same in every environment (p {p})"
        if self.fitted == "ordinary":
            reason = self._doubts(columns)
            if all(_cancels(finding) for finding in columns):
                says = "it says" if len(columns) == 1 else "they say"
                reason = f"taken over all environments {says} next to nothing, so there is nothing to give up"
            if self.strength == 0:
                reason = "strength is 0"
                if self.expect == "as_seen":
                    reason = "with environments left out in turn, to use less of it did not help"
            return f"Ordinary classifier: {why}, but {reason}."
        if self.fitted == "stable":
            return f"Stable classifier: {why}, so {they} not used."
        used = f"{min(self.kept.values()):.0%} of its effect" if len(columns) == 1 else "only a part of their effects"
        return f"Partly stable classifier: {why}, so {used} is used."

    @property
    def remarks(self) -> tuple[str, ...]:
        """Price, gain and what else to know, a sentence each."""
        if not self.by_environment:
            return ()
        if self.fitted == "ordinary":
            weaker = "All relations are weaker in some environments, as noisier labels would make them."
            return (*[weaker] * self.noisier, *self._ranking, self._forecast)
        known, gone, turned = self.known, self.vanished, self.reversed
        lines = [
            f"Accuracy at known environments: {known.fitted:.3f} instead of {known.ordinary:.3f}.",
            f"If the relation vanishes: {gone.fitted:.3f} instead of {gone.ordinary:.3f}; "
            f"if it reverses: {turned.fitted:.3f} instead of {turned.ordinary:.3f}.",
            *self._ranking,
        ]
        score, nothing = (self.auroc["known"], 0.5) if self.auroc else (known, self.chance)
        skill, left = score.ordinary - nothing, score.fitted - nothing
        if skill > 0 and left < 0.1 * skill:
            without = "ranking rows at random" if self.auroc else "always predicting the most frequent label"
            lines.append(
                f"Almost nothing stable is left: without these columns the classifier is hardly better than {without}."
            )
        elif skill > 0 and left < 0.5 * skill:
            lines.append("More than half of the skill at known environments came from these columns.")
        small = [finding for finding in self.columns if finding not in self.acted_on]
        if small:
            names = listed([f"`{finding.feature}`" for finding in small], most=3)
            lines.append(f"{names} {'changes' if len(small) == 1 else 'change'} too, but {self._doubts(small)}.")
        lines.append(self._forecast)
        return tuple(lines)

    def _doubts(self, columns: Sequence[Finding]) -> str:
        """Say why columns that change are used."""
        doubts = {self.doubts.get(finding.feature, "size") for finding in columns}
        return ", or ".join(text for doubt, text in DOUBTS.items() if doubt in doubts)

    @property
    def _ranking(self) -> list[str]:
        """How well rows are ranked, where accuracy says little because nearly all have the same label."""
        if not self.auroc:
            return []
        known, gone, turned = self.auroc.values()
        text = f"{says_little(self.chance)}. AUROC at known environments: "
        if self.fitted == "ordinary":
            return [f"{text}{known.fitted:.3f}."]
        return [
            f"{text}{known.fitted:.3f} instead of {known.ordinary:.3f}; if the relation vanishes: {gone.fitted:.3f} "
            f"instead of {gone.ordinary:.3f}; if it reverses: {turned.fitted:.3f} instead of {turned.ordinary:.3f}."
        ]

    @property
    def is_uncertain(self) -> bool:
        """Whether accuracy at the next environment may be far below that at known ones."""
        return self.known.fitted - self.forecast.low > UNCERTAIN

    @property
    def _forecast(self) -> str:
        return f"Expect an accuracy of {self.forecast.low:.2f} to {self.forecast.high:.2f} at a new environment."

    def renamed(self, names: Mapping[str, str]) -> Verdict:
        """Return the verdict with other names for its columns."""
        columns = tuple(replace(found, feature=names.get(found.feature, found.feature)) for found in self.columns)
        kept = {names.get(name, name): share for name, share in self.kept.items()}
        doubts = {names.get(name, name): doubt for name, doubt in self.doubts.items()}
        return replace(self, columns=columns, kept=kept, doubts=doubts)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {
            "text": str(self),
            "fitted": self.fitted,
            "columns": [{**finding.to_dict(), "kept": self.kept[finding.feature]} for finding in self.columns],
            "price": self.price.to_dict(),
            "known": vars(self.known),
            "vanished": vars(self.vanished),
            "reversed": vars(self.reversed),
            "forecast": self.forecast.to_dict(),
            "by_environment": {name: vars(accuracy) for name, accuracy in self.by_environment.items()},
            "chance": self.chance,
            "p_value": self.p_value,
            "n_tests": self.n_tests,
            "auroc": {question: vars(areas) for question, areas in self.auroc.items()},
            "noisier": self.noisier,
            "doubts": dict(self.doubts),
            "expect": self.expect,
            "strength": self.strength,
        }
