"""Classifiers of tables as ONNX files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

from holdfast.exceptions import MissingExtraError, ParameterError, SavedModelError
from holdfast.saving.onnx_files import read_arrays
from holdfast.tables import export
from holdfast.tables.classifier import TableClassifier

N = 400
GENERATOR = np.random.default_rng(0)
Y = GENERATOR.integers(2, size=N)
SITES = np.repeat(["A", "B"], N // 2)
TABLE = pd.DataFrame(
    {
        "age": GENERATOR.normal(size=N) + Y,
        "score": GENERATOR.normal(size=N) + np.where(SITES == "B", -1, 2) * Y,
        "ward": GENERATOR.choice(list("pqrs"), N, p=[0.5, 0.3, 0.19, 0.01]),
        "color": GENERATOR.choice(["red", "blue"], N),
        "site": SITES,
        "ill": np.where(Y == 1, "yes", "no"),
    }
)
TABLE.loc[::17, "age"] = np.nan
TABLE.loc[::19, "ward"] = None


def fitted(method="stable", estimator="logistic", **options):
    """Return a classifier of the table."""
    return TableClassifier(label="ill", environment="site", method=method, estimator=estimator, **options).fit(TABLE)


@pytest.mark.parametrize(
    ("method", "estimator"),
    [("stable", "logistic"), ("pi", "logistic"), ("pi", "forest"), ("erm", "boosting")],
)
def test_the_file_answers_the_same_also_about_other_rows(method, estimator, tmp_path):
    """Missing values, rare and unknown levels included: the file is asked about rows that it was not compared on."""
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    model = fitted(method, estimator)
    difference = export.export_onnx(model, tmp_path / "model.onnx", TABLE.drop(columns=["ill", "site"]))
    assert difference < (1e-12 if estimator == "logistic" else 1e-5)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    other = pd.DataFrame(
        {"age": [np.nan, 3.0], "score": [0.1, -2.0], "ward": ["s", "never seen"], "color": ["red", "blue"]}
    )
    inputs = {
        "numbers": other[["age", "score"]].to_numpy(float),
        "levels": other[["ward", "color"]].to_numpy(object),
    }
    labels, probabilities = session.run(None, inputs)
    assert probabilities == pytest.approx(model.predict_proba(other), abs=1e-5)
    assert labels.tolist() == model.predict(other).tolist()
    described = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert described == {"numbers": "age\nscore", "levels": "ward\ncolor"}


def test_a_column_of_levels_that_is_given_up_is_constant_in_the_file(tmp_path):
    """The ward means the opposite at the other site: the part without it answers the same in the file."""
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    follows = np.where((SITES == "B") ^ (GENERATOR.random(N) < 0.1), 1 - Y, Y)
    table = TABLE.assign(ward=np.array(["p", "q"])[follows], score=0.0)
    model = TableClassifier(label="ill", environment="site").fit(table)
    assert [finding.feature for finding in model.method_.verdict_.columns] == ["ward"]
    assert export.export_onnx(model, tmp_path / "model.onnx", table) < 1e-12


@pytest.mark.parametrize("booster", ["xgboost", "lightgbm", "catboost"])
def test_boosters_are_exported(booster, tmp_path):
    """Each of the three libraries, by its own converter."""
    pytest.importorskip(booster)
    pytest.importorskip("onnxmltools")
    numbers = TABLE[["age", "score", "site", "ill"]]
    model = TableClassifier(label="ill", environment="site", method="erm", estimator=booster).fit(numbers)
    assert export.export_onnx(model, tmp_path / "model.onnx", numbers) < 1e-4
    with pytest.raises(SavedModelError, match=r"levels as categories of its own \(ward, color\)"):
        export.export_onnx(fitted("erm", booster), tmp_path / "other.onnx", TABLE)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_networks_are_exported(tmp_path):
    """A network is converted by torch, inside the table's preprocessing."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    assert export.export_onnx(fitted("erm", "mlp"), tmp_path / "model.onnx", TABLE) < 1e-5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_networks_outside_of_tables_are_exported(tmp_path):
    """Images as they come, and tokens as a dict for a network with one output; other estimators are refused."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    from holdfast import ERMClassifier, PIClassifier
    from holdfast.neural import NeuralClassifier

    class Words(torch.nn.Module):
        """The mean vector of the words, then one output."""

        def __init__(self):
            super().__init__()
            self.words, self.last = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 1)

        def forward(self, input_ids, attention_mask):
            """Return one output."""
            mask = attention_mask.unsqueeze(-1)
            return self.last((self.words(input_ids) * mask).sum(1) / mask.sum(1))

    short = {"max_epochs": 1, "steps_per_epoch": 2, "random_state": 0}
    images = GENERATOR.integers(0, 256, (40, 1, 28, 28), dtype=np.uint8)
    model = PIClassifier(NeuralClassifier("cnn", **short), random_state=0).fit(
        images, Y[:40], environments=SITES[180:220]
    )
    assert export.export_onnx(model, tmp_path / "images.onnx", images) < 1e-5
    tokens = {"input_ids": GENERATOR.integers(0, 6, (40, 5)), "attention_mask": np.ones((40, 5), dtype=np.int64)}
    model = NeuralClassifier(Words, **short).fit(tokens, TABLE["ill"][:40])
    assert export.export_onnx(model, tmp_path / "tokens.onnx", tokens) < 1e-6
    session = runtime.InferenceSession(tmp_path / "tokens.onnx")
    other = {name: values[:3, :2] for name, values in tokens.items()}  # shorter sequences than it was compared on
    labels, probabilities = session.run(None, other)
    assert probabilities == pytest.approx(model.predict_proba(other), abs=1e-6)
    assert labels.tolist() == model.predict(other).tolist()
    np.savez(tmp_path / "rows.npz", **tokens)
    assert read_arrays(tmp_path / "rows.npz").keys() == tokens.keys()
    with pytest.raises(
        SavedModelError, match="Pipeline was not fitted on a table and is not a network, .* Fit it with TableClassifier"
    ):
        export.export_onnx(ERMClassifier().fit(images[:, 0, 0], Y[:40]), tmp_path / "x.onnx", images)
    with pytest.raises(ParameterError, match="cannot be read as arrays"):
        read_arrays(tmp_path / "images.onnx")


def test_a_file_that_answers_otherwise_is_not_kept(tmp_path, monkeypatch):
    """The comparison is what decides: a converter that gets a weight wrong leaves no file."""
    skl2onnx = pytest.importorskip("skl2onnx")
    right = skl2onnx.convert_sklearn

    def wrong(pipeline, **options):
        pipeline.steps[-1][1].coef_ = pipeline.steps[-1][1].coef_ * 1.01
        return right(pipeline, **options)

    model = fitted("pi")
    expected = model.predict_proba(TABLE)
    monkeypatch.setattr(skl2onnx, "convert_sklearn", wrong)
    coefficients = model.method_.estimator_.coef_
    monkeypatch.setattr(model, "predict_proba", lambda rows: expected)
    with pytest.raises(SavedModelError, match=r"differ from those of the classifier: \d+ of 400 labels"):
        export.export_onnx(model, tmp_path / "model.onnx", TABLE)
    assert not (tmp_path / "model.onnx").exists()
    model.method_.estimator_.coef_ = coefficients


def test_what_cannot_be_exported_says_why(tmp_path, monkeypatch):
    """Texts, estimators without a converter and a missing package are refused in plain words."""
    pytest.importorskip("skl2onnx")
    texts = TABLE.assign(note=GENERATOR.choice(["good day", "bad day", "no day"], N))
    model = TableClassifier(label="ill", environment="site", method="erm", text="note").fit(texts)
    with pytest.raises(ParameterError, match=r"reads columns of text \(note\), which cannot be exported to ONNX"):
        export.export_onnx(model, tmp_path / "model.onnx", texts)

    class Neighbors(KNeighborsClassifier):
        """A class that no converter knows."""

    model = fitted("erm", Neighbors())
    with pytest.raises(SavedModelError, match="Neighbors cannot be converted to ONNX"):
        export.export_onnx(model, tmp_path / "model.onnx", TABLE)
    with pytest.raises(SavedModelError, match="LinearSVC gives no probabilities, and cannot be exported to ONNX"):
        export.export_onnx(fitted("erm", "linear_svm"), tmp_path / "model.onnx", TABLE)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install -c constraints.txt '.\[onnx\]' in a clone of holdfast"):
        export.export_onnx(fitted(), tmp_path / "model.onnx", TABLE)
    assert not list(tmp_path.iterdir())
