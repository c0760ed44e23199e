"""The classifier whose risk is the same in every environment, and the guards that fall back to plain ERM."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.datasets.gaussian import load_gaussian, stable_columns
from holdfast.environments import split_environments
from holdfast.exceptions import IdenticalEnvironmentsWarning, ParameterError, SolverWarning
from holdfast.interpolation.invariant import balanced_weights, find_step, fit_relabeled, solve_invariant
from holdfast.judging.judgements import Evidence, environment_codes, out_of_fold_evidence
from holdfast.seeding import Seeding

FOREST = RandomForestClassifier(40, min_samples_leaf=3)


def exact_evidence(etas, noise=0.2, n_rows=8000, scales=None):
    """Return exact judges of the toy law (x1 stable, x2 wrong with eta), its labels and environments, x1 and x2."""
    y, x1, x2, codes = [], [], [], []
    for code, eta in enumerate(etas):
        flip1, flip2 = round(noise * 10), round(eta * 20)
        i = np.arange(n_rows)
        label = i % 2
        y.append(label)
        x1.append(np.where((i // 2) % 10 < flip1, 1 - label, label))
        x2.append(np.where((i // 20) % 20 < flip2, 1 - label, label))
        codes.append(np.full(n_rows, code))
    y, x1, x2, codes = map(np.concatenate, (y, x1, x2, codes))

    def scores(eta):
        logit = (2 * x1 - 1) * np.log((1 - noise) / noise) + (2 * x2 - 1) * np.log((1 - eta) / eta)
        return -np.logaddexp(0, np.stack([logit, -logit], axis=1))

    judges = np.stack([scores(eta) for eta in etas])
    return Evidence(scores(np.mean(etas)), judges, joint=False, are_probabilities=True), y, codes, x1, x2


def solve(estimator, data, **settings):
    """Solve on the training rows of a made data set."""
    train = data.train
    environments = split_environments(train.environments, len(train))
    settings = {"n_classes": len(data.classes), "seeding": Seeding(0), "repeats": 2, **settings}
    return solve_invariant(estimator, train.X, train.y, environments, **settings)


def flipped(estimator, data, columns=slice(None)):
    """Return the accuracy where the unstable features contradict the label."""
    rows = data.test.environments == "flipped"
    return (estimator.predict(data.test.X[rows][:, columns]) == data.test.y[rows]).mean()


@pytest.mark.parametrize("etas", [(0.1, 0.3), (0.3, 0.1), (0.05, 0.2, 0.35)])
def test_exact_judges_lose_the_unstable_feature(etas):
    """With exact posteriors the step takes x2 out of the log-odds and leaves x1 in, in whichever order and number."""
    evidence, y, codes, x1, x2 = exact_evidence(etas)
    step = find_step(evidence, y, codes)
    moved = np.log(step.probabilities(evidence.pooled, evidence.judges)) @ [-1, 1]
    of_x1 = moved[(x1 == 1) & (x2 == 1)][0] - moved[(x1 == 0) & (x2 == 1)][0]
    of_x2 = moved[(x1 == 1) & (x2 == 1)][0] - moved[(x1 == 1) & (x2 == 0)][0]
    assert step.verdict == "moved"
    assert of_x1 > 2.0
    assert abs(of_x2) < 0.1 * of_x1
    assert np.ptp(step.risks) < 0.2 * np.ptp(step.pooled_risks)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_noise_of_the_judges_shortens_the_step(share):
    """The share of the judges' difference that is no noise is measured, and that share of the way is gone."""
    exact, y, codes, *_ = exact_evidence((0.1, 0.3))
    difference, mean = (exact.judges[1] - exact.judges[0]) @ [-0.5, 0.5], exact.judges.mean(axis=0) @ [-0.5, 0.5]
    beyond_scale = difference - mean * (difference @ mean) / (mean @ mean)
    error = np.random.default_rng(0).normal(size=len(y)) * beyond_scale.std() * np.sqrt((1 - share) / share)
    error = np.stack([-error, error], axis=1) / 2
    noisy = replace(exact, judges=exact.judges + np.stack([-error, error]))
    clear, blurred = find_step(exact, y, codes), find_step(noisy, y, codes)
    assert clear.signal > 0.95
    assert blurred.signal == pytest.approx(share, abs=0.2)  # by likelihood, not by variance
    assert np.ptp(clear.risks) < np.ptp(blurred.risks) < np.ptp(blurred.pooled_risks)


