"""The sections about the three stages: environments, judges, halves, risks."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import __version__
from holdfast.datasets.values import Split
from holdfast.environments import Partition
from holdfast.reports.values import Block, Cell, Curves, HeatMap, Line, Section, Sentences, Shares, Table

if TYPE_CHECKING:
    from holdfast.theory import HalfCurves

MOST_ENVIRONMENTS = 24  # in the accuracy matrix
MOST_CLASSES = 12  # as parts of a bar


def environments_section(fitted: Any, training: Split | None, class_names: dict[Any, str]) -> Section:
    """Tell how many rows each environment has, and how labels are distributed."""
    intro = "Rows collected under the same circumstances. The theory assumes about the same label balance everywhere."
    names = [str(label) for label in fitted.environments_]
    if training is None:
        sizes = _sizes(getattr(fitted, "partitions_", ()))
        rows = tuple((name, sizes.get(name)) for name in names)
        return Section("Environments", intro, (Table("Environments", ("environment", "rows"), rows),))
    if not class_names:
        return Section("Environments", intro, (_target_table(training),))
    from holdfast.metrics import prevalence

    found = prevalence([class_names.get(label, str(label)) for label in training.y.tolist()], training.environments)
    order = [found.classes.index(name) for name in class_names.values() if name in found.classes]
    shares = found.shares[:, order]
    parts = [found.classes[place] for place in order]
    if len(parts) > MOST_CLASSES:
        shares = np.column_stack([shares[:, : MOST_CLASSES - 1], shares[:, MOST_CLASSES - 1 :].sum(axis=1)])
        parts = [*parts[: MOST_CLASSES - 1], f"{len(parts) - MOST_CLASSES + 1} other classes"]
    sizes_of = tuple(int(size) for size in found.counts.sum(axis=1))
    values = tuple(tuple(map(float, row)) for row in shares)
    blocks: list[Block] = [Shares("Label balance", found.environments, tuple(parts), values, sizes_of)]
    unlike = found.unlike()
    if unlike:
        blocks.append(
            Sentences((f"Class shares differ much in {_listed(unlike)}; the theory assumes them equal.",), "warning")
        )
    return Section("Environments", intro, tuple(blocks))


def judges_section(fitted: Any) -> Section | None:
    """Tell how well each environment's classifier does elsewhere."""
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
    return Section("Stage 1: judges", intro, (picture,))


def partitions_section(fitted: Any, maps: tuple[HeatMap, ...]) -> Section | None:
    """Tell how judges cut the environments, and what correlates with the label in the halves."""
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
            "stable or not. The audit, on soft halves, tells the two apart. "
        )
        + "Red is a negative correlation with the label, blue a positive one."
    )
    return Section("Stage 2: halves", intro, tuple(blocks))


def risks_section(fitted: Any) -> Section | None:
    """Tell the risk of every group, while it was minimized and in the end."""
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
    solver = str(getattr(fitted, "solver_", ""))
    intro = (
        f"The final classifier minimizes the largest risk over all groups ({solver} solver)."
        if solver
        else "The final classifier minimizes the largest risk over all groups."
    )
    worst = float(getattr(fitted, "worst_case_risk_", float("nan")))
    reached = "" if math.isnan(worst) else f" The worst group's risk is {worst:.4f}."
    return Section("Stage 3: risks", intro + reached + certificate, tuple(blocks))


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
    """Return a sentence for each kind of partition that tells nothing, or everything."""
    perfect = [f"{p.judged} by {p.judge}" for p in partitions if not soft and not len(p.mistaken)]
    hopeless = [f"{p.judged} by {p.judge}" for p in partitions if not soft and not len(p.correct)]
    found = []
    if perfect:
        found.append(f"Nobody is mistaken (α = 1): {_listed(perfect)}. The empty halves are dropped.")
    if hopeless:
        found.append(
            f"Everybody is mistaken (α = 0): {_listed(hopeless)}. The environments themselves are interpolated there."
        )
    return found


def _sizes(partitions: tuple[Partition, ...]) -> dict[str, int]:
    """Return the environments' numbers of rows, from any partition of each."""
    return {p.judged: len(p.correct) + (len(p.mistaken) if p.correct_weights is None else 0) for p in partitions}


def _target_table(training: Split) -> Table:
    """Return mean and spread of a number that is predicted, by environment."""
    from holdfast.environments import split_environments

    targets = np.asarray(training.y, dtype=np.float64)
    rows = [
        (e.name, len(e), float(targets[e.rows].mean()), float(targets[e.rows].std()))
        for e in split_environments(training.environments, len(training))
    ]
    return Table("Environments", ("environment", "rows", "mean of the target", "its standard deviation"), tuple(rows))


def _listed(names: Any) -> str:
    from holdfast.environments import listed

    return listed([str(name) for name in names])


MOST_FINDINGS = 300


