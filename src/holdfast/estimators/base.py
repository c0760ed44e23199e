"""The base classes of all estimators: reading the arguments of `fit`, predicting, and scikit-learn's conventions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted, validate_data

from holdfast.environments import (
    Environment,
    Group,
    PerRow,
    check_pairs,
    is_lazy,
    merge_small_environments,
    pool_small_environments,
    split_environments,
    take_rows,
)
from holdfast.exceptions import FeaturesError, LabelsError, ParameterError, SingleEnvironmentWarning, warn
from holdfast.fitting.bases import BaseEstimator, ClassifierMixin, RegressorMixin
from holdfast.fitting.estimators import (
    code_probabilities,
    fit_rows,
    is_network,
    library_of,
    network_in,
    over_codes,
    predicted_codes,
    require_classifier,
    seeded_clone,
    trained_network,
)
from holdfast.fitting.kinds import Estimator, Network, Predictor
from holdfast.interpolation import Solution, SolverSettings
from holdfast.interpolation.worst_case import minimize_worst_case_risk
from holdfast.newsite.recalibrate import RecalibratedClassifier, log_probabilities, recalibrate
from holdfast.rows.kinds import (
    allows_nan,
    count_rows,
    holds_items,
    is_few_pictures,
    is_float,
    is_frame,
    is_text,
    needs_frame,
    refuse_items,
    takes_items,
)
from holdfast.rows.reading import (
    as_ours,
    hold_out,
    is_share,
    known_codes,
    no_labels,
    read_column,
    read_folds,
    read_groups,
    read_held_out,
    read_labels,
    read_weights,
    warn_of_other_order,
)
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import RandomState, Seeding

if TYPE_CHECKING:
    from holdfast.newsite.adapt import Adaptation
    from holdfast.stable.verdict import Verdict


def _estimator_has(name: str) -> Any:
    def check(self: MethodEstimator) -> bool:
        inner = getattr(self, "estimator_", None)
        return hasattr(self.estimator if inner is None else inner, name) or (inner is None and self.estimator is None)

    return check


class MethodEstimator(BaseEstimator):
    """Base of the estimators that learn from several environments."""

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this, with what subclasses add

    estimator: Estimator | None  # the user's
    estimator_: Any  # fitted; what it can do beside `predict` depends on the user's
    min_group_size: int = 5
    random_state: RandomState
    _judges: ClassVar[bool] = False  # whether environments judge one another, every pair of them
    _validation_metric: ClassVar[str]  # of sklearn.metrics
    adaptation_: Adaptation  # to a new site

    def _default_estimator(self, X: Any) -> Pipeline:
        """Return the estimator used when none is given."""
        raise NotImplementedError

    def _read_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Return the targets as the stages want them."""
        raise NotImplementedError

    def _read_validation_targets(self, y: Any) -> NDArray[Any]:
        """Return the targets of validation rows as the stages want them."""
        raise NotImplementedError

    def _read_training(
        self,
        X: Any,
        y: PerRow,
        environments: PerRow = None,
        *,
        sample_weight: PerRow = None,
        group_labels: PerRow = None,
        folds: PerRow = None,
    ) -> TrainingRows:
        """Check everything that `fit` was handed, and set what scikit-learn expects to be set."""
        X, y, environments = self._read_items(X, y, environments)
        if y is None:
            raise no_labels(self, X)
        for name in [name for name in vars(self) if name.endswith("_")]:  # nothing of an earlier fit stays
            delattr(self, name)
        warn_of_other_order(X, y=y, environments=environments, sample_weight=sample_weight)
        X = self._check_rows(X, reset=True)
        n_rows = count_rows(X)
        targets = self._read_targets(y, n_rows)
        split = self._split(X, environments, n_rows)
        self.environments_ = _as_array([environment.label for environment in split])
        return TrainingRows(
            X,
            targets,
            split,
            read_weights(sample_weight, n_rows),
            read_groups(group_labels, n_rows),
            read_folds(folds, n_rows),
            getattr(self, "feature_names_in_", None),
        )

    def _read_items(self, X: Any, y: PerRow, environments: PerRow = None) -> tuple[Any, Any, Any]:
        """Return rows, labels and environments: those of a Dataset or dict are taken out of its items."""
        if not holds_items(X):
            return X, y, environments
        inner = self._base_estimator(None)
        if not takes_items(inner):
            refuse_items(inner, X)
        from holdfast.neural.sources import read_items

        network = network_in(inner)
        n_workers = 0 if network is None else network.options_for("data").get("n_workers", 0)
        return read_items(X, y, environments, n_workers=n_workers)

    def _check_network(self, estimator: Any, validation: ValidationRows | None) -> None:
        """Refuse what the training of a network would refuse, before it begins."""
        network = network_in(estimator)
        if network is not None:
            network.check_training(selection=getattr(self, "selection", None), validation=validation)

    def _split(self, X: Any, environments: Any, n_rows: int) -> tuple[Environment, ...]:
        """Return the environments, those with few rows merged or pooled."""
        split = merge_small_environments(split_environments(environments, n_rows), self.min_group_size)
        if self._judges:
            if is_network(self._base_estimator(X)):
                split = pool_small_environments(split)
            check_pairs(split)
        return split

    def _read_validation(self, validation: Any) -> ValidationRows | None:
        """Return validation rows with class codes and group labels, checked like the training rows."""
        if validation is None:
            return None
        held_out = (validation, None) if holds_items(validation) else validation
        X, y, groups = self._read_items(*read_held_out(held_out))
        if y is None:
            raise LabelsError("validation has no labels. Pass validation=(X, y), or a Dataset whose items have labels.")
        X, y = self._check_rows(X, reset=False), self._read_validation_targets(y)
        n_rows = count_rows(X)
        if len(y) != n_rows:
            raise LabelsError(f"validation has {len(y)} labels for {n_rows} rows. Pass one label for each row.")
        return ValidationRows(X, y, None if groups is None else np.asarray(groups))

    def _take_validation(
        self, training: TrainingRows, validation: Any, together: Any = None
    ) -> tuple[TrainingRows, ValidationRows | None]:
        """Return training and validation rows; a share is held out of every environment and label."""
        if not is_share(validation):
            return training, self._read_validation(validation)
        if training.folds is not None or together is not None:
            what = "share a fold" if together is None else "belong to one subject"
            raise ParameterError(
                f"validation={validation!r} could part rows that {what}. Pass rows instead: validation=(X, y)."
            )
        strata = [training.environment_codes, *([training.y] if is_classifier(self) else [])]
        kept, held = hold_out(float(validation), strata, Seeding(self.random_state))
        groups = self.environments_[training.environment_codes[held]]
        return training.take(kept), ValidationRows(take_rows(training.X, held), training.y[held], groups)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X checked: texts and the frames of pipelines as they are, all else as array or sparse matrix."""
        if not reset and is_few_pictures(X) and X.shape[1] == getattr(self, "n_features_in_", None):
            return X
        if library_of(X) == "pyarrow" and hasattr(X, "to_pandas"):
            X = X.to_pandas()
        inner = self._base_estimator(X)
        if holds_items(X):
            from holdfast.neural.sources import rows_to_predict

            return self._read_items(X if reset else rows_to_predict(X), (), ())[0]
        if is_text(X):
            if len(X) == 0:
                raise FeaturesError("X has 0 texts, but at least one is needed.")
            other = [row for row, text in enumerate(X) if not isinstance(text, str)]
            if other:
                raise FeaturesError(
                    f"X is a list of texts, but {len(other)} of them are missing or not text, the first in row "
                    f"{other[0]}. Drop those rows, or give them an empty text."
                )
            return list(X)
        if is_frame(X) and needs_frame(inner, X):
            return self._check_frame(X, reset=reset)
        with as_ours(FeaturesError, X if is_network(inner) else None):
            if is_lazy(X) and isinstance(inner, Network):  # a network takes such rows a batch at a time
                _check_n_features(self, X, reset=reset)
                return X
            return validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype="numeric",
                allow_nd=is_network(inner) or takes_items(inner),
                ensure_all_finite="allow-nan" if allows_nan(inner) else True,
            )

    def _check_frame(self, X: Any, *, reset: bool) -> Any:
        """Check the columns of a frame that goes to a pipeline as it is."""
        if len(X) == 0:
            raise FeaturesError("Found array with 0 sample(s): X has no rows, but at least one is needed.")
        names = [str(name) for name in X.columns]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise FeaturesError(
                f"X has several columns named {', '.join(twice)}. Rename them so that names are unique."
            )
        with as_ours(FeaturesError):
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
        for name in X.columns:
            values = np.asarray(X[name]) if is_float(X[name].dtype) else None
            if values is not None and np.isinf(values).any():
                raise FeaturesError(
                    f"column {name!r} of X contains infinity in {int(np.isinf(values).sum())} rows. "
                    "Replace infinite values, for example by missing ones."
                )
        return X

    def _base_estimator(self, X: Any) -> Any:
        """Return the estimator: the user's, or the default for tabular rows."""
        if self.estimator is None:
            return self._default_estimator(X)
        if not hasattr(self.estimator, "fit"):
            raise ParameterError(
                f"The 'estimator' parameter of {type(self).__name__} must be a scikit-learn estimator, a "
                f"NeuralClassifier or None. Got {self.estimator!r} instead."
            )
        if is_classifier(self):
            require_classifier(self.estimator, asked_by=type(self).__name__)
        return self.estimator

    def _coded_estimator(self, training: TrainingRows) -> Any:
        """Return the estimator to clone for the fits, with what it says about labels said about their codes."""
        estimator = self._base_estimator(training.X)
        return over_codes(estimator, self.classes_) if is_classifier(self) else estimator

    def _score_validation(self, validation: ValidationRows | None) -> None:
        """Set `validation_score_` where validation rows were given, whether or not they selected anything."""
        if validation is None:
            return
        network = trained_network(self.estimator_)
        if is_classifier(self) and network is not None and network.selected_.scores.validation_score is not None:
            self.validation_score_ = network.selected_.scores.validation_score  # the training has scored these rows
            return
        from sklearn import metrics

        predicted = np.asarray(self.estimator_.predict(validation.X)).ravel()
        self.validation_score_ = float(getattr(metrics, self._validation_metric)(validation.y, predicted))

    def _minimize(
        self,
        estimator: Estimator,
        training: TrainingRows,
        groups: Sequence[Group],
        seeding: Seeding,
        *,
        validation: ValidationRows | None = None,
        **changed: Any,
    ) -> Solution:
        """Minimize the worst-case risk over groups; the settings are our parameters, except for those in `changed`."""
        settings = SolverSettings(**{f.name: getattr(self, f.name) for f in fields(SolverSettings)} | changed)
        n_classes = len(self.classes_) if is_classifier(self) else None
        return minimize_worst_case_risk(
            estimator, training, groups, settings, seeding, n_classes=n_classes, validation=validation
        )

    def _keep_fitted(self, estimator: Predictor, validation: ValidationRows | None) -> Self:
        """Store an estimator that was fitted at once, without groups."""
        self.estimator_ = estimator
        network = trained_network(estimator)
        self.history_ = [] if network is None else network.history_
        self._score_validation(validation)
        return self

    def _keep_solution(self, solution: Solution, validation: ValidationRows | None) -> Self:
        """Store what stage 3 found."""
        self.estimator_ = solution.estimator
        self.solver_ = solution.solver
        self.group_risks_ = solution.group_risks
        self.group_weights_ = solution.group_weights
        self.worst_case_risk_ = solution.worst_case_risk
        self.gap_ = solution.gap
        self.history_ = solution.history
        self._score_validation(validation)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = self.estimator if self.estimator is not None else self._default_estimator(None)
        tags.input_tags.sparse = self.estimator is None or get_tags(inner).input_tags.sparse
        tags.input_tags.allow_nan = allows_nan(inner)
        return tags


