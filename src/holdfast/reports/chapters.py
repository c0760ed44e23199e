"""The chapters of a report about a fitted estimator: the answer, what a reader asks, and the stages, folded away."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from holdfast.datasets.values import Split
from holdfast.diagnosis.clinical import ClinicalReport
from holdfast.diagnosis.profile import Profile, profile_columns
from holdfast.environments import Group, Partition, listed, split_environments
from holdfast.exceptions import InputError
from holdfast.fitting.estimators import last_step, predicted_codes
from holdfast.machine import versions
from holdfast.metrics import Interval, Score, exact_interval, label_attribute_groups, prevalence, score_groups
from holdfast.reports.clinical import clinical_section
from holdfast.reports.correlations import correlation_maps
from holdfast.reports.values import (
    Answer,
    Block,
    Cell,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Line,
    Page,
    Section,
    Sentences,
    Shares,
    Table,
)

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
MOST_PLACES = 40  # environments that get dots of their own
MOST_VALUES = 50  # an attribute with more values makes no groups
MOST_ENVIRONMENTS = 24  # in the accuracy matrix
MOST_CLASSES = 12  # as parts of a bar
MOST_REMARKS = 6  # about columns that do not fit
MOST_FINDINGS = 300  # rows of a table of features


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a report shows besides the fitted classifier; each part is optional.

    Parameters
    ----------
    training : Split
        The rows it was fitted on, in the same order: label balance, and correlations in the halves.
    test : Split
        Rows to compare `methods` on, by environment and by attribute.
    methods : mapping of name to fitted classifier
        What to compare, in this order; each predicts `test.X`. By default the classifier alone.
    comparison : Dots
        Instead of `test` and `methods`: a comparison made elsewhere, for example of several seeds, or by
        `comparison_dots`.
    clinical : ClinicalReport
        Calibration and net benefit of the classifier on labeled rows, by environment.
    audit : Audit
        What `holdfast.auditing.audit_data` returned.
    reliance : Reliance
        What `holdfast.auditing.relied_on` returned; by default that of a `StableClassifier` and its ordinary
        counterpart.
    attributes : sequence of str
        Which attributes of the rows to show and to evaluate by; all by default.
    feature_names : sequence of str
        Names of the columns of `training.X` where it is an array.
    class_names : sequence of str
        Names of the classes, in the order of `classes_`; by default the classes themselves.
    settings : mapping
        More settings to show, such as the data set's options.
    seeds : sequence of int
        Seeds behind the numbers.
    warnings : sequence of str
        Warnings of the fit.
    """

    training: Split | None = None
    test: Split | None = None
    methods: Mapping[str, Any] | None = None
    comparison: Dots | None = None
    clinical: ClinicalReport | None = None
    audit: Any = None
    reliance: Any = None
    attributes: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    class_names: Sequence[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    warnings: Sequence[str] | None = None


def estimator_page(
    classifier: Any,
    evidence: Evidence | None = None,
    *,
    title: str = "",
    answer: Answer | None = None,
    advice: Sequence[str] = (),
) -> Page:
    """Return a report: the answer first, then what a reader asks, then the stages, folded away.

    Parameters
    ----------
    classifier : fitted PIClassifier, or another of holdfast's estimators
        What it does not have is left out: ERM has no halves. Of a Pipeline, the last step is reported.
    evidence : Evidence, optional
        Rows, comparisons, names and settings to show with it.
    title : str
        Of the page; by default the name of the class.
    answer : Answer, optional
        For the top of the page; by default the `verdict_` of a `StableClassifier`, or what the audit found.
    advice : sequence of str
        What to do next, for example a command to run.

    Returns
    -------
    Page
        For `write_report` and `write_assets`.

    Examples
    --------
    >>> from holdfast import PIClassifier
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", etas=(0.1, 0.2))
    >>> model = PIClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> content = estimator_page(model, Evidence(training=toy.train, test=toy.test, feature_names=["x1", "x2"]))
    >>> [section.title for section in content.sections][:3]
    ['Accuracy by environment', 'The data by environment', 'Stage 1: judges']
    """
    fitted, given = last_step(classifier), evidence or Evidence()
    if not hasattr(fitted, "environments_"):
        raise InputError(
            f"{type(fitted).__name__} has no environments_: it is not fitted, or not one of holdfast's estimators. "
            "Fit it with environments= first."
        )
    names = _class_names(fitted, given.class_names)
    verdict = getattr(fitted, "verdict_", None)
    training, audit, comparison, reliance = given.training, given.audit, given.comparison, given.reliance
    if comparison is None and given.test is not None:
        compared = dict(given.methods or {type(fitted).__name__: classifier})
        known = [str(label) for label in fitted.environments_]
        comparison = compare_on_rows(compared, given.test, known=known, attributes=given.attributes)
    profile = None
    maps: tuple[HeatMap, ...] = ()
    if training is not None:
        reliance = shuffle_features(classifier, training, given.feature_names) if reliance is None else reliance
        profile = profile_columns(training.X, training.environments, given.feature_names)
        maps = correlation_maps(fitted, training, names, given.feature_names, audit, given.attributes)
    sections = [
        warnings_section(given.warnings),
        reliance_section(reliance),
        accuracy_section(verdict, training, comparison),
        None
        if given.clinical is None
        else clinical_section(given.clinical, "What clinical studies report", where="on the test rows"),
        changes_section(verdict, audit),
        data_section(fitted, training, names, profile),
        path_section(fitted),
        features_section(audit if verdict is None else None, reliance),
        judges_section(fitted),
        partitions_section(fitted, maps),
        risks_section(fitted),
        settings_section(fitted, given),
    ]
    sizes = {} if training is None else Counter(np.asarray(training.environments).astype(str).tolist())
    if answer is None and (verdict is not None or audit is not None):
        advice = (*([profile.check] if profile is not None and profile.check else []), *advice)
        answer = audit_answer(audit, advice) if verdict is None else verdict_answer(verdict, advice, sizes)
    counted = "" if training is None else f"{len(training):,} rows of "
    return Page(
        title or type(fitted).__name__,
        f"{counted}{len(fitted.environments_)} environments: {listed([str(e) for e in fitted.environments_])}.",
        tuple(section for section in sections if section is not None),
        answer=answer,
    )


def audit_answer(audit: Any, advice: Sequence[str] = ()) -> Answer:
    """Return what an audit found as the answer at the top of the page."""
    if audit.named:
        return Answer(audit.answer, "caution", "Some columns change between environments", None, tuple(advice))
    return Answer(audit.answer, "good", NOTHING_CHANGES, None, tuple(advice))


def audit_page(audit: Any, reliance: Any = None, *, title: str = "Audit", advice: Sequence[str] = ()) -> Page:
    """Return a report about what `holdfast.auditing.audit_data` and, optionally, `relied_on` returned."""
    sections = (reliance_section(reliance), changes_section(None, audit), features_section(audit, reliance))
    return Page(
        title, "", tuple(section for section in sections if section is not None), answer=audit_answer(audit, advice)
    )


def _class_names(fitted: Any, class_names: Sequence[str] | None) -> dict[Any, str]:
    """Return the name of each class; no classes for a regressor."""
    classes = list(getattr(fitted, "classes_", []))
    names = [str(label) for label in classes] if class_names is None else list(class_names)
    if len(names) != len(classes):
        raise InputError(f"class_names has {len(names)} names for {len(classes)} classes. Pass one for each.")
    return dict(zip(classes, names, strict=True))


def verdict_answer(verdict: Any, advice: Sequence[str] = (), sizes: Mapping[str, int] | None = None) -> Answer:
    """Return the verdict of a `StableClassifier` as the answer at the top of the page; `sizes` are rows by site."""
    signal: Literal["good", "protected", "caution"]
    signal, text = SIGNALS[verdict.fitted]
    if verdict.network is not None:
        signal, text = NETWORK_SIGNALS[verdict.network.outcome]
    elif not verdict.columns:
        signal, text = "good", NOTHING_CHANGES
        if verdict.is_uncertain:
            signal, text = "caution", f"{NOTHING_CHANGES}, but accuracy differs much between them"
            advice = (*advice, "`holdfast diagnose` says why accuracy differs, and what to do at a new environment.")
    known, title = verdict.known, "Accuracy of the ordinary and of the fitted classifier"
    note = "Out of fold, mean over environments."
    if verdict.fitted == "ordinary":
        few: tuple[tuple[Cell, ...], ...] = (
            ("at known environments", known.ordinary),
            ("to expect at a new one", range_text(verdict.forecast)),
        )
        numbers = Table(title, ("accuracy", ORDINARY), few, note)
        lines = (*verdict.remarks[:-1], *advice)
        return Answer(verdict.answer, signal, text, numbers, lines, verdict_figure(verdict, sizes or {}))
    places = ("at known environments", "if they vanish", "if they reverse") if verdict.auroc else ()
    ranks = [
        (f"AUROC {place}", f"{areas.ordinary:.3f}", f"{areas.fitted:.3f}")
        for place, areas in zip(places, verdict.auroc.values(), strict=True)
    ]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("at known environments", known.ordinary, known.fitted),
        ("if the named correlations vanish", verdict.vanished.ordinary, verdict.vanished.fitted),
        ("if they reverse", verdict.reversed.ordinary, verdict.reversed.fitted),
        ("to expect at a new environment", None, range_text(verdict.forecast)),
        *ranks,
    )
    change, low, high = (-100 * value for value in (verdict.price.value, verdict.price.high, verdict.price.low))
    note += f" At known environments, accuracy changes by {change:+.1f} points [{low:+.1f}, {high:+.1f}]."
    numbers = Table(title, ("accuracy", ORDINARY, STABLE), rows, note)
    lines = (*verdict.remarks[2:-1], *advice)
    return Answer(verdict.answer, signal, text, numbers, lines, verdict_figure(verdict, sizes or {}))


