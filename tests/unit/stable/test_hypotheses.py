"""The probability that a relation changes: high for a planted code, low for each of its rivals."""

import numpy as np
import pytest
from scipy import special, stats

from holdfast.stable import hypotheses
from holdfast.stable.columns import encode_table
from holdfast.stable.design import make_design
from holdfast.stable.hypotheses import posteriors

SITES = 4


def made(agreements, n_rows=1000, *, seed=0, flipped=(0.0,) * SITES):
    """Return three measured columns and a code with such agreements with the label, the labels, and the sites."""
    generator = np.random.default_rng(seed)
    sites = np.repeat(np.arange(len(agreements)), n_rows)
    y = generator.integers(2, size=len(sites))
    measured = generator.normal(size=(len(y), 3)) + [0.8, 0.6, 0.4] * y[:, None]
    code = np.where(generator.random(len(y)) < np.array(agreements)[sites], y, 1 - y)
    y = np.where(generator.random(len(y)) < np.array(flipped)[sites], 1 - y, y)
    return np.column_stack([measured, code]).astype(float), y, sites


def probabilities(X, y, sites, **options):
    """Return the probability of a change for each column."""
    design = make_design(encode_table(X), y, sites, n_classes=int(y.max()) + 1, **options)
    return np.array([found.probability for found in posteriors(design)])


def test_a_planted_code_is_found():
    """It agrees with the label in 95, 90, 80 and 75 % of the rows; measured columns are not blamed."""
    found = probabilities(*made((0.95, 0.9, 0.8, 0.75)))
    assert found[3] > 0.9
    assert found[:3].max() < 0.1


def test_sites_that_are_too_small_to_be_compared_change_nothing():
    """Two sites of 20 rows each are pooled; a column that is always right is strong, but there is no evidence."""
    x = np.random.default_rng(0).permutation(40)
    assert probabilities(x[:, None].astype(float), (x >= 20).astype(int), np.arange(40) % 2).max() < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_a_code_at_two_sites_is_found(seed):
    """Two sites are enough: 95 and 75 %."""
    assert probabilities(*made((0.95, 0.75), seed=seed))[3] > 0.7


@pytest.mark.parametrize("agreement", [0.6, 0.8, 0.95])
def test_a_stable_code_is_not(agreement):
    """The same agreement everywhere."""
    assert probabilities(*made((agreement,) * SITES)).max() < 0.1


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_flipped_labels_are_no_change(share):
    """Labels flipped at one site weaken the code and everything else there."""
    assert probabilities(*made((0.9,) * SITES, flipped=(0.0, 0.0, 0.0, share))).max() < 0.15


def test_a_cause_whose_effect_varies_is_part_of_a_mechanism():
    """Causes of one label go together within it: that is what tells them from a code."""
    generator = np.random.default_rng(0)
    sites = np.repeat(np.arange(SITES), 1000)
    X = generator.normal(size=(len(sites), 3))
    slopes = np.array([0.5, 1.0, 1.5, 2.0])[sites]
    y = (generator.random(len(sites)) < 1 / (1 + np.exp(-slopes * X[:, 0] - X[:, 1] - X[:, 2]))).astype(int)
    design = make_design(encode_table(X), y, sites, n_classes=2)
    found = posteriors(design)[0]
    assert found.probability < 0.05
    assert found.change > 10
    assert found.mechanism > 5


def test_effects_are_those_of_the_sites():
    """Half the log odds ratio of a code, and the distance of the labels' means of a number, with their errors."""
    X, y, sites = made((0.95, 0.75), n_rows=20_000)
    found = posteriors(make_design(encode_table(X), y, sites, n_classes=2))
    np.testing.assert_allclose(found[3].by_site, np.log([0.95 / 0.05, 0.75 / 0.25]), rtol=0.05)
    np.testing.assert_allclose(found[0].by_site, 0.8, rtol=0.05)
    expected = 0.5 * np.sqrt(2 / (10_000 * np.array([0.95 * 0.05, 0.75 * 0.25])))
    np.testing.assert_allclose(found[3].errors, expected, rtol=0.05)


