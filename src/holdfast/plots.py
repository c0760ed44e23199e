"""Figures for notebooks and papers, in the style of scikit-learn's displays; they need the extra `plots`.

Each display is made by `from_estimator` or `from_predictions`, which draw it. `plot(ax)` draws it again, and `ax_` and
`figure_` are matplotlib's objects.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.datasets.values import Split
from holdfast.environments import PerRow, split_environments
from holdfast.exceptions import InputError, LabelsError, ParameterError
from holdfast.extras import require
from holdfast.fitting.estimators import has_probabilities, last_step
from holdfast.fitting.kinds import Estimator, Predictor, ProbabilisticClassifier
from holdfast.metrics import exact_interval
from holdfast.reports.correlations import correlation_maps
from holdfast.reports.findings import effects_figure, path_figure
from holdfast.reports.values import Curves, Dot, Dots, HeatMap, format_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from holdfast.auditing import Audit, Finding

__all__ = ["AuditDisplay", "CautionPathDisplay", "PartitionDisplay", "ReliabilityDisplay", "SiteAccuracyDisplay"]

# Okabe and Ito's colors, in the order of the report's; color-blind readers can tell them apart, and so can shapes.
COLORS = ("#0072b2", "#c65400", "#007d5b", "#a8487f", "#7a6000", "#1f7f92", "#555f69", "#6a4c93")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
NEUTRAL, RED_WHITE_BLUE = "#555f69", ("#b2182b", "#f7f7f7", "#2166ac")


class _Display:
    """A figure that can be drawn on any axes."""

    ax_: Axes
    figure_: Figure | SubFigure

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        self
            With `ax_` and `figure_`.
        """
        if ax is None:
            pyplot = require("matplotlib.pyplot", extra="plots", what="Plots")
            _, ax = pyplot.subplots(figsize=self._size(), layout="constrained")
        assert ax is not None
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError


class _DotsDisplay(_Display):
    """Values with intervals in rows, grouped by place."""

    def __init__(self, dots: Dots) -> None:
        self.dots = dots

    def _size(self) -> tuple[float, float]:
        return 7.0, 1.2 + 0.26 * len(self.dots.dots) + 0.2 * len(self.dots.places)

    def _draw(self, ax: Axes) -> None:
        figure = self.dots
        series = figure.series
        ticks, names, y = [], [], 0.0
        for place in figure.places:
            members = [dot for dot in figure.dots if dot.place == place]
            for dot in members:
                order = series.index(dot.series)
                _draw_dot(ax, dot, y, order)
                ticks.append(y)
                names.append(dot.place if len(series) == 1 else f"{dot.place}: {dot.series}")
                y += 1.0
            y += 0.8 if len(members) > 1 else 0.0
        if figure.reference is not None:
            ax.axvline(figure.reference, color=NEUTRAL, linewidth=1, zorder=0)
        ax.set_yticks(ticks, names, parse_math=False)
        ax.set_ylim(max(ticks, default=0.0) + 0.7, -0.7)
        ax.set_xlabel("\n".join(textwrap.wrap(figure.value_title, 60)), parse_math=False)
        ax.use_sticky_edges = False  # bands do not end at the frame
        ax.grid(axis="x", color="#dddddd")
        ax.set_axisbelow(True)


def _draw_dot(ax: Axes, dot: Dot, y: float, order: int) -> None:
    """Draw a value's shape over its interval; a forecast is a band."""
    color = NEUTRAL if dot.forecast else COLORS[order % len(COLORS)]
    if dot.forecast and math.isfinite(dot.low):
        ax.barh(y, dot.high - dot.low, left=dot.low, height=0.6, color=color, alpha=0.25, edgecolor=color, linewidth=1)
    elif math.isfinite(dot.low):
        ax.plot([dot.low, dot.high], [y, y], color=color, linewidth=1.6)
    ax.plot(dot.value, y, "D" if dot.forecast else MARKERS[order % len(MARKERS)], color=color, markersize=6)


