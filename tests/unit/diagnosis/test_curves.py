"""Curves of stated risks: calibration as by R's rms, pooled by site, net benefit and distribution."""

import numpy as np
import pytest
from scipy import special

from holdfast.diagnosis.clinical import clinical_report, net_benefit
from holdfast.diagnosis.curves import ALL_SITES, calibration_curve
from holdfast.diagnosis.pooling import pool_sites

ROWS = np.arange(300)
SITES = np.repeat(["a", "b", "c", "d", "e"], 60)
RISKS = special.expit(2 * np.sin(1.7 * ROWS) - 0.3)
EVENTS = (np.sin(2.9 * ROWS) + 1.2 * np.sin(1.7 * ROWS) + 0.15 * (1 + ROWS // 60) > 0.5).astype(float)
# R 4.2.2, rms 6.5.0: lrm(y ~ rcs(s, quantile(s, c(.1, .5, .9)))) and predict(se.fit = TRUE) of it, s = qlogis(p).
OBSERVED, ERRORS = (0.200748, 0.616944, 0.868862), (0.216915, 0.226736, 0.293784)


def test_the_calibration_curve_is_that_of_rms():
    """A logistic regression on a restricted cubic spline with three knots: values and standard errors."""
    curve = calibration_curve(EVENTS, RISKS, np.array([0.2, 0.5, 0.8]))
    assert [point.value for point in curve] == pytest.approx(OBSERVED, abs=1e-5)
    assert [point.error for point in curve] == pytest.approx(ERRORS, abs=1e-5)


def test_curves_are_pooled_risk_by_risk():
    """The mean and the band at one stated risk are those of a random-effects model of the sites' points there."""
    generator = np.random.default_rng(0)
    risks = generator.uniform(0.05, 0.95, 3000)
    sites = np.repeat(list("abcdef"), 500)
    shift = np.repeat(generator.normal(0, 0.4, 6), 500)
    events = (generator.random(3000) < special.expit(special.logit(risks) + shift)).astype(float)
    curves = clinical_report(events, risks, sites).curves
    at = 10
    points = [
        calibration_curve(events[sites == s], risks[sites == s], np.array([curves.risks[at]]))[0] for s in "abcdef"
    ]
    pooled = pool_sites("calibration", points, "logit")
    assert curves.pooled[at] == pytest.approx(pooled.mean.value)
    assert (curves.next_low[at], curves.next_high[at]) == pytest.approx((pooled.next_site.low, pooled.next_site.high))
    assert curves.next_low[at] < curves.risks[at] < curves.next_high[at]
    assert [curves.calibration[s][at] for s in "abcdef"] == pytest.approx([point.value for point in points])


def test_a_site_has_no_curve_where_it_has_no_rows():
    """Beyond its own risks, and with few events, a site does not enter the pooled curve."""
    risks = np.r_[np.linspace(0.05, 0.95, 200), np.linspace(0.05, 0.5, 200), np.linspace(0.1, 0.9, 20)]
    events = (np.arange(420) * 7919 % 100 < 100 * risks).astype(float)
    events[400:] = np.arange(20) == 19
    curves = clinical_report(events, risks, ["a"] * 200 + ["b"] * 200 + ["c"] * 20).curves
    beyond = np.array(curves.risks) > 0.5
    assert np.isnan(np.array(curves.calibration["b"])[beyond]).all()
    assert np.isfinite(np.array(curves.calibration["b"])[1:5]).all()
    assert np.isnan(curves.calibration["c"]).all()
    assert np.isnan(np.array(curves.pooled)[beyond]).all()


def test_decision_curves_of_every_site_and_of_all():
    """Each point is the net benefit at its threshold; treating everybody does not depend on the risk."""
    curves = clinical_report(EVENTS, RISKS, SITES).curves
    threshold = curves.thresholds[7]
    in_b = SITES == "b"
    assert curves.net_benefit["b"][7] == pytest.approx(net_benefit(EVENTS[in_b], RISKS[in_b], threshold))
    assert curves.treat_all[ALL_SITES][7] == pytest.approx(net_benefit(EVENTS, np.ones(300), threshold))
    assert list(curves.net_benefit) == [ALL_SITES, *"abcde"]


def test_the_distribution_by_outcome():
    """Shares of rows with the event, and without it, in intervals of the stated risk; each sums to one."""
    curves = clinical_report(EVENTS, RISKS, SITES).curves
    place = int(0.72 * 20)
    with_event = RISKS[EVENTS == 1]
    assert curves.with_event[ALL_SITES][place] == pytest.approx(np.mean((with_event >= 0.7) & (with_event < 0.75)))
    assert sum(curves.without_event["c"]) == pytest.approx(1.0)
