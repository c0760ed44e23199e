"""Nothing executes on load: files made to harm, all checksums right, are refused unexecuted and in little memory."""

import hashlib
import io
import json
import os
import pickle  # noqa: S403 - makes what must be refused; nothing here reads it
import re
import struct
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from holdfast.estimators.named import ESTIMATORS
from holdfast.fitting.estimators import BOOSTERS
from holdfast.saving.json_files import checked_json, write_json
from holdfast.saving.models import load
from holdfast.saving.sklearn_parts import _record_type

MAX_MIB = 100  # what an attack may cost


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


def nothing():
    """Return the node of an empty dictionary."""
    return {"$": "dict", "items": []}


def evil_nodes(canary):
    """Return nodes that would run a command that creates the canary, by every kind of node that names code."""
    command = {"$": "tuple", "items": [f"touch {canary}"]}
    system = {"$": "function", "path": "posix.system"}
    empty = {"$": "array", "key": "a0", "dtype": "<f8", "shape": [0]}
    return {
        "function": system,
        "partial": {"$": "partial", "function": system, "arguments": [f"touch {canary}"], "keywords": nothing()},
        "partial of a type": {
            **{"$": "partial", "function": {"$": "type", "name": "str"}},
            **{"arguments": [], "keywords": nothing()},
        },
        "compiled": {"$": "compiled", "path": "posix.system", "arguments": command, "state": None},
        "loss": {"$": "compiled", "path": "sklearn._loss._loss.CyHuberLoss", "arguments": command, "state": nothing()},
        "sparse": {
            **{"$": "sparse", "path": "subprocess.Popen", "shape": command},
            **{"data": empty, "indices": empty, "indptr": empty},
        },
        "estimator": {"$": "estimator", "class": "subprocess.Popen", "number": 99, "attributes": []},
        "object": {"$": "object", "class": "subprocess.Popen", "number": 99, "attributes": []},
        "state": {"$": "object", "class": "Popen", "number": 99, "state": command, "arrays": nothing()},
        "booster": {"$": "booster", "class": "subprocess.Popen", "number": 99, "attributes": []},
        "type": {"$": "type", "name": "eval"},
        "records": {"$": "records", "kind": "posix.system", "bytes": command},
        "code": {"$": "code", "path": "posix.system"},
        "pickle": {"$": "pickle", "data": pickle.dumps(Payload(canary)).hex()},
        "bytes": {"$": "scalar", "dtype": "|O", "hex": pickle.dumps(Payload(canary)).hex()},
        "generator": {"$": "generator", "state": {"$": "dict", "items": [["bit_generator", "seed"]]}},
    }


@pytest.mark.parametrize("kind", sorted(evil_nodes("")))
def test_no_kind_of_node_runs_code(kind, copy_of, canary, in_child):
    """A node that names a function, class or method that is not listed is refused before anything is built of it."""
    folder = copy_of("linear")
    root = json.loads((folder / "tree.json").read_text())["root"]
    root["attributes"].append(["evil", evil_nodes(canary)[kind]])
    put(folder, "tree.json", checked_json({"root": root}))
    check_refused(in_child, folder, canary, "posix.system" if kind == "code" else "")


@pytest.mark.parametrize(
    "name", ["tree.json", "arrays.safetensors", "tensors.safetensors", "booster-9999.json", "model.pkl"]
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


def test_a_torch_archive_is_not_a_part(copy_of, canary, in_child):
    """A zip with a pickle inside, as torch.save makes, is refused."""
    folder = copy_of("linear")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload(canary)))
    put(folder, "tensors.safetensors", buffer.getvalue())
    check_refused(in_child, folder, canary, "tensors.safetensors is not a safetensors file")


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


@pytest.mark.parametrize("name", ["manifest.json", "tree.json", "arrays.safetensors"])
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
    for name in ("manifest.json", "arrays.safetensors"):
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
        {"$": "booster", "class": "xgboost.sklearn.XGBClassifier", "number": 0, "attributes": [], "file": "../outside"},
        {"$": "compiled", "path": "sklearn.tree._tree.Tree", "arguments": [1, {"$": "same", "number": 0}, 2**60]},
        {"$": "records", "kind": "tree", "bytes": [0] * 7},
        {"$": "objects", "shape": [2**40], "items": []},
        {"$": "array", "key": "a0", "dtype": "<U999999999", "shape": [2**40]},
        {"$": "array", "key": "a0", "dtype": "|O", "shape": [1]},
    ],
    ids=["lists", "system", "attributes", "state", "outside", "tree", "records", "items", "text", "objects"],
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


def nodes_of(node):
    """Yield every node of a tree."""
    for part in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from nodes_of(part)
    if isinstance(node, dict):
        yield node


def changed_arrays(folder, change):
    """Change every array that `change` wants to change, and keep all checksums right."""
    arrays = load_arrays((folder / "arrays.safetensors").read_bytes())
    tree = json.loads((folder / "tree.json").read_text())
    kinds = {node["bytes"]["key"]: node["kind"] for node in nodes_of(tree) if node.get("$") == "records"}
    arrays = {key: np.array(array) for key, array in arrays.items()}
    views = [array.view(_record_type(kinds[key])) if key in kinds else array for key, array in arrays.items()]
    n_changed = sum(change(view) for view in views)
    assert n_changed
    put(folder, "arrays.safetensors", save_arrays(arrays))


def first_branch(fields, value):
    """Return a change that writes a value into the first branch of a tree."""

    def change(array):
        for field in fields:
            if array.dtype.names and field in array.dtype.names:
                array[field][0] = value
                return True
        return False

    return change


far_child = first_branch(("left_child", "left"), 10**6)  # leads outside
circle = first_branch(("left_child", "left"), 0)  # leads back to the first branch
far_column = first_branch(("feature", "feature_idx"), 10**6)  # looks at a column that is not there


def far_back(array):
    """Let the first branch of a tree lead to a negative number that is not the sign of a leaf."""
    if array.dtype.names and "left_child" in array.dtype.names:
        array["left_child"][0] = array["right_child"][0] = -(10**6)
        return True
    return False


@pytest.mark.parametrize("model", ["forest", "stages", "boosting"])
@pytest.mark.parametrize("change", [far_child, circle, far_column], ids=["far_child", "circle", "far_column"])
def test_trees_stay_inside_their_memory(model, change, copy_of, canary, in_child):
    """Trees that would read outside of memory or run in circles are refused, not followed."""
    folder = copy_of(model)
    changed_arrays(folder, change)
    check_refused(in_child, folder, canary, "a tree")


@pytest.mark.parametrize("model", ["forest", "stages"])
def test_only_minus_one_is_a_leaf(model, copy_of, canary, in_child):
    """Compiled code follows every other number, negative ones too."""
    folder = copy_of(model)
    changed_arrays(folder, far_back)
    check_refused(in_child, folder, canary, "a tree")


def test_support_vectors_add_up(copy_of, canary, in_child):
    """A support vector machine that claims more vectors than it has is refused."""
    folder = copy_of("svm")

    def more(array):
        if array.dtype == np.int32 and array.shape == (2,):
            array += 1000
            return True
        return False

    changed_arrays(folder, more)
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
    for name in ("linear", "forest", "boosting", "stages", "svm", "network", *boosters):
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
