"""Regression: a regressor of a table, its evaluation by site, and the diagnosis of sites left out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_regressor
from sklearn.utils.validation import check_is_fitted

from holdfast.diagnosis.measurement import MOST_ROUNDS, N_FOLDS, Progress, no_progress
from holdfast.diagnosis.regression import RegressionDiagnosis, RegressionReport, judge_regression, regression_report
from holdfast.environments import site_names, split_environments, take_rows
from holdfast.estimators.named import NamedEstimator
from holdfast.estimators.regression import PIRegressor
from holdfast.exceptions import ParameterError, SavedModelError, TableError, suggest
from holdfast.fitting.estimators import fit_rows, seeded_clone
from holdfast.seeding import Seeding
from holdfast.tables.files import CHUNK_ROWS, TableWriter, open_table
from holdfast.tables.preprocessing import fit_pipeline, make_pipeline, with_preprocessing
from holdfast.tables.roles import TableOptions, TableRoles, TableRows, read_environments, read_numbers, read_rows

METHODS = ("erm", "pi")
REGRESSORS: Mapping[str, NamedEstimator] = MappingProxyType(
    {
        "ridge": NamedEstimator("sklearn.linear_model:Ridge"),
        "boosting": NamedEstimator("sklearn.ensemble:HistGradientBoostingRegressor"),
        "forest": NamedEstimator("sklearn.ensemble:RandomForestRegressor", {"min_samples_leaf": 3, "n_jobs": 1}),
        "extra_trees": NamedEstimator("sklearn.ensemble:ExtraTreesRegressor", {"min_samples_leaf": 3, "n_jobs": 1}),
    }
)


def find_regressor(name: str) -> str:
    """Return the name of a regressor; "logistic", the default of the commands, means ridge regression.

    Examples
    --------
    >>> find_regressor("logistic"), find_regressor("forest")
    ('ridge', 'forest')
    """
    name = {"logistic": "ridge"}.get(name, name)
    if name not in REGRESSORS:
        raise ParameterError(f"There is no estimator {name!r} of numbers. {suggest(name, list(REGRESSORS))}")
    return name


@dataclass(frozen=True, eq=False)
class RegressionEvaluation:
    """What `TableRegressor.evaluate` found; `str()` is the answer in one sentence."""

    names: Mapping[str, str]
    label: str
    report: RegressionReport
    known: tuple[str, ...]  # environments with rows that it was fitted on
    r2: float  # over all rows
    rmse: float

    def __str__(self) -> str:
        n_rows = sum(site.n_rows for site in self.report.sites)
        answer = f"The model of {self.label!r} has RMSE {self.rmse:.3g} and R² {self.r2:.3f} on {n_rows:,} rows"
        if len(self.report.sites) > 1:
            worst = max(self.report.sites, key=lambda site: site.rmse.value)
            place = "known" if worst.name in self.known else "new"
            answer += f"; the largest RMSE is {worst.rmse.value:.3g}, in {worst.name} ({place})"
        pooled = self.report.pooled_of("rmse")
        if pooled is not None:
            answer += f". At the next site expect an RMSE of {pooled.next_site.low:.3g} to {pooled.next_site.high:.3g}"
        return answer + "."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        overall = {"r2": self.r2, "rmse": self.rmse}
        return {
            **self.names,
            "task": "regression",
            "overall": overall,
            "known": list(self.known),
            **self.report.to_dict(),
        }


class TableRegressor(RegressorMixin, BaseEstimator):
    """Fit a model of a number on a table in a file or a data frame: what `holdfast fit --task regression` does.

    Parameters
    ----------
    label : str
        Column with the number.
    environment : str or sequence of str
        Column that says where a row came from (hospital, site, year). Several columns are crossed.
    estimator : str or scikit-learn regressor, default="ridge"
        A name in `REGRESSORS`, or a regressor.
    method : "erm" or "pi", default="erm"
        The ordinary fit, or `PIRegressor`. Columns whose effect differs are not searched for in numbers yet.
    environment_by, drop, text, categorical, missing, scale, missing_labels, weight, subjects, random_state
        As for `TableClassifier`.

    Attributes
    ----------
    pipeline_ : Pipeline
        Preprocessing, then the fitted method.
    roles_ : TableRoles

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"site": ["A", "B"] * 20, "age": range(40), "cost": [2.5 * x for x in range(40)]})
    >>> model = TableRegressor(label="cost", environment="site").fit(frame)
    >>> model.predict(pd.DataFrame({"age": [10.0]})).round(0)
    array([26.])
    """

    def __init__(
        self,
        *,
        label: str,
        environment: str | Sequence[str],
        estimator: Any = "ridge",
        method: str = "erm",
        environment_by: str | None = None,
        drop: str | Sequence[str] = (),
        text: str | Sequence[str] = (),
        categorical: str | Sequence[str] = (),
        missing: str | Sequence[str] = (),
        scale: str | Sequence[str] = (),
        missing_labels: str = "stop",
        weight: str | None = None,
        subjects: str | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.label = label
        self.environment = environment
        self.estimator = estimator
        self.method = method
        self.environment_by = environment_by
        self.drop = drop
        self.text = text
        self.categorical = categorical
        self.missing = missing
        self.scale = scale
        self.missing_labels = missing_labels
        self.weight = weight
        self.subjects = subjects
        self.random_state = random_state

    @property
    def names(self) -> dict[str, str]:
        """The names of estimator and method."""
        name = find_regressor(self.estimator) if isinstance(self.estimator, str) else type(self.estimator).__name__
        return {"estimator": name, "method": self.method}

    @property
    def options(self) -> TableOptions:
        """What the columns are, checked."""
        given = {o.name: getattr(self, o.name) for o in fields(TableOptions) if o.name != "task"}
        return TableOptions(**given, task="regression")

    def fit(self, table: Any) -> Self:
        """Fit on the rows of a table: a path, a data frame, or rows that `read_rows` returned."""
        if self.method not in METHODS:
            raise ParameterError(f"There is no method {self.method!r} for numbers. {suggest(self.method, METHODS)}")
        inner = _make_regressor(self.estimator)
        rows = table if isinstance(table, TableRows) else read_rows(table, self.options)
        if rows.source is not None:
            raise TableError("A folder beyond the memory is not fitted for numbers yet. Raise max_memory=.")
        if self.method == "pi":
            pipeline = make_pipeline(rows.roles.schema, PIRegressor(inner, random_state=self.random_state))
            fit_pipeline(pipeline, rows.features, rows.y, rows.environments, rows.sample_weight, rows.subjects)
        else:
            model = seeded_clone(with_preprocessing(rows.roles.schema, inner), Seeding(self.random_state), "erm")
            pipeline = fit_rows(model, rows.features, rows.y, np.arange(len(rows.y)), rows.sample_weight)
        self.pipeline_, self.roles_, self.notes_ = pipeline, rows.roles, rows.notes
        return self

    def predict(self, table: Any) -> NDArray[np.float64]:
        """Return the predicted number of each row of a file or frame."""
        check_is_fitted(self, "pipeline_")
        source, roles = open_table(table, self.roles_.missing), self.roles_
        roles.schema.require(source.columns)
        chunks = source.chunks(roles.needed(source.columns), roles.needed_types(source.columns), CHUNK_ROWS)
        parts = [self.pipeline_.predict(roles.features(chunk)) for chunk in chunks]
        return np.concatenate(parts) if parts else np.empty(0)

    def score(self, table: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on a table with the label column, or on given numbers."""
        from sklearn.metrics import r2_score

        source = open_table(table, self.roles_.missing)
        truth = self._labels(source) if y is None else y
        return float(r2_score(truth, self.predict(source), sample_weight=sample_weight))

    def _labels(self, source: Any) -> NDArray[np.float64]:
        label = self.roles_.label
        source.require([label])
        return read_numbers(source.read([label])[label], label)

    def evaluate(self, table: Any, *, environment: Sequence[str] = ()) -> RegressionEvaluation:
        """Score it on a table with labels, by environment and pooled.

        Parameters
        ----------
        table : path or data frame
        environment : sequence of str
            Environment columns; by default those that it was fitted with.
        """
        check_is_fitted(self, "pipeline_")
        source, roles = open_table(table, self.roles_.missing), self.roles_
        names = list(environment) or list(roles.environments)
        source.require([roles.label, *names])
        frame = source.read(list(dict.fromkeys(names)), roles.types(names))
        sites = np.array([str(e) for e in read_environments(frame, names, roles.period, roles.environment_storages)])
        y, predicted = self._labels(source), self.predict(source)
        here = set(sites.tolist())
        mse = float(np.mean((y - predicted) ** 2))
        r2 = 1 - mse / float(y.var()) if y.var() > 0 else float("nan")
        known = tuple(name for name in roles.known if name in here)
        return RegressionEvaluation(
            self.names, roles.label, regression_report(y, predicted, sites), known, r2, float(np.sqrt(mse))
        )

    def write_predictions(
        self, table: Any, file: str | Path, *, keep: Sequence[str] = (), for_spreadsheets: bool = False
    ) -> int:
        """Write a column `prediction`, next to the columns in `keep`, to a .csv, .tsv or .parquet file."""
        import pandas as pd

        source, keep = open_table(table, self.roles_.missing), list(dict.fromkeys(keep))
        source.require(keep)
        kept = source.read(keep).reset_index(drop=True) if keep else pd.DataFrame()
        frame = pd.concat([kept, pd.DataFrame({"prediction": self.predict(source)})], axis=1)
        with TableWriter(Path(file), for_spreadsheets=for_spreadsheets) as writer:
            writer.write(frame)
        return len(frame)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save it as a folder that `load` reads. Nothing in it can execute code."""
        from holdfast.saving import save

        check_is_fitted(self, "pipeline_")
        extra = {"table": self.roles_.to_dict(), "task": "regression", "names": self.names, "notes": list(self.notes_)}
        save(self.pipeline_, folder, overwrite=overwrite, extra=extra)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TableRegressor:
        """Load what `save` wrote."""
        from holdfast.saving import load, read_manifest

        extra = read_manifest(folder)["extra"]
        if not is_regression(extra):
            raise SavedModelError(f"{folder} is not a model of numbers. Load it with TableClassifier.load.")
        roles = TableRoles.from_dict(extra["table"])
        scales = tuple(scale.text for scale in roles.scales)
        given: dict[str, Any] = {"missing": roles.missing, "scale": scales, **extra["names"]}
        fitted = cls(label=roles.label, environment=roles.environments, **given)
        fitted.pipeline_, fitted.roles_ = load(folder), roles
        fitted.notes_ = tuple(map(str, extra.get("notes", ())))
        return fitted


def is_regression(extra: Mapping[str, Any]) -> bool:
    """Return whether a saved model's extra values are those of a `TableRegressor`."""
    return extra.get("task") == "regression"


