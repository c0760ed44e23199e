"""Which columns mean something else elsewhere: known effects, error rates where nothing changes, and power."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import chi2

from holdfast.audit import effects as module
from holdfast.audit.columns import encode_table
from holdfast.audit.effects import (
    find_unstable,
    prediction_interval,
    random_effects,
    size_of_change,
    supported_share,
)
from holdfast.audit.model import Sites


def draw(
    sizes=(300, 300),
    effects=(1.0, -0.5, 0.0, 0.0),
    unstable=None,
    *,
    seed=0,
    noise=None,
    intercepts=None,
    shift=0.0,
    scale=1.0,
    bend=0.0,
):
    """Return columns, labels and environments of a logistic model.

    `unstable` are the effects of a further column in each environment; `noise` the share of wrong labels in each,
    `intercepts` their log-odds; `shift` and `scale` say how the columns of the last environment lie elsewhere, and
    `bend` is the effect of the square of the first column.
    """
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    n_rows, last = len(codes), len(sizes) - 1
    X = generator.normal(size=(n_rows, len(effects)))
    X[codes == last] = X[codes == last] * scale + shift
    log_odds = X @ np.array(effects) + bend * X[:, 0] ** 2
    if unstable is not None:
        extra = generator.normal(size=n_rows)
        log_odds = log_odds + extra * np.array(unstable)[codes]
        X = np.column_stack([X, extra])
    if intercepts is not None:
        log_odds = log_odds + np.array(intercepts)[codes]
    y = (generator.random(n_rows) < 1 / (1 + np.exp(-log_odds))).astype(int)
    if noise is not None:
        wrong = generator.random(n_rows) < np.array(noise)[codes]
        y = np.where(wrong, 1 - y, y)
    return X, y, codes


def named(X, y, codes, **options):
    """Return the numbers of the columns that are named."""
    return [effect.column for effect in find_unstable(X, y, codes, n_classes=int(y.max()) + 1, **options).effects]


# -- effects ---------------------------------------------------------------------------------------------------------


def test_known_effects_come_back():
    """The column that changes has its effect in each environment, within a few standard errors; no other is named."""
    X, y, codes = draw((4000, 4000, 4000), unstable=(2.0, 1.0, -0.5))
    (found,) = find_unstable(X, y, codes, n_classes=2).effects
    assert found.column == 4
    assert found.by_environment.shape == found.errors.shape == (3,)
    deviations = (found.by_environment - [2.0, 1.0, -0.5]) / found.errors
    assert np.abs(deviations).max() < 3.5
    assert 0.02 < found.errors.max() < 0.1
    assert found.pair == (0, 1)
    assert found.mean == pytest.approx(2.5 / 3, abs=0.1)
    assert found.spread == pytest.approx(np.std([2.0, 1.0, -0.5], ddof=1), abs=0.15)
    assert found.p_value < 1e-10
    assert found.statistic > found.rival
    bounded = 2 * np.tanh(found.by_environment / 2)
    assert found.size == pytest.approx(abs(bounded.mean()) * bounded.std(ddof=1), rel=0.02)


def test_effects_are_for_one_standard_deviation():
    """Other units of a column change nothing."""
    X, y, codes = draw((1000, 1000), unstable=(1.5, 0.0))
    (plain,), (scaled,) = (find_unstable(values, y, codes, n_classes=2).effects for values in (X, X * 1000 + 7))
    np.testing.assert_allclose(scaled.by_environment, plain.by_environment, rtol=1e-4)
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-3)


def test_neither_the_order_of_rows_nor_of_columns_matters():
    """Nothing is drawn: the same rows have the same effects and p values."""
    X, y, codes = draw((500, 500), unstable=(1.5, 0.0))
    order, columns = np.random.default_rng(1).permutation(1000), np.array([4, 2, 0, 1, 3])
    first = find_unstable(X, y, codes, n_classes=2)
    second = find_unstable(X[order][:, columns], y[order], codes[order], n_classes=2)
    assert columns[second.effects[0].column] == first.effects[0].column == 4
    np.testing.assert_allclose(second.effects[0].by_environment, first.effects[0].by_environment, rtol=1e-4)
    np.testing.assert_allclose(second.p_values, first.p_values[columns], rtol=1e-3)


def test_weights_count_rows():
    """A row of weight two is two rows, and rows of weight zero are none."""
    X, y, codes = draw((300, 300), unstable=(1.5, 0.0))
    twice = np.concatenate([np.arange(600), np.arange(0, 600, 3)])
    weights = np.where(np.arange(600) % 3 == 0, 2.0, 1.0)
    weighted = find_unstable(X, y, codes, n_classes=2, sample_weight=weights)
    repeated = find_unstable(X[twice], y[twice], codes[twice], n_classes=2)
    assert weighted.effects[0].column == repeated.effects[0].column == 4
    np.testing.assert_allclose(
        weighted.effects[0].by_environment, repeated.effects[0].by_environment, rtol=0.1, atol=0.05
    )


def test_effects_that_decide_the_label_anyway_hardly_count_as_a_change():
    """Between log-odds of 5 and of 7 no prediction differs."""
    errors = np.array([0.1, 0.1])
    assert size_of_change(np.array([5.0, 7.0]), errors) < 0.05 < size_of_change(np.array([0.5, 0.9]), errors)
    small = np.array([0.1, 0.2])
    assert size_of_change(small, errors / 100) == pytest.approx(small.mean() * small.std(ddof=1), rel=0.01)


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_a_column_of_several_classes_has_one_direction(n_classes):
    """It is measured between the two classes about which it says most: here the one that it hints at, and another."""
    generator = np.random.default_rng(0)
    y, codes = generator.integers(n_classes, size=900), np.arange(900) % 2
    y[:100] = 2
    hint = np.where(generator.random(900) < np.array([0.95, 0.4])[codes], y == 1, generator.random(900) < 0.3)
    X = np.column_stack([y + generator.normal(size=900), hint])
    search = find_unstable(X, y, codes, n_classes=n_classes)
    assert [effect.column for effect in search.effects] == [1]
    assert 1 in search.effects[0].pair
    first, second = np.abs(search.effects[0].by_environment)
    assert first > second + 0.5


def colored(n_classes, agreements, n_rows=600, seed=0):
    """Return digits and colors: noisy columns of the class, and a color that agrees with it more in some places."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(agreements)), n_rows)
    y = generator.integers(n_classes, size=len(codes))
    other = (y + generator.integers(1, n_classes, size=len(y))) % n_classes
    color = np.where(generator.random(len(y)) < np.array(agreements)[codes], y, other)
    digits = np.eye(n_classes)[y] + generator.normal(size=(len(y), n_classes))
    return np.hstack([digits, np.eye(n_classes)[color]]), y, codes


def test_the_values_of_a_category_are_tested_together():
    """No single color shows enough; all colors together do, and are found under the first."""
    X, y, codes = colored(10, (0.8, 0.65))
    colors = tuple(range(10, 20))
    alone = find_unstable(X, y, codes, n_classes=10)
    assert not {effect.column for effect in alone.effects} & {10}
    together = find_unstable(X, y, codes, n_classes=10, groups=(tuple(range(10)), colors))
    assert [effect.column for effect in together.effects][0] == 10
    assert together.p_values[10] < 0.05 <= together.p_values[:10].min()


def test_a_group_costs_the_level_of_one_column():
    """Half of its share for all together, half spread over its columns; shares sum to one."""
    shares = module._level_shares(6, 6, [np.array([2, 3, 4, 5])])
    np.testing.assert_allclose(shares, [1 / 3, 1 / 3, *[1 / 24] * 4, 1 / 6])
    assert module._level_shares(4, 4, []).tolist() == [0.25] * 4


