"""`TableRegressor`: fit, evaluate and diagnose a regression model of a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, clone, is_regressor
from sklearn.utils.validation import check_is_fitted

from holdfast.diagnosis.measurement import MOST_ROUNDS, N_FOLDS, Progress, no_progress
from holdfast.diagnosis.regression import RegressionDiagnosis, RegressionReport, judge_regression, regression_report
from holdfast.environments import PerRow, site_names, split_environments, take_rows
from holdfast.estimators.named import DEFAULT_METHOD, NamedEstimator
from holdfast.estimators.regression import PIRegressor
from holdfast.estimators.stable_regression import StableRegressor
from holdfast.exceptions import ParameterError, SavedModelError, TableError, suggest
from holdfast.fitting.estimators import fit_rows, seeded_clone
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.splitter import LeftOut, leave_out
from holdfast.seeding import Seeding
from holdfast.stable.verdict import RegressionVerdict
from holdfast.tables.files import TableLike, TableSource
from holdfast.tables.model import TableModel, refuse_options
from holdfast.tables.preprocessing import fit_pipeline, make_pipeline, with_preprocessing
from holdfast.tables.roles import TableRows, read_numbers, read_rows

if TYPE_CHECKING:
    from holdfast.tables.classifier import TableClassifier

METHODS: Mapping[str, type[StableRegressor | PIRegressor] | None] = MappingProxyType(
    {"stable": StableRegressor, "erm": None, "pi": PIRegressor}  # None: the estimator alone
)
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
        if pooled is not None and not self.known:  # rows of sites that it was fitted on say little about the next one
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


@dataclass(eq=False, repr=False)
class TableRegressor(RegressorMixin, TableModel):
    """Fit a model of a number on a table in a file or a data frame: what `holdfast fit --task regression` does.

    Parameters
    ----------
    label : str
        Column with the number.
    environment : str or sequence of str
        Column that says where a row came from (hospital, site, year). Several columns are crossed.
    estimator : str or scikit-learn regressor, default="ridge"
        A name in `REGRESSORS`, or a regressor.
    method : "stable", "erm" or "pi", default="stable"
        `StableRegressor`, the ordinary fit, or `PIRegressor`.
    method_options : dict, optional
        Parameters of the method, such as {"caution": 1.0}.
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

    _: KW_ONLY
    estimator: Any = "ridge"
    method: str = DEFAULT_METHOD
    method_options: Mapping[str, Any] | None = None

    _task = "regression"

    @property
    def names(self) -> dict[str, str]:
        """The names of estimator and method."""
        name = find_regressor(self.estimator) if isinstance(self.estimator, str) else type(self.estimator).__name__
        return {"estimator": name, "method": self.method}

    @property
    def verdict_(self) -> RegressionVerdict | None:
        """What `StableRegressor` fitted and why; None of other methods."""
        check_is_fitted(self, "pipeline_")
        return getattr(self.pipeline_[-1], "verdict_", None)

    def fit(self, table: TableLike | TableRows) -> Self:
        """Fit on the rows of a table: a path, a data frame, or rows that `read_rows` returned."""
        if self.method not in METHODS:
            raise ParameterError(
                f"There is no method {self.method!r} for numbers. {suggest(self.method, list(METHODS))}"
            )
        method, options = METHODS[self.method], self.method_options or {}
        refuse_options(self.method, method, options)
        inner = _make_regressor(self.estimator)
        rows = table if isinstance(table, TableRows) else read_rows(table, self.options)
        if rows.source is not None:
            raise TableError("A folder beyond the memory is not fitted for numbers yet. Raise max_memory=.")
        if method is not None:
            pipeline = make_pipeline(rows.roles.schema, method(inner, random_state=self.random_state, **options))
            fit_pipeline(pipeline, rows.features, rows.y, rows.environments, rows.sample_weight, rows.subjects)
        else:
            model = seeded_clone(with_preprocessing(rows.roles.schema, inner), Seeding(self.random_state), "erm")
            pipeline = fit_rows(model, rows.features, rows.y, np.arange(len(rows.y)), rows.sample_weight)
        self.pipeline_, self.roles_, self.notes_ = pipeline, rows.roles, rows.notes
        return self

    def score(self, table: TableLike, y: PerRow = None, sample_weight: PerRow = None) -> float:
        """Return R² on a table with the label column, or on given numbers."""
        from sklearn.metrics import r2_score

        source = self.open(table)
        truth = self._labels(source) if y is None else y
        return float(r2_score(truth, self.predict(source), sample_weight=sample_weight))

    def _labels(self, source: TableSource) -> NDArray[np.float64]:
        return read_numbers(self.read_label(source), self.roles_.label)

    def evaluate(self, table: TableLike, *, environment: Sequence[str] = ()) -> RegressionEvaluation:
        """Score it on a table with labels, by environment and pooled.

        Parameters
        ----------
        table : path or data frame
        environment : sequence of str
            Environment columns; by default those that it was fitted with.
        """
        source, roles = self.open(table), self.roles_
        names = list(environment) or list(roles.environments)
        source.require([roles.label, *names])
        sites = np.array([str(site) for site in self.read_sites(source, names)])
        y, predicted = self._labels(source), self.predict(source)
        mse = float(np.mean((y - predicted) ** 2))
        r2 = 1 - mse / float(y.var()) if y.var() > 0 else float("nan")
        known = tuple(name for name in roles.known if name in sites)
        report = regression_report(y, predicted, sites)
        return RegressionEvaluation(self.names, roles.label, report, known, r2, float(np.sqrt(mse)))

    def _count(self, labels: NDArray[Any]) -> Mapping[str, int]:
        return {"": len(labels)}  # nearly every row has a number of its own

    def _extra(self) -> dict[str, Any]:
        return {**super()._extra(), "task": self._task}

    @classmethod
    def _check_kind(cls, folder: str | os.PathLike[str], extra: Mapping[str, Any]) -> None:
        if not is_regression(extra):
            raise SavedModelError(f"{folder} is not a regression model. Load it with TableClassifier.load.")


