"""Convert units of columns at some sites, in the fit and in predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import ParameterError, TableError, suggest

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = r"\d+\.?\d*(?:[eE][+-]?\d+)?(?:/\d+\.?\d*(?:[eE][+-]?\d+)?)?"
_RULE = re.compile(rf"(?P<factor>{_NUMBER})(?P<offset>[+-]{_NUMBER})?")


@dataclass(frozen=True)
class Scale:
    """Numbers of a column become `factor` times the number plus `offset`, at one site or everywhere.

    Attributes
    ----------
    column : str
    site : str
        Empty for all rows.
    factor, offset : float
    text : str
        The rule as it was written.
    """

    column: str
    site: str
    factor: float
    offset: float
    text: str

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> Scale:
        """Read a rule such as ``creatinine@Köln=1/88.4`` or ``temperature@Lyon=1/1.8-32/1.8``.

        Examples
        --------
        >>> Scale.parse("weight@Lyon=1/2", ["weight"])
        Scale(column='weight', site='Lyon', factor=0.5, offset=0.0, text='weight@Lyon=1/2')
        """
        where, _, rule = text.rpartition("=")
        found = _RULE.fullmatch(rule.strip())
        factor = _fraction(found["factor"]) if found else 0.0
        if found is None or not where or not np.isfinite(factor) or factor == 0:
            raise ParameterError(
                f"scale={text!r} is not a rule. Write COLUMN@SITE=FACTOR, for example scale='creatinine@Lyon=1/88.4', "
                "or COLUMN@SITE=FACTOR+OFFSET."
            )
        offset = _fraction(found["offset"]) if found["offset"] else 0.0
        parts = where.split("@")
        for n_parts in range(len(parts), 0, -1):  # names may contain @
            if (column := "@".join(parts[:n_parts])) in columns:
                return cls(column, "@".join(parts[n_parts:]), factor, offset, text)
        raise TableError(f"scale={text!r} names no feature column. {suggest(parts[0], list(columns))}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(vars(self))


def apply_scales(frame: pd.DataFrame, scales: Sequence[Scale], sites: NDArray[Any] | None) -> pd.DataFrame:
    """Return a frame with converted columns; `sites` (n_rows,) is None where only rules for all rows apply."""
    import pandas as pd

    changed: dict[str, Any] = {}
    names = None if sites is None else np.asarray(sites).astype(str)
    for scale in scales:
        values = changed.get(scale.column, frame[scale.column])
        if values.isna().all() or (scale.site and names is None):
            continue
        if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            raise TableError(
                f"scale={scale.text!r} is about column {scale.column!r}, which does not contain numbers. Name texts "
                "that mean a missing value with missing=, or leave the rule out."
            )
        rows = np.ones(len(frame), bool) if not scale.site else names == scale.site
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        changed[scale.column] = pd.Series(np.where(rows, numbers * scale.factor + scale.offset, numbers), frame.index)
    return frame.assign(**changed) if changed else frame


def _fraction(text: str) -> float:
    """Return the number that '1/88.4' or '-32' stands for; NaN for a division by 0."""
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1) if float(bottom or 1) else float("nan")
