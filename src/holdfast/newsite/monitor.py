"""Follow a model over time: one check for each period, and changes of the advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.environments import listed
from holdfast.newsite.check import Advice, SiteCheck

WORDS: Mapping[Advice, str] = {
    "use": "use it",
    "adapt": "adapt it",
    "label": "label about 50 rows",
    "do_not_use": "do not use it",
}


@dataclass(frozen=True, eq=False)
class Period:
    """What the rows of one period say about using the model; `str()` is one line."""

    name: str
    check: SiteCheck
    before: Advice  # the advice of the period before; "use" before the first
    known: bool = False  # whether an earlier run has reported the same

    @property
    def changed(self) -> bool:
        """Whether the advice is another one than in the period before."""
        return self.check.advice != self.before

    def __str__(self) -> str:
        found = self.check
        parts = [f"{found.n_rows:,} rows", WORDS[found.advice]]
        if found.forecast is not None:
            parts.append(f"accuracy {found.forecast.value:.2f} ({found.forecast.low:.2f} to {found.forecast.high:.2f})")
        if found.columns:
            verb = "does" if len(found.columns) == 1 else "do"
            parts.append(f"{listed([f'`{check.name}`' for check in found.columns], most=3)} {verb} not fit")
        if found.turned:
            parts.append(f"another effect of {listed([f'`{name}`' for name in found.turned], most=3)}")
        changed = f" (before: {WORDS[self.before]})" if self.changed else ""
        return f"{self.name}: {', '.join(parts)}{changed}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"period": self.name, "changed": self.changed, "before": self.before, **self.check.to_dict()}


@dataclass(frozen=True, eq=False)
class Course:
    """The checks of several periods, in the order of time; `str()` is the answer."""

    periods: tuple[Period, ...]

    @property
    def alarms(self) -> tuple[Period, ...]:
        """The periods at which the advice changed, and which no earlier run has reported."""
        return tuple(period for period in self.periods if period.changed and not period.known)

    @property
    def answer(self) -> str:
        """The latest advice, and where it changed, in one or two sentences."""
        last = self.periods[-1]
        names = listed([period.name for period in self.alarms], most=3)
        changed = f"The advice changed in {names}." if names else "The advice did not change."
        return f"{changed} In {last.name}: {last.check.answer}"

    def __str__(self) -> str:
        return "\n".join([self.answer, *map(str, self.periods)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "changed": [period.name for period in self.alarms],
            "advice": self.periods[-1].check.advice,
            "periods": [period.to_dict() for period in self.periods],
        }


def follow(checks: Iterable[tuple[str, SiteCheck]], reported: Iterable[Mapping[str, Any]] = ()) -> Course:
    """Return the course of checks over time.

    Parameters
    ----------
    checks : pairs of the period's name and its check, in the order of time
        There is at least one.
    reported : mappings
        What `Period.to_dict` gave in an earlier run. A change that it has, with the same rows and advice, is no news.
    """
    seen = {(str(r.get("period")), r.get("n_rows"), r.get("advice")) for r in reported}
    periods: list[Period] = []
    before: Advice = "use"
    for name, check in checks:
        periods.append(Period(name, check, before, (name, check.n_rows, check.advice) in seen))
        before = check.advice
    return Course(tuple(periods))
