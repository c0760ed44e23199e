r"""The stable classifier: it uses less of the columns whose effect differs between environments."""

from __future__ import annotations

import copy
import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from holdfast.environments import MIN_ROWS, Environment, PerRow, check_pairs, pool_small_environments
from holdfast.estimators.base import MethodClassifier, fit_erm, warn_single_environment
from holdfast.estimators.mixing import (
    CAUTIONS,
    N_FOLDS,
    Choice,
    Mixture,
    check_caution,
    choose,
    read_comparable,
    uncompared,
)
from holdfast.estimators.stable_network import (
    ask_folds,
    deal_network_folds,
    fit_pi,
    from_network,
    trained_as_long,
    warn_of_cost,
)
from holdfast.exceptions import HoldfastWarning, ParameterError, warn
from holdfast.fitting.calibration import calibrate, log_softmax
from holdfast.fitting.estimators import (
    code_probabilities,
    has_probabilities,
    has_threshold,
    is_network,
    last_step,
)
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.logistic import refit_logistic
from holdfast.metrics import Interval
from holdfast.newsite.adapt import Adaptation, AdaptedClassifier, adapt, ask_again
from holdfast.newsite.check import SiteCheck, check_site
from holdfast.newsite.codes import UnstableColumn
from holdfast.newsite.forecast import ForecastBasis, make_basis
from holdfast.newsite.profile import as_frame, column_names, profile_matrix
from holdfast.newsite.recalibrate import RecalibratedClassifier
from holdfast.newsite.trials import Relearning, is_doubtful, try_known_sites
from holdfast.parallel import run_each
from holdfast.rows.kinds import count_rows, holds_items, is_frame, is_sparse, is_text
from holdfast.rows.mapped import is_mapped
from holdfast.rows.training import TrainingRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.columns import Columns
from holdfast.stable.decision import CAUTION, kept_share
from holdfast.stable.design import make_design
from holdfast.stable.directions import describe, try_directions
from holdfast.stable.hypotheses import Posterior, posteriors
from holdfast.stable.network import NetworkRows, find_network
from holdfast.stable.removal import MixedClassifier, Removal, centered, mix_scores, shuffled_partners
from holdfast.stable.scenarios import Part, Scenarios, ask_out_of_fold, try_scenarios
from holdfast.stable.verdict import RARE, Accuracy, Verdict, fitted_as

Array = NDArray[np.float64]
MOST_COPIED = 2**30  # bytes of a memory map that are copied into memory; joblib maps every array above a megabyte


@dataclass(frozen=True)
class PathPoint:
    """What one caution costs and saves.

    Attributes
    ----------
    caution : float
    price : Interval
        Accuracy (of a regressor: R²) that is lost at environments like the known ones.
    known, vanished, reversed : Accuracy
        As in `Verdict`: as it is, if the effects of the columns that are used less vanish, and if they reverse.
    """

    caution: float
    price: Interval
    known: Accuracy
    vanished: Accuracy
    reversed: Accuracy


