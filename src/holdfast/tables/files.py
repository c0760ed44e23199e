"""Read tables from files, URLs, standard input and data frames; errors name what is broken.

CSV files have a header line. Separator, decimal sign and encoding are detected. A note names what is unusual: other
separators than commas in `.csv` and tabs in `.tsv`, decimal commas, and other encodings than UTF-8. Empty cells and the
words in `MISSING` are missing values. Types are inferred from the whole file: whole numbers, decimals, true/false, ISO
dates, text. Whole numbers too long for 64 bits stay text, so that no two identifiers become equal.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from holdfast.exceptions import HoldfastError, TableError, suggest
from holdfast.extras import require
from holdfast.tables.columns import maybe_long_integers, plain_series, spellings, without_objects, without_words
from holdfast.tables.text import BUFFER, MISSING, DelimitedText
from holdfast.tables.text import TextLayout as TextLayout

if TYPE_CHECKING:
    import pandas as pd


OnBadFile = Literal["stop", "skip"]
SEPARATORS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
JSON_LINES, EXCEL, PARQUET = (".jsonl", ".ndjson"), (".xlsx",), (".parquet", ".pq")
FORMATS = {"text": tuple(SEPARATORS), "json": JSON_LINES, "arrow": (".feather", ".arrow"), "parquet": PARQUET}
FORMATS["excel"] = EXCEL
TABLES = tuple(ending for endings in FORMATS.values() for ending in endings)
MARKS = {"parquet": b"PAR1", "arrow": b"ARROW1", "stream": b"\xff\xff\xff\xff", "excel": b"PK\3\4"}  # first bytes
IN_PARTS = ("parquet", "arrow")  # formats of which columns and rows can be read alone
COMPRESSED = (".gz", ".bz2", ".zst")  # of text
COMPRESSIONS = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "zstd": b"\x28\xb5\x2f\xfd"}
CHUNK_ROWS = 65_536
CHUNK_NUMBERS = 1 << 24  # of wide rows there are fewer in a chunk: 128 MiB
MOST_GROWTH, SMALL = 1_000, 1 << 30  # a packed table may unpack to this many times its size, or to this many bytes
JSON_LINE, DEEPEST = 1 << 24, 100  # bytes of a JSON line, structures inside each other: pyarrow crashes at thousands
SMALLER = "Leave columns out with drop=, or take a sample of the rows."
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://")
INDEX = re.compile(r"__index_level_[0-9]+__")  # what pandas writes beside the columns: numbers of rows


class ArrowTable(Protocol):
    """A data frame that gives its columns to Arrow, such as one of polars, pyarrow or pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the columns."""


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

    def __init__(self, frame: ArrowTable | pd.DataFrame, missing: Sequence[str] = ()) -> None:
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
                self._frame[name] = without_words(self._frame[name], missing)
            if kind == "object":
                self._frame[name] = without_objects(self._frame[name])

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


class TableFile(TableSource):
    """A table in a file, standard input (`-`) or at a URL.

    `missing` are further texts that mean missing. The first bytes say the format, or the name's ending (`TABLES`) where
    they do not. Everything is read in `read` and `chunks`: Parquet and Arrow through `pyarrow.dataset`, CSV through
    `pyarrow.csv`, JSON lines through `pyarrow.json`, Excel through pandas.
    """

    text: DelimitedText  # of a file of the kind "text"

    def __init__(self, path: str | Path, missing: Sequence[str] = (), layout: TextLayout | None = None) -> None:
        self.missing, self.layout = tuple(missing), layout or TextLayout()
        self.name = "standard input" if str(path) == "-" else str(path)
        self.filesystem: Any = None  # of a URL; None for this machine's own
        with self._reading():
            self.path = self._locate(str(path))
            self.kind, self._packing = self._find_format()
            if self.kind in IN_PARTS:
                names = [name for name in self._dataset().schema.names if not INDEX.fullmatch(name)]
            elif self.kind == "text":
                usual = SEPARATORS.get(_suffix(str(self.path)), ",")
                self.text = DelimitedText(self.name, self._open, usual, self.layout)
                self.notes, names = self.text.notes, self.text.header
            else:
                names = list(self._whole().columns)
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
            self._refuse_empty(self.text.is_header_alone)
            if self.text.n_bytes > memory_bytes():
                raise TableError(
                    f"{self.name} has {self.text.n_bytes:,} bytes of text, too many for the memory. {SMALLER}"
                )
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
        if self.kind == "text" and self.text.is_header_alone:
            return
        with self._reading():
            if self.kind == "text":
                known = {name: (types or {}).get(name, "string") for name in names}
                batches: Any = pyarrow.csv.open_csv(self._stream(), **self._options(names, known))
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

    def _read_csv(self, names: list[str], types: dict[str, str]) -> pd.DataFrame:
        """Read columns of a CSV file; whole numbers beyond 64 bits are read again as text."""
        import pyarrow.csv

        with self._reading():
            table = pyarrow.csv.read_csv(self._stream(), **self._options(names, types))
            long = [name for name in names if name not in types and maybe_long_integers(table[name])]
            if long:
                again = pyarrow.csv.read_csv(self._stream(), **self._options(long, dict.fromkeys(long, "string")))
                for name in long:
                    if all(re.fullmatch(r"[+-]?\d+", text) for text in again[name].drop_null().unique().to_pylist()):
                        table = table.set_column(table.schema.get_field_index(name), name, again[name])
            return self._frame(table, names)

    def _options(self, names: list[str], types: Mapping[str, str]) -> dict[str, Any]:
        return self.text.options(self.columns, names, types, spellings(self.missing))

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
def reading(name: str, file: TableFile | None = None) -> Iterator[None]:
    """Turn what pyarrow and file systems raise about a table into our error; ours pass. `file` knows lines of CSV."""
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
        if file is not None and "CSV parse error: Expected" in reason:
            file.text.find_ragged_line()  # raises with the line's number, which pyarrow does not know
        value = re.search(
            r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+): invalid value '(.*)'", reason
        )
        if file is not None and value:
            column, line, kind, content = value.groups()
            wanted = {"double": "a number", "bool": "true or false"}.get(kind, kind)
            raise TableError(
                f"{name}: column {file.columns[int(column)]!r} contains {content!r}"
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


# A path or an address, an open table, or a data frame.
TableLike: TypeAlias = "str | os.PathLike[str] | TableSource | ArrowTable | pd.DataFrame"


def open_table(
    table: TableLike,
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
