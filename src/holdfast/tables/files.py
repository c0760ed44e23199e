"""Tables in files, at URLs, in standard input and in data frames, with every way a file can be broken named.

CSV files have a header line. Separator, decimal sign and encoding are found out, and said where they are not the usual
(`.csv` with commas, `.tsv` with tabs, points, UTF-8). Empty cells and the words in `MISSING` count as missing. Types
are inferred over the whole file: whole numbers, decimals, true/false, ISO dates, text. Whole numbers too long for 64
bits stay text, so that no two identifiers are merged.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import numpy as np

from holdfast.exceptions import HoldfastError, ParameterError, TableError, suggest
from holdfast.extras import require
from holdfast.saving.files import new_file, storage_errors

if TYPE_CHECKING:
    import pandas as pd

OnBadFile = Literal["stop", "skip"]
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
SEPARATORS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
SEPARATOR_NAMES: Mapping[str, str] = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SAMPLE_LINES = 100  # that separator and decimal sign are found in
JSON_LINES, EXCEL, PARQUET = (".jsonl", ".ndjson"), (".xlsx",), (".parquet", ".pq")
FORMATS = {"text": tuple(SEPARATORS), "json": JSON_LINES, "arrow": (".feather", ".arrow"), "parquet": PARQUET}
FORMATS["excel"] = EXCEL
TABLES = tuple(ending for endings in FORMATS.values() for ending in endings)
MARKS = {"parquet": b"PAR1", "arrow": b"ARROW1", "stream": b"\xff\xff\xff\xff", "excel": b"PK\3\4"}  # first bytes
IN_PARTS = ("parquet", "arrow")  # formats of which columns and rows can be read alone
COMPRESSED = (".gz", ".bz2", ".zst")  # of text
COMPRESSIONS = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "zstd": b"\x28\xb5\x2f\xfd"}
WRITTEN = (*SEPARATORS, *PARQUET)
FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # how a cell begins that a spreadsheet computes
BUFFER = 1 << 20  # bytes that are read at a time: of a CSV file, or of each Parquet column
CHUNK_ROWS = 65_536
CHUNK_NUMBERS = 1 << 24  # of wide rows there are fewer in a chunk: 128 MiB
MOST_GROWTH, SMALL = 1_000, 1 << 30  # a packed table may unpack to this many times its size, or to this many bytes
LONGEST_LINE = 1 << 29  # characters; pyarrow reads some times as many bytes at a time, and no more than 2^31
JSON_LINE, DEEPEST = 1 << 24, 100  # bytes of a JSON line, structures inside each other: pyarrow crashes at thousands
SMALLER = "Leave columns out with drop=, or take a sample of the rows."
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://")
INDEX = re.compile(r"__index_level_[0-9]+__")  # what pandas writes beside the columns: numbers of rows
_WHOLE = re.compile(r"[-+]?[0-9]+")


class TableSource:
    """Named columns whose rows are read on demand: a file, or a frame that is in memory already."""

    name: str  # what error messages call the table
    columns: tuple[str, ...]  # in the table's order
    notes: tuple[str, ...] = ()  # how it is read, where that is not the usual

    def _name_columns(self, names: Sequence[str]) -> None:
        """Set `columns`; a column without a name is called `unnamed_<position>`."""
        self.columns = tuple(name or f"unnamed_{place}" for place, name in enumerate(names, start=1))
        self._places = {name: place for place, name in enumerate(self.columns)}
        cut = [name for name in self.columns if "\0" in name]
        if cut:
            raise TableError(f"{self.name} has a column {cut[0]!r}, whose name contains a NUL character. Rename it.")
        if len(self._places) < len(self.columns):
            repeated = next(name for name, count in Counter(self.columns).items() if count > 1)
            raise TableError(f"{self.name} has more than one column {repeated!r}. Give each column a name of its own.")

    def __contains__(self, column: str) -> bool:
        return column in self._places

    def require(self, columns: Sequence[str]) -> None:
        """Refuse names that are not columns of the table."""
        for column in columns:
            if column not in self._places:
                raise TableError(f"{self.name} has no column {column!r}. {suggest(column, self.columns)}")

    def read(self, columns: Sequence[str] | None = None, types: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Read whole columns, in the order of `columns` (None: all of them).

        `types` maps columns of a CSV file to "number", "boolean", "string" or "time"; the types of others are inferred.
        Parquet files and frames know their own types.
        """
        raise NotImplementedError

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read at most `n_rows` rows at a time; columns of a CSV file without a type in `types` are read as text."""
        raise NotImplementedError

    def _refuse_empty(self, empty: bool) -> None:
        if empty:
            raise TableError(f"{self.name} has a header but no rows. Pass a file with rows.")

    def _refuse_beyond_memory(self, n_rows: int, n_columns: int, present: int) -> None:
        """Refuse what cannot be held, before reading: a small Parquet file can hold a column of any length."""
        needed = 16 * n_rows * n_columns  # a number is 8 bytes, here and as a feature
        if needed > present:
            raise TableError(
                f"{self.name} has {n_rows:,} rows; {n_columns} columns of them need at least {needed / 2**30:.1f} GiB "
                f"of memory, and {present / 2**30:.1f} GiB are there. {SMALLER}"
            )


class TableFrame(TableSource):
    """A data frame: pandas, polars, pyarrow, or any other that gives its columns to Arrow; names become text.

    `missing` are texts that mean a missing value; a column of texts that are numbers without them becomes numbers.
    """

    name = "the table"

    def __init__(self, frame: Any, missing: Sequence[str] = ()) -> None:
        import pandas as pd

        if isinstance(frame, pd.DataFrame):
            self._frame = frame.reset_index(drop=True)
            self._name_columns([str(name) for name in frame.columns])
        else:
            import pyarrow as pa

            table = pa.table(frame)
            self._name_columns(table.column_names)
            parts = {
                name: plain_series(column, f"column {name!r}")
                for name, column in zip(self.columns, table.columns, strict=True)
            }
            self._frame = pd.DataFrame(parts)
        self._frame.columns = pd.Index(self.columns, dtype=object)
        for name, kind in zip(self.columns, self._frame.dtypes.tolist(), strict=True):
            if missing:
                self._frame[name] = _without_words(self._frame[name], missing)
            if kind == "object":
                self._frame[name] = _without_objects(self._frame[name])

    def read(self, columns: Sequence[str] | None = None, types: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Return whole columns; `types` are those of the frame."""
        names = list(self.columns if columns is None else columns)
        self.require(names)
        self._refuse_empty(not len(self._frame))
        return self._frame[names]

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Return at most `n_rows` rows at a time."""
        self.require(columns)
        for start in range(0, len(self._frame), n_rows):
            yield self._frame[list(columns)].iloc[start : start + n_rows]


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


class TableFile(TableSource):
    """A table in a file, standard input (`-`) or at a URL.

    `missing` are further texts that mean missing. The first bytes say the format, or the name's ending (`TABLES`) where
    they do not. Everything is read in `read` and `chunks`: Parquet and Arrow through `pyarrow.dataset`, CSV through
    `pyarrow.csv`, JSON lines through `pyarrow.json`, Excel through pandas.
    """

    def __init__(self, path: str | Path, missing: Sequence[str] = (), layout: TextLayout | None = None) -> None:
        self.missing, self.layout = tuple(missing), layout or TextLayout()
        self.name = "standard input" if str(path) == "-" else str(path)
        self.filesystem: Any = None  # of a URL; None for this machine's own
        with self._reading():
            self.path = self._locate(str(path))
            self.kind, self._packing = self._find_format()
            if self.kind in IN_PARTS:
                names = [name for name in self._dataset().schema.names if not INDEX.fullmatch(name)]
            else:
                names = self._text_columns() if self.kind == "text" else list(self._whole().columns)
        self._name_columns(names)

    def read(self, columns: Sequence[str] | None = None, types: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Read whole columns into memory."""
        names = list(self.columns if columns is None else columns)
        self.require(names)
        if self.kind in IN_PARTS:
            with self._reading():
                dataset = self._dataset()
                self._refuse_beyond_memory(dataset.count_rows(), len(names), memory_bytes())
                frame = self._frame(dataset.to_table(columns=_fields(names)), names)
        elif self.kind == "text":
            self._refuse_empty(self._is_header_alone)
            if self._n_bytes > memory_bytes():
                raise TableError(f"{self.name} has {self._n_bytes:,} bytes of text, too many for the memory. {SMALLER}")
            frame = self._read_csv(names, dict(types or {}))
        else:
            frame = self._whole()[names]
        self._refuse_empty(not len(frame))
        return frame

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str] | None = None, n_rows: int = CHUNK_ROWS
    ) -> Iterator[pd.DataFrame]:
        """Read at most `n_rows` rows at a time, so that the file may be larger than the memory."""
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        names = list(columns)
        self.require(names)
        n_rows = min(n_rows, max(CHUNK_NUMBERS // max(len(names), 1), 1))
        if self.kind not in (*IN_PARTS, "text"):
            yield from TableFrame(self._whole()).chunks(names, types, n_rows)
            return
        if self.kind == "text" and self._is_header_alone:
            return
        with self._reading():
            if self.kind == "text":
                known = {name: (types or {}).get(name, "string") for name in names}
                batches: Any = pyarrow.csv.open_csv(self._stream(), **self._csv_options(names, known))
            elif self.kind == "parquet" and isinstance(self.path, Path):
                # Buffered column by column: a dataset holds whole row groups, read ahead until the end of the file.
                file = pyarrow.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=BUFFER)
                batches = file.iter_batches(batch_size=n_rows, columns=names, use_threads=False)
            else:
                ahead = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
                batches = self._dataset().to_batches(columns=_fields(names), batch_size=n_rows, **ahead)
            for batch in batches:
                for start in range(0, len(batch), n_rows):
                    yield self._frame(pa.table(batch.slice(start, n_rows)), names)

    def _locate(self, typed: str) -> Any:
        """Return where the table is read from: its path, or a copy of what can be read only once."""
        if typed == "-":
            return self._copied(sys.stdin.buffer)
        scheme = ADDRESS.match(typed)
        if scheme is None:
            self._check_file(Path(typed))
            return Path(typed)
        if scheme[1] in ("http", "https"):
            import urllib.request

            with urllib.request.urlopen(typed, timeout=60) as answer:
                return self._copied(answer, PurePosixPath(urlsplit(typed).path).name)
        filesystem, path = open_filesystem(typed)
        if _suffix(path) in (*SEPARATORS, *JSON_LINES, *EXCEL):
            with filesystem.open_input_stream(path, compression=None) as stream:
                return self._copied(stream, PurePosixPath(path).name)
        self.filesystem = filesystem
        return path

    def _copied(self, stream: Any, name: str = "") -> Path:
        """Copy a stream to a file that is removed with this object."""
        folder = tempfile.mkdtemp(prefix="holdfast-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / (name or "table")
        most, size = shutil.disk_usage(folder).free // 2, 0
        with path.open("wb") as copy:
            while block := stream.read(BUFFER):
                size += copy.write(block)
                if size > most:
                    raise TableError(f"{self.name} does not end after {size:,} bytes, half of the space on the disk.")
        if getattr(stream, "length", None):  # of a download: urllib does not compare it
            raise TableError(f"{self.name} was cut after {size:,} bytes; {stream.length:,} are missing. Try again.")
        if size == 0:
            raise TableError(f"{self.name} is empty. Pass a file with a header and rows.")
        return path

    def _check_file(self, path: Path) -> None:
        """Refuse what is not a file of a type we read."""
        if not path.exists():
            folder = path.parent
            names = [p.name for p in folder.iterdir() if _suffix(p.name) in TABLES] if folder.is_dir() else []
            near = get_close_matches(path.name, names, n=1, cutoff=0.75)
            raise TableError(f"{path} does not exist. " + (f"Did you mean {near[0]}?" if near else "Check the path."))
        if path.is_dir():
            raise TableError(f"{path} is a folder. Pass one {', '.join(TABLES)} file.")
        if _suffix(path.name) not in TABLES:
            known = f"{', '.join(TABLES)}, text also as {', '.join(COMPRESSED)}"
            raise TableError(f"{path} is of the unknown type {path.suffix!r}. Save it as one of {known}.")
        if not path.is_file():
            raise TableError(f"{path} is a pipe or a device. Pipe it into the command, and pass - as the table.")
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty. Pass a file with a header and rows.")

    def _find_format(self) -> tuple[str, str | None]:
        """Return what the file is (a name in `FORMATS`, or text) and how it is compressed."""
        by_name = next((kind for kind, endings in FORMATS.items() if _suffix(str(self.path)) in endings), None)
        if not isinstance(self.path, Path):
            return by_name or "parquet", None
        with self.path.open("rb") as file:
            start = file.read(8)
        packing = next((name for name, mark in COMPRESSIONS.items() if start.startswith(mark)), None)
        by_content = next((kind for kind, mark in MARKS.items() if start.startswith(mark)), None)
        return by_content or by_name or ("json" if start.startswith(b"{") else "text"), packing

    def _dataset(self) -> Any:
        """Return the rows of an Arrow format."""
        import pyarrow.dataset as ds

        scan = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True, buffer_size=BUFFER)
        parquet = ds.ParquetFileFormat(default_fragment_scan_options=scan)
        form = ds.IpcFileFormat() if self.kind == "arrow" else parquet
        return ds.dataset(str(self.path), format=form, filesystem=self.filesystem)

    def fragment(self) -> Any:
        """Return a Parquet file as the one fragment of its dataset."""
        (fragment,) = self._dataset().get_fragments()
        return fragment

    def _whole(self) -> pd.DataFrame:
        """Return a file that is read at once: JSON lines, a stream of Arrow, or the first sheet of a workbook."""
        import pandas as pd
        import pyarrow as pa
        import pyarrow.json

        if not hasattr(self, "_read_whole"):
            table: Any
            if self.kind == "excel":
                require("openpyxl", extra="excel", what="Excel files")
                words = [*MISSING, *self.missing]
                with zipfile.ZipFile(self.path) as archive:
                    self._refuse_growth(sum(member.file_size for member in archive.infolist()))
                table = pd.read_excel(self.path, engine="openpyxl", keep_default_na=False, na_values=words)
            elif self.kind == "json":
                self._check_json()
                options = pyarrow.json.ReadOptions(block_size=JSON_LINE)
                table = pyarrow.json.read_json(self._stream(), read_options=options)
            else:
                table = pa.ipc.open_stream(self._stream()).read_all()
            self._read_whole = TableFrame(table, self.missing)._frame
        return self._read_whole

    def _refuse_growth(self, n_bytes: int) -> None:
        """Refuse a file that unpacks to much more than it is, or to more text than the memory can hold."""
        packed = self.path.stat().st_size
        if n_bytes > max(SMALL, MOST_GROWTH * packed):
            raise TableError(
                f"{self.name} has {packed:,} bytes and unpacks to more than {n_bytes - 1:,}, unusual for a table. "
                "Unpack it yourself if it is what you expect."
            )
        if 4 * n_bytes > memory_bytes() and self.kind != "text":  # which can also be read in chunks
            raise TableError(f"{self.name} has {n_bytes:,} bytes of text, too many for the memory. {SMALLER}")

    def _check_json(self) -> None:
        """Refuse JSON lines that unpack without end, or that are nested so deeply that pyarrow would crash."""
        self._refuse_growth(self.path.stat().st_size)
        with self._open() as file:
            number, rest = 1, b""
            while block := file.read(BUFFER):
                *lines, rest = (rest + block).split(b"\n")
                for place, line in enumerate(lines, start=number):
                    self._check_depth(line, place)
                number += len(lines)
                if len(rest) > JSON_LINE:
                    raise TableError(f"{self.name}: line {number} is longer than {JSON_LINE:,} bytes. Is it a table?")
            self._check_depth(rest, number)

    def _check_depth(self, line: bytes, number: int) -> None:
        if line.count(b"[") + line.count(b"{") <= DEEPEST:
            return
        depth = 0
        for bracket in re.findall(rb"[\[\]{}]", re.sub(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|$)', b"", line)):
            depth += 1 if bracket in b"[{" else -1
            if depth > DEEPEST:
                raise TableError(f"{self.name}: line {number} has more than {DEEPEST} structures inside each other.")

    def _stream(self) -> Any:
        """Open the file's bytes, unpacked, for pyarrow."""
        import pyarrow as pa

        return pa.input_stream(str(self.path), compression=self._packing)

    def _open(self) -> Any:
        """Open the file's bytes, unpacked as far as is reasonable."""
        return self._stream() if self._packing is None else _Unpacked(self._stream(), self._refuse_growth)

    def _text_columns(self) -> list[str]:
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
            self._find_ragged_line()
        with self._csv_reader() as reader:
            header: list[str] = next((row for row in reader if row), [])
            self._n_header_lines = reader.line_num  # blank lines before the header included
            # pyarrow takes a file without rows for a broken one
            self._is_header_alone = next((row for row in reader if row), None) is None
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
        self._longest_line, self._n_bytes = max(self._longest_line, length), position
        return n_quotes

    def _find_layout(self) -> None:
        """Find out separator and decimal sign from the first rows, and say what is not the usual."""
        usual = SEPARATORS.get(_suffix(str(self.path)), ",")
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

    def _find_ragged_line(self) -> None:
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

    def _read_csv(self, names: list[str], types: dict[str, str]) -> pd.DataFrame:
        """Read columns of a CSV file; whole numbers beyond 64 bits are read again as text."""
        import pyarrow.csv

        with self._reading():
            table = pyarrow.csv.read_csv(self._stream(), **self._csv_options(names, types))
            long = [name for name in names if name not in types and maybe_long_integers(table[name])]
            if long:
                again = pyarrow.csv.read_csv(self._stream(), **self._csv_options(long, dict.fromkeys(long, "string")))
                for name in long:
                    if all(re.fullmatch(r"[+-]?\d+", text) for text in again[name].drop_null().unique().to_pylist()):
                        table = table.set_column(table.schema.get_field_index(name), name, again[name])
            return self._frame(table, names)

    def _csv_options(self, names: list[str], types: Mapping[str, str]) -> dict[str, Any]:
        """Return pyarrow's options for reading columns `names`."""
        import pyarrow as pa
        import pyarrow.csv

        wanted = set(names)
        plain = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "time": pa.time64("us")}
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=self.columns,
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
                null_values=[*MISSING, *_spellings(self.missing)],
                decimal_point=self._decimal,
                strings_can_be_null=True,
            ),
        }

    def _frame(self, table: Any, names: list[str]) -> pd.DataFrame:
        """Turn an Arrow table into a frame of plain columns."""
        import pandas as pd
        import pyarrow as pa

        def is_plain(kind: Any) -> bool:
            return pa.types.is_integer(kind) or (pa.types.is_floating(kind) and not pa.types.is_float16(kind))

        if self.missing and self.kind != "text":
            frame = TableFrame(table, self.missing).read()
            return frame[names]
        numbers = [field.name for field in table.schema if is_plain(field.type)]
        # In one piece: a table can have 100,000 columns. Without an index that pandas wrote: the others have none.
        block: pd.DataFrame = table.select(numbers).to_pandas(ignore_metadata=True)
        if len(numbers) == len(names):
            return block[names]
        known = set(numbers)
        others = {
            name: plain_series(table[name], f"{self.name}: column {name!r}") for name in names if name not in known
        }
        return pd.concat([block, pd.DataFrame(others)], axis=1)[names]

    def _reading(self) -> Any:
        return reading(self.name, self)


