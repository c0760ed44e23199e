"""Diagnose an existing model, by a column of its probabilities or by its folder, without fitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.diagnosis.clinical import clinical_report
from holdfast.diagnosis.profile import describe_columns
from holdfast.diagnosis.scores import ScoreDiagnosis, judge_scores
from holdfast.diagnosis.soundness import Problem, check_table
from holdfast.diagnosis.words import headline
from holdfast.environments import PerRow, listed, site_names, split_environments
from holdfast.exceptions import LabelsError, ParameterError, TableError, suggest
from holdfast.fitting.estimators import has_probabilities
from holdfast.tables.files import TableLike, open_table
from holdfast.tables.roles import TableOptions, read_environments, read_labels, read_rows
from holdfast.tables.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.tables.classifier import TableClassifier

ABOUT_LABELS = ("label_spelling", "label_codes", "label_of_one_site", "one_class", "copied_rows")
ABOUT_COLUMNS = ("unit", "factor", "sentinel")  # wrong input of a model; a column of scores is as it is


def diagnose_scores(
    scores: Any,
    y: PerRow,
    environments: PerRow,
    *,
    X: Any = None,
    positive: Any = None,
    threshold: float | None = None,
    sample_weight: PerRow = None,
    known: Sequence[str] = (),
) -> ScoreDiagnosis:
    """Say whether stated risks hold at every site, where they do not, and what to do; nothing is fitted.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        Predicted probability of `positive` for each row, from any model.
    y : labels of shape (n_rows,)
        Two classes.
    environments : labels of shape (n_rows,)
        The site of each row; at least two different ones.
    X : data frame, optional
        Columns to check for errors at single sites.
    positive : label, optional
        The class whose probability the scores are; by default the second class in order.
    threshold : float, optional
        Rows with this risk or more are treated; by default the share of events.
    sample_weight : array of shape (n_rows,), optional
        How much each row counts.
    known : sequence of str
        Sites whose rows were used to train the model; the answer says so.

    Returns
    -------
    ScoreDiagnosis
        `str()` is the answer in words.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> risk, site = generator.uniform(0.1, 0.9, 1200), np.repeat(["Boston", "Chicago", "Denver"], 400)
    >>> died = generator.random(1200) < np.where(site == "Denver", risk / 2, risk)
    >>> found = diagnose_scores(risk, died, site)
    >>> found.state, found.recommendation.sentence
    ('miscalibrated', 'Recalibrate the model in Denver.')
    """
    frame = None if X is None else open_table(X).read()
    schema = None if frame is None else TableSchema.infer(frame)
    features = None if frame is None or schema is None else schema.features(frame)
    return _diagnose(
        np.asarray(scores, dtype=np.float64),
        np.asarray(y),
        environments,
        features,
        [] if schema is None else schema.names("text"),
        name=str(getattr(scores, "name", None) or "scores"),
        label=str(getattr(y, "name", None) or "label"),
        positive=positive,
        threshold=threshold,
        sample_weight=sample_weight,
        known=known,
        fatal=ABOUT_LABELS,
    )


def diagnose_score_column(
    table: TableLike, options: TableOptions, score: str, *, positive: str | None = None, threshold: float | None = None
) -> ScoreDiagnosis:
    """Diagnose a column of probabilities in a table; its other columns, if any, are checked."""
    options.refuse_role(score, "it cannot be the score")
    source = open_table(table, options.missing)
    source.require([score])
    settings: dict[str, Any] = {"name": score, "label": options.label, "positive": positive, "threshold": threshold}
    if set(options.feature_names(source.columns)) - {score}:
        rows = read_rows(source, options, attributes=[score])
        assert rows.attributes is not None
        return _diagnose(
            read_scores(rows.attributes[score], score),
            rows.y,
            rows.environments,
            rows.features,
            rows.roles.schema.names("text"),
            sample_weight=rows.sample_weight,
            notes=rows.notes,
            fatal=ABOUT_LABELS,
            **settings,
        )
    weighted = [] if options.weight is None else [options.weight]
    source.require([options.label, *options.environment, *weighted])
    frame = source.read(list(dict.fromkeys([options.label, *options.environment, score, *weighted])))
    if options.missing_labels == "drop":
        frame = frame[frame[[options.label, *options.environment]].notna().all(axis=1)]
    return _diagnose(
        read_scores(frame[score], score),
        read_labels(frame[options.label], options.label),
        read_environments(frame, options.environment, options.environment_by),
        None,
        (),
        sample_weight=frame[options.weight].to_numpy() if options.weight is not None else None,
        notes=source.notes,
        fatal=ABOUT_LABELS,
        **settings,
    )


def diagnose_model(
    fitted: TableClassifier,
    table: TableLike,
    *,
    environment: Sequence[str] = (),
    positive: str | None = None,
    threshold: float | None = None,
) -> ScoreDiagnosis:
    """Diagnose a saved classifier of two classes on a table with labels."""
    if len(fitted.classes_) != 2 or not has_probabilities(fitted.method_):
        raise ParameterError(
            f"diagnose with a model needs probabilities of two classes. This one has {len(fitted.classes_)} classes "
            f"and the estimator {fitted.names['estimator']}. Use 'holdfast evaluate', which takes any classifier."
        )
    source = open_table(table, fitted.roles_.missing)
    rows = fitted.read_rows(source, environment=environment)
    classes = [str(label) for label in fitted.classes_]
    event = classes[1] if positive is None else positive
    if event not in classes:
        raise LabelsError(f"There is no label {event!r}. {suggest(event, classes)}")
    risks = fitted.predict_proba(source)[:, classes.index(event)]
    known = set(fitted.roles_.known or map(str, fitted.method_.environments_))
    here = [name for name in dict.fromkeys(map(str, rows.environments)) if name in known]
    verb = "so its figures there look too good if these are the same rows"
    notes = (f"The model was fitted on rows of {listed(here, most=4)}, {verb}.",) if here else ()
    return _diagnose(
        np.clip(risks, 0.0, 1.0),
        rows.y,
        rows.environments,
        rows.features,
        rows.roles.schema.names("text"),
        name=f"{fitted.names['method']} with {fitted.names['estimator']}",
        label=rows.roles.label,
        positive=event,
        threshold=threshold,
        sample_weight=None,
        known=here,
        notes=notes,
        fatal=(*ABOUT_LABELS, *ABOUT_COLUMNS),
    )


def read_scores(series: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """Return a column of probabilities; refuse gaps, texts and what is not between 0 and 1."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(series.dtype):
        raise TableError(
            f"Score column {name!r} has texts such as {str(series.dropna().iloc[0])!r}. Pass a column of probabilities."
        )
    values = series.to_numpy(dtype=np.float64)
    n_gaps = int(np.isnan(values).sum())
    if n_gaps:
        raise TableError(
            f"Score column {name!r} is missing in {n_gaps:,} of {len(values):,} rows. Remove these rows, or score them."
        )
    if values.min() < 0 or values.max() > 1:
        are_percent = values.min() >= 0 and values.max() <= 100
        hint = "Divide percentages by 100." if are_percent else "Turn log-odds into 1 / (1 + exp(-x))."
        raise TableError(
            f"Score column {name!r} runs from {values.min():.3g} to {values.max():.3g}, so it has no probabilities. "
            f"{hint}"
        )
    return values


