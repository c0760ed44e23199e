"""Numbers that are written with signs: percent, currencies, separators of thousands, decimal commas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Decimal = Literal["decimal point", "decimal comma", "decimal last"]  # the last: a point or a comma, whichever is last
DECIMALS: tuple[Decimal, ...] = get_args(Decimal)
WRITTEN = re.compile(
    r"(?P<sign>[+-]?)(?P<before>[$€£¥]?)\s?(?!0\d)(?P<number>(\d{1,3}([.,' \u00a0]\d{3})+|\d+)([.,]\d+)?)"
    r"\s?(?P<after>[%‰$€£¥]|EUR|USD)?"
)
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")  # 2,771: thousands or decimals
_SPACES = re.compile(r"[' \u00a0]")


def written_number(series: pd.Series[Any]) -> str | None:
    """Return a number with a sign, a separator of thousands or a decimal comma, of a column of nothing else; or None.

    Examples
    --------
    >>> import pandas as pd
    >>> written_number(pd.Series(["980", "2,771.45"])), written_number(pd.Series(["980", "b"]))
    ('2,771.45', None)
    """
    texts = _texts(series)
    if not all(WRITTEN.fullmatch(text) or PLAIN_NUMBER.fullmatch(text) for text in texts):
        return None
    return next((text for text in texts if not PLAIN_NUMBER.fullmatch(text)), None)


def _texts(series: pd.Series[Any]) -> list[str]:
    return [text.strip() for text in map(str, series.dropna().unique())]


def decimal_sign(series: pd.Series[Any]) -> Decimal | None:
    """Return how the numbers of a column are written; None where it has other texts, or numbers of two meanings.

    Examples
    --------
    >>> import pandas as pd
    >>> [decimal_sign(pd.Series(texts)) for texts in (["980", "2,771.45"], ["0,87", "1.2"], ["1.234,5"], ["2,771"])]
    ['decimal point', 'decimal last', 'decimal comma', None]
    """
    if written_number(series) is None:
        return None
    texts = _texts(series)
    found = [match for text in texts if (match := WRITTEN.fullmatch(text))]
    units = {match["before"] or match["after"] or "" for match in found}
    if len(found) < len(texts) or len(units - {""}) > 1 or ({"%", "‰"} & units and "" in units):
        return None  # such as 1e5 or 007 among them, or several currencies
    return _sign_of([_SPACES.sub("", match["number"]) for match in found])


def _sign_of(numbers: Sequence[str]) -> Decimal | None:
    """Return which of point and comma is the decimal sign of unsigned numbers."""
    decimal, thousands = {".": False, ",": False}, {".": False, ",": False}
    open_ones: set[str] = set()  # signs that could be either
    for number in numbers:
        signs = re.findall(r"[.,]", number)
        if len(signs) == 1 and _MAYBE_THOUSANDS.fullmatch(number):
            open_ones.add(signs[0])
        elif signs:
            is_decimal = len(signs) == 1 or signs[-1] != signs[0]
            decimal[signs[-1]] |= is_decimal
            for sign in signs[:-1] if is_decimal else signs:
                thousands[sign] = True
    if decimal["."] and decimal[","]:
        return None if open_ones and any(thousands.values()) else "decimal last"
    for sign, other, name in ((",", ".", "decimal comma"), (".", ",", "decimal point")):
        if decimal[sign]:
            return None if thousands[sign] else name  # type: ignore[return-value]
        if thousands[other] and not thousands[sign]:
            return name  # type: ignore[return-value]
    if len(open_ones) == 1 and not any(thousands.values()):
        plain = [number for number in numbers if number.isdecimal()]
        if not plain or max(map(len, plain)) > 3:
            return None
        return "decimal point" if open_ones == {","} else "decimal comma"
    return None if open_ones or all(thousands.values()) else "decimal point"


def read_numbers(series: pd.Series[Any], decimal: Decimal) -> tuple[pd.Series[Any], str | None]:
    """Return a column of texts as numbers, and a text that is none, if there is one.

    Examples
    --------
    >>> import pandas as pd
    >>> read_numbers(pd.Series(["1.234,5 €", None, "-7 €"]), "decimal comma")[0].tolist()
    [1234.5, nan, -7.0]
    """
    import pandas as pd

    codes, values = pd.factorize(series)
    numbers = np.full(len(values) + 1, np.nan)  # code -1, a missing value, takes the last entry
    wrong = None
    for place, text in enumerate(str(value).strip() for value in values):
        match = WRITTEN.fullmatch(text)
        number = match and _with_point(_SPACES.sub("", match["number"]), decimal)
        if match and number:
            numbers[place] = float(match["sign"] + number)
        else:
            wrong = text
    return pd.Series(numbers[codes], index=series.index), wrong


def _with_point(number: str, decimal: Decimal) -> str | None:
    """Return a number without separators of thousands and with a decimal point; None where they are misplaced.

    Examples
    --------
    >>> _with_point("1.234,5", "decimal comma"), _with_point("0,87", "decimal point")
    ('1234.5', None)
    """
    sign = "," if decimal == "decimal comma" else "."
    if decimal == "decimal last":
        sign = next((mark for mark in reversed(number) if mark in ".,"), ".")
    other = "," if sign == "." else "."
    if not re.fullmatch(rf"\d{{1,3}}(\{other}\d{{3}})*(\{sign}\d+)?|\d+(\{sign}\d+)?", number):
        return None
    return number.replace(other, "").replace(sign, ".")
