"""Arrow columns of any type as plain series: numbers, booleans, text or dates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.exceptions import TableError

if TYPE_CHECKING:
    import pandas as pd


def maybe_long_integers(column: Any) -> bool:
    """Whether a decimal column may be whole numbers that 64 bits cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return largest is not None and 2.0**53 < largest < float("inf")


def plain_series(column: Any, where: str) -> pd.Series[Any]:
    """Turn an Arrow column into a plain series: numbers, booleans, text, dates, or times and durations."""
    import pandas as pd
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_series(column.cast(kind.value_type), where)
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_duration(kind) or pa.types.is_time(kind):
        column = column.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"), safe=False)
        return column.cast(pa.int64()).cast(pa.duration("us")).to_pandas()  # type: ignore[no-any-return]
    elif pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
    elif pa.types.is_boolean(kind):
        return column.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get if column.null_count else None)  # type: ignore[no-any-return]
    elif pa.types.is_null(kind):
        return pd.Series([None] * len(column), dtype=object)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_timestamp(kind)
        or kind in (pa.string(), pa.large_string(), pa.string_view())
    ):
        raise TableError(f"{where} holds {kind} values. Flatten it into plain columns, or leave it out.")
    else:
        column.validate(full=True)  # bytes that are not UTF-8
    return column.to_pandas()  # type: ignore[no-any-return]
