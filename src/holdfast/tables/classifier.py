"""`TableClassifier`: columns, preprocessing and a method in one object, as `holdfast fit` saves it."""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from holdfast.diagnosis.words import say
from holdfast.environments import PerRow, listed
from holdfast.estimators.named import DEFAULT_METHOD, ESTIMATORS, find_estimator
from holdfast.exceptions import HoldfastWarning, ParameterError, SavedModelError, TableError, suggest
from holdfast.fitting.estimators import has_probabilities
from holdfast.fitting.kinds import Estimator, Network, Predictor
from holdfast.newsite.profile import TrainingProfile, profile_training
from holdfast.newsite.recalibrate import LEAST_PROBABILITY, RecalibratedClassifier, Recalibration, recalibrate
from holdfast.stable.verdict import verdict_of
from holdfast.tables.files import TableLike
from holdfast.tables.model import TableModel, refuse_options
from holdfast.tables.preprocessing import fit_pipeline, make_pipeline, matrix_names
from holdfast.tables.roles import TableRows, read_environments, read_known_labels, read_rows
from holdfast.tables.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.estimators.base import MethodClassifier
    from holdfast.estimators.stable import StableClassifier
    from holdfast.newsite.adapt import Adaptation
    from holdfast.newsite.check import SiteCheck
    from holdfast.stable.verdict import Verdict
    from holdfast.tables.evaluation import Evaluation

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class TableClassifier(TableModel):
    """Fit a method on a table in a file or a data frame, like `holdfast fit`.

    All columns except label, environment and dropped ones are features. Numbers are scaled. Missing numbers become the
    median, and an indicator column marks them. Texts are categories. Dates become days, month and weekday
    (`holdfast.tables.preprocessing`).

    Parameters
    ----------
    label : str
        Column with the class.
    environment : str or sequence of str
        Column with the environment of each row (hospital, site, year). Several columns are combined.
    estimator : str or scikit-learn classifier, default="logistic"
        The classifier inside the method, or its name in `holdfast.estimators.named.ESTIMATORS`.
    method : str, default="stable"
        A name in `holdfast.estimators.methods.METHODS`.
    method_options : dict, optional
        Parameters of the method.
    environment_by : {"year", "quarter", "month", "day"}, optional
        Period that groups an environment column of dates.
    drop, text, categorical : str or sequence of str
        Columns to leave out; text columns to split into words; columns of numbers that are codes of categories.
    missing : str or sequence of str
        Texts that mean a missing value, such as "?", in training and in prediction.
    scale : str or sequence of str
        Conversions of units, such as "creatinine@Lyon=1/88.4", in training and in prediction: the values of the column
        are multiplied at that site, or at all sites without "@". "=1/1.8-32/1.8" also adds an offset.
    missing_labels : {"stop", "drop"}, default="stop"
        Training rows without a label or an environment are an error, or are left out.
    weight : str, optional
        Column of row weights. It is not used as a feature.
    subjects : str, optional
        Column with the patient of each row, or another unit. Rows of one patient share a fold, and the stable method
        counts them as one row. The column is not used as a feature.
    random_state : int, default=0
        Seed of the fit.
    n_jobs : int, optional
        Number of fits that run at the same time.

    Attributes
    ----------
    pipeline_ : Pipeline
        Preprocessing, then the fitted method.
    roles_ : TableRoles
        What each column is.
    classes_ : ndarray
    doubts_ : tuple of str
        Problems of the training rows, as sentences. `check` reports them first.
    notes_ : tuple of str
        What was left out or detected when the table was read.
    warnings_ : tuple of str or None
        Warnings of the fit; None for a saved model that has no record of them.
    verdict_
        The verdict, for methods that have one.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"site": ["A", "B"] * 20, "age": range(40), "ill": [0] * 20 + [1] * 20})
    >>> model = TableClassifier(label="ill", environment="site", method="erm").fit(frame)
    >>> model.predict(pd.DataFrame({"age": [3, 38]}))
    array([0, 1])
    """

    _: KW_ONLY
    estimator: Any = "logistic"
    method: str = DEFAULT_METHOD
    method_options: Mapping[str, Any] | None = None
    n_jobs: int | None = None

    _task = "classification"
    doubts_ = cast("tuple[str, ...]", ())
    warnings_ = cast("tuple[str, ...] | None", None)

    @property
    def method_(self) -> MethodClassifier:
        """The fitted method."""
        check_is_fitted(self, "pipeline_")
        method: MethodClassifier = self.pipeline_.named_steps["classifier"]
        return method

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that it was fitted on."""
        classes: NDArray[Any] = self.method_.classes_
        return classes

    @property
    def verdict_(self) -> Verdict:
        """The method's verdict; AttributeError where it has none."""
        return self.method_.verdict_

    def make_method(self) -> MethodClassifier:
        """Return the unfitted method around the estimator, with the options; refuse what does not fit."""
        by_name = isinstance(self.estimator, str)
        estimator = find_estimator(self.estimator).make() if by_name else clone(self.estimator)
        settings = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        return make_method(self.method, estimator, self.method_options or {}, settings)

    def fit(self, table: TableLike | TableRows, *, checkpoints: str | Path | None = None) -> Self:
        """Fit on the rows of a table.

        Parameters
        ----------
        table : path, data frame or TableRows
            A .csv, .tsv or .parquet file, a folder of Parquet files (also as a `TableFolder`), a frame, or rows that
            `read_rows` returned. Of a folder beyond the memory a sample decides preprocessing and the verdict;
            logistic regressions and boosters of XGBoost and LightGBM are fitted on all rows, in passes over the files.
        checkpoints : path, optional
            Networks with `n_jobs=None`: a folder to which each epoch is written. A fit with the same rows and settings
            continues from there. Delete the folder when you have saved the classifier.
        """
        self.make_method()  # refuses names and options before anything is read
        rows = table if isinstance(table, TableRows) else read_rows(table, self.options)
        self.doubts_ = tuple(dict.fromkeys(say(p, rows.roles.label) for p in rows.problems if p.is_headline))
        return self._fit_rows(rows, checkpoints)

    def _fit_rows(self, rows: TableRows, checkpoints: str | Path | None = None) -> Self:
        """Fit on rows that were read, whatever is wrong with them."""
        method = self.make_method()
        if rows.source is not None:
            from holdfast.tables.passes import refit, refuse_what_cannot_stream

            refuse_what_cannot_stream(rows.source, rows.roles, self.names, method)
        pipeline = make_pipeline(rows.roles.schema, method)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HoldfastWarning)
            with self._continued(rows, checkpoints):
                fit_pipeline(pipeline, rows.features, rows.y, rows.environments, rows.sample_weight, rows.subjects)
            notes = rows.notes
            if rows.source is not None:
                n_passes = refit(pipeline, rows.source, rows.roles, self.n_jobs)
                also = "accuracies" if verdict_of(pipeline[-1]) is None else "verdict"
                notes += (
                    f"The classifiers are fitted on all {rows.n_rows:,} rows, in {n_passes} passes over the files; "
                    f"preprocessing and {also} come from the {len(rows.y):,} rows that were read.",
                )
        self.pipeline_, self.roles_, self.notes_ = pipeline, rows.roles, notes
        if hasattr(self.method_, "profile_"):
            self.method_.profile_ = None  # of columns that are scaled and encoded
        self.profile_ = profile_training(rows.features, rows.environments, tuple(rows.roles.schema.names("text")))
        self._name_verdict()
        warned = {(entry.category, str(entry.message)): entry.message for entry in caught}
        self.warnings_ = tuple(text for _, text in warned)
        for (category, text), _ in warned.items():
            warnings.warn(text, category, stacklevel=3)
        return self

    def _name_verdict(self) -> None:
        """Give the columns in a verdict their names, where the method saw a matrix: numbers of columns mean nothing."""
        verdict = verdict_of(self.method_)
        if verdict is None or "features" not in self.pipeline_.named_steps:
            return
        names = matrix_names(self.pipeline_.named_steps["features"], self.roles_.schema)
        self.method_.verdict_ = verdict.renamed({f"x{place}": name for place, name in enumerate(names)})

    def _continued(self, rows: TableRows, checkpoints: str | Path | None) -> Any:
        """Return a context in which a network writes checkpoints and continues from those of the same fit."""
        named = ESTIMATORS.get(self.estimator) if isinstance(self.estimator, str) else None
        is_network = isinstance(self.estimator, Network) if named is None else named.is_network
        if checkpoints is None or not is_network or self.n_jobs not in (None, 1):
            return nullcontext()
        from holdfast.neural.monitors import watch
        from holdfast.saving.monitors import CheckpointMonitor

        folder = Path(checkpoints) / _digest(rows, {**self.names, **(self.method_options or {})}, self.random_state)
        if folder.is_dir():
            log.info("continuing an interrupted fit (%s)", folder)
        return watch(CheckpointMonitor(folder))

    def _answer(self, rows: Any) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Return labels and, where the method has them, probabilities."""
        method, rows = self.method_, self._transform(rows)  # once for labels and probabilities
        probabilities = method.predict_proba(rows) if has_probabilities(method) else None
        if probabilities is not None and not np.isfinite(probabilities).all():
            raise SavedModelError("The classifier predicts NaN or infinity: its weights are damaged. Fit it again.")
        return method.predict(rows), probabilities

    @property
    def recalibration_(self) -> Recalibration | None:
        """How its probabilities were corrected for one site; None where they were not."""
        estimator = getattr(self.method_, "estimator_", None)
        return estimator.recalibration if isinstance(estimator, RecalibratedClassifier) else None

    def recalibrate(self, table: TableLike) -> Self:
        """Return this classifier with its probabilities corrected for one site, by labeled rows of that site.

        The evidence decides between no correction, an intercept for each class, and a slope of the log-probabilities
        too (`holdfast.newsite.recalibrate`). Coefficients are shrunk where rows are few. With two classes the order of
        the rows stays as it is. The classifier itself is not fitted again, and an earlier recalibration is replaced.
        The result can be saved; it holds the coefficients and none of the rows.

        Parameters
        ----------
        table : path or data frame
            Rows of the site, with the label column; some dozens at least. Rows without a label are not used, but tell
            how many rows the site has.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"site": ["A", "B"] * 100, "sign": [0, 1, 1, 0] * 50, "ill": [0, 1, 1, 0] * 50})
        >>> model = TableClassifier(label="ill", environment="site", method="erm").fit(rows)
        >>> next_site = rows.assign(ill=[0, 1, 1, 1] * 50)  # half of those without the sign are ill there
        >>> corrected = model.recalibrate(next_site)
        >>> before, after = (m.predict_proba(rows[:1])[0, 1] for m in (model, corrected))
        >>> bool(before < 0.1), round(float(after), 1), corrected.recalibration_.kind
        (True, 0.5, 'slope and intercept')
        """
        source = self.open(table)
        label, written = self.roles_.label, self.read_label(source)
        labeled = written.notna().to_numpy()
        if not labeled.any():
            raise TableError(
                f"Recalibrating needs labeled rows, but column {label!r} is empty in all {len(labeled):,} rows. Label "
                "some rows of the site."
            )
        codes = self._label_codes(written[labeled])
        plain = self._without_recalibration()
        scores = np.log(np.maximum(plain.predict_proba(source), LEAST_PROBABILITY))[labeled]
        found = recalibrate(scores, codes, n_rows_of_site=None if labeled.all() else len(labeled))
        return plain._with_estimator(RecalibratedClassifier(plain.method_.estimator_, found))

    @property
    def adaptation_(self) -> Adaptation | None:
        """Whether it was adapted to one site, and the effects of unstable columns there; None where not tried."""
        return getattr(self.method_, "adaptation_", None)

    def adapt(self, table: TableLike) -> Self:
        """Return this classifier adapted to a new site, by rows of that site without labels.

        The part of a stable classifier that does without the unstable columns teaches what they say about the label
        there (`holdfast.newsite.adapt`). Where that is not safe, the result predicts as before. `adaptation_` says what
        was done and why. The result can be saved; it holds none of the rows.

        Parameters
        ----------
        table : path or data frame
            Rows of the site; 100 or more are a good number. A label column is ignored.
        """
        from holdfast.estimators.stable import StableClassifier

        check_is_fitted(self, "pipeline_")
        if not isinstance(self.method_, StableClassifier):
            raise ParameterError(
                f"Only a classifier of the method 'stable' can be adapted, and this one has the method "
                f"{self.method!r}. Fit with 'stable', or recalibrate this one with labeled rows."
            )
        rows, notes = self._read_unlabeled(table)
        method = self.method_.adapt(self._transform(rows))
        method.adaptation_ = replace(method.adaptation_, notes=notes)
        return self._with_method(method)

    def check(self, table: TableLike) -> SiteCheck:
        """Say whether this classifier can be used at a new site, from rows of that site without labels.

        The rows are compared with the profile of the training rows. Where the method is stable, it is asked what the
        unstable columns say about the label there, and which accuracy to expect (`holdfast.newsite.check`).

        Parameters
        ----------
        table : path or data frame
            Rows of the site; 100 or more are a good number. A label column is ignored.
        """
        from holdfast.estimators.stable import StableClassifier
        from holdfast.newsite.check import check_site

        check_is_fitted(self, "pipeline_")
        if not has_probabilities(self.method_):
            raise ParameterError(
                f"The estimator {self.names['estimator']} gives no probabilities, which a check needs. Fit another one."
            )
        rows, notes = self._read_unlabeled(table)
        used, adaptation, before, tried = self, None, None, None
        if isinstance(self.method_, StableClassifier):
            method, adaptation, tried = self.method_.arrive(self._transform(rows))
            if adaptation is not None and adaptation.adapted:
                used, before = self._with_method(method), self._answer(rows)[1]

        def predict(features: Any) -> NDArray[np.float64]:
            probabilities = used._answer(features)[1]
            assert probabilities is not None
            return probabilities

        basis = getattr(self.method_, "forecasting_", None)
        return check_site(
            rows,
            predict,
            classes=self.classes_,
            profile=self.profile_,
            basis=basis,
            adaptation=adaptation,
            before=before,
            tried=tried,
            notes=notes,
            doubts=self.doubts_,
        )

    def _read_unlabeled(self, table: TableLike) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Return the features of all rows of a site, and notes on labels and on several sites."""
        source, roles = self.open(table), self.roles_
        roles.schema.require(source.columns)
        rows = roles.features(source.read(roles.needed(source.columns), roles.needed_types(source.columns)))
        if not len(rows):
            raise TableError(f"{source.name} has a header but no rows. Pass a table with rows of the site.")
        notes = [f"The label column {roles.label!r} is ignored."] if roles.label in source else []
        if roles.period is None and all(name in source for name in roles.environments):
            frame = source.read(list(roles.environments), roles.types(roles.environments)).dropna()
            found = read_environments(frame, roles.environments, None, roles.environment_storages)
            sites = sorted(set(map(str, found)))
            if len(sites) > 1:
                notes.append(
                    f"These rows come from {len(sites)} sites ({listed(sites, most=3)}). The answer is about the "
                    "mixture: pass the rows of one site at a time."
                )
        return rows, tuple(notes)

    def _label_codes(self, written: pd.Series[Any]) -> NDArray[np.intp]:
        """Return the places of labels among the classes; refuse labels that are unknown, or of one class only."""
        name = self.roles_.label
        labels = read_known_labels(written, name, self.classes_)
        places = {str(label): place for place, label in enumerate(self.classes_)}
        unknown = sorted({str(label) for label in labels} - set(places))
        if unknown:
            raise TableError(
                f"Column {name!r} has labels that the classifier does not know: {listed(unknown)}. It "
                f"knows {listed(list(places))}."
            )
        codes = np.array([places[str(label)] for label in labels], dtype=np.intp)
        if len(np.unique(codes)) < 2:
            raise TableError(
                f"Recalibrating needs labeled rows of at least two classes of {name!r}. The label is "
                f"{str(labels[0])!r} in all {len(codes):,} labeled rows. Label more rows of the site."
            )
        return codes

    def _without_recalibration(self) -> Self:
        """Return this classifier as it was before it was recalibrated."""
        estimator = getattr(self.method_, "estimator_", None)
        if isinstance(estimator, RecalibratedClassifier):
            return self._with_estimator(estimator.estimator)
        return self

    def _with_estimator(self, estimator: Predictor) -> Self:
        """Return a copy whose method answers by another fitted classifier over class codes."""
        method = copy.copy(self.method_)
        method.estimator_ = estimator
        return self._with_method(method)

    def _with_method(self, method: MethodClassifier) -> Self:
        """Return a copy with another fitted method."""
        changed = copy.copy(self)
        *before, (name, _) = self.pipeline_.steps
        changed.pipeline_ = Pipeline([*before, (name, method)])
        return changed

    def _transform(self, rows: Any) -> Any:
        """Return features as the method takes them."""
        for _, step in self.pipeline_.steps[:-1]:
            rows = step.transform(rows)
        return rows

    def _nothing(self) -> NDArray[Any]:
        return self.classes_[:0]

    def _probability_columns(self) -> list[str]:
        has_some = has_probabilities(self.method_)
        return [f"probability_{label}" for label in self.classes_] if has_some else []

    def predict_proba(self, table: TableLike) -> NDArray[np.float64]:
        """Return the probability of each label, columns in the order of `classes_`."""
        parts = [part.probabilities for part in self.predict_chunks(table)]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            raise ParameterError(f"The estimator {self.names['estimator']} gives no probabilities. Use predict.")
        return np.concatenate(found) if found else np.empty((0, len(self.classes_)))

    def read_rows(
        self, table: TableLike, *, environment: Sequence[str] = (), attributes: Sequence[str] = ()
    ) -> TableRows:
        """Read the columns that it was fitted with from another table, and attributes; the label is needed too."""
        source, roles = self.open(table), self.roles_
        names = list(environment) or list(roles.environments)
        source.require([roles.label, *names, *attributes])
        roles.schema.require(source.columns)
        for name in attributes:
            if name in (roles.label, *names):
                raise TableError(f"Column {name!r} is the label or an environment; it cannot be an attribute.")
        columns = list(dict.fromkeys([roles.label, *names, *roles.schema.names()]))
        frame = source.read(columns, {**roles.schema.types, **roles.types(names)})
        others = source.read(list(attributes)) if attributes else None
        return TableRows(
            roles,
            roles.features(frame),
            read_known_labels(frame[roles.label], roles.label, self.classes_),
            read_environments(frame, names, roles.period, roles.environment_storages),
            None if others is None else TableSchema.infer(others).features(others),
        )

    def evaluate(
        self,
        table: TableLike,
        *,
        attributes: Sequence[str] = (),
        environment: Sequence[str] = (),
        positive: str | None = None,
        baseline: TableClassifier | None = None,
        threshold: float | None = None,
    ) -> Evaluation:
        """Score it on a table with labels.

        Parameters
        ----------
        table : path or data frame
        attributes : sequence of str
            Columns whose groups (with the label) are scored.
        environment : sequence of str
            Environment columns; by default those that it was fitted with.
        positive : str, optional
            Label that counts as positive for sensitivity and specificity; by default the second of two.
        baseline : TableClassifier, optional
            Another classifier of the same label to compare with.
        threshold : float, optional
            Risk from which on somebody is treated, for the net benefit; by default the share of positive rows.
        """
        from holdfast.tables.evaluation import evaluate

        check_is_fitted(self, "pipeline_")
        return evaluate(
            self,
            table,
            attributes=attributes,
            environment=environment,
            positive=positive,
            baseline=baseline,
            threshold=threshold,
        )

    def score(self, table: TableLike, y: PerRow = None, sample_weight: PerRow = None) -> float:
        """Return the share of rows of a table that it gets right.

        Parameters
        ----------
        table : path or data frame
            With the label column, unless `y` is given.
        y : labels of shape (n_rows,), optional
            In place of the label column.
        sample_weight : array of shape (n_rows,), optional

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"site": ["A", "B"] * 20, "age": range(40), "ill": [0] * 20 + [1] * 20})
        >>> TableClassifier(label="ill", environment="site", method="erm").fit(frame).score(frame)
        1.0
        """
        source = self.open(table)
        if y is None:
            y = read_known_labels(self.read_label(source), self.roles_.label, self.classes_)
        predicted, truth = (
            np.array([str(label) for label in labels]) for labels in (self.predict(source), np.asarray(y))
        )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(predicted == truth, weights=weights))

    def check_same_label(self, other: TableClassifier) -> None:
        """Refuse to be compared with a classifier of another label."""
        labels = [fitted.roles_.label for fitted in (self, other)]
        classes = [sorted(map(str, fitted.classes_)) for fitted in (self, other)]
        if labels[0] != labels[1] or classes[0] != classes[1]:
            shown = [f"{label!r} ({listed(values)})" for label, values in zip(labels, classes, strict=True)]
            raise ParameterError(
                f"The classifiers predict different labels, {shown[0]} and {shown[1]}, so they cannot be compared. "
                "Pass classifiers that were fitted with the same label."
            )

    def _extra(self) -> dict[str, Any]:
        profile = {} if self.profile_ is None else {"profile": self.profile_.to_dict()}
        remarks = {"warnings": list(self.warnings_ or ()), "doubts": list(self.doubts_)}
        return {**super()._extra(), **remarks, **profile}

    def _card(self) -> str:
        from holdfast.tables.card import model_card

        return model_card(self)

    @classmethod
    def _check_kind(cls, folder: str | os.PathLike[str], extra: Mapping[str, Any]) -> None:
        super()._check_kind(folder, extra)
        if extra.get("task") == "regression":
            raise SavedModelError(
                f"{folder} is a regression model. Use 'holdfast predict' and 'holdfast evaluate', or load it with "
                "holdfast.tables.regression.TableRegressor.load."
            )

    def _restore(self, extra: Mapping[str, Any]) -> None:
        self.doubts_ = tuple(map(str, extra.get("doubts", ())))
        self.warnings_ = tuple(map(str, extra["warnings"])) if "warnings" in extra else None
        if "profile" in extra:
            self.profile_ = TrainingProfile.from_dict(extra["profile"])


