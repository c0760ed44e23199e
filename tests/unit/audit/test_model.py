"""Effects that are common and effects that differ: logistic regression, and tests that are likelihood ratios."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

from holdfast.audit import model as module
from holdfast.audit.model import Sites, fit_model, local_design, score_tests


def draw(n_classes, sizes=(200, 300), n_columns=3, *, deviation=0.0, seed=0):
    """Return sites, design, rows and labels; the first column's effect is larger by `deviation` at the last site."""
    generator = np.random.default_rng(seed)
    weight = 1 + 0.5 * generator.normal(size=(n_classes - 1, n_columns))
    designs, tables, labels = [], [], []
    for number, size in enumerate(sizes):
        X = generator.normal(size=(size, n_columns))
        design = X[:, None, :] * weight
        effects = np.ones(n_columns) + deviation * (number == len(sizes) - 1) * (np.arange(n_columns) == 0)
        scores = np.hstack([np.zeros((size, 1)), design @ effects])
        labels.append((scores + generator.gumbel(size=scores.shape)).argmax(axis=1))
        designs.append(design)
        tables.append(X)
    y = np.concatenate(labels)
    target = (y[:, None] == np.arange(1, n_classes)).astype(float)
    return Sites(target, np.ones(len(y)), np.array(sizes)), np.concatenate(designs), np.vstack(tables), y


def test_many_rows_begin_near_the_end(monkeypatch):
    """A share of the rows is fitted first, so that few passes over all of them are left; the fit is the same."""
    sites, design, *_ = draw(2, sizes=(4000, 4000, 900))
    passes = []

    computed = module._curvature

    def counted(sites, *arguments):
        passes.append(len(sites.weights))
        return computed(sites, *arguments)

    monkeypatch.setattr(module, "_curvature", counted)
    near = fit_model(sites, design, 0.7, [0])
    assert passes.count(8900) <= 2 < len(passes)
    assert min(passes) < 2500
    monkeypatch.setattr(module, "FEW", 10**9)
    far = fit_model(sites, design, 0.7, [0])
    np.testing.assert_allclose(near.common, far.common, atol=1e-3)
    np.testing.assert_allclose(near.deviations, far.deviations, atol=1e-3)


