import dataclasses
import datetime
import json
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from holdfast.auditing.results import Finding
from holdfast.environments import Environment, Group, Partition
from holdfast.exceptions import CorruptFileError, ParameterError, UntrustedFileError
from holdfast.saving import codec
from holdfast.saving.codec import Decoder, Encoder, allow, saved_class, saved_name
from holdfast.saving.json_files import canonical_json


def through_files(value):
    """Return what comes back after a value was turned into files."""
    encoder = Encoder()
    node = encoder.encode(value, "value")
    decoder = Decoder(encoder.files())
    result = decoder.decode(json.loads(canonical_json(node)))
    decoder.check_all_used()
    return result


def same(first, second):
    """Return whether two values are the same to the last bit, their types included."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray) and first.dtype == object:
        return first.shape == second.shape and all(map(same, first.ravel(), second.ravel()))
    if isinstance(first, np.ndarray | np.generic):
        order = np.isfortran(first) == np.isfortran(second)
        return (first.dtype, first.shape, first.tobytes(), order) == (
            second.dtype,
            second.shape,
            second.tobytes(),
            True,
        )
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and first.stride() == second.stride() and torch.equal(first, second)
    if isinstance(first, dict):
        return list(first) == list(second) and all(map(same, [*first, *first.values()], [*second, *second.values()]))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if dataclasses.is_dataclass(first):
        return same(dict(vars(first)), dict(vars(second)))
    return repr(first) == repr(second)


KEYS = st.text(max_size=3) | st.integers() | st.booleans() | st.dates() | st.tuples(st.integers(), st.text(max_size=2))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.datetimes()
    | st.timedeltas()
    | st_numpy.arrays(st_numpy.scalar_dtypes(), st_numpy.array_shapes(min_dims=0, min_side=0, max_side=3))
    | st_numpy.arrays(np.dtype(object), 2, elements=st.text(max_size=3) | st.integers())
    | st_numpy.from_dtype(np.dtype("float32"))
    | st_numpy.from_dtype(np.dtype("<U4"))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES)
def test_every_value_comes_back_to_the_last_bit(value):
    """Types, order of dictionaries, dtypes, shapes, byte order, NaN payloads and the sign of zero survive."""
    assert same(value, through_files(value))


@pytest.mark.parametrize(
    "value",
    [
        np.array(["b", "a"], dtype=object),
        np.array(["b", "é", ""]),
        np.array([b"x", b"yz"]),
        np.array([True, False]),
        np.array([1, 2], dtype=">i4"),
        np.array([1.5, np.nan, -0.0], dtype=np.longdouble),
        np.array(["2024-02-29", "NaT"], dtype="datetime64[D]"),
        np.array([1, 2], dtype="timedelta64[25s]"),
        np.array([1 + 2j]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.zeros((0, 3), dtype="<U2"),
        np.array([datetime.date(2024, 1, 2), pd.Timestamp("2024-01-02 03:04:05.000000006")], dtype=object),
        np.str_(""),
        np.datetime64("2024-01-02T03", "h"),
        np.dtype("<U7"),
        np.float32,
        slice(1, None, 2),
        OrderedDict(b=1, a=2),
        (math.nan, -math.inf, 2**200),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        torch.tensor(3),
        torch.empty(0, 2),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(8, 1, 3, 3).to(memory_format=torch.channels_last),
        torch.randn(3, 4).T,
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_values_that_are_easily_lost(value):
    """Labels of every type, arrays of every order in memory, and tensors of every layout survive."""
    assert same(value, through_files(value))


def test_expanded_tensors_become_plain_ones():
    """A tensor that repeats its memory comes back with the same numbers and memory of its own."""
    value = torch.arange(3.0).expand(2, 3)
    assert torch.equal(through_files(value), value)


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_generators_go_on_where_they_were(bits):
    """Random generators draw the same numbers afterwards."""
    generator = np.random.Generator(bits(3))
    generator.integers(5, dtype=np.int32)  # leaves half a draw in the buffer
    copy = through_files(generator)
    assert (
        copy.integers(2**31, size=5, dtype=np.int32).tolist()
        == generator.integers(2**31, size=5, dtype=np.int32).tolist()
    )


def test_older_generators_and_torchs_go_on_where_they_were():
    """scikit-learn's and torch's random states survive as well."""
    state, generator = np.random.RandomState(3), torch.Generator().manual_seed(3)
    state.normal()  # leaves a second normal number in the buffer
    torch.rand(1, generator=generator)
    copies = through_files([state, generator])
    assert copies[0].normal(size=3).tolist() == state.normal(size=3).tolist()
    assert torch.equal(torch.rand(3, generator=copies[1]), torch.rand(3, generator=generator))


def test_our_values_come_back():
    """Environments, partitions and groups survive with their arrays."""
    rows = np.arange(3)
    value = {
        np.str_("a"): Environment(np.datetime64("2020"), rows),
        "p": Partition("a", "b", rows, rows[:0], None, rows * 0.5, math.nan),
        "g": (Group("g", rows, None),),
    }
    assert same(value, through_files(value))


def test_a_value_of_an_older_version_gets_the_default_of_a_new_field():
    """A field that has a default may be missing; one that has none may not."""
    encoder = Encoder()
    node = json.loads(canonical_json(encoder.encode(Finding("age", 0.5, has_direction=False), "value")))
    older = {**node, "attributes": [pair for pair in node["attributes"] if pair[0] != "has_direction"]}
    assert same(Decoder(encoder.files()).decode(older), Finding("age", 0.5))
    broken = {**node, "attributes": [pair for pair in node["attributes"] if pair[0] != "feature"]}
    with pytest.raises(CorruptFileError, match="other attributes than Finding has"):
        Decoder(encoder.files()).decode(broken)


def test_an_object_met_twice_is_one_object():
    """What was shared before saving is shared after loading."""
    group = Group("g", np.arange(3))
    copies = through_files([group, {"again": group, "rows": group.rows}])
    assert copies[0] is copies[1]["again"]
    assert copies[0].rows is copies[1]["rows"]


@allow
class StandIn:
    """A class of a user's own."""

    def __init__(self, child: Any = None) -> None:
        self.child = child


