r"""A classifier that relies less on relations that change between environments, and says so."""

from __future__ import annotations

import copy
import html
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from holdfast.auditing.run import AuditSettings, read_columns
from holdfast.environments import label_array, listed, take_rows, unique_labels
from holdfast.estimators.base import MethodClassifier, fit_erm, warn_single_environment
from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import EnvironmentsError, FeaturesError, HoldfastWarning, ParameterError, warn
from holdfast.fitting.calibration import calibrate, class_scores, log_softmax
from holdfast.fitting.estimators import (
    code_probabilities,
    fit_rows,
    has_threshold,
    last_step,
    predicted_codes,
    seeded_clone,
    stopped_like,
)
from holdfast.fitting.folds import deal_evenly
from holdfast.fitting.logistic import refit_logistic
from holdfast.judging.judges import JudgeSettings, deal_folds, fit_folds, warn_of_empty_columns
from holdfast.metrics import Interval
from holdfast.newsite.adapt import (
    Adaptation,
    AdaptedClassifier,
    Relearning,
    UnstableColumn,
    adapt,
    ask_again,
    try_known_sites,
)
from holdfast.newsite.check import SiteCheck, check_site
from holdfast.newsite.forecast import ForecastBasis, make_basis
from holdfast.newsite.profile import as_frame, column_names, profile_matrix
from holdfast.newsite.recalibrate import RecalibratedClassifier
from holdfast.parallel import run_each
from holdfast.rows.kinds import holds_items, is_sparse, is_text
from holdfast.rows.mapped import is_mapped
from holdfast.rows.training import TrainingRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.columns import Columns, split_categories
from holdfast.stable.decision import CAUTION, kept_share, removal_levels
from holdfast.stable.design import Design, make_design
from holdfast.stable.findings import find
from holdfast.stable.hypotheses import Posterior, posteriors
from holdfast.stable.network import NetworkRows, find_network, read_skill
from holdfast.stable.removal import (
    MixedClassifier,
    Removal,
    centered,
    join_removals,
    mix_scores,
    plan_removal,
    shuffled_partners,
)
from holdfast.stable.scenarios import Part, Scenarios, ask_out_of_fold, try_scenarios
from holdfast.stable.verdict import RARE, SUSPECTED, Accuracy, Verdict, fitted_as

Array = NDArray[np.float64]
N_FOLDS = 2  # for price and gain
CAUTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of `path_`
MOST_WORST_CASE = 3  # sites up to which the stable network minimizes the worst half, and not the mean of the halves
MOST_LEFT_OUT = 5  # rounds of leaving environments out
ROWS_FOR_ONE_DRAW = 4000  # with fewer rows, columns are shuffled several times
MOST_COPIED = 2**30  # bytes of a memory map that are copied into memory; joblib maps every array above a megabyte
COPIED, DISTINCT = 0.1, 0.9  # share of rows that are copies; of the rows without copies that one column tells apart


@dataclass(frozen=True)
class PathPoint:
    """What one caution costs and saves."""

    caution: float
    price: Interval
    known: Accuracy
    vanished: Accuracy
    reversed: Accuracy