def verdict_figure(verdict: Any, sizes: Mapping[str, int]) -> Dots | None:
    """Return the accuracy of the fitted classifier at every known environment, and what to expect at the next one."""
    if not verdict.by_environment:
        return None
    values = sorted(verdict.by_environment.items(), key=lambda pair: pair[1].fitted)
    shown = values[:MOST_AT_TOP]
    dots = []
    for name, accuracy in shown:
        n_rows = sizes.get(str(name), 0)
        low, high = exact_interval(accuracy.fitted * n_rows, n_rows) if n_rows else (math.nan, math.nan)
        dots.append(Dot(str(name), "accuracy", accuracy.fitted, float(low), float(high)))
    forecast = verdict.forecast
    dots.append(Dot("a new environment (95%)", "accuracy", forecast.value, forecast.low, forecast.high, forecast=True))
    rest = f" The {len(shown)} lowest of {len(values)}." if len(values) > len(shown) else ""
    kind = "ordinary" if verdict.fitted == "ordinary" else "fitted"
    return Dots(
        f"Accuracy of the {kind} classifier by environment",
        f"accuracy out of fold{', with 95% intervals' if sizes else ''}",
        tuple(dots),
        rest.strip(),
        place_title="environment",
        percent=True,
    )


def range_text(forecast: Interval) -> str:
    """Return from where to where a forecast goes.

    Examples
    --------
    >>> range_text(Interval(0.8, 0.634, 0.97))
    '63% to 97%'
    """
    return f"{forecast.low:.0%} to {forecast.high:.0%}"


