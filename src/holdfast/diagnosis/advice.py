"""What to do: a table of rules, of which the first that applies decides.

The order is the argument. Wrong data comes before any model; a column whose effect differs between sites before the
order of effort; too few rows before what those rows seem to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from holdfast.diagnosis.soundness import Problem
    from holdfast.diagnosis.values import Diagnosis, Remedy, SiteDiagnosis
    from holdfast.stable.verdict import Verdict

Action = Literal["keep", "recalibrate", "repair", "stable", "collect"]
State = Literal["breaks", "miscalibrated", "holds", "unclear"]
Oddity = Literal["labels", "rates"]
BREAKS, BREAKS_ONE = 0.01, 0.03  # accuracy lost for sure, over all sites or at one, from which on a model breaks
WIDER = 1.3  # half widths of an interval, where one of several sites or changes is picked
MATTERS = 0.05  # a loss of accuracy that nobody would overlook
GIVEN_UP = 0.5  # share of a column's effect that is kept at most, where the column is told whatever it saves
SAVES = 0.005  # accuracy, or AUROC, that the stable classifier must save before it is advised
LEAST_AREA = 0.6  # AUROC at known sites below which a model is of little use
WORTH = 0.02  # gain of log loss from which on a remedy is worth its trouble


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the advice depends on.

    Attributes
    ----------
    state : "breaks", "miscalibrated", "holds", "unclear" or None
        How an ordinary model does at sites left out; None where that was not tried.
    data_is_wrong : bool
        Whether a check of the data comes before any verdict.
    is_unstable : bool
        Whether the stable classifier uses less of some column.
    drifts : bool
        Whether a model of the past surely loses accuracy in the future.
    odd_site : "labels", "rates" or None
        What sets one site apart from all others: its labels look wrong, or its classes are more or less frequent.
    remedy : action or None
        The change of least effort that surely helps at sites left out.
    tells_nothing : bool
        Whether a model of these columns is surely no better than chance, even at sites that it has seen.
    """

    state: State | None = None
    data_is_wrong: bool = False
    is_unstable: bool = False
    drifts: bool = False
    odd_site: Oddity | None = None
    remedy: Action | None = None
    tells_nothing: bool = False


@dataclass(frozen=True)
class Rule:
    """If `applies`, then `action`, because of `evidence`; `command` is what to run next."""

    key: str
    applies: Callable[[Facts], bool]
    action: Action
    evidence: str
    command: tuple[str, ...]

    def to_dict(self) -> dict[str, str]:
        """Return plain JSON values."""
        return {"rule": self.key, "action": self.action, "evidence": self.evidence}


FIT, AGAIN = ("fit",), ("diagnose",)  # `fit` decides itself: where no column is unstable it fits the ordinary model
RULES = (
    Rule("wrong_data", lambda f: f.data_is_wrong, "repair", "a check of the data", AGAIN),
    Rule("unstable", lambda f: f.is_unstable, "stable", "the stable classifier keeps less of a column", FIT),
    Rule("drift", lambda f: f.drifts, "collect", "accuracy of a model of the past", FIT),
    Rule("odd_labels", lambda f: f.odd_site == "labels", "repair", "AUROC at one site against the others", AGAIN),
    Rule("tells_nothing", lambda f: f.tells_nothing, "collect", "AUROC at sites that the model has seen", AGAIN),
    Rule("few_rows", lambda f: f.state == "unclear", "collect", "width of the interval of accuracy lost", AGAIN),
    Rule("odd_column", lambda f: f.remedy == "repair", "repair", "gain at sites left out without it", AGAIN),
    Rule("odd_rates", lambda f: f.odd_site == "rates", "recalibrate", "events at one site, expected and seen", FIT),
    Rule("calibration", lambda f: f.remedy == "recalibrate", "recalibrate", "gain at sites left out with labels", FIT),
    Rule("site_rows", lambda f: f.remedy == "collect", "collect", "gain at sites left out with rows of them", FIT),
    Rule("breaks", lambda f: f.state == "breaks", "collect", "accuracy lost at sites left out", FIT),
    Rule("holds", lambda f: True, "keep", "no change surely gains at sites left out", FIT),
)


def decide(facts: Facts) -> Rule:
    """Return the first rule that applies.

    Examples
    --------
    >>> decide(Facts(state="breaks", is_unstable=True, remedy="collect")).action
    'stable'
    >>> decide(Facts(state="holds")).key
    'holds'
    """
    return next(rule for rule in RULES if rule.applies(facts))