def test_without_unstable_part_the_risk_is_the_same_everywhere():
    """The statement behind the search: log-odds of x1 alone have equal risk, those of the pooled judge do not."""
    evidence, y, codes, x1, _ = exact_evidence((0.1, 0.3))
    stable = np.where(x1 == y, -np.log(0.8), -np.log(0.2))
    natural = -evidence.pooled[np.arange(len(y)), y]
    by_environment = [[losses[codes == code].mean() for code in (0, 1)] for losses in (stable, natural)]
    assert by_environment[0][0] == pytest.approx(by_environment[0][1], abs=1e-12)
    assert by_environment[1][1] - by_environment[1][0] > 0.1


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_geometric_halves_have_the_extrapolated_posterior(power):
    """Rows weighted by h(x)·(P_i(y|x)/P_j(y|x))^a have the posterior P·(P_i/P_j)^a: the identity behind the method."""
    generator = np.random.default_rng(0)
    joint = generator.dirichlet(np.ones(12)).reshape(4, 3)  # (x, y)
    ratio = generator.dirichlet(np.ones(3), 4) / generator.dirichlet(np.ones(3), 4)  # P_i / P_j
    scale = generator.random(4)[:, None]  # any h(x)
    weighted = joint * scale * ratio**power
    posterior = joint / joint.sum(axis=1, keepdims=True) * ratio**power
    np.testing.assert_allclose(
        weighted / weighted.sum(axis=1, keepdims=True), posterior / posterior.sum(axis=1, keepdims=True)
    )


def test_relabeled_rows_carry_the_targets():
    """A classifier of constant features, fitted on relabeled rows, answers with the mean target; weights count."""
    targets = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    X = np.zeros((2, 1))
    fitted = fit_relabeled(DecisionTreeClassifier(), X, targets, np.array([3.0, 1.0]), Seeding(0))
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), [[0.55, 0.3, 0.15]])


def test_estimators_without_weights_get_drawn_labels():
    """Nearest neighbors are fitted on labels drawn from the targets, several for each row."""
    targets = np.repeat([[0.75, 0.25]], 400, axis=0)
    fitted = fit_relabeled(KNeighborsClassifier(2000), np.zeros((400, 1)), targets, None, Seeding(0))
    assert fitted.predict_proba(np.zeros((1, 1)))[0, 0] == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("estimator", [LogisticRegression(), FOREST, LinearSVC(), GaussianNB()], ids=str)
def test_half_of_the_gap_is_closed(estimator):
    """Noisy stable feature: more than half of what ERM loses against the stable columns comes back, for any learner."""
    data = load_gaussian(n_classes=2, n_environments=2, n_rows=800, seed=3)
    solution = solve(estimator, data)
    natural = estimator.fit(data.train.X, data.train.y)
    erm = flipped(natural, data)
    columns = stable_columns(2)
    stable = flipped(estimator.fit(data.train.X[:, columns], data.train.y), data, columns)
    assert flipped(solution.estimator, data) > erm + 0.5 * (stable - erm)
    assert type(solution.estimator) is type(estimator)
    assert solution.gap < 0.5 * np.ptp(solution.history[0]["group_risks"])
    assert solution.group_weights.sum() == pytest.approx(0, abs=1e-9)


def test_three_classes_five_environments():
    """The step finds one contrast of five environments: the weights fall from the first to the last."""
    data = load_gaussian(n_classes=3, n_environments=5, n_rows=600, seed=1)
    solution = solve(LogisticRegression(), data)
    assert solution.group_weights[0] < 0 < solution.group_weights[-1]
    assert flipped(solution.estimator, data) > flipped(LogisticRegression().fit(data.train.X, data.train.y), data) + 0.1


def test_identical_environments_are_plain_erm():
    """Without a difference between environments the answer is ERM's, with a warning that says what is missing."""
    data = load_gaussian(n_classes=2, agreements=(0.8, 0.8), n_rows=500, seed=0)
    with pytest.warns(IdenticalEnvironmentsWarning, match=r"no evidence that what predicts the label changes"):
        solution = solve(LogisticRegression(), data)
    erm = LogisticRegression().fit(data.train.X, data.train.y)
    np.testing.assert_allclose(solution.estimator.coef_, erm.coef_)
    assert (solution.group_weights == 0).all()


