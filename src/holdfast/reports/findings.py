"""Parts of pages about findings: the verdict, effects by environment, and what classifiers rely on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from holdfast.datasets.values import Split
from holdfast.fitting.estimators import last_step, predicted_codes
from holdfast.metrics import Interval, exact_interval
from holdfast.reports.values import Answer, Block, Cell, Curves, Dot, Dots, Line, Page, Section, Sentences, Table
from holdfast.rows.kinds import is_frame

if TYPE_CHECKING:
    from holdfast.auditing import Audit, Reliance
    from holdfast.estimators.stable import PathPoint, StableClassifier
    from holdfast.stable.findings import Finding
    from holdfast.stable.verdict import Verdict


ORDINARY, STABLE = "ordinary", "stable"  # how figures call the two classifiers
SIGNALS: Mapping[str, tuple[Literal["good", "protected", "caution"], str]] = {
    "ordinary": ("caution", "Columns change between environments, but too little to act on"),
    "partly": ("protected", "Protected: this classifier uses less of the unstable columns"),
    "stable": ("protected", "Protected: this classifier ignores the unstable columns"),
}
NETWORK_SIGNALS: Mapping[str, tuple[Literal["good", "protected", "caution"], str]] = {
    "unstable": ("protected", "The ordinary network relies on something that differs between environments"),
    "nothing_found": ("good", "Nothing was found that the network relies on and that differs between environments"),
    "cannot_tell": ("caution", "It cannot be told whether the network relies on something unstable"),
}
NOTHING_CHANGES = "No column has an effect that differs between environments"
WIDTH = 1.96  # standard errors of a 95 % interval
MOST_AT_TOP = 8  # environments in the picture of the answer: those with the lowest accuracy
MOST_RELIED, MOST_EFFECTS = 12, 12  # features with bars, columns of the forest plot
RELIED_ROWS, RELIED_COLUMNS = 2_000, 60  # a table with more columns is not shuffled unasked
MOST_EXTREMES = 12  # environments of a column in the forest plot
MOST_FINDINGS = 300  # rows of a table of features


def audit_answer(audit: Audit, advice: Sequence[str] = ()) -> Answer:
    """Return what an audit found as the answer at the top of the page."""
    if audit.named:
        return Answer(audit.answer, "caution", "Some columns change between environments", None, tuple(advice))
    return Answer(audit.answer, "good", NOTHING_CHANGES, None, tuple(advice))


def audit_page(
    audit: Audit, reliance: Reliance | None = None, *, title: str = "Audit", advice: Sequence[str] = ()
) -> Page:
    """Return a report about what `holdfast.auditing.audit_data` and, optionally, `relied_on` returned."""
    sections = (reliance_section(reliance), changes_section(None, audit), features_section(audit, reliance))
    return Page(
        title, "", tuple(section for section in sections if section is not None), answer=audit_answer(audit, advice)
    )


def verdict_answer(verdict: Verdict, advice: Sequence[str] = (), sizes: Mapping[str, int] | None = None) -> Answer:
    """Return the verdict of a `StableClassifier` as the answer at the top of the page; `sizes` are rows by site."""
    signal: Literal["good", "protected", "caution"]
    signal, text = SIGNALS[verdict.fitted]
    text = text.replace("classifier", verdict.what)
    measure, known = verdict.measure, verdict.known
    if verdict.network is not None:
        signal, text = NETWORK_SIGNALS[verdict.network.outcome]
    elif not verdict.columns:
        signal, text = "good", NOTHING_CHANGES
        if verdict.is_uncertain:
            signal, text = "caution", f"{NOTHING_CHANGES}, but {measure} differs much between them"
            advice = (*advice, f"`holdfast diagnose` says why {measure} differs, and what to do at a new environment.")
    title = f"{_capital(measure)} of the ordinary and of the fitted {verdict.what}"
    change, low, high = (-value for value in (verdict.price.value, verdict.price.high, verdict.price.low))
    if measure == "accuracy":
        note, changed = "Out of fold, mean over environments.", "{:+.1f} points [{:+.1f}, {:+.1f}]"
        change, low, high = 100 * change, 100 * low, 100 * high
        asked, expected = "to expect at a new", range_text(verdict.forecast)
    else:  # of all rows; the forecast has the unit of the label
        note, changed = "Out of fold, over all rows.", "{:+.3f} [{:+.3f}, {:+.3f}]"
        asked = "RMSE to expect at a new"
        expected = f"{verdict.forecast.low:.3g} to {verdict.forecast.high:.3g}"
    if verdict.fitted == "ordinary":
        few: tuple[tuple[Cell, ...], ...] = (
            ("at known environments", known.ordinary),
            (f"{asked} one", expected),
        )
        numbers = Table(title, (measure, ORDINARY), few, note)
        lines = (*verdict.remarks[:-1], *advice)
        return Answer(verdict.answer, signal, text, numbers, lines, verdict_figure(verdict, sizes or {}))
    places = ("at known environments", "if they vanish", "if they reverse") if verdict.auroc else ()
    ranks = [
        (f"AUROC {place}", f"{areas.ordinary:.3f}", f"{areas.fitted:.3f}")
        for place, areas in zip(places, verdict.auroc.values(), strict=True)
    ]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("at known environments", known.ordinary, known.fitted),
        ("if the named effects vanish", verdict.vanished.ordinary, verdict.vanished.fitted),
        ("if they reverse", verdict.reversed.ordinary, verdict.reversed.fitted),
        (f"{asked} environment", None, expected),
        *ranks,
    )
    note += f" At known environments, {measure} changes by {changed.format(change, low, high)}."
    numbers = Table(title, (measure, ORDINARY, STABLE), rows, note)
    lines = (*verdict.remarks[2:-1], *advice)
    return Answer(verdict.answer, signal, text, numbers, lines, verdict_figure(verdict, sizes or {}))


def verdict_figure(verdict: Verdict, sizes: Mapping[str, int]) -> Dots | None:
    """Return the accuracy of the fitted classifier at every known environment, and what to expect at the next one.

    Of a model of numbers it is R², without the forecast, which is that of another measure.
    """
    if not verdict.by_environment:
        return None
    measure, forecast = verdict.measure, verdict.forecast
    values = sorted(verdict.by_environment.items(), key=lambda pair: pair[1].fitted)
    shown = values[:MOST_AT_TOP]
    dots = [_site_dot(verdict, name, measure, accuracy.fitted, sizes) for name, accuracy in shown]
    if measure == "accuracy":
        dots.append(Dot("a new environment (95%)", measure, forecast.value, forecast.low, forecast.high, forecast=True))
    rest = f" The {len(shown)} lowest of {len(values)}." if len(values) > len(shown) else ""
    kind = "ordinary" if verdict.fitted == "ordinary" else "fitted"
    return Dots(
        f"{_capital(measure)} of the {kind} {verdict.what} by environment",
        f"{measure} out of fold{', with 95% intervals' if sizes and measure == 'accuracy' else ''}",
        tuple(dots),
        rest.strip(),
        place_title="environment",
        percent=measure == "accuracy",
    )


def _site_dot(verdict: Verdict, name: str, series: str, value: float, sizes: Mapping[str, int]) -> Dot:
    """Return an accuracy with its interval, or an R² without one."""
    n_rows = sizes.get(str(name), 0) if verdict.measure == "accuracy" else 0
    low, high = exact_interval(value * n_rows, n_rows) if n_rows else (math.nan, math.nan)
    return Dot(str(name), series, value, float(low), float(high))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def range_text(forecast: Interval) -> str:
    """Return from where to where a forecast goes.

    Examples
    --------
    >>> range_text(Interval(0.8, 0.634, 0.97))
    '63% to 97%'
    """
    return f"{forecast.low:.0%} to {forecast.high:.0%}"


def reliance_section(reliance: Reliance | None) -> Section | None:
    """Show what each classifier relies on, as `holdfast.auditing.relied_on` found."""
    if reliance is None or not len(reliance.features):
        return None
    changed = np.asarray(reliance.changed, dtype=np.float64)  # (n_features, n_estimators)
    order = np.argsort(-changed.max(axis=1), kind="stable")[:MOST_RELIED]
    dots = tuple(
        Dot(str(reliance.features[row]), str(name), float(changed[row, column]), math.nan, math.nan)
        for row in order
        for column, name in enumerate(reliance.estimators)
    )
    left_out = len(reliance.features) - len(order)
    note = f"The {len(order)} features that matter most of {len(reliance.features):,}." if left_out else ""
    figure = Dots(
        "Predictions that change without a feature",
        "share of predictions that change when the feature is shuffled between rows, or the word is taken out",
        dots,
        note,
        place_title="feature",
        percent=True,
        bars=True,
    )
    intro = "A classifier that relies on an unstable feature fails where the effect of that feature is different."
    return Section("What each classifier relies on", intro, (figure,))


def shuffle_features(classifier: Any, training: Split, names: Sequence[str] | None = None) -> Reliance | None:
    """Return what a stable classifier and its ordinary counterpart rely on; None where there is nothing to compare."""
    from holdfast.auditing import relied_on
    from holdfast.estimators.stable import StableClassifier

    fitted = last_step(classifier)
    shape: tuple[int, ...] = getattr(training.X, "shape", ())
    if not isinstance(fitted, StableClassifier) or len(shape) != 2 or shape[1] > RELIED_COLUMNS:
        return None
    ordinary = _Ordinary(classifier, fitted)
    pair = {ORDINARY: ordinary, STABLE: classifier}
    if fitted.verdict_.fitted == "ordinary":
        pair = {ORDINARY: ordinary}
    rows = np.linspace(0, len(training) - 1, min(len(training), RELIED_ROWS)).astype(np.intp)
    some = training.take(rows)
    found = relied_on(pair, some.X, some.y, n_repeats=2)
    if names is None or is_frame(training.X):
        return found
    return replace(found, features=tuple(str(names[int(feature[1:])]) for feature in found.features))


class _Ordinary:
    """The ordinary classifier inside a stable one, after the same preprocessing."""

    def __init__(self, classifier: Any, fitted: StableClassifier) -> None:
        self._before = classifier[:-1] if classifier is not fitted and len(classifier) > 1 else None
        self._fitted = fitted

    def predict(self, X: Any) -> Any:
        """Return labels."""
        X = X if self._before is None else self._before.transform(X)
        return self._fitted.classes_[predicted_codes(self._fitted.ordinary_, X)]


def accuracy_section(verdict: Verdict | None, training: Split | None, comparison: Dots | None) -> Section | None:
    """Show accuracy by environment: at known ones out of fold, and on other rows where there are some."""
    blocks: list[Block] = []
    if verdict is not None and verdict.by_environment:
        known = [] if training is None else np.asarray(training.environments).astype(str).tolist()
        blocks.append(site_accuracies(verdict, Counter(known)))
    if comparison is not None and comparison.dots:
        blocks.append(comparison)
    measure = "accuracy" if verdict is None else verdict.measure
    return Section(f"{_capital(measure)} by environment", "", tuple(blocks)) if blocks else None


def site_accuracies(verdict: Verdict, sizes: Mapping[str, int]) -> Dots:
    """Return the accuracy of the ordinary and of the fitted classifier at every known environment, out of fold.

    Of a model of numbers it is R².
    """
    dots = [
        _site_dot(verdict, name, series, value, sizes)
        for name, accuracy in verdict.by_environment.items()
        for series, value in ((ORDINARY, accuracy.ordinary), (STABLE, accuracy.fitted))
        if series == ORDINARY or verdict.fitted != "ordinary"
    ]
    is_share = verdict.measure == "accuracy"
    note = "Out of fold, with 95% intervals." if sizes and is_share else "Out of fold."
    title = f"{_capital(verdict.measure)} at the known environments"
    return Dots(title, verdict.measure, tuple(dots), note, place_title="environment", percent=is_share)


def effects_figure(findings: Sequence[Finding]) -> Dots | None:
    """Return a forest plot: each column's effect in every environment, and where the next one's is expected."""
    shown = [finding for finding in findings if finding.effects][:MOST_EFFECTS]
    if not shown:
        return None
    several = len({finding.label for finding in shown}) > 1
    dots, rest = [], ""
    for finding in shown:
        place = f"{finding.feature} → {finding.label}" if several else finding.feature
        effects = list(finding.effects.items())
        if len(effects) > MOST_EXTREMES + 3:
            effects.sort(key=lambda pair: pair[1])
            rest = f" Of {len(effects)} environments, those with extreme effects are shown."
            effects = effects[: MOST_EXTREMES // 2] + effects[-MOST_EXTREMES // 2 :]
        for name, effect in effects:
            reach = WIDTH * finding.errors.get(name, math.nan)
            dots.append(Dot(place, str(name), effect, effect - reach, effect + reach))
        dots.append(Dot(place, "next environment", finding.mean, finding.low, finding.high, forecast=True))
    towards = "its label" if several else shown[0].label
    what = f"how much larger {towards} is" if shown[0].is_number else f"log-odds of {towards}"
    return Dots(
        "Effect of each unstable column, by environment",
        f"{what} for one standard deviation more of the column; 0: no relation",
        tuple(dots),
        "Lines: 95% intervals. Gray bands: 80% prediction interval of the effect at the next environment. If a band "
        f"contains 0, the column may have no effect there, or the opposite one.{rest}",
        place_title="column",
        reference=0.0,
    )


def changes_section(verdict: Verdict | None, audit: Audit | None) -> Section | None:
    """Say which effects differ between environments, with the forest plot.

    A verdict has looked at every column that the classifier uses; an audit then only adds attributes.
    """
    if verdict is not None:
        attributes = () if audit is None else tuple(f for f in audit.findings if f.named and not f.is_input)
        named = (*verdict.columns, *attributes)
        lines = [finding.sentence for finding in named] or [verdict.answer]
    elif audit is not None:
        named = tuple(finding for finding in audit.findings if finding.named)
        lines = list(audit.sentences()[1:]) or [audit.answer]
    else:
        return None
    figure = effects_figure(named)
    sentences = Sentences(tuple(lines), "finding" if named else "plain")
    intro = "Effects that differ, or seem to differ, between sites." if named else ""
    blocks = (sentences,) if figure is None else (sentences, figure)
    return Section("What changes between environments", intro, blocks)


def path_section(points: Sequence[PathPoint], verdict: Verdict | None) -> Section | None:
    """Show what each caution of a `StableClassifier` costs and saves."""
    if verdict is None or verdict.fitted == "ordinary" or (figure := path_figure(points, verdict)) is None:
        return None
    intro = "What each setting of `caution` costs at known sites, and saves where the columns mislead."
    return Section("Price and gain", intro, (figure,), folded=True)


def path_figure(points: Sequence[PathPoint], verdict: Verdict) -> Curves | None:
    """Return accuracy (of numbers: R²) by caution: now, if the named effects vanish, and if they reverse."""
    if len(points) < 2:
        return None
    x = tuple(float(point.caution) for point in points)
    lines = tuple(
        Line(name, x, tuple(float(getattr(point, field).fitted) for point in points))
        for name, field in (
            ("at known environments", "known"),
            ("if the named effects vanish", "vanished"),
            ("if they reverse", "reversed"),
        )
    )
    title = f"{_capital(verdict.measure)} by caution"
    return Curves(title, f"caution: 0 is the ordinary {verdict.what}", verdict.measure, lines)


def features_section(audit: Audit | None, reliance: Reliance | None) -> Section | None:
    """List every feature: the evidence of the audit, and what classifiers rely on."""
    tables = [] if audit is None else [audit_table(audit)]
    tables += [] if reliance is None else [reliance_table(reliance)]
    found = tuple(table for table in tables if table is not None)
    return Section("Every feature", "", found, folded=True) if found else None


def audit_table(audit: Audit) -> Table | None:
    """Return every feature with its evidence, and for the named ones the effects; None where nothing was tested."""
    rows: list[tuple[Cell, ...]] = []
    for finding in audit.findings[:MOST_FINDINGS]:
        effects = [_cell(finding.effects.get(name)) for name in audit.environments]
        low_high = f"{finding.low:+.2f} to {finding.high:+.2f}" if finding.effects else None
        chances = (float(finding.probability), float(finding.p_value))
        rows.append((finding.feature, finding.named, *chances, finding.label, *effects, low_high))
    if not rows:
        return None
    left_out = len(audit.findings) - len(rows)
    note = "probability: that the relation changes. p: of equal effects, adjusted for the number of features."
    note += f" {left_out:,} more features are left out." if left_out else ""
    columns = ("feature", "changes", "probability", "p", "label", *(f"effect in {name}" for name in audit.environments))
    marked = tuple((number, 0) for number, row in enumerate(rows) if row[1])
    return Table("Every feature", (*columns, "next environment (80%)"), tuple(rows), note, marked=marked)


def reliance_table(reliance: Reliance) -> Table:
    """Return how much each classifier's accuracy falls without each feature."""
    frame = reliance.to_frame()
    rows = tuple(tuple(_cell(v) for v in row) for row in frame.head(MOST_FINDINGS).itertuples(index=False, name=None))
    columns = tuple(str(name).replace("n_rows", "rows") for name in frame.columns)
    note = "Accuracy lost, and share of predictions that change, if a column is shuffled or a word is removed."
    return Table("What the classifiers rely on", columns, rows, note)


def _cell(value: Any) -> Cell:
    """Return a frame's value as a cell: numpy's numbers as Python's, missing as None."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)
