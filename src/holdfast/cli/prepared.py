"""A method behind the preprocessing of a table, fitted together, so that rows held out are not looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if

from holdfast.cli.table_classifier import fit_preprocessor

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.datasets.schema import TableSchema


class PreparedMethod(BaseEstimator):
    """Does what `holdfast fit` does: one preprocessor for all rows it is given, then the method.

    Parameters
    ----------
    method : estimator
        One of our methods, unfitted.
    schema : TableSchema
        The columns.
    dense : bool
        Whether the estimator inside takes no sparse matrix.
    """

    def __init__(self, method: Any, schema: TableSchema, *, dense: bool = False) -> None:
        self.method = method
        self.schema = schema
        self.dense = dense

    def fit(self, X: pd.DataFrame, y: NDArray[Any], environments: Any = None) -> PreparedMethod:
        """Fit on plain features, see `TableSchema.features`."""
        self.preprocessor_, matrix = fit_preprocessor(self.schema, X, dense=self.dense)
        self.method_ = clone(self.method).fit(matrix, y, environments=environments)
        self.classes_ = self.method_.classes_
        return self

    def predict(self, X: pd.DataFrame) -> NDArray[Any]:
        """Return labels."""
        labels: NDArray[Any] = self.method_.predict(self.preprocessor_.transform(X))
        return labels

    @available_if(lambda self: hasattr(self.method_, "predict_proba"))
    def predict_proba(self, X: pd.DataFrame) -> NDArray[Any]:
        """Return probabilities of shape (n_rows, n_classes)."""
        probabilities: NDArray[Any] = self.method_.predict_proba(self.preprocessor_.transform(X))
        return probabilities