def test_a_judge_without_skill_is_plain_erm():
    """Features that mean nothing cannot be compared."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(400, 2)), generator.integers(2, size=400)
    environments = split_environments(np.arange(400) % 2, 400)
    with pytest.warns(IdenticalEnvironmentsWarning, match="no better than the label frequencies"):
        solve_invariant(LogisticRegression(), X, y, environments, n_classes=2, seeding=Seeding(0))


def test_differences_that_cannot_be_told_apart_are_said():
    """A strong unstable feature in few rows looks like noisier labels: ERM, with the advice to take the worst case."""
    generator = np.random.default_rng(1)
    parts = []
    for agreement in (0.95, 0.85):
        label = generator.integers(2, size=200)
        columns = [np.where(generator.random(200) < share, label, 1 - label) for share in (0.75, agreement)]
        parts.append((np.stack(columns, axis=1).astype(float), label))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    environments = split_environments(np.repeat([0, 1], 200), 400)
    with pytest.warns(
        SolverWarning, match=r"do not tell whether a feature is unstable .*halves='hard', interpolation='worst_case'"
    ):
        solve_invariant(LogisticRegression(), X, y, environments, n_classes=2, seeding=Seeding(0))


def noisier(shares, seed=0, n_rows=1000):
    """Return rows whose labels are wrong more often in some environments, and nothing else differs."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n_rows * len(shares))
    codes = np.repeat(np.arange(len(shares)), n_rows)
    X = (2 * y - 1)[:, None] * [0.75, 1.5] + generator.normal(size=(len(y), 2))
    return X, np.where(generator.random(len(y)) < np.array(shares)[codes], 1 - y, y), codes


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB()], ids=str)
def test_noisier_labels_in_some_environments_change_nothing(estimator):
    """Environments of different difficulty differ in risk, but nothing is unstable: plain ERM, not a constant."""
    X, y, codes = noisier((0.0, 0.1, 0.25))
    with pytest.warns((IdenticalEnvironmentsWarning, SolverWarning), match="Plain ERM is fitted"):
        solution = solve_invariant(
            estimator, X, y, split_environments(codes, len(y)), n_classes=2, seeding=Seeding(0), repeats=1
        )
    np.testing.assert_array_equal(solution.estimator.predict(X), estimator.fit(X, y).predict(X))


def test_nothing_stable_is_said():
    """When the only predictive feature is the one that changes, removing it would leave nothing: ERM, and why."""
    generator = np.random.default_rng(1)
    y = generator.integers(2, size=3000)
    codes = np.arange(3000) % 2
    agree = generator.random(3000) < np.array([0.95, 0.7])[codes]
    X = np.column_stack([np.where(agree, y, 1 - y) * 4 + generator.normal(size=3000), generator.normal(size=3000)])
    X[:, 1] += 0.05 * y
    with pytest.warns((SolverWarning, IdenticalEnvironmentsWarning), match="Plain ERM is fitted"):
        solve_invariant(GaussianNB(), X, y, split_environments(codes, 3000), n_classes=2, seeding=Seeding(0), repeats=1)


def test_label_shift_alone_is_no_difference():
    """Frequencies that differ move the judges' offsets only, which are fitted anew: plain ERM."""
    generator = np.random.default_rng(0)
    codes = np.repeat([0, 1], 800)
    y = (generator.random(1600) < np.array([0.25, 0.75])[codes]).astype(int)
    X = (2 * y - 1)[:, None] * [0.75, 1.0] + generator.normal(size=(1600, 2))
    with pytest.warns(IdenticalEnvironmentsWarning, match="Plain ERM is fitted"):
        solve_invariant(
            LogisticRegression(), X, y, split_environments(codes, 1600), n_classes=2, seeding=Seeding(0), repeats=1
        )