@dataclass(eq=False, repr=False)
class StableClassifier(MethodClassifier):
    r"""Train a classifier that relies less on columns whose effect differs between environments.

    For each column :math:`x` the model compares three hypotheses, with :math:`o` the log-odds of the label given the
    other columns: *mechanism* (the others predict :math:`x` within label and environment), *label alone, stable* and
    *label alone, changing*. For the latter two

    .. math:: p(y, x \mid o, e) = \sum_{y^*} P(y^* \mid a_e + s_e o)\, P(y \mid y^*; v_e)\, p(x \mid y^*, e; b_e),

    with flipped labels :math:`v_e` and effects :math:`b_e`, the same everywhere or drawn from
    :math:`N(b, (\rho b)^2)`. With the probability :math:`P` of a change and :math:`p = \sigma(|b|)`, the column is
    expected to agree with the label at a new environment in the share
    :math:`q = 1/2 + (p - 1/2) \max(0, 1 - 2 \cdot \mathrm{caution} \cdot P)` of the rows, and
    :math:`\mathrm{logit}\, q / \mathrm{logit}\, p` of its effect is kept. A classifier fitted without the column
    is mixed with the ordinary one accordingly. Where nothing changes, the result is the ordinary classifier, to the
    last bit. `verdict_` says what was fitted, why, what it costs and what it saves.

    Pictures, sequences, dicts and Datasets have no columns. There the ordinary network is compared with a network of
    Predict then Interpolate, both out of fold (`holdfast.stable.network`).

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        Any classifier or Pipeline, or a NeuralClassifier. None: columns scaled to unit variance, then a logistic
        regression.
    caution : float between 0 and 1
        What to expect of a relation that changes. 0: the next environment is like these, so nothing is given up. 0.5:
        the relation may vanish there. 1: it may reverse. `path_` has price and gain of others.
    n_jobs : int or None
        Fits that run at the same time.
    random_state : int or None
        Seeds the estimator where its own `random_state` is unset. The verdict does not depend on it, nor on
        the order of rows, unless the estimator draws at random, as forests do: then prices move a little.

    Attributes
    ----------
    verdict_ : Verdict
        What was fitted and why; `str(verdict_)` is the answer in words.
    path_ : tuple of PathPoint
        Price and accuracies for several values of caution.
    estimator_ : fitted classifier over class codes
    ordinary_ : fitted classifier over class codes
        The ordinary classifier, for comparison.
    environments_, classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = StableClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> model.verdict_.fitted
    'stable'
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this
    reads_columns: ClassVar[bool] = True  # which ones are unstable: a table's columns are worth more than a matrix

    estimator: Any = None
    _: KW_ONLY
    caution: float = CAUTION
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        environments: Any = None,
        sample_weight: Any = None,
        subjects: Any = None,
        words: Sequence[frozenset[str]] | None = None,
    ) -> StableClassifier:
        """Fit the ordinary classifier, decide which columns to use less, and mix.

        Parameters
        ----------
        X : array, sparse matrix, frame, list of texts, images of shape (n_rows, …), dict or Dataset
        y : labels of shape (n_rows,); None: those of a dict or Dataset
        environments : labels of shape (n_rows,)
            Which environment each row came from. None, or one label only: the ordinary classifier, with a warning.
            Those of a dict or Dataset where it has some.
        sample_weight : array of shape (n_rows,), optional
            How many rows each row stands for.
        subjects : labels of shape (n_rows,), optional
            Rows that belong together, such as the visits of one patient. They share a fold, and as evidence they count
            as one row (of pictures and Datasets: they share a fold).
        words : sequence of sets of str, optional
            For a matrix of words and phrases: the words of each column. Phrases are judged by their words: a word that
            is ignored is ignored in every phrase.
        """
        if not isinstance(self.caution, int | float | np.number) or not 0 <= self.caution <= 1:
            raise ParameterError(
                f"The 'caution' parameter of StableClassifier must lie between 0 and 1. Got {self.caution!r} instead."
            )
        training = self._read_training(X, y, environments, sample_weight=sample_weight)
        seeding = Seeding(self.random_state)
        estimator = self._coded_estimator(training)
        alone = warn_single_environment(training.environments, type(self).__name__)
        if is_mapped(training.X) and training.X.nbytes <= MOST_COPIED:
            training = replace(training, X=np.array(training.X))
        if not alone and _has_no_columns(training.X):
            self._fit_network(estimator, training, subjects, seeding)
            return self
        together = None
        if not alone:  # what cannot be used is refused before any work
            columns = _read_table(training.X, training.names)
            if words is not None:
                columns = _without_phrases(columns, words)
            _warn_of_split_categories(columns)
            warn_of_empty_columns(training, "its effect there is not known, so it cannot be compared")
            together = _read_subjects(subjects, training, columns)
            if together is not None:
                training = replace(training, folds=_folds_of(together, training))
        self.ordinary_ = self.estimator_ = fit_erm(estimator, training, seeding)
        self.profile_ = None
        if not is_text(training.X) and not is_sparse(training.X) and not _has_no_columns(training.X):
            names = column_names(training.X, training.names)
            self.profile_ = profile_matrix(training.X, names, training.environments)
        if alone:
            unknown, nothing = Accuracy(np.nan, np.nan), Interval(0.0, 0.0, 0.0)
            self.path_: tuple[PathPoint, ...] = ()
            forecast = Interval(np.nan, np.nan, np.nan)
            self.verdict_ = Verdict("ordinary", (), {}, nothing, unknown, unknown, unknown, forecast)
            return self
        # What the ordinary classifier was fitted on need not be looked at again.
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            design = make_design(
                columns,
                training.y,
                training.environment_codes,
                n_classes=len(self.classes_),
                weights=training.sample_weight,
                subjects=together,
            )
            self._decide(estimator, training, columns, design, posteriors(design), words, seeding)
        return self

    def _fit_network(self, estimator: Any, training: TrainingRows, subjects: Any, seeding: Seeding) -> None:
        """Decide for inputs without columns: the ordinary classifier, or PI, or both mixed, by `stable.network`."""
        self.ordinary_ = self.estimator_ = fit_erm(estimator, training, seeding)
        self.profile_ = None
        sites = [environment.name for environment in training.environments]
        asked = _ask_folds(self, estimator, training, _network_folds(training, subjects), seeding)
        given = training.y, training.environment_codes, training.sample_weight, asked.read_sites(estimator, seeding)
        rows = NetworkRows(asked.ordinary, asked.stable, *given)
        weights = rows.weights(float(self.caution))
        if weights[1]:
            total, both = sum(weights), [self.ordinary_, _fit_pi(self, estimator, training, seeding).estimator_]
            mixed = mix_scores([asked.ordinary, asked.stable], [weight / total for weight in weights])
            calibration = calibrate(mixed, training.y, training.sample_weight)
            used = [i for i in (0, 1) if weights[i]]
            parts = [both[i] for i in used], [Removal()] * len(used), [weights[i] / total for i in used]
            self.estimator_ = MixedClassifier(*parts, calibration)
        finding = find_network(rows, weights)
        self.path_ = tuple(_network_point(rows, caution) for caution in CAUTIONS)
        self.relearning_ = Relearning()
        known, left_out = np.exp(log_softmax(rows.mixed(weights))), np.exp(log_softmax(asked.left_out))
        self.forecasting_ = make_basis(
            known, left_out, training.y, {environment.name: environment.rows for environment in training.environments}
        )
        right, shares = asked.left_out.argmax(axis=1) == training.y, training.weights
        elsewhere = np.array([np.average(right[e.rows], weights=shares[e.rows]) for e in training.environments])
        ordinary, fitted = rows.accuracies((1.0, 0.0)), rows.accuracies(weights)
        most_frequent = np.bincount(training.y, shares).max() / shares.sum()
        self.verdict_ = Verdict(
            "ordinary" if not weights[1] else "partly" if weights[0] else "stable",
            (),
            {},
            rows.price(weights),
            rows.compare(weights),
            rows.compare(weights, rows.share(0.5)),
            rows.compare(weights, rows.reversed_share),
            rows.forecast(weights, elsewhere),
            {name: Accuracy(float(a), float(b)) for name, a, b in zip(sites, ordinary, fitted, strict=True)},
            float(most_frequent),
            0,
            {},
            float(self.caution),
            finding,
        )

    def _decide(
        self,
        estimator: Any,
        training: TrainingRows,
        columns: Columns,
        design: Design,
        found: Sequence[Posterior],
        words: Sequence[frozenset[str]] | None,
        seeding: Seeding,
    ) -> None:
        """Mix the ordinary classifier with others that do without the unstable columns, and write the verdict."""
        names = [columns.features()[feature[0]] for feature in design.features]
        by_name = dict(zip(names, found, strict=True))
        sources = {
            name: sorted({int(columns.sources[column]) if columns.sources else column for column in feature})
            for name, feature in zip(names, design.features, strict=True)
        }
        if words is not None:
            sources = {name: _with_phrases(places, words) for name, places in sources.items()}
        kept = {name: kept_share(posterior, float(self.caution)) for name, posterior in by_name.items()}
        sites = [environment.name for environment in training.environments]
        findings = find(columns, design, found, self.classes_, sites, training.environment_codes)
        shown = tuple(
            finding
            for name, finding in findings.items()
            if kept[name] < 1.0 or (finding.p_value < SUSPECTED and by_name[name].change > 0)
        )
        doubts = [finding.feature for finding in shown if kept[finding.feature] == 1.0]
        if shown:  # where columns change, others that nothing shows to be part of a mechanism may be the next
            named = {finding.feature for finding in shown}
            doubts += sorted(name for name, found in by_name.items() if name not in named and found.mechanism < 0)
        planned = kept  # where nothing is given up, `path_` shows what the default would save
        if all(share == 1.0 for share in kept.values()):
            planned = {name: kept_share(posterior) for name, posterior in by_name.items()}
        mixture = _Mixture(self, estimator, training, seeding, sources, planned, doubts)
        scenarios = mixture.scenarios
        weights = mixture.weights(kept)
        if weights[0] < 1.0:
            if has_threshold(estimator):
                inner = type(last_step(estimator)).__name__
                warn(
                    f"The threshold of {inner} is not used, because classifiers with and without some columns are "
                    f"mixed by their probabilities. Put it around StableClassifier: {inner}(StableClassifier(...)).",
                    HoldfastWarning,
                )
            self.estimator_ = mixture.fit(weights)
        left_out = mixture.left_out_scores(weights)
        self.relearning_ = mixture.relearn(weights, left_out, by_name, sources)
        self.forecasting_ = mixture.forecasting(weights, left_out)
        self.path_ = tuple(
            _point(scenarios, caution, mixture.weights({name: kept_share(by_name[name], caution) for name in kept}))
            for caution in CAUTIONS
        )
        ordinary = scenarios.accuracies("known", [1.0] + [0.0] * (len(weights) - 1))
        fitted = scenarios.accuracies("known", weights)
        shares = np.bincount(training.y, training.weights) / training.weights.sum()
        self.verdict_ = Verdict(
            fitted_as(list(kept.values())),
            shown,
            {finding.feature: kept[finding.feature] for finding in shown},
            scenarios.price(weights),
            scenarios.compare("known", weights),
            scenarios.compare("vanished", weights),
            scenarios.compare("reversed", weights),
            scenarios.forecast(weights, mixture.left_out(left_out[int(np.argmax(weights))])),
            {name: Accuracy(float(a), float(b)) for name, a, b in zip(sites, ordinary, fitted, strict=True)},
            float(shares.max()),
            columns.n_columns,
            scenarios.ranks(weights) if shares.max() >= RARE else {},
            float(self.caution),
        )

    def adapt(self, X: Any) -> StableClassifier:
        """Return a classifier that is adapted to a new site, by rows of that site without labels.

        The stable part teaches what each unstable column says about the label there (`holdfast.newsite.adapt`). Where
        the guards refuse, the classifier that is returned predicts as before; its `adaptation_` says why.

        Parameters
        ----------
        X : rows of the site, as for `predict`; 100 or more are a good number

        Returns
        -------
        StableClassifier
            A copy, with `adaptation_`. It is not fitted again.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        adapted, mixed = copy.copy(self), self.estimator_
        if isinstance(mixed, RecalibratedClassifier):
            raise ParameterError(
                "This classifier was recalibrated for a site. Adapt the one that it was made of, then recalibrate."
            )
        if isinstance(mixed, AdaptedClassifier):  # to this site earlier, or to another one
            stable, removal = mixed.estimator, mixed.removal
        elif isinstance(mixed, MixedClassifier):
            stable, removal = mixed.estimators[-1], mixed.removals[-1]
        else:
            adapted.adaptation_ = Adaptation(False, n_rows, reason="no_unstable_column")
            return adapted
        relearning = getattr(self, "relearning_", None)  # models that were saved before have none
        if relearning is None:
            adapted.adaptation_ = Adaptation(False, n_rows, reason="older_model")
            return adapted
        found, adapted.adaptation_ = adapt(relearning, stable, removal, X, len(self.classes_))
        if found is not None:
            adapted.estimator_ = found
        return adapted

    def check(self, X: Any) -> SiteCheck:
        """Say whether this classifier can be used at a new site, from rows of that site without labels.

        Columns are compared with the profile of the training rows. Then it is asked what unstable columns say about the
        label there, and which accuracy to expect (`holdfast.newsite.check`).

        Parameters
        ----------
        X : rows of the site, as for `predict`; 100 or more are a good number
        """
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        used, adaptation = self.arrive(rows)
        profile = getattr(self, "profile_", None)  # texts, sparse matrices and models that were saved before have none
        named = (
            rows if profile is None else as_frame(rows, column_names(rows, getattr(self, "feature_names_in_", None)))
        )

        def predict(features: Any) -> Array:
            plain = hasattr(features, "columns") and not hasattr(rows, "columns")
            inner = features.to_numpy() if plain else features
            return np.asarray(code_probabilities(used.estimator_, inner, len(self.classes_)))

        basis = getattr(self, "forecasting_", None)
        return check_site(named, predict, classes=self.classes_, profile=profile, basis=basis, adaptation=adaptation)

    def arrive(self, X: Any) -> tuple[StableClassifier, Adaptation | None]:
        """Return the classifier to use at a site, adapted where that is possible, and what was found.

        A classifier that is adapted already stays as it is; it is found out whether the columns still mean the same.
        None: it was recalibrated for a site, and never adapted.
        """
        inner = self.estimator_.estimator if isinstance(self.estimator_, RecalibratedClassifier) else self.estimator_
        if isinstance(inner, AdaptedClassifier):
            return self, ask_again(inner, self.relearning_.columns, X)
        if inner is not self.estimator_:
            return self, None
        used = self.adapt(X)
        return used, used.adaptation_

    def _html_repr(self) -> str:
        """Return what notebooks show: the verdict above scikit-learn's diagram."""
        diagram = str(estimator_html_repr(self))
        if not hasattr(self, "verdict_"):
            return diagram
        first, _, rest = html.escape(str(self.verdict_)).partition(". ")
        style = "margin:0 0 .8em; padding:.5em .8em; border-left:.3em solid currentColor; max-width:48em"
        return f'<p style="{style}"><strong>{first.rstrip(".")}.</strong> {rest}</p>{diagram}'


