"""The decision for labels that are numbers: what counts as a change, and what explains it away."""

import numpy as np
import pandas as pd
import pytest

from holdfast.stable import gaussian
from holdfast.stable.columns import encode_table
from holdfast.stable.gaussian import kept_slope, make_number_design, posteriors_of_numbers
from holdfast.stable.hypotheses import Posterior

N_SITES, N_ROWS = 4, 500
PLACES = np.linspace(-1, 1, N_SITES)


def judged(X, y, sites=None, **options):
    """Return what the model says about each column."""
    sites = np.repeat(np.arange(N_SITES), N_ROWS) if sites is None else sites
    frame = X if hasattr(X, "columns") else pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return posteriors_of_numbers(make_number_design(encode_table(frame), y, sites, **options))


def mechanism(seed=0, noise=1.0):
    """Return two causes of a number, and the number."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N_SITES * N_ROWS, 2))
    X[:, 1] += 0.5 * X[:, 0]
    return generator, X, X @ [1.0, 0.7] + noise * generator.normal(size=len(X))


def by_row(values):
    """Return a value for each row, by its site."""
    return np.repeat(values, N_ROWS)


def effects_of(y, generator):
    """Return two columns that follow the label alone, with the same slopes everywhere."""
    return y[:, None] * [0.8, 0.6] + generator.normal(size=(len(y), 2))


@pytest.mark.parametrize("slopes", [(1.0, 0.8, 0.6, 0.4), (1.0, 1.0, 1.0, -1.0), (-1.0, -0.4, -1.0, -0.4)])
@pytest.mark.parametrize("kind", ["number", "code", "category"])
def test_a_column_whose_slope_differs_is_given_up(slopes, kind):
    """A number, a code and a category that follow the label alone, weaker or reversed at some sites."""
    generator, X, y = mechanism()
    planted = by_row(slopes) * y / y.std() + 0.6 * generator.normal(size=len(y))
    if kind == "code":
        planted = (planted > 0).astype(float)
    elif kind == "category":
        planted = np.array(["c", "a", "d", "b"])[np.digitize(planted, [-0.7, 0, 0.7])]
    found = judged(pd.DataFrame(X, columns=["a", "b"]).assign(planted=planted), y)
    assert kept_slope(found[2]) < 0.3
    assert [kept_slope(one) for one in found[:2]] == [1.0, 1.0]


def same_worlds():
    """Yield rows whose effects are the same everywhere, by what would make them look different."""
    generator, X, y = mechanism()
    u = by_row(PLACES)
    label = np.exp(0.8 * u) * generator.normal(size=len(y))
    yield "range of the label", effects_of(label, generator), label
    true = generator.normal(size=len(y))
    yield "errors in the label", effects_of(true, generator), true + 0.6 * (u + 1) * generator.normal(size=len(y))
    yield "noise of the columns", y[:, None] * [0.8, 0.6] + np.exp(u)[:, None] * generator.normal(size=X.shape), y
    moved = X + np.column_stack([u, 0 * u])
    yield "bend", moved, np.exp(0.8 * moved[:, 0]) + 0.5 * moved[:, 1] + generator.normal(size=len(y))
    both = X + np.column_stack([0 * u, 1.5 * u])
    yield "product", both, both[:, 0] * both[:, 1] + generator.normal(size=len(y))
    yield "units", X * np.column_stack([np.where(u > 0, 2.2, 1.0), np.ones(len(u))]), y
    yield "spread of the noise", moved, moved[:, 0] + np.abs(moved[:, 0] + u) * generator.normal(size=len(y))


@pytest.mark.parametrize("reason", [name for name, _, _ in same_worlds()])
def test_what_explains_different_slopes_keeps_the_column(reason):
    """Noise, ranges, bends, products and units make slopes differ, and nothing is given up."""
    X, y = next((X, y) for name, X, y in same_worlds() if name == reason)
    assert [kept_slope(one) for one in judged(X, y)] == [1.0, 1.0]


@pytest.mark.parametrize(("reason", "which"), [("range of the label", slice(2, 4)), ("errors in the label", slice(2))])
def test_a_change_has_to_show_in_both_directions(reason, which, monkeypatch):
    """With one direction alone, other ranges and errors of the label would count as changes."""
    X, y = next((X, y) for name, X, y in same_worlds() if name == reason)
    compared = []
    compare = gaussian._compare
    monkeypatch.setattr(gaussian, "_compare", lambda *given: compared.append(compare(*given)) or compared[-1])
    judged(X, y)
    first = compared[:4]
    assert min(one.evidence for one in first[which]) < 0 < max(one.change for one in first)


def test_a_bend_does_not_hide_a_change():
    """A code's share is a curved function of the label at every site, and turns at one of them."""
    generator, X, y = mechanism()
    noisy = by_row([1.0, 1.0, 1.0, 0.0]) * y + 0.3 * generator.normal(size=len(y))
    found = judged(np.column_stack([X, noisy > 0.0]), y)[2]
    assert kept_slope(found) < 0.1


