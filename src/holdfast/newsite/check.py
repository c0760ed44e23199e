"""Check whether a model can be used at a new site, by rows of the site without labels.

The check asks in this order. Does any column not fit: another unit, levels never seen, missing everywhere? Do effects
of unstable columns differ there, and can the model be adapted? Which accuracy is to be expected? The rules that turn
this into one advice are the table `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import listed
from holdfast.metrics import Interval
from holdfast.newsite.adapt import Adaptation
from holdfast.newsite.forecast import ForecastBasis, forecast_accuracy, forecast_adapted, forecast_auroc, summarize
from holdfast.newsite.profile import ColumnCheck, TrainingProfile
from holdfast.newsite.relation import Relation
from holdfast.newsite.trials import LEAST_ROWS
from holdfast.stable.verdict import UNCERTAIN

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Advice = Literal["use", "adapt", "label", "do_not_use"]
MOST_TRIED = 10  # columns of which it is tried how much they matter
MATTERS = 0.05  # share of predictions that must change for a column to matter
EVERYWHERE = 0.5  # share of the rows that do not fit from which on the model must not be used as it is
LOST = 0.05  # accuracy that the forecast must lie below that at the known sites for labels to be advised
LEAST_ADDED = 0.005  # accuracy that adapting must be expected to add
UNKNOWN = 0.7  # width of the forecast's interval from which on it says nothing, and labels are advised


@dataclass(frozen=True, eq=False)
class SiteCheck:
    """What the rows of a new site say about using a model there; `str()` is the answer."""

    n_rows: int
    advice: Advice
    columns: tuple[ColumnCheck, ...]  # that do not fit
    moved: tuple[ColumnCheck, ...]  # that are distributed differently
    adaptation: Adaptation | None  # None where the model is no stable classifier
    forecast: Interval | None  # accuracy to expect, adapted if so advised; None where nothing is known
    auroc: Interval | None  # to expect; None where unknown, and for more than two classes
    known_accuracy: float  # at the known sites, out of fold
    lowest_accuracy: float  # at the worst known site, by a fit without it
    predicted: Mapping[str, float]  # class -> share of the predictions
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # what was wrong with the rows that the model was fitted on
    as_it_is: float | None = None  # accuracy to expect of a model before it is adapted
    alike: bool = False  # whether all rows are copies of one

    def __str__(self) -> str:
        return " ".join([self.answer, *self.remarks])

    @property
    def answer(self) -> str:
        """The advice in one sentence."""
        if self.doubts:
            return f"{REFIT} {self.doubts[0]}"
        if self.is_unsure:
            return UNSURE
        return ANSWERS[self.advice].format(columns=listed([f"`{c.name}`" for c in self.misfits], most=3))

    @property
    def is_unsure(self) -> bool:
        """Whether the model may be used, but its accuracy may be much lower there, or nothing is known about it."""
        is_low = self.forecast is None or self.known_accuracy - self.forecast.low > UNCERTAIN
        return self.advice == "use" and is_low

    @property
    def gain(self) -> float:
        """Accuracy that adapting is expected to bring; infinite where it is not known."""
        return np.inf if self.forecast is None or self.as_it_is is None else self.forecast.value - self.as_it_is

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the advice rests on, a sentence each."""
        lines = [*self.doubts[1:], *(check.sentence for check in self.columns)]
        if self.adaptation is not None and not self.misfits:
            lines += self.adaptation.sentences
        if self.adaptation is not None and self.relations and self.adaptation.reason not in ("", "done"):
            lines.append(self.adaptation.answer)
        if self.forecast is not None:
            value, known = self.forecast, f"at the known sites it is {self.known_accuracy:.2f}"
            once = instead = ""
            if self.as_it_is is not None:
                once, instead = " once adapted", f", without adapting {self.as_it_is:.2f}"
            lines.append(
                f"Expected accuracy{once}: {value.value:.2f} (between {value.low:.2f} and {value.high:.2f}){instead}; "
                f"{known}."
            )
        if self.auroc is not None:
            value = self.auroc
            lines.append(f"Expect an AUROC of {value.value:.2f}, between {value.low:.2f} and {value.high:.2f}.")
        return (*lines, *self.notes)

    @property
    def misfits(self) -> tuple[ColumnCheck, ...]:
        """The columns that forbid to use the model as it is."""
        return tuple(filter(forbids, self.columns))

    @property
    def relations(self) -> tuple[Relation, ...]:
        """What the unstable columns say about the label there; unknown where the columns that tell it do not fit."""
        return () if self.adaptation is None or self.misfits else self.adaptation.relations

    @property
    def turned(self) -> tuple[str, ...]:
        """The unstable columns whose effects surely differ from every known site."""
        return tuple(relation.name for relation in self.relations if relation.differs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "n_rows": self.n_rows,
            "advice": self.advice,
            "columns": [check.to_dict() for check in self.columns],
            "moved": [check.to_dict() for check in self.moved],
            "turned": list(self.turned),
            "adaptation": None if self.adaptation is None else self.adaptation.to_dict(),
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
            "as_it_is": self.as_it_is,
            "auroc": None if self.auroc is None else self.auroc.to_dict(),
            "known_accuracy": self.known_accuracy,
            "lowest_accuracy": self.lowest_accuracy,
            "predicted": dict(self.predicted),
            "notes": list(self.notes),
            "doubts": list(self.doubts),
        }


