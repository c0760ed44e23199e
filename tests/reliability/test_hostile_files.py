"""Nothing executes on load: files made to harm, all checksums right, are refused unexecuted and in little memory."""

import hashlib
import io
import json
import os
import pickle  # noqa: S403 - makes what must be refused; nothing here reads it
import re
import struct
import zipfile
import zlib

import numpy as np
import pytest

from holdfast.estimators.named import ESTIMATORS
from holdfast.fitting.estimators import BOOSTERS
from holdfast.saving.json_files import checked_json, write_json
from holdfast.saving.models import load

MAX_MIB = 100  # what an attack may cost
BOMB = 400 << 20  # what a bomb unpacks to


class Payload:
    """Creates the canary when it is unpickled."""

    def __init__(self, canary):
        self.canary = str(canary)

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def put(folder, name, data):
    """Put bytes into a saved model, and make the manifest say that they belong there."""
    if data is not None:
        (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("sha256")
    content = (folder / name).read_bytes()
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_json(folder / "manifest.json", manifest)


def skops_parts(data):
    """Return the members of a skops file, and its schema."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return members, json.loads(members.pop("schema.json"))


def skops_file(members, schema, compression=zipfile.ZIP_STORED):
    """Return a skops file of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("schema.json", json.dumps(schema))
    return buffer.getvalue()


def node(loader, module, name, **rest):
    """Return a node of a skops schema."""
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": 7, **rest}


def text_node(value):
    """Return the node of a text."""
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True) | {"__id__": id(value)}


def attempt(folder):
    """Load a folder and use what comes; return the error's class and message."""
    try:
        model = load(folder)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return f"loaded {type(model).__name__}"


def check_refused(in_child, folder, canary, match):
    """Check that loading is refused by an error of ours, executes nothing, writes nothing and needs little memory."""
    before = sorted(str(path) for path in folder.parent.rglob("*"))
    child = in_child(attempt, folder)
    assert child.ended_by == 0
    assert child.text.startswith(("UntrustedFileError", "CorruptFileError", "SavedModelError")), child.text
    assert match in child.text
    assert not canary.exists()
    assert sorted(str(path) for path in folder.parent.rglob("*")) == before
    assert child.peak_mib < MAX_MIB


@pytest.fixture
def canary(tmp_path):
    """Return the path that an executed payload would create."""
    return tmp_path / "executed"


def arguments(canary):
    """Return skops nodes for a shell command that creates the canary."""
    return node("TupleNode", "builtins", "tuple", content=[text_node(f"touch {canary}")])


def evil_nodes(canary):
    """Return skops nodes that would run the command, by every kind of node there is."""
    system = node("FunctionNode", "posix", "system")
    nothing = node(
        "DictNode", "builtins", "dict", content={}, key_types=node("ListNode", "builtins", "list", content=[])
    )
    partial = {"func": system, "args": arguments(canary), "kwds": nothing, "namespace": nothing}
    pickled = pickle.dumps(Payload(canary))
    return {
        "function": system,
        "partial": node("PartialNode", "functools", "partial", content=partial),
        "method": node("MethodNode", "subprocess", "Popen", content={"func": "wait", "obj": system}),
        "operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=arguments(canary)),
        "object": node("ObjectNode", "subprocess", "Popen", content=nothing),
        "constructor": node("ConstructorFromReduceNode", "posix", "system", content=arguments(canary)),
        "tree": node("TreeNode", "posix", "system", content=nothing, **{"__reduce__": {"args": arguments(canary)}}),
        "loss": node("LossNode", "posix", "system", content=nothing, **{"__reduce__": {"args": arguments(canary)}}),
        "type": node("TypeNode", "builtins", "eval"),
        "array": node("NdArrayNode", "posix", "system", type="json", content=[], shape=arguments(canary)),
        "list": node("ListNode", "subprocess", "Popen", content=[text_node(f"touch {canary}")]),
        "tuple": node("TupleNode", "subprocess", "Popen", content=[text_node(f"touch {canary}")]),
        "keys": node(
            "DictNode",
            "builtins",
            "dict",
            content={f"touch {canary}": text_node("")},
            key_types=node("ListNode", "builtins", "list", content=[node("TypeNode", "posix", "system")]),
        ),
        "cached": node("CachedNode", "posix", "system"),
        "unknown": node("EvilNode", "posix", "system"),
        "bytes": node("BytesNode", "builtins", "bytes", file="1.npy", data=pickled.hex()),
        "generator": node(
            "RandomGeneratorNode",
            "numpy.random._generator",
            "Generator",
            content={"bit_generator": nothing | {"content": {"bit_generator": text_node("seed")}}, "seed_seq": nothing},
        ),
    }