def reliance_section(reliance: Any) -> Section | None:
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


def shuffle_features(classifier: Any, training: Split, names: Sequence[str] | None = None) -> Any:
    """Return what a stable classifier and its ordinary counterpart rely on; None where there is nothing to compare."""
    from holdfast.auditing import relied_on

    fitted = last_step(classifier)
    shape: tuple[int, ...] = getattr(training.X, "shape", ())
    if not hasattr(fitted, "ordinary_") or len(shape) != 2 or shape[1] > RELIED_COLUMNS:
        return None
    ordinary = _Ordinary(classifier, fitted)
    pair = {ORDINARY: ordinary, STABLE: classifier}
    if fitted.verdict_.fitted == "ordinary":
        pair = {ORDINARY: ordinary}
    rows = np.linspace(0, len(training) - 1, min(len(training), RELIED_ROWS)).astype(np.intp)
    some = training.take(rows)
    found = relied_on(pair, some.X, some.y, n_repeats=2)
    if names is None or hasattr(training.X, "columns"):
        return found
    return replace(found, features=tuple(str(names[int(feature[1:])]) for feature in found.features))


class _Ordinary:
    """The ordinary classifier inside a stable one, after the same preprocessing."""

    def __init__(self, classifier: Any, fitted: Any) -> None:
        self._before = classifier[:-1] if classifier is not fitted and len(classifier) > 1 else None
        self._fitted = fitted

    def predict(self, X: Any) -> Any:
        """Return labels."""
        X = X if self._before is None else self._before.transform(X)
        return self._fitted.classes_[predicted_codes(self._fitted.ordinary_, X)]