def forbids(check: ColumnCheck) -> bool:
    """Return whether a column forbids to use the model: it does not fit in most rows, and predictions need it."""
    return check.share >= EVERYWHERE and not check.changed < MATTERS  # unknown counts as much


REFIT = "Do not use the model yet: correct its training data, and fit it again."
UNSURE = "Use the model at this site, and label about 50 rows to be sure: its accuracy may be much lower there."
ANSWERS: Mapping[Advice, str] = {
    "use": "Use the model at this site.",
    "adapt": "Adapt the model to this site before you use it.",
    "label": "Label about 50 rows of this site before you use the model: recalibrate and evaluate it with them.",
    "do_not_use": "Do not use the model at this site yet: {columns} must be repaired first.",
}
# The first rule that holds gives the advice.
RULES: tuple[tuple[Advice, Callable[[SiteCheck], bool]], ...] = (
    ("do_not_use", lambda found: bool(found.doubts)),
    ("do_not_use", lambda found: bool(found.misfits)),
    ("adapt", lambda found: found.adaptation is not None and found.adaptation.adapted and found.gain >= LEAST_ADDED),
    ("adapt", lambda found: again(found.adaptation)),
    ("label", lambda found: found.adaptation is not None and found.adaptation.reason == "loses" and bool(found.turned)),
    ("label", lambda found: found.forecast is not None and is_low(found, found.forecast)),
    ("label", lambda found: found.forecast is not None and found.forecast.high - found.forecast.low > UNKNOWN),
    ("label", lambda found: found.alike or found.n_rows < LEAST_ROWS),
    ("use", lambda found: True),
)


def is_low(found: SiteCheck, forecast: Interval) -> bool:
    """Return whether the forecast lies below the known sites' accuracy, and below the worst of them too."""
    return forecast.value < min(found.known_accuracy - LOST, found.lowest_accuracy)


