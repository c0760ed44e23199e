import bz2
import csv
import datetime
import decimal
import errno
import gzip
import io
import json
import os
import re
import threading
import time
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from holdfast.exceptions import HoldfastError, ParameterError, StorageError, TableError
from holdfast.saving.files import TEMPORARY, inject_faults
from holdfast.tables import files
from holdfast.tables.files import TableFile, TextLayout, open_table, read_table
from holdfast.tables.preprocessing import make_preprocessor
from holdfast.tables.roles import TableOptions, read_rows
from holdfast.tables.schema import TableSchema
from holdfast.tables.writing import TableWriter, map_columns, without_formulas


@pytest.fixture
def write(tmp_path):
    """Return a function that writes bytes or text to a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_csv_types_are_inferred_over_the_whole_file(write):
    """Whole numbers, decimals, booleans, dates, times and text; empty cells and words for it are missing."""
    frame = read_table(
        write("t.csv", "i,f,b,d,t,s\n1,1.5,true,2026-11-15,10:30,x\n2,NA,False,2026-11-16,00:00,None\n3,2,true,,,\n")
    )
    assert frame["i"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(frame["f"], [1.5, np.nan, 2])
    assert frame["b"].dtype == bool
    assert frame["d"].tolist()[:2] == [pd.Timestamp("2026-11-15"), pd.Timestamp("2026-11-16")]
    np.testing.assert_array_equal(frame["t"].dt.total_seconds(), [37800, 0, np.nan])
    assert frame["s"].isna().tolist() == [False, True, True]


def test_csv_reads_quotes_byte_order_mark_blank_lines_and_tabs(write):
    """A quoted value may hold separators and line ends; an inch sign is no quote."""
    frame = read_table(write("t.csv", b'\xef\xbb\xbf\n\na,b\n1,"x, y\nz"\n\n2,5" pipe\n'))
    assert frame.to_dict("list") == {"a": [1, 2], "b": ["x, y\nz", '5" pipe']}
    assert read_table(write("t.tsv", "a\tb\n1\tx, y\n")).to_dict("list") == {"a": [1], "b": ["x, y"]}


def test_long_whole_numbers_stay_apart(write):
    """Identifiers beyond 64 bits that differ in the last digit are not merged by rounding."""
    frame = read_table(write("t.csv", "id,x\n99999999999999999998,1e300\n99999999999999999999,2\n"))
    assert frame["id"].tolist() == ["99999999999999999998", "99999999999999999999"]
    assert frame["x"].tolist() == [1e300, 2.0]


def test_columns_are_chosen_and_ordered(write):
    """Only the asked columns are read, in the asked order; a nameless one gets a name."""
    path = write("t.csv", ",a,b\n0,1,2\n")
    assert TableFile(path).columns == ("unnamed_1", "a", "b")
    assert read_table(path, ["b", "unnamed_1"]).to_dict("list") == {"b": [2], "unnamed_1": [0]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.sav", "x", "is of the unknown type '.sav'. Save it as one of .csv, .tsv, .jsonl, .ndjson, .feather,"),
        ("t.jsonl", '{"a": 1}\n{"a"', "cannot be read (JSON parse error"),
        ("t.arrow", "not one", "cannot be read ("),
        ("t.csv.gz", b"\x1f\x8b\x08 not really", "cannot be read ("),
        ("t.csv", "", "is empty. Pass a file with a header and rows."),
        ("t.csv", "\n\n", "is empty. Pass a file with a header and rows."),
        ("t.csv", "a,b\n", "has a header but no rows. Pass a file with rows."),
        ("t.csv", "a,b\n1,2\n\n3\n", "is ragged: line 4 has 1 field, the header has 2. Correct that line"),
        ("t.csv", 'a,b\n1,"x\ny"\n3,4,5\n', "is ragged: line 4 has 3 fields, the header has 2."),
        ("t.csv", 'a,b\n1,"x\n3,4\n', "is broken at line 2. A quote is opened and never closed."),
        ("t.csv", b"a,b\n1,\xff\n", "is not UTF-8: byte 0xff at position 6 (line 2). Save it as UTF-8, or name"),
        ("t.csv", b"a,b\n1,\xe2\x82", "is not UTF-8: byte 0xe2 at position 6 (line 2). Save it as UTF-8, or name"),
        ("t.csv", "a,a\n1,2\n", "has more than one column 'a'. Give each column a name of its own."),
        ("t.parquet", b"PAR1 not really PAR1", "cannot be read ("),
        ("t.parquet", "", "is empty. Pass a file with a header and rows."),
    ],
)
def test_broken_files_are_named(write, name, content, message):
    """Each way a file can be broken has a message with the file, the place and what to do."""
    path = write(name, content)
    with pytest.raises(TableError, match=re.escape(f"{path} {message}")):
        read_table(path)


def test_utf8_position_counts_over_blocks(write):
    """A character cut by a block boundary is fine; a broken one far into the file has its true position."""
    good = b"a\n" + "é".encode() * 600_000 + b"\n" + b"x" * 11
    assert len(read_table(write("t.csv", good))) == 2
    with pytest.raises(TableError, match=re.escape(f"byte 0xc3 at position {len(good)} (line 3)")):
        read_table(write("t.csv", good + b"\xc3"))


def test_missing_file_and_folder(write, tmp_path):
    """A near name is suggested."""
    write("train.csv", "a\n1\n")
    with pytest.raises(TableError, match=r"trian\.csv does not exist\. Did you mean train\.csv\?"):
        read_table(tmp_path / "trian.csv")
    with pytest.raises(TableError, match=r"z\.csv does not exist\. Check the path\."):
        read_table(tmp_path / "none" / "z.csv")
    with pytest.raises(TableError, match="is a folder. Pass one .csv, .tsv, .jsonl, .ndjson, .feather,"):
        TableFile(tmp_path)
    with pytest.raises(TableError, match="is a folder without .parquet or .pq files. Pass another one."):
        read_table(tmp_path)


def test_words_that_mean_missing(write, tmp_path):
    """They are missing in files and frames alike, and columns of numbers become numbers, also where they have none."""
    texts = pd.DataFrame({"a": ["1.5", "?", "2"], "b": ["x", "?", "?"], "c": ["1", "2", "3"], "d": [1, 2, 3]})
    texts.to_parquet(tmp_path / "t.parquet")
    frames = [texts, texts.astype({"a": "category"}), tmp_path / "t.parquet"]
    frames.append(write("t.csv", texts.to_csv(index=False)))
    for table in frames:
        frame = open_table(table, ["?"]).read()
        assert frame["a"].isna().tolist() == [False, True, False]
        assert frame["a"].dropna().tolist() == [1.5, 2.0]
        assert frame["b"].tolist()[0] == "x"
        assert frame["c"].tolist() == frame["d"].tolist() == [1, 2, 3]
        assert frame["b"].isna().sum() == 2
    assert texts["a"].tolist() == ["1.5", "?", "2"]  # what was passed is as it was


def test_missing_column_suggests_a_near_one(write):
    """The nearest name is suggested, or what there is."""
    path = write("t.csv", "label,site\n1,2\n")
    with pytest.raises(TableError, match=r"has no column 'lable'\. Did you mean 'label'\?"):
        read_table(path, ["lable"])
    with pytest.raises(TableError, match=r"has no column 'q'\. Choose from 'label', 'site'\."):
        read_table(path, ["q"])


def test_parquet_types_become_plain(tmp_path):
    """Decimals, dictionaries, durations, far dates, nullable booleans and empty columns are read as plain columns."""
    path = tmp_path / "t.parquet"
    columns = {
        "decimal": [decimal.Decimal("1.5"), None],
        "category": pa.array(["x", None]).dictionary_encode(),
        "duration": [datetime.timedelta(seconds=5), None],
        "date": [datetime.date(9999, 1, 1), None],
        "flag": [True, None],
        "nothing": pa.nulls(2),
        "large": pa.array([2**64 - 1, 1], pa.uint64()),
    }
    pq.write_table(pa.table(columns), path)
    frame = read_table(path)
    np.testing.assert_array_equal(frame["decimal"], [1.5, np.nan])
    assert frame["category"].tolist()[0] == "x"
    np.testing.assert_array_equal(frame["duration"].dt.total_seconds(), [5.0, np.nan])
    assert frame["date"].iloc[0] == datetime.datetime(9999, 1, 1)
    assert frame["flag"].isna().tolist() == [False, True]
    assert frame["nothing"].isna().all()
    assert frame["large"].tolist() == [2**64 - 1, 1]


def test_nested_parquet_columns_are_refused_only_when_read(tmp_path):
    """A column of lists can be left out; reading it says what it holds."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1], "deep": [[1, 2]], "raw": [b"x"]}), path)
    assert read_table(path, ["a"])["a"].tolist() == [1]
    with pytest.raises(TableError, match=r"column 'deep' contains list<element: int64> values\. Flatten it"):
        read_table(path, ["deep"])
    with pytest.raises(TableError, match="column 'raw' contains binary values"):
        read_table(path, ["raw"])