def fit_stable(
    rows: TableRows, *, estimator: Any = "logistic", random_state: int | None = 0, n_jobs: int | None = None
) -> TableClassifier:
    """Fit the stable classifier on rows that were read, without repeating its warnings."""
    options = {"estimator": estimator, "method": "stable", "random_state": random_state, "n_jobs": n_jobs}
    classifier = TableClassifier(label=rows.roles.label, environment=rows.roles.environments, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classifier._fit_rows(replace(rows, source=None))


def make_method(
    name: str, estimator: Estimator, options: Mapping[str, Any], settings: Mapping[str, Any]
) -> MethodClassifier:
    """Return the unfitted method of that name around an estimator.

    `options` that the method does not have are refused; `settings` that it does not have are left out.
    """
    from holdfast.estimators.methods import METHODS

    known = [key for key in METHODS if key != "oracle"]  # it needs the unstable attribute, which a user does not know
    if name not in known:
        raise ParameterError(f"There is no method {name!r}. {suggest(name, known)}")
    parameters = refuse_options(name, METHODS[name], options)
    return METHODS[name](estimator, **{key: value for key, value in settings.items() if key in parameters}, **options)


def _digest(rows: TableRows, settings: Mapping[str, Any], seed: int | None) -> str:
    """Return what the same fit has in common: settings, columns and every value."""
    import pandas as pd

    from holdfast.saving.json_files import canonical_json

    facts = {"settings": {key: str(value) for key, value in settings.items()}, "seed": seed}
    digest = hashlib.sha256(canonical_json({**facts, "table": rows.roles.to_dict()}))
    digest.update(pd.util.hash_pandas_object(rows.features, index=False).to_numpy().tobytes())
    given = [values for values in (rows.sample_weight, rows.subjects) if values is not None]
    for values in (rows.y, rows.environments, *given):
        digest.update(pd.util.hash_pandas_object(pd.Series(values), index=False).to_numpy().tobytes())
    return digest.hexdigest()[:20]


def check(model: str | os.PathLike[str] | TableClassifier | StableClassifier, rows: Any) -> SiteCheck:
    """Say whether a fitted classifier can be used at a new site, from rows of that site without labels.

    Parameters
    ----------
    model : path, TableClassifier or StableClassifier
        A fitted classifier, or the folder of a saved `TableClassifier`.
    rows : path or data frame, for a StableClassifier what its `predict` takes
        At least 30 rows, better 100. A label column is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng, y = np.random.default_rng(0), np.arange(600) % 2
    >>> frame = pd.DataFrame({"marker": y + rng.normal(size=600), "ill": y, "site": np.repeat(["a", "b", "c"], 200)})
    >>> model = TableClassifier(label="ill", environment="site").fit(frame)
    >>> check(model, frame[["marker"]]).advice
    'use'
    """
    fitted = TableClassifier.load(model) if isinstance(model, str | os.PathLike) else model
    return fitted.check(rows)
