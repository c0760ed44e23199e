"""What to do: a table of rules, of which the first that applies decides.

The order is the argument. Wrong data comes before any model; a column whose effect differs between sites before the
order of effort; too few rows before what those rows seem to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.diagnosis.values import Diagnosis, Remedy

Action = Literal["keep", "recalibrate", "repair", "stable", "collect"]
State = Literal["breaks", "miscalibrated", "holds", "unclear"]
BREAKS, BREAKS_ONE = 0.01, 0.03  # accuracy lost for sure, over all sites or at one, from which on a model breaks
MATTERS = 0.05  # a loss of accuracy that nobody would overlook
WORTH = 0.02  # gain of log loss from which on a remedy is worth its trouble
SAVES = 0.005  # accuracy that the stable classifier must save before it is advised


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the advice depends on.

    Attributes
    ----------
    state : "breaks", "miscalibrated", "holds" or "unclear"
        How an ordinary model does at sites left out.
    data_is_wrong : bool
        Whether a check of the data comes before any verdict.
    is_unstable : bool
        Whether the stable classifier uses less of some column.
    drifts : bool
        Whether a model of the past surely loses accuracy in the future.
    remedy : action or None
        The change of least effort that surely helps at sites left out.
    """

    state: State
    data_is_wrong: bool = False
    is_unstable: bool = False
    drifts: bool = False
    remedy: Action | None = None


@dataclass(frozen=True)
class Rule:
    """If `applies`, then `action`, because of `evidence`; `command` is what to run next."""

    key: str
    applies: Callable[[Facts], bool]
    action: Action
    evidence: str
    command: tuple[str, ...]


FIT, FIT_STABLE, AGAIN = ("fit", "--method", "erm"), ("fit", "--method", "stable"), ("diagnose",)
RULES = (
    Rule("wrong_data", lambda f: f.data_is_wrong, "repair", "a check of the data", AGAIN),
    Rule("unstable", lambda f: f.is_unstable, "stable", "the stable classifier keeps less of a column", FIT_STABLE),
    Rule("drift", lambda f: f.drifts, "collect", "accuracy of a model of the past", FIT),
    Rule("few_rows", lambda f: f.state == "unclear", "collect", "width of the interval of accuracy lost", AGAIN),
    Rule("odd_column", lambda f: f.remedy == "repair", "repair", "gain at sites left out without it", AGAIN),
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


@dataclass(frozen=True)
class Recommendation:
    """What to do, why, and how sure that is."""

    action: Action
    sentence: str
    reason: str
    sure: str
    columns: tuple[str, ...] = ()  # to repair or drop
    missing: tuple[str, ...] = ()  # words of the table that mean "missing"
    site: str = ""  # where rows are needed
    how: str = ""  # what to do besides the command that follows
    command: tuple[str, ...] = ()  # to run next, with its method


def state_of(found: Diagnosis, collect: Remedy) -> State:
    """Return whether the model breaks at new sites."""
    wider = 1.3  # so many standard errors more, because the worst of several sites is looked at
    lost, at_one = found.lost, max(s.lost.value - wider * (s.lost.value - s.lost.low) for s in found.sites)
    areas = [(site.known.auroc, site.new.auroc) for site in found.ranked if found.by_rank]
    lost_rank = any(known.low > new.high and known.value - new.value > MATTERS for known, new in areas)
    if lost.low > BREAKS or at_one > BREAKS_ONE or lost_rank or (found.later is not None and found.later.breaks):
        return "breaks"
    if collect.is_sure:
        return "miscalibrated"
    score = found.new_score
    return "unclear" if lost.high > MATTERS or score.high - score.value > MATTERS else "holds"


def facts_of(found: Diagnosis) -> Facts:
    """Return what the advice depends on."""
    best = best_remedy(found)
    return Facts(
        state=found.state,
        data_is_wrong=bool(found.blocking),
        is_unstable=saves(found.verdict) >= SAVES,
        drifts=found.later is not None and found.later.breaks,
        remedy=None if best is None else best.action,
    )


def saves(verdict: Any) -> float:
    """Return the accuracy, or AUROC, that the stable classifier saves where relations vanish or reverse."""
    if verdict is None or verdict.fitted == "ordinary":
        return 0.0
    if verdict.auroc:
        _, gone, turned = verdict.auroc.values()
        return float(max(gone.fitted - gone.ordinary, turned.fitted - turned.ordinary))
    return float(max(verdict.gain))


def best_remedy(found: Diagnosis) -> Remedy | None:
    """Return the change of least effort that brings at least half of what the best one brings, if it is sure."""
    new, known = found.areas
    ranks = not known - new > MATTERS  # a lost ranking is not mended by other probabilities
    sure = [remedy for remedy in found.remedies if remedy.is_sure and (ranks or remedy.action != "recalibrate")]
    good = [remedy for remedy in sure if remedy.gain.value >= 0.5 * max(other.gain.value for other in sure)]
    effort = ("repair", "stable", "recalibrate", "collect")
    return min(good, key=lambda remedy: (effort.index(remedy.action), -remedy.gain.value), default=None)
