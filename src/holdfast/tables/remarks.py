"""Remarks on columns that were read: odd texts among numbers, free text, rare levels, spellings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.tables.decimals import DECIMALS, read_numbers, written_number
from holdfast.tables.schema import MAX_LEVELS, MIN_FREQUENCY, TableSchema

if TYPE_CHECKING:
    import pandas as pd


MOST_TOKENS, MANY_NUMBERS = 3, 10  # different words among numbers, and different numbers that words are odd among
GAPS = ("unknown", "missing", "none", "not available", "n.a.", "na", "nil", "unk", "not done", "not recorded")
OTHER_DATE = r"\d{1,2}([./-])\d{1,2}\1(\d{2}|\d{4})"  # 31.1.2026, 1/31/26: not ISO, and often ambiguous
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
WITH_UNIT = re.compile(rf"{NUMBER.pattern}\s*(?P<unit>[^\W\d_][^\d]*)")
MANY_LEVELS, FEW_COVERED = 20, 0.5  # levels from which on it is noted that those that count cover few rows


def looks_like_text(series: pd.Series[Any]) -> bool:
    """Whether a column of strings is prose rather than levels: mostly distinct, with several words each."""
    present = series.dropna().head(1000)
    n_words = present.str.count(r"\s+").mean() + 1 if len(present) else 0
    return bool(n_words >= 4 and present.nunique() > 0.5 * len(present))


def odd_tokens(series: pd.Series[Any]) -> tuple[str, ...]:
    """Return the few words that turn a column of numbers into one of levels, most frequent first; () for other columns.

    Examples
    --------
    >>> import pandas as pd
    >>> odd_tokens(pd.Series(["1.5", "2", "?"] * 4)), odd_tokens(pd.Series(["a", "b", "1"]))
    (('?',), ())
    """
    counts = series.dropna().astype(str).value_counts()
    odd = [str(text) for text in counts.index if not NUMBER.fullmatch(str(text).strip())]
    n_numbers = len(counts) - len(odd)
    is_gap = all(not re.search(r"\w", text) or text.strip().lower() in GAPS for text in odd)
    few = 0 < len(odd) <= MOST_TOKENS and not any(re.search(r"\d", text) for text in odd if text[:1] not in "<>≤≥")
    return tuple(odd) if few and n_numbers >= (2 if is_gap else MANY_NUMBERS) else ()


def written_unit(series: pd.Series[Any]) -> tuple[str, ...]:
    """Return the numbers with a unit, such as '120 mmHg', of a column whose other cells are numbers alone.

    Examples
    --------
    >>> import pandas as pd
    >>> written_unit(pd.Series([*map(str, range(20)), "20 kg", "21 kg"])), written_unit(pd.Series(["1h", "2h"]))
    (('20 kg', '21 kg'), ())
    """
    texts = [text.strip() for text in map(str, series.dropna().unique())]
    odd = [text for text in texts if not NUMBER.fullmatch(text)]
    units = {match["unit"] for text in odd if (match := WITH_UNIT.fullmatch(text))}
    all_match = all(WITH_UNIT.fullmatch(text) for text in odd)
    return tuple(odd) if len(units) == 1 and all_match and len(texts) - len(odd) >= MANY_NUMBERS else ()


def _level_note(series: pd.Series[Any], name: str) -> str | None:
    """Say where levels are too many, or too rare, to count by themselves."""
    counts = series.value_counts()
    kept = counts[counts >= MIN_FREQUENCY][:MAX_LEVELS]
    rest = 1 - kept.sum() / max(counts.sum(), 1)
    if len(counts) <= MANY_LEVELS or (rest < FEW_COVERED and len(kept) < MAX_LEVELS) or not rest:
        return None
    if not len(kept):
        return f"column {name!r} has {len(counts):,} levels, none in {MIN_FREQUENCY} rows or more: all count as one"
    return (
        f"column {name!r} has {len(counts):,} levels: at most {len(kept)} count by themselves, the most frequent; the "
        f"others ({rest:.0%} of rows) count together"
    )


def spelling_note(series: pd.Series[Any], name: str) -> str | None:
    """Say which labels or environments differ only in spaces or case."""
    by_text: dict[str, list[str]] = {}
    for text in sorted(map(str, series.unique())):
        by_text.setdefault(" ".join(text.split()).casefold(), []).append(repr(text))
    alike = listed([" and ".join(texts) for texts in by_text.values() if texts[1:]])
    return f"{name!r} has {alike}, which differ only in spaces or case and count as different ones" if alike else None


def table_notes(frame: pd.DataFrame, schema: TableSchema) -> tuple[str, ...]:
    """Say what was left out, which columns look like free text, and which values are taken for categories or rare."""
    notes = [f"column {name!r} is left out: {reason}" for name, reason in schema.left_out.items()]
    prose = [
        c.name
        for c in schema.columns
        if c.kind == "categorical" and c.storage == "string" and looks_like_text(frame[c.name])
    ]
    if prose:
        quoted = listed([repr(name) for name in prose])
        verb = "look" if prose[1:] else "looks"
        notes.append(f"{quoted} {verb} like free text; pass text={prose[0]!r} to use the words")
    for column in schema.columns:
        decimal = next((known for known in DECIMALS if known == column.storage), None)
        if decimal and (text := written_number(frame[column.name])):
            number = read_numbers(frame[column.name][frame[column.name] == text], decimal)[0].iloc[0]
            notes.append(f"{column.name!r} has numbers such as {text!r}, read as {number:g}")
    by_words: dict[tuple[str, ...], list[str]] = {}
    for name in schema.names("categorical"):
        texts = frame[name].dropna().astype(str).head(1000)
        if len(texts) and texts.str.fullmatch(OTHER_DATE).all():
            notes.append(f"{name!r} has dates such as {texts.iloc[0]}, read as categories; write them as 2026-01-31")
        elif words := odd_tokens(frame[name]):
            by_words.setdefault(words, []).append(name)
        elif number := written_number(frame[name]):
            notes.append(
                f"{name!r} has numbers such as {number!r}, read as categories; write them without signs and "
                "separators of thousands, with a decimal point, as 1234.5"
            )
        elif name not in prose and (note := _level_note(frame[name], name)):
            notes.append(note)
    for words, names in by_words.items():
        said = listed([repr(word) for word in words])
        notes.append(
            f"{listed([repr(name) for name in names], most=4)} {'have' if names[1:] else 'has'} numbers and {said}, so "
            f"that the numbers are read as categories; pass missing={words[0]!r} if that means a missing value"
        )
    return tuple(notes)