def audit_section(audit: Any, reliance: Any = None) -> Section | None:
    """Tell which correlations not to trust.

    Parameters
    ----------
    audit : object or None
        What `holdfast.audit.audit_data` returns.
    reliance : object or None
        Anything with `to_frame()`: what classifiers rely on, a row for each feature.
    """
    blocks: list[Block] = []
    if audit is not None:
        tables = [table for table in (audit_table(audit),) if table is not None]
        blocks += [Sentences(tuple(audit.sentences()), "finding"), *tables]
    if reliance is not None:
        blocks.append(reliance_table(reliance))
    if not blocks:
        return None
    intro = (
        "Columns, words or attributes whose relation with the label changes between environments. Effects are log-odds "
        "of the label for one standard deviation of the column, with everything else as it is."
    )
    return Section("Audit: what not to trust", intro, tuple(blocks))


def audit_table(audit: Any) -> Table | None:
    """Return the effects of the named features in each environment; None where there are none."""
    rows = tuple(
        (finding.feature, finding.label, *(finding.effects[name] for name in audit.environments), low_high(finding))
        for finding in audit.findings
        if finding.named
    )
    if not rows:
        return None
    columns = ("column", "label", *audit.environments, "next environment (80 %)")
    return Table("Effects of the named columns", columns, rows[:MOST_FINDINGS])


def low_high(finding: Any) -> str:
    """Write the prediction interval for the next environment."""
    return f"{finding.low:+.2f} to {finding.high:+.2f}"


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


LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "pandas")


def settings_section(
    fitted: Any, settings: Mapping[str, Any], seeds: Sequence[int], warnings: Sequence[str] | None
) -> Section:
    """Tell how the numbers came about."""
    rows = {"method": type(fitted).__name__, **_parameters(fitted)}
    for name in ("solver_", "rounds_"):
        if hasattr(fitted, name):
            rows[f"{name} (chosen)"] = getattr(fitted, name)
    rows |= dict(settings)
    if seeds:
        rows["seeds"] = ", ".join(map(str, seeds))
    blocks: list[Block] = [
        Table("Settings", ("setting", "value"), tuple((str(name), _written(value)) for name, value in rows.items())),
        Table("Versions", ("what", "version"), tuple(versions().items())),
    ]
    told = tuple(dict.fromkeys(str(text) for text in warnings or ()))
    if told:
        blocks.insert(0, Sentences(told, "warning"))
    intro = "Warnings, settings, seeds and versions." if told else "Settings, seeds and versions."
    if warnings is not None and not told:
        intro += " There were no warnings."
    return Section("How this was made", intro, tuple(blocks))


def versions() -> dict[str, str]:
    """Return the versions of Python, holdfast and the libraries that its numbers depend on."""
    found = {"Python": platform.python_version(), "holdfast": __version__}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "machine": f"{platform.system()} {platform.machine()}"}


def _parameters(fitted: Any) -> dict[str, Any]:
    """Return the constructor's parameters."""
    return dict(fitted.get_params(deep=False)) if hasattr(fitted, "get_params") else {}


def _written(value: Any) -> str:
    """Return a setting in one line."""
    text = str(value) if isinstance(value, str) else repr(value)
    return " ".join(text.split())[:300]


def half_figures(curves: HalfCurves) -> tuple[Curves, Curves]:
    """Return the correlation in each half, and the oracle's interpolation weight, by the η of the judged environment.

    Parameters
    ----------
    curves : HalfCurves
        From `holdfast.theory.half_curves`.
    """
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    kinds = ("soft", "hard")
    parts = [
        f"{kind} halves: {curves.correct[kind][at]:+.2f} where the judge is right, {curves.mistaken[kind][at]:+.2f} "
        f"where it is wrong, oracle at weight {curves.oracle[kind][at]:.2f}"
        for kind in kinds
    ]
    note = (
        f"Judge η = {curves.judge_eta:g}, judged η = {curves.judged_eta:g}, noise {curves.noise:g}: x2 and y correlate "
        f"at {curves.judged[at]:+.2f} in the whole environment. " + "; ".join(parts) + "."
    )

    def line(name: str, values: Any) -> Line:
        return Line(name, tuple(curves.eta.tolist()), tuple(values.tolist()))

    judge = f"judge's η = {curves.judge_eta:g}, label noise {curves.noise:g}"
    halves = [
        line(f"{half} half, {kind}", values[kind])
        for kind in kinds
        for half, values in (("correct", curves.correct), ("mistaken", curves.mistaken))
    ]
    whole = Line("whole environment", tuple(curves.eta.tolist()), tuple(curves.judged.tolist()), dashed=True)
    axis = "η of the judged environment, P(x2 ≠ y)"
    return (
        Curves(f"Correlation of x2 and y; {judge}", axis, "correlation", (*halves, whole), note=note),
        Curves(
            f"Weight of the correct half at the oracle; {judge}",
            axis,
            "weight",
            tuple(line(f"{kind} halves", curves.oracle[kind]) for kind in kinds),
        ),
    )
