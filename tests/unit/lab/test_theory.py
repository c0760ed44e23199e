from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from holdfast.exceptions import ParameterError
from holdfast.lab import theory


def fractions_of(joint: theory.Joint) -> np.ndarray:
    """Return the table as exact fractions with a small denominator."""
    cells = [Fraction(float(cell)).limit_denominator(1000) for cell in joint.array.ravel()]
    return np.array(cells, dtype=object).reshape(joint.array.shape)


def exact_mistaken_covariance(judge: np.ndarray, judged: np.ndarray) -> Fraction:
    """Return Cov(X2, Y) in the mistaken half by the definition, in rational arithmetic."""
    half = judged * (judge / judge.sum(axis=-1, keepdims=True))[..., ::-1]
    half = half / half.sum()
    values = np.arange(half.shape[1])
    both = sum(values[b] * half[:, b, 1].sum() for b in values)
    return both - sum(values[b] * half[:, b].sum() for b in values) * half[..., 1].sum()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 2), 0.25), "must have shape"),
        (np.full((2, 2, 1), 0.25), "at least two classes"),
        (np.full((2, 2, 2), 0.25), r"must sum to one. Got 2 instead; divide it by its sum"),
        (np.array([[[1.5, -0.5]]]), "not negative"),
        (np.array([[[np.nan, 1.0]]]), "finite"),
    ],
)
def test_joint_refuses_what_is_no_distribution(array: np.ndarray, message: str) -> None:
    """Tables of the wrong shape, sum or sign are refused with what to do."""
    with pytest.raises(ParameterError, match=message):
        theory.Joint(array)


def test_joint_refuses_values_that_do_not_match() -> None:
    """Each value of x2 has one number."""
    with pytest.raises(ParameterError, match="one number for each of the 2 values of x2"):
        theory.Joint(np.full((2, 2, 2), 0.125), x2_values=np.arange(3))


def test_joint_keeps_its_own_copy() -> None:
    """Neither the caller's array nor the result's can be changed through the other."""
    array = np.full((2, 2, 2), 0.125)
    joint = theory.Joint(array)
    array[0] = 0
    assert np.asarray(joint).sum() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        joint.array[0, 0, 0] = 1.0


def test_toy_has_the_known_moments() -> None:
    """With flip rate η the covariance is (1 − 2η)/4 and the correlation 1 − 2η, whatever the noise."""
    for eta in (0.0, 0.1, 0.5, 0.9):
        for noise in (0.0, 0.2, 0.5):
            joint = theory.toy(eta, noise)
            assert joint.covariance() == pytest.approx((1 - 2 * eta) / 4, abs=1e-15)
            assert joint.correlation() == pytest.approx(1 - 2 * eta, abs=1e-14)


def test_toy_refuses_a_rate_outside_the_unit_interval() -> None:
    """A flip rate is a probability."""
    with pytest.raises(ParameterError, match=r"'eta' parameter of toy must lie in \[0, 1\]. Got 1.5"):
        theory.toy(1.5)


def test_covariance_uses_the_values_of_x2() -> None:
    """Doubling the distance of the values doubles the covariance and leaves the correlation."""
    joint = theory.toy(0.1)
    wide = theory.Joint(joint.array, x2_values=np.array([-1.0, 1.0]))
    assert wide.covariance() == pytest.approx(2 * joint.covariance())
    assert wide.correlation() == pytest.approx(joint.correlation())


def test_many_distributions_at_once_equal_one_at_a_time() -> None:
    """Leading axes hold distributions; results keep them."""
    singles = [theory.toy(eta) for eta in (0.0, 0.1, 0.3)]
    stacked = theory.Joint(np.stack([single.array for single in singles]))
    alpha, correct, mistaken = theory.partition(theory.toy(0.2), stacked)
    for row, single in enumerate(singles):
        one = theory.partition(theory.toy(0.2), single)
        assert alpha[row] == one[0]
        assert np.array_equal(correct.array[row], one[1].array)
        assert mistaken.covariance()[row] == one[2].covariance()


