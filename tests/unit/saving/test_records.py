import math

import numpy as np
import pytest

from holdfast.exceptions import CorruptFileError, InputTypeError, StorageError
from holdfast.saving.records import read_record, write_record


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