def test_neither_order_nor_units_nor_names_matter():
    """Rows in any order, columns in other units, sites numbered otherwise: the same probabilities."""
    X, y, sites = made((0.92, 0.9, 0.84, 0.8), n_rows=200)
    before = probabilities(X, y, sites)
    order = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_allclose(probabilities(X[order], y[order], sites[order]), before, atol=1e-6)
    np.testing.assert_allclose(probabilities(X * [10, -0.1, 3, 5] + 7, y, sites), before, atol=0.03)
    np.testing.assert_allclose(probabilities(X, y, SITES - 1 - sites), before, atol=0.02)


def test_a_weight_of_two_is_a_row_twice():
    """But for the folds, which copies of a row may lie in differently."""
    X, y, sites = made((0.92, 0.8), n_rows=150)
    weighted = probabilities(X, y, sites, weights=np.full(len(y), 2.0))
    twice = probabilities(np.tile(X, (2, 1)), np.tile(y, 2), np.tile(sites, 2))
    np.testing.assert_allclose(weighted, twice, atol=0.05)
    assert weighted[3] > probabilities(X, y, sites)[3]


def test_rows_of_one_subject_are_no_more_evidence_than_one():
    """Four copies of each row, as one subject each, give the probabilities of the rows alone."""
    X, y, sites = made((0.92, 0.8), n_rows=150)
    subjects = np.tile(np.arange(len(y)), 4)
    copies = probabilities(np.tile(X, (4, 1)), np.tile(y, 4), np.tile(sites, 4), subjects=subjects)
    np.testing.assert_allclose(copies, probabilities(X, y, sites), atol=0.05)


def test_more_than_two_classes():
    """A code of three classes that agrees less at one site."""
    generator = np.random.default_rng(0)
    sites, y = np.repeat([0, 1], 1500), generator.integers(3, size=3000)
    agrees = generator.random(3000) < np.where(sites == 0, 0.95, 0.7)
    code = np.where(agrees, y, (y + generator.integers(1, 3, size=3000)) % 3)
    X = np.column_stack([np.eye(3)[y][:, :2] + generator.normal(size=(3000, 2)), code == 0, code == 1])
    columns = encode_table(X, names=["a", "b", "red", "green"]).grouped({"code": ["red", "green"]})
    found = posteriors(make_design(columns, y, sites, n_classes=3))
    assert len(found) == 3
    assert found[2].probability > 0.5 > max(found[0].probability, found[1].probability)


def test_a_code_that_reverses_is_found():
    """It agrees with the label in 90 % of the rows of one site, and in 10 % of the other's."""
    assert probabilities(*made((0.9, 0.1)))[3] > 0.5


SHIFTS = {
    "share of zeros": lambda generator, site: (
        generator.exponential(size=500) * (generator.random(500) < 0.2 + 0.25 * site)
    ),
    "rate of counts": lambda generator, site: generator.poisson(0.3 * 2.0**site, size=500),
    "spread": lambda generator, site: generator.normal(size=500) * 7.0 ** (site % 2),
}