class AuditDisplay(_DotsDisplay):
    """A forest plot: the effect of each unstable column in every environment, and where the next one's is expected.

    Examples
    --------
    >>> from holdfast import StableClassifier
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = StableClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> AuditDisplay.from_estimator(model).dots.series
    ('E1', 'E2', 'next environment')
    """

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, ax: Axes | None = None) -> Self:
        """Show the columns that a fitted `StableClassifier`, or a Pipeline that ends in one, found unstable.

        Parameters
        ----------
        estimator : fitted StableClassifier
        ax : matplotlib axes, optional
        """
        return cls._from_findings(_fitted(estimator, "verdict_", "AuditDisplay").verdict_.columns, ax)

    @classmethod
    def from_audit(cls, audit: Audit, *, ax: Axes | None = None) -> Self:
        """Show the columns that an audit names.

        Parameters
        ----------
        audit : Audit
            What `holdfast.auditing.audit_data` returned.
        ax : matplotlib axes, optional
        """
        return cls._from_findings([finding for finding in audit.findings if finding.named], ax)

    @classmethod
    def _from_findings(cls, findings: Sequence[Finding], ax: Axes | None) -> Self:
        figure = effects_figure(findings)
        if figure is None:
            raise InputError("No column changes between environments, so there are no effects to draw.")
        return cls(figure).plot(ax)


