"""Compare methods: every method with the same estimator, scored at environments left out.

With three or more environments, each is left out in turn, and the methods are scored there. With two, no third one can
be left out. Then rows of both are held out, and the classifiers of the environments cut them into halves. The score of
a method is its accuracy in the worst half. This score is a proxy. It favors methods that minimize the risk of the worst
half, such as PI. With noisy labels it favors classifiers that know little. No test data is used in either case.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from holdfast.diagnosis.advice import decide_early, is_unstable
from holdfast.environments import Environment, PerRow, Rows, listed, split_environments, take_rows
from holdfast.estimators.base import MethodClassifier
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS, find_estimator
from holdfast.exceptions import (
    EnvironmentsError,
    HoldfastError,
    HoldfastWarning,
    IdenticalEnvironmentsWarning,
    LabelsError,
    ParameterError,
    PrevalenceWarning,
    SolverWarning,
    suggest,
)
from holdfast.fitting.estimators import BOOSTERS, has_probabilities, is_network, last_step
from holdfast.fitting.folds import rows_without
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.splitter import leave_out
from holdfast.parallel import run_each
from holdfast.rows.kinds import holds_items
from holdfast.rows.training import TrainingRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.network import LIKELY, weigh
from holdfast.stable.verdict import RARE, Verdict, says_little, verdict_of
from holdfast.tables.method_scores import LOWER_IS_BETTER, METRICS, Answers, MethodScore, Parts, collect, score_method
from holdfast.tables.preprocessing import fit_pipeline, make_pipeline, make_preprocessor, matrix_names

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.roles import TableRows

REMARKED = (IdenticalEnvironmentsWarning, PrevalenceWarning, SolverWarning)  # what concerns the choice of a method
N_FOLDS = 2  # with two environments: how often rows are held out
GAIN = {"value": "", "low": "_low", "high": "_high"}  # name in JSON -> how the name of the attribute ends
MOST_ENVIRONMENTS = 100  # each is left out once, for every method
LEFT_OUT = "each environment left out in turn"
HELD_OUT = "rows held out in both environments, divided into halves by the other environment's classifier"
SCOPE = (
    "The ranking is about environments that differ from these as much as these differ from one another. It does not "
    "show what happens if the next one differs more, for example if a correlation reverses that holds in all of these."
)
CAVEAT = (
    "This ranking is only a hint, because with two environments none can be left out. The halves are those of pi, "
    "which favors pi by construction. To be sure, collect rows of a third environment."
)


@dataclass(frozen=True)
class Comparison:
    """Methods, best first, and what follows from them."""

    protocol: str
    ranked_by: str  # a name in METRICS
    scores: tuple[MethodScore, ...]
    recommended: str
    recommendation: str  # one sentence with its evidence
    caveat: str = ""  # what the ranking cannot show
    verdict: Verdict | None = None  # of `stable` fitted on all rows, with its stress test; None where it took no part

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        methods = [asdict(score) for score in self.scores]
        for method in methods:
            method["gain"] = {name: method.pop(f"gain{end}") for name, end in GAIN.items()}
        verdict = None if self.verdict is None else self.verdict.to_dict()
        given = {name: value for name, value in vars(self).items() if name != "scores"}
        return {**given, "methods": methods, "verdict": verdict}

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each method."""
        import pandas as pd

        rows = [
            {"method": s.method, "mean": s.mean, "worst": s.worst, "gain": s.gain, "gain_low": s.gain_low}
            | {"gain_high": s.gain_high, "spread": s.spread, "problem": s.problem, "remarks": " ".join(s.remarks)}
            | {name: value for name, value in s.metrics.items() if name not in ("accuracy", "worst")}
            | {f"in {part}": accuracy for part, accuracy in s.parts.items()}
            for s in self.scores
        ]
        return pd.DataFrame(rows)