@contextmanager
def reading(name: str, text: TableFile | None = None) -> Iterator[None]:
    """Turn what pyarrow and file systems raise about a table into our error; ours pass. `text` knows lines of CSV."""
    try:
        yield
    except HoldfastError:
        raise
    except MemoryError as problem:
        raise TableError(f"{name} does not fit in memory. {SMALLER}") from problem
    except PermissionError as problem:
        raise TableError(f"{name} cannot be read: permission denied.") from problem
    except FileNotFoundError as problem:
        raise TableError(f"{name} does not exist. Check the address.") from problem
    except Exception as problem:  # what parsers and connections raise on what others wrote
        reason = re.sub(r"^.*Could not open \w+ input source '.*?': ", "", " ".join(str(problem).split()))
        reason = reason[:200].rstrip(".")
        if text is not None and "CSV parse error: Expected" in reason:
            text._find_ragged_line()  # raises with the line's number, which pyarrow does not know
        value = re.search(
            r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+): invalid value '(.*)'", reason
        )
        if text is not None and value:
            column, line, kind, content = value.groups()
            wanted = {"double": "a number", "bool": "true or false"}.get(kind, kind)
            raise TableError(
                f"{name}: column {text.columns[int(column)]!r} contains {content!r}"
                f"{f' (line {line})' if line else ''}, which is not {wanted}. "
                "Correct the value, or leave its cell empty."
            ) from problem
        again = "Check the address and your rights there." if "://" in name else "Write the file again."
        raise TableError(f"{name} cannot be read ({reason}). {again}") from problem


