"""`holdfast.diagnose`: does a model fail at a new site, why, and what to do.

Each site is left out in turn, and an ordinary model is fitted on the others. Its scores at the site left out are
compared with those of a model that has seen rows of that site too, on the same rows, and with its own scores at the
sites it was fitted on, out of fold. Remedies are tried in the same way, and one is recommended by what it gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from holdfast.diagnosis.advice import Recommendation, state_of
from holdfast.diagnosis.answer import recommend
from holdfast.diagnosis.measurement import Array, Experiment, Progress, no_progress
from holdfast.diagnosis.profile import Profile, describe_columns
from holdfast.diagnosis.soundness.table import SMALL_SITE
from holdfast.diagnosis.values import Diagnosis, mean_interval
from holdfast.environments import (
    PerRow,
    Rows,
    pool_small_environments,
    site_names,
    split_environments,
    take_rows,
    unique_labels,
)
from holdfast.estimators.named import find_estimator
from holdfast.exceptions import FeaturesError, HoldfastError, LabelsError
from holdfast.fitting.estimators import (
    code_probabilities,
    fit_rows,
    has_probabilities,
    is_network,
    over_codes,
    require_classifier,
    seeded_clone,
)
from holdfast.fitting.kinds import Estimator
from holdfast.rows.kinds import as_dense, is_frame, is_sparse
from holdfast.rows.reading import read_labels, read_weights
from holdfast.seeding import Seeding
from holdfast.stable.findings import Finding
from holdfast.stable.verdict import Verdict
from holdfast.tables.audits import audit_rows
from holdfast.tables.checks import find_words, numbers_alone
from holdfast.tables.classifier import TableClassifier, fit_stable
from holdfast.tables.files import open_table
from holdfast.tables.preprocessing import make_preprocessor, with_preprocessing
from holdfast.tables.remarks import table_notes
from holdfast.tables.roles import TableRoles, TableRows
from holdfast.tables.schema import TableSchema
from holdfast.tables.stages import split_rows

MOST_ODD, NETWORK_ODD = 5, 1  # columns that do not fit of which each is left out alone; fits of networks take long
MOST_SITES = 300  # with more sites, those of few rows are pooled
MOST_ENCODED = 100  # columns of the matrix that the loss is split with; wider ones are condensed


def diagnose(
    X: Any,
    y: PerRow,
    environments: PerRow,
    *,
    estimator: Any = "logistic",
    threshold: float | None = None,
    sample_weight: PerRow = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: Progress = no_progress,
) -> Diagnosis:
    """Say whether an ordinary model breaks at a site it has not seen, why, and what to do.

    Parameters
    ----------
    X : data frame or array of shape (n_rows, n_columns)
        Numbers, texts (levels) and dates; numbers may be missing.
    y : labels of shape (n_rows,)
    environments : labels of shape (n_rows,)
        The site of each row; at least two different ones.
    estimator : str or scikit-learn classifier
        A name such as "boosting" (see `holdfast fit --help`), or a classifier that takes numeric arrays.
    threshold : float, optional
        Rows with this risk or more are treated, for the net benefit; by default the share of events.
    sample_weight : array of shape (n_rows,), optional
        How much each row counts, in fits and in measures.
    n_jobs : int, optional
        Number of fits that run at the same time.
    random_state : int or None
    progress : callable
        Called at the start of each fit with its purpose, the number of earlier fits, and the expected total.

    Returns
    -------
    Diagnosis
        `str()` is the answer in words.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> y, sites = generator.integers(2, size=900), np.repeat(["Boston", "Chicago", "Denver"], 300)
    >>> marker = np.where(generator.random(900) < 0.8, y, 1 - y)
    >>> found = diagnose(marker[:, None], y, sites)
    >>> found.state, found.recommendation.action
    ('holds', 'keep')
    """
    import pandas as pd

    if not is_frame(X):
        if getattr(X, "ndim", 0) != 2 or is_sparse(X):
            raise FeaturesError(
                f"diagnose looks at the columns of a table. Got {type(X).__name__} instead. Pass a data frame, or an "
                "array with a row for each example."
            )
        X = pd.DataFrame(np.asarray(X), columns=[f"x{place}" for place in range(X.shape[1])])
    frame = open_table(X).read()
    sites = site_names(split_environments(environments, len(frame)))
    classes, codes = read_labels(y, len(frame))
    schema = TableSchema.infer(frame)
    roles = TableRoles(str(getattr(y, "name", None) or "label"), "string", ("environments",), None, schema)
    weights = read_weights(sample_weight, len(frame))
    notes = table_notes(frame, schema)
    rows = TableRows(roles, schema.features(frame), classes[codes], sites, notes=notes, sample_weight=weights).counted()
    return diagnose_rows(
        rows, estimator=estimator, threshold=threshold, n_jobs=n_jobs, random_state=random_state, progress=progress
    )


def diagnose_rows(
    rows: TableRows,
    *,
    estimator: Any = "logistic",
    threshold: float | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: Progress = no_progress,
) -> Diagnosis:
    """Diagnose the rows of a table; parameters as in `diagnose`."""
    subject = TableSubject(rows, estimator, n_jobs, random_state)
    experiment = Experiment(subject, n_jobs=n_jobs, random_state=random_state, progress=progress)
    tokens, sites_of_rows = find_words(rows), site_names(subject.environments)
    features = numbers_alone(rows.features, tokens)
    profile = describe_columns(features, sites_of_rows, rows.problems, rows.roles.label)
    odd = _odd_columns(profile, rows.roles.schema, NETWORK_ODD if subject.is_network else MOST_ODD)
    tried, drawn = experiment, experiment.sample()
    if drawn is None:
        known, new, elsewhere, without = experiment.ask_all(odd)
        known_there, new_there = known, new
    else:
        known, new, *_ = experiment.ask_all((), elsewhere_too=False)
        tried = Experiment(subject.take(drawn), n_jobs=n_jobs, random_state=random_state, progress=progress)
        tried.n_done = experiment.n_done
        known_there, new_there, elsewhere, without = tried.ask_all(odd)
    tried.announce_verdict()
    verdict, findings, notes = subject.judge()
    is_stable = verdict is not None and verdict.fitted != "ordinary"
    unstable = tuple(finding.feature for finding in findings) if is_stable else ()
    remedies = tried.try_remedies(known_there, new_there, without, unstable)
    collect = next(remedy for remedy in remedies if remedy.action == "collect")
    sites = tuple(experiment.describe_sites(new, known, tried.split_sites(new_there, elsewhere)))
    parts = {name: mean_interval([site.split.parts[name] for site in sites]) for name in sites[0].split.parts}
    large = {site.name for site in experiment.large}
    if drawn is not None:
        notes += (
            f"remedies and the parts of the loss come from {len(drawn):,} of {len(rows.y):,} rows, drawn at random",
        )
    found = Diagnosis(
        estimator if isinstance(estimator, str) else type(estimator).__name__,
        "log loss" if subject.probable else "share of mistakes",
        "unclear",
        sites,
        mean_interval([site.lost for site in sites if site.name in large]),
        parts,
        findings,
        profile,
        tokens,
        remedies,
        Recommendation("keep", "", "", ""),
        verdict,
        (*rows.notes, *notes, *experiment.notes()),
        rows.roles.label,
        experiment.later(known, with_stable=is_stable),
        experiment.odd_sites(new, known),
        experiment.clinical(new, threshold),
    )
    found = replace(found, state=state_of(found, collect))
    return replace(found, recommendation=recommend(found))


class TableSubject:
    """The rows of a table, and the unfitted model: what an `Experiment` asks."""

    def __init__(self, rows: TableRows, estimator: Estimator, n_jobs: int | None, random_state: int | None) -> None:
        self.rows, self.estimator, self.n_jobs, self.random_state = rows, estimator, n_jobs, random_state
        self.inner = find_estimator(estimator).make() if isinstance(estimator, str) else clone(estimator)
        require_classifier(self.inner, asked_by="diagnose")
        self.probable, self.is_network = has_probabilities(self.inner), is_network(self.inner)
        self.classes, self.y = unique_labels(rows.y, what="labels", error=LabelsError)
        self.inner = over_codes(self.inner, self.classes)
        sites = split_rows(rows, because="so no site can be left out")
        self.environments = pool_small_environments(sites, min_size=SMALL_SITE, most=MOST_SITES)
        encoded = make_preprocessor(rows.roles.schema).fit_transform(rows.features)
        if encoded.shape[1] > MOST_ENCODED:
            encoded = TruncatedSVD(20, random_state=0).fit_transform(encoded)
        self.weights, self.subjects = rows.sample_weight, rows.subjects
        self.columns: Array = np.asarray(as_dense(encoded), dtype=np.float64)

    def take(self, rows: Rows) -> TableSubject:
        """Return some of the rows, with the same model."""
        return TableSubject(replace(self.rows.take(rows), notes=()), self.estimator, self.n_jobs, self.random_state)

    def ask(self, rest: Rows, out: Rows, without: Sequence[str] = ()) -> Array:
        """Fit the model on some rows and return its probabilities for others, (n_out, n_classes)."""
        schema, features = self.rows.roles.schema, self.rows.features
        if without:
            schema = replace(schema, columns=tuple(c for c in schema.columns if c.name not in without))
            features = features[schema.feature_names()]
        model = seeded_clone(with_preprocessing(schema, self.inner), Seeding(self.random_state), "diagnose")
        fitted = fit_rows(model, features, self.y, rest, None if self.weights is None else self.weights[rest])
        return code_probabilities(fitted, take_rows(features, out), len(self.classes))

    def ask_stable(self, rest: Rows, out: Rows) -> Array:
        """Return the stable classifier's probabilities for rows of sites left out, (n_out, n_classes)."""
        rows = self.rows
        fitted, answers = self._fit_stable(rows.take(rest)), np.zeros((len(out), len(self.classes)))
        places = np.searchsorted(self.classes.astype(fitted.classes_.dtype), fitted.classes_)
        if has_probabilities(fitted.pipeline_):
            answers[:, places] = fitted.pipeline_.predict_proba(rows.features.iloc[out])
        else:
            predicted = np.searchsorted(self.classes, fitted.pipeline_.predict(rows.features.iloc[out]))
            answers[np.arange(len(out)), predicted] = 1.0
        return answers

    def judge(self) -> tuple[Verdict | None, tuple[Finding, ...], tuple[str, ...]]:
        """Return what the stable classifier says about all rows, the columns that change, and remarks."""
        try:
            verdict = self._fit_stable(self.rows).verdict_
            return verdict, verdict.columns, ()
        except HoldfastError as problem:
            found = audit_rows(self.rows, level=0.05).findings
            return None, tuple(f for f in found if f.named), (f"the stable classifier was not tried: {problem}",)

    def _fit_stable(self, rows: TableRows) -> TableClassifier:
        return fit_stable(rows, estimator=self.estimator, random_state=self.random_state, n_jobs=self.n_jobs)


def _odd_columns(profile: Profile | None, schema: TableSchema, most: int) -> list[tuple[str, ...]]:
    """Return sets of columns to try without: each that does not fit at some site, and all of them."""
    if profile is None:
        return []
    known = set(schema.names())
    odd = [name for name in profile.odd if name in known]
    sets = [(name,) for name in odd[:most]] + ([tuple(odd)] if len(odd) > 1 else [])
    return [columns for columns in sets if len(columns) < len(known)]