def test_a_measurement_that_others_predict_is_kept():
    """Its effect varies as much as a spurious one's, but the other columns go along with it given the label."""
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=(N_SITES * N_ROWS, 2))
    X = hidden @ generator.normal(size=(2, 5)) + generator.normal(size=(len(hidden), 5))
    y = by_row([1.0, 0.3, 1.0, 0.3]) * X[:, 0] + X[:, 1:] @ [0.5, -0.5, 0.4, 0.3] + generator.normal(size=len(X))
    found = judged(X, y)[0]
    assert found.mechanism > 3
    assert found.change > 3
    assert kept_slope(found) == 1.0


def test_what_a_column_of_zeros_at_a_site_says():
    """A column that is constant at a site has no effect there, with an error as large as it gets."""
    _, X, y = mechanism()
    X[:N_ROWS, 1] = 0.0
    found = judged(X, y)
    assert found[1].by_site[0] == 0.0
    assert found[1].errors[0] > 100
    assert kept_slope(found[1]) == 1.0


def test_sites_that_are_too_small_to_be_compared_change_nothing():
    """Two sites of 20 rows each are pooled; an effect without noise is strong, but there is no evidence."""
    x = np.random.default_rng(0).permutation(40.0 + np.arange(40))
    (found,) = judged(x[:, None], 2.5 * x, np.arange(40) % 2)
    assert kept_slope(found) == 1.0


def test_rows_in_another_order_say_the_same():
    """Folds are dealt by what rows contain."""
    generator, X, y = mechanism()
    X = np.column_stack([X, by_row([1, 1, 0.4, 0.4]) * y + generator.normal(size=len(y))])
    sites, order = np.repeat(np.arange(N_SITES), N_ROWS), generator.permutation(len(y))
    straight, mixed = judged(X, y, sites), judged(X[order], y[order], sites[order])
    assert [one.probability for one in mixed] == pytest.approx([one.probability for one in straight])


def test_copies_of_rows_add_no_evidence():
    """Rows of one subject count as one row together."""
    generator, X, y = mechanism()
    X = np.column_stack([X, by_row([1, 0.8, 0.8, 0.7]) * y + 2 * generator.normal(size=len(y))])
    sites = np.repeat(np.arange(N_SITES), N_ROWS)
    once = judged(X, y, sites)[2]
    twice = [np.concatenate([part, part]) for part in (X, y, sites)]
    subjects = np.tile(np.arange(len(y)), 2)
    assert judged(*twice, subjects=subjects)[2].change == pytest.approx(once.change, abs=0.5)
    assert judged(*twice)[2].change > once.change + 1


def test_effects_are_in_units_of_the_label():
    """One standard deviation of the column goes along with so much more of the label."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=N_SITES * N_ROWS)
    y = 1000 * x + 300 * generator.normal(size=len(x))
    (found,) = judged(x[:, None], y)
    assert found.by_site == pytest.approx([1000] * N_SITES, rel=0.05)
    assert found.errors == pytest.approx([300 / np.sqrt(N_ROWS)] * N_SITES, rel=0.2)
    assert found.effect == pytest.approx(1000 / 300, rel=0.1)


@pytest.mark.parametrize(
    ("probability", "caution", "effect", "kept"),
    [(1.0, 0.25, 5.0, 0.5), (0.5, 0.5, 5.0, 0.5), (1.0, 1.0, 5.0, 0.0), (1.0, 0.5, 0.1, 1.0), (1.0, 0.0, 5.0, 1.0)],
)
def test_how_much_of_an_effect_is_kept(probability, caution, effect, kept):
    """The expected slope; of a weak effect hardly anything is given up."""
    assert kept_slope(Posterior(probability, effect=effect), caution) == pytest.approx(kept, abs=0.01)


def test_wide_tables_are_screened():
    """Of many columns those that say most about the label are looked at."""
    generator, X, y = mechanism()
    wide = np.hstack([generator.normal(size=(len(y), 150)), X])
    design = make_number_design(encode_table(wide), y, np.repeat(np.arange(N_SITES), N_ROWS))
    assert len(design.features) == gaussian.MOST_FEATURES
    assert {(150,), (151,)} <= set(design.features)
