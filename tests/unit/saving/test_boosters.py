"""Boosters in saved models: the same answers to the last bit, and no file that their loaders would follow blindly."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import CorruptFileError, HoldfastError, UntrustedFileError
from holdfast.saving import boosters
from holdfast.saving.models import load, save

N = 240
NAMES = ["xgboost", "lightgbm", "catboost"]


@pytest.fixture(params=NAMES)
def name(request):
    """Each library that is installed."""
    pytest.importorskip(request.param)
    return request.param


@pytest.fixture
def rows():
    """Numbers with gaps, a column without any, and texts as categories; three classes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose [mg]": rng.normal(size=N), "b": rng.normal(size=N), "none": np.full(N, np.nan)})
    frame.loc[rng.random(N) < 0.2, "dose [mg]"] = np.nan
    frame["wård"] = rng.choice(["é", "b", "c", "d"], N)
    y = np.digitize(frame["dose [mg]"].fillna(0) + (frame["wård"] == "é"), [-0.3, 0.6])
    return frame, y


def made(name, **options):
    """Return a small booster."""
    return ESTIMATORS[name].make(n_estimators=6, **options)


def with_categories(name, frame):
    """Return a booster and a frame whose texts it takes for categories."""
    if name == "catboost":
        return made(name, cat_features=("wård",)), frame
    if name == "xgboost":  # it refuses brackets in names
        frame = frame.rename(columns={"dose [mg]": "dose"})
        return made(name, enable_categorical=True, max_cat_to_onehot=1), frame.astype({"wård": "category"})
    frame = frame.set_axis(["dose", "b", "none", "ward"], axis=1)
    return made(name, min_data_per_group=5, max_cat_to_onehot=1), frame.astype({"ward": "category"})


def saved_and_loaded(model, folder):
    """Save a model, load it, and check that what was loaded is saved as the same bytes."""
    save(model, folder / "model")
    copy = load(folder / "model")
    save(copy, folder / "again")
    for path in (folder / "model").iterdir():
        assert (folder / "again" / path.name).read_bytes() == path.read_bytes(), path.name
    return copy


@pytest.mark.parametrize("classes", [2, 3])
def test_answers_names_and_categories_come_back(name, classes, rows, tmp_path):
    """Probabilities are the same to the last bit; names, categories, gaps and parameters are what they were."""
    frame, y = rows
    model, frame = with_categories(name, frame)
    model.fit(frame, np.minimum(y, classes - 1))
    copy = saved_and_loaded(model, tmp_path)
    assert copy.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()
    assert copy.predict(frame).tolist() == model.predict(frame).tolist()
    assert repr(copy.get_params()) == repr(model.get_params())
    assert list(copy.feature_names_ if name == "catboost" else copy.feature_names_in_) == list(frame.columns)
    assert copy.classes_.tolist() == model.classes_.tolist()
    again = clone(copy).fit(frame, np.minimum(y, classes - 1))
    assert again.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()


