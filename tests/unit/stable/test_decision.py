"""How much of an effect is kept, why a column is kept whole, and the mixture that this makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from holdfast.stable import decision as module
from holdfast.stable.decision import kept_share, reason_for, removal_levels
from holdfast.stable.hypotheses import Posterior

# -- how much is kept ------------------------------------------------------------------------------------------------

probabilities = st.floats(0.0, 1.0)
effects = st.floats(-5.0, 5.0)


def test_without_caution_everything_is_kept():
    """Caution 0 says that the next site is like these, however sure a change is."""
    assert kept_share(Posterior(1.0, effect=3.0), 0.0) == 1.0


@pytest.mark.parametrize("caution", [0.5, 0.75, 1.0])
def test_a_sure_change_that_may_vanish_is_given_up(caution):
    """At an expected agreement of one half the column says nothing; below, no more than nothing is given up."""
    assert kept_share(Posterior(1.0, effect=1.5), caution) == 0.0


def test_the_share_is_that_of_least_expected_log_loss():
    """A code right in 90 of 100 rows, expected right in 70: logit 0.7 / logit 0.9 is kept, less what is not worth it.

    With caution 1/2, q = 0.5 + 0.4 (1 - P), which is 0.7 for P = 1/2.
    """
    share = special.logit(0.7) / special.logit(0.9)
    gain = 0.7 * np.log(0.7 / 0.9) + 0.3 * np.log(0.3 / 0.1)  # Kullback-Leibler divergence, 0.154
    expected = 1 - (1 - share) * gain**3 / (gain**3 + 0.05**3)
    assert kept_share(Posterior(0.5, effect=special.logit(0.9)), 0.5) == pytest.approx(expected)
    grid = np.linspace(0, 1, 2001)
    loss = -0.7 * np.log(special.expit(grid * np.log(9))) - 0.3 * np.log(special.expit(-grid * np.log(9)))
    assert grid[loss.argmin()] == pytest.approx(share, abs=1e-3)


def test_a_small_effect_is_kept_however_sure():
    """What is saved by giving up an effect of 0.05 is less than a thousandth of a nat for each row."""
    assert kept_share(Posterior(1.0, effect=0.05)) == 1.0
    assert kept_share(Posterior(1.0, effect=0.0)) == 1.0


@given(probabilities, probabilities, effects, probabilities)
def test_a_more_probable_change_never_keeps_more(first, second, effect, caution):
    """The probability counts in one direction, and a share is a share."""
    low, high = sorted([first, second])
    kept = [kept_share(Posterior(p, effect=effect), caution) for p in (high, low)]
    assert 0.0 <= kept[0] <= kept[1] + 1e-9 <= 1.0 + 1e-9


@given(probabilities, probabilities, effects, probabilities)
def test_more_caution_never_keeps_more(first, second, effect, probability):
    """Caution counts in one direction."""
    low, high = sorted([first, second])
    kept = [kept_share(Posterior(probability, effect=effect), caution) for caution in (high, low)]
    assert kept[0] <= kept[1] + 1e-9


@given(probabilities, effects, probabilities)
def test_the_sign_of_an_effect_does_not_matter(probability, effect, caution):
    """A code and its opposite are one column."""
    one, other = (kept_share(Posterior(probability, effect=sign * effect), caution) for sign in (1, -1))
    assert one == other


@given(st.floats(0.0, 0.99), effects)
def test_a_little_probability_changes_little(probability, effect):
    """No threshold changes the classifier when it is crossed: a step of 0.001 moves a share by little."""
    shares = [kept_share(Posterior(p, effect=effect)) for p in (probability, probability + 0.001)]
    assert abs(shares[0] - shares[1]) < 0.05


# -- why a column is kept --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Posterior(0.01, change=0.5, noise=-9.0), "weak_evidence"),
        (Posterior(0.9, change=20.0), "small_change"),
        (Posterior(0.1, change=20.0, mechanism=5.0, noise=1.0, bend=2.0), "part_of_mechanism"),
        (Posterior(0.1, change=20.0, mechanism=-5.0, noise=-3.0, bend=2.0), "label_noise"),
        (Posterior(0.1, change=20.0, mechanism=-5.0, noise=-3.0, bend=-4.0), "bend_or_product"),
        (Posterior(0.1, change=20.0, mechanism=-5.0, noise=3.0, bend=4.0), "weak_evidence"),
    ],
)
def test_the_best_rival_is_the_reason(found, reason):
    """The rival with the largest Bayes factor explains the difference; without one the evidence is weak."""
    assert reason_for(found) == reason


# -- levels ----------------------------------------------------------------------------------------------------------


def seen(levels, n_columns):
    """Return the weight of the parts that see each column."""
    return [sum(weight for weight, removed in levels if column not in removed) for column in range(n_columns)]


def test_nothing_to_remove_is_one_part():
    """The ordinary classifier alone."""
    assert removal_levels([]) == [(1.0, ())]
    assert removal_levels([1.0, 1.0]) == [(1.0, ())]


def test_one_column_is_seen_with_its_share():
    """Two parts: one with it, one without."""
    assert removal_levels([0.3]) == [(0.3, ()), (0.7, (0,))]
    assert removal_levels([1.0, 0.0]) == [(0.0, ()), (1.0, (1,))]


def test_columns_far_apart_have_levels_of_their_own():
    """Each is seen with its own share, and those that are used as they are by all parts."""
    kept = [0.1, 1.0, 0.1 + 3 * module.APART, 0.1 + 6 * module.APART][: module.MOST_LEVELS + 1]
    levels = removal_levels(kept)
    assert seen(levels, len(kept)) == pytest.approx(kept)


shares = st.lists(st.floats(0.0, 1.0), max_size=8)


@given(shares)
def test_levels_are_a_mixture(kept):
    """Weights sum to one, sets are nested, nothing that is used as it is is removed, and fits are few."""
    levels = removal_levels(kept)
    assert sum(weight for weight, _ in levels) == pytest.approx(1.0)
    assert all(weight >= -1e-12 for weight, _ in levels)
    assert levels[0][1] == ()
    for (_, inner), (_, outer) in zip(levels, levels[1:], strict=False):
        assert set(inner) < set(outer)
    assert set(levels[-1][1]) == {column for column, share in enumerate(kept) if share < 1.0}
    assert len(levels) <= 1 + module.MOST_LEVELS


@given(shares)
def test_a_smaller_share_is_never_seen_more(kept):
    """The order of the kept shares is that of what the mixture sees."""
    weights = seen(removal_levels(kept), len(kept))
    for one in range(len(kept)):
        for other in range(len(kept)):
            if kept[one] < kept[other]:
                assert weights[one] <= weights[other] + 1e-9


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=2))
def test_columns_are_seen_about_as_much_as_they_are_kept(kept):
    """Columns that are close share a level, which differs from each by less than `APART`."""
    for share, weight in zip(kept, seen(removal_levels(kept), len(kept)), strict=True):
        assert abs(share - weight) <= module.APART + 1e-9


def test_shares_that_are_near_are_one_level_and_there_are_three_at_most():
    """Columns whose kept shares differ by less than 0.1 are given up together."""
    assert [columns for _, columns in removal_levels([0.5, 0.55])] == [(), (0, 1)]
    assert [columns for _, columns in removal_levels([0.1, 0.3, 0.5, 0.7, 0.9])] == [
        (),
        (0,),
        (0, 1),
        (0, 1, 2, 3, 4),
    ]


def test_what_is_kept_to_zero_is_not_used_at_all():
    """A column of which nothing is kept shares no level with one of which a little is kept."""
    levels = removal_levels([0.0, 0.05, 0.1, 0.5, 0.9, 1.0])
    assert sum(weight for weight, removed in levels if 0 not in removed) == 0.0
    assert len(levels) <= 1 + module.MOST_LEVELS
