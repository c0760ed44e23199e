import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.exceptions import (
    CorruptFileError,
    InputTypeError,
    ParameterError,
    SavedModelError,
    StorageError,
    UntrustedFileError,
)
from holdfast.saving.json_files import (
    canonical_json,
    checked_json,
    parse_checked_json,
    read_json,
    read_record,
    write_json,
    write_record,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_known_bytes():
    """The canonical form and its checksum are fixed for good: files of today must be readable tomorrow."""
    digest = "4100d84bc3f7444eff7eb87d6a8862a54770e855528e065194226b3a96b40b66"
    expected = f'{{"a":"\\u00fc","b":[1,2.5],"sha256":"{digest}"}}\n'
    assert checked_json({"b": [1, 2.5], "a": "ü"}) == expected.encode()


@given(content=st.dictionaries(st.text().filter(lambda key: key != "sha256"), JSON_VALUES, max_size=5))
def test_content_comes_back(content):
    """Every JSON value survives, the sign of zero included."""
    assert canonical_json(parse_checked_json(checked_json(content), Path("a"))) == canonical_json(content)


def test_every_flipped_bit_is_noticed(tmp_path):
    """Each single bit of a file matters, also where JSON means the same, as with 1e+30 and 1E+30."""
    data = checked_json({"a": 1e30, "b": "ü", "c": [True, None, -0.0]})
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError, match="a.json' is damaged"):
            parse_checked_json(bytes(changed), tmp_path / "a.json")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"sha256":1}',
        b"[" * 100_000,
        b'{"a":NaN,"sha256":""}',
        b"\xff\xfe",
        b"9" * 5000,
    ],
    ids=["empty", "cut", "null", "list", "no checksum", "number", "deep", "nan", "not text", "long number"],
)
def test_what_is_not_ours_is_refused(data, tmp_path):
    """Anything else than a checked JSON file is one clear error."""
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(CorruptFileError, match="a.json' is damaged"):
        read_json(tmp_path / "a.json")


def test_a_missing_file_is_an_error_of_ours(tmp_path):
    """A path that leads nowhere is said."""
    with pytest.raises(SavedModelError, match="a.json' does not exist"):
        read_json(tmp_path / "a.json")


def test_a_huge_file_is_not_read(tmp_path):
    """The limit counts before reading."""
    write_json(tmp_path / "a.json", {"a": "x" * 1000})
    with pytest.raises(UntrustedFileError, match="more than the 100 allowed"):
        read_json(tmp_path / "a.json", max_bytes=100)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {1, 2}, b"bytes", object()], ids=["nan", "inf", "set", "bytes", "object"]
)
def test_what_json_cannot_say_is_refused(value):
    """Values that would not come back are an error when writing."""
    with pytest.raises(InputTypeError, match="This cannot be written as JSON"):
        canonical_json({"a": value})


def test_the_checksums_key_is_kept():
    """The key of the checksum cannot be used for content."""
    with pytest.raises(ParameterError, match="'sha256' is kept"):
        checked_json({"sha256": "mine"})


def test_other_tools_can_read_it(tmp_path):
    """A file is plain JSON."""
    write_json(tmp_path / "a.json", {"a": [1, 2]})
    assert json.loads((tmp_path / "a.json").read_text())["a"] == [1, 2]


def test_a_record_comes_back(tmp_path):
    """numpy's numbers become Python's, tuples lists, and NaN survives."""
    record = {"seed": np.int64(3), "scores": np.array([0.1, np.nan]), "pair": (1, None), "deep": {"inf": -math.inf}}
    write_record(tmp_path / "a.json", record)
    copy = read_record(tmp_path / "a.json")
    assert copy["seed"] == 3
    assert copy["scores"][0] == 0.1
    assert math.isnan(copy["scores"][1])
    assert copy["pair"] == [1, None]
    assert copy["deep"] == {"inf": -math.inf}
    assert [type(copy["seed"]), type(copy["scores"])] == [int, list]


def test_a_record_is_written_once(tmp_path):
    """A record that is there is kept unless overwriting is asked for."""
    write_record(tmp_path / "a.json", {"run": 1})
    with pytest.raises(StorageError, match="it exists already"):
        write_record(tmp_path / "a.json", {"run": 2})
    assert read_record(tmp_path / "a.json") == {"run": 1}
    write_record(tmp_path / "a.json", {"run": 2}, overwrite=True)
    assert read_record(tmp_path / "a.json") == {"run": 2}


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, {"$float": "nan"}, b"x", {"a": [{2, 3}]}],
    ids=["object", "number key", "our key", "bytes", "set"],
)
def test_what_a_record_cannot_hold_is_named(value, tmp_path):
    """The error names the place in the record."""
    with pytest.raises(InputTypeError, match="result.* of the record is .*, which a record cannot hold"):
        write_record(tmp_path / "a.json", {"result": value})


def test_a_changed_record_is_refused(tmp_path):
    """One digit changed by hand is noticed, and the file is named."""
    write_record(tmp_path / "a.json", {"accuracy": 0.71})
    (tmp_path / "a.json").write_bytes((tmp_path / "a.json").read_bytes().replace(b"0.71", b"0.91"))
    with pytest.raises(CorruptFileError, match="a.json' is damaged: its bytes do not match its checksum"):
        read_record(tmp_path / "a.json")


def test_swapped_records_are_refused(tmp_path):
    """A record knows the name it was written under."""
    for name in ("a.json", "b.json"):
        write_record(tmp_path / name, {"accuracy": 0.5})
    (tmp_path / "a.json").replace(tmp_path / "c.json")
    with pytest.raises(CorruptFileError, match="c.json' holds the record 'a.json': it was renamed or swapped"):
        read_record(tmp_path / "c.json")


@pytest.mark.parametrize("key", ["$name", 3])
def test_the_name_is_kept_for_the_record_itself(key, tmp_path):
    """Keys are text, and the key of the name is taken."""
    with pytest.raises(InputTypeError, match=r"keys must be text other than '\$name'"):
        write_record(tmp_path / "a.json", {key: 1})


@pytest.mark.parametrize("value", [{"$float": "x"}, {"$float": []}, json.loads("[" * 700 + "]" * 700)])
def test_a_record_with_another_content_is_refused(value, tmp_path):
    """With a right checksum, too: numbers that are none, and lists inside each other without end."""
    write_json(tmp_path / "run.json", {"$name": "run.json", "value": value})
    with pytest.raises(CorruptFileError, match=r"run.json' is not a record as holdfast writes one \("):
        read_record(tmp_path / "run.json")