def _diagnose(
    scores: NDArray[np.float64],
    y: NDArray[Any],
    environments: PerRow,
    features: pd.DataFrame | None,
    texts: Sequence[str],
    *,
    name: str,
    label: str,
    positive: Any,
    threshold: float | None,
    sample_weight: PerRow,
    fatal: Sequence[str],
    known: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ScoreDiagnosis:
    """Check the data, measure the risks at every site, and say what that means."""
    if scores.shape != y.shape:
        raise LabelsError(f"y has {len(y)} labels for {len(scores)} scores. Pass one of each for every row.")
    split = split_environments(environments, len(y))
    sites = site_names(split)
    if len(split) < 2:
        raise TableError(f"All rows are of one site, {split[0].name!r}, so sites cannot be compared. Pass more sites.")
    problems: list[Problem] = []
    profile = None
    if features is not None:
        problems = list(check_table(features, y, sites, texts=texts))
        profile = describe_columns(features, sites, problems, label)
    wrong = [problem for problem in problems if problem.key in fatal and problem.is_headline]
    classes = sorted({str(value) for value in y}) if y.dtype == object else [str(v) for v in np.unique(y)]
    if len(classes) != 2:
        said = " ".join(headline(wrong, label)) if wrong else f"{label!r} has {len(classes)} values: {listed(classes)}."
        raise LabelsError(f"Scores are probabilities of one of two classes. {said}")
    event = classes[1] if positive is None else str(positive)
    if event not in classes:
        raise LabelsError(f"There is no label {event!r}. {suggest(event, classes)}")
    events = np.array([str(value) == event for value in y])
    report = clinical_report(events, scores, sites, event=event, threshold=threshold, sample_weight=sample_weight)
    overall = report.pooled_of("auroc")
    if overall is not None and overall.mean.high < 0.5:
        other = next(value for value in classes if value != event)
        raise LabelsError(
            f"The ranking by {name!r} is reversed (AUROC of all sites {overall.mean.value:.2f}): it seems to be the "
            f"probability of {other!r}. Pass positive={other!r}."
        )
    return judge_scores(report, name=name, label=label, profile=profile, problems=wrong, known=known, notes=notes)
