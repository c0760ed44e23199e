"""Read delimited text: detect encoding, separator, decimal sign and header, and name broken lines."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.exceptions import ParameterError, TableError

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
SEPARATOR_NAMES: Mapping[str, str] = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SAMPLE_LINES = 100  # that separator and decimal sign are found in
BUFFER = 1 << 20  # bytes that are read at a time: of a CSV file, or of each Parquet column
LONGEST_LINE = 1 << 29  # characters; pyarrow reads some times as many bytes at a time, and no more than 2^31


@dataclass(frozen=True, kw_only=True)
class TextLayout:
    """How a CSV file is written; what is None is found out, and said where it is not the usual."""

    separator: str | None = None
    decimal: str | None = None  # "." or ","
    encoding: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("separator", self.separator), ("decimal", self.decimal)):
            if value is not None and (len(value) != 1 or value == '"'):
                raise ParameterError(f"{name}={value!r} must be one character, such as ';'.")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ParameterError(f"There is no encoding {self.encoding!r}. Use for example 'latin-1'.") from None


class DelimitedText:
    """How the text of a table is written, found out from all of its bytes; what is broken is refused.

    Parameters
    ----------
    name : str
        What error messages call the table.
    open_bytes : callable
        Opens the bytes, unpacked.
    usual : str
        The separator that needs no remark.
    layout : TextLayout
    """

    def __init__(self, name: str, open_bytes: Callable[[], Any], usual: str, layout: TextLayout) -> None:
        self.name, self._open, self._usual, self.layout = name, open_bytes, usual, layout
        self.notes: tuple[str, ...] = ()  # how it is read, where that is not the usual
        self.header = self._read_header()

    def _read_header(self) -> list[str]:
        """Check the text of the whole file and return its header; note how it is written and where the rows begin."""
        self._encoding = self.layout.encoding or self._guess_encoding()
        try:
            n_quotes = self._scan()
        except TableError as problem:
            if self.layout.encoding or not self._looks_western():
                raise
            self._encoding = "cp1252"
            try:
                n_quotes = self._scan()
            except TableError:
                raise problem from None
        self._find_layout()
        if n_quotes % 2:
            self.find_ragged_line()
        with self._csv_reader() as reader:
            header: list[str] = next((row for row in reader if row), [])
            self._n_header_lines = reader.line_num  # blank lines before the header included
            # pyarrow takes a file without rows for a broken one
            self.is_header_alone = next((row for row in reader if row), None) is None
        if not any(header):
            raise TableError(f"{self.name} is empty. Pass a file with a header and rows.")
        return header

    def _guess_encoding(self) -> str:
        """Return UTF-16 where its mark or its zeros are, else UTF-8."""
        with self._open() as file:
            start = file.read(8)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        zeros = {start[1::2]: "utf-16-le", start[::2]: "utf-16-be"}
        return zeros.get(bytes(4), "utf-8")

    def _looks_western(self) -> bool:
        """Return whether the bytes look like Western European text, and not like damaged UTF-8."""
        with self._open() as file:
            return not re.search(rb"[\x00\xff]|[\xc2-\xf4][\x80-\xbf]", file.read(16 * BUFFER))

    def _scan(self) -> int:
        """Refuse bytes that are not in the encoding; note the longest line and return how many quotes there are."""
        decoder = codecs.getincrementaldecoder(self._encoding)()
        position, line, n_quotes, length, self._longest_line = 0, 1, 0, 0, 0
        with self._open() as file:
            block = b"start"
            while block:
                block = file.read(BUFFER)
                pending = len(decoder.getstate()[0])
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as problem:
                    line += problem.object[: problem.start].count(b"\n")
                    what = "UTF-8" if self._encoding == "utf-8" else f"in the encoding {self._encoding}"
                    raise TableError(
                        f"{self.name} is not {what}: byte 0x{problem.object[problem.start]:02x} at position "
                        f"{position - pending + problem.start} (line {line}). Save it as UTF-8, or name its encoding, "
                        "such as encoding='latin-1'."
                    ) from None
                first, *others = text.split("\n")
                length += len(first)
                if others:
                    self._longest_line = max(self._longest_line, length, *map(len, others))
                    length = len(others[-1])
                position += len(block)
                line += len(others)
                if length > LONGEST_LINE:
                    raise TableError(f"{self.name}: line {line} is longer than {LONGEST_LINE:,} bytes. Is it a table?")
                n_quotes += text.count('"')
        self._longest_line, self.n_bytes = max(self._longest_line, length), position
        return n_quotes

    def _find_layout(self) -> None:
        """Find out separator and decimal sign from the first rows, and say what is not the usual."""
        usual = self._usual
        self._separator, self._decimal = self.layout.separator or usual, self.layout.decimal or "."
        with self._open_text() as file:
            sample = "".join(itertools.islice(file, SAMPLE_LINES))
            if self.layout.separator is None:
                others = (separator for separator in SEPARATOR_NAMES if separator != usual)
                self._separator = max([usual, *others], key=lambda separator: _fit_of(sample, separator))
            cells = [cell.strip() for row in _cut(sample, self._separator) for cell in row]
        said = []
        if self._separator != usual and self.layout.separator is None:
            said.append(f"separated by {SEPARATOR_NAMES[self._separator]}")
        if self.layout.decimal is None and self._separator != ",":
            with_comma, with_point = (
                any(re.fullmatch(rf"[+-]?\d+{s}\d+", cell) for cell in cells) for s in (",", r"\.")
            )
            if with_comma and not with_point:
                self._decimal = ","
                said.append("with decimal commas")
        if self._encoding != (self.layout.encoding or "utf-8"):
            said.append(f"in the encoding {self._encoding}")
        if said:
            self.notes = (f"{self.name} is read as {', '.join(said)}",)

    @contextmanager
    def _open_text(self) -> Iterator[Any]:
        """Open the file as text, with cells of any length: Python's own limit is 131,072 characters."""
        limit = csv.field_size_limit(1 << 30)
        try:
            with self._open() as file:
                encoding = "utf-8-sig" if self._encoding == "utf-8" else self._encoding
                yield io.TextIOWrapper(file, encoding=encoding, newline="")
        finally:
            csv.field_size_limit(limit)

    @contextmanager
    def _csv_reader(self, *, strict: bool = False) -> Iterator[Any]:
        with self._open_text() as file:
            yield csv.reader(file, delimiter=self._separator, strict=strict)

    def find_ragged_line(self) -> None:
        """Raise for the first line with another number of fields than the header, or for a quote left open."""
        with self._csv_reader(strict=True) as reader:
            width, start = 0, 1
            try:
                for row in reader:
                    width = width or len(row)
                    if row and len(row) != width:
                        raise TableError(
                            f"{self.name} is ragged: line {start} has {len(row)} field{'s' * (len(row) != 1)}, "
                            f"the header has {width}. "
                            "Correct that line (a separator inside a value needs quotes)."
                        )
                    start = reader.line_num + 1
            except csv.Error as problem:
                hint = "A quote is opened and never closed." if "end of data" in str(problem) else f"{problem}."
                raise TableError(f"{self.name} is broken at line {start}. {hint}") from None

    def options(
        self, columns: Sequence[str], names: list[str], types: Mapping[str, str], missing: Sequence[str]
    ) -> dict[str, Any]:
        """Return pyarrow's options for reading some of the table's columns; `missing` are further missing values."""
        import pyarrow as pa
        import pyarrow.csv

        wanted = set(names)
        plain = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "time": pa.time64("us")}
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=columns,
                skip_rows=self._n_header_lines,
                # A row must lie within two blocks, and each block costs time for every column, however few its rows.
                block_size=min(
                    max(BUFFER, 8 * self._longest_line, min(64 * self._longest_line, 64 * BUFFER)), 2**31 - 1
                ),
                encoding=self._encoding,
            ),
            "parse_options": pyarrow.csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={name: plain[kind] for name, kind in types.items() if name in wanted},
                include_columns=names,
                null_values=[*MISSING, *missing],
                decimal_point=self._decimal,
                strings_can_be_null=True,
            ),
        }


def _cut(sample: str, separator: str) -> list[list[str]]:
    """Return the rows of some text; none where it is no table, which reading it will say."""
    try:
        return list(csv.reader(io.StringIO(sample, newline=""), delimiter=separator))
    except csv.Error:
        return []


def _fit_of(sample: str, separator: str) -> float:
    """Return how well a separator cuts text into a table: rows as wide as the header, at least two columns."""
    rows = [row for row in _cut(sample, separator) if row][:SAMPLE_LINES]
    if not rows or len(rows[0]) < 2:
        return 0.0
    return float(np.mean([len(row) == len(rows[0]) for row in rows]))