class _Unpacked(io.RawIOBase):
    """A compressed file's bytes, whose number is checked while they are read."""

    def __init__(self, stream: Any, check: Callable[[int], None]) -> None:
        self._stream, self._check, self._n_bytes = stream, check, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._n_bytes += len(data)
        self._check(self._n_bytes)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _suffix(name: str) -> str:
    """Return the ending that says the format, without that of a compression.

    Examples
    --------
    >>> _suffix("rows.CSV.gz"), _suffix("rows.parquet")
    ('.csv', '.parquet')
    """
    path = PurePosixPath(name.lower())
    packed = path.suffix in COMPRESSED and PurePosixPath(path.stem).suffix in (*SEPARATORS, *JSON_LINES)
    return PurePosixPath(path.stem).suffix if packed else path.suffix


def _fields(names: Sequence[str]) -> dict[str, Any]:
    """Return columns for pyarrow by their whole names: a point in one does not lead into a structure."""
    import pyarrow.compute as pc

    return {name: pc.field(name) for name in names}


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


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path there: one that pyarrow knows, or one of fsspec."""
    import pyarrow as pa
    import pyarrow.fs

    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(url)
        return filesystem, str(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fsspec = require("fsspec", extra="files", what=f"Addresses that begin with {url.partition('://')[0]}://")
        try:
            remote, path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as problem:
            raise TableError(f"{url} cannot be opened ({' '.join(str(problem).split())}). Check the address.") from None
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(remote)), str(path)


def is_folder(typed: str) -> bool:
    """Return whether a path or an address is that of a folder."""
    scheme = ADDRESS.match(typed)
    if scheme is None or scheme[1] in ("http", "https"):
        return scheme is None and Path(typed).is_dir()
    with reading(typed):
        filesystem, path = open_filesystem(typed)
        return bool(filesystem.get_file_info(path.rstrip("/")).type.name == "Directory")


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read columns (None: all of them) of a file or folder, see `open_table`."""
    return open_table(path).read(columns)


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
        raise TableError(f"{where} contains {kind} values. Flatten it into plain columns, or leave it out.")
    else:
        column.validate(full=True)  # bytes that are not UTF-8
    return column.to_pandas()  # type: ignore[no-any-return]