def accuracy_section(verdict: Any, training: Split | None, comparison: Dots | None) -> Section | None:
    """Show accuracy by environment: at known ones out of fold, and on other rows where there are some."""
    blocks: list[Block] = []
    if verdict is not None and verdict.by_environment:
        known = [] if training is None else np.asarray(training.environments).astype(str).tolist()
        blocks.append(site_accuracies(verdict, Counter(known)))
    if comparison is not None and comparison.dots:
        blocks.append(comparison)
    return Section("Accuracy by environment", "", tuple(blocks)) if blocks else None


def site_accuracies(verdict: Any, sizes: Mapping[str, int]) -> Dots:
    """Return the accuracy of the ordinary and of the fitted classifier at every known environment, out of fold."""
    dots = []
    for name, accuracy in verdict.by_environment.items():
        n_rows = sizes.get(str(name), 0)
        for series, value in ((ORDINARY, accuracy.ordinary), (STABLE, accuracy.fitted)):
            low, high = exact_interval(value * n_rows, n_rows) if n_rows else (math.nan, math.nan)
            if series == ORDINARY or verdict.fitted != "ordinary":
                dots.append(Dot(str(name), series, value, float(low), float(high)))
    note = "Out of fold, with 95% intervals." if sizes else "Out of fold."
    title = "Accuracy at the known environments"
    return Dots(title, "accuracy", tuple(dots), note, place_title="environment", percent=True)


def compare_on_rows(
    methods: Mapping[str, Any],
    test: Split,
    *,
    known: Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
) -> Dots:
    """Return the accuracies of fitted classifiers on the same rows, with 95% intervals.

    Parameters
    ----------
    methods : mapping of name to fitted classifier, or to its labels for the rows of `test`
    test : Split
    known : sequence of str, optional
        Environments the classifiers were fitted on; the others are marked as new.
    attributes : sequence of str, optional
        Which attributes to cross with the label; all by default.

    Returns
    -------
    Dots
        Places: worst and average over environments, each environment, worst and average group of each attribute.
    """
    if not methods:
        raise InputError("methods is empty. Pass at least one fitted classifier under its name.")
    environments = split_environments(test.environments, len(test))
    groups = [Group(e.name if known is None or e.name in known else f"{e.name} (new)", e.rows) for e in environments]
    crossed = {
        name: label_attribute_groups(test.y, test.attributes[name], name)
        for name in (test.attributes if attributes is None else attributes)
        if len(np.unique(np.asarray(test.attributes[name]).astype(str))) <= MOST_VALUES
    }
    answers = {
        name: np.asarray(method.predict(test.X) if hasattr(method, "predict") else method)
        for name, method in methods.items()
    }
    places: dict[str, list[Dot]] = {}
    for method, predicted in answers.items():
        for place, score in _scores(test.y, predicted, groups, crossed):
            places.setdefault(place, []).append(Dot(place, method, score.value, score.low, score.high))
    return Dots(
        "Accuracy by method",
        "accuracy",
        tuple(dot for dots in places.values() for dot in dots),
        "95% intervals; the worst group's holds whichever group is truly the worst. Attributes are crossed with the "
        "label.",
        percent=True,
        best=True,
    )


