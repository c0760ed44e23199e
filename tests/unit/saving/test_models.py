import copy
import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC

from holdfast.exceptions import (
    CorruptFileError,
    InputTypeError,
    MismatchWarning,
    MissingExtraError,
    SavedModelError,
    StorageError,
    UntrustedFileError,
)
from holdfast.saving import models as models_module
from holdfast.saving.codec import allow
from holdfast.saving.files import inject_faults, read_regular
from holdfast.saving.json_files import checked_json, write_json
from holdfast.saving.models import TREE, load, read_manifest, save, write_folder

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
Y = np.where(X[:, 0] + RNG.normal(size=80) > 0, "yes", "no").astype(object)
ROWS = RNG.normal(size=(50, 4))


@allow
class Wrapper(BaseEstimator):
    """Stands for an estimator of ours: parameters, arrays, and scikit-learn estimators inside."""

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y):
        """Fit two estimators."""
        self.estimators_ = {"first": self.estimator.fit(X, y), "second": LogisticRegression().fit(X, y)}
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Predict with the first."""
        return self.estimators_["first"].predict(X)


def saved(estimator, tmp_path):
    """Return an estimator after saving and loading."""
    save(estimator, tmp_path / "model")
    return load(tmp_path / "model")


ESTIMATORS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
    make_pipeline(SparseRandomProjection(3, random_state=0), LogisticRegression()),
    HistGradientBoostingClassifier(max_iter=5, categorical_features=[3]),
    HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=10_000),  # trees of one leaf
    RandomForestClassifier(5, random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    CalibratedClassifierCV(LogisticRegression(), cv=2),
    SVC(),
    GaussianProcessClassifier(1.0 * RBF(), optimizer=None),
    KNeighborsClassifier(algorithm="brute"),
    MLPClassifier((4,), max_iter=2000, random_state=0),
    make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()),
]


def test_categories_of_a_frame_come_back_with_histogram_boosting(tmp_path):
    """Levels are texts, also one that is missing everywhere; the loaded model answers about frames to the last bit."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": generator.normal(size=200), "ward": pd.Categorical(generator.choice(list("pqr"), 200))}
    )
    frame["empty"] = pd.Categorical([None] * 200, categories=["x"])
    frame.loc[::7, ["age", "ward"]] = None
    model = HistGradientBoostingClassifier(max_iter=5).fit(frame, frame["ward"] == "p")
    assert saved(model, tmp_path).predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: repr(e).partition("(")[0] + str(len(repr(e))))
def test_scikit_learn_estimators_predict_the_same_to_the_last_bit(estimator, tmp_path):
    """Saved and loaded, an estimator gives the same labels and the same probabilities."""
    rows, training = np.abs(ROWS), np.abs(X)
    rows[:, 3], training[:, 3] = rows[:, 3].astype(int), training[:, 3].astype(int)
    estimator.fit(training, Y)
    copy = saved(estimator, tmp_path)
    assert copy.predict(rows).tolist() == estimator.predict(rows).tolist()
    for method in ("predict_proba", "decision_function"):
        if hasattr(estimator, method):
            assert getattr(copy, method)(rows).tobytes() == getattr(estimator, method)(rows).tobytes()


def test_pipelines_for_tables_come_back(tmp_path):
    """Text, categories with missing values and numbers go through a saved transformer as before."""
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", None, "y"], "c": ["one two", "two", "three"]})
    transformer = make_column_transformer(
        (StandardScaler(), ["a"]), (OneHotEncoder(handle_unknown="ignore"), ["b"]), (TfidfVectorizer(), "c")
    ).fit(frame)
    copy = saved(transformer, tmp_path)
    assert np.asarray(copy.transform(frame)).tobytes() == np.asarray(transformer.transform(frame)).tobytes()


def test_estimators_of_ours_come_back_with_all_they_learned(tmp_path):
    """Attributes, nested estimators and labels survive; unfitted ones too."""
    model = Wrapper(RandomForestClassifier(3, random_state=0)).fit(X, Y)
    copy = saved(model, tmp_path)
    assert list(vars(copy)) == list(vars(model))
    assert copy.classes_.dtype == object
    assert copy.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    assert copy.estimator is copy.estimators_["first"]
    save(Wrapper(LogisticRegression(C=3.5)), tmp_path / "unfitted")
    assert load(tmp_path / "unfitted").get_params()["estimator__C"] == 3.5