class MethodClassifier(ClassifierMixin, MethodEstimator):
    """Base of the classifiers."""

    needs_network: ClassVar[bool] = False  # whether the estimator inside must be a NeuralClassifier
    edition: ClassVar[int] = 1  # raise it when the same settings come to mean another classifier: see `RunConfig`
    _validation_metric = "accuracy_score"

    if TYPE_CHECKING:  # what every method takes, beside parameters of its own

        def __init__(self, estimator: Estimator | None = None, *, random_state: Any = None, **options: Any) -> None: ...

        fit: Any
        verdict_: Verdict  # of methods that have one, see `verdict_of`

    def _default_estimator(self, X: Any) -> Pipeline:
        """Return columns scaled to unit variance, then a logistic regression."""
        from sklearn.linear_model import LogisticRegression

        return scaled(X, ("logistic", LogisticRegression(max_iter=1000)))

    def _read_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Set `classes_` and return the class codes."""
        self.classes_, codes = read_labels(y, n_rows)
        return codes

    def _read_validation_targets(self, y: Any) -> NDArray[Any]:
        """Return the class codes of validation rows."""
        return known_codes(y, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        return self.classes_[predicted_codes(self.estimator_, X)]

    def score(self, X: Any, y: PerRow = None, sample_weight: PerRow = None) -> float:
        """Return the accuracy; y may be left out where X is a dict or Dataset with labels."""
        if y is None and holds_items(X):
            from holdfast.neural.sources import labeled_items

            X, y = labeled_items(X, y)
        return float(super().score(X, y, sample_weight))

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, columns in the order of `classes_`."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        return code_probabilities(self.estimator_, X, len(self.classes_))

    @available_if(_estimator_has("predict_proba"))
    def recalibrate(self, X: Any, y: PerRow, *, n_rows_of_site: int | None = None) -> Self:
        """Return a copy with probabilities that are corrected for one site, by labeled rows of that site.

        Parameters
        ----------
        X : rows of the site, as for `predict`
        y : labels of shape (n_rows,)
        n_rows_of_site : int, optional
            How many rows the site has, with or without a label. No more labels than that are called for.

        Returns
        -------
        classifier
            Its `estimator_.recalibration` says what was corrected. The classifier itself is not fitted again.
        """
        check_is_fitted(self)
        X, codes, n_classes = self._check_rows(X, reset=False), known_codes(y, self.classes_), len(self.classes_)
        inner = self.estimator_
        if isinstance(inner, RecalibratedClassifier):  # an earlier correction is replaced
            inner = inner.estimator
        found = recalibrate(log_probabilities(inner, X, n_classes), codes, n_rows_of_site=n_rows_of_site)
        corrected = copy.copy(self)
        corrected.estimator_ = RecalibratedClassifier(inner, found)
        return corrected

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the final estimator's confidence scores."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(self._check_rows(X, reset=False)))


class MethodRegressor(RegressorMixin, MethodEstimator):
    """Base of the regressors."""

    _validation_metric = "r2_score"

    def _default_estimator(self, X: Any) -> Pipeline:
        """Return columns scaled to unit variance, then a ridge regression."""
        from sklearn.linear_model import Ridge

        return scaled(X, ("ridge", Ridge()))

    def _read_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Return the targets as floats."""
        column = read_column(y)
        try:
            targets = np.asarray(column.tolist() if column.dtype.kind in "OU" else column, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise LabelsError(
                f"y must contain numbers, but {problem}. For classes use a classifier instead of {type(self).__name__}."
            ) from problem
        if len(targets) != n_rows:
            raise LabelsError(f"y has {len(targets)} targets for {n_rows} rows. Pass one target for each row of X.")
        n_bad = int((~np.isfinite(targets)).sum())
        if n_bad:
            raise LabelsError(f"Input y contains NaN or infinity in {n_bad} of {n_rows} rows. Drop those rows.")
        return targets

    def _read_validation_targets(self, y: Any) -> NDArray[Any]:
        """Return the targets of validation rows as floats."""
        return self._read_targets(y, len(y))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._check_rows(X, reset=False)), dtype=np.float64)


