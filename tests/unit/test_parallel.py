"""Independent fits give the same result wherever they run, and what they share is sent once."""

import importlib.util

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from holdfast import PIClassifier, StableClassifier
from holdfast.exceptions import MissingExtraError, ParameterError
from holdfast.parallel import on_cluster, run_each, sharing
from holdfast.tables.comparison import compare_methods

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")
needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs the extra dask")
CLUSTERS = [
    "local:2",
    pytest.param("ray", marks=[pytest.mark.slow, needs_ray]),
    pytest.param("dask", marks=[pytest.mark.slow, needs_dask]),
]
quiet = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray and Dask
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytestmark = quiet


class Counted:
    """Large rows that count how often they are pickled in this process."""

    n_pickled = 0

    def __init__(self, values):
        self.values = values

    def __reduce__(self):
        Counted.n_pickled += 1
        return Counted, (self.values,)


def total(shared, factor):
    """Return a sum over the shared rows."""
    return float(shared.values.sum() * factor)


def refuse(shared):
    """Raise an error of ours."""
    raise ParameterError("no such thing")


@pytest.fixture
def rows():
    """Return rows, labels and environments, one column of which changes its meaning."""
    generator = np.random.default_rng(0)
    codes = np.arange(600) % 3
    y = generator.integers(2, size=600)
    stable = y + generator.normal(size=600)
    unstable = np.where(generator.random(600) < np.array([0.95, 0.85, 0.6])[codes], y, 1 - y)
    X = np.column_stack([stable, unstable, generator.normal(size=(600, 3))])
    return X, y, codes


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_are_the_same_in_threads_and_processes(rows, backend):
    """Every bit of the verdict and of the classifier is that of one process."""
    X, y, environments = rows
    alone = StableClassifier(expect="as_seen").fit(X, y, environments=environments)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        together = StableClassifier(expect="as_seen").fit(X, y, environments=environments)
    assert together.verdict_.to_dict() == alone.verdict_.to_dict()
    np.testing.assert_array_equal(together.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_fits_are_the_same_on_a_cluster(rows, cluster):
    """Judges, folds, reweighting and a comparison give the same numbers to the last bit."""
    X, y, environments = rows
    forest = RandomForestClassifier(5, max_depth=4, n_jobs=1)  # threads add up trees in any order

    def fit():
        stable = StableClassifier(random_state=0).fit(X, y, environments=environments)
        pi = PIClassifier(forest, random_state=0, reweight_rounds=2).fit(X, y, environments=environments)
        compared = compare_methods(X, y, environments, methods=["stable", "pi"])
        return stable.predict_proba(X), pi.predict_proba(X), compared.to_frame().to_dict("list")

    alone = fit()
    with on_cluster(cluster):
        together = fit()
    for expected, found in zip(alone[:2], together[:2], strict=True):
        np.testing.assert_array_equal(found, expected)
    assert together[2] == alone[2]


@pytest.mark.parametrize("cluster", CLUSTERS[1:])
def test_what_fits_share_is_sent_once(cluster):
    """On a cluster, large rows are put into the object store, or scattered, and not sent with each task."""
    shared = Counted(np.ones(200_000))
    with on_cluster(cluster), sharing(shared) as run:
        Counted.n_pickled = 0 if run.shared.reference is None else 1
        found = [run(total, [(factor,) for factor in range(8)]) for _ in range(2)]
    assert found == [[200_000.0 * factor for factor in range(8)]] * 2
    assert Counted.n_pickled <= 1


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_errors_of_fits_are_ours(cluster):
    """What a fit refuses far away is refused here in the same words."""
    with on_cluster(cluster), pytest.raises(ParameterError, match="no such thing"):
        run_each(refuse, 1, [(), ()])


@pytest.mark.parametrize("name", ["loca:2", "local:", "local:0", "http://x", ""])
def test_unknown_clusters_are_refused(name):
    """A cluster that nobody knows is named, with those that can be chosen."""
    with pytest.raises(ParameterError, match=r"There is no cluster .*Choose from local:N, ray"), on_cluster(name):
        pass


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_clusters_need_their_extra(monkeypatch, name, package):
    """Without the package one sentence says how to get it."""
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"need {package}, .*holdfast\[{name}\]"), on_cluster(name):
        pass
