"""scikit-learn's base classes with types, so that type checkers find misspelled parameters.

If a base class has no types, mypy accepts any parameter, such as `PIClassifier(halfs="soft")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from holdfast.environments import PerRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    class BaseEstimator:
        """What `sklearn.base.BaseEstimator` offers, and what `fit` learns by its rules."""

        classes_: NDArray[Any]
        n_features_in_: int
        feature_names_in_: Any

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters."""

        def set_params(self, **params: Any) -> Self:
            """Change parameters."""

        @classmethod
        def _get_param_names(cls) -> list[str]:
            """Return the names of the parameters that `__init__` lists."""

        def __sklearn_tags__(self) -> Any:
            """Return what the estimator can do."""

        def __sklearn_clone__(self) -> Any:
            """Return an unfitted copy."""

        def __getstate__(self) -> Any: ...

        def _repr_html_(self) -> Any: ...

        def _check_feature_names(self, *args: Any, **kwargs: Any) -> Any: ...

    class ClassifierMixin:
        """What `sklearn.base.ClassifierMixin` offers."""

        def score(self, X: Any, y: PerRow, sample_weight: PerRow = None) -> float:
            """Return the accuracy."""

    class RegressorMixin:
        """What `sklearn.base.RegressorMixin` offers."""

        def score(self, X: Any, y: PerRow, sample_weight: PerRow = None) -> float:
            """Return the share of the variance that is explained."""

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin"]