def _as_array(labels: list[Any]) -> NDArray[Any]:
    """Return labels as an array that keeps each as it is, even "(3 small environments)" next to numbers."""
    if len({type(label) for label in labels}) == 1 and not isinstance(labels[0], tuple):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    for place, label in enumerate(labels):
        array[place] = label
    return array


def scaled(X: Any, last: tuple[str, Any]) -> Pipeline:
    """Return a pipeline that scales columns to unit variance before the last step."""
    return Pipeline([("scale", StandardScaler(with_mean=not sp.issparse(X))), last])


def check_choice(estimator: object, parameter: str, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of the choices."""
    value = getattr(estimator, parameter)
    if value not in choices:
        raise ParameterError(
            f"The {parameter!r} parameter of {type(estimator).__name__} must be one of "
            f"{', '.join(map(repr, choices))}. Got {value!r} instead."
        )


def warn_single_environment(environments: Sequence[Environment], method: str) -> bool:
    """Warn and return True when there are not two environments to compare."""
    if len(environments) >= 2:
        return False
    what = "there is only one, so the ordinary model is fitted. Pass rows of at least two environments, named "
    what += "with environments=frame['site']."
    if environments[0].name.endswith("small environments)"):  # as `merge_small_environments` calls them
        what = "each has too few rows, so they were merged into one, and the ordinary model is fitted. Use a "
        what += "coarser label, for example the region instead of the site."
    warn(f"{method} compares environments, but {what}", SingleEnvironmentWarning)
    return True


def fit_erm(
    estimator: Estimator,
    training: TrainingRows,
    seeding: Seeding,
    *,
    weighting: str = "pooled",
    validation: ValidationRows | None = None,
    selection: str | None = None,
) -> Any:
    """Return the estimator fitted on all rows, over class codes."""
    estimator = seeded_clone(estimator, seeding, "erm")
    rows = np.arange(training.n_rows)
    if is_network(estimator):
        from holdfast.interpolation.gradient import NetworkFit, fit_network

        objective = "pooled" if weighting == "pooled" else "erm"
        fit = NetworkFit(objective=objective, validation=validation, selection=selection, stage="training")
        return fit_network(estimator, training, training.environment_groups(), seeding, fit)
    weights = training.sample_weight
    if weighting == "environments":
        weights = training.weights.copy()
        share = weights.sum() / len(training.environments)
        for environment in training.environments:
            weights[environment.rows] *= share / weights[environment.rows].sum()
    return fit_rows(estimator, training.X, training.y, rows, weights)