def test_most_of_the_level_goes_by_weight():
    """p values are divided by a share: of four columns, one with three quarters of the squared effects has 0.65."""
    searching = SimpleNamespace(shares=np.full(4, 0.25), degrees=2, free=lambda own: np.setdiff1d(np.arange(4), own))
    searching.recipe = module.Recipe(np.arange(4), [], 2, for_others=False)
    statistic, importance = np.full(4, 12.0), np.array([3.0, 1.0, 0.0, 0.0])
    p = module.Searching.adjusted(searching, statistic, importance, [])
    np.testing.assert_allclose(p, chi2.sf(12.0, 2) / [0.65, 0.25, 0.05, 0.05])
    later = module.Searching.adjusted(searching, statistic, importance, [0])
    np.testing.assert_allclose(later[1:], chi2.sf(12.0, 2) / [1 / 15 + 0.8, 1 / 15, 1 / 15])


def test_columns_of_one_code_are_compared_with_noisier_labels_together():
    """K - 1 columns at most, and each pays twice its degrees of freedom."""
    more = [np.array([0.0, 25.0, 7.0]), np.array([0.0, 0.0, 9.0])]
    searching = SimpleNamespace(
        n_classes=3, n_tested=3, own=[], degrees=2, test_columns=lambda own: (None, more[len(own) - 1])
    )
    assert module.Searching.reached_together(searching, 0, 10.0, 9.0) == 10.0
    assert module.Searching.reached_together(searching, 0, 10.0, 40.0) == 10 + 25 - 2 * 2
    searching.n_classes = 4
    assert module.Searching.reached_together(searching, 0, 10.0, 40.0) == 10 + 25 + 9 - 2 * 2 * 2


def test_a_code_of_three_classes_over_two_columns_is_found_by_both():
    """Each of the two columns shows a part of the change."""
    generator = np.random.default_rng(3)
    codes = np.repeat([0, 1, 2], 700)
    y = generator.integers(3, size=len(codes))
    other = (y + generator.integers(1, 3, size=len(y))) % 3
    code = np.where(generator.random(len(y)) < np.array([0.9, 0.83, 0.76])[codes], y, other)
    corners = np.array([[0.0, 0.0], [3.0, 0.0], [1.5, 2.6]])
    spread = corners[code] + generator.normal(size=(len(y), 2))
    X = np.column_stack([corners[y] / 2 + generator.normal(size=(len(y), 2)), spread])
    assert {2, 3} <= set(named(X, y, codes))


def test_two_columns_are_a_pair_too():
    """A code over two columns that are the whole table: neither passes alone, both do together."""
    generator = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 400)
    y = generator.integers(3, size=len(codes))
    other = (y + generator.integers(1, 3, size=len(y))) % 3
    code = np.where(generator.random(len(y)) < np.array([0.9, 0.86, 0.8])[codes], y, other)
    X = np.array([[0.0, 0.0], [3.0, 0.0], [1.5, 2.6]])[code] + generator.normal(size=(len(y), 2))
    first, second = find_unstable(X, y, codes, n_classes=3).effects
    assert {first.column, second.column} == {0, 1}
    assert first.p_value == second.p_value < 0.05


def test_two_columns_that_change_are_both_named_the_stronger_first():
    """The second is tested again, given the effects of the first."""
    generator = np.random.default_rng(0)
    codes = np.repeat([0, 1], 1500)
    X = generator.normal(size=(3000, 4))
    log_odds = X[:, 0] + X[:, 1] * np.array([2.0, 0.0])[codes] + X[:, 2] * np.array([0.0, 1.0])[codes]
    y = (generator.random(3000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    assert named(X, y, codes) == [1, 2]


# -- error rates -----------------------------------------------------------------------------------------------------

N_DRAWS = 200
MOST = 13  # of 200 draws: 5 %, and a standard error


def false_alarms(n_draws=N_DRAWS, **options):
    """Return in how many draws anything is named where nothing changes."""
    return sum(bool(named(*draw(seed=1000 + seed, **options))) for seed in range(n_draws))


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": (100, 100)},
        {"sizes": (60, 400), "effects": (2.0, -1.0, 0.5, 0.0)},
        {"sizes": (100, 60, 140, 80)},
        {"sizes": (100, 100), "effects": (1.0,) + (0.0,) * 15},
    ],
    ids=["equal", "of unlike size", "four environments", "many columns"],
)
def test_nothing_is_named_where_nothing_changes(options):
    """In at most one of twenty draws, also where environments differ in size and effects are strong."""
    assert false_alarms(**options) <= MOST


@pytest.mark.parametrize(
    "options",
    [
        {"intercepts": (1.0, -1.0)},
        {"shift": 1.0},
        {"scale": 3.0},
        {"shift": 1.0, "bend": 0.7},
    ],
    ids=["label shift", "covariate shift", "other units", "a bend in a shifted column"],
)
def test_shifts_are_not_taken_for_changes(options):
    """Other frequencies of labels, other values of columns, more spread, and a bend together with other values."""
    assert false_alarms(n_draws=100, sizes=(200, 200), **options) <= MOST / 2 + 2


def test_other_units_in_one_environment_are_not_taken_for_a_change():
    """A column in grams here and kilograms there has another effect for one unit, not for a standard deviation."""
    alarms = 0
    for seed in range(50):
        X, y, codes = draw((300, 300), effects=(1.5, 0.5), seed=seed)
        X[codes == 1, 0] *= 1000
        alarms += bool(named(X, y, codes))
    assert alarms <= 4


def test_a_change_is_measured_in_the_units_in_which_it_is_smaller():
    """Twice the spread in one environment is none: its effects for a standard deviation are 1.5 and 0.8."""
    for seed in range(2):
        X, y, codes = draw((2000, 2000), (0.5, 0.5), unstable=(1.5, 0.8), seed=seed)
        X[codes == 1, 2] *= 2
        (found,) = find_unstable(X, y, codes, n_classes=2).effects
        assert found.by_environment[1] / found.by_environment[0] == pytest.approx(0.8 / 1.5, abs=0.1)


def test_twice_the_spread_in_one_environment_is_not_a_change():
    """In its units the column says half as much there; in standard deviations it says the same."""
    for seed in range(4):
        X, y, codes = draw((1000, 1000), (1.5, 0.5), seed=seed)
        X[codes == 1, 0] *= 2
        assert named(X, y, codes) == []


@pytest.mark.parametrize("seed", [29, 43, 54])
def test_noisier_labels_are_tested_in_their_own_form(seed):
    """The form of label noise needs no handicap: it explains more than a column where the scale would not."""
    search = find_unstable(*draw((300, 300), (1.5, 1.0, 0.7, 0.5), seed=seed, noise=(0.0, 0.2)), n_classes=2)
    assert all(effect.statistic < effect.rival + module.CLEAR for effect in search.effects)


@pytest.mark.parametrize("seed", [4, 7])
def test_beside_noisier_labels_no_column_is_tested_alone(seed):
    """Alone, one that says nearly everything would be blamed for what labels do."""
    X, y, codes = sensors(seed, (0.9, 0.9), strength=0.4, n_rows=1000)
    wrong = (np.random.default_rng(seed + 50).random(2000) < 0.1) & (codes == 1)
    search = find_unstable(X, np.where(wrong, 1 - y, y), codes, n_classes=2)
    assert search.noisier
    assert not search.effects


