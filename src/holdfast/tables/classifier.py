"""A classifier with the preprocessing of its table: what `fit` saves, and what `predict` and `evaluate` load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.exceptions import ParameterError, SavedModelError, TableError
from holdfast.tables.files import TableFile
from holdfast.tables.inputs import TableRoles, TrainingTable

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.tables.schema import TableSchema

CHUNK_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a classifier says about some rows."""

    kept: pd.DataFrame  # columns handed through
    labels: NDArray[Any]  # (n_rows,)
    probabilities: NDArray[np.float64] | None  # (n_rows, n_classes); None where the estimator has none


@dataclass(frozen=True, eq=False)
class TableClassifier:
    """Turns rows of a table into predicted labels and probabilities."""

    roles: TableRoles
    pipeline: Any  # fitted: "features" makes a matrix of plain features, "classifier" is one of our methods
    names: dict[str, str]  # of the estimator and the method, as the command line knows them
    warnings: tuple[str, ...] | None = None  # of the fit; None where nobody kept them

    @classmethod
    def fit(cls, training: TrainingTable, classifier: Any, *, dense: bool, names: dict[str, str]) -> TableClassifier:
        """Fit the preprocessing, then the classifier, on a table."""
        from sklearn.pipeline import Pipeline

        preprocessor, matrix = fit_preprocessor(training.roles.schema, training.features, dense=dense)
        classifier.fit(matrix, training.y, environments=training.environments)
        pipeline = Pipeline([("features", preprocessor), ("classifier", classifier)])
        return cls(training.roles, pipeline, names)

    @classmethod
    def load(cls, folder: str | Path) -> TableClassifier:
        """Load what `save` wrote."""
        from holdfast.saving import load, read_manifest

        extra = read_manifest(folder)["extra"]
        if "table" not in extra:
            raise SavedModelError(
                f"{folder} holds a classifier that was not fitted on a table. Pass a folder that 'holdfast fit' wrote."
            )
        kept = extra.get("warnings")
        told = None if kept is None else tuple(map(str, kept))
        return cls(TableRoles.from_dict(extra["table"]), load(folder), dict(extra["names"]), told)

    def save(self, folder: str | Path, *, overwrite: bool) -> None:
        """Save the pipeline, with the table's columns beside it."""
        from holdfast.saving import save

        extra = {"table": self.roles.to_dict(), "names": self.names, "warnings": list(self.warnings or ())}
        save(self.pipeline, folder, overwrite=overwrite, extra=extra)

    @property
    def classifier(self) -> Any:
        """The fitted method."""
        return self.pipeline.named_steps["classifier"]

    def check_same_label(self, other: TableClassifier) -> None:
        """Refuse to be compared with a classifier of another label."""
        labels = [fitted.roles.label for fitted in (self, other)]
        classes = [sorted(map(str, fitted.classifier.classes_)) for fitted in (self, other)]
        if labels[0] != labels[1] or classes[0] != classes[1]:
            told = [f"{label!r} ({listed(values)})" for label, values in zip(labels, classes, strict=True)]
            raise ParameterError(
                f"The classifiers predict different labels, {told[0]} and {told[1]}, so that comparing them says "
                "nothing. Pass classifiers that were fitted with the same --label."
            )

    def predictions(self, table: TableFile, keep: Sequence[str] = ()) -> Iterator[Predictions]:
        """Predict a table in chunks; columns in `keep` are handed through."""
        schema = self.roles.schema
        schema.require(table.columns)
        columns = list(dict.fromkeys([*schema.names(), *keep]))
        for chunk in table.chunks(columns, schema.types, CHUNK_ROWS):
            matrix = self.pipeline.named_steps["features"].transform(schema.features(chunk))
            has_probabilities = hasattr(self.classifier, "predict_proba")
            yield Predictions(
                chunk[list(keep)],
                self.classifier.predict(matrix),
                self.classifier.predict_proba(matrix) if has_probabilities else None,
            )


def fit_preprocessor(schema: TableSchema, features: pd.DataFrame, *, dense: bool) -> tuple[Any, Any]:
    """Return the fitted preprocessor of plain features and their matrix."""
    from holdfast.tables.preprocessing import make_preprocessor

    preprocessor = make_preprocessor(schema, dense=dense)
    try:
        return preprocessor, preprocessor.fit_transform(features)
    except ValueError as problem:
        if "vocabulary" in str(problem) or "no terms remain" in str(problem):
            raise TableError(
                "A --text column has no word that two rows share. Drop it, or leave out --text."
            ) from problem
        raise
