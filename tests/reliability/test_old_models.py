"""Models that version 0.1 saved (see `old_models/make_models.py`) load and answer the same, or say what to do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast import PIClassifier, TableClassifier, load_model, save_model
from holdfast.exceptions import SavedModelError

FOLDER = Path(__file__).parent / "old_models"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
LOADED = [
    *("balanced", "erm", "group_dro", "irm", "network", "oracle", "pi_network", "pi_regressor", "pi_soft_worst_case"),
    *("pi_tree", "pi_worst_case", "pipeline", "scikit_learn"),
]
REFUSED = {
    "extrapolation": "with ExtrapolationClassifier, which does not exist any more. Fit again with StableClassifier",
    "pi_default": "worst case only now. Fit again with StableClassifier",
    "pi_invariant": r"PIClassifier\(interpolation='invariant'\).*worst case only now. Fit again with StableClassifier",
    "table_default": "worst case only now. Fit again with StableClassifier",
    "unfitted": "worst case only now. Fit again with StableClassifier",
}

# Another scikit-learn than the one that made the files may be installed.
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.MismatchWarning")


def first_rows():
    """Return the rows that were answered when the models were made."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    environments = np.repeat(["a", "b", "c"], 40)
    agreement = np.select([environments == "a", environments == "b"], [0.9, 0.75], 0.6)
    turning = np.where(rng.random(120) < agreement, y, 1 - y)
    return np.column_stack([y + rng.normal(size=120), turning + 0.1 * rng.normal(size=120)])[:20]


def unpacked(name, tmp_path):
    """Return the folder of a model."""
    shutil.unpack_archive(FOLDER / f"{name}.zip", tmp_path / name)
    return tmp_path / name


def test_every_model_is_looked_at():
    """No file is forgotten, and none is large."""
    files = {path.stem: path.stat().st_size for path in FOLDER.glob("*.zip")}
    assert set(files) == {*LOADED, *REFUSED, "table_worst_case"}
    assert max(files.values()) < 20_000


@pytest.mark.parametrize("name", LOADED)
def test_models_of_version_0_1_answer_the_same(name, tmp_path):
    """They load, answer as they did, and can be saved again."""
    model = load_model(unpacked(name, tmp_path))
    for copy in (model, load_again(model, tmp_path)):
        rows = first_rows()
        answers = copy.predict(rows) if name == "pi_regressor" else copy.predict_proba(rows)[:, 1]
        np.testing.assert_allclose(answers, ANSWERS[name], rtol=1e-6)  # of another processor, the last bits


def load_again(model, tmp_path):
    """Save a model in today's form, and load it."""
    save_model(model, tmp_path / "again")
    return load_model(tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "halves"), [("pi_worst_case", "hard"), ("pi_soft_worst_case", "soft"), ("pi_network", "hard")]
)
def test_a_worst_case_classifier_has_todays_parameters(name, halves, tmp_path):
    """The parameter that is gone is dropped, and the halves are those that were used."""
    model = load_model(unpacked(name, tmp_path))
    assert model.get_params(deep=False).keys() == PIClassifier().get_params(deep=False).keys()
    assert not {"interpolation", "interpolation_", "halves_"} & set(vars(model))
    assert model.halves == halves


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_mean_something_else_now_are_refused(name, tmp_path):
    """The message says what the model was, and what to fit instead."""
    with pytest.raises(SavedModelError, match=REFUSED[name]):
        load_model(unpacked(name, tmp_path))


def test_a_fitted_table_of_version_0_1_answers_the_same(tmp_path):
    """What 'holdfast fit' saved is read by today's 'holdfast predict'."""
    rows = first_rows()
    frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1].round()})
    fitted = TableClassifier.load(unpacked("table_worst_case", tmp_path))
    np.testing.assert_allclose(fitted.predict_proba(frame)[:, 1], ANSWERS["table_worst_case"], rtol=1e-6)