@pytest.mark.parametrize("n_rows", [300, 1500])
def test_noisier_labels_are_not_a_columns_fault(n_rows):
    """All effects are weaker where labels are wrong more often; that is said instead."""
    searches = [
        find_unstable(*draw((n_rows, n_rows), (1.5, 1.0, -1.0, 0.5), seed=seed, noise=(0.0, 0.2)), n_classes=2)
        for seed in range(30)
    ]
    assert sum(bool(search.effects) for search in searches) <= 4
    if n_rows == 1500:
        assert sum(search.noisier for search in searches) >= 25


def test_a_score_that_says_less_in_one_environment_is_not_a_columns_fault():
    """All effects are weaker there, but not as wrong labels would make them: certain rows stay certain."""
    for seed in range(4):
        generator = np.random.default_rng(seed)
        codes, X = np.repeat([0, 1], 3000), generator.normal(size=(6000, 3))
        log_odds = X @ [4.0, 1.0, 0.5] * np.array([1.0, 0.6])[codes]
        y = (generator.random(6000) < 1 / (1 + np.exp(-log_odds))).astype(int)
        search = find_unstable(X, y, codes, n_classes=2)
        assert search.noisier
        assert not search.effects


def test_noisier_labels_are_not_said_without_reason():
    """Neither where nothing changes nor where one column does."""
    for unstable in (None, (2.0, 0.0)):
        searches = [find_unstable(*draw((300, 300), seed=seed, unstable=unstable), n_classes=2) for seed in range(20)]
        assert sum(search.noisier for search in searches) <= 2


# -- power -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"intercepts": (0.7, -0.7)}, {"shift": 0.5}, {"effects": (1.0,) + (0.0,) * 30}],
    ids=["plain", "with a label shift", "with a covariate shift", "among many"],
)
def test_the_planted_column_is_named(options):
    """An effect of 1.5 here and 0 there is found in 300 rows each, in nine of ten draws at least."""
    last = len(options.get("effects", (0,) * 4))
    found = [named(*draw((300, 300), seed=seed, unstable=(1.5, 0.0), **options)) for seed in range(20)]
    assert sum(last in columns for columns in found) >= 18
    assert sum(columns == [last] for columns in found) >= 16


def test_the_planted_column_is_named_beside_noisier_labels():
    """What it shows beyond them."""
    found = [
        named(*draw((800, 800), (1.5, 1.0, -1.0), seed=seed, unstable=(1.5, -1.0), noise=(0.0, 0.1)))
        for seed in range(10)
    ]
    assert sum(3 in columns for columns in found) >= 9


# -- noisier labels, or a change of its own? ---------------------------------------------------------------------------


def code_beside_others(seed, *, agreements=(0.9, 0.9, 0.9), flipped=(0.0, 0.0, 0.0), n_rows=1000, shift=0.4):
    """Return four columns of which each says a little, and a code; labels are flipped after all were made."""
    rng, parts = np.random.default_rng(seed), []
    for site, (agreement, wrong) in enumerate(zip(agreements, flipped, strict=True)):
        y = rng.integers(2, size=n_rows)
        X = rng.normal(size=(n_rows, 4)) + shift * (2 * y[:, None] - 1)
        code = np.where(rng.random(n_rows) < agreement, y, 1 - y)
        y = np.where(rng.random(n_rows) < wrong, 1 - y, y)
        parts.append((np.column_stack([X, code]), y, np.full(n_rows, site)))
    return (np.concatenate(part) for part in zip(*parts, strict=True))


def against_noise(monkeypatch, column=4, **options):
    """Return what speaks against flipped labels as the reason of a column's change, of several draws."""
    found = []

    class Asked(module.Searching):
        def run(self):
            self.test_columns([])
            found.append(self.against_noise(column))
            return super().run()

    for seed in range(5):
        X, y, codes = code_beside_others(seed, **options)
        find_unstable(X, y, codes, n_classes=int(y.max()) + 1, make_search=Asked)
    return np.array(found)


def test_a_code_that_agrees_less_at_one_site_is_told_from_flipped_labels(monkeypatch):
    """Labels of which as many are flipped would make the code go with the other columns among rows of one label."""
    own = against_noise(monkeypatch, agreements=(0.9, 0.9, 0.75))
    assert own.min() > 15
    assert against_noise(monkeypatch, flipped=(0.0, 0.0, 0.2)).max() < 1.0
    assert against_noise(monkeypatch, agreements=(0.9, 0.9, 0.75), n_rows=4000).mean() > 3 * own.mean()


def test_where_others_say_nothing_flipped_labels_cannot_be_told(monkeypatch):
    """No column tells which rows would be of the other class; and where nothing changed nothing is expected."""
    assert against_noise(monkeypatch, agreements=(0.9, 0.9, 0.75), shift=0.0).max() < 2.0
    assert against_noise(monkeypatch).max() < 6.0


def test_columns_that_others_predict_are_not_told_from_flipped_labels(monkeypatch):
    """The label depends on them together: they go with the others for another reason than flipped labels."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 2000)
    X = rng.normal(size=(6000, 4))
    X[:, 0] += X[:, 1:].sum(axis=1)
    log_odds = X[:, 0] * np.array([1.5, 1.5, 0.6])[codes] + X[:, 1]
    y = (rng.random(6000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    monkeypatch.setattr(f"{__name__}.code_beside_others", lambda seed: (X, y, codes))
    assert against_noise(monkeypatch, column=0).max() == 0.0


def test_of_more_than_two_classes_flipped_labels_are_not_asked_about(monkeypatch):
    """What flips into what is not known."""
    X, y, codes = code_beside_others(0, agreements=(0.9, 0.9, 0.7))
    y = y + (np.arange(len(y)) % 7 == 0) * (y == 1)
    monkeypatch.setattr(f"{__name__}.code_beside_others", lambda seed: (X, y, codes))
    assert against_noise(monkeypatch).max() == 0.0


def test_a_site_with_few_rows_of_a_class_says_little_about_flipped_labels(monkeypatch):
    """Five rows of a class that all agree with the code are no evidence, and a class that a site lacks is none."""
    X, y, codes = code_beside_others(0, n_rows=600)
    for n_left in (0, 5):
        gone = np.flatnonzero((codes == 2) & (y == 1))[n_left:]
        rows = np.setdiff1d(np.arange(len(y)), gone)
        some = X[rows], y[rows], codes[rows]
        few = (some[2] == 2) & (some[1] == 1)
        some[0][few, 4] = 1.0
        monkeypatch.setattr(f"{__name__}.code_beside_others", lambda seed, some=some: some)
        assert against_noise(monkeypatch).max() < 6.0


@pytest.mark.parametrize(
    ("scale", "noise", "against", "n_sites", "rival"),
    [(20.0, 10.0, 0.0, 2, 16.0), (10.0, 20.0, 0.0, 2, 20.0), (10.0, 20.0, 15.0, 2, 5.0), (20.0, 10.0, 3.0, 2, 13.0)]
    + [
        (20.0, 10.0, 100.0, 2, 12.0),
        (2.0, 3.0, 100.0, 2, 0.0),
        (40.0, 10.0, 100.0, 10, 24.0),
        (40.0, 10.0, 0.0, 10, 36.0),
    ],
)
def test_what_speaks_against_flipped_labels_weakens_the_rival(scale, noise, against, n_sites, rival):
    """All of it counts against flipped labels; a scale is handicapped by 4, and by as much times the root of E - 1."""
    fit = SimpleNamespace(intercepts=np.zeros((n_sites, 1)))
    assert module.Tests(np.zeros(1), scale, noise, np.zeros(1), [], fit).rival_of(against) == rival


def test_a_strong_code_beside_weak_columns_is_given_up_for_its_own_change():
    """Noisier labels would explain it nearly as well, were it not independent of the others given the label."""
    for seed in range(5):
        X, y, codes = code_beside_others(seed, agreements=(0.95, 0.9, 0.85), shift=0.2)
        (found,) = find_unstable(X, y, codes, n_classes=2).effects
        assert found.column == 4
        assert found.statistic - found.rival > 7.0


# -- columns of their own --------------------------------------------------------------------------------------------


def sensors(seed, agreements, *, strength=1.8, n_rows=300):
    """Return three columns that go with the label, and a code that agrees with it; given the label, all independent."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(agreements)), n_rows)
    y = generator.integers(2, size=len(codes))
    stable = generator.normal(size=(len(y), 3)) + strength * (y[:, None] - 0.5)
    code = np.where(generator.random(len(y)) < np.array(agreements)[codes], y, 1 - y)
    return np.column_stack([stable, code]), y, codes