def test_allowed_classes_are_saved_and_others_are_not():
    """A user's class has to be allowed, and cannot take a name that is in use."""
    assert through_files(StandIn([StandIn(2)])).child[0].child == 2
    assert saved_name(StandIn) == "StandIn"
    with pytest.raises(ParameterError, match="'Group' is taken"):
        allow(type("Group", (), {}))
    with pytest.raises(ParameterError, match="'StandIn' is taken"):
        allow(type("StandIn", (), {}))


def test_an_object_that_holds_itself_comes_back():
    """A cycle through an object of a class on the list is kept."""
    value = StandIn()
    value.child = {"self": value}
    copy = through_files(value)
    assert copy.child["self"] is copy


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"f": len}, r"value\['f'\] holds the function or class len, .*Code is not saved"),
        ([math], r"value\[0\] holds builtins.module"),
        (np.array([object()]), r"value\[0\] holds builtins.object"),
        (np.zeros(2, dtype=[("a", "f4")]), "value holds numpy.ndarray.*plain array"),
        (pd.DataFrame({"a": [1]}), "value holds pandas.*DataFrame"),
        (torch.nn.Linear(2, 2), "value holds torch.nn.modules.linear.Linear"),
        (np.dtype([("a", "f4")]), "Only types of numbers, text and dates"),
    ],
    ids=["function", "module", "objects", "records", "frame", "network", "dtype"],
)
def test_what_cannot_be_loaded_safely_is_refused_when_saving(value, message):
    """The error names the place and the type, before anything is written."""
    with pytest.raises(UntrustedFileError, match=message):
        Encoder().encode(value, "value")