def comparison_dots(found: Any) -> Dots:
    """Return the `Comparison` of `holdfast.tables.comparison.compare_methods` as dots without intervals."""
    fitted = [score for score in found.scores if score.problem is None]
    parts = list(dict.fromkeys(part for score in fitted for part in score.parts))
    values = [("mean", {s.method: s.mean for s in fitted}), ("worst", {s.method: s.worst for s in fitted})]
    values += [(part, {s.method: s.parts[part] for s in fitted if part in s.parts}) for part in parts[:MOST_PLACES]]
    dots = [Dot(place, method, value, math.nan, math.nan) for place, of in values for method, value in of.items()]
    note = f"{found.protocol}. {found.recommendation}"
    return Dots("Accuracy where a method was not fitted", "accuracy", tuple(dots), note, percent=True, best=True)


def seeds_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Return the mean over seeds with Student's interval; unknown limits for a single seed.

    Examples
    --------
    >>> seeds_interval([0.5, 0.7]).value
    0.6
    """
    if not len(values):
        raise InputError("there are no values to average. Pass one for each seed.")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    from scipy import special

    reach = float(special.stdtrit(len(values) - 1, 0.5 + level / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - reach, mean + reach)


def _scores(
    y: Any, predicted: Any, environments: list[Group], attributes: Mapping[str, Sequence[Group]]
) -> list[tuple[str, Score]]:
    """Return one method's scores by place."""
    scores = score_groups(y, predicted, environments)
    found = []
    if len(environments) > 1:
        found = [("worst environment", scores.worst), ("average over environments", scores.average)]
    found += [(f"environment {score.name}", score) for score in scores.groups[:MOST_PLACES]]
    for name, groups in attributes.items():
        crossed = score_groups(y, predicted, groups)
        found += [
            (f"attribute {name}: worst group", crossed.worst),
            (f"attribute {name}: average over groups", crossed.average),
        ]
    return found


def effects_figure(findings: Sequence[Any]) -> Dots | None:
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
    return Dots(
        "Effect of each unstable column, by environment",
        f"log-odds of {towards} for one standard deviation more of the column; 0: no relation",
        tuple(dots),
        "Lines: 95% intervals. Gray bands: where the effect at the next environment is expected (80%). Where a band "
        f"contains 0, the column may mean nothing there, or the opposite.{rest}",
        place_title="column",
        reference=0.0,
    )


def changes_section(verdict: Any, audit: Any) -> Section | None:
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


def data_section(
    fitted: Any, training: Split | None, class_names: Mapping[Any, str], profile: Profile | None
) -> Section:
    """Show rows, label balance and columns of each environment."""
    title = "The data by environment"
    names = [str(label) for label in fitted.environments_]
    if training is None:
        sizes = _sizes(getattr(fitted, "partitions_", ()))
        rows = tuple((name, sizes.get(name)) for name in names)
        return Section(title, "", (Table("Environments", ("environment", "rows"), rows),))
    blocks = _label_blocks(training, class_names) if class_names else [_target_table(training)]
    return Section(title, "", (*blocks, *profile_blocks(profile)))


def _label_blocks(training: Split, class_names: Mapping[Any, str]) -> list[Block]:
    """Return the share of each label in each environment, and a warning where shares differ much."""
    found = prevalence([class_names.get(label, str(label)) for label in training.y.tolist()], training.environments)
    order = [found.classes.index(name) for name in class_names.values() if name in found.classes]
    shares = found.shares[:, order]
    parts = [found.classes[place] for place in order]
    if len(parts) > MOST_CLASSES:
        shares = np.column_stack([shares[:, : MOST_CLASSES - 1], shares[:, MOST_CLASSES - 1 :].sum(axis=1)])
        parts = [*parts[: MOST_CLASSES - 1], f"{len(parts) - MOST_CLASSES + 1} other classes"]
    sizes = tuple(int(size) for size in found.counts.sum(axis=1))
    values = tuple(tuple(map(float, row)) for row in shares)
    blocks: list[Block] = [Shares("Label balance", found.environments, tuple(parts), values, sizes)]
    unlike = found.unlike()
    if unlike:
        text = f"Labels are more or less frequent in {listed(unlike)}, so compare accuracies with care."
        blocks.append(Sentences((text,), "warning"))
    return blocks