def check_site(
    features: pd.DataFrame,
    predict: Callable[[pd.DataFrame], Array],
    *,
    classes: NDArray[Any],
    profile: TrainingProfile | None = None,
    basis: ForecastBasis | None = None,
    adaptation: Adaptation | None = None,
    before: Array | None = None,
    tried: Sequence[tuple[float, float, int]] | None = None,
    notes: tuple[str, ...] = (),
    doubts: tuple[str, ...] = (),
) -> SiteCheck:
    """Check whether a model can be used at a site.

    Parameters
    ----------
    features : frame
        Rows of the site, as the model takes them.
    predict : function from such a frame to probabilities of shape (n_rows, n_classes)
        The model; the adapted one where it was adapted.
    classes : array
    profile : TrainingProfile, optional
        Without it the columns are not checked.
    basis : ForecastBasis, optional
        Without it no accuracy is forecast.
    adaptation : Adaptation, optional
    before : array of shape (n_rows, n_classes), optional
        Probabilities of the model as it is, where `predict` is that of the adapted one.
    tried : sequence of (forecast, accuracy, rows), optional
        How forecasts of adapted classifiers went at known sites. None: the model was not made for this site.
    notes : tuple of str
        Sentences to add.
    doubts : tuple of str
        What was wrong with the rows that the model was fitted on, in sentences; then it must not be used.
    """
    probabilities = predict(features)
    labels = probabilities.argmax(axis=1)
    columns: tuple[ColumnCheck, ...] = ()
    moved: tuple[ColumnCheck, ...] = ()
    if profile is None:
        notes = (*notes, "The model was saved without a profile of its training rows, so columns were not checked.")
    else:
        columns, moved = profile.check(features), profile.moved(features)
        columns, moved = (_weigh(checks, profile, features, predict, labels) for checks in (columns, moved))
    if len(labels) < LEAST_ROWS:
        notes = (*notes, f"{len(labels)} rows are too few to say much about a site. Pass {LEAST_ROWS} or more.")
    alike = profile is not None and len(labels) > 1 and bool((features.nunique(dropna=False) == 1).all())
    if alike:
        notes = (*notes, f"All {len(labels):,} rows are equal, so they say as little about the site as one row.")
    fits = not any(map(forbids, columns))
    if not fits:
        notes = (*notes, "No accuracy is forecast, because of the columns that do not fit.")
    answers, forecast = summarize(probabilities), None
    if basis is None:
        notes = (*notes, "No accuracy is forecast: only a StableClassifier stores what that needs.")
    elif fits and not alike:
        if tried is None:
            forecast = forecast_accuracy(basis, answers)
        elif not again(adaptation):
            forecast = forecast_adapted(probabilities, tried)
    shares = np.bincount(labels, minlength=len(classes)) / len(labels)
    found = SiteCheck(
        len(labels),
        "use",
        columns,
        moved,
        adaptation,
        forecast,
        None if basis is None or forecast is None else forecast_auroc(basis, answers),
        float("nan") if basis is None else basis.accuracy,
        float("nan") if basis is None else basis.lowest,
        {str(name): float(share) for name, share in zip(classes, shares, strict=True)},
        notes,
        doubts,
        None if before is None or forecast is None else mean_probability(probabilities, before),
        alike,
    )
    return replace(found, advice=next(advice for advice, holds in RULES if holds(found)))


def again(adaptation: Adaptation | None) -> bool:
    """Return whether a model that was adapted to the site has to be adapted again."""
    return adaptation is not None and adaptation.reason == "done" and any(r.differs for r in adaptation.relations)


def mean_probability(probabilities: Array, before: Array) -> float:
    """Return the mean probability of the classes that another classifier predicts: the accuracy to expect of it."""
    return float(np.take_along_axis(probabilities, before.argmax(axis=1)[:, None], axis=1).mean())


def _weigh(
    checks: tuple[ColumnCheck, ...],
    profile: TrainingProfile,
    features: pd.DataFrame,
    predict: Callable[[pd.DataFrame], Array],
    labels: NDArray[np.intp],
) -> tuple[ColumnCheck, ...]:
    """Return checks with the share of predictions that would be others with the column as at the known sites."""
    by_name = {column.name: column for column in profile.columns}
    weighed = []
    for check in checks[:MOST_TRIED]:
        column, changed = by_name[check.name], features.copy()
        if column.kind == "numeric":
            values = features[check.name].to_numpy(dtype=np.float64)
            missing = np.isnan(values)
            values = column.to_standard(values)
            if check.problem == "missing":
                values = np.where(missing, np.median(column.quantiles), values)
            changed[check.name] = values
        else:
            generator = np.random.default_rng(0)
            names, shares = list(column.levels), np.array(list(column.levels.values()))
            odd = (
                ~features[check.name].isin(names).to_numpy()
                if check.problem != "moved"
                else np.ones(len(features), bool)
            )
            draws = generator.choice(np.array(names, dtype=object), len(features), p=shares / shares.sum())
            changed[check.name] = np.where(odd, draws, features[check.name].to_numpy(dtype=object))
        share = float((predict(changed).argmax(axis=1) != labels).mean())
        weighed.append(replace(check, changed=share))
    return (*weighed, *checks[MOST_TRIED:])