class SiteAccuracyDisplay(_DotsDisplay):
    """Accuracy in every environment, with 95% intervals, for one or several classifiers.

    Examples
    --------
    >>> display = SiteAccuracyDisplay.from_predictions([0, 1, 1], [0, 1, 0], environments=["a", "a", "b"])
    >>> [(dot.place, dot.value) for dot in display.dots.dots]
    [('a', 1.0), ('b', 0.0)]
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Predictor | Mapping[str, Predictor],
        X: Any,
        y: ArrayLike,
        *,
        environments: PerRow,
        ax: Axes | None = None,
    ) -> Self:
        """Show the accuracy of a fitted classifier, or of several, on rows they were not fitted on.

        Parameters
        ----------
        estimator : fitted classifier, or mapping of name to fitted classifier
        X, y : rows and their labels
        environments : labels of shape (n_rows,)
        ax : matplotlib axes, optional
        """
        found = estimator if isinstance(estimator, Mapping) else {type(last_step(estimator)).__name__: estimator}
        predicted = {name: classifier.predict(X) for name, classifier in found.items()}
        return cls.from_predictions(y, predicted, environments=environments, ax=ax)

    @classmethod
    def from_predictions(cls, y: ArrayLike, predicted: Any, *, environments: PerRow, ax: Axes | None = None) -> Self:
        """Show the accuracy of predicted labels.

        Parameters
        ----------
        y : labels of shape (n_rows,)
        predicted : labels of shape (n_rows,), or mapping of name to labels
        environments : labels of shape (n_rows,)
        ax : matplotlib axes, optional
        """
        labels = np.asarray(y)
        answers = predicted if isinstance(predicted, Mapping) else {"classifier": predicted}
        dots = []
        for environment in split_environments(environments, len(labels)):
            for name, given in answers.items():
                answer = np.asarray(given)
                if answer.shape != labels.shape:
                    raise LabelsError(
                        f"{name} predicts {len(answer)} labels for {len(labels)} rows. Pass one for each."
                    )
                hits = int((answer[environment.rows] == labels[environment.rows]).sum())
                low, high = exact_interval(hits, len(environment))
                dots.append(Dot(environment.name, str(name), hits / len(environment), float(low), float(high)))
        return cls(Dots("Accuracy by environment", "accuracy", tuple(dots), percent=True)).plot(ax)


class ReliabilityDisplay(_Display):
    """Calibration in every environment: how often the label is right when the classifier says so with probability p.

    With two classes p is the probability of the second one; with more, of the predicted one.

    Parameters
    ----------
    curves : mapping of environment to (probabilities, shares, n_rows)
        Of each bin that has rows.
    title : str
        Of the probability.

    Examples
    --------
    >>> chances = [[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]]
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1], chances, environments=["a", "a", "b"], n_bins=2)
    >>> [(float(p), float(share), int(n)) for p, share, n in zip(*display.curves["a"])]
    [(0.2, 0.5, 2)]
    """

    def __init__(
        self, curves: Mapping[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]], title: str = "probability"
    ) -> None:
        self.curves = curves
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: ProbabilisticClassifier,
        X: Any,
        y: ArrayLike,
        *,
        environments: PerRow,
        n_bins: int = 10,
        ax: Axes | None = None,
    ) -> Self:
        """Show the calibration of a fitted classifier on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted classifier with `predict_proba`
        X, y : rows and their labels
        environments : labels of shape (n_rows,)
        n_bins : int
            Bins of equal width between 0 and 1.
        ax : matplotlib axes, optional
        """
        if not has_probabilities(estimator):
            raise ParameterError(
                f"ReliabilityDisplay needs probabilities, but {type(last_step(estimator)).__name__} has no "
                "predict_proba. Use an estimator that has it."
            )
        classes, chances = list(estimator.classes_), estimator.predict_proba(X)
        numbers = {label: number for number, label in enumerate(classes)}
        codes = [numbers.get(label, -1) for label in np.asarray(y).tolist()]
        title = f"probability of {classes[1]}" if len(classes) == 2 else "probability of the predicted label"
        return cls.from_predictions(codes, chances, environments=environments, n_bins=n_bins, title=title, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        codes: ArrayLike,
        probabilities: ArrayLike,
        *,
        environments: PerRow,
        n_bins: int = 10,
        title: str = "probability",
        ax: Axes | None = None,
    ) -> Self:
        """Show the calibration of probabilities.

        Parameters
        ----------
        codes : class codes of shape (n_rows,)
            From 0; they number the columns of `probabilities`.
        probabilities : array of shape (n_rows, n_classes)
        environments : labels of shape (n_rows,)
        n_bins : int
        title : str
            Of the probability.
        ax : matplotlib axes, optional
        """
        y, chances = np.asarray(codes), np.asarray(probabilities, dtype=np.float64)  # (n_rows,), (n_rows, n_classes)
        if chances.ndim != 2 or len(chances) != len(y):
            raise InputError(
                f"probabilities has shape {chances.shape} for {len(y)} labels. Pass one row for each label and one "
                "column for each class."
            )
        if chances.shape[1] == 2:
            said, happened = chances[:, 1], y == 1
        else:
            said, happened = chances.max(axis=1), y == chances.argmax(axis=1)
        bins = np.minimum((said * n_bins).astype(np.intp), n_bins - 1)
        curves = {}
        for environment in split_environments(environments, len(y)):
            rows = environment.rows
            sizes = np.bincount(bins[rows], minlength=n_bins)
            used = sizes > 0
            means = np.bincount(bins[rows], said[rows], minlength=n_bins)[used] / sizes[used]
            shares = np.bincount(bins[rows], happened[rows], minlength=n_bins)[used] / sizes[used]
            curves[environment.name] = (means, shares, sizes[used])
        return cls(curves, title).plot(ax)

    def _draw(self, ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=1, linestyle=":", label="perfectly calibrated")
        for order, (name, (means, shares, _)) in enumerate(self.curves.items()):
            marker, color = MARKERS[order % len(MARKERS)], COLORS[order % len(COLORS)]
            ax.plot(means, shares, marker=marker, color=color, label=_shown(name))
        ax.set(xlabel=self.title, ylabel="share of rows where it is so", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        _legend(ax)


class CautionPathDisplay(_Display):
    """What each `caution` of a `StableClassifier` costs at known environments, and saves where columns mislead.

    Examples
    --------
    >>> from holdfast import StableClassifier
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = StableClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> [line.name for line in CautionPathDisplay.from_estimator(model).curves.lines]
    ['at known environments', 'if the named effects vanish', 'if they reverse']
    """

    def __init__(self, curves: Curves, chosen: float = math.nan) -> None:
        self.curves = curves
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, ax: Axes | None = None) -> Self:
        """Show the path of a fitted `StableClassifier`, or of a Pipeline that ends in one.

        Parameters
        ----------
        estimator : fitted StableClassifier
        ax : matplotlib axes, optional
        """
        fitted = _fitted(estimator, "path_", "CautionPathDisplay")
        figure = path_figure(fitted.path_, fitted.verdict_)
        if figure is None:
            raise InputError("The classifier was fitted on one environment, so there is no path to draw.")
        return cls(figure, float(fitted.verdict_.caution)).plot(ax)

    def _draw(self, ax: Axes) -> None:
        for order, line in enumerate(self.curves.lines):
            ax.plot(line.x, line.y, marker=MARKERS[order], color=COLORS[order], label=line.name)
        if math.isfinite(self.chosen):
            ax.axvline(self.chosen, color=NEUTRAL, linewidth=1, linestyle=":", label="fitted")
        ax.set(xlabel=self.curves.x_title, ylabel=self.curves.y_title)
        _legend(ax)


class PartitionDisplay(_Display):
    """What correlates with the label in every environment and in the halves that judges cut it into.

    Red is a negative correlation, blue a positive one, as in the paper's pictures.

    Examples
    --------
    >>> from holdfast import PIClassifier
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", etas=(0.1, 0.2))
    >>> X, y, sites = toy.train.X, toy.train.y, toy.train.environments
    >>> model = PIClassifier(halves="hard").fit(X, y, environments=sites)
    >>> display = PartitionDisplay.from_estimator(model, X, y, environments=sites, feature_names=["x1", "x2"])
    >>> display.heat_map.rows[1]
    'E1 by E2: correct (900)'
    """

    def __init__(self, heat_map: HeatMap) -> None:
        self.heat_map = heat_map

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: Any,
        y: ArrayLike,
        *,
        environments: PerRow,
        attributes: Mapping[str, ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Show the columns that move most between an environment and its halves, or attributes.

        Parameters
        ----------
        estimator : fitted PIClassifier, or a Pipeline that ends in one
        X, y : the rows it was fitted on, in the same order
        environments : labels of shape (n_rows,)
        attributes : mapping of name to values, optional
            Shown instead of the columns of X.
        feature_names : sequence of str, optional
            Names of the columns of an array.
        ax : matplotlib axes, optional
        """
        fitted = _fitted(estimator, "partitions_", "PartitionDisplay")
        given = {} if attributes is None else {name: np.asarray(values) for name, values in attributes.items()}
        training = Split(X, np.asarray(y), np.asarray(environments), given)
        names = {label: str(label) for label in fitted.classes_.tolist()}
        maps = correlation_maps(fitted, training, names, feature_names)
        if not maps:
            raise InputError("X has no columns to correlate with the label. Pass attributes.")
        return cls(maps[0]).plot(ax)

    def _size(self) -> tuple[float, float]:
        return 3.0 + 0.5 * len(self.heat_map.columns), 1.4 + 0.32 * len(self.heat_map.rows)

    def _draw(self, ax: Axes) -> None:
        colors = require("matplotlib.colors", extra="plots", what="Plots")
        scale = colors.LinearSegmentedColormap.from_list("correlation", RED_WHITE_BLUE)
        figure = self.heat_map
        values = np.array(figure.values, dtype=np.float64)
        ax.imshow(values, cmap=scale, vmin=-1.0, vmax=1.0, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            ink = "white" if abs(value) > 0.75 else "black"
            text = "–" if math.isnan(value) else f"{value:+z.2f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color=ink)
        for row in figure.breaks:
            ax.axhline(row - 0.5, color="white", linewidth=4)
        ax.set_xticks(range(len(figure.columns)), figure.columns, rotation=45, ha="right", parse_math=False)
        ax.set_yticks(range(len(figure.rows)), figure.rows, parse_math=False)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)


def _fitted(estimator: Estimator, attribute: str, display: str) -> Any:
    """Return the last step of a pipeline, which must have an attribute."""
    fitted = last_step(estimator)
    if not hasattr(fitted, attribute):
        needed = "PIClassifier" if attribute == "partitions_" else "StableClassifier"
        raise ParameterError(f"{display} needs a fitted {needed}. Got {type(fitted).__name__} without {attribute}.")
    return fitted


def _shown(name: str) -> str:
    """Return a name that the legend shows: matplotlib hides names that begin with an underscore."""
    return f" {name}" if name.startswith("_") else format_cell(name)


def _legend(ax: Axes) -> None:
    """Add a legend whose names are not read as formulas."""
    for text in ax.legend(fontsize="small", frameon=False).get_texts():
        text.set_parse_math(False)