@dataclass(frozen=True, eq=False)
class _FoldAnswers:
    """What classifiers of the other fold say about every row, (n_rows, n_classes), and the folds themselves."""

    ordinary: Array
    stable: Array
    left_out: Array  # by the judges of the other sites together
    training: TrainingRows
    folds: NDArray[np.intp]

    def read_sites(self, estimator: Any, seeding: Seeding) -> float:
        """Return how well the site can be read off the input, by the same estimator: 0 chance, 1 always."""
        fitted, asked = np.flatnonzero(self.folds != 0), np.flatnonzero(self.folds == 0)
        sites, X = self.training.environment_codes, self.training.X
        reader = fit_rows(seeded_clone(estimator, seeding, "sites"), X, sites, fitted, None)
        return read_skill(predicted_codes(reader, take_rows(X, asked)), sites[asked])


def _ask_folds(
    owner: StableClassifier, estimator: Any, training: TrainingRows, folds: NDArray[np.intp], seeding: Seeding
) -> _FoldAnswers:
    """Fit the ordinary classifier and PI without each fold, and ask both, and PI's judges, about the fold."""
    n_classes = len(owner.classes_)
    ordinary, stable, left_out = (np.zeros((training.n_rows, n_classes)) for _ in range(3))
    sites = training.environment_codes
    for number in range(N_FOLDS):
        asked = np.flatnonzero(folds == number)
        part = _rows_of(training, np.flatnonzero(folds != number))
        pi = _fit_pi(owner, estimator, part, seeding.child("fold", number))
        judges = list(pi.environment_classifiers_.values())
        X = take_rows(training.X, asked)
        ordinary[asked] = class_scores(fit_erm(estimator, part, seeding.child("fold", number)), X, n_classes)
        stable[asked] = class_scores(pi.estimator_, X, n_classes)
        answers = np.stack([centered(class_scores(judge, X, n_classes)) for judge in judges])
        others = 1.0 - np.eye(len(judges))[sites[asked]].T  # (n_judges, n_asked)
        left_out[asked] = np.einsum("jr,jrc->rc", others, answers) / (len(judges) - 1)
    return _FoldAnswers(ordinary, stable, left_out, training, folds)