def test_a_column_that_only_depends_on_the_label_is_tested_alone(monkeypatch):
    """Beside columns that almost decide the label its change does not show; alone it does, and it only is named."""
    found = [named(*sensors(seed, (0.95, 0.83))) for seed in range(15)]
    assert sum(columns == [3] for columns in found) >= 13
    assert sum(bool(named(*sensors(seed, (0.9, 0.9)))) for seed in range(30)) <= 2
    monkeypatch.setattr(module, "ALONE", (-2.0, -1.0))
    assert sum(3 in named(*sensors(seed, (0.95, 0.83))) for seed in range(15)) <= 8


def with_code(seed, agreements, make, **options):
    """Return `sensors` with other columns instead of the code, which `make` makes of it."""
    X, y, codes = sensors(seed, agreements, **options)
    more = make(X[:, -1].astype(int), np.random.default_rng(seed + 100))
    return np.column_stack([X[:, :-1], more]), y, codes


def magnitudes(code, generator):
    """Return values like those of a laboratory: those of one code are twenty times as large as those of the other."""
    return np.exp(1.5 * (2 * code - 1) + generator.normal(size=len(code)))


def levels(code, generator):
    """Return six levels, three for each code, as columns."""
    return np.eye(6)[3 * code + generator.integers(3, size=len(code))]


def test_a_skewed_quantity_is_tested_by_its_orders_of_magnitude(monkeypatch):
    """In its amounts a change hardly shows."""
    draws = [with_code(seed, (0.95, 0.83), magnitudes, strength=1.0) for seed in range(10)]
    assert sum(named(*rows) == [3] for rows in draws) >= 9
    assert sum(bool(named(*with_code(seed, (0.9, 0.9), magnitudes, strength=1.0))) for seed in range(20)) <= 2
    monkeypatch.setattr(module, "SKEWED", np.inf)
    assert sum(3 in named(*rows) for rows in draws) <= 5