@pytest.mark.parametrize("shift", SHIFTS)
def test_covariate_shift_is_no_change(shift):
    """The only column that says anything is distributed differently; P(y|x) = sigmoid(1.5 x - 1) at every site."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        x = np.concatenate([SHIFTS[shift](generator, site) for site in range(SITES)])
        y = (generator.random(len(x)) < special.expit(1.5 * x - 1)).astype(int)
        X = np.column_stack([x, generator.normal(size=(len(x), 3))])
        assert probabilities(X, y, np.repeat(np.arange(SITES), 500)).max() < 0.25


def one_law(probability, draw, n_rows=500, seed=0):
    """Return columns that `draw` makes for each site, with labels of one P(y|x), and the sites."""
    generator = np.random.default_rng(seed)
    X = np.concatenate([draw(generator, site, n_rows) for site in range(SITES)])
    return X, (generator.random(len(X)) < probability(X)).astype(int), np.repeat(np.arange(SITES), n_rows)


LAWS = {
    "a step and many zeros": (
        lambda X: special.expit(2 * (X[:, 0] > 0) + X[:, 0] - 1.5),
        lambda generator, site, n: generator.exponential(size=(n, 3)) * (generator.random((n, 3)) < 0.2 + 0.2 * site),
    ),
    "a curve and heavy tails": (
        lambda X: special.expit(np.sign(X[:, 0]) * np.log1p(np.abs(X[:, 0])) - 0.5),
        lambda generator, site, n: generator.standard_cauchy((n, 4)) * 8.0 ** (site - 1.5),
    ),
    "a valley": (
        lambda X: special.expit(X[:, 0] ** 2 - 1.5),
        lambda generator, site, n: generator.normal(size=(n, 3)) + [1.5 * (site - 1.5), 0, 0],
    ),
    "a product of three": (
        lambda X: special.expit(X[:, 0] + X[:, 0] * X[:, 1] * X[:, 2]),
        lambda generator, site, n: generator.normal(size=(n, 4)) + [0.4 * (site - 1.5), 0.8 * (site % 2), site / 2, 0],
    ),
}


@pytest.mark.parametrize("law", LAWS)
def test_one_law_of_the_label_given_the_row_is_no_change(law):
    """P(y|x) is the same curve at all sites, with products, and only x is distributed differently."""
    for seed in range(3):
        assert probabilities(*one_law(*LAWS[law], seed=seed)).max() < 0.3


NOISES = {
    "of two degrees of freedom": lambda generator, y: generator.standard_t(2, size=len(y)),
    "whose spread depends on the label": lambda generator, y: generator.normal(size=len(y)) * (1 + 0.7 * y),
}


@pytest.mark.parametrize("noise", NOISES)
def test_a_bend_does_not_hide_a_change(noise):
    """A number follows the label by 3 or 1; its log-odds are a curve at each site, and not the same one."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        y, sites = generator.integers(2, size=2000), np.repeat(np.arange(SITES), 500)
        planted = np.array([3.0, 1.0, 3.0, 1.0])[sites] * y + NOISES[noise](generator, y)
        X = np.column_stack([planted, generator.normal(size=(2000, 3)) + y[:, None] * [0.8, 0.5, 0.0]])
        found = probabilities(X, y, sites)
        assert found[0] > 0.5
        assert found[1:].max() < 0.1


def test_a_larger_change_is_no_less_probable():
    """95 and 55 % is more of a change than 95 and 85 %."""
    small, large = (probabilities(*made((0.95, other), n_rows=2000))[3] for other in (0.85, 0.55))
    assert large >= small - 0.01


def test_rounding_is_no_evidence():
    """With one other column, nothing is left of it beside what it says: the order of rows changes no probability."""
    generator = np.random.default_rng(0)
    y, sites = generator.integers(2, size=2000), np.repeat([0, 1], 1000)
    agreement = np.column_stack([np.full(2000, 0.75), np.where(sites == 0, 0.95, 0.85)])
    X = np.where(generator.random((2000, 2)) < agreement, y[:, None], 1 - y[:, None]).astype(float)
    found = []
    for rows in (np.arange(2000), generator.permutation(2000)):
        columns = encode_table(X[rows], min_count=1)
        found.append(posteriors(make_design(columns, y[rows], sites[rows], n_classes=2))[1].probability)
    assert found[0] > 0.5
    assert found[1] == pytest.approx(found[0], abs=1e-6)


# -- the evidence is that of the data --------------------------------------------------------------------------------


