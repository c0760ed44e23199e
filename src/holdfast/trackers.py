"""Log fits to experiment trackers: MLflow and Weights & Biases.

A tracker is also a callback of networks: with ``callbacks=[tracker]`` it gets the scores of every epoch. The packages
are optional; the extra `tracking` has MLflow's client. For TensorBoard see
`holdfast.neural.monitors.TensorBoardMonitor`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from holdfast import __version__
from holdfast.environments import label_array
from holdfast.exceptions import EnvironmentsError
from holdfast.extras import require
from holdfast.reports import estimator_page, write_report
from holdfast.saving import load, read_manifest
from holdfast.saving import save as save_estimator
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.model import TableModel
from holdfast.tables.regression import TableRegressor, load_model

__all__ = ["MLflowTracker", "Tracker", "WandbTracker"]


class Tracker:
    """Base of the trackers: what is logged. Subclasses say where it goes; use them as ``with`` blocks."""

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        """Write settings of a fit."""
        raise NotImplementedError

    def write_metrics(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers; `step` is the epoch of a network."""
        raise NotImplementedError

    def write_file(self, path: Path) -> None:
        """Write a file, such as the report."""
        raise NotImplementedError

    def write_model(self, folder: Path) -> None:
        """Write a model that `save` saved."""
        raise NotImplementedError

    def close(self) -> None:
        """End the run."""

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Log the scores of a network's epoch, by stage: the hook of `NeuralClassifier(callbacks=[tracker])`."""
        scores = net.history_[-1]
        numbers = {name: value for name, value in scores.items() if isinstance(value, float)}
        groups = {f"group_risks/{name}": value for name, value in scores.get("group_risks", {}).items()}
        self.write_metrics({f"{net.stage_}/{name}": v for name, v in (numbers | groups).items()}, scores["epoch"])

    def log_fit(self, model: Any, test: Any = None, *, report: bool = True, save: bool = True) -> None:
        """Log a fitted model: parameters, price and gain, scores by site, the report, and the model itself.

        Parameters
        ----------
        model : TableClassifier, TableRegressor, or another fitted estimator
        test : table or (X, y, environments), optional
            Labeled rows to score it on: a file or frame for a model of a table, rows for all others.
        report : bool
            Whether to write the HTML report, for estimators with environments.
        save : bool
            Whether to write the saved model.
        """
        method = model.pipeline_[-1] if isinstance(model, TableModel) else model
        self.write_parameters(_parameters(model, method))
        metrics = _found(method)
        if test is not None:
            metrics |= _by_site(model, test)
        self.write_metrics(metrics)
        with tempfile.TemporaryDirectory() as folder:
            if report and hasattr(method, "environments_"):
                write_report(estimator_page(method), Path(folder) / "report.html")
                self.write_file(Path(folder) / "report.html")
            if save:
                write = model.save if isinstance(model, TableModel) else partial(save_estimator, model)
                write(Path(folder) / "model")
                self.write_model(Path(folder) / "model")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _parameters(model: Any, method: Any) -> dict[str, Any]:
    """Return the settings that are plain values, with the class of each estimator."""
    given = {**model.names, "label": model.label, "environment": model.environment} if model is not method else {}
    values = {"class": type(method).__name__, "holdfast": __version__, **given}
    for name, value in method.get_params(deep=True).items():
        if value is None or isinstance(value, bool | int | float | str):
            values[f"method.{name}"] = value
        elif isinstance(value, BaseEstimator):
            values[f"method.{name}"] = type(value).__name__
    return values


def _found(method: Any) -> dict[str, float]:
    """Return what a fit found: of a verdict price, gain and forecast; of a min–max the worst case."""
    verdict = getattr(method, "verdict_", None)
    names = ("worst_case_risk_", "gap_", "validation_score_")
    found = {name.strip("_"): float(getattr(method, name)) for name in names if hasattr(method, name)}
    if verdict is not None:
        found |= {"price": verdict.price.value, "gain_if_vanished": verdict.gain[0]}
        found |= {"gain_if_reversed": verdict.gain[1], "forecast": verdict.forecast.value}
        measure = {"R²": "r2"}.get(verdict.measure, verdict.measure)
        found |= {f"{measure}_out_of_fold/{site}": both.fitted for site, both in verdict.by_environment.items()}
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _by_site(model: Any, test: Any) -> dict[str, float]:
    """Return scores on labeled rows, by site."""
    if isinstance(model, TableClassifier):
        evaluation = model.evaluate(test)
        rows = [evaluation.overall, *evaluation.environments]
        scores = ("auroc", "log_loss", "brier", "calibration_error")
        found = {f"accuracy/{row.name}": row.accuracy.value for row in rows}
        found |= {f"{score}/{row.name}": getattr(row, score) for score in scores for row in rows}
        return {name: float(value) for name, value in found.items() if np.isfinite(value)}
    if isinstance(model, TableRegressor):
        scored = model.evaluate(test)
        pairs = [(site, name) for site in scored.report.sites for name in ("r2", "rmse")]
        by_site = {f"{name}/{site.name}": float(getattr(site, name).value) for site, name in pairs}
        return {"r2/all rows": scored.r2, "rmse/all rows": scored.rmse} | by_site
    X, y, environments = test
    right = np.asarray(model.predict(X)) == np.asarray(y)
    what: dict[str, Any] = {"what": "test's environments", "error": EnvironmentsError, "example": "frame['site']"}
    sites = label_array(environments, len(right), **what)
    return {"accuracy/all rows": float(right.mean())} | {
        f"accuracy/{site}": float(right[sites == site].mean()) for site in np.unique(sites)
    }