@dataclass(eq=False, repr=False)
class StableClassifier(MethodClassifier):
    r"""Train a classifier that relies less on columns whose effect differs between environments.

    The ordinary classifier is mixed with one that was fitted without the columns whose effect changes. If there are no
    such columns, the result is exactly the ordinary classifier. `verdict_` says what was fitted, why, how much accuracy
    it costs at environments like these, and how much it saves if the effects vanish or reverse.

    For each column :math:`x` the model compares three hypotheses: *mechanism* (the other columns predict :math:`x`
    within label and environment), *label alone, stable* and *label alone, changing*. With :math:`o` the log-odds of the
    label given the other columns, the last two are

    .. math:: p(y, x \mid o, e) = \sum_{y^*} P(y^* \mid a_e + s_e o)\, P(y \mid y^*; v_e)\, p(x \mid y^*, e; b_e),

    with flipped labels :math:`v_e` and effects :math:`b_e`, the same everywhere or drawn from
    :math:`N(b, (\rho b)^2)`. With the probability :math:`P` of a change and :math:`p = \sigma(|b|)`, the column is
    expected to agree with the label at a new environment in the share
    :math:`q = 1/2 + (p - 1/2) \max(0, 1 - 2 \cdot \mathrm{caution} \cdot P)` of the rows, and
    :math:`\mathrm{logit}\, q / \mathrm{logit}\, p` of its effect is kept.

    Pictures, sequences, dicts and Datasets have no columns. For these, the ordinary network is compared, out of fold,
    with one that is trained further on the halves of Predict then Interpolate (`holdfast.stable.network`).

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        Any classifier or Pipeline, or a NeuralClassifier. None: columns scaled to unit variance, then a logistic
        regression.
    caution : float between 0 and 1
        Assumed effect of a changing column at the next environment: as seen (0), none (0.5) or reversed (1). With 0 the
        result is the ordinary classifier. `path_` has price and gain for five values.
    n_jobs : int or None
        Number of fits that run at the same time.
    random_state : int or None
        Seed of the estimator if its own `random_state` is None. The verdict depends on the seed only if the estimator
        uses random numbers, as forests do. It does not depend on the order of the rows.

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
    edition: ClassVar[int] = 2  # 1 looked at columns alone, and not at combinations of them
    reads_columns: ClassVar[bool] = True  # which ones are unstable: a table's columns are worth more than a matrix

    estimator: Estimator | None = None
    _: KW_ONLY
    caution: float = CAUTION
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
        subjects: PerRow = None,
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
        validation : (X, y), (X, y, group_labels), Dataset or float, optional
            As for `PIClassifier.fit`. For networks these rows select the number of epochs, on the ordinary network; all
            other networks train as long.
        subjects : labels of shape (n_rows,), optional
            Rows that belong together, such as the visits of one patient. They share a fold, and as evidence they count
            as one row (of pictures and Datasets: they share a fold).
        words : sequence of sets of str, optional
            For a matrix of words and phrases: the words of each column. Phrases are judged by their words: a word that
            is ignored is ignored in every phrase.
        """
        check_caution(self)
        training = self._read_training(X, y, environments, sample_weight=sample_weight)
        training, held_out = self._take_validation(training, validation, subjects)
        seeding = Seeding(self.random_state)
        estimator = self._coded_estimator(training)
        self._check_network(estimator, held_out)
        alone = warn_single_environment(training.environments, type(self).__name__)
        if is_mapped(training.X) and training.X.nbytes <= MOST_COPIED:
            training = replace(training, X=np.array(training.X))
        has_columns, together = not _has_no_columns(training.X), None
        if not alone and has_columns:
            columns, training, together = read_comparable(training, subjects, words)
        self.ordinary_ = self.estimator_ = fit_erm(estimator, training, seeding, validation=held_out)
        if held_out is not None:
            estimator = trained_as_long(estimator, self.ordinary_)
        self.profile_ = None
        if has_columns and not is_text(training.X) and not is_sparse(training.X):
            names = column_names(training.X, training.names)
            self.profile_ = profile_matrix(training.X, names, training.environments)
        if alone:
            self.path_: tuple[PathPoint, ...] = ()
            self.relearning_, self.verdict_ = Relearning(), uncompared(Verdict)
        elif has_columns:
            self._fit_columns(estimator, training, columns, together, words, seeding)
        else:
            self._fit_network(estimator, training, subjects, seeding)
        self._score_validation(held_out)
        return self

    def _split(self, X: Any, environments: Any, n_rows: int) -> tuple[Environment, ...]:
        split = super()._split(X, environments, n_rows)
        if _has_no_columns(X):  # every environment needs rows for a network of its own, in every fold
            split = pool_small_environments(split, min_size=N_FOLDS * MIN_ROWS)
            check_pairs(split)
        return split

    def _fit_columns(
        self,
        estimator: Any,
        training: TrainingRows,
        columns: Columns,
        together: NDArray[np.intp] | None,
        words: Sequence[frozenset[str]] | None,
        seeding: Seeding,
    ) -> None:
        """Decide which columns to use less, and mix."""
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
            caution = float(self.caution)
            found = posteriors(design)
            choice = choose(columns, design, found, training, self.classes_, caution, kept_share, words)
            self._decide(estimator, training, columns.n_columns, choice, seeding)

    def _fit_network(self, estimator: Estimator, training: TrainingRows, subjects: PerRow, seeding: Seeding) -> None:
        """Decide for inputs without columns: the ordinary classifier, or PI, or both mixed, by `stable.network`."""
        sites = [environment.name for environment in training.environments]
        warn_of_cost(estimator, len(sites))
        asked = ask_folds(self, estimator, training, deal_network_folds(training, subjects), seeding)
        given = training.y, training.environment_codes, training.sample_weight, asked.read_sites(estimator, seeding)
        rows = NetworkRows(asked.ordinary(), asked.stable(), *given)
        anew = False
        if rows.has_evidence and is_network(estimator):
            anew, rows = rows.choose(asked.started_anew(estimator))
        weights = rows.weights(float(self.caution))
        if weights[1]:
            pi = fit_pi(self, estimator, training, seeding, None if anew else self.ordinary_)
            if is_network(estimator):  # what is saved is how the network is built, not the one that it began with
                from_network(pi.estimator_, last_step(estimator).network)
            total, both = sum(weights), [self.ordinary_, pi.estimator_]
            mixed = mix_scores([rows.ordinary, rows.stable], [weight / total for weight in weights])
            calibration = calibrate(mixed, training.y, training.sample_weight)
            used = [i for i in (0, 1) if weights[i]]
            parts = [both[i] for i in used], [Removal()] * len(used), [weights[i] / total for i in used]
            self.estimator_ = MixedClassifier(*parts, calibration)
        finding = find_network(rows, weights)
        self.path_ = tuple(_network_point(rows, caution) for caution in CAUTIONS)
        self.relearning_ = Relearning()
        judged = asked.left_out()
        known, left_out = np.exp(log_softmax(rows.mixed(weights))), np.exp(log_softmax(judged))
        self.forecasting_ = make_basis(known, left_out, training.y, training.site_rows)
        right, shares = judged.argmax(axis=1) == training.y, training.weights
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
        self, estimator: Estimator, training: TrainingRows, n_columns: int, choice: Choice, seeding: Seeding
    ) -> None:
        """Mix the ordinary classifier with others that do without the unstable columns, and write the verdict."""
        kept, sites = choice.kept, [environment.name for environment in training.environments]
        mixture = _ClassifierMixture(self, estimator, training, seeding, choice)
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
        elsewhere = mixture.elsewhere(weights)
        left_out = {i: ask_out_of_fold(part, training, len(self.classes_)) for i, part in elsewhere.items()}
        doubted = {
            name: posterior
            for name, posterior in choice.posteriors.items()
            if kept[name] < 1.0 or is_doubtful(posterior.probability, posterior.effect)
        }
        in_doubt = [name for name in doubted if kept[name] == 1.0]
        self.relearning_ = mixture.relearn(weights, elsewhere, left_out, doubted, in_doubt) if doubted else Relearning()
        self.forecasting_ = mixture.forecasting(weights, left_out)
        self.path_ = tuple(_point(scenarios, caution, mixture.weights(choice.at(caution))) for caution in CAUTIONS)
        ordinary = scenarios.accuracies("known", [1.0] + [0.0] * (len(weights) - 1))
        fitted = scenarios.accuracies("known", weights)
        shares = np.bincount(training.y, training.weights) / training.weights.sum()
        self.verdict_ = Verdict(
            fitted_as(list(kept.values())),
            choice.shown,
            {finding.feature: kept[finding.feature] for finding in choice.shown},
            scenarios.price(weights),
            scenarios.compare("known", weights),
            scenarios.compare("vanished", weights),
            scenarios.compare("reversed", weights),
            scenarios.forecast(weights, mixture.left_out(left_out[int(np.argmax(weights))])),
            {name: Accuracy(float(a), float(b)) for name, a, b in zip(sites, ordinary, fitted, strict=True)},
            float(shares.max()),
            n_columns,
            scenarios.ranks(weights) if shares.max() >= RARE else {},
            float(self.caution),
        )
        n_less = sum(share < 1.0 for share in kept.values())
        if self.caution and (n_less == 0 or 2 * n_less > len(kept)):  # else some columns explain what changes
            self._try_directions(estimator, training, mixture, weights, left_out)

    def _try_directions(
        self,
        estimator: Estimator,
        training: TrainingRows,
        mixture: _ClassifierMixture,
        weights: Sequence[float],
        left_out: dict[int, Array],
    ) -> None:
        """Do without unstable combinations of columns, where that is better at sites left out (`stable.directions`)."""
        mixed = mix_scores(list(left_out.values()), [weights[i] for i in left_out])
        calibration = getattr(self.estimator_, "calibration", None)
        before = log_softmax(mixed) if calibration is None else calibration.log_probabilities(mixed)
        found = try_directions(self.ordinary_, estimator, training, mixture.folds, mixture.rounds, before)
        if found is None:
            return

        def asked(*, other_label: bool) -> Array:
            partners = shuffled_partners(training, other_label=other_label)
            exchanged = replace(training, X=found.directions.exchange(training.X, partners))
            return np.stack([ask_out_of_fold(mixture.parts[0], exchanged, 2), centered(found.known)])

        known = np.stack([mixture.scenarios.known[0], centered(found.known)])
        scenarios = Scenarios(known, (asked(other_label=False),), (asked(other_label=True),), training)
        ordinary, stable = [1.0, 0.0], [0.0, 1.0]
        names = column_names(training.X, training.names)
        findings = describe(found.directions, training, names, str(self.classes_[1]))
        sites = training.site_rows
        by_site = np.stack([scenarios.accuracies("known", w) for w in (ordinary, stable)], axis=1).tolist()
        folds, elsewhere = (np.exp(log_softmax(scores)) for scores in (found.known, found.left_out))
        self.estimator_ = found.estimator
        self.relearning_, self.forecasting_ = Relearning(), make_basis(folds, elsewhere, training.y, sites)
        self.path_ = tuple(_point(scenarios, caution, stable if caution else ordinary) for caution in CAUTIONS)
        self.verdict_ = replace(
            self.verdict_,
            fitted="stable",
            columns=findings,
            kept={finding.feature: 0.0 for finding in findings},
            price=scenarios.price(stable),
            known=scenarios.compare("known", stable),
            vanished=scenarios.compare("vanished", stable),
            reversed=scenarios.compare("reversed", stable),
            forecast=scenarios.forecast(stable, mixture.left_out(found.left_out)),
            by_environment={name: Accuracy(*pair) for name, pair in zip(sites, by_site, strict=True)},
            auroc=scenarios.ranks(stable) if self.verdict_.auroc else {},
        )

    def adapt(self, X: Any) -> StableClassifier:
        """Return a classifier that is adapted to a new site, by rows of that site without labels.

        A classifier without the columns whose effects may differ teaches what each of them says about the label there
        (`holdfast.newsite.adapt`). Where the guards refuse, the result predicts as before. `adaptation_` says why.

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
        n_rows = count_rows(X)
        adapted, mixed = copy.copy(self), self.estimator_
        if isinstance(mixed, RecalibratedClassifier):
            raise ParameterError(
                "This classifier was recalibrated for a site. Adapt the one that it was made of, then recalibrate."
            )
        relearning = getattr(self, "relearning_", None)  # models that were saved before have none
        if relearning is None:
            adapted.adaptation_ = Adaptation(False, n_rows, reason="older_model")
            return adapted
        stable, removal = relearning.estimator, relearning.removal
        if isinstance(mixed, AdaptedClassifier):  # to this site earlier, or to another one
            stable, removal = mixed.estimator, mixed.removal
        elif stable is None and isinstance(mixed, MixedClassifier):
            stable, removal = mixed.estimators[-1], mixed.removals[-1]
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
        used, adaptation, tried = self.arrive(rows)
        is_adapted = adaptation is not None and adaptation.adapted
        before = code_probabilities(self.estimator_, rows, len(self.classes_)) if is_adapted else None
        profile = getattr(self, "profile_", None)  # texts, sparse matrices and models that were saved before have none
        named = (
            rows if profile is None else as_frame(rows, column_names(rows, getattr(self, "feature_names_in_", None)))
        )

        def predict(features: Any) -> Array:
            plain = is_frame(features) and not is_frame(rows)
            inner = features.to_numpy() if plain else features
            return np.asarray(code_probabilities(used.estimator_, inner, len(self.classes_)))

        return check_site(
            named,
            predict,
            classes=self.classes_,
            profile=profile,
            basis=getattr(self, "forecasting_", None),
            adaptation=adaptation,
            before=before,
            tried=tried,
        )

    def arrive(self, X: Any) -> tuple[StableClassifier, Adaptation | None, Sequence[tuple[float, float, int]] | None]:
        """Return the classifier to use at a site, adapted where that is possible, what was found, and how it was tried.

        A classifier that is adapted already stays as it is, and what its columns say is asked again. One that was
        recalibrated for a site is not adapted. How forecasts of adapted classifiers went at known sites is None where
        the classifier was not made for a site.
        """
        inner = self.estimator_.estimator if isinstance(self.estimator_, RecalibratedClassifier) else self.estimator_
        if isinstance(inner, AdaptedClassifier):
            return self, ask_again(inner, self.relearning_.columns, X), self.relearning_.forecasts
        if inner is not self.estimator_:
            return self, None, ()
        used = self.adapt(X)
        return used, used.adaptation_, used.relearning_.forecasts if used.adaptation_.adapted else None

    def _html_repr(self) -> str:
        """Return what notebooks show: the verdict above scikit-learn's diagram."""
        diagram = str(estimator_html_repr(self))
        if not hasattr(self, "verdict_"):
            return diagram
        first, _, rest = html.escape(str(self.verdict_)).partition(". ")
        style = "margin:0 0 .8em; padding:.5em .8em; border-left:.3em solid currentColor; max-width:48em"
        return f'<p style="{style}"><strong>{first.rstrip(".")}.</strong> {rest}</p>{diagram}'


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


