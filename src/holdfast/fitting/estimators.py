"""Fit any scikit-learn estimator on weighted rows, and read its predictions as class codes.

Codes are 0..n_classes-1. An estimator that was fitted on rows that miss some class answers with probability zero there.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from holdfast.environments import PerRow, Rows, Weights, listed, take_rows
from holdfast.exceptions import FeaturesError, HoldfastError, ParameterError
from holdfast.fitting.kinds import Estimator, EstimatorT, Network, Predictor, ProbabilisticClassifier, TrainedNetwork
from holdfast.seeding import Seeding

BOOSTERS = ("xgboost", "lightgbm", "catboost")  # packages
# A forest answers 0 and 1; beyond one in a thousand its counts of trees say nothing, and a weight 1/P stays bounded.
PROBABILITY_FLOOR = 1e-3
# Ensembles whose parts are fitted to numbers of classes: class weights inside of them are by number already.
RECODERS = ["VotingClassifier", "StackingClassifier", "BaggingClassifier", "OneVsRestClassifier", "OneVsOneClassifier"]


def is_network(estimator: object) -> bool:
    """Return whether an estimator, or the end of a pipeline, is a network."""
    return network_in(estimator) is not None


def network_in(estimator: object) -> Network | None:
    """Return the network that an estimator is, or that a pipeline ends in; None for all else."""
    last = last_step(estimator)
    return last if isinstance(last, Network) else None


def trained_network(estimator: object) -> TrainedNetwork | None:
    """Return the network that an estimator is, or that a pipeline ends in, once it is trained; None for all else."""
    network = network_in(estimator)
    return None if network is None or not hasattr(network, "network_") else cast("TrainedNetwork", network)


def seeded_clone(estimator: EstimatorT, seeding: Seeding, *names: object) -> EstimatorT:
    """Return an unfitted copy whose unset `random_state` parameters, nested ones too, come from the stream `names`."""
    made = copy_unfitted(estimator)
    unset = {
        key: seeding.integer("random_state", key, *names) % 2**31
        for key, value in made.get_params(deep=True).items()
        if (key == "random_state" or key.endswith("__random_state")) and value is None
    }
    if unset:
        made.set_params(**dict(sorted(unset.items())))
    return made


def over_codes(estimator: EstimatorT, classes: NDArray[Any]) -> EstimatorT:
    """Return the estimator with class weights and positive labels by code: a copy where they were by label.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> over_codes(LogisticRegression(class_weight={"ill": 5}), np.array(["ill", "well"]))
    LogisticRegression(class_weight={0: 5})
    """
    codes = {label: code for code, label in enumerate(classes.tolist())}
    if all(label == code for label, code in codes.items()):
        return estimator
    parameters = estimator.get_params(deep=True)
    inside = {"": estimator} | {f"{name}__": part for name, part in parameters.items()}
    recoded = tuple(name for name, part in inside.items() if type(part).__name__ in RECODERS)
    changed: dict[str, Any] = {}
    for name, value in parameters.items():
        is_weights = name.endswith(("class_weight", "class_weights")) and isinstance(value, dict)
        is_label = name.endswith("pos_label") and value is not None
        if not (is_weights or is_label) or name.startswith(recoded):
            continue
        unknown = [repr(label) for label in (value if is_weights else [value]) if label not in codes]
        if unknown:
            raise ParameterError(
                f"{name} of {type(estimator).__name__} names {listed(unknown)}, but the labels are "
                f"{listed([repr(label) for label in codes])}. Name these."
            )
        changed[name] = {codes[label]: weight for label, weight in value.items()} if is_weights else codes[value]
    if not changed:
        return estimator
    made = copy_unfitted(estimator)
    made.set_params(**changed)
    return made


def copy_unfitted(estimator: EstimatorT) -> EstimatorT:
    """Return an unfitted copy; say what to do where CatBoost's parameters cannot be copied."""
    try:
        copied: EstimatorT = clone(estimator)
        return copied
    except RuntimeError as problem:
        raise ParameterError(
            f"{type(last_step(estimator)).__name__} cannot be copied ({' '.join(str(problem).split())[-120:]}). Pass "
            "lists and dicts as tuples, for example CatBoostClassifier(cat_features=('site',), class_weights=(1, 5))."
        ) from problem