def _fit_pi(owner: StableClassifier, estimator: Any, training: TrainingRows, seeding: Seeding) -> PIClassifier:
    """Fit Predict then Interpolate on rows over class codes; its remarks about halves are not the user's concern."""
    # The worst case asks for every half in each step: beyond a few sites the mean of the halves is much cheaper.
    many = len(training.environments) > MOST_WORST_CASE and hasattr(last_step(estimator), "fit_groups")
    pi = PIClassifier(
        estimator, objective="equal" if many else "max", n_jobs=owner.n_jobs, random_state=seeding.integer("pi") % 2**31
    )
    sites = training.environment_codes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return pi.fit(training.X, training.y, environments=sites, sample_weight=training.sample_weight)


def _rows_of(training: TrainingRows, rows: NDArray[np.intp]) -> TrainingRows:
    """Return some of the rows; every environment has some of them."""
    sites = training.environment_codes[rows]
    parts = tuple(replace(e, rows=np.flatnonzero(sites == number)) for number, e in enumerate(training.environments))
    weights = None if training.sample_weight is None else training.sample_weight[rows]
    return TrainingRows(take_rows(training.X, rows), training.y[rows], parts, weights)


def _network_folds(training: TrainingRows, subjects: Any) -> NDArray[np.intp]:
    """Return a fold for each row, in turn within each environment and label, or by subject."""
    if subjects is None:
        order = np.lexsort((np.arange(training.n_rows), training.y, training.environment_codes))
        return deal_evenly(order, training.environment_codes, N_FOLDS)
    labels = label_array(
        subjects, training.n_rows, what="subjects", error=EnvironmentsError, example="frame['patient']"
    )
    folds = unique_labels(labels, what="subjects", error=EnvironmentsError)[1] % N_FOLDS
    for environment in training.environments:
        if len(np.unique(folds[environment.rows])) < N_FOLDS:
            raise EnvironmentsError(
                f"subjects puts all rows of environment {environment.name!r} into one of {N_FOLDS} folds. Each "
                "environment needs rows of several subjects."
            )
    return folds


