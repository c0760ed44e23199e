"""scikit-learn's own checks, and its tools with environments routed."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from holdfast import (
    ERMClassifier,
    GroupDROClassifier,
    LeaveOneEnvironmentOut,
    PIClassifier,
    PIRegressor,
    StableClassifier,
    StableRegressor,
)
from holdfast.exceptions import EnvironmentsError
from holdfast.methods import BalancedClassifier, IRMClassifier, OracleClassifier, RGMClassifier, VRExClassifier
from holdfast.neural import NeuralClassifier

SMALL_NETWORK = Pipeline(
    [
        ("scale", StandardScaler()),
        ("network", NeuralClassifier("mlp", max_epochs=2, steps_per_epoch=25, learning_rate=0.05)),
    ]
)


class ToldOracle(OracleClassifier):
    """The oracle, told that the label itself is the attribute: the checks know of no attribute."""

    def fit(self, X, y, *, sample_weight=None):
        """Fit with the label as attribute."""
        return super().fit(X, y, attribute=y, sample_weight=sample_weight)


CHECKED = [
    PIClassifier(),
    PIClassifier(DecisionTreeClassifier(max_depth=4), reweight_rounds=3),
    ERMClassifier(),
    GroupDROClassifier(),
    GroupDROClassifier(DecisionTreeClassifier(max_depth=4), reweight_rounds=3),
    ToldOracle(),
    BalancedClassifier(),
    StableClassifier(),
    StableClassifier(DecisionTreeClassifier(max_depth=4)),
    PIRegressor(),
    StableRegressor(),
    IRMClassifier(SMALL_NETWORK),
    VRExClassifier(SMALL_NETWORK),
    RGMClassifier(SMALL_NETWORK),
]


REWEIGHTED = "risks are judged out of fold, and a repeated row need not be in the same fold as its copies"
BATCHES = "batches are drawn at random, and drawing a repeated row differs from drawing a weighted one"


def expected_failures(estimator):
    """Return the checks that an estimator need not pass, each with the reason."""
    reason = None
    if isinstance(estimator, GroupDROClassifier) and estimator.estimator is not None:
        reason = REWEIGHTED
    elif isinstance(estimator, IRMClassifier | VRExClassifier | RGMClassifier):
        reason = BATCHES
    if reason is not None:
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_estimator_checks(estimator, check):
    """Every check of scikit-learn passes."""
    check(estimator)


@pytest.fixture
def rows():
    """Three sites with a stable and an unstable column."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=900)
    sites = np.repeat(["a", "b", "c"], 300)
    agreement = np.repeat([0.95, 0.85, 0.75], 300)
    X = np.stack(
        [
            np.where(generator.random(900) < 0.8, y, 1 - y) + generator.normal(scale=0.1, size=900),
            np.where(generator.random(900) < agreement, y, 1 - y) + generator.normal(scale=0.1, size=900),
        ],
        axis=1,
    )
    return X, y, sites


BOTH = pytest.mark.parametrize("method", [PIClassifier, StableClassifier])


def in_a_pipeline(method):
    """Return a method behind a scaler."""
    return Pipeline([("scale", StandardScaler()), ("method", method(LogisticRegression()))])


@BOTH
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_pipeline_passes_environments_to_its_step(rows, method):
    """Without routing, step__environments reaches the method."""
    X, y, sites = rows
    pipeline = in_a_pipeline(method).fit(X, y, method__environments=sites)
    assert pipeline["method"].environments_.tolist() == ["a", "b", "c"]


@BOTH
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_grid_search_slices_environments(rows, method):
    """Without routing, GridSearchCV hands each fold its own rows' environments, through a pipeline too."""
    X, y, sites = rows
    order = np.random.default_rng(1).permutation(len(y))
    search = GridSearchCV(in_a_pipeline(method), {"method__estimator__C": [0.1, 1.0]}, cv=3)
    search.fit(X[order], y[order], method__environments=sites[order])
    assert len(search.best_estimator_["method"].environments_) == 3


@BOTH
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_routing_needs_no_request(rows, method):
    """With routing enabled environments reach the method through search, pipeline and splitter without settings."""
    X, y, sites = rows
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = in_a_pipeline(method)
        search = GridSearchCV(pipeline, {"method__estimator__C": [0.1, 1.0]}, cv=LeaveOneEnvironmentOut())
        search.fit(X, y, environments=sites)
        assert search.n_splits_ == 3
        scores = cross_validate(pipeline, X, y, params={"environments": sites}, cv=LeaveOneEnvironmentOut())
    assert len(scores["test_score"]) == 3


def test_leave_one_environment_out(rows):
    """Each environment is the test set once; environments may be given to the splitter."""
    X, y, sites = rows
    splitter = LeaveOneEnvironmentOut(sites)
    assert splitter.get_n_splits() == 3
    for (train, test), site in zip(splitter.split(X, y), ["a", "b", "c"], strict=True):
        assert set(sites[test]) == {site}
        assert site not in sites[train]
    assert len(cross_val_score(ERMClassifier(), X, y, cv=splitter)) == 3
    assert LeaveOneEnvironmentOut().get_n_splits(X, y, groups=sites) == 3


def test_leave_one_environment_out_needs_environments(rows):
    """Without labels, or with one only, the splitter says what to pass."""
    X, y, _ = rows
    with pytest.raises(EnvironmentsError, match="LeaveOneEnvironmentOut needs the environment of each row"):
        next(LeaveOneEnvironmentOut().split(X, y))
    with pytest.raises(EnvironmentsError, match="leaving one environment out needs at least two environments"):
        next(LeaveOneEnvironmentOut(np.zeros(len(y))).split(X, y))


@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_clone_keeps_parameters(estimator):
    """A clone has the same parameters and nothing learned."""
    copy = clone(estimator)
    assert str(copy.get_params()) == str(estimator.get_params())
    assert not hasattr(copy, "classes_")