def holds_regressor(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder contains a saved `TableRegressor`."""
    from holdfast.saving import read_manifest

    return is_regression(read_manifest(folder)["extra"])


def _make_regressor(estimator: Any) -> Any:
    if isinstance(estimator, str):
        return REGRESSORS[find_regressor(estimator)].make()
    if not hasattr(estimator, "fit") or not is_regressor(estimator):
        raise ParameterError(f"estimator must be a scikit-learn regressor. Got {type(estimator).__name__} instead.")
    return clone(estimator)


def diagnose_regression(
    rows: TableRows,
    *,
    estimator: Any = "ridge",
    random_state: int | None = 0,
    progress: Progress = no_progress,
) -> RegressionDiagnosis:
    """Leave each site out, fit an ordinary model of the number on the others, and say whether it holds there.

    Parameters
    ----------
    rows : TableRows
        Read with `TableOptions(task="regression")`.
    estimator : str or scikit-learn regressor
    random_state : int or None
    progress : callable
        Called when a fit begins.
    """
    sites = split_environments(rows.environments, len(rows.y))
    if len(sites) < 2:
        raise TableError(f"All rows are of one site, {sites[0].name!r}, so none can be left out. Pass more sites.")
    names = site_names(sites)
    model = with_preprocessing(rows.roles.schema, _make_regressor(estimator))
    everything, weights = np.arange(len(rows.y)), rows.sample_weight
    folds = np.empty(len(rows.y), dtype=np.intp)
    for site in sites:
        order = Seeding(random_state).generator("folds", site.name).permutation(len(site.rows))
        folds[site.rows[order]] = np.arange(len(site.rows)) % N_FOLDS
    n_rounds = min(len(sites), MOST_ROUNDS)
    together = [sites[number::n_rounds] for number in range(n_rounds)]
    tasks = [(np.concatenate([site.rows for site in group]), ", ".join(s.name for s in group)) for group in together]
    tasks += [(np.flatnonzero(folds == fold), "") for fold in range(N_FOLDS) if (folds == fold).any()]
    new, known = np.full(len(rows.y), np.nan), np.full(len(rows.y), np.nan)
    for number, (out, left_out) in enumerate(tasks):
        progress(f"without {left_out}" if left_out else "at known sites, out of fold", number, len(tasks))
        rest = np.setdiff1d(everything, out)
        part = seeded_clone(model, Seeding(random_state), "diagnose")
        fitted = fit_rows(part, rows.features, rows.y, rest, None if weights is None else weights[rest])
        (new if left_out else known)[out] = fitted.predict(take_rows(rows.features, out))
    name = find_regressor(estimator) if isinstance(estimator, str) else type(estimator).__name__
    return judge_regression(rows.y, new, known, names, estimator=name, label=rows.roles.label, notes=rows.notes)