def test_parquet_with_damaged_pages_or_bad_text_is_refused(tmp_path):
    """Damage behind an intact footer, and text that is not UTF-8, are found while reading."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(100_000)}), path)
    data = bytearray(path.read_bytes())
    data[2000:2100] = b"z" * 100
    path.write_bytes(data)
    with pytest.raises(TableError, match="cannot be read"):
        read_table(path)
    offsets = pa.py_buffer(np.array([0, 2], np.int32))
    pq.write_table(
        pa.table({"a": pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])}), path
    )
    with pytest.raises(TableError, match="Invalid UTF8"):
        read_table(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_chunks_hold_the_same_rows(tmp_path, suffix):
    """Chunks are no longer than asked, and together are the file."""
    frame = pd.DataFrame({"a": np.arange(10.0), "b": ["x", "y"] * 5})
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    chunks = list(TableFile(path).chunks(["b", "a"], {"a": "number"}, n_rows=4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), frame[["b", "a"]])


def test_chunks_of_csv_name_the_column_of_a_wrong_value(write):
    """A value that is not of the known type is named with its column."""
    table = TableFile(write("t.csv", "a,b,c\n" + "1,x,true\n" * 9 + "1,x,maybe\n"))
    with pytest.raises(TableError, match=r"column 'c' contains 'maybe' \(line 11\), which is not true or false\."):
        list(table.chunks(["c", "a"], {"c": "boolean"}))


@pytest.mark.parametrize("group_rows", [20_000, 400_000], ids=["many row groups", "one row group"])
def test_chunks_do_not_pile_up(tmp_path, group_rows):
    """However large a Parquet file is, what is held at a time is a chunk and a small buffer for each column."""
    path = tmp_path / "large.parquet"
    values = np.random.default_rng(0).normal(size=400_000)
    pq.write_table(
        pa.table({"a": values, "b": values}), path, row_group_size=group_rows, compression="none", use_dictionary=False
    )
    before, held = pa.total_allocated_bytes(), []
    for chunk in TableFile(path).chunks(["a", "b"], n_rows=10_000):
        assert len(chunk) == 10_000
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 40
    assert max(held) < 5e6  # the file has 6.4e6 bytes


def test_a_name_with_a_null_character_is_refused(write, tmp_path):
    """Arrow and pandas cut such names at different places."""
    message = r"has a column '\\x00x', whose name contains a NUL character\. Rename it"
    with pytest.raises(TableError, match=message):
        TableFile(write("a.csv", "y,\x00x\n1,2\n"))
    pq.write_table(pa.table({"\x00x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(TableError, match="NUL|cannot be read"):
        TableFile(tmp_path / "a.parquet")


FRAMES = [pd.DataFrame({"x": np.arange(n, dtype=float), "name": [f"ä{n}"] * n}) for n in (3, 2, 4)]
READERS = {
    ".csv": pd.read_csv,
    ".tsv": lambda file: pd.read_csv(file, sep="\t"),
    ".parquet": pd.read_parquet,
}


@pytest.mark.parametrize("suffix", READERS)
def test_frames_come_back_in_their_order(tmp_path, suffix):
    """All rows are there, once, under one header; the temporary file is gone."""
    file = tmp_path / f"table{suffix}"
    with TableWriter(file) as writer:
        for frame in FRAMES:
            writer.write(frame)
    assert writer.n_rows == 9
    pd.testing.assert_frame_equal(READERS[suffix](file), pd.concat(FRAMES, ignore_index=True))
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", READERS)
def test_a_vanished_file_is_an_error(tmp_path, suffix):
    """A table whose temporary file was deleted is not reported as written, and the older one stays."""
    file = tmp_path / f"table{suffix}"
    file.write_bytes(b"old")
    with pytest.raises(StorageError, match="deleted or replaced while it was written"), TableWriter(file) as writer:
        writer.write(FRAMES[0])
        for name in os.listdir(tmp_path):
            if name.startswith(TEMPORARY):
                os.unlink(tmp_path / name)
        writer.write(FRAMES[1])
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("step", ["create", "write", "fsync", "rename"])
def test_a_full_disk_leaves_the_older_table(tmp_path, suffix, step):
    """Whichever step fails, the older file is as it was, nothing else is left, and the error is ours."""
    file = tmp_path / f"table{suffix}"
    file.write_bytes(b"old")

    def fault(name, path):
        if name == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    message = f"^Could not write '{file}': the disk is full"
    with inject_faults(fault), pytest.raises(StorageError, match=message), TableWriter(file) as writer:
        writer.write(FRAMES[0])
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_number_columns_are_mapped_in_parts(tmp_path, kind):
    """Columns come in the order asked for, missing numbers as NaN, whatever the size of the parts."""
    frame = pd.DataFrame({"a": np.arange(7), "name": list("abcdefg"), "b": [0.5, None, 2.0, 3.0, 4.0, 5.0, 6.0]})
    file = tmp_path / f"rows.{kind}"
    frame.to_csv(file, index=False) if kind == "csv" else frame.to_parquet(file)
    mapped = map_columns(file, ["b", "a"], tmp_path / "rows.npy", dtype=np.float32, rows_at_once=3)
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(mapped, frame[["b", "a"]].to_numpy(dtype=np.float32))


def test_texts_are_refused(tmp_path):
    """A column of texts cannot be mapped, and is named."""
    pd.DataFrame({"a": [1, 2], "name": ["x", "y"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TableError, match="Column 'name' of .* does not contain numbers"):
        map_columns(tmp_path / "rows.parquet", ["a", "name"], tmp_path / "rows.npy")


@pytest.mark.parametrize("place", ["header", "first row", "later row"])
def test_cells_may_be_long(write, place):
    """A cell of 3,000,000 characters, more than Python's reader and one block of Arrow's take, is read like others."""
    long = "x" * 3_000_000
    names = [long if place == "header" else "a", "b"]
    rows = [[long if place == "first row" else "p", "1"], ["q", "2"], [long if place == "later row" else "r", "3"]]
    path = write("t.csv", "\n".join(",".join(row) for row in [names, *rows]) + "\n")
    table = TableFile(path)
    assert table.columns == tuple(names)
    assert table.read()["b"].tolist() == [1, 2, 3]
    assert table.read()[names[0]].tolist() == [row[0] for row in rows]
    assert sum(len(chunk) for chunk in table.chunks(names)) == 3


def test_the_limit_of_pythons_reader_is_left_alone(write):
    """It is a setting of the whole process."""
    before = csv.field_size_limit()
    read_table(write("t.csv", f"a\n{'x' * 200_000}\n"))
    assert csv.field_size_limit() == before


def test_a_table_may_have_many_columns(write):
    """The time grows with the number of columns, not with its square."""
    names = [f"c{number}" for number in range(30_000)]
    row = ",".join(["1"] * len(names))
    path = write(
        "t.csv", ",".join(["site", "y", *names]) + "\n" + "".join(f"{s},{y},{row}\n" for s in "ab" for y in "01")
    )
    begin = time.process_time()
    rows = read_rows(path, TableOptions(label="y", environment="site", drop=names[::2]))
    make_preprocessor(rows.roles.schema).fit(rows.features)
    TableSchema.infer(rows.features, categorical=names[1::2])
    assert time.process_time() - begin < 20  # a list of 30,000 names that is searched 30,000 times takes minutes
    assert len(rows.roles.schema.columns) == 15_000


def test_a_wide_table_of_numbers_and_texts_becomes_a_frame_in_linear_time(tmp_path):
    """Which columns are numbers is looked up, not searched for: 40,000 searches take 12 s."""
    numbers = {f"c{number}": [1.0, 2.0] for number in range(40_000)}
    pq.write_table(pa.table({"t": ["a", "b"]}), tmp_path / "t.parquet")
    table = pa.table({**numbers, "t": ["a", "b"]})
    begin = time.process_time()
    frame = TableFile(tmp_path / "t.parquet")._frame(table, table.column_names)
    assert time.process_time() - begin < 6
    assert frame.shape == (2, 40_001)


def test_wide_rows_are_read_many_at_a_time(write):
    """Each part costs time for every column, so a block of a few rows would make it grow with the columns' square."""
    names = [f"c{number}" for number in range(4000)]
    row = ",".join(["0.1234567890123456"] * len(names))
    path = write("t.csv", ",".join(names) + "\n" + 100 * f"{row}\n")  # 8 MB
    sizes = [len(chunk) for chunk in TableFile(path).chunks(names, dict.fromkeys(names, "number"))]
    assert sum(sizes) == 100
    assert len(sizes) <= 3