def test_a_list_that_holds_itself_is_refused():
    """Endless nesting ends in an error of ours."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(UntrustedFileError, match="nested too deeply, or holds itself"):
        Encoder().encode(value, "value")


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"$": "pickle", "data": "gASVAAAA"},
        {"$": "object", "class": "Group", "number": 0, "attributes": [["name", "g"]]},
        {"$": "array", "key": "a0", "dtype": "<f8", "shape": [2]},
        {"$": "array", "key": ["a0"], "dtype": "<f8", "shape": [2]},
        {"$": "tensor", "key": "t0"},
        {"$": "objects", "shape": [2**60], "items": [1]},
        {"$": "scalar", "dtype": "<f8", "hex": "00"},
        {"$": "same", "number": 7},
        {"$": "booster", "class": "xgboost.sklearn.XGBClassifier", "attributes": [], "file": "booster-0000.json"},
        {"$": "records", "kind": "forest", "bytes": []},
        {"$": "sparse", "path": "scipy.sparse._csr.csr_matrix", "shape": [2, 2], "data": 0, "indices": 0, "indptr": 0},
        {"$": "compiled", "path": "sklearn.tree._tree.Tree", "arguments": [2**60, 2, 1], "state": None},
        {"$": "compiled", "path": "sklearn.tree._tree.Tree", "arguments": [2**60, [2], 2**60], "state": None},
        {"$": "compiled", "path": "sklearn._loss._loss.CyHuberLoss", "arguments": ["0.5"], "state": None},
        {"$": "type", "name": "eval"},
        {"$": "set", "items": [[]]},
        {"$": "timedelta", "value": [10**30]},
        {"$": "dict", "items": [[[], 1]]},
        {"$": []},
    ],
    ids=str,
)
def test_a_tree_that_makes_no_sense_is_refused(node):
    """Whatever stands in a tree, the answer is an error of ours."""
    with pytest.raises(CorruptFileError, match=r"tree\.json"):
        Decoder({}).decode(node)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"$": "object", "class": "os.system", "number": 0, "attributes": []}, "'os.system', which is not on the list"),
        ({"$": "object", "class": "Encoder", "number": 0, "attributes": []}, "'Encoder', which is not on the list"),
        ({"$": "estimator", "class": "subprocess.Popen", "attributes": []}, "Popen', which is not on the list"),
        ({"$": "function", "path": "posix.system"}, "'posix.system', which is not on the list of functions"),
        ({"$": "partial", "function": "posix.system", "arguments": [], "keywords": {"$": "dict", "items": []}}, "list"),
        (
            {"$": "compiled", "path": "subprocess.Popen", "arguments": ["true"], "state": None},
            "of compiled parts",
        ),
        (
            {"$": "sparse", "path": "subprocess.Popen", "shape": [], "data": 0, "indices": 0, "indptr": 0},
            "list of matrices",
        ),
        ({"$": "scalar", "dtype": "|O8", "hex": "00" * 8}, r"values of type '\|O8'"),
        ({"$": "scalar", "dtype": "|V99999999", "hex": ""}, r"values of type '\|V9"),
        ({"$": "generator", "state": {"$": "dict", "items": [["bit_generator", "seed"]]}}, "unknown random generator"),
    ],
    ids=str,
)
def test_a_tree_cannot_name_what_is_not_listed(node, message):
    """No name in a file reaches a class or function that is not on a list."""
    with pytest.raises(UntrustedFileError, match=message):
        Decoder({}).decode(node)


def test_every_listed_class_exists():
    """The list of classes names no class that is gone."""
    from holdfast.saving.codec import _OURS

    assert [name for name, module in _OURS.items() if saved_class(name).__module__ != module] == []


def test_a_deep_tree_is_refused():
    """Nesting cannot exhaust the stack."""
    node: Any = 1
    for _ in range(100_000):
        node = [node]
    with pytest.raises(CorruptFileError, match=r"tree\.json"):
        Decoder({}).decode(node)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}, np.array(["\udc80"])])
def test_half_a_character_is_neither_saved_nor_loaded(value):
    """Python's texts may contain it, but no table does: a label would end the writing of predictions."""
    with pytest.raises(CorruptFileError, match="characters that do not exist"):
        Encoder().encode(value, "value")
    if isinstance(value, str):
        with pytest.raises(CorruptFileError, match="characters that do not exist"):
            Decoder({}).decode([value])
        assert Decoder({}).decode(Encoder().encode("é\U0001f600", "value")) == "é\U0001f600"


def test_boosters_of_the_first_schema_have_no_number(monkeypatch):
    """They are read all the same, and their file counts as used."""
    monkeypatch.setattr(codec, "unpack_booster", lambda name, state, data, file: data)
    decoder = Decoder({"booster-0000.txt": b"tree"})
    node = {"$": "booster", "class": "lightgbm.sklearn.LGBMClassifier", "attributes": [], "file": "booster-0000.txt"}
    assert decoder.decode([node, node]) == [b"tree", b"tree"]
    decoder.check_all_used()