@pytest.mark.parametrize("kind", sorted(evil_nodes("")))
def test_no_kind_of_skops_node_runs_code(kind, copy_of, canary, in_child):
    """A node that names a function, class or method that is not listed is refused before anything is built."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    schema["content"]["content"]["evil"] = evil_nodes(canary)[kind] | {"__id__": 12345}
    schema["content"]["key_types"]["content"].append(node("TypeNode", "builtins", "str"))
    put(folder, "sklearn-0000.skops", skops_file(members, schema))
    match = "numpy.random.seed" if kind == "generator" else "sklearn-0000.skops"
    check_refused(in_child, folder, canary, match)


def test_an_old_protocol_is_refused(copy_of, canary, in_child):
    """Older loaders of skops, with checks of their own, cannot be asked for."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    put(folder, "sklearn-0000.skops", skops_file(members, schema | {"protocol": 0}))
    check_refused(in_child, folder, canary, "is in skops protocol 0")


@pytest.mark.parametrize(
    "name", ["tree.json", "arrays.safetensors", "sklearn-0000.skops", "sklearn-9999.skops", "model.pkl"]
)
def test_pickles_are_never_opened(name, copy_of, canary, in_child):
    """A pickle under any name, known, new or honest, is refused."""
    folder = copy_of("linear")
    put(folder, name, pickle.dumps(Payload(canary)))
    check_refused(in_child, folder, canary, name)


def test_a_file_beside_the_manifest_is_refused(copy_of, canary, in_child):
    """A file that the manifest does not list stops the loading of all others."""
    folder = copy_of("linear")
    (folder / "sitecustomize.py").write_text("raise SystemExit")
    check_refused(in_child, folder, canary, "sitecustomize.py' is not in the manifest")


def test_pickled_arrays_inside_are_refused(copy_of, canary, in_child):
    """An .npy member with Python objects is refused by its header."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload(canary)], dtype=object), allow_pickle=True)
    members[next(iter(members))] = buffer.getvalue()
    put(folder, "sklearn-0000.skops", skops_file(members, schema))
    check_refused(in_child, folder, canary, "holds Python objects")


def test_a_torch_archive_is_not_a_part(copy_of, canary, in_child):
    """A zip with a pickle inside, as torch.save makes, is refused."""
    folder = copy_of("linear")
    put(folder, "sklearn-0000.skops", skops_file({"archive/data.pkl": pickle.dumps(Payload(canary))}, {}))
    check_refused(in_child, folder, canary, "members that a skops file of ours does not have")


def test_members_cannot_leave_the_folder(copy_of, canary, in_child):
    """A member called ../executed is refused, and nothing is unpacked anyway."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    put(folder, "sklearn-0000.skops", skops_file({**members, "../executed": b"x"}, schema))
    check_refused(in_child, folder, canary, "members that a skops file of ours does not have")


@pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd", "a/../tree.json", "tree.json\x00", ".", "con/in"])
def test_the_manifest_cannot_name_other_places(name, copy_of, canary, in_child):
    """Names with folders in them are refused before any file is opened."""
    folder = copy_of("linear")
    (folder.parent / "outside.json").write_text("{}")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("sha256")
    manifest["files"][name] = {"bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    write_json(folder / "manifest.json", manifest)
    check_refused(in_child, folder, canary, "a name that holdfast does not write")


@pytest.mark.parametrize("name", ["manifest.json", "tree.json", "sklearn-0000.skops"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_ordinary_files_are_read(name, kind, copy_of, canary, in_child):
    """Links, even to the right bytes, pipes and folders are refused, and none of them hangs the reader."""
    folder = copy_of("linear")
    (folder / name).rename(folder.parent / "moved")
    if kind == "link":
        (folder / name).symlink_to(folder.parent / "moved")
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    check_refused(in_child, folder, canary, name)


def zip_bomb(kind, members, schema):
    """Return a skops file that unpacks to far more than it is."""
    first = next(iter(members))
    if kind == "compressed":
        return skops_file({**members, first: bytes(BOMB)}, schema, zipfile.ZIP_DEFLATED)
    if kind == "nested":
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("data.npy", bytes(BOMB))
        schema["content"]["content"]["bomb"] = node(
            "SparseMatrixNode", "scipy.sparse._csr", "csr_matrix", type="scipy", file="1.npz"
        )
        return skops_file({**members, "1.npz": inner.getvalue()}, schema)
    if kind == "repeated":  # one large member that a thousand nodes ask for
        array = io.BytesIO()
        np.save(array, np.zeros(1 << 20))
        many = [
            node("NdArrayNode", "numpy", "ndarray", type="numpy", file="1.npy") | {"__id__": 0} for _ in range(1000)
        ]
        schema["content"]["content"]["bomb"] = node("ListNode", "builtins", "list", content=many)
        return skops_file({**members, "1.npy": array.getvalue()}, schema)
    data = bytearray(skops_file({**members, first: bytes(1 << 20)}, schema))
    if kind == "overlapping":  # many entries of the directory that share the same bytes
        end = data.rindex(b"PK\x05\x06")
        (start,) = struct.unpack_from("<I", data, end + 16)
        (length,) = struct.unpack_from("<H", data, start + 28)
        entry = bytes(data[start : start + 46 + length])
        copies = b"".join(entry[:46] + f"{i:0{length}d}"[:length].encode() for i in range(5000))
        directory = copies + bytes(data[start:end])
        tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(directory), start, 0)
        return bytes(data[:start]) + directory + tail
    return bytes(data)


@pytest.mark.parametrize("kind", ["compressed", "nested", "repeated", "overlapping"])
def test_zip_bombs_do_not_unpack(kind, copy_of, canary, in_child):
    """A file that would grow is refused by the sizes in its directory."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    put(folder, "sklearn-0000.skops", zip_bomb(kind, members, schema))
    check_refused(in_child, folder, canary, "sklearn-0000.skops")


@pytest.mark.parametrize("shape", ["(1099511627776,)", "(-1,)", "(1, 2, 3)", "(0,)"])
def test_array_headers_must_be_true(shape, copy_of, canary, in_child):
    """An array whose header claims a terabyte, or anything but its size, is refused before it is built."""
    folder = copy_of("linear")
    members, schema = skops_parts((folder / "sklearn-0000.skops").read_bytes())
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    members[next(iter(members))] = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + bytes(8)
    put(folder, "sklearn-0000.skops", skops_file(members, schema))
    check_refused(in_child, folder, canary, "sklearn-0000.skops")


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**8) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 67) + b'{"a0":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8]}}' + bytes(8),
        struct.pack("<Q", 1 << 20) + b"[" * (1 << 20),
        b"",
        b"\x00" * 7,
    ],
    ids=["endless", "long", "empty", "false shape", "deep", "nothing", "cut"],
)
def test_tensor_headers_must_be_true(data, copy_of, canary, in_child):
    """A safetensors file with a huge, false or missing header is refused."""
    folder = copy_of("linear")
    put(folder, "arrays.safetensors", data)
    check_refused(in_child, folder, canary, "arrays.safetensors")


def test_huge_files_are_not_read(copy_of, canary, in_child):
    """A sparse terabyte is refused by its size, as the manifest itself and as a part."""
    for name in ("manifest.json", "sklearn-0000.skops"):
        folder = copy_of("linear")
        os.truncate(folder / name, 1 << 40)
        check_refused(in_child, folder, canary, name)


@pytest.mark.parametrize(
    "root",
    [
        [[]] * 10,
        {"$": "object", "class": "os.system", "number": 0, "attributes": []},
        {"$": "object", "class": "PIClassifier", "number": 0, "attributes": 3},
        {"$": "object", "class": "NeuralClassifier", "number": 0, "state": {}, "arrays": {"$": "dict", "items": []}},
        {"$": "skops", "class": "sklearn.svm._classes.SVC", "file": "sklearn-0000.skops"},
        {"$": "skops", "class": "subprocess.Popen", "file": "sklearn-0000.skops"},
        {"$": "skops", "class": "sklearn.pipeline.Pipeline", "file": "../outside"},
        {"$": "objects", "shape": [2**40], "items": []},
        {"$": "array", "key": "a0", "dtype": "<U999999999", "shape": [2**40]},
        {"$": "array", "key": "a0", "dtype": "|O", "shape": [1]},
    ],
    ids=["lists", "system", "attributes", "state", "other class", "popen", "outside", "items", "text", "objects"],
)
def test_trees_cannot_ask_for_more_than_there_is(root, copy_of, canary, in_child):
    """A tree with right checksums and wrong wishes is refused."""
    folder = copy_of("linear")
    put(folder, "tree.json", checked_json({"root": root}))
    child = in_child(attempt, folder)
    assert child.text.startswith(("UntrustedFileError", "CorruptFileError", "SavedModelError")), child.text
    assert child.peak_mib < MAX_MIB
    assert not canary.exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ([["hidden", [10**5, 10**5]]], "do not fit network 'mlp'"),
        ([["hidden", [10**12]]], "do not fit network 'mlp'"),
        ([["weights", "/etc/passwd"]], "names a weights file outside of its folder"),
    ],
    ids=["large", "endless", "another file"],
)
def test_networks_are_no_larger_than_their_weights(options, match, copy_of, canary, in_child):
    """Options that would build a network of 40 GB, or read another file, are refused before that."""
    folder = copy_of("network")
    tree = json.loads((folder / "tree.json").read_text())
    state = dict(tree["root"]["state"]["items"])
    state["network_options"] = {"$": "dict", "items": options}
    tree["root"]["state"]["items"] = list(state.items())
    put(folder, "tree.json", checked_json({"root": tree["root"]}))
    check_refused(in_child, folder, canary, match)


def changed_arrays(folder, name, change):
    """Change every array in a skops file that `change` wants to change, and keep all checksums right."""
    members, schema = skops_parts((folder / name).read_bytes())
    n_changed = 0
    for member, data in members.items():
        array = np.load(io.BytesIO(data), allow_pickle=False)
        if change(array):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            members[member] = buffer.getvalue()
            n_changed += 1
    assert n_changed
    put(folder, name, skops_file(members, schema))


def far_child(array):
    """Let the first branch of a tree lead outside."""
    for field in ("left_child", "left"):
        if array.dtype.names and field in array.dtype.names:
            array[field][0] = 10**6
            return True
    return False


def far_back(array):
    """Let the first branch of a tree lead to a negative number that is not the sign of a leaf."""
    if array.dtype.names and "left_child" in array.dtype.names:
        array["left_child"][0] = array["right_child"][0] = -(10**6)
        return True
    return False


def circle(array):
    """Let the first branch of a tree lead back to it."""
    for field in ("left_child", "left"):
        if array.dtype.names and field in array.dtype.names:
            array[field][0] = 0
            return True
    return False


def far_column(array):
    """Let the first branch of a tree look at a column that is not there."""
    for field in ("feature", "feature_idx"):
        if array.dtype.names and field in array.dtype.names:
            array[field][0] = 10**6
            return True
    return False


@pytest.mark.parametrize("model", ["forest", "stages", "boosting"])
@pytest.mark.parametrize("change", [far_child, circle, far_column])
def test_trees_stay_inside_their_memory(model, change, copy_of, canary, in_child):
    """Trees that would read outside of memory or run in circles are refused, not followed."""
    folder = copy_of(model)
    changed_arrays(folder, "sklearn-0000.skops", change)
    check_refused(in_child, folder, canary, "a tree")


@pytest.mark.parametrize("model", ["forest", "stages"])
def test_only_minus_one_is_a_leaf(model, copy_of, canary, in_child):
    """Compiled code follows every other number, negative ones too."""
    folder = copy_of(model)
    changed_arrays(folder, "sklearn-0000.skops", far_back)
    check_refused(in_child, folder, canary, "a tree")


def test_support_vectors_add_up(copy_of, canary, in_child):
    """A support vector machine that claims more vectors than it has is refused."""
    folder = copy_of("svm")

    def more(array):
        if array.dtype == np.int32 and array.shape == (2,):
            array += 1000
            return True
        return False

    changed_arrays(folder, "sklearn-0000.skops", more)
    check_refused(in_child, folder, canary, "support vectors whose counts do not add up")


def fuzz(folder, n_trials, seed):
    """Change random bytes, keep all checksums right, load and predict; count how often each outcome came."""
    rng = np.random.default_rng(seed)
    originals = {path.name: path.read_bytes() for path in folder.iterdir()}
    rows = rng.normal(size=(20, 3))
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(n_trials):
        for name, data in originals.items():
            (folder / name).write_bytes(data)
        name = sorted(set(originals) - {"manifest.json"})[rng.integers(len(originals) - 1)]
        put(folder, name, mutated(name, originals[name], rng))
        problem = attempt(folder)
        if not problem.startswith(("UntrustedFileError", "CorruptFileError", "SavedModelError", "loaded")):
            return f"{name}: {problem}"
        outcomes["loaded" if problem.startswith("loaded") else "refused"] += 1
        if problem.startswith("loaded"):
            try:
                load(folder).predict(rows)
            except Exception as problem:
                outcomes[type(problem).__name__] = outcomes.get(type(problem).__name__, 0) + 1
    return json.dumps(outcomes)


def mutated(name, data, rng):
    """Return a file with one to three changed bytes whose inner checksums are right."""

    def changed(part):
        part = bytearray(part)
        for _ in range(rng.integers(1, 4)):
            part[rng.integers(len(part))] = rng.integers(256)
        return bytes(part)

    if name.endswith(".skops"):
        members, schema = skops_parts(data)
        member = sorted([*members, "schema.json"])[rng.integers(len(members) + 1)]
        if member == "schema.json":
            text = changed(json.dumps(schema).encode())
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for other, part in members.items():
                    archive.writestr(other, part)
                archive.writestr("schema.json", text)
            return buffer.getvalue()
        return skops_file({**members, member: changed(members[member])}, schema)
    if name == "tree.json":
        for _ in range(100):
            try:
                content = json.loads(changed(data))
                content.pop("sha256", None)
                return checked_json(content)
            except Exception:
                continue
    if name.endswith((".json", ".txt")):  # a booster: a number that its loader would follow becomes another one
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
        start, end = numbers[rng.integers(len(numbers))].span()
        other = rng.choice(
            [b"-1", b"0", b"1", b"7", b"1.5", b"65536", b"2147483647", b"-9223372036854775808", b"1e300"]
        )
        return data[:start] + bytes(other) + data[end:]
    return changed(data)


def run_fuzz(copy_of, in_child, n_trials, seed):
    """Fuzz every model in a child; return the outcomes of each."""
    results = {}
    boosters = [name for name in BOOSTERS if ESTIMATORS[name].is_installed()]
    for name in ("plain", "linear", "forest", "boosting", "stages", "svm", "network", *boosters):
        child = in_child(fuzz, copy_of(name), n_trials, seed)
        assert child.ended_by == 0, f"{name} crashed"
        results[name] = json.loads(child.text)
        assert sum(results[name][kind] for kind in ("refused", "loaded")) == n_trials
    return results


@pytest.mark.filterwarnings("ignore")
def test_random_changes_end_in_an_error_of_ours_or_a_model(copy_of, in_child):
    """Whatever bytes change, loading gives an error of ours or a model; nothing crashes, not even while predicting."""
    results = run_fuzz(copy_of, in_child, 15, seed=1)
    assert sum(result["refused"] for result in results.values()) > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_random_changes_end_in_an_error_of_ours_or_a_model(copy_of, in_child):
    """The same, 1,500 times for each model."""
    run_fuzz(copy_of, in_child, 1500, seed=2)


def test_crc_of_the_zip_is_checked_too(copy_of, canary, in_child):
    """A member whose bytes do not match the zip's own checksum is refused."""
    folder = copy_of("linear")
    data = bytearray((folder / "sklearn-0000.skops").read_bytes())
    position = data.index(b"\x93NUMPY") + 130
    data[position] ^= 1
    assert zlib.crc32(bytes(data))
    put(folder, "sklearn-0000.skops", bytes(data))
    check_refused(in_child, folder, canary, "Bad CRC-32")