def test_wide_rows_are_not_held_by_the_thousand(tmp_path, monkeypatch):
    """A part of a Parquet file holds so many numbers, not so many rows."""
    monkeypatch.setattr(files, "CHUNK_NUMBERS", 1000)
    pd.DataFrame({name: np.arange(500) for name in "abcd"}).to_parquet(tmp_path / "t.parquet")
    table = TableFile(tmp_path / "t.parquet")
    assert [len(chunk) for chunk in table.chunks(["a", "b"])] == [500]
    assert [len(chunk) for chunk in table.chunks(list("abcd"))] == [250, 250]


@pytest.mark.parametrize("problem", ["text", "full disk"])
def test_a_map_that_fails_leaves_the_older_one(tmp_path, problem):
    """The file appears whole and flushed, or the older one stays."""
    pd.DataFrame({"a": [1, 2], "name": ["x", "y"]}).to_parquet(tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", [[7.0]])

    def fault(step, path):
        if problem == "full disk" and step == "fsync":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with inject_faults(fault), pytest.raises(HoldfastError, match="'name' of|the disk is full"):
        map_columns(tmp_path / "rows.parquet", ["a", "name"] if problem == "text" else ["a"], tmp_path / "rows.npy")
    assert np.load(tmp_path / "rows.npy").tolist() == [[7.0]]
    assert sorted(os.listdir(tmp_path)) == ["rows.npy", "rows.parquet"]


def test_a_file_beyond_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """A small Parquet file can hold any number of rows; the message says how many, and what to do."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array(np.zeros(1_000_000)), "b": pa.array(np.zeros(1_000_000))}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("holdfast.tables.files.memory_bytes", lambda: 20_000_000)
    assert len(read_table(path, ["a"])) == 1_000_000
    message = (
        r"t.parquet has 1,000,000 rows; 2 columns of them need at least 0.0 GiB of memory, and 0.0 GiB are there. "
        r"Leave columns out with drop=, or take a sample of the rows."
    )
    with pytest.raises(TableError, match=message):
        read_table(path)


def test_a_lack_of_memory_while_reading_is_named(tmp_path, monkeypatch):
    """Arrow's error has no text."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)

    def fail(*args, **kwargs):
        raise pa.ArrowMemoryError("")

    monkeypatch.setattr(TableFile, "_frame", fail)
    with pytest.raises(TableError, match=r"t.parquet does not fit in memory. Leave columns out with drop=, or take"):
        read_table(path)


@pytest.mark.parametrize("suffix", READERS)
def test_formulas_are_neutralized_on_request(tmp_path, suffix):
    """Texts and names that a spreadsheet would compute get an apostrophe in front; numbers do not."""
    frame = pd.DataFrame({"=name": ["=cmd|' /C calc'!A0", "+1", "-x", "@y", "\tz", "plain", None], "n": [-1.0] * 7})
    for asked in (False, True):
        file = tmp_path / f"table{suffix}"
        with TableWriter(file, for_spreadsheets=asked) as writer:
            writer.write(frame)
        written = READERS[suffix](file)
        mark = "'" if asked else ""
        assert list(written.columns) == [f"{mark}=name", "n"]
        expected = [f"{mark}{text}" for text in frame["=name"][:5]]
        assert written[f"{mark}=name"].tolist()[:6] == [*expected, "plain"]
        assert written["n"].tolist() == [-1.0] * 7
    for text in ("\n=1+1", "\uff1d1+1", "\uff20x"):  # wide signs, too, which some spreadsheets obey
        assert without_formulas(pd.DataFrame({"a": [text]}))["a"][0] == f"'{text}"


def test_an_index_of_pandas_in_a_parquet_file_moves_no_column(tmp_path):
    """A part of a frame keeps its numbers of rows in the file; texts and numbers stay side by side all the same."""
    frame = pd.DataFrame({"number": np.arange(8.0), "text": list("abcdefgh")}).iloc[5:]
    frame.to_parquet(tmp_path / "rows.parquet")
    found = read_table(tmp_path / "rows.parquet")
    assert found["number"].tolist() == [5.0, 6.0, 7.0]
    assert found["text"].tolist() == ["f", "g", "h"]


FRAME = pd.DataFrame({"age": [41.5, 38.0, np.nan], "ward": ["ä", "b", None], "ill": [0, 1, 1]})


def as_csv(**options):
    """Return the frame's CSV text as bytes."""
    return FRAME.to_csv(index=False, **options).encode()


def test_every_format_gives_the_same_rows(tmp_path):
    """Whole and in chunks: compressed text, JSON lines, Feather, Arrow, Parquet, and a folder with labels in names."""
    compress = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    }
    for ending, pack in compress.items():
        (tmp_path / f"t.csv{ending}").write_bytes(pack(as_csv()))
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(as_csv(sep="\t")))
    lines = [
        json.dumps({k: None if v != v or v is None else v for k, v in row.items()}) for row in FRAME.to_dict("records")
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    FRAME.to_feather(tmp_path / "t.feather")
    FRAME.to_feather(tmp_path / "t.arrow")
    FRAME.to_parquet(tmp_path / "t.parquet")
    pa.dataset.write_dataset(
        pa.table(FRAME), tmp_path / "folder", format="parquet", partitioning=["ill"], partitioning_flavor="hive"
    )
    for path in sorted(tmp_path.iterdir()):
        source = open_table(path)
        assert sorted(source.columns) == ["age", "ill", "ward"], path
        for frame in (
            source.read(["age", "ward", "ill"]),
            pd.concat(source.chunks(["age", "ward", "ill"], {"age": "number"})),
        ):
            np.testing.assert_array_equal(frame["age"], FRAME["age"], err_msg=str(path))
            assert frame["ward"].tolist()[:2] == ["ä", "b"]
            assert frame["ward"].isna().tolist() == [False, False, True]
            assert frame["ill"].astype(int).tolist() == [0, 1, 1]


def test_the_content_decides_where_the_ending_is_wrong(tmp_path):
    """Parquet, Arrow and compressed text are known by their first bytes; so are streams of Arrow."""
    FRAME.to_parquet(tmp_path / "parquet.csv")
    FRAME.to_feather(tmp_path / "feather.parquet")
    (tmp_path / "packed.csv").write_bytes(gzip.compress(as_csv()))
    (tmp_path / "plain.csv.gz").write_bytes(as_csv())
    table = pa.table(FRAME)
    with pa.ipc.new_stream(tmp_path / "stream.arrow", table.schema) as writer:
        writer.write_table(table)
    for path in sorted(tmp_path.iterdir()):
        assert open_table(path).read(["ill", "ward"])["ill"].tolist() == [0, 1, 1], path
        assert sum(len(part) for part in open_table(path).chunks(["ward"])) == 3


def test_excel_files_are_read_with_the_extra(tmp_path):
    """The first sheet, with the words that mean missing."""
    pytest.importorskip("openpyxl")
    FRAME.assign(age=["41.5", "?", "38"]).to_excel(tmp_path / "t.xlsx", index=False)
    frame = open_table(tmp_path / "t.xlsx", ["?"]).read()
    np.testing.assert_array_equal(frame["age"], [41.5, np.nan, 38.0])
    assert list(TableFile(tmp_path / "t.xlsx").columns) == ["age", "ward", "ill"]
    (tmp_path / "bad.xlsx").write_text("x")
    with pytest.raises(TableError, match=r"bad.xlsx cannot be read \(File is not a zip file\). Write the file again."):
        TableFile(tmp_path / "bad.xlsx")


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (as_csv(sep=";", decimal=","), "is read as separated by semicolons, with decimal commas"),
        (as_csv(sep="|"), "is read as separated by vertical bars"),
        (as_csv().decode().encode("cp1252"), "is read as in the encoding cp1252"),
        (as_csv(sep="\t").decode().encode("utf-16"), "is read as separated by tabs, in the encoding utf-16"),
        (as_csv().decode().encode("utf-16-le"), "is read as in the encoding utf-16-le"),
        (as_csv(), None),
    ],
    ids=["semicolons", "bars", "windows", "utf-16", "without a mark", "usual"],
)
def test_the_layout_of_text_is_found_and_said(write, content, note):
    """Separator, decimal comma and encoding; nothing is said about the usual."""
    path = write("t.csv", content)
    source = TableFile(path)
    assert source.notes == (() if note is None else (f"{path} {note}",))
    frame = source.read()
    np.testing.assert_array_equal(frame["age"], FRAME["age"])
    assert frame["ward"].tolist()[:2] == ["ä", "b"]
    (chunk,) = source.chunks(["age"], {"age": "number"})
    np.testing.assert_array_equal(chunk["age"], FRAME["age"])