def decide_early(problems: Sequence[Problem], verdict: Verdict | None) -> Rule:
    """Return the rule that applies before any site was left out: what `fit`, `compare` and `audit` know.

    Where it is wrong data or an unstable column, `diagnose` says the same.
    """
    return decide(
        Facts(
            data_is_wrong=any(problem.is_headline for problem in problems),
            is_unstable=is_unstable(verdict),
        )
    )


def is_unstable(verdict: Verdict | None) -> bool:
    """Return whether a column is used by half or less, or less in a way that saves something where it turns.

    Of a network, whether the verdict found that it relies on something unstable, and acted on it.
    """
    if verdict is None or verdict.fitted == "ordinary":
        return False
    if verdict.network is not None:
        return verdict.network.outcome == "unstable"
    if min(verdict.kept[finding.feature] for finding in verdict.acted_on) <= GIVEN_UP:
        return True
    if verdict.auroc:
        _, gone, turned = verdict.auroc.values()
        return max(gone.fitted - gone.ordinary, turned.fitted - turned.ordinary) >= SAVES
    return max(verdict.gain) >= SAVES


def mending_options(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return the words of a command that mend what can be mended by options.

    Examples
    --------
    >>> from holdfast.diagnosis.soundness import Problem
    >>> mending_options([Problem("leak", "stop", "code", options=("--drop", "code")), Problem("copied_rows", "repair")])
    ('--drop', 'code')
    """
    found = [problem.options for problem in problems if problem.is_headline]
    pairs = dict.fromkeys(pair for words in found for pair in zip(words[::2], words[1::2], strict=True))
    return tuple(word for pair in sorted(pairs, key=lambda pair: pair[0] == "--drop") for word in pair)


@dataclass(frozen=True)
class Recommendation:
    """What to do, why, and how sure that is."""

    action: Action
    sentence: str
    reason: str
    sure: str
    columns: tuple[str, ...] = ()  # that it is about
    site: str = ""  # where rows are needed
    how: str = ""  # what to do besides the command that follows
    command: tuple[str, ...] = ()  # to run next
    options: tuple[str, ...] = ()  # of that command, which mend the data
    rule: str = ""  # the key of the rule that applied


def state_of(found: Diagnosis, collect: Remedy) -> State:
    """Return whether the model breaks at new sites."""
    lost, at_one = found.lost, max(map(surely_lost, found.large))
    areas = [(site.known.auroc, site.new.auroc) for site in found.ranked if found.by_rank]
    lost_rank = any(known.low > new.high and known.value - new.value > MATTERS for known, new in areas)
    if lost.low > BREAKS or at_one > BREAKS_ONE or lost_rank or (found.later is not None and found.later.breaks):
        return "breaks"
    if collect.is_sure:
        return "miscalibrated"
    score = found.new_score
    return "unclear" if lost.high > MATTERS or score.high - score.value > MATTERS else "holds"


def surely_lost(site: SiteDiagnosis) -> float:
    """Return the accuracy that is surely lost at a site, where the worst of several sites is looked at."""
    return site.lost.value - WIDER * (site.lost.value - site.lost.low)


def facts_of(found: Diagnosis) -> Facts:
    """Return what the advice depends on."""
    best = best_remedy(found)
    return Facts(
        state=found.state,
        data_is_wrong=bool(found.blocking),
        is_unstable=is_unstable(found.verdict),
        drifts=found.later is not None and found.later.breaks,
        odd_site=found.odd_sites[0].kind if found.odd_sites else None,
        remedy=None if best is None else best.action,
        tells_nothing=tells_nothing(found),
    )


def tells_nothing(found: Diagnosis) -> bool:
    """Return whether the AUROC at sites that the model has seen is no more than chance, and surely low."""
    known = found.known_area
    return known is not None and known.low <= 0.5 and known.high < LEAST_AREA


def best_remedy(found: Diagnosis) -> Remedy | None:
    """Return the change of least effort that brings at least half of what the best one brings, if it is sure."""
    new, known = found.areas
    ranks = not known - new > MATTERS  # a lost ranking is not mended by other probabilities
    sure = [remedy for remedy in found.remedies if remedy.is_sure and (ranks or remedy.action != "recalibrate")]
    good = [remedy for remedy in sure if remedy.gain.value >= 0.5 * max(other.gain.value for other in sure)]
    effort = ("repair", "stable", "recalibrate", "collect")
    return min(good, key=lambda remedy: (effort.index(remedy.action), -remedy.gain.value), default=None)
