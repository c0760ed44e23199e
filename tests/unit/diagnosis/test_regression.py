"""Models of numbers at every site: known numbers, pooled ones, and which sites are named."""

import numpy as np
import pytest

from holdfast.diagnosis.pooling import Estimate, pool_sites
from holdfast.diagnosis.regression import judge_regression, regression_report
from holdfast.diagnosis.soundness import Problem
from holdfast.exceptions import InputError

SITES = np.repeat(["Aachen", "Berlin", "Essen", "Köln"], 250)


def numbers(seed, noise=1.0):
    """Return labels and predictions with errors of a standard deviation."""
    generator = np.random.default_rng(seed)
    predicted = generator.normal(0, 2, len(SITES))
    return predicted + noise * generator.normal(size=len(SITES)), predicted


def test_a_site_by_hand():
    """Errors 1, -1, 1, 3: RMSE √3, mean error 1; variance of the label 5: R² 1 - 3/5."""
    y = np.array([1.0, 3.0, 5.0, 7.0])
    (site,) = regression_report(y, y - [1, -1, 1, 3], ["a"] * 4).sites
    assert site.rmse.value == pytest.approx(np.sqrt(3))
    assert site.bias.value == pytest.approx(1.0)
    assert site.r2.value == pytest.approx(0.4)
    assert site.rmse.error == pytest.approx(np.std([1, 1, 1, 9], ddof=1) / (2 * 3 * 2))


def test_sites_are_pooled_as_logarithms():
    """RMSE by its logarithm; R² by that of what is not explained, so that no limit is above 1."""
    y, predicted = numbers(0)
    report = regression_report(y, predicted, SITES)
    expected = pool_sites("rmse", [site.rmse for site in report.sites], "log")
    assert report.pooled_of("rmse") == expected
    rest = [Estimate(1 - site.r2.value, 0, 0, site.r2.error) for site in report.sites]
    unexplained = pool_sites("r2", rest, "log")
    assert report.pooled_of("r2").mean.value == pytest.approx(1 - unexplained.mean.value)
    assert report.pooled_of("r2").next_site.high < 1


def test_the_standard_errors_cover():
    """95 % intervals of RMSE and R² hold the true values at about that share of sites."""
    hits = []
    for seed in range(150):
        y, predicted = numbers(seed)
        site = regression_report(y[:250], predicted[:250], SITES[:250]).sites[0]
        hits.append((site.rmse.low <= 1 <= site.rmse.high, site.r2.low <= 0.8 <= site.r2.high))
    assert (np.mean(hits, axis=0) >= 0.9).all()


def test_the_shifted_site_is_named_and_not_those_it_pulls_along():
    """One site is 1.5 higher; the models of the other sites, which saw it, are 0.5 too high there."""
    y, predicted = numbers(1)
    new = predicted + np.where(SITES == "Köln", 0.0, 0.5)
    y = y + np.where(SITES == "Köln", 1.5, 0.0)
    found = judge_regression(y, new, new, SITES, estimator="ridge", label="cost")
    assert found.shifted == ("Köln",)
    assert found.state == "miscalibrated"
    assert found.recommendation.sentence == "Shift the predictions in Köln."
    assert f"{np.mean((y - new)[SITES == 'Köln']):+.3g}" in found.recommendation.reason


def test_a_model_that_needs_the_site_breaks():
    """Errors twice as large where Essen is left out, with the same mean."""
    y, predicted = numbers(2)
    worse = np.where(SITES == "Essen", predicted + np.random.default_rng(0).normal(0, 2, len(y)), predicted)
    found = judge_regression(y, worse, predicted, SITES, estimator="ridge", label="cost")
    assert (found.state, found.worse) == ("breaks", ("Essen",))
    assert "breaks at a site it has not seen: RMSE " in str(found)
    assert "Most is lost in Essen: RMSE 2.07 instead of 0.978." in str(found)


def test_equal_sites_are_not_named():
    """Of 60 tables without any difference, at most 5 % name a site."""
    named = 0
    for seed in range(60):
        y, predicted = numbers(seed + 100)
        other = predicted + np.random.default_rng(seed).normal(0, 0.05, len(y))
        found = judge_regression(y, other, predicted, SITES, estimator="ridge", label="cost")
        named += bool(found.worse or found.shifted)
    assert named <= 3
    assert repr(found) == "<RegressionDiagnosis of 4 sites with ridge: holds>"
    assert "<th>RMSE</th>" in found._repr_html_()


def test_shapes_are_checked():
    """One prediction for every label."""
    with pytest.raises(InputError, match=r"y has shape \(2,\) and predicted \(3,\)"):
        regression_report([1, 2], [1, 2, 3], ["a", "a"])


def test_columns_that_tell_nothing_are_no_model_to_keep():
    """Labels without any relation to the columns: R² is 0 even where the site was seen."""
    generator = np.random.default_rng(0)
    y, sites = generator.normal(size=900), np.repeat(["a", "b", "c"], 300)
    told = 0.02 * generator.normal(size=900)
    found = judge_regression(y, told, told, sites, estimator="ridge", label="cost")
    assert (found.recommendation.rule, found.recommendation.action) == ("tells_nothing", "collect")
    assert found.finding.startswith("The columns do not predict `cost`: RMSE ")


def test_wrong_data_come_before_any_verdict():
    """An identifier is the headline, with the option that mends it."""
    generator = np.random.default_rng(0)
    y, sites = generator.normal(size=900), np.repeat(["a", "b", "c"], 300)
    problem = Problem("identifier", "repair", "id", (), {"kind": "growing", "n_values": 900}, ("--drop", "id"))
    found = judge_regression(y, 0.8 * y, 0.8 * y, sites, estimator="ridge", label="cost", problems=[problem])
    assert str(found) == "`id` grows from row to row: it looks like an identifier. Leave `id` out."
    assert (found.recommendation.rule, found.recommendation.options) == ("wrong_data", ("--drop", "id"))
    assert found.recommendation.command == ("diagnose",)