def compare_rows(
    rows: TableRows,
    *,
    estimator: str | None = None,
    methods: Sequence[str] | None = None,
    metric: str | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> Comparison:
    """Compare methods on the rows of a table, each with the preprocessing of `holdfast fit`; see `compare`.

    `estimator` is the name of what is inside every method. None: logistic regression, and next to it a booster inside
    erm and stable, where one is installed.
    """
    n_environments, names = len(np.unique(rows.environments)), " × ".join(rows.roles.environments)
    if n_environments < 2:
        raise EnvironmentsError(
            f"Column {names!r} has only one value, so no site can be left out. Pass rows of at least two sites."
        )
    if n_environments > MOST_ENVIRONMENTS:
        raise EnvironmentsError(
            f"Column {names!r} has {n_environments:,} environments, and every method would be fitted once for each; at "
            f"most {MOST_ENVIRONMENTS} are allowed. Name a coarser column, or cut dates with environment_by='year'."
        )
    chosen = table_candidates(estimator, methods, random_state)
    candidates = {name: make_pipeline(rows.roles.schema, method) for name, method in chosen.items()}
    training = read_rows_to_compare(rows.features, rows.y, rows.environments)
    found = rank_methods(
        candidates, training, metric=metric, n_jobs=n_jobs, random_state=random_state, progress=progress
    )
    if found.verdict is None or not rows.roles.schema.names("text"):
        return found
    columns = matrix_names(make_preprocessor(rows.roles.schema).fit(rows.features), rows.roles.schema)
    return replace(found, verdict=found.verdict.renamed({f"x{place}": name for place, name in enumerate(columns)}))


def compare_methods(
    X: Any,
    y: PerRow = None,
    environments: PerRow = None,
    *,
    estimator: Any = None,
    methods: Mapping[str, Any] | Sequence[str] | None = None,
    metric: str | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> Comparison:
    """Fit every applicable method and rank them by their scores in environments (or halves) that they have not seen.

    Parameters
    ----------
    X, y : rows and labels
        For networks X may be a dict or Dataset; y and environments may then be left out, if its items have them.
    environments : labels of shape (n_rows,)
        At least two different ones.
    estimator : scikit-learn classifier, NeuralClassifier or None
        The estimator inside every method, so that all methods have the same budget.
    methods : mapping of name to estimator, sequence of names, or None
        None: all methods that the estimator allows. IRM, V-REx and RGM need a network, the oracle an attribute. An
        estimator may be a Pipeline that ends in a method.
    metric : {"accuracy", "worst", "balanced_accuracy", "auroc", "log_loss", "brier"}, optional
        The score that ranks the methods: its mean over the left-out environments, or the lowest accuracy ("worst"). By
        default the accuracy, and with two environments the accuracy in the worst half.
    n_jobs : int, optional
        Number of fits that run at the same time.
    random_state : int or None

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2, 0.3)).train
    >>> found = compare_methods(toy.X, toy.y, toy.environments, methods=["erm", "stable"])
    >>> found.recommended
    'stable'
    >>> [(score.method, round(score.mean, 3)) for score in found.scores]
    [('stable', 0.8), ('erm', 0.767)]
    """
    candidates = candidate_methods(methods, estimator, random_state)
    training = read_rows_to_compare(X, y, environments)
    return rank_methods(candidates, training, metric=metric, n_jobs=n_jobs, random_state=random_state)


def read_rows_to_compare(X: Any, y: PerRow, environments: PerRow) -> TrainingRows:
    """Return rows with their labels as they are, of at least two environments."""
    if holds_items(X):
        from holdfast.neural.sources import read_items

        X, y, environments = read_items(X, y, environments)
    if y is None or environments is None:
        raise LabelsError(
            "comparing methods needs labels and environments. Pass y and environments, or a Dataset whose items have "
            "both: (x, y, environment), or dicts with the entries 'label' and 'environment'."
        )
    labels = np.asarray(y)
    split = split_environments(environments, len(labels))
    if len(split) < 2:
        raise EnvironmentsError("comparing methods needs at least two environments. Got one label only.")
    return TrainingRows(X, labels, split)


def rank_methods(
    candidates: Mapping[str, Any],
    training: TrainingRows,
    *,
    metric: str | None,
    n_jobs: int | None,
    random_state: RandomState,
    progress: Callable[[str], None] = lambda step: None,
) -> Comparison:
    """Fit the candidates and rank them; `progress` is called with a line for each fit that begins."""
    if metric is not None and metric not in METRICS:
        raise ParameterError(f"There is no metric {metric!r}. {suggest(metric, list(METRICS))}")
    X, labels, split, of_row = training.X, training.y, training.environments, training.environment_codes
    names = np.array([environment.name for environment in split], dtype=object)
    by_site = len(split) > 2
    if by_site:
        held_out = [part.out for part in leave_out(split)]
    else:
        held_out = _held_out(split, labels, N_FOLDS, Seeding(random_state))
    tasks = [(name, number) for name in candidates for number in range(len(held_out))]

    def announced(name: str, number: int) -> Any:
        progress(f"{name}, {number + 1} of {len(held_out)}")
        return clone(candidates[name])

    rows = (X, labels, names[of_row])
    fits = ((announced(name, number), held_out[number]) for name, number in tasks)
    outcomes = run_each(_fit_and_ask, rows, fits, n_jobs)
    answers: dict[str, list[Any]] = {name: [] for name in candidates}
    for (name, _), outcome in zip(tasks, outcomes, strict=True):
        answers[name].append(outcome)
    classes, codes = np.unique(labels, return_inverse=True)
    table = {name: collect(found, held_out, classes, labels) for name, found in answers.items()}
    if by_site:
        parts = Parts(codes, of_row, of_row, tuple(names))
    else:
        halves = _halves(candidates["erm"], X, labels, names, of_row, held_out)
        parts = Parts(
            codes, of_row, halves, tuple(f"{name}, {half}" for name in names for half in ("mistaken", "correct"))
        )
    ranked_by = metric or ("accuracy" if by_site else "worst")
    scores = [score_method(name, table, parts, ranked_by) for name in candidates]
    sign = 1.0 if ranked_by in LOWER_IS_BETTER else -1.0
    scores.sort(  # of methods that give the same answers, the one with a verdict comes first
        key=lambda score: (
            np.nan_to_num(sign * score.metrics.get(ranked_by, np.nan), nan=np.inf),
            score.method != "stable",
            score.spread,
        )
    )
    recommended, sentence = _recommend(scores, ranked_by, len(split))
    protocol, caveat = (LEFT_OUT, SCOPE) if by_site else (HELD_OUT, CAVEAT)
    most = np.bincount(codes).max() / len(codes)
    if most >= RARE and ranked_by in ("accuracy", "worst"):
        caveat = f"{says_little(most)}: rank with metric='auroc'. {caveat}"
    verdict = _verdict_on_all(candidates.get("stable"), training)
    if verdict is None and metric is None and not by_site:
        recommended, sentence = _follow_evidence(candidates["erm"], training, table, parts, recommended, sentence)
    if verdict is not None:
        recommended, sentence = _follow_advice(verdict, recommended, sentence, asked=metric is not None)
    return Comparison(protocol, ranked_by, tuple(scores), recommended, sentence, caveat, verdict)


def _follow_evidence(
    ordinary: MethodClassifier,
    training: TrainingRows,
    table: Mapping[str, Answers | str],
    parts: Parts,
    best: str,
    sentence: str,
) -> tuple[str, str]:
    """Return the method to use at two sites where stable took no part: not ERM only where something is unstable.

    The worst half prefers pi by construction. The evidence is the verdict of a stable classifier of all rows. For
    networks, whose verdict takes many fits, it is that of `holdfast.stable.network` for the held-out probabilities of
    ERM and the best other method.
    """
    erm, other = table["erm"], table[best]
    if best == "erm" or isinstance(erm, str) or isinstance(other, str):
        return best, sentence
    price = _known_price(erm, other, parts)
    if price <= 0:
        return best, sentence
    if is_network(getattr(last_step(ordinary), "estimator", None)):
        logs = [np.log(np.maximum(p, 1e-6)) for p in (erm.probabilities, other.probabilities) if p is not None]
        chance = weigh(logs[0], logs[1], parts.codes, parts.environments).probability if len(logs) == 2 else 0.0
        unstable, how_sure = chance >= LIKELY, f" (probability {chance:.2f})"
    else:
        unstable, how_sure = is_unstable(_verdict_on_all(_as_stable(ordinary), training)), ""
    cost = f"costs {100 * price:.1f} points of accuracy on held-out rows of both sites"
    if unstable:
        return best, f"{sentence} Something is unstable between the sites{how_sure}. {best} {cost}."
    return "erm", (
        f"Stay with erm: there is no evidence that it relies on something that differs between the sites{how_sure}, "
        f"and {best} {cost}. StableClassifier gives a full verdict."
    )


def _as_stable(ordinary: MethodClassifier) -> Any:
    """Return the ordinary method, or the pipeline that ends in it, as the stable one."""
    inner = last_step(ordinary)
    stable = METHODS["stable"](inner.estimator, random_state=inner.random_state)
    if not isinstance(ordinary, Pipeline):
        return stable
    return Pipeline([*clone(ordinary).steps[:-1], (ordinary.steps[-1][0], stable)])


def _known_price(erm: Answers, other: Answers, parts: Parts) -> float:
    """Return how much less accurate than ERM a method is on held-out rows, mean over environments."""
    lost = erm.right.astype(np.float64) - other.right
    return float(np.mean([lost[parts.environments == number].mean() for number in np.unique(parts.environments)]))


def _follow_advice(verdict: Verdict, best: str, sentence: str, *, asked: bool) -> tuple[str, str]:
    """Return the method that the advice of all commands is about, with the ranking as its evidence.

    The rule is that of `diagnose` and `fit`: stable where an unstable column is used less, else the ordinary model.
    Only a metric that the user asked for decides by itself.
    """
    rule = decide_early((), verdict)
    if verdict.network is not None:
        if asked:
            return best, f"{sentence} {verdict.answer}"
        chosen = "stable" if rule.action == "stable" else "erm"
        price = "" if chosen == "stable" else f" {verdict.network.price}"
        return chosen, f"Use {chosen}. {verdict.answer}{price}"
    if best.split()[0] in (("stable",) if rule.action == "stable" else ("erm", "stable")):
        return best, sentence
    if rule.action == "stable":
        unstable = listed([f"`{finding.feature}`" for finding in verdict.acted_on], most=3)
        effects = "effect" if len(verdict.acted_on) == 1 else "effects"
        differ = f"the {effects} of {unstable} {'differs' if effects == 'effect' else 'differ'} between these sites"
        if asked:
            return best, f"{sentence} But {differ}. If it may vanish or reverse at the next one, take stable."
        return "stable", f"Use stable: {differ}, and the stress test shows what that saves. By the ranking: {sentence}"
    if asked:
        return best, sentence
    return "erm", f"Stay with erm: no column has an effect that differs between sites. By the ranking alone: {sentence}"


def _verdict_on_all(stable: MethodClassifier | None, training: TrainingRows) -> Verdict | None:
    """Return the verdict of a stable classifier of all rows: its stress test asks what left-out sites cannot show."""
    if stable is None:
        return None
    names = np.array([environment.name for environment in training.environments], dtype=object)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            fitted = _fit(clone(stable), training.X, training.y, names[training.environment_codes])
    except HoldfastError:
        return None  # its problem is said with its scores
    return verdict_of(last_step(fitted))


def table_candidates(estimator: str | None, methods: Sequence[str] | None, random_state: RandomState) -> dict[str, Any]:
    """Return the methods that `compare_rows` compares; those with another estimator are called "erm with xgboost"."""
    found = candidate_methods(methods, find_estimator(estimator or "logistic").make(), random_state)
    if estimator is not None or methods is not None:
        return found
    booster = next((name for name in BOOSTERS if ESTIMATORS[name].is_installed()), None)
    if booster is None:
        return found
    inside = candidate_methods(["stable"], ESTIMATORS[booster].make(), random_state)
    return found | {f"{name} with {booster}": method for name, method in inside.items()}


def candidate_methods(methods: Any, estimator: Estimator, random_state: RandomState) -> dict[str, Any]:
    """Return the methods to compare, ERM among them; parameters as in `compare`."""
    if isinstance(methods, Mapping):
        return {"erm": ERMClassifier(estimator, random_state=random_state)} | dict(methods)
    network = estimator is not None and is_network(estimator)
    if methods is None:
        chosen = {name: method for name, method in METHODS.loadable().items() if network or not method.needs_network}
        del chosen["oracle"]  # it needs an attribute
    else:
        known = [name for name in METHODS if name != "oracle"]
        for name in methods:
            if name not in known:
                raise ParameterError(f"There is no method {name!r} to compare. {suggest(name, known)}")
            if METHODS[name].needs_network and not network:
                raise ParameterError(
                    f"The method {name!r} needs a network. Pass estimator='mlp', or a NeuralClassifier."
                )
        chosen = {name: METHODS[name] for name in ("erm", *methods)}
    return {name: method(estimator, random_state=random_state) for name, method in chosen.items()}


def _held_out(split: Sequence[Environment], y: NDArray[Any], n_folds: int, seeding: Seeding) -> list[Rows]:
    """Deal the rows of both environments to folds, every label spread evenly."""
    folds: list[list[Rows]] = [[] for _ in range(n_folds)]
    for environment in split:
        shuffled = seeding.generator("compare", environment.name).permutation(environment.rows)
        by_label = shuffled[np.argsort(y[shuffled], kind="stable")]
        for number in range(n_folds):
            folds[number].append(by_label[number::n_folds])
    return [np.sort(np.concatenate(parts)) for parts in folds]


def _fit_and_ask(
    rows: tuple[Any, NDArray[Any], NDArray[Any]], estimator: MethodClassifier, held_out: Rows
) -> tuple[NDArray[np.bool_], NDArray[np.float64] | None, NDArray[Any], list[tuple[str, str]]] | str:
    """Return which held-out rows are right, their probabilities with the classes, and warnings; or what went wrong."""
    X, y, environments = rows
    kept = rows_without(held_out, len(y))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HoldfastWarning)
            _fit(estimator, take_rows(X, kept), y[kept], environments[kept])
        remarks = _remarks(caught, verdict_of(last_step(estimator)))
        asked = take_rows(X, held_out)
        right = np.asarray(estimator.predict(asked)) == y[held_out]
        probabilities = estimator.predict_proba(asked) if has_probabilities(estimator) else None
        return right, probabilities, estimator.classes_, remarks
    except HoldfastError as problem:
        return str(problem)


def _fit(estimator: MethodClassifier, X: Any, y: NDArray[Any], environments: PerRow) -> Any:
    """Fit a method, or a pipeline that ends in one."""
    if isinstance(estimator, Pipeline):
        return fit_pipeline(estimator, X, y, environments)
    return estimator.fit(X, y, environments=environments)


def _remarks(caught: Sequence[warnings.WarningMessage], verdict: Verdict | None) -> list[tuple[str, str]]:
    """Return kind and text of a verdict and of our own warnings, and pass the others on."""
    ours = [entry for entry in caught if issubclass(entry.category, HoldfastWarning)]
    for entry in caught:
        if entry not in ours:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    found = {entry.category.__name__: str(entry.message) for entry in ours if issubclass(entry.category, REMARKED)}
    return [*([] if verdict is None else [(verdict.fitted, verdict.answer)]), *found.items()]


def _halves(
    erm: MethodClassifier, X: Any, y: NDArray[Any], names: NDArray[Any], of_row: Rows, held_out: Sequence[Rows]
) -> NDArray[np.intp]:
    """Return the half of each row: 2·environment + (the other environment's classifier is right), out of fold."""
    parts = np.empty(len(y), dtype=np.intp)
    for rows in held_out:
        kept = rows_without(rows, len(y))
        for judge in range(len(names)):
            own, judged = kept[of_row[kept] == judge], rows[of_row[rows] != judge]
            classifier = _fit(clone(erm), take_rows(X, own), y[own], None)
            right = np.asarray(classifier.predict(take_rows(X, judged))) == y[judged]
            parts[judged] = 2 * of_row[judged] + right
    return parts


def _recommend(scores: Sequence[MethodScore], ranked_by: str, n_environments: int) -> tuple[str, str]:
    """Return the recommended method and one sentence that says why."""
    best = scores[0]
    erm = next(score for score in scores if score.method == "erm")
    by_half = n_environments == 2 and ranked_by == "worst"
    if best.method == "erm" or (not by_half and not best.gain_low > 0):
        others = [score for score in scores if score.method != "erm" and score.problem is None]
        reason = f"no other method is significantly better at the 5 % level over {n_environments} environments"
        rival = f"; the best other method, {others[0].method}, gains {_in_words(others[0])}" if others else ""
        return "erm", f"Stay with erm: {reason}{rival}."
    where = "the worst held-out half" if by_half else "unseen environments"
    what = "accuracy" if by_half else METRICS[ranked_by]
    values = [score.metrics[ranked_by] for score in (best, erm)]
    return best.method, (
        f"Use {best.method}: its {what} in {where} is {values[0]:.3f}, that of erm is {values[1]:.3f} "
        f"({'mean ' * (ranked_by == 'worst')}gain {_in_words(best)}, {n_environments} environments)."
    )


def _in_words(score: MethodScore) -> str:
    """Return a gain with its interval, where there is one."""
    if np.isnan(score.gain_low):
        return f"{score.gain:+.3f}"
    return f"{score.gain:+.3f}, 95 % interval {score.gain_low:+.3f} to {score.gain_high:+.3f}"
