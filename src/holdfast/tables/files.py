"""CSV and Parquet files as frames, with every way a file can be broken named.

CSV files are UTF-8 with a header line; `.csv` is separated by commas, `.tsv` by tabs. Empty cells and the words in
`MISSING` count as missing. Types are inferred over the whole file: whole numbers, decimals, true/false, ISO dates,
text. Whole numbers too long for 64 bits stay text, so that no two identifiers are merged.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
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


MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
SEPARATORS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
BUFFER = 1 << 20  # bytes of each column that are read at a time


class TableFile:
    """A CSV or Parquet file whose columns are known and whose rows are read on demand.

    Parameters
    ----------
    path : str or Path
        A file ending in .csv, .tsv, .parquet or .pq.

    Attributes
    ----------
    columns : tuple of str
        Column names in the file's order. A CSV column without a name is called `unnamed_<position>`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._check_file()
        self._header = self._parquet_columns() if self.is_parquet else self._csv_columns()
        self.columns = tuple(name or f"unnamed_{place}" for place, name in enumerate(self._header, start=1))
        cut = [name for name in self.columns if "\0" in name]
        if cut:
            raise TableError(f"{self.path} has a column {cut[0]!r}, whose name holds a NUL character. Rename it.")
        repeated = [name for name, count in Counter(self.columns).items() if count > 1]
        if repeated:
            raise TableError(
                f"{self.path} has more than one column {repeated[0]!r}. Give each column a name of its own."
            )

    @property
    def is_parquet(self) -> bool:
        """Whether the file's name says Parquet."""
        return self.path.suffix.lower() in PARQUET

    def require(self, columns: Sequence[str]) -> None:
        """Refuse names that are no columns of the file."""
        for column in columns:
            if column not in self.columns:
                raise TableError(f"{self.path} has no column {column!r}. {suggest(column, self.columns)}")

    def read(self, columns: Sequence[str] | None = None, types: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Read whole columns.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, in this order. None: all of them.
        types : mapping of str to {"number", "boolean", "string"}, optional
            How to read columns of a CSV file whose type is known; others are inferred. Parquet files know their own.
        """
        names = list(self.columns if columns is None else columns)
        self.require(names)
        if self.is_parquet:
            with self._reading():
                import pyarrow.parquet

                frame = self._frame(pyarrow.parquet.read_table(self.path, columns=names), names)
        else:
            self._refuse_empty(self._is_header_alone())
            frame = self._read_csv(names, dict(types or {}))
        self._refuse_empty(not len(frame))
        return frame

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = 65_536
    ) -> Iterator[pd.DataFrame]:
        """Read at most `n_rows` rows at a time; columns of a CSV file without a type in `types` are read as text."""
        import pyarrow as pa

        names = list(columns)
        self.require(names)
        if self.is_parquet:
            import pyarrow.parquet

            # Buffered column by column: read ahead, row groups would stay in memory until the end of the file.
            options = {"pre_buffer": False, "buffer_size": BUFFER}
            with self._reading(), pyarrow.parquet.ParquetFile(self.path, **options) as file:
                for batch in file.iter_batches(batch_size=n_rows, columns=names, use_threads=False):
                    yield self._frame(pa.table(batch), names)
            return
        import pyarrow.csv

        if self._is_header_alone():
            return
        known = {name: (types or {}).get(name, "string") for name in names}
        with self._reading():
            reader = pyarrow.csv.open_csv(self.path, **self._csv_options(names, known))
            for batch in reader:
                for start in range(0, len(batch), n_rows):
                    yield self._frame(pa.table(batch.slice(start, n_rows)), names)

    def _check_file(self) -> None:
        """Refuse what is not a file of a type we read."""
        suffix = self.path.suffix.lower()
        known = (*SEPARATORS, *PARQUET)
        if not self.path.exists():
            folder = self.path.parent
            names = [p.name for p in folder.iterdir() if p.suffix.lower() in known] if folder.is_dir() else []
            near = get_close_matches(self.path.name, names, n=1, cutoff=0.75)
            raise TableError(
                f"{self.path} does not exist. " + (f"Did you mean {near[0]}?" if near else "Check the path.")
            )
        if self.path.is_dir():
            raise TableError(f"{self.path} is a folder. Pass one {', '.join(known)} file.")
        if suffix not in known:
            raise TableError(f"{self.path} is of the unknown type {suffix!r}. Save it as one of {', '.join(known)}.")
        if self.path.stat().st_size == 0:
            raise TableError(f"{self.path} is empty. Pass a file with a header and rows.")

    def _parquet_columns(self) -> list[str]:
        with self._reading():
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(self.path).names)

    def _csv_columns(self) -> list[str]:
        """Check the encoding of the whole file and return its header."""
        with self._reading():
            self._check_text()
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                header = next((row for row in csv.reader(file, delimiter=self._separator) if row), [])
        if len(header) == 1 and ";" in header[0] and self._separator == ",":
            raise TableError(f"{self.path} is separated by semicolons. Save it with commas (and decimal points).")
        if not any(header):
            raise TableError(f"{self.path} is empty. Pass a file with a header and rows.")
        return header

    @property
    def _separator(self) -> str:
        return SEPARATORS[self.path.suffix.lower()]

    def _check_text(self) -> None:
        """Refuse bytes that are not UTF-8, with their position, and a quote that is never closed."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        position, line, n_quotes = 0, 1, 0
        with self.path.open("rb") as file:
            while True:
                block = file.read(1 << 20)
                pending = len(decoder.getstate()[0])
                try:
                    decoder.decode(block, final=not block)
                except UnicodeDecodeError as problem:
                    line += block[: max(problem.start - pending, 0)].count(b"\n")
                    raise TableError(
                        f"{self.path} is not UTF-8: byte 0x{problem.object[problem.start]:02x} at position "
                        f"{position - pending + problem.start} (line {line}). Save it as UTF-8."
                    ) from None
                if not block:
                    break
                position, line, n_quotes = (
                    position + len(block),
                    line + block.count(b"\n"),
                    n_quotes + block.count(b'"'),
                )
        if n_quotes % 2:
            self._find_ragged_line()

    def _find_ragged_line(self) -> None:
        """Raise for the first line with another number of fields than the header, or for a quote left open."""
        csv.field_size_limit(1 << 30)
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._separator, strict=True)
            width, start = 0, 1
            try:
                for row in reader:
                    width = width or len(row)
                    if row and len(row) != width:
                        raise TableError(
                            f"{self.path} is ragged: line {start} has {len(row)} field{'s' * (len(row) != 1)}, "
                            f"the header has {width}. "
                            "Correct that line (a separator inside a value needs quotes)."
                        )
                    start = reader.line_num + 1
            except csv.Error as problem:
                hint = "A quote is opened and never closed." if "end of data" in str(problem) else f"{problem}."
                raise TableError(f"{self.path} is broken at line {start}. {hint}") from None

    def _read_csv(self, names: list[str], types: dict[str, str]) -> pd.DataFrame:
        """Read columns of a CSV file; whole numbers beyond 64 bits are read again as text."""
        import pyarrow.csv

        with self._reading():
            table = pyarrow.csv.read_csv(self.path, **self._csv_options(names, types))
            long = [name for name in names if name not in types and maybe_long_integers(table[name])]
            if long:
                again = pyarrow.csv.read_csv(self.path, **self._csv_options(long, dict.fromkeys(long, "string")))
                for name in long:
                    if all(re.fullmatch(r"[+-]?\d+", text) for text in again[name].drop_null().unique().to_pylist()):
                        table = table.set_column(table.schema.get_field_index(name), name, again[name])
            return self._frame(table, names)

    def _csv_options(self, names: list[str], types: Mapping[str, str]) -> dict[str, Any]:
        """Return pyarrow's options for reading columns `names`."""
        import pyarrow as pa
        import pyarrow.csv

        plain = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "time": pa.time64("us")}

        return {
            "read_options": pyarrow.csv.ReadOptions(column_names=self.columns, skip_rows=self._header_lines()),
            "parse_options": pyarrow.csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={name: plain[kind] for name, kind in types.items() if name in names},
                include_columns=names,
                null_values=list(MISSING),
                strings_can_be_null=True,
            ),
        }

    def _refuse_empty(self, empty: bool) -> None:
        if empty:
            raise TableError(f"{self.path} has a header but no rows. Pass a file with rows.")

    def _is_header_alone(self) -> bool:
        """Return whether nothing follows the header, which pyarrow takes for a broken file."""
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            rows = (row for row in csv.reader(file, delimiter=self._separator) if row)
            return next(rows, None) is not None and next(rows, None) is None

    def _header_lines(self) -> int:
        """Return how many lines the header takes, blank ones before it included."""
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._separator)
            next(row for row in reader if row)
            return reader.line_num

    def _frame(self, table: Any, names: list[str]) -> pd.DataFrame:
        """Turn an Arrow table into a frame of plain columns."""
        import pandas as pd

        return pd.DataFrame({name: plain_series(table[name], f"{self.path}: column {name!r}") for name in names})

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what pyarrow and the file system raise into our error; ours pass."""
        import pyarrow as pa

        try:
            yield
        except TableError:
            raise
        except PermissionError as problem:
            raise TableError(f"{self.path} cannot be read: permission denied.") from problem
        except (pa.ArrowException, OSError, ValueError) as problem:
            reason = " ".join(str(problem).split())[:200].rstrip(".")
            if "CSV parse error: Expected" in reason:
                self._find_ragged_line()  # raises with the line's number, which pyarrow does not know
            value = re.search(
                r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+): invalid value '(.*)'", reason
            )
            if value:
                column, line, kind, text = value.groups()
                wanted = {"double": "a number", "bool": "true or false"}.get(kind, kind)
                raise TableError(
                    f"{self.path}: column {self.columns[int(column)]!r} holds {text!r}"
                    f"{f' (line {line})' if line else ''}, which is not {wanted}. "
                    "Correct the value, or leave its cell empty."
                ) from problem
            raise TableError(f"{self.path} cannot be read ({reason}). Write the file again.") from problem


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : str or Path
        A file ending in .csv, .tsv, .parquet or .pq.
    columns : sequence of str, optional
        Columns to read. None: all of them.
    """
    return TableFile(path).read(columns)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the sentence that helps after an unknown name.

    Examples
    --------
    >>> suggest("logistc", ["logistic", "forest"])
    "Did you mean 'logistic'?"
    >>> suggest("x", ["logistic", "forest"])
    "It may be 'logistic' or 'forest'."
    """
    near = get_close_matches(name, known, n=1) or get_close_matches(name.lower(), known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    shown = [repr(k) for k in known[:10]]
    more = f" … ({len(known)} in all)" if len(known) > 10 else ""
    return f"It may be {', '.join(shown[:-1])}{' or ' if len(shown) > 1 else ''}{shown[-1]}{more}."
