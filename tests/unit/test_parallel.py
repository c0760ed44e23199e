"""Independent fits give the same result wherever they run, and what they share is sent once."""

import contextlib
import importlib
import sys

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.ensemble import RandomForestClassifier

from holdfast import PIClassifier, StableClassifier
from holdfast.exceptions import MissingExtraError, ParameterError
from holdfast.parallel import on_cluster, run_each, sharing
from holdfast.tables.comparison import compare_methods

CLUSTERS = ["local:2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ray", "dask"))]
quiet = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray and Dask
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytestmark = quiet
for pickles in ("joblib.externals.cloudpickle", "ray.cloudpickle", "cloudpickle"):
    with contextlib.suppress(ImportError):  # workers of joblib and Ray cannot import this module
        importlib.import_module(pickles).register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request):
    """Return where fits run: processes, Ray, Dask; each is started once."""
    if request.param == "ray":
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield "ray"
        ray.shutdown()
    elif request.param == "dask":
        distributed = pytest.importorskip("distributed")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [*sys.path, str(request.config.rootpath)])  # that of the workers, too
            with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as started:
                yield started.scheduler_address
    else:
        yield request.param


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


def setting(name):
    """Return a setting of scikit-learn."""
    return sklearn.get_config()[name]


def refuse(shared):
    """Raise an error of ours."""
    raise ParameterError("no such thing")


@pytest.fixture
def rows():
    """Return rows, labels and environments, one column of which has an effect that differs between them."""
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
    alone = StableClassifier().fit(X, y, environments=environments)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        together = StableClassifier().fit(X, y, environments=environments)
    assert together.verdict_.to_dict() == alone.verdict_.to_dict()
    np.testing.assert_array_equal(together.predict_proba(X), alone.predict_proba(X))


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


def test_what_fits_share_is_sent_once(cluster):
    """On a cluster, large rows go into the object store, or to each worker, once, and not with each task."""
    if cluster == "local:2":
        pytest.skip("processes of one machine map large arrays from one file")
    Counted.n_pickled = 0
    with on_cluster(cluster), sharing(Counted(np.ones(200_000))) as run:
        found = [run(total, [(factor,) for factor in range(8)]) for _ in range(2)]
    assert found == [[200_000.0 * factor for factor in range(8)]] * 2
    assert Counted.n_pickled <= (1 if cluster == "ray" else 2)  # Dask has two workers


def test_settings_of_scikit_learn_hold_there(cluster):
    """What `sklearn.config_context` says here holds for fits elsewhere."""
    with on_cluster(cluster), sklearn.config_context(assume_finite=True):
        assert run_each(setting, "assume_finite", [(), ()]) == [True, True]


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
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"need {package}, .*'\.\[{name}\]'"), on_cluster(name):
        pass
