"""`TableModel`: what classifiers and regressors of a table share."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from holdfast.exceptions import HoldfastError, NewSiteWarning, ParameterError, SavedModelError, warn
from holdfast.newsite.profile import TrainingProfile
from holdfast.tables.files import CHUNK_ROWS, TableLike, TableSource, open_table
from holdfast.tables.roles import TableOptions, TableRoles, Task, read_environments
from holdfast.tables.writing import TableWriter

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.newsite.profile import ColumnCheck


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about some rows."""

    kept: pd.DataFrame  # columns handed through
    labels: NDArray[Any]  # (n_rows,) labels, or numbers
    probabilities: NDArray[np.float64] | None  # (n_rows, n_classes); None where the estimator has none


@dataclass(eq=False, repr=False)
class TableModel(BaseEstimator):
    """Base of the models of a table; a subclass says how labels are read, fitted and scored.

    The parameters are those of `TableClassifier`.
    """

    _: KW_ONLY
    label: str
    environment: str | Sequence[str]
    estimator: Any = None
    method: str = "erm"
    environment_by: str | None = None
    drop: str | Sequence[str] = ()
    text: str | Sequence[str] = ()
    categorical: str | Sequence[str] = ()
    missing: str | Sequence[str] = ()
    scale: str | Sequence[str] = ()
    missing_labels: str = "stop"
    weight: str | None = None
    subjects: str | None = None
    random_state: int | None = 0

    _task: ClassVar[Task]
    # A cast in place of an annotation, which would make a parameter of it.
    _folder = cast("str | None", None)  # where it was loaded from, for errors
    profile_ = cast("TrainingProfile | None", None)  # what the columns looked like at the known sites; may be unknown
    if TYPE_CHECKING:  # what `fit` and `load` set
        pipeline_: Pipeline = field(init=False)
        roles_: TableRoles = field(init=False)
        notes_: tuple[str, ...] = field(init=False)

    @property
    def options(self) -> TableOptions:
        """What the columns are, checked."""
        given = {option.name: getattr(self, option.name) for option in fields(TableOptions) if option.name != "task"}
        return TableOptions(**given, task=self._task)

    @property
    def names(self) -> dict[str, str]:
        """The names of estimator and method."""
        name = self.estimator if isinstance(self.estimator, str) else type(self.estimator).__name__
        return {"estimator": name, "method": self.method}

    def open(self, table: TableLike) -> TableSource:
        """Open a table, to be read as the one that it was fitted on."""
        check_is_fitted(self, "pipeline_")
        return open_table(table, self.roles_.missing)

    def read_label(self, source: TableSource) -> pd.Series[Any]:
        """Return the label column as it is written."""
        source.require([self.roles_.label])
        return source.read([self.roles_.label])[self.roles_.label]

    def read_sites(self, source: TableSource, columns: Sequence[str]) -> NDArray[Any]:
        """Return the environment of each row, (n_rows,)."""
        frame = source.read(list(dict.fromkeys(columns)), self.roles_.types(columns))
        return read_environments(frame, columns, self.roles_.period, self.roles_.environment_storages)

    def predict_chunks(self, table: TableLike, keep: Sequence[str] = ()) -> Iterator[Predictions]:
        """Predict a table a chunk at a time; columns in `keep` are handed through."""
        source, roles = self.open(table), self.roles_
        roles.schema.require(source.columns)
        first, wanted = True, list(dict.fromkeys([*roles.needed(source.columns), *keep]))
        for chunk in source.chunks(wanted, roles.needed_types(source.columns), CHUNK_ROWS):
            with naming(self._folder) if self._folder else nullcontext():
                features = roles.features(chunk)
                labels, probabilities = self._answer(features)
            if first and self.profile_ is not None:
                _warn_of_misfits(self.profile_.check(features))
            first = False
            yield Predictions(chunk[list(keep)], labels, probabilities)

    def _answer(self, features: Any) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Return labels and, where the method has them, probabilities."""
        return self.pipeline_.predict(features), None

    def predict(self, table: TableLike) -> NDArray[Any]:
        """Return the most probable label, or the number, of each row of a file or frame."""
        parts = [part.labels for part in self.predict_chunks(table)]
        return np.concatenate(parts) if parts else self._nothing()

    def _count(self, labels: NDArray[Any]) -> Mapping[str, int]:
        """Return how many rows were given each label."""
        return Counter(map(str, labels))

    def _nothing(self) -> NDArray[Any]:
        """Return the answer about a table without rows."""
        return np.empty(0)

    def _probability_columns(self) -> list[str]:
        """Return the names of the columns of probabilities in a file of predictions."""
        return []

    def write_predictions(
        self, table: TableLike, file: str | Path, *, keep: Sequence[str] = (), for_spreadsheets: bool = False
    ) -> Counter[str]:
        """Write predictions, and probabilities of classes, of a table to a file, a chunk at a time.

        Parameters
        ----------
        table : path or data frame
        file : path
            A .csv, .tsv or .parquet file with the columns `prediction` and `probability_<label>`; it is replaced.
        keep : sequence of str
            Columns of the table to copy next to them.
        for_spreadsheets : bool
            Put an apostrophe before texts that a spreadsheet would take for a formula.

        Returns
        -------
        Counter
            How many rows were given each label; of a regressor, how many rows there are, under "".
        """
        import pandas as pd

        source, names = self.open(table), self._probability_columns()
        source.require(keep)
        keep, written = list(dict.fromkeys(keep)), {"prediction", *names}
        for name in keep:
            if name in written:
                raise ParameterError(f"keep={name!r} is the name of a column that is written. Rename it in the table.")
        counts: Counter[str] = Counter()
        with TableWriter(Path(file), for_spreadsheets=for_spreadsheets) as writer:
            for part in self.predict_chunks(source, keep):
                frame = pd.DataFrame({"prediction": part.labels})
                if part.probabilities is not None:
                    frame = pd.concat([frame, pd.DataFrame(part.probabilities, columns=names)], axis=1)
                writer.write(pd.concat([part.kept.reset_index(drop=True), frame], axis=1))
                counts.update(self._count(part.labels))
            if not writer.n_rows:
                writer.write(pd.DataFrame(columns=[*keep, "prediction", *names]))
        return counts

    def _extra(self) -> dict[str, Any]:
        """Return what is saved beside the pipeline, as plain JSON values."""
        options = self.options
        return {
            "table": self.roles_.to_dict(),
            "names": self.names,
            "options": {name: list(getattr(options, name)) for name in ("drop", "text", "categorical")},
            "notes": list(self.notes_),
        }

    def _card(self) -> str:
        """Return the model card, for people, that is saved with it; empty for none."""
        return ""

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save it as a folder that `load` reads, and `holdfast.load` as a pipeline. Nothing in it can execute code.

        The folder of a classifier also has a model card for people, `card.md`, which you may edit.
        """
        from holdfast.saving import save

        check_is_fitted(self, "pipeline_")
        save(self.pipeline_, folder, overwrite=overwrite, extra=self._extra(), card=self._card())

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, trust: Sequence[str] = ()) -> Self:
        """Load what `save` wrote; `trust` as for `holdfast.load`."""
        from holdfast.saving import load, read_manifest

        with naming(os.fspath(folder)):
            extra = read_manifest(folder)["extra"]
            cls._check_kind(folder, extra)
            roles = TableRoles.from_dict(extra["table"])
            options: dict[str, Any] = {name: tuple(map(str, v)) for name, v in extra.get("options", {}).items()}
            options |= {"label": roles.label, "environment": roles.environments, "environment_by": roles.period}
            options |= {"missing": roles.missing, "scale": tuple(scale.text for scale in roles.scales)}
            fitted = cls(**options, **extra.get("names", {}))
            fitted.pipeline_, fitted.roles_ = load(folder, trust=trust), roles
            fitted.notes_ = tuple(map(str, extra.get("notes", ())))
            fitted._restore(extra)
            fitted._folder = os.fspath(folder)
        return fitted

    @classmethod
    def _check_kind(cls, folder: str | os.PathLike[str], extra: Mapping[str, Any]) -> None:
        """Refuse what was saved by something else."""
        if "table" not in extra:
            raise SavedModelError(
                f"{folder} is a classifier that was not fitted on a table. Pass a folder that 'holdfast fit' wrote."
            )

    def _restore(self, extra: Mapping[str, Any]) -> None:
        """Set what a subclass adds to `_extra`."""


@contextmanager
def naming(folder: str) -> Iterator[None]:
    """Turn what Python says about a saved model that makes no sense into an error that names its folder."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as problem:
        raise SavedModelError(
            f"{folder!r} is not as 'holdfast fit' saves a classifier ({type(problem).__name__}: {problem}). "
            "It was changed, or another version wrote it; fit and save it again."
        ) from problem


def refuse_options(name: str, method: type | None, options: Mapping[str, Any]) -> Collection[str]:
    """Return the names of a method's parameters; refuse options that it does not have."""
    parameters = {} if method is None else inspect.signature(method).parameters
    for key, value in options.items():
        if key not in parameters:
            raise ParameterError(
                f"method={name!r} has no setting {key}={value!r}. Leave it out, or choose another method."
            )
    return parameters


def _warn_of_misfits(found: Sequence[ColumnCheck]) -> None:
    """Warn of columns that do not fit what the model was fitted on."""
    if found:
        more = f" {len(found) - 3} more columns do not fit." if len(found) > 3 else ""
        warn(
            f"{' '.join(check.sentence for check in found[:3])}{more} Predictions may be wrong: run 'holdfast "
            "check', or TableClassifier.check.",
            NewSiteWarning,
        )
