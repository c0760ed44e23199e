"""What mixtures of halves do to stable and unstable features, on exact distributions."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from holdfast.fitting.estimators import fit_rows
from holdfast.lab import theory

STRONG, WEAK = theory.toy(0.1), theory.toy(0.2)  # x1 wrong in 0.2 of the rows of both, x2 in 0.1 and 0.2
OF_X1 = np.log(0.8 / 0.2)  # half of the step of the log-odds from x1 = 0 to x1 = 1


def steps(conditional):
    """Return half the steps of the log-odds of y = 1 that x1 and x2 make, averaged over the other."""
    odds = np.log(conditional[..., 1] / conditional[..., 0])  # (x1, x2)
    return (odds[1] - odds[0]).mean() / 2, (odds[:, 1] - odds[:, 0]).mean() / 2


def test_arithmetic_mixtures_of_soft_halves_weaken_the_stable_feature():
    """Where the mixture's x2 tells least, x1 has lost part of its log-odds: the mistaken half knows nothing of x1."""
    _, correct, mistaken = theory.partition(STRONG, WEAK)
    mixed = [theory.mixture([correct, mistaken], [share, 1 - share]) for share in np.linspace(0, 1, 201)]
    of_x1, of_x2 = np.array([steps(joint.conditional()) for joint in mixed]).T
    gone = np.abs(of_x2).argmin()
    assert abs(of_x2[gone]) < 0.02
    assert of_x1[gone] < 0.8 * OF_X1


def test_geometric_mixtures_keep_the_stable_feature():
    """P_j·(P_j/P_i)^a has x1's log-odds for every a, and loses x2's at one a, where its risk is the same everywhere."""
    for strength in (0.0, 0.7, 3.0):
        assert steps(theory.extrapolate(STRONG, WEAK, strength))[0] == pytest.approx(OF_X1)
    there = float(theory.vanishing_strength(STRONG, WEAK))
    classifier = theory.extrapolate(STRONG, WEAK, there)
    assert steps(classifier)[1] == pytest.approx(0, abs=1e-12)
    assert float(theory.risk(classifier, STRONG)) == pytest.approx(float(theory.risk(classifier, WEAK)), abs=1e-12)


def test_risks_are_equal_at_no_other_strength():
    """On the way there the environment with the stronger x2 has the smaller risk, and beyond it the larger one."""
    there = float(theory.vanishing_strength(STRONG, WEAK))
    differences = [
        float(
            theory.risk(theory.extrapolate(STRONG, WEAK, a), WEAK)
            - theory.risk(theory.extrapolate(STRONG, WEAK, a), STRONG)
        )
        for a in there * np.array([0.0, 0.5, 0.9, 1.1, 1.5])
    ]
    assert (np.array(differences[:3]) > 1e-4).all()
    assert (np.array(differences[3:]) < -1e-4).all()


def test_a_learner_that_memorizes_heeds_no_weights():
    """A full tree on distinct rows predicts their own labels under any weights: columns have to be left out instead."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 2)), generator.integers(2, size=60)
    weights = generator.random(60) + 0.01
    weighted = fit_rows(DecisionTreeClassifier(random_state=0), X, y, np.arange(60), weights)
    np.testing.assert_array_equal(weighted.predict(X), y)
