"""What to do: a table of rules, of which the first that applies decides.

The order is the argument. Wrong data comes before any model; a column whose effect differs between sites before the
order of effort; too few rows before what those rows seem to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Action = Literal["keep", "recalibrate", "repair", "stable", "collect"]
State = Literal["breaks", "miscalibrated", "holds", "unclear"]


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