def test_ours_inside_a_pipeline(tmp_path):
    """A scikit-learn pipeline may hold an estimator of ours."""
    model = make_pipeline(StandardScaler(), Wrapper(LogisticRegression())).fit(X, Y)
    copy = saved(model, tmp_path)
    assert copy.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    assert type(copy.steps[1][1]) is Wrapper


def test_the_manifest_says_what_is_in_the_folder(tmp_path):
    """Kind, schema, versions, files and what the caller added can be read without loading the estimator."""
    save(Wrapper(LogisticRegression()).fit(X, Y), tmp_path / "model", extra={"columns": ["a", "ü"], "n": 3})
    manifest = read_manifest(tmp_path / "model")
    assert (manifest["kind"], manifest["schema"], manifest["estimator"]) == ("model", 2, "Wrapper")
    assert manifest["extra"] == {"columns": ["a", "ü"], "n": 3}
    assert {"python", "holdfast", "numpy", "scikit-learn"} <= set(manifest["libraries"])
    listed = {name: facts["bytes"] for name, facts in manifest["files"].items()}
    present = {path.name: path.stat().st_size for path in (tmp_path / "model").iterdir()}
    present.pop("manifest.json")
    assert listed == present
    assert sorted(listed) == ["arrays.safetensors", "tree.json"]