class MLflowTracker(Tracker):
    """Log to MLflow. The model is a pyfunc model that `mlflow.pyfunc.load_model` reads without pickle.

    Parameters
    ----------
    experiment, run_name, tracking_uri : str, optional
        As for MLflow; None: MLflow's own defaults. A run that is active already is used.
    """

    def __init__(
        self, experiment: str | None = None, *, run_name: str | None = None, tracking_uri: str | None = None
    ) -> None:
        self._mlflow = require("mlflow", extra="tracking", what="Runs of MLflow")
        if tracking_uri is not None:
            self._mlflow.set_tracking_uri(tracking_uri)
        if experiment is not None:
            self._mlflow.set_experiment(experiment)
        active = self._mlflow.active_run()
        self._own = active is None
        self.run_id: str = (active or self._mlflow.start_run(run_name=run_name)).info.run_id

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        """Write settings of a fit."""
        self._mlflow.log_params({_name(name): str(value)[:500] for name, value in values.items()}, run_id=self.run_id)

    def write_metrics(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers."""
        self._mlflow.log_metrics({_name(name): v for name, v in values.items()}, step=step, run_id=self.run_id)

    def write_file(self, path: Path) -> None:
        """Write a file as an artifact."""
        self._mlflow.log_artifact(str(path), run_id=self.run_id)

    def write_model(self, folder: Path) -> None:
        """Write a saved model as the pyfunc model `model`."""
        require("mlflow.pyfunc", extra="tracking", what="Models of MLflow").log_model(
            name="model",
            loader_module="holdfast.trackers",
            data_path=str(folder),
            pip_requirements=[f"holdfast=={__version__}"],
        )

    def close(self) -> None:
        """End the run, unless it was active before."""
        if self._own:
            self._mlflow.end_run()


def _name(name: str) -> str:
    """Return a name with the characters that MLflow takes."""
    return re.sub(r"[^\w\-. /:]", "_", name, flags=re.ASCII)


class _PyfuncModel:
    """What `mlflow.pyfunc` calls: labels of the rows of a frame or array; `get_raw_model` is the classifier itself."""

    def __init__(self, model: Any) -> None:
        self.get_raw_model = lambda: model
        self.predict = lambda rows, params=None: model.predict(rows)


def _load_pyfunc(path: str) -> _PyfuncModel:
    """Load a model for `mlflow.pyfunc`, which calls this by name; no code of the model's is run."""
    is_table = "table" in read_manifest(path)["extra"]
    return _PyfuncModel(load_model(path) if is_table else load(path))


class WandbTracker(Tracker):
    """Log to Weights & Biases; the model and the report are artifacts.

    Parameters
    ----------
    **settings
        For `wandb.init`, such as ``project="wards"``.
    """

    def __init__(self, **settings: Any) -> None:
        self._wandb: Any = require("wandb", extra=None, what="Runs of Weights & Biases")
        self._run = self._wandb.init(**settings)

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        """Write settings of a fit into the run's config."""
        self._run.config.update(dict(values))

    def write_metrics(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers; epochs of several trainings are a number of their own, because steps must not go back."""
        self._run.log(dict(values) if step is None else {**values, "epoch": step})

    def write_file(self, path: Path) -> None:
        """Write a file as an artifact."""
        self._log_artifact("report", path)

    def write_model(self, folder: Path) -> None:
        """Write a saved model as an artifact."""
        self._log_artifact("model", folder)

    def _log_artifact(self, kind: str, path: Path) -> None:
        artifact = self._wandb.Artifact(path.stem, type=kind)
        artifact.add_dir(str(path)) if path.is_dir() else artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """End the run."""
        self._run.finish()