def test_joint_judges_where_columns_can_be_added():
    """A forest gets environment columns, dense or sparse; linear models and texts get judges of their own."""
    data = load_gaussian(n_classes=2, n_environments=2, n_rows=100)
    X, y, environments = data.train.X, data.train.y, split_environments(data.train.environments, 200)
    settings = {"n_classes": 2, "seeding": Seeding(0), "repeats": 1}
    for estimator, rows, joint in (
        (FOREST, X, True),
        (FOREST, csr_array(X), True),
        (LogisticRegression(), X, False),
        (make_pipeline(TfidfVectorizer(), FOREST), [f"word{int(x)}" for x in X[:, 0]], False),
    ):
        evidence = out_of_fold_evidence(estimator, rows, y, environments, **settings)
        assert evidence.joint is joint
        assert evidence.judges.shape == (2, 200, 2)


def test_evidence_is_out_of_fold():
    """A full tree that memorizes its rows is wrong about some of them: it has not seen them."""
    data = load_gaussian(n_classes=2, n_environments=2, n_rows=200)
    environments = split_environments(data.train.environments, 400)
    evidence = out_of_fold_evidence(
        DecisionTreeClassifier(), data.train.X, data.train.y, environments, n_classes=2, seeding=Seeding(0), repeats=1
    )
    accuracy = (evidence.pooled.argmax(axis=1) == data.train.y).mean()
    assert 0.6 < accuracy < 0.95


def test_a_class_unseen_in_an_environment_is_unknown_there():
    """A judge that never saw a class takes the pooled classifier's scores of it."""
    generator = np.random.default_rng(0)
    y = np.concatenate([generator.integers(3, size=150), generator.integers(2, size=150)])
    X = y[:, None] + generator.normal(size=(300, 1))
    environments = split_environments(np.repeat([0, 1], 150), 300)
    evidence = out_of_fold_evidence(LogisticRegression(), X, y, environments, n_classes=3, seeding=Seeding(0))
    np.testing.assert_array_equal(evidence.judges[1, :, 2], evidence.pooled[:, 2])


def test_given_folds_are_used_once():
    """Rows of one patient stay together: two folds, one judge of all and one of each environment, six fits."""
    fits = []

    class Counting(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight)

    data = load_gaussian(n_classes=2, n_environments=2, n_rows=60)
    environments = split_environments(data.train.environments, 120)
    out_of_fold_evidence(
        Counting(), data.train.X, data.train.y, environments, n_classes=2, seeding=Seeding(0), folds=np.arange(120) % 2
    )
    assert fits == [30, 30, 60, 30, 30, 60]


def test_sample_weight_counts_rows():
    """Rows of weight zero change nothing."""
    data = load_gaussian(n_classes=2, n_environments=2, n_rows=600, seed=3)
    X, y = data.train.X, data.train.y
    codes = (data.train.environments == "E2").astype(int)
    folds = np.arange(len(y)) % 2
    junk = np.random.default_rng(0).integers(2, size=200)
    settings = {"n_classes": 2, "seeding": Seeding(0)}
    plain = solve_invariant(LogisticRegression(), X, y, split_environments(codes, len(y)), folds=folds, **settings)
    more = solve_invariant(
        LogisticRegression(),
        np.concatenate([X, X[:200]]),
        np.concatenate([y, junk]),
        split_environments(np.concatenate([codes, codes[:200]]), len(y) + 200),
        folds=np.concatenate([folds, folds[:200]]),
        sample_weight=np.repeat([1.0, 0.0], [len(y), 200]),
        **settings,
    )
    np.testing.assert_allclose(more.estimator.coef_, plain.estimator.coef_, rtol=0.02, atol=0.02)


def test_balanced_weights_count_environments_and_classes_alike():
    """Each environment and each class in it has the same total, whatever the frequencies."""
    y, codes = np.array([0, 0, 0, 1, 0, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    weights = balanced_weights(y, codes, np.ones(9), 2)
    totals = np.bincount(codes * 2 + y, weights)
    np.testing.assert_allclose(totals, 9 / 4)


def test_bad_settings_are_refused():
    """Rows without environment, and too few folds, are named."""
    with pytest.raises(ParameterError, match="1 of 3 rows are in no environment"):
        environment_codes(split_environments([0, 1], 2), 3)
    data = load_gaussian(n_classes=2, n_environments=2, n_rows=20)
    with pytest.raises(ParameterError, match="at least 2 folds and 1 repeat are needed. Got 1 and 2"):
        solve(LogisticRegression(), data, folds=1)
    with pytest.raises(ParameterError, match="one fold number for each of the 40 rows"):
        solve(LogisticRegression(), data, folds=np.zeros(40))