def test_rows_that_mislead_are_not_followed(monkeypatch):
    """A column that says nothing in the rows that a fit begins with gets its effect from the others."""
    sites, design, *_ = draw(2, sizes=(4000, 5000))
    rows, _ = sites.few()
    assert len(rows) < 3000
    design[rows, :, 2] = 0.0
    misled = fit_model(sites, design, 0.1)
    monkeypatch.setattr(module, "FEW", 10**9)
    np.testing.assert_allclose(misled.common, fit_model(sites, design, 0.1).common, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_whitened_design_has_the_information_as_its_product(n_classes):
    """Σ w·xᵀ(diag(p) − ppᵀ)x, also where the first class is all but impossible."""
    generator = np.random.default_rng(0)
    log_odds = np.vstack([generator.normal(size=(50, n_classes - 1)), np.full((1, n_classes - 1), 800.0)])
    chances, log_sums = module.chances_of(log_odds)
    np.testing.assert_allclose(log_sums, logsumexp(np.hstack([np.zeros((51, 1)), log_odds]), axis=1))
    np.testing.assert_allclose(chances, np.exp(log_odds - log_sums[:, None]))
    design, weights = generator.normal(size=(51, n_classes - 1, 4)), generator.random(51)
    curvature = np.eye(n_classes - 1) * chances[:, :, None] - chances[:, :, None] * chances[:, None, :]
    expected = np.einsum("n,nka,nkl,nlb->ab", weights, design, curvature, design)
    white = module.whiten(design, chances, weights).reshape(-1, 4)
    np.testing.assert_allclose(white.T @ white, expected, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_fit_is_the_maximum(n_classes):
    """No step of any parameter improves the penalized likelihood."""
    sites, design, *_ = draw(n_classes)
    fit = fit_model(sites, design, 0.7, [0])
    left = sites.residuals(fit.chances)
    gradient = np.einsum("nkc,nk->c", design, left) - np.array([module.OWN, 0.7, 0.7]) * fit.common
    own = sites.sums(np.einsum("nkc,nk->nc", local_design(design, [0], []), left))
    own -= np.hstack([fit.intercepts * module.INTERCEPT, fit.deviations * module.DEVIATION])
    np.testing.assert_allclose(own, 0, atol=1e-2)
    np.testing.assert_allclose(gradient, 0, atol=1e-2)


def test_two_classes_without_own_effects_are_a_logistic_regression():
    """With an intercept for each site, as scikit-learn fits it."""
    sites, _, X, y = draw(2)
    fit = fit_model(sites, X[:, None, :], 2.0)
    indicators = np.repeat(np.eye(2), [200, 300], axis=0) * 1000
    expected = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000, fit_intercept=False).fit(
        np.hstack([X, indicators]), y
    )
    np.testing.assert_allclose(fit.common, expected.coef_[0, :3], atol=2e-3)


def test_a_start_changes_nothing_but_the_way():
    """From another fit, with one column less of its own, the same maximum is reached."""
    sites, design, *_ = draw(3)
    begun = fit_model(sites, design, 1.0, [1])
    again = fit_model(sites, design, 1.0, [1, 2], start=begun)
    np.testing.assert_allclose(again.common, fit_model(sites, design, 1.0, [1, 2]).common, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_score_test_is_the_likelihood_ratio(monkeypatch, n_classes):
    """For a change of moderate size and many rows, within a tenth."""
    monkeypatch.setattr(module, "DEVIATION", 1e-6)
    sites, design, *_ = draw(n_classes, (2000, 3000), deviation=0.35)
    null = fit_model(sites, design, 1e-6)
    full = fit_model(sites, design, 1e-6, [0])
    found = score_tests(sites, design, local_design(design, [], []), null, 1e-6, [])
    assert found[0] == pytest.approx(2 * (null.loss - full.loss), rel=0.1)
    assert found[0] > 10 > found[1:].max()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_statistic_has_its_distribution_where_nothing_changes(n_classes):
    """Also with a strong penalty and sites of unlike size: what the penalty leaves over is taken out."""
    statistics = []
    for seed in range(150):
        sites, design, *_ = draw(n_classes, (60, 400), seed=seed)
        fit = fit_model(sites, design, 20.0)
        statistics.append(score_tests(sites, design, local_design(design, [], []), fit, 20.0, []))
    shares = chi2.sf(np.array(statistics), 1)
    assert 0.01 < (shares < 0.05).mean() < 0.09
    assert 0.4 < shares.mean() < 0.6


@pytest.mark.parametrize(("n_classes", "sizes"), [(2, (200, 300)), (3, (200, 300)), (2, (12, 600))])
def test_errors_are_those_of_the_inverse_information(n_classes, sizes):
    """The blocks give what the whole matrix gives, also where a few rows at one site lean on the common effect."""
    sites, design, *_ = draw(n_classes, sizes)
    fit = fit_model(sites, design, 0.5, [0], errors=True)
    local = local_design(design, [0], [])
    n_local = local.shape[2]
    whole = np.diag(np.r_[module.OWN, 0.5, 0.5, [*[module.INTERCEPT] * (n_classes - 1), module.DEVIATION] * 2])
    own = np.zeros((len(design), n_classes - 1, 2 * n_local))
    own[: sizes[0], :, :n_local], own[sizes[0] :, :, n_local:] = local[: sizes[0]], local[sizes[0] :]
    white = module.whiten(np.concatenate([design, own], axis=2), fit.chances, sites.weights)
    white = white.reshape(-1, white.shape[2])
    whole += white.T @ white
    covariance = np.linalg.inv(whole)
    places = [3 + (number + 1) * n_local - 1 for number in range(2)]
    effects = np.zeros((2, len(whole)))
    effects[:, 0], effects[0, places[0]], effects[1, places[1]] = 1, 1, 1
    between = effects @ covariance @ effects.T
    expected = np.sqrt(np.diag(between) - max(between[0, 1], 0))
    np.testing.assert_allclose(fit.errors[:, 0], expected, rtol=0.02)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_statistics_are_smaller_by_the_share_of_rows_that_the_fit_has_used(n_classes):
    """Rows of weight two have the scores of twice as many rows, of which the fit uses half the share."""
    sites, design, *_ = draw(n_classes, (60, 90), deviation=1.0)
    doubled = Sites(sites.target, 2 * sites.weights, sites.sizes)
    repeated = Sites(np.repeat(sites.target, 2, axis=0), np.ones(300), 2 * sites.sizes)
    found = []
    for these, rows in ((doubled, design), (repeated, np.repeat(design, 2, axis=0))):
        local = local_design(rows, [0], [])
        fit = fit_model(these, rows, 1.0, [0])
        found.append(score_tests(these, rows, local, fit, 1.0, []))
    used = 3 + 2 * n_classes  # three common effects; at each site one of its own, and the intercepts
    cells = 150 * (n_classes - 1)
    np.testing.assert_allclose(found[1][1:] / found[0][1:], (1 - used / (2 * cells)) / (1 - used / cells), rtol=1e-4)


def test_the_design_is_worked_on_in_blocks_that_stay_in_the_cache():
    """At most 1 MiB of numbers at once, of one or several sites; every row once, and in its order."""
    sites, design, *_ = draw(2, sizes=(3000, 20, 30, 2950), n_columns=100)
    found = list(sites.blocks([design], np.full((6000, 1), 0.5)))
    assert max(white.size for _, _, white, _ in found) <= module.BLOCK_NUMBERS
    rows = np.concatenate([np.arange(6000)[rows] for rows, *_ in found])
    np.testing.assert_array_equal(rows, np.arange(6000))
    counts = np.zeros(4)
    for *_, pieces in found:
        for number, piece in pieces:
            counts[number] += piece.stop - piece.start
    assert counts.tolist() == [3000, 20, 30, 2950]


def test_two_columns_that_say_the_same_do_not_blur_the_comparison():
    """Which of them has the effect is uncertain, but that is the same everywhere."""
    sites, design, *_ = draw(2, deviation=0.5)
    alone = fit_model(sites, design, 1.0, [0], errors=True)
    twice = np.concatenate([design, design[:, :, :1]], axis=2)
    doubled = fit_model(sites, twice, 1.0, [0], errors=True)
    np.testing.assert_allclose(doubled.errors, alone.errors, rtol=0.1)


def test_weights_count_as_repeated_rows():
    """A row of weight two is two rows."""
    sites, design, *_ = draw(3)
    doubled = Sites(sites.target, 2 * sites.weights, sites.sizes)
    repeated = Sites(np.repeat(sites.target, 2, axis=0), np.ones(2 * len(design)), 2 * sites.sizes)
    first = fit_model(doubled, design, 1.0)
    second = fit_model(repeated, np.repeat(design, 2, axis=0), 1.0)
    np.testing.assert_allclose(first.common, second.common, atol=1e-6)


def test_a_start_may_know_more_columns_than_are_asked_for():
    """A fit that was begun with two columns of their own is a start for one with one."""
    sites, design, *_ = draw(2)
    begun = fit_model(sites, design, 1.0, [1, 2])
    again = fit_model(sites, design, 1.0, [1], start=begun)
    np.testing.assert_allclose(again.common, fit_model(sites, design, 1.0, [1]).common, atol=1e-2)


def test_many_environments_of_few_rows_are_fitted_at_once():
    """Where no environment has rows to spare, there is no rough fit to begin with, and the fit ends."""
    sites, design, *_ = draw(2, sizes=(60,) * 100)
    fit = fit_model(sites, design, 1.0)
    assert np.isfinite(fit.loss)
    assert fit.intercepts.shape == (100, 1)


def test_many_environments_are_compared_without_a_matrix_of_their_pairs(monkeypatch):
    """The statistics are the same either way, also where a column does not vary in some environments."""
    sites, design, *_ = draw(2, sizes=(60,) * 30, deviation=1.5)
    design[180:240, :, 1] = 0.0
    local = local_design(design, (), ())
    fit = fit_model(sites, design, 1.0)
    scale = np.abs(design[:, :, 0])
    few = score_tests(sites, design, local, fit, 1.0, [scale])
    monkeypatch.setattr(module, "MOST_CONTRASTS", 10)
    np.testing.assert_allclose(score_tests(sites, design, local, fit, 1.0, [scale]), few, rtol=1e-6)
    assert few[0] > 20


def test_many_environments_are_compared_as_few_are():
    """The statistic of all contrasts between environments, without the matrix of their pairs."""
    generator = np.random.default_rng(0)
    n, n_columns = 7, 3
    scores, spread = generator.normal(size=n), generator.uniform(5.0, 9.0, n)
    cross = generator.normal(size=(n, n_columns))
    total = 4.0 * np.eye(n_columns) + cross.T @ cross
    contrasts = np.linalg.qr(np.eye(n) - 1 / n)[0][:, : n - 1]
    variance = np.diag(spread) - cross @ np.linalg.inv(total) @ cross.T
    along = contrasts.T @ scores
    expected = along @ np.linalg.solve(contrasts.T @ variance @ contrasts, along)
    assert module._between_many(scores, spread, cross, total) == pytest.approx(expected, rel=1e-4)
    assert module._between_many(scores, np.zeros(n), np.zeros((n, n_columns)), total) == 0.0