def profile_blocks(profile: Profile | None, place: str = "environment") -> list[Block]:
    """Return what each column looks like at each site, after what does not fit."""
    if profile is None or not profile.columns:
        return []
    rows: list[tuple[Cell, ...]] = [
        (name, *(cell.text for cell in found)) for name, found in zip(profile.columns, profile.cells, strict=True)
    ]
    note = "Numbers: median (quartiles). Categories: the most frequent level. Emphasized: what does not fit."
    title = "Every column"
    if profile.n_left_out:
        title = f"The first {len(rows)} columns"
        note += f" {profile.n_left_out:,} more columns were not looked at."
    marked = tuple((row, site + 1) for row, site in profile.marked)
    table = Table(f"{title}, by {place}", ("column", *profile.sites), tuple(rows), note, marked=marked)
    odd, n_more = profile.sentences[:MOST_REMARKS], len(profile.sentences) - MOST_REMARKS
    odd += (f"{n_more} more remarks: see the emphasized cells below.",) * (n_more > 0)
    return [*([Sentences(odd, "warning")] if odd else []), table]


def path_section(fitted: Any) -> Section | None:
    """Show what each caution of a `StableClassifier` costs and saves."""
    figure = path_figure(getattr(fitted, "path_", ()))
    if figure is None or fitted.verdict_.fitted == "ordinary":
        return None
    intro = "What each setting of `caution` costs at known sites, and saves where the columns mislead."
    return Section("Price and gain", intro, (figure,), folded=True)


def path_figure(points: Sequence[Any]) -> Curves | None:
    """Return accuracy by caution: now, if the named correlations vanish, and if they reverse."""
    if len(points) < 2:
        return None
    x = tuple(float(point.caution) for point in points)
    lines = tuple(
        Line(name, x, tuple(float(getattr(point, field).fitted) for point in points))
        for name, field in (
            ("at known environments", "known"),
            ("if the named correlations vanish", "vanished"),
            ("if they reverse", "reversed"),
        )
    )
    return Curves("Accuracy by caution", "caution: 0 is the ordinary classifier", "accuracy", lines)


def features_section(audit: Any, reliance: Any) -> Section | None:
    """List every feature: the evidence of the audit, and what classifiers rely on."""
    tables = [] if audit is None else [audit_table(audit)]
    tables += [] if reliance is None else [reliance_table(reliance)]
    found = tuple(table for table in tables if table is not None)
    return Section("Every feature", "", found, folded=True) if found else None


def audit_table(audit: Any) -> Table | None:
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


def reliance_table(reliance: Any) -> Table:
    """Return how much each classifier's accuracy falls without each feature."""
    frame = reliance.to_frame()
    rows = tuple(tuple(_cell(v) for v in row) for row in frame.head(MOST_FINDINGS).itertuples(index=False, name=None))
    columns = tuple(str(name).replace("n_rows", "rows") for name in frame.columns)
    note = "Fall of accuracy, and share of predictions that change, when a column is shuffled or a word is taken out."
    return Table("What the classifiers rely on", columns, rows, note)


def _cell(value: Any) -> Cell:
    """Return a frame's value as a cell: numpy's numbers as Python's, missing as None."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


def judges_section(fitted: Any) -> Section | None:
    """Show how well each environment's classifier does elsewhere."""
    accuracies = getattr(fitted, "accuracies_", None)
    if accuracies is None or len(fitted.environments_) < 2:
        return None
    names, matrix = [str(label) for label in fitted.environments_], np.asarray(accuracies, dtype=np.float64)
    kept, note = np.arange(len(names)), ""
    if len(names) > MOST_ENVIRONMENTS:
        away = np.where(np.eye(len(names), dtype=bool), np.nan, matrix)
        kept = np.sort(np.argsort(np.nanmin(away, axis=0), kind="stable")[:MOST_ENVIRONMENTS])
        note = f" The {MOST_ENVIRONMENTS} of {len(names)} environments are shown in which some judge does worst."
    picture = HeatMap(
        "Accuracy of each judge in each environment",
        tuple(names[i] for i in kept),
        tuple(names[i] for i in kept),
        tuple(tuple(float(matrix[i, j]) for j in kept) for i in kept),
        "share",
        "judge",
        "judged environment",
        "Rows: the environment a classifier was fitted on. Columns: the environment it judges. The diagonal is out of "
        "fold: what a judge reaches at home." + note,
    )
    intro = (
        "One classifier is fitted on each environment and asked about the others. Where it does worse than at home, it "
        "has learned something that does not hold there."
    )
    return Section("Stage 1: judges", intro, (picture,), folded=True)