def test_toy_halves_are_the_papers() -> None:
    """Judged by η = 0, the environment with η = 0.1 has α = 0.9 and correlations 1 and −1; their mean is the oracle."""
    alpha, correct, mistaken = theory.partition(theory.toy(0.0), theory.toy(0.1))
    assert alpha == pytest.approx(0.9)
    assert (correct.correlation(), mistaken.correlation()) == (pytest.approx(1.0), pytest.approx(-1.0))
    assert theory.oracle_weight(correct, mistaken) == pytest.approx(0.5, abs=1e-15)
    assert theory.mixture([correct, mistaken], [0.5, 0.5]).covariance() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(("eta1", "eta2", "empty"), [(0.0, 0.0, 2), (0.0, 1.0, 1)])
def test_empty_half_is_a_result(eta1: float, eta2: float, empty: int) -> None:
    """With α = 1 nobody is mistaken and with α = 0 everybody: that half is all zero and the mixture still exact."""
    cut = theory.partition(theory.toy(eta1), theory.toy(eta2))
    assert cut[0] == (1.0 if empty == 2 else 0.0)
    assert cut[empty].array.sum() == 0
    assert np.isnan(cut[empty].covariance())
    assert np.isnan(cut[empty].correlation())
    assert np.array_equal(cut[0] * cut[1].array + (1 - cut[0]) * cut[2].array, theory.toy(eta2).array)


def test_partition_refuses_different_alphabets_and_unknown_halves() -> None:
    """Both environments are over the same values, cut in a way that exists."""
    with pytest.raises(ParameterError, match=r"over the same values. Got shapes \(2, 2, 2\) and \(1, 2, 2\)"):
        theory.partition(theory.toy(0.1), theory.Joint(np.full((1, 2, 2), 0.25)))
    with pytest.raises(ParameterError, match="'halves' parameter of partition must be one of"):
        theory.partition(theory.toy(0.1), theory.toy(0.1), halves="firm")  # type: ignore[arg-type]


def test_hard_halves_flip_what_soft_halves_leave_alone() -> None:
    """Two identical environments: x2 flips to −1 in the hard mistaken half, and has correlation 0 in the soft one."""
    same = theory.toy(0.1)
    _, _, hard = theory.partition(same, same, halves="hard")
    _, _, soft = theory.partition(same, same)
    assert hard.correlation() == pytest.approx(-1.0)
    assert soft.correlation() == pytest.approx(0.0, abs=1e-14)


def test_hard_ties_are_shared() -> None:
    """A judge that cannot tell is right half of the time."""
    alpha, _, _ = theory.partition(theory.toy(0.5, 0.5), theory.toy(0.1), halves="hard")
    assert alpha == pytest.approx(0.5)


def test_unseen_inputs_are_guessed() -> None:
    """Where the judge never saw (x1, x2) it guesses uniformly."""
    judge = theory.Joint([[[0.5, 0.5], [0.0, 0.0]]])
    assert judge.conditional()[0, 1].tolist() == [0.5, 0.5]


def test_inverse_weights_are_the_complement_for_two_classes() -> None:
    """h(x)/P(y|x) = 1 − P(y|x) when there are two labels."""
    chances = np.array([[0.3, 0.7], [0.0, 1.0], [0.5, 0.5]])
    assert theory.inverse_weights(chances) == pytest.approx(1 - chances)


def test_min_max_of_the_toy_uses_the_stable_feature_alone() -> None:
    """Over both halves of E2 the optimum is P(y | x1) with the noise's entropy as risk in each half, at λ = 1/2."""
    noise = 0.2
    _, correct, mistaken = theory.partition(theory.toy(0.0, noise), theory.toy(0.1, noise))
    optimum = theory.minimize_worst_case_risk([correct, mistaken])
    entropy = -(noise * np.log(noise) + (1 - noise) * np.log(1 - noise))
    assert optimum.classifier[..., 1] == pytest.approx(np.array([[0.2, 0.2], [0.8, 0.8]]), abs=1e-14)
    assert optimum.weights == pytest.approx([0.5, 0.5], abs=1e-14)
    assert optimum.group_risks == pytest.approx([entropy, entropy], abs=1e-14)
    assert optimum.worst_case_risk == pytest.approx(entropy, abs=1e-14)
    assert optimum.gap == pytest.approx(0.0, abs=1e-14)