def is_regression(extra: Mapping[str, Any]) -> bool:
    """Return whether a saved model's extra values are those of a `TableRegressor`."""
    return extra.get("task") == "regression"


def load_model(folder: str | os.PathLike[str]) -> TableClassifier | TableRegressor:
    """Load the saved classifier or regressor of a table."""
    from holdfast.saving import read_manifest
    from holdfast.tables.classifier import TableClassifier

    return (TableRegressor if is_regression(read_manifest(folder)["extra"]) else TableClassifier).load(folder)


def _make_regressor(estimator: Estimator) -> Any:
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

    The rows are read with `TableOptions(task="regression")`; `progress` is called when a fit begins.
    """
    sites = split_environments(rows.environments, len(rows.y))
    if len(sites) < 2:
        raise TableError(f"All rows are of one site, {sites[0].name!r}, so none can be left out. Pass more sites.")
    names = site_names(sites)
    model = with_preprocessing(rows.roles.schema, _make_regressor(estimator))
    weights = rows.sample_weight
    folds = np.empty(len(rows.y), dtype=np.intp)
    for site in sites:
        order = Seeding(random_state).generator("folds", site.name).permutation(len(site.rows))
        folds[site.rows[order]] = np.arange(len(site.rows)) % N_FOLDS
    rounds = leave_out(sites, most=MOST_ROUNDS)
    rounds += [LeftOut((), np.flatnonzero(folds == n), np.flatnonzero(folds != n)) for n in np.unique(folds)]
    new, known = np.full(len(rows.y), np.nan), np.full(len(rows.y), np.nan)
    for number, (left_out, out, rest) in enumerate((part.names, part.out, part.rest) for part in rounds):
        step = f"without {', '.join(left_out)}" if left_out else "at known sites, out of fold"
        progress(step, number, len(rounds) + 1)
        part = seeded_clone(model, Seeding(random_state), "diagnose")
        fitted = fit_rows(part, rows.features, rows.y, rest, None if weights is None else weights[rest])
        (new if left_out else known)[out] = fitted.predict(take_rows(rows.features, out))
    progress("the verdict", len(rounds), len(rounds) + 1)
    name = find_regressor(estimator) if isinstance(estimator, str) else type(estimator).__name__
    verdict = fit_stable_regressor(rows, estimator=estimator, random_state=random_state).verdict_
    return judge_regression(
        rows.y,
        new,
        known,
        names,
        estimator=name,
        label=rows.roles.label,
        notes=rows.notes,
        verdict=verdict,
        problems=rows.problems,
    )


def fit_stable_regressor(rows: TableRows, *, estimator: Estimator, random_state: int | None) -> TableRegressor:
    """Fit the stable regressor on rows that are read already."""
    roles = rows.roles
    model = TableRegressor(
        label=roles.label, environment=roles.environments, estimator=estimator, random_state=random_state
    )
    return model.fit(rows)