@pytest.mark.parametrize(
    ("values", "effect", "is_scored"),
    [
        (lambda g: np.exp(g.normal(size=3000)), np.log, True),
        (lambda g: np.exp(g.normal(size=3000)), lambda v: 0.7 * v, False),  # its amount matters
        (lambda g: np.exp(g.normal(size=3000)), lambda v: 0 * v, False),
        (lambda g: g.exponential(size=3000) ** 1.05, np.log, False),  # hardly skewed, once its tails are pulled in
        (lambda g: np.exp(g.normal(size=3000)) * (g.random(3000) < 0.4), np.log1p, False),  # mostly zero
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_label_decides_between_amounts_and_orders_of_magnitude(values, effect, is_scored, n_classes):
    """Normal scores have to say a tenth more about it; they have mean 0, variance 1, and the order of the values."""
    generator = np.random.default_rng(0)
    value = values(generator)
    log_odds = np.outer(effect(np.maximum(value, 1e-9)), np.arange(n_classes)) + generator.gumbel(
        size=(3000, n_classes)
    )
    y = np.sort(log_odds.argmax(axis=1))  # rows of one label stand together
    value = value[np.argsort(log_odds.argmax(axis=1), kind="stable")]
    column, _ = module._standardized(
        value[:, None].copy(), np.ones(3000), module.Recipe(np.arange(1), (), n_classes, False)
    )
    sites = Sites((y[:, None] == np.arange(1, n_classes)).astype(float), np.ones(3000), np.array([3000]))
    found = module._normal_scores(column, sites, np.array([0]))
    assert len(found) == is_scored
    for _, known, scores in found:
        straight = np.interp(column[:, 0], known, scores)
        assert (straight.mean(), straight.std()) == pytest.approx((0, 1), abs=1e-9)
        assert (np.diff(straight[np.argsort(column[:, 0])]) >= 0).all()
        assert abs(float((straight**3).mean())) < 0.1


def test_a_category_that_only_depends_on_the_label_is_tested_alone(monkeypatch):
    """What its levels say together is no other column; with it, the change is as clear as that of a code."""
    group = (tuple(range(3, 9)),)
    draws = [with_code(seed, (0.95, 0.83), levels) for seed in range(10)]
    assert sum(named(*rows, groups=group)[:1] == [3] for rows in draws) >= 8
    assert sum(bool(named(*with_code(seed, (0.9, 0.9), levels), groups=group)) for seed in range(20)) <= 2
    monkeypatch.setattr(module, "ALONE", (-2.0, -1.0))
    assert sum(3 in named(*rows, groups=group) for rows in draws) <= 5


def test_a_columns_others_are_not_the_columns_of_its_group():
    """What all say, without the group and without its columns."""
    generator = np.random.default_rng(0)
    design, common = generator.normal(size=(50, 1, 5)), np.array([1.0, 2.0, -1.0, 0.5, 3.0])
    members = [np.array([], dtype=int), np.array([1, 2])]
    column, others = module.column_and_others(design, common, np.array([0, 3]), np.array([[0, 0], [1, 1]]), members)
    values = design[:, 0]
    np.testing.assert_allclose(column, values[:, [0, 3]])
    np.testing.assert_allclose(others[:, 0], values[:, 1:] @ common[1:])
    np.testing.assert_allclose(others[:, 1], values[:, [0, 4]] @ common[[0, 4]])


def test_columns_that_the_label_depends_on_are_not_tested_alone(monkeypatch):
    """One of them changes: given the label they go together, and alone the stable ones would seem to change too."""
    rows = draw((4000, 4000, 4000), unstable=(2.0, 1.0, -0.5))
    assert named(*rows) == [4]
    monkeypatch.setattr(module, "ALONE", (1e6, 2e6))
    assert len(named(*rows)) > 1


def test_a_rare_word_is_not_tested_alone(monkeypatch):
    """24 texts have it, in two of which it goes with the other label: too few for the test, and of no weight."""
    generator = np.random.default_rng(0)
    codes, y = np.repeat([0, 1, 2], 400), generator.integers(2, size=1200)
    words = sp.random_array((1200, 400), density=0.05, rng=generator, format="csr")
    words.data[:] = 1.0
    rare = np.zeros(1200)
    for site, label, count in ((0, 1, 2), (1, 0, 1), (2, 0, 21)):
        rare[np.flatnonzero((codes == site) & (y == label))[:count]] = 1.0
    X = sp.csr_array(sp.hstack([words, rare[:, None]]))
    assert named(X, y, codes) == []
    monkeypatch.setattr(module, "MATTERS", (-2.0, -1.0))
    assert named(X, y, codes) == [400]


def test_rows_of_no_weight_are_none():
    """They neither add evidence nor decide what is tested alone: given the label, their columns go together."""
    X, y, codes = sensors(2, (0.95, 0.83))
    added = np.where(np.arange(4) < 3, X[:400, :1], X[:400, :1] > 0)
    rows = np.vstack([X, added]), np.append(y, np.arange(400) % 2), np.append(codes, np.arange(400) // 200)
    plain = find_unstable(X, y, codes, n_classes=2)
    weighted = find_unstable(*rows, n_classes=2, sample_weight=np.repeat([3.0, 0.0], [600, 400]))
    assert [effect.column for effect in weighted.effects] == [effect.column for effect in plain.effects] == [3]
    assert weighted.effects[0].statistic == pytest.approx(plain.effects[0].statistic, rel=0.1)


def test_a_column_that_is_not_blamed_does_not_clear_the_others():
    """Labels are noisier in one place: what the first column hides from their test still counts against the second."""
    search = find_unstable(*draw((300, 300), (1.5, 1.0, 0.7, 0.5), seed=33, noise=(0.0, 0.2)), n_classes=2)
    first, second = search.effects
    assert first.rival < first.statistic < first.rival + module.FAINT
    assert second.rival == first.rival > second.statistic


def test_a_column_alone_may_be_bent():
    """Other values of a column with a bend are not a change, also where it is tested without the others."""
    X, y, codes = draw((1500, 1500), (1.0,), shift=1.2, bend=0.5)
    sites, coding = (
        Sites(y[:, None].astype(float), np.ones(3000), np.bincount(codes)),
        module.Coding(X[:, None], 0, []),
    )
    searching = SimpleNamespace(
        n_tested=1, apart=np.ones(1), codings=[coding], pairs=[[(0, 1)]], sites=sites, fits_alone={}
    )
    assert module.Searching.test_alone(searching, coding)[0] < 5


def test_a_change_beside_noisier_labels_is_measured_relative_to_them():
    """Effects of 1.5 and 0.3, of which wrong labels take another part: that part is not the column's."""
    for seed in range(2):
        rows = draw((1500, 1500), (1.5, 1.0, -1.0), seed=seed, unstable=(1.5, 0.3), noise=(0.0, 0.1))
        search = find_unstable(*rows, n_classes=2)
        assert search.noisier
        assert search.effects[0].column == 3
        assert 0.25 < search.effects[0].size < 0.38
        rows = draw((1500, 1500), (1.5, 1.0, -1.0), seed=seed, unstable=(-1.0, 1.0), noise=(0.0, 0.2))
        opposite = find_unstable(*rows, n_classes=2).effects[0]
        assert opposite.column == 3
        assert abs(opposite.mean) < 0.13  # as large there as here, where without the noise it would be


def test_a_wide_table_keeps_columns_for_their_evidence():
    """One that says the opposite elsewhere has no weight on average; eighty others have more."""
    rows = draw((600, 600), (0.3,) * 80 + (0.0,) * 80, unstable=(1.0, -1.0))
    assert 160 in named(*rows)


def test_a_column_that_stands_in_for_a_named_one_is_named_too():
    """A copy of it with one value of ten exchanged says nothing beside it, and the same without it."""
    X, y, codes = sensors(0, (0.95, 0.8), strength=1.0, n_rows=1000)
    copy = np.where(np.random.default_rng(1).random(2000) < 0.9, X[:, 3], 1 - X[:, 3])
    rows = np.column_stack([X, copy]), y, codes
    assert named(*rows) == [3, 4]
    assert named(*rows, given_up=lambda effect: False) == [3]


def test_a_larger_level_names_at_least_as_much():
    """Whatever is named at 0.01 is named at 0.05 and at 0.2, in the same order."""
    for seed in range(40):
        rows = draw((150, 150), seed=seed, unstable=(0.9, 0.0), noise=(0.0, 0.1 * (seed % 2)))
        found = [named(*rows, level=level) for level in (0.001, 0.01, 0.05, 0.2, 0.5)]
        for fewer, more in zip(found, found[1:], strict=False):
            assert more[: len(fewer)] == fewer


def test_what_the_judges_agree_on_is_taken_out():
    """An interaction that holds everywhere would look like a change of its column where another one lies elsewhere."""
    alarms = {False: 0, True: 0}
    for seed in range(20):
        generator = np.random.default_rng(seed)
        codes = np.repeat([0, 1], 400)
        X = generator.normal(size=(800, 2))
        X[:, 1] += np.array([-1.0, 1.0])[codes]
        log_odds = 1.5 * X[:, 0] * X[:, 1]
        y = (generator.random(800) < 1 / (1 + np.exp(-log_odds))).astype(int)
        agreed = np.stack([-log_odds / 2, log_odds / 2], axis=1)
        for known in (False, True):
            alarms[known] += bool(named(X, y, codes, agreed=agreed if known else None))
    assert alarms[False] >= 18
    assert alarms[True] <= 3


def draw_interaction(seed):
    """Return a column whose effect depends on another one, which lies elsewhere at each site; a code; log-odds.

    The column goes with two others; the code agrees with the label in 95 % of the rows of one site, 75 % of the other.
    """
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1], 1500)
    X = rng.normal(size=(3000, 4))
    X[:, 0] += 0.4 * X[:, 2] + 0.4 * X[:, 3]
    X[:, 1] = 0.7 * X[:, 1] + np.array([-0.5, 1.5])[codes]
    log_odds = X[:, 0] * (0.5 + X[:, 1])
    y = (rng.random(3000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    right = rng.random(3000) < np.array([0.95, 0.75])[codes]
    return np.column_stack([X, np.where(right, y, 1 - y)]), y, codes, np.stack([-log_odds / 2, log_odds / 2], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_beside_the_ordinary_classifier(seed):
    """A change that it tells from other columns is gone beside what it says; one of the label's code is not."""
    X, y, codes, known = draw_interaction(seed)
    found = find_unstable(X, y, codes, n_classes=2, ordinary=lambda: known)
    effects = {effect.column: effect for effect in found.effects}
    assert effects[0].p_value < 1e-4
    assert effects[0].shared > 0.05
    assert effects[0].unexplained.p_value > 0.05
    assert effects[4].p_value < 1e-4
    assert effects[4].shared < 0.02
    assert effects[4].unexplained.p_value < 1e-4


def test_what_is_left_is_the_evidence_and_not_the_size():
    """Of a classifier that knows the interaction with errors: less evidence for the same effects."""
    X, y, codes, known = draw_interaction(0)
    part = known + np.random.default_rng(0).normal(size=known.shape)
    (found,) = (e for e in find_unstable(X, y, codes, n_classes=2, ordinary=lambda: part).effects if e.column == 0)
    assert found.p_value < found.unexplained.p_value < 0.05
    assert found.unexplained.statistic < 0.5 * found.statistic
    assert found.unexplained.rival != found.rival
    assert (found.unexplained.size, found.unexplained.shared) == (found.size, found.shared)


def test_another_value_of_the_category_speaks_for_it():
    """If another one is named next to the classifier's answers, its evidence is what is left."""
    (found,) = find_unstable(*draw(unstable=(2.0, 0.0)), n_classes=2).effects
    other = dataclasses.replace(found, column=0, p_value=0.03, statistic=9.0, mean=-found.mean, size=0.01)
    search = module.Search((other,), np.ones(5), noisier=False)
    (merged,) = module._add_unexplained([found], search, [(0, 4)])
    assert (merged.unexplained.p_value, merged.unexplained.statistic) == (0.03, 9.0)
    assert (merged.unexplained.mean, merged.unexplained.size) == (found.mean, found.size)


def test_the_ordinary_classifier_is_asked_only_about_columns_that_others_predict():
    """Nothing is asked of it where nothing is named, or where others say nothing of what is."""

    def refuse():
        raise AssertionError

    assert not find_unstable(*draw(seed=1), n_classes=2, ordinary=refuse).effects
    (found,) = find_unstable(*draw(unstable=(2.0, 0.0)), n_classes=2, ordinary=refuse).effects
    assert found.unexplained is None


# -- tables of other shapes ------------------------------------------------------------------------------------------


def test_wide_sparse_tables_are_screened():
    """Among a thousand words the one whose meaning changes is named alone; every word has a p value."""
    generator = np.random.default_rng(0)
    codes, y = np.repeat([0, 1], 600), generator.integers(2, size=1200)
    words = sp.random_array((1200, 1000), density=0.02, rng=generator, format="csr")
    words.data[:] = 1.0
    follows = np.where(generator.random(1200) < np.array([0.95, 0.6])[codes], y, 1 - y).astype(float)
    leans = (generator.random(1200) < 0.3 + 0.3 * y).astype(float)
    X = sp.csr_array(sp.hstack([words[:, :500], follows[:, None], leans[:, None], words[:, 500:]]))
    search = find_unstable(X, y, codes, n_classes=2)
    assert [effect.column for effect in search.effects] == [500]
    assert search.p_values.shape == (1002,)
    assert len(search.p_values) == 1002
    assert module.MOST_EXACT < 1002


def test_a_sparse_table_is_like_a_dense_one():
    """While it is not too wide."""
    X, y, codes = draw((300, 300), unstable=(1.5, 0.0))
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse = (find_unstable(values, y, codes, n_classes=2) for values in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.p_values, dense.p_values)


def test_constant_columns_are_never_named():
    """Neither in the whole table nor in one environment only."""
    X, y, codes = draw((200, 200))
    X = np.column_stack([X, np.ones(400), np.where(codes == 1, X[:, 0], 0.0)])
    search = find_unstable(X, y, codes, n_classes=2)
    assert 4 not in [effect.column for effect in search.effects]
    assert search.p_values[4] == 1.0
    assert np.isfinite(search.p_values).all()


def test_an_environment_with_one_class_is_no_evidence():
    """It says nothing about effects, and breaks nothing."""
    X, y, codes = draw((200, 200, 100))
    y[codes == 2] = 1
    search = find_unstable(X, y, codes, n_classes=2)
    assert search.effects == ()
    assert np.isfinite(search.p_values).all()


def test_a_column_that_decides_the_label_is_measured():
    """Where a column separates the labels in one environment its effect is large and finite."""
    generator = np.random.default_rng(0)
    codes, y = np.repeat([0, 1], 300), generator.integers(2, size=600)
    hint = np.where(codes == 0, y, generator.integers(2, size=600))
    X = np.column_stack([generator.normal(size=600) + y, hint])
    (found,) = find_unstable(X, y, codes, n_classes=2).effects
    assert found.column == 1
    assert np.isfinite(found.by_environment).all()
    assert found.by_environment[0] > 1.0 > abs(found.by_environment[1])


def test_a_few_extreme_values_do_not_decide():
    """Tails are pulled in: one typing error does not change what is named."""
    X, y, codes = draw((300, 300), unstable=(1.5, 0.0))
    X[5, 4] = 1e6
    assert named(X, y, codes) == [4]


# -- random effects --------------------------------------------------------------------------------------------------


def test_the_spread_is_that_beyond_the_errors():
    """Paule and Mandel: the weighted sum of squares is as large as its degrees of freedom."""
    effects, errors = np.array([0.2, 1.0, 1.9, 0.7]), np.array([0.1, 0.2, 0.1, 0.3])
    mean, spread, error = random_effects(effects, errors)
    shares = 1 / (errors**2 + spread**2)
    assert shares @ (effects - mean) ** 2 == pytest.approx(3.0, rel=1e-6)
    assert mean == pytest.approx(shares @ effects / shares.sum())
    assert error == pytest.approx(np.sqrt(1 / shares.sum()))


def test_effects_without_errors_have_their_own_spread():
    """The sample standard deviation."""
    effects = np.array([1.0, 2.0, 4.0])
    mean, spread, _ = random_effects(effects, np.full(3, 1e-6))
    assert mean == pytest.approx(effects.mean(), rel=1e-4)
    assert spread == pytest.approx(effects.std(ddof=1), rel=1e-3)


def test_differences_within_their_errors_are_no_spread():
    """Then the mean is the usual one, by precision."""
    mean, spread, _ = random_effects(np.array([1.0, 1.2]), np.array([0.1, 0.4]))
    assert spread == 0.0
    assert mean == pytest.approx((1.0 / 0.01 + 1.2 / 0.16) / (1 / 0.01 + 1 / 0.16))


def test_effects_between_more_classes_level_off_later():
    """Of four classes, effects of 9 and 4 between the first and the last leave three steps undecided; of two, none."""
    effects, errors = np.array([9.1, 8.4, 3.8, 4.5]), np.full(4, 0.3)
    assert size_of_change(effects, errors, 2) < 0.1
    assert size_of_change(effects, errors, 4) > 1
    small = np.array([0.2, 0.3])
    assert size_of_change(small, errors[:2] / 100, 4) == pytest.approx(
        size_of_change(small, errors[:2] / 100), rel=0.05
    )


def test_a_column_that_hardly_varies_in_each_environment_is_measured_in_its_units():
    """The year, where environments are decades, has a unit in each; what is constant in one of them has none."""
    rng, codes = np.random.default_rng(0), np.repeat(np.arange(12), 400)
    year = 10 * codes + rng.uniform(0, 10, 4800)
    dose = np.where(codes == 3, 1.0, rng.normal(size=4800))
    columns = np.column_stack([year, dose])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    sites = Sites(np.zeros((4800, 1)), np.ones(4800), np.bincount(codes))
    recipe = module.Recipe(np.arange(2), [], 2, for_others=False)
    within = module._standardized_within(columns, sites, np.arange(2), recipe)
    spread = np.array([within[codes == code].std(axis=0) for code in range(12)])
    np.testing.assert_allclose(spread[:, 0], 1.0)
    np.testing.assert_allclose(spread[:, 1], np.arange(12) != 3, atol=1e-12)


def test_a_single_row_does_not_name_a_rare_code():
    """Of 20 environments 12 have one row with a code; in one of them its label is all but impossible."""
    rng, codes = np.random.default_rng(0), np.repeat(np.arange(20), 150)
    X = rng.normal(size=(3000, 2))
    y = (rng.random(3000) < 1 / (1 + np.exp(-6 * X[:, 0]))).astype(np.intp)
    X[:, 1] = 0.0
    X[150 * np.arange(12), 1] = 1.0
    X[0, 0], y[0] = 3.0, 0
    found = find_unstable(X, y, codes, n_classes=2)
    assert found.effects == ()
    assert found.p_values[1] == 1.0


def test_supported_is_the_end_of_the_interval_that_is_nearer_to_zero():
    """In units of the mean, of effects that level off; the sign makes no difference."""
    effects, errors = np.array([0.2, 0.24, 0.3, 0.26, 0.22]), np.full(5, 1e-3)
    mean, spread, _ = random_effects(effects, errors)
    low, _ = prediction_interval(mean, spread, 5)
    assert supported_share(effects, errors) == pytest.approx(low / mean, abs=0.01)
    assert supported_share(-effects, errors) == pytest.approx(supported_share(effects, errors))
    assert supported_share(np.array([5.0, 7.0, 6.0]), np.full(3, 0.1)) > 0.9  # the label is all but certain anyway
    assert supported_share(np.array([1.0, -0.5, 0.2]), np.full(3, 0.1)) == 0.0


def test_what_others_explain_is_said_of_named_columns():
    """A column that others predict, beside one that only depends on the label."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 800)
    X = rng.normal(size=(4800, 4))
    X[:, 3] = 0.45 * X[:, 0] + 0.9 * X[:, 3]
    log_odds = X[:, 1] + X[:, 3] * np.array([1.4, 2.4, 1.2, 2.2, 1.5, 2.6])[codes]
    y = (rng.random(4800) < 1 / (1 + np.exp(-log_odds))).astype(int)
    agreements = np.array([0.95, 0.75, 0.9, 0.8, 0.95, 0.75])[codes]
    X = np.column_stack([X, np.where(rng.random(4800) < agreements, y, 1 - y)])
    found = {effect.column: effect for effect in find_unstable(X, y, codes, n_classes=2).effects}
    assert found[3].shared > 0.1
    assert found[3].supported > 0.6
    assert found[4].shared < 0.01
    assert found[4].supported > 0.3


def test_columns_that_are_named_but_used_still_explain_others():
    """With many rows small changes are named; those that stay in use say as much of a column as before."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 4000)
    X = rng.normal(size=(12_000, 3))
    X[:, 2] += 0.5 * X[:, 0]
    log_odds = X[:, 0] * np.array([0.8, 1.0, 1.2])[codes] + X[:, 2] * np.array([0.5, 1.2, 2.0])[codes]
    y = (rng.random(12_000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    for given_up, explained in ((lambda effect: effect.size > 0.3, True), (lambda effect: True, False)):
        found = find_unstable(X, y, codes, n_classes=2, given_up=given_up, ordinary=lambda: np.zeros((12_000, 2)))
        effects = {e.column: e for e in found.effects}
        assert {0, 2} <= set(effects)
        assert (effects[2].shared > 0.05) == explained


def test_prediction_intervals_cover_the_next_environment():
    """About 80 % of the next effects lie in intervals from six known ones."""
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        *known, following = generator.normal(1.0, 0.5, size=7)
        mean, spread, _ = random_effects(np.array(known), np.full(6, 0.01))
        low, high = prediction_interval(mean, spread, 6)
        inside += low <= following <= high
    assert 0.74 < inside / 400 < 0.88


def test_fewer_environments_have_wider_intervals():
    """And with two the interval is that of one degree of freedom."""
    widths = [np.diff(prediction_interval(1.0, 0.3, n))[0] for n in (2, 3, 5, 10, 40)]
    assert (np.diff(widths) <= 0).all()
    low, high = prediction_interval(1.0, 0.3, 2)
    assert low < 0 < high


@pytest.mark.parametrize("n_environments", [2, 3])
def test_two_or_three_environments_leave_one_degree_of_freedom(n_environments):
    """Student's t then reaches 3.078 spreads to either side with 80 %."""
    low, high = prediction_interval(1.0, 0.5, n_environments)
    half = 3.0777 * 0.5 * np.sqrt(1 + 1 / n_environments)
    assert (low, high) == pytest.approx((1 - half, 1 + half), rel=1e-4)


def test_the_main_pair_are_the_classes_that_move_apart():
    """Each of two classes moves by 1 against the first one, and by 2 against the other."""
    assert module._main_pair(np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])) == (1, 2)
    assert module._main_pair(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.1]])) == (0, 2)


def test_noisier_labels_may_win_over_a_column_that_passed_with_its_partner_only(monkeypatch):
    """Both codings get their scales, also where the second had not been tested yet."""
    X, y, codes = colored(3, (0.8, 0.75), n_rows=300)
    monkeypatch.setattr(module.Searching, "best_partner", lambda self, strongest, fit: (0.01, (strongest + 1) % 6))
    monkeypatch.setattr(
        module.Searching,
        "reached_together",
        lambda self, strongest, statistic, rival: rival - 1.0 if rival else statistic,
    )
    monkeypatch.setattr(module.Searching, "adjusted", lambda self, statistic, importance, own: np.ones(len(statistic)))
    search = find_unstable(X, y, codes, n_classes=3)
    assert search.noisier


def test_a_column_that_is_clear_alone_is_not_tested_in_pairs(monkeypatch):
    """Pairs are for codes that are spread over columns; a clear one would take an innocent partner along."""
    generator = np.random.default_rng(0)
    y, codes = generator.integers(3, size=1200), np.arange(1200) % 2
    hint = np.where(generator.random(1200) < np.array([0.95, 0.4])[codes], y, generator.integers(3, size=1200))
    X = np.column_stack([np.eye(3)[y, :2] + generator.normal(size=(1200, 2)), hint])
    asked = []
    partner = module.Searching.best_partner

    def spied(self, strongest, fit):
        asked.append(strongest)
        return partner(self, strongest, fit)

    monkeypatch.setattr(module.Searching, "best_partner", spied)
    assert named(X, y, codes) == [2]
    assert 2 not in asked


def test_an_effect_that_decides_every_label_at_a_site_stays_finite():
    """At one of the sites the column is the label: without a prior its effect there would be 17, of any size at all."""
    generator = np.random.default_rng(0)
    codes, y = np.repeat([0, 1], 400), generator.integers(2, size=800)
    column = np.where((codes == 0) | (generator.random(800) < 0.7), y, 1 - y)
    search = find_unstable(np.column_stack([generator.normal(size=800) + 0.8 * y, column]), y, codes, n_classes=2)
    (effect,) = search.effects
    assert effect.by_environment == pytest.approx([5.1, 0.87], abs=0.15)
    assert effect.errors[0] < 1.0


def test_with_very_many_rows_the_strongest_column_is_named_first():
    """Where the p values of several columns are too small for a number, their statistics decide."""
    generator = np.random.default_rng(0)
    sites = np.repeat([0, 1], 120_000)
    y = generator.integers(2, size=len(sites))
    sign = 2 * y - 1
    X = generator.normal(size=(len(sites), 2)) + np.column_stack([0.8 * sign, 2.0 * sites * sign])
    search = find_unstable(X, y, sites, n_classes=2)
    assert [effect.column for effect in search.effects] == [1]


def test_squares_are_those_of_values_that_are_pulled_in():
    """A value of ten counts as three; the squares have mean 0 and variance 1, and the columns stay as they were."""
    learn = lambda value: value()  # noqa: E731
    columns = np.array([[10.0, 7.0], [0.0, 7.0], [-1.0, 7.0], [2.0, 7.0]])
    before = columns.copy()
    squares = np.array([9.0, 0.0, 1.0, 4.0])
    found = module._squares(columns, np.array([0]), learn)
    np.testing.assert_allclose(found[:, 0], (squares - squares.mean()) / squares.std())
    np.testing.assert_array_equal(columns, before)
    assert module._squares(columns, np.array([0, 1]), learn).shape == (
        4,
        1,
    )  # one that does not vary has no square


def test_what_columns_say_about_one_class_against_another():
    """With two classes it is the column itself, with more the difference of two levels; the first class has none."""
    two = np.arange(6.0).reshape(3, 1, 2)
    np.testing.assert_array_equal(module._between(two, np.array([0, 0]), np.array([1, 1])), two[:, 0])
    single = two[:, :, :1]
    np.testing.assert_array_equal(module._between(single, np.array([0]), np.array([1])), single[:, 0])
    three = np.arange(12.0).reshape(3, 2, 2) ** 2
    found = module._between(three, np.array([0, 1]), np.array([2, 2]))
    np.testing.assert_array_equal(found[:, 0], three[:, 1, 0])
    np.testing.assert_array_equal(found[:, 1], three[:, 1, 1] - three[:, 0, 1])
    found = module._between(three[:, :, :1], np.array([0, 1]), np.array([2, 2]))  # one score, between two pairs
    np.testing.assert_array_equal(found, np.column_stack([three[:, 1, 0], three[:, 1, 0] - three[:, 0, 0]]))


def test_flipped_labels_move_log_odds_by_one_over_each_probability():
    """Flipping a share e of labels to every class changes p to p + e(1 - Kp): log-odds of k by e(1/p_k - 1/p_0)."""
    chances = np.array([[0.3, 0.2], [0.1, 0.6], [0.25, 0.25]])
    every, flipped = np.column_stack([1 - chances.sum(axis=1), chances]), 1e-6
    noisier = every + flipped * (1 - 3 * every)
    moved = np.log(noisier[:, 1:] / noisier[:, :1]) - np.log(every[:, 1:] / every[:, :1])
    sites = Sites(np.zeros((3, 2)), np.ones(3), np.array([2, 1]))
    design = np.arange(18.0).reshape(3, 2, 3)
    score, form = module.rivals(sites, design, [1], np.array([1.0, 0.5, 0.0]), np.array([[2.0], [-1.0]]), chances)
    np.testing.assert_allclose(-moved / flipped, form, rtol=1e-4)
    effects = np.array(
        [[1.0, 2.5, 0.0], [1.0, 2.5, 0.0], [1.0, -0.5, 0.0]]
    )  # a deviation of its own in each environment
    np.testing.assert_allclose(score, np.einsum("nkc,nc->nk", design, effects))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_parts_of_the_rows_say_is_what_each_says_alone(n_classes):
    """Although each fit begins with the last one: the same effects as those of separate fits."""
    generator = np.random.default_rng(0)
    y, codes = generator.integers(n_classes, size=600), np.arange(600) % 3
    X, weights = generator.normal(size=(600, 4)) + 0.5 * y[:, None], generator.uniform(0.5, 2.0, 600)
    parts = [np.arange(600) % 5 != fold for fold in range(5)]
    found = module._coefficients_by_fold(X, y, codes, weights, 4, parts)
    for rows, effects in zip(parts, found, strict=True):
        alone, _ = module._coefficients(X[rows], y[rows], codes[rows], weights[rows], 4)
        np.testing.assert_allclose(effects, alone, atol=2e-3)


def test_a_class_of_one_row_is_searched_too():
    """The fold that has it leaves the others without: they know nothing of that class."""
    generator = np.random.default_rng(0)
    y, codes = generator.integers(2, size=300), np.arange(300) % 3
    y[0] = 2
    X = generator.normal(size=(300, 3)) + 0.5 * y[:, None]
    assert find_unstable(X, y, codes, n_classes=3).effects == ()
    parts = [np.arange(300) != 0, np.arange(300) >= 0, np.arange(300) == 0]
    found = module._coefficients_by_fold(X, y, codes, np.ones(300), 3, parts)
    assert found.shape == (3, 2, 3)
    np.testing.assert_allclose(found[0, 1], found[0, 0] / 2)  # the mean of the two classes that were there
    assert (found[2] == 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kept", [1, 2, 4])
def test_a_wide_table_keeps_what_score_tests_and_weights_rank_first(monkeypatch, n_classes, kept):
    """The same ranks, column by column and centered before they are summed, and what is left over as an offset."""
    generator = np.random.default_rng(n_classes)
    n_rows, n_columns = 600, 9
    y, codes = generator.integers(n_classes, size=n_rows), np.arange(n_rows) % 3
    X = generator.normal(1.0, 2.0, size=(n_rows, n_columns)) * (generator.random((n_rows, n_columns)) < 0.6)
    X[:, :4] += np.array([1.5, 0.8, 0.5, 0.3]) * (y == 1)[:, None] * (1 + codes[:, None] * np.array([0, 1, 0, 2]) / 2)
    weights = generator.uniform(0.5, 2.0, n_rows)
    monkeypatch.setattr(module, "SCREENED", kept)
    dense, chosen, (offset,) = module._screened(sp.csr_array(X), y, codes, weights)

    scaled = X / X.std(axis=0)
    weight, chances = module._coefficients(scaled, y, codes, weights, n_columns)
    rank = []
    for j in range(n_columns):
        along = weight[:, j] / np.linalg.norm(weight[:, j]) if n_classes > 2 else np.ones(1)
        scores, information = [], []
        for site in range(3):
            x, here = scaled[codes == site, j], codes == site
            score, known = 0.0, 1e-3
            for k in range(n_classes - 1):
                p, w = chances[here, k], weights[here]
                x_centered = x - np.average(x, weights=w * p * (1 - p))
                score += along[k] * (w * ((y[here] == k + 1) - p) * x_centered).sum()
                known += along[k] ** 2 * (w * p * (1 - p) * x_centered**2).sum()
            scores.append(score)
            information.append(known)
        scores, information = np.array(scores), np.array(information)
        rank.append((scores**2 / information).sum() - scores.sum() ** 2 / information.sum())
    strongest, largest = np.argsort(rank)[::-1][:kept], np.argsort((weight**2).sum(axis=0))[::-1][:kept]
    assert chosen.tolist() == sorted({*strongest.tolist(), *largest.tolist()})
    np.testing.assert_allclose(dense, X[:, chosen])
    rest = np.setdiff1d(np.arange(n_columns), chosen)
    np.testing.assert_allclose(offset, module._unit(scaled[:, rest] @ weight[:, rest].T), atol=1e-9)


def category(n_levels, seed=0, n_rows=3000):
    """Return labels, sites and levels 0, 1, … whose number goes with the label, at every site more or less strongly."""
    generator, parts = np.random.default_rng(seed), []
    for site, strength in enumerate((1.6, 0.8, 1.4, 0.3)):
        y = generator.integers(2, size=n_rows)
        shares = np.exp(strength * np.linspace(-1, 1, n_levels) * (2 * y[:, None] - 1))
        shares /= shares.sum(axis=1, keepdims=True)
        levels = (shares.cumsum(axis=1) > generator.random((n_rows, 1))).argmax(axis=1)
        parts.append((y, np.full(n_rows, site), levels))
    return (np.concatenate(part) for part in zip(*parts, strict=True))


@pytest.mark.parametrize("n_levels", [2, 3, 5])
def test_effects_of_a_category_are_those_of_its_number(n_levels):
    """Its columns say together what one number says; none of them takes a part of that from the effects."""
    y, sites, levels = category(n_levels)
    marker = y + np.random.default_rng(1).normal(size=len(y))
    number = find_unstable(np.column_stack([levels, marker]), y, sites, n_classes=2)
    columns = encode_table(pd.DataFrame({"ward": np.array(list("abcdefgh"))[levels], "marker": marker}))
    groups = [list(members) for members in columns.groups.values()]
    found = find_unstable(columns.values, y, sites, n_classes=2, groups=groups)
    (effect,), (truth,) = found.effects, number.effects
    sign = np.sign(effect.mean * truth.mean)
    np.testing.assert_allclose(sign * effect.by_environment, truth.by_environment, atol=0.1)
    assert effect.size == pytest.approx(truth.size, rel=0.1)


def test_a_category_is_named_once():
    """All its values and one of them say the same: with both in the model, neither would have a clear effect."""
    y, sites, levels = category(3, n_rows=6000)
    marker = y + np.random.default_rng(1).normal(size=len(y))
    columns = encode_table(pd.DataFrame({"ward": np.array(list("abc"))[levels], "marker": marker}))
    found = find_unstable(columns.values, y, sites, n_classes=2, groups=[list(columns.groups["ward"])])
    assert len(found.effects) == 1
    assert found.effects[0].errors.max() < 0.2
