"""The statements of `holdfast.lab.theory` over tens of thousands of random distributions, all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.lab import theory

PAIRS = 20_000
SEEDS = st.integers(0, 2**32 - 1)


def random_joints(generator: np.random.Generator, *shape: int) -> theory.Joint:
    """Return distributions of shape (n, n_x1, n_x2, n_classes), some of them nearly deterministic."""
    cells = generator.gamma(generator.choice([0.3, 1.0, 3.0], size=(shape[0], 1, 1, 1)), size=shape) + 1e-6
    return theory.Joint(cells / cells.sum(axis=(1, 2, 3), keepdims=True))


def mirrored_joints(generator: np.random.Generator, n: int, n_x1: int = 2, n_x2: int = 2) -> theory.Joint:
    """Return distributions unchanged by reversing x1, x2 and y together: every half has uniform labels."""
    ones = generator.gamma(0.5, size=(n, n_x1, n_x2)) + 1e-6
    ones /= 2 * ones.sum(axis=(1, 2), keepdims=True)
    return theory.Joint(np.stack([ones[:, ::-1, ::-1], ones], axis=-1))


def independent_pair(generator: np.random.Generator, n: int, n_x2: int) -> tuple[theory.Joint, theory.Joint]:
    """Return pairs that meet every assumption of Theorem 1 but the order of covariances, which is sorted out here."""
    agree = generator.uniform(0.05, 0.95, size=n)
    stable = np.stack([np.stack([agree, 1 - agree], -1), np.stack([1 - agree, agree], -1)], -2) / 2
    # P(x2|1) + P(x2|0) is the same in both, and reversing x2 exchanges the labels.
    half = generator.dirichlet(np.ones((n_x2 + 1) // 2), size=n)
    total = np.concatenate([half, half[:, : n_x2 // 2][:, ::-1]], axis=1)
    total *= 2 / total.sum(axis=1, keepdims=True)
    joints = []
    for _ in range(2):
        lean = generator.uniform(-0.98, 0.98, size=(n, n_x2))
        lean = (lean - lean[:, ::-1]) / 2
        given_y = np.stack([total * (1 - lean), total * (1 + lean)], axis=-1) / 2
        joints.append(theory.independent(stable, given_y))
    swap = (joints[0].covariance() < joints[1].covariance())[:, None, None, None]
    judge = np.where(swap, joints[1].array, joints[0].array)
    judged = np.where(swap, joints[0].array, joints[1].array)
    return theory.Joint(judge), theory.Joint(judged)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_x1=st.integers(1, 4), n_x2=st.integers(1, 4), n_classes=st.integers(2, 5))
def test_halves_mix_to_the_environment(seed: int, n_x1: int, n_x2: int, n_classes: int) -> None:
    """Proposition 1, complement and hard: α·correct + (1 − α)·mistaken is the judged environment to 1e-12."""
    generator = np.random.default_rng(seed)
    judge, judged = (random_joints(generator, 500, n_x1, n_x2, n_classes) for _ in range(2))
    for halves in ("complement", "hard", *(["soft"] if n_classes == 2 else [])):
        alpha, correct, mistaken = theory.partition(judge, judged, halves=halves)
        share = alpha[:, None, None, None]
        assert np.abs(share * correct.array + (1 - share) * mistaken.array - judged.array).max() < 1e-12


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_x1=st.integers(1, 3), n_x2=st.integers(2, 4), n_classes=st.integers(2, 5))
def test_mistaken_log_odds_are_the_difference(seed: int, n_x1: int, n_x2: int, n_classes: int) -> None:
    """With the weights h/P_i, log-odds in the mistaken half are judged minus judge, for any number of classes."""
    generator = np.random.default_rng(seed)
    judge, judged = (random_joints(generator, 500, n_x1, n_x2, n_classes) for _ in range(2))
    _, _, mistaken = theory.partition(judge, judged, halves="soft")
    for label in range(1, n_classes):
        expected = theory.mistaken_log_odds(judge, judged, label)
        assert np.allclose(theory.log_odds(mistaken, label), expected, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, n_classes=st.integers(2, 4))
def test_soft_mistaken_half_depends_on_x2_alone(seed: int, n_classes: int) -> None:
    """If x1 and x2 are independent given y and P(x1, y) is shared, P(y | x) among mistakes ignores x1."""
    generator = np.random.default_rng(seed)
    stable = (
        generator.dirichlet(np.ones(3 * n_classes), size=500).reshape(500, 3, n_classes) * 0.99 + 0.01 / 3 / n_classes
    )
    judge, judged = (
        theory.independent(
            stable, np.moveaxis(generator.dirichlet(np.ones(4), size=(500, n_classes)), 1, 2) * 0.96 + 0.01
        )
        for _ in range(2)
    )
    _, _, mistaken = theory.partition(judge, judged, halves="soft")
    conditional = mistaken.conditional()
    assert np.ptp(conditional, axis=1).max() < 1e-10


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, n_classes=st.integers(2, 4))
def test_shared_conditional_has_no_covariance_among_mistakes(seed: int, n_classes: int) -> None:
    """If P(y | x) is the same in both environments, the soft mistaken half has covariance 0 with every label."""
    generator = np.random.default_rng(seed)
    judge = random_joints(generator, 500, 2, 3, n_classes)
    inputs = generator.dirichlet(np.ones(6), size=500).reshape(500, 2, 3, 1)
    judged = theory.Joint(judge.conditional() * inputs)
    _, _, mistaken = theory.partition(judge, judged, halves="soft")
    for label in range(n_classes):
        assert np.abs(mistaken.covariance(label)).max() < 1e-12


def test_theorem1_holds_for_a_binary_x2() -> None:
    """No violation in 20,000 pairs that meet its assumptions."""
    result = theory.theorem1(*independent_pair(np.random.default_rng(1), PAIRS, n_x2=2))
    assert result.assumptions.mean() > 0.999
    assert result.violated.sum() == 0


def test_theorem1_fails_for_four_values_now_and_then() -> None:
    """Some of 20,000 pairs with a four-valued x2 meet every assumption and violate it."""
    result = theory.theorem1(*independent_pair(np.random.default_rng(2), PAIRS, n_x2=4))
    assert result.assumptions.mean() > 0.999
    assert 20 < result.violated.sum() < 2000


def test_sign_among_mistakes_is_that_of_the_odds_ratios() -> None:
    """For a binary x2, independent of x1 given y, Cov(P_j^{i×}) has the sign of ω_j − ω_i for any label balance."""
    generator = np.random.default_rng(3)
    stable = generator.dirichlet(np.ones(6), size=PAIRS).reshape(PAIRS, 3, 2) * 0.99 + 0.01 / 6
    columns = generator.uniform(0.02, 0.98, size=(2, PAIRS, 2))
    judge, judged = (theory.independent(stable, np.stack([1 - one, one], axis=1)) for one in columns)
    _, _, mistaken = theory.partition(judge, judged)
    difference = theory.log_odds_ratio(judged) - theory.log_odds_ratio(judge)
    clear = np.abs(difference) > 1e-6
    assert (np.sign(mistaken.covariance()) == np.sign(difference))[clear].all()


def test_theorem2_holds_as_derived_and_fails_as_printed() -> None:
    """Over 20,000 mirrored pairs the derived bounds hold, with (Cov_i − Cov_j)/(1 − α) to spare; the printed fail."""
    generator = np.random.default_rng(4)
    judge, judged = mirrored_joints(generator, PAIRS), mirrored_joints(generator, PAIRS)
    alpha, _, judged_mistaken = theory.partition(judge, judged)
    _, _, judge_mistaken = theory.partition(judged, judge)
    upper, lower = theory.theorem2_bounds(judge, judged)
    printed_upper, printed_lower = theory.theorem2_bounds_as_printed(judge, judged)
    difference = judge.covariance() - judged.covariance()
    stronger = difference > 1e-9
    assert stronger.sum() > 9_000
    assert theory.has_uniform_labels(judged_mistaken).all()
    assert (judged_mistaken.covariance() < upper)[stronger].all()
    assert (judge_mistaken.covariance() > lower)[stronger].all()
    assert np.allclose((upper - judged_mistaken.covariance()) * (1 - alpha), difference, atol=1e-9)
    assert (judged_mistaken.covariance() >= printed_upper)[stronger].sum() > 100
    assert (judge_mistaken.covariance() <= printed_lower)[stronger].sum() > 100


def test_theorem2_needs_uniform_labels_inside_the_halves() -> None:
    """With uniform labels in the environments only, the derived bound fails for some of 20,000 pairs."""
    generator = np.random.default_rng(5)
    pair = []
    for _ in range(2):
        cells = generator.gamma(0.5, size=(PAIRS, 2, 2, 2)) + 1e-6
        pair.append(theory.Joint(cells / cells.sum(axis=(1, 2), keepdims=True) / 2))
    judge, judged = pair
    _, _, mistaken = theory.partition(judge, judged)
    stronger = judge.covariance() > judged.covariance() + 1e-9
    assert (mistaken.covariance() > theory.theorem2_bounds(judge, judged)[0])[stronger].sum() > 0


def test_theorem2_upper_bound_needs_no_mirror() -> None:
    """Labels made uniform inside P_j^{i×} by mixing two environments, 20,000 times: the derived upper bound holds."""
    generator = np.random.default_rng(6)
    uniform = []
    for _ in range(3):
        cells = generator.gamma(0.5, size=(PAIRS, 2, 3, 2)) + 1e-6
        uniform.append(theory.Joint(cells / cells.sum(axis=(1, 2), keepdims=True) / 2))
    judge, first, second = uniform
    wrong = 1 - judge.conditional()
    lean_first, lean_second = ((joint.array * wrong * [-1, 1]).sum(axis=(1, 2, 3)) for joint in (first, second))
    opposite = lean_first * lean_second < 0  # then some mixture of the two has none
    share = np.where(opposite, lean_second / np.where(opposite, lean_second - lean_first, 1.0), 0.5)[
        :, None, None, None
    ]
    judged = theory.Joint(share * first.array + (1 - share) * second.array)
    _, _, mistaken = theory.partition(judge, judged)
    usable = theory.has_uniform_labels(mistaken) & (judge.covariance() > judged.covariance() + 1e-9)
    assert usable.sum() > 2_000
    assert (mistaken.covariance() < theory.theorem2_bounds(judge, judged)[0])[usable].all()


def test_extrapolation_loses_the_unstable_feature() -> None:
    """At `vanishing_strength` the classifier ignores x2, and its risk is equal in environments sharing P(x1, y)."""
    generator = np.random.default_rng(7)
    for _ in range(200):
        stable = generator.dirichlet(np.ones(6)).reshape(3, 2) * 0.9 + 0.1 / 6
        flips = generator.uniform(0.05, 0.95, size=(3, 1, 2))
        judge, judged, unseen = (theory.independent(stable, np.concatenate([1 - flip, flip])) for flip in flips)
        strength = float(theory.vanishing_strength(judge, judged))
        if abs(strength) > 20:
            continue
        classifier = theory.extrapolate(judge, judged, strength)
        assert np.ptp(classifier[..., 1], axis=1).max() < 1e-9
        risks = [float(theory.risk(classifier, joint)) for joint in (judge, judged, unseen)]
        assert risks == pytest.approx([risks[0]] * 3, abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_min_max_is_certified(seed: int) -> None:
    """The least worst-case risk exceeds its lower bound by the gap alone, and no random classifier does better."""
    generator = np.random.default_rng(seed)
    groups = [theory.Joint(cells) for cells in random_joints(generator, 3, 2, 2, 2).array]
    optimum = theory.minimize_worst_case_risk(groups, tolerance=1e-8)
    assert optimum.gap < 1e-6
    rivals = generator.dirichlet([1.0, 1.0], size=(200, 2, 2))
    worst = np.max(
        [theory.risk(rivals, theory.Joint(np.broadcast_to(group.array, rivals.shape))) for group in groups], axis=0
    )
    assert worst.min() >= optimum.worst_case_risk - optimum.gap - 1e-12