@pytest.mark.parametrize("wrap", ["plain", "pipeline", "calibrated", "threshold", "regressor", "unfitted", "stopped"])
def test_boosters_inside_of_scikit_learn_come_back(name, wrap, rows, tmp_path):
    """In a pipeline, calibrated, with a tuned threshold, for numbers, and before any fit."""
    frame, y = rows
    X, target = frame[["dose [mg]", "b"]].to_numpy(), (y > 0).astype(int)
    model = made(name)
    if wrap == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    elif wrap == "calibrated":
        model = CalibratedClassifierCV(model, cv=2)
    elif wrap == "threshold":
        model = TunedThresholdClassifierCV(model, cv=2, random_state=0)
    elif wrap == "regressor":
        library = {"xgboost": "XGBRegressor", "lightgbm": "LGBMRegressor", "catboost": "CatBoostRegressor"}
        model = getattr(pytest.importorskip(name), library[name])(**model.get_params() | {"objective": None})
    elif wrap == "unfitted":
        save(model, tmp_path / "model")
        assert repr(load(tmp_path / "model").get_params()) == repr(model.get_params())
        return
    if wrap == "stopped" and name == "catboost":
        model.set_params(early_stopping_rounds=2).fit(X, target, eval_set=(X[:50], target[:50]))
    elif wrap == "stopped" and name == "xgboost":
        model.set_params(early_stopping_rounds=2).fit(X, target, eval_set=[(X[:50], target[:50])], verbose=False)
    else:
        model.fit(X, target)
    copy = saved_and_loaded(model, tmp_path)
    assert copy.predict(X).tolist() == model.predict(X).tolist()
    if wrap != "regressor":
        assert copy.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_a_search_comes_back(name, rows, tmp_path):
    """A search around a booster is saved with its folds and scores."""
    frame, y = rows
    search = GridSearchCV(made(name), {"n_estimators": [2]}, cv=2).fit(frame[["b"]].to_numpy(), y)
    copy = saved_and_loaded(search, tmp_path)
    assert (
        copy.predict_proba(frame[["b"]].to_numpy()).tobytes() == search.predict_proba(frame[["b"]].to_numpy()).tobytes()
    )
    assert copy.cv_results_["mean_test_score"].tolist() == search.cv_results_["mean_test_score"].tolist()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("xgboost", {"booster": "gblinear"}, "booster='gblinear' is not saved"),
        ("xgboost", {"multi_strategy": "multi_output_tree"}, "multi_output_tree' is not saved"),
        ("xgboost", {"plugin": "x"}, "with 'plugin', which is not on the list of settings"),
        ("lightgbm", {"linear_tree": True}, "with 'linear_tree', which is not on the list of settings"),
        ("lightgbm", {"forcedsplits_filename": "a"}, "with 'forcedsplits_filename', which is not on the list"),
        ("lightgbm", {"metric": "auc machines=a"}, "'metric', which LightGBM would read as several"),
        ("catboost", {"grow_policy": "Lossguide"}, "grow_policy other than 'SymmetricTree' is not saved"),
        ("catboost", {"train_dir": "elsewhere"}, "with 'train_dir', which is not on the list of settings"),
    ],
)
def test_what_could_not_be_checked_or_reaches_out_is_refused_when_saving(name, options, message, rows, tmp_path):
    """Forms of models that are not checked, and parameters that read or write files or open connections."""
    pytest.importorskip(name)
    frame, y = rows
    model = made(name, **options)
    if not {"plugin", "forcedsplits_filename", "metric", "train_dir"} & set(options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gblinear has no max_depth
            model.fit(frame[["b"]].to_numpy(), y)
    with pytest.raises(UntrustedFileError, match=message):
        save(model, tmp_path / "model")


@pytest.fixture
def packed(name, rows):
    """Return what a file of a fitted booster is made of: class, attributes and content."""
    model, frame = with_categories(name, rows[0])
    model.fit(frame, rows[1])
    path = f"{type(model).__module__}.{type(model).__qualname__}"
    packed = boosters.pack_booster(model, "model")
    assert packed is not None
    return path, boosters.booster_state(model, "model"), packed[1].decode()


def unpacked(packed, text):
    """Return the booster of another content."""
    path, state, _ = packed
    return boosters.unpack_booster(
        path, {k: dict(v) if isinstance(v, dict) else v for k, v in state.items()}, text, "f"
    )


def test_every_cut_and_changed_number_ends_in_our_error_or_a_model(packed):
    """Each number of the file in turn is replaced by one that leads out of its array, and the file is cut."""
    path, _, text = packed
    refused = 0
    numbers = list(re.finditer(r"(?<=[\[ ,=:])-?\d+(?=[,\] \n}])", text))
    for found in numbers[:: max(len(numbers) // 60, 1)]:
        for other in ("-7", "2147483647"):
            try:
                unpacked(packed, f"{text[: found.start()]}{other}{text[found.end() :]}".encode())
            except HoldfastError:
                refused += 1
    assert refused > 25
    for end in range(0, len(text) - 40, max(len(text) // 20, 1)):
        with pytest.raises((CorruptFileError, UntrustedFileError), match=r"^f "):
            unpacked(packed, text[:end].encode())
    with pytest.raises(CorruptFileError, match="f is not a model of"):
        unpacked(packed, b"\xff\xfe\x00")
    unpacked(packed, text.encode())


CHANGES = {
    "xgboost": [
        ("left_children", 0, 10**6, "numbers that are not between"),
        ("left_children", 0, 0, "branches lead outside"),
        ("right_children", 0, 1, "branches lead outside"),
        ("parents", 1, 5, "branches lead outside"),
        ("split_indices", 0, 4, "a column that is not there"),
        ("base_weights", 0, 1e39, "not finite"),
        ("split_conditions", slice(0, 1), [], "impossible size"),
        ("categories_sizes", slice(None), [9], "categories are out of range"),
        ("split_type", slice(None), [0], "impossible size|categories are out of range"),
    ],
    "catboost": [
        ("leaf_values", slice(0, 1), [], "impossible size"),
        ("leaf_values", 0, 1e300, "not finite"),
    ],
}


@pytest.mark.parametrize(
    ("name", "field", "place", "value", "message"),
    [(name, *change) for name, changes in CHANGES.items() for change in changes],
)
def test_numbers_that_compiled_code_follows_are_checked(name, field, place, value, message, rows):
    """One change at a time in the first tree, each refused for what it is."""
    pytest.importorskip(name)
    model, frame = with_categories(name, rows[0])
    text = boosters.pack_booster(model.fit(frame, rows[1]), "model")[1].decode()
    document = json.loads(text)
    if name == "xgboost":
        tree = next(t for t in document["learner"]["gradient_booster"]["model"]["trees"] if t["categories"])
    else:
        tree = document["oblivious_trees"][0]
    tree[field][place] = value
    with pytest.raises(UntrustedFileError, match=message):
        boosters.find_library(type(model)).check(json.dumps(document))


@pytest.mark.parametrize(
    ("pattern", "other", "message"),
    [
        (r"left_child=\d+", "left_child=900", "branches lead outside"),
        (r"split_feature=\d+", "split_feature=4", "a column not there"),
        (r"num_leaves=(\d+)", "num_leaves=99", "impossible size"),
        (r"cat_boundaries=0 \d+", "cat_boundaries=0 77", "categories are out of range"),
        (r"decision_type=\d+", "decision_type=12", "an unknown kind of branch"),
        (r"leaf_value=\S+", "leaf_value=nan", "not finite"),
        (r"max_feature_idx=\d+", "max_feature_idx=9", "not one for each column"),
        (r"num_tree_per_iteration=3", "num_tree_per_iteration=4", "rounds do not add up"),
        (r"(?s)\nTree=17\n.*?(?=\nend of trees)", "", "rounds do not add up"),
        (r"objective=\S+", "objective=x;y", "its objective is not one"),
        (
            r"max_feature_idx=3",
            "max_feature_idx=\uff13",
            "its max_feature_idx is not one",
        ),  # LightGBM reads 0
        (r"split_feature=(\d)", r"split_feature=0_\1", "numbers that are none"),  # Python's 1_0 is 10, LightGBM's is 1
        (r"leaf_value=\S+", "leaf_value=1_0.5", "numbers that are none"),
    ],
)
def test_lines_that_lightgbm_follows_are_checked(pattern, other, message, rows):
    """One change at a time; sizes of trees, by which the loader jumps, are written anew."""
    pytest.importorskip("lightgbm")
    model, frame = with_categories("lightgbm", rows[0])
    text = boosters.pack_booster(model.fit(frame, rows[1]), "model")[1].decode()
    start = text.index(re.search(r"Tree=\d+\nnum_leaves=\d+\nnum_cat=[1-9]", text)[0]) if "cat_" in pattern else 0
    changed = text[:start] + re.sub(pattern, other, text[start:], count=1)
    assert changed != text
    with pytest.raises(UntrustedFileError, match=message):
        boosters._check_lightgbm(changed)
    sizes = re.sub(r"tree_sizes=.*", "tree_sizes=999999999", text)
    assert boosters._check_lightgbm(sizes) == text


def test_indices_of_catboosts_features_are_checked(rows):
    """Splits, tables of categories and classes have to be there."""
    pytest.importorskip("catboost")
    model, frame = with_categories("catboost", rows[0])
    text = boosters.pack_booster(model.fit(frame, rows[1]), "model")[1].decode()

    def changed(change):
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    def deeper(document):
        tree = document["oblivious_trees"][0]
        tree.update(splits=tree["splits"][:1] * 17, leaf_values=[0.0] * (3 << 17), leaf_weights=[])

    def other_border(document):
        ctr = next(ctr for ctr in document["features_info"]["ctrs"] if ctr["ctr_type"] == "Borders")
        ctr["target_border_idx"] = document["ctr_data"][ctr["identifier"]]["hash_stride"] - 2

    changes = [
        ("numbers that are not between", lambda d: d["oblivious_trees"][0]["splits"][0].update(split_index=10**6)),
        ("a table that is not there", lambda d: d["ctr_data"].clear()),
        ("other classes", lambda d: d["model_info"]["class_params"].update(class_to_label=[0, 1, 2**31])),
        ("other classes", lambda d: d["model_info"]["class_params"].update(class_to_label=[0, 1])),
        ("a table of impossible size", lambda d: next(iter(d["ctr_data"].values()))["hash_map"].pop()),
        ("not between 0 and", lambda d: next(iter(d["ctr_data"].values())).update(counter_denominator=2**31)),
        ("impossible hashes", lambda d: next(iter(d["ctr_data"].values()))["hash_map"].__setitem__(0, f"{2**64 - 1}")),
        ("its columns do not add up", lambda d: d["features_info"]["float_features"][0].update(flat_feature_index=9)),
        ("an unknown nan_mode", lambda d: d["features_info"]["float_features"][0].update(nan_value_treatment="x")),
        ("numbers that are not finite", lambda d: d["scale_and_bias"].__setitem__(0, 1e300)),
        ("the loss 'x' is not saved", lambda d: d["model_info"]["params"]["loss_function"].update(type="x")),
        ("is not saved", lambda d: d["model_info"]["params"]["loss_function"].update(params={"alpha": 1})),
        ("a tree of impossible size", deeper),
        ("is not between 0 and", other_border),
    ]
    for message, change in changes:
        with pytest.raises(UntrustedFileError, match=message):
            boosters._check_catboost(changed(change))


@pytest.mark.parametrize("simple_ctr", [None, "BinarizedTargetMeanValue", "Buckets", "Counter"])
def test_catboosts_categories_come_back_whatever_their_hashes(simple_ctr):
    """CatBoost writes empty places of its tables as rows, which it would then read as a category."""
    pytest.importorskip("catboost")
    options = {} if simple_ctr is None else {"simple_ctr": simple_ctr}
    rng = np.random.default_rng(1)
    for n_levels in (3, 6, 11, 40):
        frame = pd.DataFrame({"level": rng.integers(0, n_levels, N).astype(str), "x": rng.normal(size=N)})
        y = (frame["level"].astype(int) % 3 + rng.integers(0, 2, N)) > 1
        model = made("catboost", cat_features=("level",), **options).fit(frame, y)
        text = boosters.pack_booster(model, "model")[1]
        state = boosters.booster_state(model, "model")
        copy = boosters.unpack_booster("catboost.core.CatBoostClassifier", state, text, "f")
        assert copy.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()
        assert boosters.pack_booster(copy, "model")[1] == text


GONE = object()
CANNOT_ANSWER = [("xgboost", {"verbosity": "x"}), ("lightgbm", {"num_leaves": 1}), ("lightgbm", {"max_depth": "deep"})]
CANNOT_ANSWER += [
    ("lightgbm", {"fitted_": False}),
    ("lightgbm", {"_n_features_in": 2}),
    ("lightgbm", {"_classes": None}),
    ("xgboost", {"n_classes_": GONE}),
]


@pytest.mark.parametrize(("name", "change"), CANNOT_ANSWER)
def test_a_model_that_cannot_answer_is_refused(name, change):
    """Parameters are read when a model is asked: one that the library refuses, no fit, other columns, no classes."""
    pytest.importorskip(name)
    model = made(name).fit(np.arange(60.0).reshape(60, 1), np.arange(60) > 20)
    path, state = f"{type(model).__module__}.{type(model).__name__}", boosters.booster_state(model, "model")
    content = boosters.pack_booster(model, "model")[1]
    assert boosters.unpack_booster(path, dict(state), content, "f").predict([[0.0], [50.0]]).tolist() == [False, True]
    with pytest.raises(CorruptFileError, match=f"^f is not a model of {type(model).__name__} that can be read"):
        boosters.unpack_booster(path, {k: v for k, v in (state | change).items() if v is not GONE}, content, "f")


def test_a_catboost_model_that_cannot_answer_is_refused():
    """Its loss is read when it is asked."""
    pytest.importorskip("catboost")
    model = made("catboost").fit(np.arange(60.0).reshape(60, 1), np.arange(60) > 20)
    document = json.loads(boosters.pack_booster(model, "model")[1])
    document["model_info"]["params"]["loss_function"]["$"] = {}
    state = boosters.booster_state(model, "model")
    with pytest.raises(CorruptFileError, match="^f is not a model of CatBoostClassifier that can be read"):
        boosters.unpack_booster("catboost.core.CatBoostClassifier", state, json.dumps(document).encode(), "f")


def test_a_name_that_stands_twice_and_numbers_without_end_are_refused():
    """Parsers differ in which of two they take, and in what they make of infinity."""
    with pytest.raises(UntrustedFileError, match="a name stands twice"):
        boosters._parse('{"a": 1, "a": 2}')
    with pytest.raises(UntrustedFileError, match="it holds NaN"):
        boosters._parse('{"a": NaN}')


def test_only_boosters_on_the_list_are_loaded():
    """A path in a file names one of six classes, or nothing is imported."""
    with pytest.raises(UntrustedFileError, match="asks for 'os.system', which is not a booster that may be loaded"):
        boosters.booster_class("os.system")


@pytest.mark.parametrize(("n_jobs", "kept"), [(0, 0), (64, None), (-1, None), ([], None), ("", None)])
def test_whatever_a_file_says_about_threads_is_not_obeyed(n_jobs, kept):
    """Only 0, which leaves it to this machine, comes back; a list in its place once broke the answers."""
    pytest.importorskip("lightgbm")
    model = made("lightgbm").fit(np.arange(60.0).reshape(60, 1), np.arange(60) > 20)
    state = boosters.booster_state(model, "model") | {"n_jobs": n_jobs}
    content = boosters.pack_booster(model, "model")[1]
    copy = boosters.unpack_booster("lightgbm.sklearn.LGBMClassifier", state, content, "f")
    assert copy.n_jobs is kept
    assert copy.predict([[0.0], [50.0]]).tolist() == [False, True]


def test_a_file_decides_neither_threads_nor_where_files_are_written(rows, tmp_path):
    """Threads of the machine that saved are forgotten, and CatBoost stays without its folder."""
    pytest.importorskip("catboost")
    pytest.importorskip("xgboost")
    frame, y = rows
    X = frame[["b"]].to_numpy()
    save(made("xgboost", n_jobs=64).fit(X, y), tmp_path / "a")
    assert load(tmp_path / "a").n_jobs is None
    model = made("catboost", thread_count=64).fit(X, y)
    model._init_params["allow_writing_files"] = True
    save(model, tmp_path / "b")
    assert load(tmp_path / "b").get_params() == made("catboost").get_params()
