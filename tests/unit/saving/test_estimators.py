import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast
from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier
from holdfast.neural import NeuralClassifier
from holdfast.saving.codec import saved_name
from holdfast.saving.models import load, save

# Tiny halves, collapsed networks and the like are results here.
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

RNG = np.random.default_rng(0)
NETWORK = NeuralClassifier(max_epochs=2, steps_per_epoch=3, batch_size=8, random_state=0)


def same_answers(model, copy, rows):
    """Return whether labels and probabilities agree to the last bit."""
    labels = model.predict(rows).tolist() == copy.predict(rows).tolist()
    return labels and model.predict_proba(rows).tobytes() == copy.predict_proba(rows).tobytes()


@pytest.mark.parametrize(
    "model",
    [
        PIClassifier(),
        PIClassifier(halves="soft"),
        PIClassifier(HistGradientBoostingClassifier(max_iter=3), reweight_rounds=2),
        PIClassifier(RandomForestClassifier(3), reweight_rounds=2, random_state=0),
        PIClassifier(NETWORK),
        ERMClassifier(),
        GroupDROClassifier(),
    ],
    ids=["linear", "soft", "boosting", "forest", "network", "erm", "group dro"],
)
def test_stable_classifiers_come_back(model, tiny_environments, tmp_path):
    """Answers, partitions, groups, risks and histories of a saved classifier are those that it had."""
    X, y, environments = tiny_environments
    model.fit(X, np.array(["no", "yes"], dtype=object)[y], environments=environments)
    save(model, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert same_answers(model, copy, X)
    assert set(vars(copy)) == set(vars(model))
    if hasattr(model, "partitions_"):
        assert [p.correct.tolist() for p in copy.partitions_] == [p.correct.tolist() for p in model.partitions_]
        assert copy.accuracies_.tobytes() == model.accuracies_.tobytes()
        assert list(copy.environment_classifiers_) == list(model.environment_classifiers_)
    assert repr(getattr(copy, "history_", None)) == repr(getattr(model, "history_", None))
    save(copy, tmp_path / "again")
    for path in (tmp_path / "model").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 7]),
        np.array([False, True]),
        np.array([-1.0, 2.0]),
        np.array(["nein", "ja"]),
        np.array(["nein", "ja"], dtype=object),
        np.array(["2024-01-01", "2024-06-30"], dtype="datetime64[D]"),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_every_type_come_back(labels, tiny_environments, tmp_path):
    """Predicted labels have the type that they had."""
    X, y, environments = tiny_environments
    model = PIClassifier(random_state=0).fit(X, labels[y], environments=environments)
    save(model, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert copy.classes_.dtype == model.classes_.dtype
    assert copy.predict(X).tolist() == model.predict(X).tolist()
    assert same_answers(model, copy, X)


def test_a_convolutional_network_comes_back(tmp_path):
    """Images through a network whose weights lie in another order in memory give the same bits."""
    images = RNG.normal(size=(40, 3, 14, 14)).astype(np.float32)
    model = NeuralClassifier("cnn", max_epochs=1, steps_per_epoch=2, batch_size=8, random_state=0)
    model.fit(images, np.arange(40) % 2)
    save(model, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert same_answers(model, copy, images)
    layouts = [[tensor.stride() for tensor in m.network_.state_dict().values()] for m in (model, copy)]
    assert layouts[0] == layouts[1]


def test_a_pipeline_with_pi_inside_comes_back(tiny_environments, tmp_path):
    """The usual way to use PI on a table can be saved as it is."""
    X, y, environments = tiny_environments
    model = make_pipeline(StandardScaler(), PIClassifier()).fit(X, y, piclassifier__environments=environments)
    save(model, tmp_path / "model")
    assert same_answers(model, load(tmp_path / "model"), X)


def test_every_public_estimator_can_be_saved():
    """A new estimator is not forgotten in the list of classes that may be loaded."""
    public = [getattr(holdfast, name) for name in holdfast.__all__]
    estimators = [value for value in public if isinstance(value, type) and hasattr(value, "fit")]
    assert len(estimators) >= 4
    assert [cls.__name__ for cls in estimators if saved_name(cls) is None] == []


def test_a_tweedie_regression_and_a_tuned_threshold_come_back(tmp_path):
    """Both were on the list of estimators, and refused when they were saved."""
    from sklearn.linear_model import LogisticRegression, TweedieRegressor
    from sklearn.model_selection import TunedThresholdClassifierCV

    X = RNG.normal(size=(60, 2))
    for number, (model, y) in enumerate(
        [
            (TweedieRegressor(power=1.5, link="log"), np.exp(X[:, 0])),
            (TweedieRegressor(power=1.5, link="identity"), 5 + np.tanh(X[:, 0])),
            (TunedThresholdClassifierCV(LogisticRegression(), cv=2, random_state=0), X[:, 0] > 0),
        ]
    ):
        save(model.fit(X, y), tmp_path / str(number))
        assert load(tmp_path / str(number)).predict(X).tolist() == model.predict(X).tolist()


def test_parts_of_scikit_learn_come_back(tmp_path):
    """Searches with their scores, isotonic curves, sparse matrices and functions are saved as they are."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import GradientBoostingRegressor, StackingClassifier
    from sklearn.feature_selection import SelectKBest, mutual_info_classif
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.random_projection import SparseRandomProjection
    from sklearn.svm import SVC

    X = np.abs(RNG.normal(size=(80, 4)))
    y = (X[:, 0] + 0.3 * RNG.normal(size=80) > 0.7).astype(int)
    search = GridSearchCV(RandomForestClassifier(3, random_state=0), {"max_depth": [1, None]}, cv=2)
    models = [
        search,
        GridSearchCV(ERMClassifier(), {"random_state": [0, 1]}, cv=2),
        CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
        make_pipeline(FunctionTransformer(np.log1p), SelectKBest(mutual_info_classif, k=2), SVC(class_weight={0: 2})),
        make_pipeline(SparseRandomProjection(3, random_state=0), LogisticRegression()),
        StackingClassifier([("a", LogisticRegression()), ("b", RandomForestClassifier(2, random_state=0))], cv=2),
        GradientBoostingRegressor(loss="huber", n_estimators=3),
    ]
    for number, model in enumerate(models):
        save(model.fit(X, y), tmp_path / str(number))
        copy = load(tmp_path / str(number))
        assert copy.predict(X).tobytes() == model.predict(X).tobytes()
        assert set(vars(copy)) == set(vars(model))
    found = load(tmp_path / "0").cv_results_
    assert found["param_max_depth"].tolist() == [1, None]
    assert found["param_max_depth"].mask.tolist() == [False, False]
    assert found["mean_test_score"].tolist() == search.cv_results_["mean_test_score"].tolist()