def partitions_section(fitted: Any, maps: tuple[HeatMap, ...]) -> Section | None:
    """Show how judges cut the environments, and what correlates with the label in the halves."""
    partitions = getattr(fitted, "partitions_", ())
    if not partitions:
        return None
    soft = any(partition.correct_weights is not None for partition in partitions)
    rows = [
        (p.judge, p.judged, float(p.accuracy), *((len(p.correct),) if soft else (len(p.correct), len(p.mistaken))))
        for p in sorted(partitions, key=lambda p: (p.accuracy, p.judged, p.judge))
    ]
    columns = ("judge", "judged", "accuracy α", *(("rows",) if soft else ("correct rows", "mistaken rows")))
    blocks: list[Block] = [*maps, Table("Partitions, lowest accuracy first", columns, tuple(rows))]
    remarks = _degenerate(partitions, soft)
    if remarks:
        blocks.append(Sentences(tuple(remarks), "warning"))
    intro = (
        "Each judge cuts each other environment into rows that it predicts correctly and rows that it mistakes. "
        + (
            "These are soft halves: every row is in both, weighted by the judge's probability of being right. "
            if soft
            else "These are hard halves, as in the paper's pictures: whatever a judge relies on changes sides in them, "
            "stable or not. "
        )
        + "Red is a negative correlation with the label, blue a positive one."
    )
    return Section("Stage 2: halves", intro, tuple(blocks), folded=True)


def risks_section(fitted: Any) -> Section | None:
    """Show the risk of every group, while it was minimized and in the end."""
    groups, risks = getattr(fitted, "groups_", ()), getattr(fitted, "group_risks_", ())
    curves = risk_curves(fitted)
    if not len(groups) and not curves:
        return None
    blocks: list[Block] = [*curves]
    if len(groups) and len(risks) == len(groups):
        weights = getattr(fitted, "group_weights_", np.full(len(groups), np.nan))
        order = np.argsort(-np.asarray(risks), kind="stable")
        body: list[tuple[Cell, ...]] = [
            (groups[i].name, len(groups[i]), float(risks[i]), float(weights[i])) for i in order
        ]
        columns = ("group", "rows", "risk", "weight in the mixture")
        blocks.append(Table("Groups, largest risk first", columns, tuple(body), digits=4, marked=((0, 0), (0, 2))))
    gap = float(getattr(fitted, "gap_", float("nan")))
    certificate = "" if math.isnan(gap) else f" It is at most {gap:.2g} above the smallest possible."
    solver = f" ({fitted.solver_} solver)" if hasattr(fitted, "solver_") else ""
    intro = f"The final classifier minimizes the largest risk over all groups{solver}."
    worst = float(getattr(fitted, "worst_case_risk_", float("nan")))
    reached = "" if math.isnan(worst) else f" The worst group's risk is {worst:.4f}."
    return Section("Stage 3: risks", intro + reached + certificate, tuple(blocks), folded=True)


def risk_curves(fitted: Any) -> tuple[Curves, ...]:
    """Return how the groups' risks went down, as far as the history has them."""
    history = [entry for entry in getattr(fitted, "history_", None) or [] if isinstance(entry, dict)]
    if not history:
        return ()
    axis = next((name for name in ("iteration", "round", "epoch") if name in history[0]), "step")
    x = tuple(float(entry.get(axis, number)) for number, entry in enumerate(history, start=1))
    names = [group.name for group in getattr(fitted, "groups_", ())]
    found = [Curves("Risk of every group", axis, "risk", *_group_lines(history, x, names))]
    if not found[0].lines:
        keys = {
            "worst_case_risk": "worst-case risk",
            "worst_group_risk": "risk of the worst group",
            "risk": "what is minimized",
        }
        lines = [Line(text, x, _series(history, key)) for key, text in keys.items() if key in history[-1]]
        marked = lines[0].name if lines else ""
        found = [Curves("Risk while it is minimized", axis, "risk", tuple(lines), marked)] if lines else []
    if "gap" in history[-1]:
        line = Line("certified gap", x, _series(history, "gap"))
        found.append(Curves("Distance to the optimum", axis, "gap", (line,), log=True))
    return tuple(found)