def _has_no_columns(X: Any) -> bool:
    """Return whether X is pictures, sequences, or items of a dict or Dataset."""
    return getattr(X, "ndim", 2) > 2 or holds_items(X)


def _network_point(rows: NetworkRows, caution: float) -> PathPoint:
    weights = rows.weights(caution)
    return PathPoint(
        caution,
        rows.price(weights),
        rows.compare(weights),
        rows.compare(weights, rows.share(0.5)),
        rows.compare(weights, rows.reversed_share),
    )


class _Mixture:
    """The ordinary classifier and those without some columns: their fits on folds, on all rows, on other sites."""

    def __init__(
        self,
        owner: StableClassifier,
        estimator: Any,
        training: TrainingRows,
        seeding: Seeding,
        sources: dict[str, list[int]],
        kept: dict[str, float],
        doubts: Sequence[str],
    ) -> None:
        self.owner, self.estimator, self.training, self.seeding = owner, estimator, training, seeding
        self.names = list(kept)
        self.levels = removal_levels(list(kept.values()))
        plans = {i: plan_removal(training.X, sources[self.names[i]], [self.names[i]]) for i in self.levels[-1][1]}
        self.removals = [join_removals([plans[i] for i in chosen]) for _, chosen in self.levels]
        self.tables = [training, *(replace(training, X=r.apply(training.X)) for r in self.removals[1:])]
        self.part = stopped_like(estimator, owner.ordinary_)
        self.settings = JudgeSettings(n_folds=N_FOLDS, n_jobs=owner.n_jobs, start=owner.ordinary_)
        folds = deal_folds(training, N_FOLDS)
        assert folds is not None
        fits, fold_rows = fit_folds(self.part, self.tables, folds, self.settings, seeding)
        self.parts = [Part(removal, found, fold_rows) for removal, found in zip(self.removals, fits, strict=True)]
        n_draws = max(1, min(5, ROWS_FOR_ONE_DRAW // training.n_rows))
        doubted = join_removals([plan_removal(training.X, sources[name], [name]) for name in doubts])
        self.scenarios = try_scenarios(self.parts, training, len(owner.classes_), n_draws=n_draws, doubts=doubted)

    def weights(self, kept: dict[str, float]) -> list[float]:
        """Return the weight of each part, so that columns are seen by about as much of the mixture as is kept."""
        shares = [
            float(np.mean([kept[self.names[i]] for i in set(level) - set(before)]))
            for (_, before), (_, level) in zip(self.levels, self.levels[1:], strict=False)
        ]
        edges = np.clip(np.maximum.accumulate([*shares, 1.0]), 0.0, 1.0)
        return [float(edges[0]), *np.diff(edges).tolist()]

    def fit(self, weights: list[float]) -> MixedClassifier:
        """Return the classifiers on all rows, mixed and calibrated."""
        training, ordinary = self.training, self.owner.ordinary_
        tasks = [(i, self.estimator, self.seeding, ordinary, part.estimators) for i, part in enumerate(self.parts) if i]
        models = [ordinary, *run_each(_fit_reduced, tuple(self.tables), tasks, self.owner.n_jobs)]
        used = [i for i, weight in enumerate(weights) if weight > 0]
        mixed = mix_scores([self.scenarios.known[i] for i in used], [weights[i] for i in used])
        offsets = not hasattr(ordinary, "predict_proba")
        calibration = calibrate(mixed, training.y, training.sample_weight, offsets=offsets)
        return MixedClassifier(
            [models[i] for i in used], [self.removals[i] for i in used], [weights[i] for i in used], calibration
        )

    def left_out_scores(self, weights: list[float]) -> dict[int, Array]:
        """Return the scores of the mixture's parts by fits without the row's environment.

        These are of its largest part, and of all that are used where there are several.
        """
        used = [i for i, weight in enumerate(weights) if weight > 0]
        training, n_classes = self.training, len(self.owner.classes_)
        rounds = training.environment_codes % min(len(training.environments), MOST_LEFT_OUT)
        fits, rows = fit_folds(self.part, [self.tables[i] for i in used], rounds, self.settings, self.seeding)
        return {
            i: ask_out_of_fold(Part(self.removals[i], found, rows), training, n_classes)
            for i, found in zip(used, fits, strict=True)
        }

    def left_out(self, scores: Array) -> Array:
        """Return the accuracy in each environment of scores by fits on other environments."""
        training = self.training
        right, shares = scores.argmax(axis=1) == training.y, training.weights + 1e-12
        return np.array([np.average(right[e.rows], weights=shares[e.rows]) for e in training.environments])

    def forecasting(self, weights: list[float], left_out: dict[int, Array]) -> ForecastBasis:
        """Return what forecasts of accuracy at a new site start from."""
        training, used = self.training, list(left_out)
        calibration = getattr(self.owner.estimator_, "calibration", None)

        def probabilities(parts: Sequence[Array]) -> Array:
            mixed = mix_scores(parts, [weights[i] for i in used])
            logs = log_softmax(mixed) if calibration is None else calibration.log_probabilities(mixed)
            return np.asarray(np.exp(logs))

        sites = {environment.name: environment.rows for environment in training.environments}
        folds = probabilities([self.scenarios.known[i] for i in used])
        return make_basis(folds, probabilities([left_out[i] for i in used]), training.y, sites)

    def relearn(
        self,
        weights: list[float],
        left_out: dict[int, Array],
        found: dict[str, Posterior],
        sources: dict[str, list[int]],
    ) -> Relearning:
        """Return what `adapt` needs: the unstable columns, and what adapting does at known sites that play new ones."""
        training, last = self.training, len(self.levels) - 1
        if not last or not weights[last]:
            return Relearning()
        columns = _unstable_columns([self.names[i] for i in self.levels[-1][1]], found, sources, training.X)
        y, counts, used = training.y, training.sample_weight, list(left_out)
        offsets = not hasattr(self.owner.ordinary_, "predict_proba")
        calibration = calibrate(left_out[last], y, counts, offsets=offsets)
        mixed = mix_scores([left_out[i] for i in used], [weights[i] for i in used])
        before = calibrate(mixed, y, counts, offsets=offsets).log_probabilities(mixed)
        sites = {environment.name: environment.rows for environment in training.environments}
        stable = calibration.log_probabilities(left_out[last])
        partners = {
            "known": np.arange(training.n_rows),
            "vanished": shuffled_partners(training, other_label=False),
            "reversed": shuffled_partners(training, other_label=True),
        }
        return try_known_sites(columns, training.X, y, sites, stable, before, calibration, partners)


def _unstable_columns(
    names: Sequence[str], found: dict[str, Posterior], sources: dict[str, list[int]], X: Any
) -> list[UnstableColumn]:
    """Return the columns that the stable part does without; `age` and `age is missing` are one."""
    merged: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        merged.setdefault(tuple(sources[name]), []).append(name)
    return [
        UnstableColumn(
            shared[0].removesuffix(" is missing"),
            places,
            shared[0] if is_text(X) else "",
            max(found[name].mechanism for name in shared),
        )
        for places, shared in merged.items()
    ]


def _read_table(X: Any, names: Any) -> Columns:
    """Return the columns of X as numbers, or the words of texts; `names` are those of the frame that X was."""
    if is_mapped(X):
        raise FeaturesError(
            f"StableClassifier has to change columns, which a memory map of {X.nbytes / 2**30:.1f} GiB does not allow. "
            "Pass an array in memory, or use PIClassifier."
        )
    return read_columns(X, None, AuditSettings(min_count=1, n_words=(1, 1)), names=names)


def _warn_of_split_categories(columns: Columns) -> None:
    """Say which categories came as columns of 0 and 1."""
    if split := split_categories(columns):
        which = listed([f"{first!r} to {last!r}" for first, last in split], most=3)
        each = "" if len(split) == 1 else " each,"
        warn(
            f"The columns {which} are one category{each} in columns of 0 and 1. Looked at one by one, they show "
            "much less of a change. Put the category into one column of words (pandas.from_dummies): "
            "holdfast fit and TableClassifier take it as it is; StableClassifier needs an encoder inside.",
            HoldfastWarning,
        )


def _read_subjects(subjects: Any, training: TrainingRows, columns: Columns) -> NDArray[np.intp] | None:
    """Return the subject of each row; copies of rows are one subject where they cannot be chance."""
    if subjects is not None:
        labels = label_array(
            subjects, training.n_rows, what="subjects", error=EnvironmentsError, example="frame['patient']"
        )
        return unique_labels(labels, what="subjects", error=EnvironmentsError)[1]
    keys = np.stack([training.row_keys, training.y.astype(np.uint64), training.environment_codes.astype(np.uint64)])
    codes = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    n_rows, n_distinct = training.n_rows, int(codes.max()) + 1
    if n_rows - n_distinct < COPIED * n_rows or not isinstance(columns.values, np.ndarray):
        return None
    if max(len(np.unique(column)) for column in columns.values.T) < DISTINCT * n_distinct:
        return None  # few values: equal rows are no wonder
    warn(
        f"{n_rows - n_distinct:,} of {n_rows:,} rows are exact copies of others. Copies count as one row here. Leave "
        "them out, or pass subjects= with a label for the rows that belong together.",
        HoldfastWarning,
    )
    return np.asarray(codes, dtype=np.intp)


def _folds_of(subjects: NDArray[np.intp], training: TrainingRows) -> NDArray[np.intp]:
    """Return a fold for each row, the same for all rows of a subject, dealt in turn within each environment."""
    order = training.content_order
    firsts = order[np.sort(np.unique(subjects[order], return_index=True)[1])]
    if len(firsts) < N_FOLDS:
        raise EnvironmentsError("subjects has one label only. Rows of at least two subjects are needed for two folds.")
    folds = np.zeros(len(firsts), dtype=np.intp)
    folds[subjects[firsts]] = np.arange(len(firsts)) % N_FOLDS
    return folds[subjects]


def _without_phrases(columns: Columns, words: Sequence[frozenset[str]]) -> Columns:
    """Return the columns that are no phrases, with 1 where a text has a word.

    Next to its phrases every word would seem to be predicted by other columns, and so it would by the lengths of texts,
    which weights of words are divided by.
    """
    sources = columns.sources or tuple(range(len(columns)))
    kept = [place for place, source in enumerate(sources) if len(words[source]) < 2]
    if not kept:
        return columns
    is_word = np.array([bool(words[sources[place]]) for place in kept])
    values = columns.values[:, kept]
    if is_sparse(values):
        values.data = np.where(is_word[values.indices], values.data != 0, values.data)
    else:
        values = np.where(is_word, values != 0, values)
    names, sources = tuple(columns.names[place] for place in kept), tuple(sources[place] for place in kept)
    return Columns(names, values, columns.inputs[kept], sources=sources)


def _with_phrases(columns: list[int], words: Sequence[frozenset[str]]) -> list[int]:
    """Return columns, and those of all phrases that contain them: "per protocol" and "cough per" tell of "per" too."""
    named = [words[column] for column in columns if words[column]]
    phrases = [j for j, own in enumerate(words) if any(some <= own for some in named)]
    return sorted({*columns, *phrases})


def _point(scenarios: Scenarios, caution: float, weights: list[float]) -> PathPoint:
    return PathPoint(
        caution,
        scenarios.price(weights),
        scenarios.compare("known", weights),
        scenarios.compare("vanished", weights),
        scenarios.compare("reversed", weights),
    )


def _fit_reduced(
    tables: tuple[TrainingRows, ...], number: int, estimator: Any, seeding: Seeding, ordinary: Any, folds: Sequence[Any]
) -> Any:
    """Fit without the unstable columns; a logistic regression begins with the fits of its folds."""
    training = tables[number]
    quick = refit_logistic(ordinary, folds, estimator, training.X, training.y)
    return fit_erm(estimator, training, seeding) if quick is None else quick