def stopped_like(estimator: EstimatorT, whole: Predictor) -> EstimatorT:
    """Return histogram boosting that makes no more rounds than the fit of all rows made; all else as it is.

    With early_stopping="auto" it stops early on more than 10,000 rows only: parts of a table would be fitted longer,
    and so answer otherwise, than the whole.
    """
    fitted = last_step(whole)
    if getattr(fitted, "early_stopping", None) != "auto" or not getattr(fitted, "do_early_stopping_", False):
        return estimator
    made = copy_unfitted(estimator)
    last_step(made).set_params(max_iter=fitted.n_iter_)
    return made


def last_step(estimator: object) -> Any:
    """Return the estimator at the end of a pipeline, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def has_threshold(estimator: object) -> bool:
    """Return whether an estimator, or the end of a pipeline, predicts by a threshold of the probability."""
    return type(last_step(estimator)).__name__ in ("FixedThresholdClassifier", "TunedThresholdClassifierCV")


def library_of(value: object) -> str:
    """Return the package that a value's class is from; CatBoost's errors are those of its compiled part."""
    return type(value).__module__.partition(".")[0].lstrip("_")


def sample_weight_name(estimator: Estimator) -> str | None:
    """Return the keyword under which `estimator.fit` takes row weights, None when it takes none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> sample_weight_name(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = sample_weight_name(last) if hasattr(last, "fit") else None
        return None if inner is None else f"{name}__{inner}"
    parameters = inspect.signature(estimator.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    routes = has_threshold(estimator)  # and nothing else
    passes_on = not routes and any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    inside: Any = getattr(estimator, "estimator", None)
    return sample_weight_name(inside) if passes_on and hasattr(inside, "fit") else None


def weighted_steps(estimator: Estimator) -> list[str]:
    """Return the keywords for the weights of every step that takes them: a scaler sees what the classifier sees."""
    if not isinstance(estimator, Pipeline):
        name = sample_weight_name(estimator) if hasattr(estimator, "fit") else None
        return [] if name is None else [name]
    return [f"{name}__{inner}" for name, step in estimator.steps for inner in weighted_steps(step)]


def require_sample_weight(estimator: Estimator, *, asked_by: str) -> None:
    """Refuse an estimator that cannot weight its rows."""
    if sample_weight_name(estimator) is None:
        raise ParameterError(
            f"{asked_by} needs an estimator whose fit takes sample_weight (or a Pipeline that ends in one). "
            f"Got {type(estimator).__name__} instead. Use for example LogisticRegression, "
            "HistGradientBoostingClassifier or RandomForestClassifier."
        )


def require_classifier(estimator: object, *, asked_by: str) -> None:
    """Refuse a regressor, and what else is no classifier, where classes are predicted: it would learn their codes."""
    kind = (get_tags(estimator).estimator_type or "").replace("_", " ")
    if kind != "classifier" and (kind or not hasattr(estimator, "predict")):
        what = f"is {'an' if kind[0] in 'aeiou' else 'a'} {kind}" if kind else "has no predict"
        raise ParameterError(
            f"{asked_by} predicts classes, but its estimator {what} ({type(last_step(estimator)).__name__}). "
            "Pass a classifier, for example LogisticRegression() or HistGradientBoostingClassifier()."
        )


def fit_rows(estimator: Estimator, X: Any, y: NDArray[Any], rows: Rows, weights: Weights | None = None) -> Any:
    """Fit `estimator` itself on the rows, `weights` one for each of them; rows of weight zero stay out.

    A classifier that sees one class only becomes that constant, because most refuse such rows.
    """
    if weights is not None:
        n_rows = len(rows)
        rows, weights = rows[weights > 0], weights[weights > 0]
        if not len(rows):
            raise FeaturesError(
                f"All {n_rows} rows that {type(last_step(estimator)).__name__} is to be fitted on (those of an "
                "environment or a group) have weight zero. Leave them out, or give some a positive sample_weight."
            )
    targets = y[rows]
    features = take_rows(X, rows)
    codes = None
    if not is_regressor(estimator):
        if (targets == targets[0]).all():
            return DummyClassifier(strategy="most_frequent").fit(np.zeros((len(rows), 1)), targets)
        if "xgboost" in sys.modules and any(
            library_of(part) == "xgboost" for part in (estimator, *estimator.get_params(deep=True).values())
        ):
            codes, targets = np.unique(targets, return_inverse=True)
    if weights is not None:
        require_sample_weight(estimator, asked_by="weighting rows")
    keywords = {} if weights is None else dict.fromkeys(weighted_steps(estimator), weights)
    try:
        fitted = _fit_with_gaps(estimator, features, targets, keywords)
        return fitted if codes is None or len(codes) == codes[-1] + 1 else RecodedClassifier(fitted, codes)
    except HoldfastError:
        raise
    except Exception as problem:
        if not isinstance(problem, ValueError | TypeError) and library_of(problem) not in BOOSTERS:
            raise
        raise fit_error(estimator, features, problem) from problem


def fit_error(estimator: object, features: Any, problem: Exception) -> FeaturesError:
    """Return the error for rows that an estimator refuses: with the columns that are empty, or hold no numbers."""
    empty, words = empty_columns(features), _text_columns(features)
    said = f"{listed(empty, most=3)} has no value in any of them: " if empty else ""
    advice = (
        f". {listed(words, most=3)} {'does' if len(words) == 1 else 'do'} not hold numbers: encode such columns in "
        "a Pipeline, or use TableClassifier, which does so."
    )
    name = type(last_step(estimator)).__name__
    return FeaturesError(
        f"{name} could not be fitted on these rows: {said}{str(problem).rstrip('.')}{advice if words else ''}"
    )


def _fit_with_gaps(estimator: Estimator, features: Any, targets: NDArray[Any], keywords: dict[str, Any]) -> Any:
    """Fit; where columns without any value are refused, as histogram boosting does, they become zeros: never used."""
    # Outside of metadata routing a keyword goes straight to the step it names, whatever the global setting is.
    with sklearn.config_context(enable_metadata_routing=False):
        try:
            return estimator.fit(features, targets, **keywords)
        except ValueError:
            if not empty_columns(features):
                raise
            return estimator.fit(_with_values(features), targets, **keywords)


class FittedParts(BaseEstimator):
    """Base of estimators that are made of fitted ones: nothing is left to fit, and a clone is the same object."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def fit(self, X: Any, y: PerRow) -> Self:
        """Return self: the parts are fitted already."""
        return self


class FittedClassifier(ClassifierMixin, FittedParts):
    """Base of classifiers that are made of fitted ones and give probabilities of class codes."""

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, (n_rows, n_classes)."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


@dataclass(eq=False, repr=False)
class RecodedClassifier(FittedClassifier):
    """A fitted classifier that numbers its classes without gaps, over the codes that its rows have.

    XGBoost takes no other numbers, and an environment may lack a class.
    """

    estimator: ProbabilisticClassifier
    codes: NDArray[np.intp]

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes that it knows."""
        return self.codes

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return self.codes[predicted_codes(self.estimator, X)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of `classes_`."""
        return np.asarray(self.estimator.predict_proba(X), dtype=np.float64)


def empty_columns(X: Any, names: NDArray[Any] | None = None) -> list[str]:
    """Return the columns without any value: their names, those of a frame or given, or numbers.

    Examples
    --------
    >>> empty_columns(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    ['column 1']
    """
    if hasattr(X, "isna"):
        return [repr(name) for name in X.columns[X.isna().all()]]
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f":
        return []
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    return [f"column {column}" if names is None else repr(names[column]) for column in empty]


def _text_columns(X: Any) -> list[str]:
    """Return the columns of a frame that hold texts, categories or dates."""
    kinds = {name: getattr(X[name].dtype, "kind", "O") for name in getattr(X, "columns", ())}
    return [repr(name) for name, kind in kinds.items() if kind not in "biufc"]


def _with_values(X: Any) -> Any:
    """Return rows with zeros in columns without any value."""
    if hasattr(X, "isna"):
        empty = [name for name in X.columns[X.isna().all()] if X[name].dtype.kind == "f"]
        return X.assign(**dict.fromkeys(empty, 0.0))
    return np.where(np.isnan(X).all(axis=0), np.zeros(1, dtype=X.dtype), X)


def has_probabilities(estimator: object) -> bool:
    """Return whether a fitted classifier gives probabilities."""
    return hasattr(estimator, "predict_proba")


def code_probabilities(estimator: Predictor, X: Any, n_classes: int) -> NDArray[np.float64]:
    """Return (n_rows, n_classes) probabilities over the codes; a vote of 0 or 1 from classifiers without them."""
    if has_probabilities(estimator):
        classifier = cast("ProbabilisticClassifier", estimator)
        answers = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        if answers.shape[1] == n_classes:
            return answers
        probabilities = np.zeros((len(answers), n_classes))
        probabilities[:, np.asarray(classifier.classes_, dtype=np.intp)] = answers
        return probabilities
    return np.eye(n_classes)[predicted_codes(estimator, X)]


def predicted_codes(estimator: Predictor, X: Any) -> NDArray[np.intp]:
    """Return the predicted codes, (n_rows,); CatBoost gives them as a column."""
    return np.asarray(estimator.predict(X)).ravel().astype(np.intp, copy=False)