def test_min_max_of_the_toy_over_all_hard_halves() -> None:
    """E1 judged by E2 adds one half (nobody is mistaken), where P(y | x1) has the same risk: the optimum stays."""
    ours, theirs = theory.toy(0.0), theory.toy(0.1)
    cuts = [theory.partition(ours, theirs, halves="hard"), theory.partition(theirs, ours, halves="hard")]
    groups = [half for _, *halves in cuts for half in halves if half.array.sum() > 0]
    optimum = theory.minimize_worst_case_risk(groups)
    assert len(groups) == 3
    assert optimum.classifier[..., 1] == pytest.approx(np.array([[0.2, 0.2], [0.8, 0.8]]), abs=1e-6)
    assert optimum.gap < 1e-12


def test_min_max_with_a_noisy_stable_feature_is_nearly_constant() -> None:
    """Over all four soft halves of η = 0.1 and 0.2 no classifier does much better than guessing: the harsh case."""
    ours, theirs = theory.toy(0.1), theory.toy(0.2)
    groups = [*theory.partition(ours, theirs)[1:], *theory.partition(theirs, ours)[1:]]
    optimum = theory.minimize_worst_case_risk(groups)
    assert optimum.worst_case_risk == pytest.approx(0.692824, abs=1e-6)
    assert np.log(2) - optimum.worst_case_risk < 4e-4
    assert optimum.gap < 1e-9


def test_min_max_moves_weight_to_the_vertex_that_needs_it() -> None:
    """A group that is harder than another at every interpolation takes all the weight."""
    easy, hard = theory.toy(0.0, 0.0), theory.toy(0.5, 0.5)
    optimum = theory.minimize_worst_case_risk([easy, hard])
    assert optimum.weights == pytest.approx([0.0, 1.0])
    assert optimum.worst_case_risk == pytest.approx(np.log(2))


def test_min_max_refuses_an_empty_half() -> None:
    """A half that holds nothing has no risk."""
    _, correct, mistaken = theory.partition(theory.toy(0.0), theory.toy(0.0))
    with pytest.raises(ParameterError, match="Drop the empty half"):
        theory.minimize_worst_case_risk([correct, mistaken])


def test_theorem1_holds_on_the_toy() -> None:
    """Every assumption is met and both covariances have the promised sign."""
    result = theory.theorem1(theory.toy(0.1), theory.toy(0.2))
    assert result.assumptions
    assert result.conclusion
    assert not result.violated


def test_theorem1_states_which_assumption_fails() -> None:
    """The weaker judge, another noise and dependent features each break one assumption."""
    assert not theory.theorem1(theory.toy(0.2), theory.toy(0.1)).stronger
    assert not theory.theorem1(theory.toy(0.1, 0.2), theory.toy(0.2, 0.3)).stable
    dependent = theory.Joint([[[0.3, 0.1], [0.1, 0.0]], [[0.1, 0.0], [0.0, 0.4]]])
    assert not theory.theorem1(dependent, theory.toy(0.4)).independent


def test_theorem1_fails_with_four_values() -> None:
    """The pinned pair meets every assumption, and x2 keeps its sign among the mistakes: +21/1556."""
    judge, judged = theory.theorem1_counterexample()
    result = theory.theorem1(judge, judged)
    assert (judge.covariance(), judged.covariance()) == (pytest.approx(0.075), pytest.approx(0.05))
    assert result.assumptions
    assert result.violated
    assert exact_mistaken_covariance(fractions_of(judge), fractions_of(judged)) == Fraction(21, 1556)
    assert result.judged_mistaken == pytest.approx(21 / 1556, abs=1e-15)


