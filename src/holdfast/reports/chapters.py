"""The page about a fitted estimator: the answer, accuracy, columns, and the three stages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.datasets.values import Split
from holdfast.diagnosis.clinical import ClinicalReport
from holdfast.diagnosis.profile import Profile, profile_columns
from holdfast.environments import Partition, listed, split_environments
from holdfast.exceptions import InputError
from holdfast.fitting.estimators import last_step
from holdfast.fitting.kinds import Predictor
from holdfast.machine import versions
from holdfast.metrics import prevalence
from holdfast.reports.clinical import clinical_section
from holdfast.reports.comparisons import compare_on_rows
from holdfast.reports.correlations import correlation_maps
from holdfast.reports.findings import (
    accuracy_section,
    audit_answer,
    changes_section,
    features_section,
    path_section,
    reliance_section,
    shuffle_features,
    verdict_answer,
)
from holdfast.reports.sections import profile_blocks
from holdfast.reports.values import (
    Answer,
    Block,
    Cell,
    Curves,
    Dots,
    HeatMap,
    Line,
    Page,
    Section,
    Sentences,
    Shares,
    Table,
)
from holdfast.stable.verdict import verdict_of

if TYPE_CHECKING:
    from holdfast.auditing import Audit, Reliance
    from holdfast.estimators.base import MethodEstimator

MOST_ENVIRONMENTS = 24  # in the accuracy matrix
MOST_CLASSES = 12  # as parts of a bar


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
    audit: Audit | None = None
    reliance: Reliance | None = None
    attributes: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    class_names: Sequence[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    warnings: Sequence[str] | None = None


def estimator_page(
    classifier: Predictor,
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
    verdict = verdict_of(fitted)
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
        path_section(getattr(fitted, "path_", ()), verdict),
        features_section(audit if verdict is None else None, reliance),
        judges_section(fitted),
        partitions_section(fitted, maps),
        risks_section(fitted),
        settings_section(fitted, given),
    ]
    sizes = {} if training is None else Counter(np.asarray(training.environments).astype(str).tolist())
    remarks = (*([profile.check] if profile is not None and profile.check else []), *advice)
    if answer is None and verdict is not None:
        answer = verdict_answer(verdict, remarks, sizes)
    elif answer is None and audit is not None:
        answer = audit_answer(audit, remarks)
    counted = "" if training is None else f"{len(training):,} rows of "
    return Page(
        title or type(fitted).__name__,
        f"{counted}{len(fitted.environments_)} environments: {listed([str(e) for e in fitted.environments_])}.",
        tuple(section for section in sections if section is not None),
        answer=answer,
    )


def _class_names(fitted: MethodEstimator, class_names: Sequence[str] | None) -> dict[Any, str]:
    """Return the name of each class; no classes for a regressor."""
    classes = list(getattr(fitted, "classes_", []))
    names = [str(label) for label in classes] if class_names is None else list(class_names)
    if len(names) != len(classes):
        raise InputError(f"class_names has {len(names)} names for {len(classes)} classes. Pass one for each.")
    return dict(zip(classes, names, strict=True))


def data_section(
    fitted: MethodEstimator, training: Split | None, class_names: Mapping[Any, str], profile: Profile | None
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


def judges_section(fitted: MethodEstimator) -> Section | None:
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
        "One classifier is fitted on each environment and predicts the others. If it is less accurate there than at "
        "home, it has learned something that does not hold there."
    )
    return Section("Stage 1: judges", intro, (picture,), folded=True)


def partitions_section(fitted: MethodEstimator, maps: tuple[HeatMap, ...]) -> Section | None:
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
        "Each judge divides each other environment into rows that it predicts correctly and rows that it gets wrong. "
        + (
            "These are soft halves: every row is in both, weighted by the judge's probability of being right. "
            if soft
            else "These are hard halves, as in the paper's pictures. In them the correlation of every feature that a "
            "judge uses is reversed, also of stable features. "
        )
        + "Red is a negative correlation with the label, blue a positive one."
    )
    return Section("Stage 2: halves", intro, tuple(blocks), folded=True)


def risks_section(fitted: MethodEstimator) -> Section | None:
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


def risk_curves(fitted: MethodEstimator) -> tuple[Curves, ...]:
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


def settings_section(fitted: MethodEstimator, evidence: Evidence) -> Section:
    """Show settings, seeds and versions."""
    rows = {"method": type(fitted).__name__}
    rows |= fitted.get_params(deep=False)
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