class _ClassifierMixture(Mixture):
    """The mixture of a `StableClassifier`, with its answers to "what if"."""

    def __init__(
        self, owner: StableClassifier, estimator: Estimator, training: TrainingRows, seeding: Seeding, choice: Choice
    ) -> None:
        super().__init__(owner, estimator, training, seeding, choice)
        self.owner = owner
        fits = zip(self.removals, self.fits, strict=True)
        self.parts = [Part(removal, found, self.fold_rows) for removal, found in fits]
        n_classes = len(owner.classes_)
        self.scenarios = try_scenarios(self.parts, training, n_classes, n_draws=self.n_draws, doubts=self.doubted)

    def fit(self, weights: list[float]) -> MixedClassifier:
        """Return the classifiers on all rows, mixed and calibrated."""
        training, ordinary = self.training, self.ordinary
        tasks = [(i, self.estimator, self.seeding, ordinary, part.estimators) for i, part in enumerate(self.parts) if i]
        models = [ordinary, *run_each(_fit_reduced, tuple(self.tables), tasks, self.n_jobs)]
        used = [i for i, weight in enumerate(weights) if weight > 0]
        mixed = mix_scores([self.scenarios.known[i] for i in used], [weights[i] for i in used])
        offsets = not has_probabilities(ordinary)
        calibration = calibrate(mixed, training.y, training.sample_weight, offsets=offsets)
        return MixedClassifier(
            [models[i] for i in used], [self.removals[i] for i in used], [weights[i] for i in used], calibration
        )

    def elsewhere(self, weights: list[float]) -> dict[int, Part]:
        """Return the parts of the mixture that are used, fitted without each environment."""
        used = [i for i, weight in enumerate(weights) if weight > 0]
        parts = self._leave_out([self.tables[i] for i in used], [self.removals[i] for i in used])
        return dict(zip(used, parts, strict=True))

    def _leave_out(self, tables: Sequence[TrainingRows], removals: Sequence[Removal]) -> list[Part]:
        """Return parts that are fitted without each environment; the tables have no removed column."""
        fits, rows = self.leave_out(tables)
        return [Part(removal, found, rows) for removal, found in zip(removals, fits, strict=True)]

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

        sites = training.site_rows
        folds = probabilities([self.scenarios.known[i] for i in used])
        return make_basis(folds, probabilities([left_out[i] for i in used]), training.y, sites)

    def relearn(
        self,
        weights: list[float],
        elsewhere: dict[int, Part],
        left_out: dict[int, Array],
        doubted: dict[str, Posterior],
        in_doubt: Collection[str],
    ) -> Relearning:
        """Return what `adapt` needs: columns whose effects may differ, a classifier without them, and trials of it.

        Those `in_doubt` are used in full.
        """
        training, n_classes = self.training, len(self.owner.classes_)
        y, counts = training.y, training.sample_weight
        stable, removal, scores = self._without(doubted, weights, left_out)
        partners = {
            "known": np.arange(training.n_rows),
            "vanished": shuffled_partners(training, other_label=False),
            "reversed": shuffled_partners(training, other_label=True),
        }

        def mixed(scenario: str) -> Array:
            """Return the scores of the whole classifier, with the columns of other rows."""
            asked = [
                left_out[i]
                if scenario == "known" or part.removal.covers(removal)
                else ask_out_of_fold(part, training, n_classes, changed=removal, partners=partners[scenario])
                for i, part in elsewhere.items()
            ]
            return mix_scores(asked, [weights[i] for i in elsewhere])

        offsets = not has_probabilities(self.ordinary)
        calibration = calibrate(scores, y, counts, offsets=offsets)
        mixing = calibrate(mixed("known"), y, counts, offsets=offsets)
        tried = try_known_sites(
            _unstable_columns(doubted, in_doubt, self.choice.sources, training.X),
            training.X,
            y,
            training.site_rows,
            calibration.log_probabilities(scores),
            {scenario: mixing.log_probabilities(mixed(scenario)) for scenario in partners},
            calibration,
            partners,
        )
        return replace(tried, estimator=stable, removal=removal)

    def _without(
        self, doubted: dict[str, Posterior], weights: list[float], left_out: dict[int, Array]
    ) -> tuple[Any, Removal, Array]:
        """Return a classifier without some columns, their removal, and its scores of rows by fits without their site.

        None instead of the classifier if it is the last part of the mixture.
        """
        last = len(self.levels) - 1
        if weights[last] and set(doubted) == {self.names[i] for i in self.levels[last][1]}:
            return None, self.removals[last], left_out[last]
        removal = self.plan(list(doubted))
        without = replace(self.training, X=removal.apply(self.training.X))
        (part,) = self._leave_out([without], [removal])
        scores = ask_out_of_fold(part, self.training, len(self.owner.classes_))
        return fit_erm(self.estimator, without, self.seeding), removal, scores