def _group_lines(history: list[dict[str, Any]], x: tuple[float, ...], names: list[str]) -> tuple[tuple[Line, ...], str]:
    """Return each group's line, by name or by order as the history has them, and the one that is worst in the end."""
    last = history[-1].get("group_risks")
    if isinstance(last, dict):
        names = [str(name) for name in last]
        values = [_series([entry.get("group_risks", {}) for entry in history], name) for name in last]
    elif last is not None and len(last) == len(names):
        rows = [entry.get("group_risks", [math.nan] * len(names)) for entry in history]
        values = [tuple(float(row[place]) for row in rows) for place in range(len(names))]
    else:
        return (), ""
    order = sorted(range(len(names)), key=lambda place: (math.isnan(values[place][-1]), -values[place][-1]))
    return tuple(Line(names[place], x, values[place]) for place in order), names[order[0]] if order else ""


def _series(history: list[Any], key: str) -> tuple[float, ...]:
    return tuple(float(entry.get(key, math.nan)) for entry in history)


def _degenerate(partitions: tuple[Partition, ...], soft: bool) -> list[str]:
    """Return a sentence for each kind of partition with an empty half."""
    perfect = [f"{p.judged} by {p.judge}" for p in partitions if not soft and not len(p.mistaken)]
    hopeless = [f"{p.judged} by {p.judge}" for p in partitions if not soft and not len(p.correct)]
    found = []
    if perfect:
        found.append(f"Nobody is mistaken (α = 1): {listed(perfect)}. The empty halves are dropped.")
    if hopeless:
        found.append(
            f"Everybody is mistaken (α = 0): {listed(hopeless)}. The environments themselves are interpolated there."
        )
    return found


def _sizes(partitions: tuple[Partition, ...]) -> dict[str, int]:
    """Return the environments' numbers of rows, from any partition of each."""
    return {p.judged: len(p.correct) + (len(p.mistaken) if p.correct_weights is None else 0) for p in partitions}


def _target_table(training: Split) -> Table:
    """Return mean and spread of a number that is predicted, by environment."""
    targets = np.asarray(training.y, dtype=np.float64)
    rows = [
        (e.name, len(e), float(targets[e.rows].mean()), float(targets[e.rows].std()))
        for e in split_environments(training.environments, len(training))
    ]
    return Table("Environments", ("environment", "rows", "mean of the target", "its standard deviation"), tuple(rows))


def warnings_section(warnings: Sequence[str] | None) -> Section | None:
    """Repeat the warnings of the fit."""
    lines = tuple(dict.fromkeys(str(text) for text in warnings or ()))
    return Section("Warnings", "", (Sentences(lines, "warning"),)) if lines else None


def settings_section(fitted: Any, evidence: Evidence) -> Section:
    """Show settings, seeds and versions."""
    rows = {"method": type(fitted).__name__}
    rows |= fitted.get_params(deep=False) if hasattr(fitted, "get_params") else {}
    rows |= {f"{name} (chosen)": getattr(fitted, name) for name in ("solver_", "rounds_") if hasattr(fitted, name)}
    rows |= dict(evidence.settings)
    if evidence.seeds:
        rows["seeds"] = ", ".join(map(str, evidence.seeds))
    blocks = (
        Table("Settings", ("setting", "value"), tuple((str(name), _written(value)) for name, value in rows.items())),
        Table("Versions", ("what", "version"), tuple(versions().items())),
    )
    intro = "Settings, seeds and versions."
    if evidence.warnings is not None and not evidence.warnings:
        intro += " There were no warnings."
    return Section("How this was made", intro, blocks, folded=True)


def _written(value: Any) -> str:
    """Return a setting in one line."""
    text = str(value) if isinstance(value, str) else repr(value)
    return " ".join(text.split())[:300]