def test_the_layout_of_text_can_be_set(write):
    """What is set is not guessed and not said; what is no separator or encoding is refused."""
    path = write("t.csv", "a;b,c\n1;2,5\n2;3,5\n")
    found = TableFile(path, layout=TextLayout(separator=";", decimal=","))
    assert (found.columns, found.notes) == (("a", "b,c"), ())
    assert found.read()["b,c"].tolist() == [2.5, 3.5]
    koi = write("k.csv", "a,b\n1,да\n".encode("koi8-r"))
    assert TableFile(koi, layout=TextLayout(encoding="koi8-r")).read()["b"].tolist() == ["да"]
    with pytest.raises(TableError, match="k.csv is not in the encoding ascii: byte 0xc4 at position 6"):
        TableFile(koi, layout=TextLayout(encoding="ascii"))
    assert TableFile(write("e.csv", "a\nè\n€\n".encode("cp1252"))).read()["a"].tolist() == ["è", "€"]
    with pytest.raises(ParameterError, match="separator=';;' must be one character"):
        TextLayout(separator=";;")
    with pytest.raises(ParameterError, match="There is no encoding 'utf-99'"):
        TextLayout(encoding="utf-99")


def test_standard_input_is_known_by_its_first_bytes(tmp_path, monkeypatch):
    """CSV, compressed CSV, JSON lines and Parquet come through a pipe."""
    FRAME.to_parquet(tmp_path / "t.parquet")
    for data in (
        as_csv(),
        gzip.compress(as_csv()),
        (tmp_path / "t.parquet").read_bytes(),
        b'{"age": 41.5, "ill": 0}\n',
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        source = TableFile("-")
        assert source.name == "standard input"
        assert source.read(["age"])["age"][0] == 41.5
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(TableError, match="standard input is empty. Pass a file with a header and rows."):
        TableFile("-")


def test_addresses_are_read_and_kept_in_errors(tmp_path):
    """A web server, a file address, a memory of fsspec; an error has the address as it was typed."""
    (tmp_path / "t.csv").write_bytes(as_csv(sep=";"))
    FRAME.to_parquet(tmp_path / "t.parquet")
    handler = partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for name in ("t.csv", "t.parquet", "t.csv?download=1"):
            assert TableFile(f"{address}/{name}").read(["ill"])["ill"].tolist() == [0, 1, 1]
        with pytest.raises(
            TableError, match=rf"{address}//none.csv cannot be read \(HTTP Error 404.*Check the address"
        ):
            TableFile(f"{address}//none.csv")
        server.shutdown()
    for name in ("t.csv", "t.parquet"):
        assert TableFile(f"file://{tmp_path}/{name}").read(["ill"])["ill"].tolist() == [0, 1, 1]
    fsspec = pytest.importorskip("fsspec")
    for name in ("t.csv", "t.parquet"):
        fsspec.filesystem("memory").pipe_file(f"/tables/{name}", (tmp_path / name).read_bytes())
        source = TableFile(f"memory://tables/{name}")
        assert source.read(["ill"])["ill"].tolist() == [0, 1, 1]
        assert sum(len(chunk) for chunk in source.chunks(["ill"])) == 3
    with pytest.raises(TableError, match="memory://tables/none.csv does not exist. Check the address."):
        TableFile("memory://tables/none.csv")
    with pytest.raises(TableError, match="gopher://x/t.csv cannot be opened"):
        TableFile("gopher://x/t.csv")


def stored_tables(tmp_path):
    """Return the files of a bucket by their keys: text, Parquet, and a folder with sites in its names."""
    FRAME.to_parquet(tmp_path / "t.parquet")
    parquet = (tmp_path / "t.parquet").read_bytes()
    folder = {f"night/site={site}/part.parquet": parquet for site in ("Lyon", "Oslo")}
    return {"t.csv": as_csv(sep=";"), "t.csv.gz": gzip.compress(as_csv()), "t.parquet": parquet} | folder


def check_store(address):
    """Check that each table of a bucket is read, whole and in chunks, and that one that is not there is named."""
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        source = open_table(address.format(name))
        assert source.read(["ill"])["ill"].tolist() == [0, 1, 1], name
        assert sum(len(chunk) for chunk in source.chunks(["ward"])) == 3
    folder = open_table(address.format("night"))
    assert folder.read(["site"])["site"].tolist() == ["Lyon"] * 3 + ["Oslo"] * 3
    assert [file.name for file in folder.files] == [address.format(f"night/{file.place}") for file in folder.files]
    assert sum(len(chunk) for chunk in folder.chunks(["ill", "site"])) == 6
    for name in ("none.csv", "none.parquet"):
        missing = address.format(name)
        with pytest.raises(TableError, match=re.escape(f"{missing} does not exist. Check the address.")):
            open_table(missing)


def test_tables_in_amazons_store_are_read(tmp_path, bucket):
    """pyarrow's client of S3 against a server with its interface on this machine."""
    for name, content in stored_tables(tmp_path).items():
        bucket(name, content)
    check_store("s3://wards/{}")


class StoreHandler(BaseHTTPRequestHandler):
    """As much of Google's storage interface as reading needs: one bucket whose files are `stored`."""

    stored: ClassVar = {}

    def log_message(self, *args):
        """Say nothing."""

    def do_GET(self):
        """Answer with a list, what is known of a file, or its content."""
        url = urlsplit(self.path)
        name, query = unquote(url.path).partition("/o/")[2], parse_qs(url.query)
        names = [name] if name else [key for key in self.stored if key.startswith(query["prefix"][0])]
        facts = [
            {"name": n, "bucket": "wards", "size": str(len(self.stored.get(n, ""))), "generation": "1"} for n in names
        ]
        body = json.dumps(facts[0] if name else {"items": facts}).encode()
        if "alt" in query:
            start, _, end = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            body = self.stored.get(name, b"none")[slice(int(start), int(end) + 1 if end else None)]
        self.send_response(404 if name and name not in self.stored else 206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_tables_in_googles_store_are_read(tmp_path):
    """pyarrow's client of Google's store against a stand-in of the server."""
    pytest.importorskip("pyarrow._gcsfs")
    StoreHandler.stored = stored_tables(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), StoreHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = f"scheme=http&endpoint_override=127.0.0.1:{server.server_port}"
        check_store(f"gs://anonymous@wards/{{}}?{settings}")
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """A web server that prints nothing."""

    def log_message(self, *args):
        """Say nothing."""


class BrokenHandler(QuietHandler):
    """A web server that is cut off in the middle of a file, or does not speak HTTP."""

    def do_GET(self):
        """Announce more than is sent."""
        if "garbage" in self.path:
            self.wfile.write(b"garbage\r\n\r\n")
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(as_csv())


def test_a_download_that_is_cut_is_no_table():
    """Rows that did not arrive are not silently left out, and what is not HTTP is named."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BrokenHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(TableError, match=rf"t.csv was cut after {len(as_csv())} bytes; .* are missing. Try again."):
            TableFile(f"{address}/t.csv")
        with pytest.raises(TableError, match="garbage.csv cannot be read .*Check the address"):
            TableFile(f"{address}/garbage.csv")
        server.shutdown()


def test_a_stream_without_end_does_not_fill_the_disk(monkeypatch):
    """What can be read only once is copied to at most half of the free space."""
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2 << 20))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + b"1\n" * (1 << 20))))
    with pytest.raises(TableError, match="standard input does not end after 2,097,152 bytes, half of the space"):
        TableFile("-")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.zst", "t.jsonl.gz", "t.csv.utf16.gz", "t.xlsx"])
def test_files_that_unpack_to_much_more_than_they_are_are_refused(tmp_path, monkeypatch, name):
    """A small file may not cost much memory, disk or time, whatever packed it; usual ones are read."""
    path = tmp_path / name.replace(".utf16", "")
    if name == "t.xlsx":
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path, index=False)
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("more.xml", bytes(2 << 20))
    else:
        text = ('{"a": 1}\n' if "json" in name else "1,2\n") * 400_000
        packing = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[path.suffix]
        with pa.output_stream(str(path), compression=packing) as out:
            out.write(text.encode("utf-16" if "16" in name else "utf-8"))
    monkeypatch.setattr(files, "MOST_GROWTH", 20)
    assert len(TableFile(path).columns) > 0
    monkeypatch.setattr(files, "SMALL", 1 << 20)
    with pytest.raises(TableError, match=r"has [\d,]+ bytes and unpacks to more than [\d,]+, unusual for a table"):
        TableFile(path)


def test_text_beyond_the_memory_is_read_in_chunks_only(write, monkeypatch):
    """A CSV file can be read part by part; JSON lines, which are read whole, are refused."""
    monkeypatch.setattr(files, "memory_bytes", lambda: 10)
    table = TableFile(write("t.csv", as_csv()))
    with pytest.raises(TableError, match=r"t.csv has \d+ bytes of text, too many for the memory"):
        table.read()
    assert sum(len(part) for part in table.chunks(["age"])) == 3
    with pytest.raises(TableError, match=r"t.jsonl has 9 bytes of text, too many for the memory"):
        TableFile(write("t.jsonl", '{"a": 1}\n'))


@pytest.mark.parametrize(("name", "limit"), [("t.csv", "text.LONGEST_LINE"), ("t.jsonl", "files.JSON_LINE")])
def test_a_line_without_end_is_refused(write, monkeypatch, name, limit):
    """The line's number is in the message, and memory is not taken for the rest of it."""
    monkeypatch.setattr(f"holdfast.tables.{limit}", 1 << 20)
    path = write(name, ('{"a": 1}' if "json" in name else "a,b") + "\n" + "1" * (3 << 20))
    with pytest.raises(TableError, match="line 2 is longer than 1,048,576 bytes. Is it a table?"):
        TableFile(path)


def test_json_lines_may_not_be_nested_without_end(write):
    """pyarrow would crash the process; brackets inside of text do not count."""
    with pytest.raises(TableError, match="line 2 has more than 100 structures inside each other"):
        TableFile(write("t.jsonl", '{"a": 1}\n{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n"))
    text = '\\"[{' * 200
    assert TableFile(write("t.jsonl", f'{{"a": "{text}"}}\n')).read()["a"].tolist() == [text.replace("\\", "")]


def test_pipes_and_broken_workbooks_are_named(tmp_path):
    """A pipe in a file's place does not hang, and a workbook without its parts is an error of ours."""
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(
        TableError, match="t.csv is a pipe or a device. Pipe it into the command, and pass - as the tab"
    ):
        TableFile(tmp_path / "t.csv")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<x")
    pytest.importorskip("openpyxl")
    with pytest.raises(TableError, match="t.xlsx cannot be read .*Write the file again."):
        TableFile(tmp_path / "t.xlsx")


def test_standard_output_that_is_full_is_an_error(monkeypatch):
    """Predictions that could not be written are not reported as written."""

    class Full(io.BytesIO):
        """A stream that keeps what it is given, until it has to write it."""

        def flush(self):
            """Fail."""
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=Full()))
    with (
        pytest.raises(StorageError, match=r"Could not write 'standard output': the disk is full \(ENOSPC\)"),
        TableWriter(Path("-")),
    ):
        pass


def test_predictions_go_to_standard_output(capfdbinary):
    """As CSV, with the header once."""
    with TableWriter(Path("-")) as writer:
        writer.write(FRAME[:1])
        writer.write(FRAME[1:2])
    assert capfdbinary.readouterr().out.decode().splitlines() == ["age,ward,ill", "41.5,ä,0", "38.0,b,1"]