def _unstable_columns(
    found: Mapping[str, Posterior], in_doubt: Collection[str], sources: dict[str, list[int]], X: Any
) -> list[UnstableColumn]:
    """Return the columns that the stable part does without; `age` and `age is missing` are one."""
    merged: dict[tuple[int, ...], list[str]] = {}
    for name in found:
        merged.setdefault(tuple(sources[name]), []).append(name)
    return [
        UnstableColumn(
            shared[0].removesuffix(" is missing"),
            places,
            shared[0] if is_text(X) else "",
            max(found[name].mechanism for name in shared),
            change=max(found[name].probability for name in shared),
            in_doubt=all(name in in_doubt for name in shared),
        )
        for places, shared in merged.items()
    ]


def _point(scenarios: Scenarios, caution: float, weights: list[float]) -> PathPoint:
    return PathPoint(
        caution,
        scenarios.price(weights),
        scenarios.compare("known", weights),
        scenarios.compare("vanished", weights),
        scenarios.compare("reversed", weights),
    )


def _fit_reduced(
    tables: tuple[TrainingRows, ...],
    number: int,
    estimator: Estimator,
    seeding: Seeding,
    ordinary: Any,
    folds: Sequence[Any],
) -> Any:
    """Fit without the unstable columns; a logistic regression begins with the fits of its folds."""
    training = tables[number]
    quick = refit_logistic(ordinary, folds, estimator, training.X, training.y)
    return fit_erm(estimator, training, seeding) if quick is None else quick