def test_loading_imports_no_more_than_the_model_needs(tmp_path):
    """A linear pipeline comes back without ensembles, neighbors or networks of scikit-learn."""
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(Y == "yes", "u", "v")})
    levels = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = ColumnTransformer([("n", StandardScaler(), ["a"]), ("c", levels, ["b"])])
    fitted = make_pipeline(columns, LogisticRegression()).fit(frame, Y)
    save([fitted, fitted], tmp_path / "model")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    program = (
        "import sys, numpy, pandas; from holdfast.saving.models import load;"
        f"one, two = load({str(tmp_path / 'model')!r}); rows = pandas.read_csv({str(tmp_path / 'rows.csv')!r});"
        "print(one is two, 'sklearn.ensemble' in sys.modules, repr(one.predict_proba(rows)[0, 0].item()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    expected = fitted.predict_proba(pd.read_csv(tmp_path / "rows.csv"))[0, 0].item()
    assert done.stdout.split() == ["True", "False", repr(expected)]


@pytest.mark.parametrize("extra", [{"a": (1, 2)}, {1: "a"}, {"a": np.int64(3)}, {"a": float("nan")}], ids=repr)
def test_extra_holds_only_what_comes_back(extra, tmp_path):
    """Values that JSON would change are refused before anything is written."""
    with pytest.raises(InputTypeError, match="JSON"):
        save(LogisticRegression(), tmp_path / "model", extra=extra)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (FunctionTransformer(lambda rows: rows), "the function or class <lambda>"),
        (KNeighborsClassifier(algorithm="kd_tree"), "a search for neighbors that is not saved: use algorithm='brute'"),
        (IsolationForest(n_estimators=2), "IsolationForest, which is not on the list of classes that load safely"),
        (SVC(kernel="precomputed"), "a precomputed kernel or sparse rows, which is not saved"),
        (
            GradientBoostingClassifier(n_estimators=1, init=LogisticRegression()),
            "whose 'init' is neither None nor 'zero'",
        ),
    ],
    ids=["function", "neighbors", "isolation forest", "kernel", "init"],
)
def test_estimators_that_cannot_be_loaded_safely_are_refused_when_saving(estimator, message, tmp_path):
    """The error names the type and says what to do; nothing is written."""
    estimator.fit(X @ X.T if getattr(estimator, "kernel", "") == "precomputed" else X, Y == "yes")
    with pytest.raises(UntrustedFileError, match=message):
        save(estimator, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_class_of_somebody_elses_is_refused(tmp_path):
    """An estimator that is neither scikit-learn's nor allowed is named, with the way out."""

    class Foreign(BaseEstimator):
        pass

    with pytest.raises(UntrustedFileError, match=r"Foreign, which is not on.*pass it to holdfast\.saving\.allow"):
        save(make_pipeline(StandardScaler(), Wrapper(Foreign())), tmp_path / "model")


def test_a_saved_model_is_replaced_only_when_asked(tmp_path):
    """Without overwrite the old model stays, with it the new one stands there."""
    save(LogisticRegression(C=1.0), tmp_path / "model")
    message = r"holds a saved model already\. Pass overwrite=True to replace it"
    with pytest.raises(SavedModelError, match=message):
        save(LogisticRegression(C=2.0), tmp_path / "model")
    assert load(tmp_path / "model").C == 1.0
    save(LogisticRegression(C=2.0), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").C == 2.0
    assert os.listdir(tmp_path) == ["model"]


def test_what_is_not_ours_is_never_touched(tmp_path):
    """A folder of somebody else's, a file, and a model with a stranger's file in it stay as they are."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    save(LogisticRegression(), tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("precious")
    for name, message in (
        ("theirs", "exists and is not a saved model of holdfast's. It was not touched"),
        ("file", "exists and is a file"),
        ("model", "also holds 'notes.txt', which holdfast did not write"),
    ):
        with pytest.raises(SavedModelError, match=message):
            save(LogisticRegression(), tmp_path / name, overwrite=True)
    assert (theirs / "thesis.tex").read_text() == (tmp_path / "model" / "notes.txt").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["file", "model", "theirs"]


def test_an_empty_folder_is_nobodys(tmp_path):
    """A folder with nothing in it may become the model."""
    save(LogisticRegression(C=2.0), tmp_path)
    assert load(tmp_path).C == 2.0


def test_a_link_to_a_model_leads_to_it(tmp_path):
    """Saving over a link replaces the folder it leads to and keeps the link."""
    save(LogisticRegression(C=1.0), tmp_path / "model")
    (tmp_path / "latest").symlink_to("model")
    save(LogisticRegression(C=2.0), tmp_path / "latest", overwrite=True)
    assert (tmp_path / "latest").is_symlink()
    assert load(tmp_path / "model").C == load(tmp_path / "latest").C == 2.0


def test_the_old_model_survives_every_failing_write(tmp_path):
    """Whichever step of an overwrite fails, a whole model loads: the old one, or the new one once it is in place."""
    for failing in range(100):
        save(LogisticRegression(C=1.0), tmp_path / "model", overwrite=True)
        steps = []

        def fault(name, path, failing=failing, steps=steps):
            steps.append(name)
            if len(steps) == failing + 1:
                raise OSError(errno.ENOSPC, "full")

        try:
            with inject_faults(fault):
                save(LogisticRegression(C=2.0), tmp_path / "model", overwrite=True)
            in_place = True
        except StorageError:
            in_place = steps[-1] == "fsync-folder" and "rename" in steps
        expected = 2.0 if in_place else 1.0
        assert load(tmp_path / "model").get_params()["C"] == expected
        if len(steps) <= failing:
            break
    assert failing > 12  # two files of four steps each, and the folders


def test_a_folder_that_is_not_a_model_is_named(tmp_path):
    """A missing folder, a file and an unrelated folder are told apart."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SavedModelError, match="The model folder '.*none' does not exist"):
        load(tmp_path / "none")
    with pytest.raises(SavedModelError, match="file' is a file, but a model is a folder"):
        load(tmp_path / "file")
    with pytest.raises(CorruptFileError, match="empty' is not a saved model: manifest.json is missing"):
        load(tmp_path / "empty")


def change_manifest(folder, **changes):
    """Write a manifest whose own checksum is right."""
    content = json.loads((folder / "manifest.json").read_text())
    content.pop("sha256")
    write_json(folder / "manifest.json", {**content, **changes})


def test_a_listed_file_that_nothing_refers_to_is_refused(tmp_path):
    """Its size and hash are right, but it says nothing of the model."""
    save(LogisticRegression().fit(X, Y), tmp_path / "model")
    data = b"{}"
    (tmp_path / "model" / "booster-0007.json").write_bytes(data)
    listed = read_manifest(tmp_path / "model")["files"]
    listed["booster-0007.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change_manifest(tmp_path / "model", files=listed)
    with pytest.raises(UntrustedFileError, match="booster-0007.json: tree.json does not refer to it"):
        load(tmp_path / "model")


@pytest.mark.parametrize("schema", [3, 0, "2", None, True])
def test_other_schemas_are_refused(schema, tmp_path):
    """A folder that a later version wrote asks for an update."""
    save(LogisticRegression(), tmp_path / "model")
    change_manifest(tmp_path / "model", schema=schema)
    with pytest.raises(SavedModelError, match="in schema version .*; this holdfast reads 2."):
        load(tmp_path / "model")


def test_models_of_schema_1_are_loaded(tmp_path):
    """Linear models did not change since."""
    fitted = LogisticRegression().fit(X, Y)
    save(fitted, tmp_path / "model")
    change_manifest(tmp_path / "model", schema=1)
    np.testing.assert_array_equal(load(tmp_path / "model").coef_, fitted.coef_)


SKOPS = "sklearn-0000.skops"
FOREST = "sklearn.ensemble._forest.RandomForestClassifier"


def zipped(name):
    """Return a zip file with one member that is compressed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps([{"text": "0" * 5000}]))
    return content.getvalue()


def skops_file(*nodes, **members):
    """Return a zip file as skops makes it, of nodes and arrays."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("schema.json", json.dumps(nodes))
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def write_schema_1(folder, data, name=FOREST):
    """Write a model as the first schema had it: a part of scikit-learn is a skops file."""
    tree = checked_json({"root": {"$": "tuple", "items": [{"$": "skops", "class": name, "file": SKOPS}] * 2}})
    write_folder(folder, "model", {TREE: tree, SKOPS: data}, {"estimator": "tuple", "extra": {}}, overwrite=False)
    change_manifest(folder, schema=1)


def test_trees_of_schema_1_are_loaded_with_skops(tmp_path):
    """They answer the same, are one object where they were one, and saved again they need skops no more."""
    skops_io = pytest.importorskip("skops.io")
    fitted = RandomForestClassifier(5, random_state=0).fit(X, Y)
    write_schema_1(tmp_path / "old", skops_io.dumps(fitted))
    loaded, same = load(tmp_path / "old")
    assert same is loaded
    np.testing.assert_array_equal(loaded.predict_proba(ROWS), fitted.predict_proba(ROWS))
    save(loaded, tmp_path / "new")
    assert set(read_manifest(tmp_path / "new")["files"]) == {TREE, "arrays.safetensors"}


def test_trees_of_schema_1_name_the_package_they_need(tmp_path, monkeypatch):
    """Without skops, the message says what to install."""
    monkeypatch.delitem(sys.modules, "skops.io", raising=False)
    monkeypatch.setitem(sys.modules, "skops", None)
    write_schema_1(tmp_path / "old", skops_file())
    with pytest.raises(MissingExtraError, match="until they are saved again, need skops.*Run pip install skops"):
        load(tmp_path / "old")


ARRAY = {"__loader__": "NdArrayNode", "file": "1.npy"}


@pytest.mark.parametrize(
    ("data", "untrusted", "value", "message"),
    [
        (skops_file({"__loader__": "MethodNode"}), [], None, "holds what is not on the list: MethodNode"),
        (skops_file(), ["os.system"], None, "holds what is not on the list: os.system"),
        (skops_file(), [], KNeighborsClassifier().fit(X, Y), "cannot be saved so that loading it is safe"),
        (skops_file(), [], LogisticRegression(), "does not hold the sklearn.ensemble._forest.RandomForestClassifier"),
        (skops_file(ARRAY | {"__id__": 1}, ARRAY | {"__id__": 2}), [], None, "would grow when unpacked"),
        (zipped("schema.json"), [], None, "would grow when unpacked"),
        (skops_file(**{"1.npz": zipped("schema.json")}), [], None, "would grow when unpacked"),
    ],
    ids=["kind of node", "type", "part on no list", "other class", "array read twice", "compressed", "inside, too"],
)
def test_skops_files_of_others_are_refused(tmp_path, monkeypatch, data, untrusted, value, message):
    """Whatever skops itself would build of a file, only what could be saved today is loaded."""
    fake = SimpleNamespace(get_untrusted_types=lambda data: untrusted, loads=lambda data, trusted: value)
    monkeypatch.setitem(sys.modules, "skops.io", fake)
    write_schema_1(tmp_path / "old", data)
    with pytest.raises(UntrustedFileError, match=message):
        load(tmp_path / "old")


def test_a_checkpoint_is_not_a_model(tmp_path):
    """Kinds of folders are told apart."""
    save(LogisticRegression(), tmp_path / "model")
    change_manifest(tmp_path / "model", kind="checkpoint")
    with pytest.raises(SavedModelError, match="holds a 'checkpoint', but a 'model' was asked for"):
        load(tmp_path / "model")


def test_what_could_not_be_loaded_again_is_not_written(tmp_path):
    """Limits of loading are limits of saving."""
    with pytest.raises(SavedModelError, match="The model needs 1 files and a manifest of .* a smaller extra"):
        save(SVC(), tmp_path / "model", extra={"a": "x" * (1 << 24)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("estimator", [LogisticRegression(), SVC()], ids=["linear", "support vectors"])
def test_another_version_of_scikit_learn_is_said(estimator, tmp_path, monkeypatch):
    """scikit-learn does not promise that fitted estimators mean the same in another version."""
    save(estimator, tmp_path / "model")
    monkeypatch.setattr(models_module, "installed_version", lambda name: "99.1.0")
    with pytest.warns(MismatchWarning, match=r"was saved with scikit-learn .*, and 99\.1\.0 is installed"):
        load(tmp_path / "model")


def folder_bytes(folder):
    """Return the bytes of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: repr(e).partition("(")[0] + str(len(repr(e))))
def test_the_same_model_is_the_same_bytes(estimator, tmp_path):
    """Saved again, saved as a copy, and saved after loading: every file is the same, byte for byte."""
    training = np.abs(X)
    training[:, 3] = training[:, 3].astype(int)
    estimator.fit(training, Y)
    save(estimator, tmp_path / "first")
    time.sleep(0.01)
    save(estimator, tmp_path / "again")
    save(copy.deepcopy(estimator), tmp_path / "copy")
    save(load(tmp_path / "first"), tmp_path / "loaded")
    first = folder_bytes(tmp_path / "first")
    assert [name for name in ("again", "copy", "loaded") if folder_bytes(tmp_path / name) != first] == []


def test_other_processes_write_the_same_bytes(tmp_path):
    """Neither the places of objects in memory, the order of sets nor the time of day are in the files."""
    script = (
        "import sys; import numpy as np\n"
        "from sklearn.feature_extraction.text import TfidfVectorizer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from holdfast.saving import save\n"
        "texts = ['one two three', 'two four', 'five one', 'six four']\n"
        "words = make_pipeline(TfidfVectorizer(stop_words=['two', 'six']), LogisticRegression())\n"
        "words.fit(texts, [0, 1, 0, 1]); words.predict(texts)\n"
        "words[0].stop_words = {'two', 'six', 'seven', 'eight'}\n"
        "save(words, sys.argv[1])"
    )
    folders = []
    for seed, stamp in (("1", "100000"), ("2", "200000")):
        folders.append(tmp_path / seed)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": stamp}
        subprocess.run([sys.executable, "-c", script, folders[-1]], check=True, env=environment)
        time.sleep(2.1)  # zip files count in steps of two seconds
    assert folder_bytes(folders[0]) == folder_bytes(folders[1])


def test_sizes_are_compared_before_anything_is_read(tmp_path, monkeypatch):
    """A file of another size is named with both sizes, and no other file is opened."""
    save(LogisticRegression().fit(X, Y), tmp_path / "model")
    last = sorted(path for path in (tmp_path / "model").iterdir() if path.name != "manifest.json")[-1]
    size = last.stat().st_size
    last.write_bytes(last.read_bytes()[:-3])
    read = []

    def spy(path, *, max_bytes):
        read.append(path.name)
        return read_regular(path, max_bytes=max_bytes)

    monkeypatch.setattr(models_module, "read_regular", spy)
    with pytest.raises(
        CorruptFileError, match=f"{last.name}' is damaged: it has {size - 3} bytes, {size} were written"
    ):
        load(tmp_path / "model")
    assert read == ["manifest.json"]