def _without_objects(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of Python objects as numbers or dates, where all of them are; others as they are."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(series)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return pd.to_numeric(series)
    return series.infer_objects() if kind == "datetime" else series


def _spellings(missing: Sequence[str]) -> list[str]:
    """Return texts that mean a missing value, whole numbers as decimal numbers too.

    Examples
    --------
    >>> _spellings(["?", "999"])
    ['?', '999', '999.0', '999.00', '999,0']
    """
    return [text + end for text in missing for end in (("", ".0", ".00", ",0") if _WHOLE.fullmatch(text) else ("",))]


def _without_words(series: pd.Series[Any], missing: Sequence[str]) -> pd.Series[Any]:
    """Return a column with some texts missing; as numbers, where all others are, as a CSV file would be read."""
    import pandas as pd

    codes = [float(text) for text in missing if _WHOLE.fullmatch(text)]
    if codes and series.dtype.kind in "iuf" and series.isin(codes).any():
        return series.astype("float64").mask(series.isin(codes))
    if series.dtype.kind in "biufcmM" or not series.isin(missing).any() and not pd.api.types.is_string_dtype(series):
        return series
    rest = series.astype(object).mask(series.isin(missing))
    numbers = pd.to_numeric(rest, errors="coerce")
    return numbers if (numbers.isna() == rest.isna()).all() else rest


def open_table(
    table: Any,
    missing: Sequence[str] = (),
    layout: TextLayout | None = None,
    *,
    on_bad_file: OnBadFile = "stop",
    max_memory: float | None = None,
) -> TableSource:
    """Return a table to read from: a file or folder by its path or URL, or a frame; `missing` are missing values.

    `on_bad_file` and `max_memory` are those of `TableFolder`.
    """
    if isinstance(table, TableSource):
        return table
    if isinstance(table, str | os.PathLike):
        if is_folder(os.fspath(table)):
            from holdfast.tables.folders import TableFolder

            return TableFolder(os.fspath(table), missing, on_bad_file=on_bad_file, max_memory=max_memory)
        return TableFile(os.fspath(table), missing, layout)
    if hasattr(table, "columns") and (hasattr(table, "__arrow_c_stream__") or hasattr(table, "iloc")):
        return TableFrame(table, missing)
    raise TableError(
        f"A table must be the path of a file ({', '.join(TABLES)}) or a data frame (pandas, polars, pyarrow). "
        f"Got {type(table).__name__} instead."
    )


def memory_bytes() -> int:
    """Return the memory of this machine, or less where this process may not use all of it."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, ValueError, OSError):  # Windows
        return 1 << 62
    return physical if limit == resource.RLIM_INFINITY else min(physical, limit)


class TableWriter:
    """Writes frames one after the other to a CSV or Parquet file, which appears under its name when all are written.

    The file's suffix says the format; `-` is standard output, as CSV. With `for_spreadsheets`, an apostrophe is put
    before texts, column names included, that a spreadsheet would take for a formula.
    """

    def __init__(self, file: Path, *, for_spreadsheets: bool = False) -> None:
        self.file = file
        self.for_spreadsheets = for_spreadsheets
        self.n_rows = 0
        self._stack = ExitStack()
        self._parquet: Any = None

    def __enter__(self) -> TableWriter:
        if str(self.file) == "-":
            self._stream: Any = sys.stdout.buffer
            self._stack.enter_context(storage_errors(Path("standard output"), safe=""))
            self._stack.callback(self._stream.flush)  # a full disk is said here, and not after the end
        else:
            self._stream = self._stack.enter_context(new_file(self.file))
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every frame has the same columns."""
        if self.for_spreadsheets:
            frame = without_formulas(frame)
        if self.file.suffix.lower() in PARQUET:
            self._write_parquet(frame)
        else:
            separator = SEPARATORS.get(self.file.suffix.lower(), ",")
            frame.to_csv(self._stream, mode="wb", header=not self.n_rows, index=False, sep=separator)
        self.n_rows += len(frame)

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, traceback: Any) -> None:
        self._stack.__exit__(kind, problem, traceback)

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            self._parquet = self._stack.enter_context(pyarrow.parquet.ParquetWriter(self._stream, table.schema))
        self._parquet.write_table(table.cast(self._parquet.schema))


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which no text or column name begins like a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"=1": ["=cmd|x", "plain"], "n": [-1, 2]})).to_dict("list")
    {"'=1": ["'=cmd|x", 'plain'], 'n': [-1, 2]}
    """

    def safe(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value

    texts = {name: frame[name].map(safe) for name in frame if frame[name].dtype.kind not in "biufcmM"}
    return frame.assign(**{str(name): column for name, column in texts.items()}).rename(columns=safe)


def map_columns(
    table: str | Path, columns: Sequence[str], to: str | Path, *, dtype: Any = np.float64, rows_at_once: int = 100_000
) -> np.memmap[Any, Any]:
    r"""Copy number columns of a CSV or Parquet file to an ``.npy`` file, part by part, and return it as a memory map.

    Estimators with the convex or the gradient solver read such rows block by block: they are never all in memory.

    Parameters
    ----------
    table : path
        A .csv, .tsv or .parquet file.
    columns : sequence of str
        Columns of numbers, in the order wanted.
    to : path
        The file to write; an older one is replaced.
    dtype : numpy type, default=float64
        Networks compute in float32, which takes half the space.
    rows_at_once : int, default=100_000
        Rows of the table that are in memory at once.

    Returns
    -------
    memmap of shape (n_rows, n_columns), read-only

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rows.csv"
    ...     _ = file.write_text("a,b,name\n1,2,x\n3,4,y\n")
    ...     map_columns(file, ["b", "a"], Path(folder) / "rows.npy").tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    source, types = TableFile(table), dict.fromkeys(columns, "number")
    n_rows = sum(len(part) for part in source.chunks(columns[:1], types, rows_at_once))
    if n_rows == 0:
        raise TableError(f"{table} has no rows, so there is nothing to map.")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    with new_file(to) as written:
        np.lib.format.write_array_header_1_0(written, header | {"shape": (n_rows, len(columns))})
        for part in source.chunks(columns, types, rows_at_once):
            texts = [name for name in columns if part[name].dtype.kind not in "biuf"]
            if texts:
                raise TableError(
                    f"Column {texts[0]!r} of {table} does not contain numbers. Name columns of numbers only."
                )
            written.write(np.ascontiguousarray(part[list(columns)], dtype=dtype).data)
    mapped: np.memmap[Any, Any] = np.lib.format.open_memmap(to, mode="r")
    return mapped