def test_theorem2_as_printed_has_a_counterexample() -> None:
    """In the pinned pair the mistaken half is above the printed bound and below the derived one."""
    judge, judged = theory.theorem2_counterexample()
    alpha, _, mistaken = theory.partition(judge, judged)
    assert all(theory.has_uniform_labels(joint) for joint in (judge, judged, mistaken))
    assert (judge.covariance(), judged.covariance()) == (pytest.approx(0.1), pytest.approx(0.05))
    assert alpha == pytest.approx(38 / 105, abs=1e-15)
    assert exact_mistaken_covariance(fractions_of(judge), fractions_of(judged)) == Fraction(3, 134)
    assert mistaken.covariance() == pytest.approx(3 / 134, abs=1e-15)
    assert theory.theorem2_bounds(judge, judged)[0] == pytest.approx(27 / 268, abs=1e-15)
    assert theory.theorem2_bounds_as_printed(judge, judged)[0] == pytest.approx(-0.0419823339, abs=1e-10)


def test_theorem2_bounds_of_an_empty_half_are_nan() -> None:
    """With α = 1 there is no mistaken half to bound."""
    assert np.isnan(theory.theorem2_bounds(theory.toy(0.0), theory.toy(0.0))[0])


@pytest.mark.parametrize("halves", ["soft", "hard"])
def test_oracle_interpolation_has_the_same_risk_in_every_environment(halves: theory.Halves) -> None:
    """Where halves are {x2 = y} and {x2 ≠ y}, the interpolation's classifier is P(y | x1): equal risk everywhere."""
    judge, judged = theory.toy(0.0 if halves == "soft" else 0.05), theory.toy(0.1)
    _, correct, mistaken = theory.partition(judge, judged, halves=halves)
    weight = float(theory.oracle_weight(correct, mistaken))
    classifier = theory.mixture([correct, mistaken], [weight, 1 - weight]).conditional()
    risks = [float(theory.risk(classifier, environment)) for environment in (judge, judged, theory.toy(0.9))]
    assert risks == pytest.approx([risks[0]] * 3, abs=1e-14)


def test_oracle_interpolation_of_soft_halves_is_only_nearly_stable() -> None:
    """With a judge that is not sure (η = 0.1), zero covariance leaves a little of x2: risks differ by 0.0097."""
    judge, judged = theory.toy(0.1), theory.toy(0.2)
    _, correct, mistaken = theory.partition(judge, judged)
    weight = float(theory.oracle_weight(correct, mistaken))
    classifier = theory.mixture([correct, mistaken], [weight, 1 - weight]).conditional()
    assert weight == pytest.approx(0.306166, abs=1e-6)
    assert theory.risk(classifier, judged) - theory.risk(classifier, judge) == pytest.approx(0.009723, abs=1e-6)


def test_oracle_weight_is_nan_without_a_change_of_sign() -> None:
    """Halves of the same sign do not enclose the oracle."""
    judged = theory.toy(0.05)
    _, correct, mistaken = theory.partition(theory.toy(0.2), judged)
    assert np.isnan(theory.oracle_weight(correct, mistaken))


def test_extrapolation_loses_x2_at_one_strength() -> None:
    """At a = ω_j/(ω_i − ω_j) the classifier is P(y | x1) and has the same risk in every environment, seen or not."""
    judge, judged = theory.toy(0.1), theory.toy(0.2)
    strength = float(theory.vanishing_strength(judge, judged))
    classifier = theory.extrapolate(judge, judged, strength)
    assert strength == pytest.approx(np.log(4) / (np.log(9) - np.log(4)))
    assert classifier[..., 1] == pytest.approx(np.array([[0.2, 0.2], [0.8, 0.8]]))
    risks = [float(theory.risk(classifier, environment)) for environment in (judge, judged, theory.toy(0.95))]
    assert risks == pytest.approx([risks[0]] * 3, abs=1e-14)


