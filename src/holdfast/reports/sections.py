"""Sections that several pages have: the columns of the data, and how the page was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from holdfast.diagnosis.profile import Profile
from holdfast.machine import versions
from holdfast.reports.values import Block, Cell, Section, Sentences, Table

Signal = tuple[Literal["good", "caution", "bad", "unknown"], str]  # color and badge of an answer
OF_RULES: Mapping[str, Signal] = {  # rules of the advice that come before how the model does
    "wrong_data": ("bad", "Correct the data first"),
    "tells_nothing": ("bad", "There is no model to keep"),
}
MOST_REMARKS = 6  # about columns that do not fit


def run_next(following: str) -> tuple[str, ...]:
    """Return the line of an answer that names the next command; nothing without one."""
    return (f"Run next: `{following}`",) if following else ()


def made_section(facts: Mapping[str, Any], settings: Mapping[str, Any] | None = None, intro: str = "") -> Section:
    """Return the last section of a page: what was used, settings such as the table's name, and versions."""
    told = {name: str(value) for name, value in (settings or {}).items()}
    rows = tuple({**facts, **told, **versions()}.items())
    return Section("How this was made", intro, (Table("Settings and versions", ("what", "value"), rows),), folded=True)


def profile_blocks(profile: Profile | None, place: str = "environment") -> list[Block]:
    """Return what each column looks like at each site, after what does not fit."""
    if profile is None or not profile.columns:
        return []
    rows: list[tuple[Cell, ...]] = [
        (name, *(cell.text for cell in found)) for name, found in zip(profile.columns, profile.cells, strict=True)
    ]
    note = "Numbers: median (quartiles). Categories: the most frequent level. Emphasized: what does not fit."
    title = "Every column"
    if profile.n_left_out:
        title = f"The first {len(rows)} columns"
        note += f" {profile.n_left_out:,} more columns were not looked at."
    marked = tuple((row, site + 1) for row, site in profile.marked)
    table = Table(f"{title}, by {place}", ("column", *profile.sites), tuple(rows), note, marked=marked)
    odd, n_more = profile.sentences[:MOST_REMARKS], len(profile.sentences) - MOST_REMARKS
    odd += (f"{n_more} more remarks: see the emphasized cells below.",) * (n_more > 0)
    return [*([Sentences(odd, "warning")] if odd else []), table]
