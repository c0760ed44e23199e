"""Bridges to experiment trackers."""

import sys

import numpy as np
import pandas as pd
import pytest

from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import MissingExtraError
from holdfast.neural.estimator import NeuralClassifier
from holdfast.saving import load
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.regression import TableRegressor
from holdfast.trackers import MLflowTracker, Tracker, WandbTracker

N = 300
GENERATOR = np.random.default_rng(0)
Y = GENERATOR.integers(2, size=N)
SITES = np.repeat(["A (new)", "B"], N // 2)
X = GENERATOR.normal(size=(N, 2))
X[:, 0] += Y
X[:, 1] += np.where(SITES == "B", -1, 2) * Y
TABLE = pd.DataFrame(X, columns=["age", "score"]).assign(site=SITES, ill=Y)


class Kept(Tracker):
    """Keeps everything that it is handed."""

    def __init__(self):
        self.parameters, self.metrics, self.files, self.loaded = {}, [], [], None

    def write_parameters(self, values):
        """Keep settings."""
        self.parameters |= values

    def write_metrics(self, values, step=None):
        """Keep numbers."""
        self.metrics.append((step, dict(values)))

    def write_file(self, path):
        """Keep the beginning of a file."""
        self.files.append((path.name, path.read_text(encoding="utf-8")[:15]))

    def write_model(self, folder):
        """Load the model."""
        self.loaded = load(folder)


def test_a_fit_on_a_table_is_logged_whole():
    """Settings, price and gain, scores by site, the report and a model that answers the same."""
    model = TableClassifier(label="ill", environment="site").fit(TABLE)
    with Kept() as kept:
        kept.log_fit(model, test=TABLE)
    ((step, metrics),) = kept.metrics
    assert step is None
    verdict = model.verdict_
    assert metrics["price"] == verdict.price.value
    assert metrics["gain_if_reversed"] == verdict.gain[1]
    assert metrics["accuracy/A (new)"] == pytest.approx(model.evaluate(TABLE).environments[0].accuracy.value)
    assert {"auroc/B", "accuracy/all rows", "accuracy_out_of_fold/B", "brier/B"} <= set(metrics)
    assert kept.parameters["class"] == "StableClassifier"
    assert kept.parameters["label"] == "ill"
    assert kept.files == [("report.html", "<!DOCTYPE html>")]
    assert kept.loaded is not None


def test_a_regressor_of_a_table_is_logged_whole():
    """R² and RMSE by site, the verdict in R², and a model that is loaded again."""
    table = TABLE.assign(ill=3.0 * TABLE["age"] + GENERATOR.normal(size=N))
    model = TableRegressor(label="ill", environment="site").fit(table)
    with Kept() as kept:
        kept.log_fit(model, test=table)
    ((_, metrics),) = kept.metrics
    assert metrics["r2/all rows"] == pytest.approx(model.score(table))
    assert {"rmse/B", "r2/A (new)", "r2_out_of_fold/B", "price"} <= set(metrics)
    assert kept.parameters["class"] == "StableRegressor"
    np.testing.assert_array_equal(kept.loaded.predict(model.roles_.features(table)), model.predict(table))


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_networks_send_their_epochs_by_stage():
    """As a callback a tracker gets every epoch of every judge and of stage 3; rows stand in for a table."""
    kept = Kept()
    network = NeuralClassifier(max_epochs=2, steps_per_epoch=3, callbacks=[kept], random_state=0)
    model = PIClassifier(network, random_state=0).fit(X, Y, environments=SITES)
    assert [step for step, _ in kept.metrics] == [1, 2] * 3
    assert "stage 1: B/risk" in kept.metrics[2][1]
    assert any(name.startswith("stage 3/group_risks/") for name in kept.metrics[-1][1])
    kept.log_fit(model, test=(X, Y, SITES), report=False, save=False)
    assert kept.metrics[-1][1]["accuracy/B"] == pytest.approx((model.predict(X) == Y)[SITES == "B"].mean())
    assert kept.parameters["method.estimator"] == "NeuralClassifier"
    assert kept.files == []


@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # MLflow warns of itself when it is imported
def test_mlflow_keeps_it_and_loads_the_model_without_pickle(tmp_path, monkeypatch):
    """The real client writes to a folder; the pyfunc model has no pickle in it and answers the same."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    model = TableClassifier(label="ill", environment="site").fit(TABLE)
    with MLflowTracker("wards", run_name="first", tracking_uri=f"file:{tmp_path}") as tracker:
        tracker.log_fit(model, test=TABLE)
        tracker.write_metrics({"stage 1: A (new)/risk": 0.5}, 3)
    run = mlflow.get_run(tracker.run_id)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params["method.caution"] == "0.75"
    assert run.data.metrics["accuracy/A _new_"] == pytest.approx(model.evaluate(TABLE).environments[0].accuracy.value)
    assert run.data.metrics["stage 1: A _new_/risk"] == 0.5
    assert [file.path for file in mlflow.artifacts.list_artifacts(run_id=tracker.run_id)] == ["report.html"]
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not any(name.endswith((".pkl", ".cloudpickle", ".joblib")) for name in names)
    loaded = mlflow.pyfunc.load_model(f"runs:/{tracker.run_id}/model")
    assert loaded.predict(TABLE).tolist() == model.predict(TABLE).tolist()
    assert loaded.get_raw_model().predict_proba(TABLE).tolist() == model.predict_proba(TABLE).tolist()
    with mlflow.start_run() as active:
        with MLflowTracker() as inner:
            assert inner.run_id == active.info.run_id
        assert mlflow.active_run() is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of wandb's own parts
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_weights_and_biases_gets_the_same(monkeypatch, tmp_path):
    """The real package without its service: config, numbers, epochs of a network, and two artifacts."""
    pytest.importorskip("wandb")
    for name in ("DIR", "DATA_DIR", "CACHE_DIR", "CONFIG_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    model = TableClassifier(label="ill", environment="site").fit(TABLE)
    with WandbTracker(project="wards") as tracker:
        tracker.log_fit(model, test=TABLE)
        network = NeuralClassifier(max_epochs=2, steps_per_epoch=3, callbacks=[tracker], random_state=0)
        PIClassifier(network, random_state=0).fit(X, Y, environments=SITES)
        run = tracker._run
        assert (run.project, run.config["class"]) == ("wards", "StableClassifier")
        assert run.summary["price"] == model.verdict_.price.value
        assert {"stage 3/worst_group_risk", "accuracy/A (new)"} <= dict(run.summary).keys()
        assert run.summary["epoch"] == 2
    assert list(tmp_path.rglob("offline-run-*/*.wandb"))
    starts = [path.read_bytes()[:15] for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]
    assert starts.count(b"<!DOCTYPE html>") == 1
    assert len(starts) > 2  # the files of the model


@pytest.mark.parametrize(("tracker", "module"), [(MLflowTracker, "mlflow"), (WandbTracker, "wandb")])
def test_a_missing_package_is_said(tracker, module, monkeypatch):
    """The error names the package and the command that installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"need {module}, which is not installed. Run pip install"):
        tracker()