def test_extrapolation_from_zero_is_the_judged_classifier() -> None:
    """Strength 0 changes nothing."""
    assert theory.extrapolate(theory.toy(0.1), theory.toy(0.2), 0.0) == pytest.approx(theory.toy(0.2).conditional())


def test_extrapolation_needs_possible_labels() -> None:
    """A judge that rules a label out has infinite log-odds."""
    with pytest.raises(ParameterError, match=r"needs P\(y \| x\) > 0 in both"):
        theory.extrapolate(theory.toy(0.0), theory.toy(0.1), 1.0)


def test_vanishing_strength_of_identical_environments_is_nan() -> None:
    """There is nothing to extrapolate."""
    assert np.isnan(theory.vanishing_strength(theory.toy(0.1), theory.toy(0.1)))


def test_one_against_rest_breaks_conditional_independence() -> None:
    """Three classes with x1 and x2 independent given y: given "not class 0" they no longer are."""
    stable = np.diag([0.3, 0.3, 0.3]) + 0.1 / 9
    stable /= stable.sum()
    unstable = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    joint = theory.independent(stable, unstable)
    reduced = theory.Joint(np.stack([joint.array[..., 1:].sum(axis=-1), joint.array[..., 0]], axis=-1))
    assert theory.is_independent(joint)
    assert not theory.is_independent(reduced)
    assert reduced.label_marginal() == pytest.approx([2 / 3, 1 / 3])
    assert reduced.covariance() == pytest.approx(joint.covariance(0))


def test_half_curves_hold_the_known_points() -> None:
    """At η2 = η1 the soft mistaken half has correlation 0; hard halves stay at ±1 and their oracle at 1/2."""
    curves = theory.half_curves(0.1, 0.2, 0.2, etas=[0.1, 0.3])
    assert curves.eta.tolist() == [0.1, 0.2, 0.3]
    assert curves.judged == pytest.approx([0.8, 0.6, 0.4])
    assert curves.mistaken["soft"][:2] == pytest.approx([0.0, -5 / 13], abs=1e-14)
    assert curves.mistaken["hard"] == pytest.approx([-1.0, -1.0, -1.0])
    assert curves.oracle["hard"] == pytest.approx([0.5, 0.5, 0.5])
    assert curves.oracle["soft"][1] == pytest.approx(0.306166, abs=1e-6)
    assert curves.rows()[1]["correct_soft"] == pytest.approx(0.871618, abs=1e-6)


def test_half_curves_refuse_rates_outside_the_unit_interval() -> None:
    """Rates are probabilities."""
    with pytest.raises(ParameterError, match=r"'etas' parameter of half_curves must be a list of numbers in \[0, 1\]"):
        theory.half_curves(0.1, 0.2, etas=[2.0])


def test_half_figures_show_the_curves() -> None:
    """The first figure has five curves, the second the two oracles; each is drawn from the data unchanged."""
    curves = theory.half_curves(0.1, 0.2, etas=[0.1, 0.2, 0.3])
    drawn = {line.name: line.y for figure in theory.half_figures(curves) for line in figure.lines}
    assert len(drawn) == 7
    assert drawn["mistaken half, soft"] == tuple(curves.mistaken["soft"])
    assert drawn["correct half, hard"] == tuple(curves.correct["hard"])
    assert drawn["soft halves"] == pytest.approx(tuple(curves.oracle["soft"]), nan_ok=True)
    assert drawn["whole environment"] == tuple(curves.judged)


def test_half_figures_have_a_text_alternative() -> None:
    """The words carry the numbers at the chosen η."""
    note = theory.half_figures(theory.half_curves(0.1, 0.2, 0.2))[0].note
    assert note.startswith("Judge η = 0.1, judged η = 0.2, noise 0.2: x2 and y correlate at +0.60")
    assert "soft halves: +0.87 where the judge is right, -0.38 where it is wrong, oracle at weight 0.31" in note