def test_the_likelihood_of_a_code_is_binomial():
    """At every effect it is the likelihood of the four counts, maximized over how frequent the code is."""
    ones, rows = np.array([48, 3]), np.array([50, 60])  # by label: 1, 0
    x = np.concatenate([np.arange(n) < k for n, k in zip(rows, ones, strict=True)]).astype(float)
    y = np.repeat([1.0, 0.0], rows)
    site = hypotheses._effect(x, x, y[None], np.ones(len(y)), is_code=True)[0]
    effects = np.linspace(-1.0, 6.0, 15)
    intercepts = np.linspace(-8.0, 8.0, 8001)[:, None]
    odds = np.stack([intercepts + effects, intercepts - effects], axis=-1)
    exact = (ones * odds - rows * np.logaddexp(0.0, odds)).sum(axis=-1).max(axis=0)
    best = stats.binom.logpmf(ones, rows, ones / rows).sum() - stats.binom.logpmf(ones, rows, 0.5).sum()
    best += rows.sum() * np.log(0.5)
    np.testing.assert_allclose(hypotheses._log_likelihood(site, effects, is_code=True), exact - best, atol=1e-4)


def test_evidence_of_a_change_is_that_of_the_integrals():
    """Effects drawn about b, integrated by brute force, for likelihoods that are normal."""
    effects, errors = np.array([1.0, 1.5, 2.2]), np.array([0.1, 0.15, 0.2])
    plain = np.stack([np.zeros(3), effects, errors**2], axis=1)
    grid = hypotheses._effect_grid(plain[:, None])
    found = hypotheses._marginals([hypotheses._log_likelihood(site, grid[0], False) for site in plain], grid)
    b = np.linspace(-5.0, 8.0, 20_001)
    expected = []
    for rho in (0.0, *hypotheses.SPREADS):
        variances = errors[:, None] ** 2 + (rho * b) ** 2
        logs = -0.5 * ((effects[:, None] - b) ** 2 / variances + np.log(variances / errors[:, None] ** 2))
        expected.append(np.exp(logs.sum(axis=0)).sum() * (b[1] - b[0]))
    np.testing.assert_allclose(found, [np.log(expected[0]), np.log(np.mean(expected[1:]))], atol=0.15)


def test_a_strong_number_whose_effect_changes_is_found():
    """Its means are 3.2 to 2 standard deviations apart at five sites of 300 rows."""
    generator = np.random.default_rng(0)
    sites = np.repeat(np.arange(5), 300)
    y = generator.integers(2, size=len(sites))
    number = np.linspace(1.6, 1.0, 5)[sites] * (2 * y - 1) + generator.normal(size=len(y))
    weak = generator.normal(size=(len(y), 3)) + 0.5 * y[:, None]
    assert probabilities(np.column_stack([weak, np.exp(number)]), y, sites)[3] > 0.7


@pytest.mark.parametrize("shape", [lambda x: x, np.exp], ids=["normal", "lognormal"])
def test_a_cause_that_is_distributed_differently_is_no_change(shape):
    """The label follows a number in the same way at all sites, where the number's spread differs by a factor of 4."""
    generator = np.random.default_rng(0)
    sites = np.repeat(np.arange(4), 400)
    x = np.array([0.5, 1.0, 1.5, 2.0])[sites] * generator.normal(size=len(sites)) + 0.3 * sites
    y = (generator.random(len(sites)) < 1 / (1 + np.exp(1 - 1.5 * x))).astype(int)
    other = generator.normal(size=(len(sites), 3)) + 0.3 * y[:, None]
    assert probabilities(np.column_stack([shape(x), other]), y, sites)[0] < 0.15


def test_many_small_sites_are_evidence_too():
    """A code that is right in 95 to 85 % of the rows of 40 sites of 100 rows: few errors each, many in all."""
    none = (0.0,) * 40
    assert probabilities(*made(np.linspace(0.95, 0.85, 40), n_rows=100, seed=1, flipped=none))[3] > 0.6
    assert probabilities(*made((0.9,) * 40, n_rows=100, flipped=none)).max() < 0.1
