"""Clinical measures: known numbers, and those of R's metafor and rms and of Python's dcurves."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from scipy import special, stats

from holdfast.diagnosis.clinical import clinical_report, net_benefit
from holdfast.diagnosis.pooling import Estimate, chance_of_site, pool_sites, prediction_interval, random_effects
from holdfast.exceptions import InputError, LabelsError, ParameterError

ROWS = np.arange(60)
RISKS = special.expit(2 * np.sin(1.7 * ROWS) - 0.3)
EVENTS = (np.sin(2.9 * ROWS) + 1.2 * np.sin(1.7 * ROWS) > 0.2).astype(int)

# R 4.2.2, metafor 3.8.1: rma(yi, vi, method = "REML", test = "knha") and predict() of it.
DIFFERENT = ([0.8, 1.3, 1.05, 0.4, 1.6], [0.02, 0.05, 0.03, 0.04, 0.10])
ALIKE = ([0.1, 0.12, 0.09, 0.11], [0.02, 0.05, 0.03, 0.04])
METAFOR = {  # mean, its standard error, tau², I² in %, limits of the mean, prediction interval
    "different": (
        DIFFERENT,
        (0.99193855, 0.19755275, 0.13824527, 78.25003297, 0.44344418, 1.54043292, -0.17704823, 2.16092533),
    ),
    "alike": (ALIKE, (0.10246753, 0.00582247, 0.0, 0.0, 0.08393783, 0.12099723, 0.08393783, 0.12099723)),
}
# R 4.2.2, rms 6.5.0: val.prob(RISKS, EVENTS); glm(EVENTS ~ offset(qlogis(RISKS)), binomial).
VAL_PROB = {"auroc": 0.823333, "brier": 0.184398, "slope": 0.938085, "slope_intercept": 0.286405}
SLOPE_ERROR, IN_THE_LARGE, IN_THE_LARGE_ERROR = 0.2446191, 0.3055583, 0.3146557
# dcurves 1.1.7: net benefit of the model and of treating all, by threshold.
DCURVES = {0.1: (0.455556, 0.444444), 0.3: (0.361905, 0.285714), 0.5: (0.216667, 0.0), 0.7: (0.005556, -0.666667)}


@pytest.mark.parametrize("name", METAFOR)
def test_pooling_is_that_of_metafor(name):
    """Mean, error, tau², I², and both intervals, to 1e-3."""
    (values, variances), expected = METAFOR[name]
    estimates = [Estimate(y, y, y, np.sqrt(v)) for y, v in zip(values, variances, strict=True)]
    pooled = pool_sites("slope", estimates)
    _, error, _, _ = random_effects(values, variances)
    found = (
        pooled.mean.value,
        error,
        pooled.tau2,
        100 * pooled.i2,
        pooled.mean.low,
        pooled.mean.high,
        pooled.next_site_plain.low,
        pooled.next_site_plain.high,
    )
    assert found == pytest.approx(expected, abs=1e-3)


def test_a_site_is_measured_as_by_val_prob():
    """AUROC, Brier score, slope and intercepts are those of rms and glm; O:E and log loss are worked by hand."""
    (site,) = clinical_report(EVENTS, RISKS, ["a"] * 60).sites
    found = {name: getattr(site, name) for name in VAL_PROB}
    found = {name: getattr(value, "value", value) for name, value in found.items()}
    assert found == pytest.approx(VAL_PROB, abs=1e-5)
    assert site.slope.error == pytest.approx(SLOPE_ERROR, abs=1e-4)
    assert (site.intercept.value, site.intercept.error) == pytest.approx((IN_THE_LARGE, IN_THE_LARGE_ERROR), abs=1e-6)
    assert site.oe.value == pytest.approx(30 / 26.91994, abs=1e-5)
    unexplained = EVENTS - 30 / 26.91994 * RISKS
    assert site.oe.error == pytest.approx(np.sqrt(60 * unexplained.var(ddof=1)) / 30, rel=1e-4)
    of_label = np.where(EVENTS, RISKS, 1 - RISKS)
    assert site.log_loss.value == pytest.approx(-np.log(of_label).mean())
    assert (site.n_rows, site.n_events) == (60, 30)


@pytest.mark.parametrize("threshold", DCURVES)
def test_net_benefit_is_that_of_dcurves(threshold):
    """Of the model, and of treating everybody."""
    (site,) = clinical_report(EVENTS, RISKS, ["a"] * 60, threshold=threshold).sites
    assert (site.net_benefit.value, site.treat_all) == pytest.approx(DCURVES[threshold], abs=1e-5)


def test_net_benefit_by_hand():
    """Two of four rows are treated, one rightly: 1/4 - 1/4 * 0.2 / 0.8."""
    assert net_benefit([1, 0, 1, 0], [0.9, 0.3, 0.1, 0.1], 0.2) == pytest.approx(0.25 - 0.25 * 0.25)


def test_delong_by_hand():
    """Three events, two others: five of six pairs are in order; variances of the placements are 1/12 and 1/18."""
    risks = [0.3, 0.6, 0.8, 0.2, 0.5]
    (site,) = clinical_report([1, 1, 1, 0, 0], risks, ["a"] * 5).sites
    area, variance = 5 / 6, (1 / 12) / 3 + (1 / 18) / 2
    assert site.auroc.value == pytest.approx(area)
    assert site.auroc.error == pytest.approx(np.sqrt(variance) / (area * (1 - area)))


def test_the_error_of_observed_to_expected_is_its_spread():
    """Over 600 samples of 300 patients whose risks differ: the spread of log O:E."""
    generator, found = np.random.default_rng(0), []
    for _ in range(600):
        scores = generator.normal(-0.8, 1.2, 300)
        events = generator.random(300) < special.expit(scores + 0.3)
        oe = clinical_report(events, special.expit(scores), ["a"] * 300).sites[0].oe
        found.append((np.log(oe.value), oe.error))
    values, errors = np.transpose(found)
    assert errors.mean() == pytest.approx(values.std(), rel=0.06)


def test_sites_that_cannot_tell_are_left_out_of_the_pool():
    """Without events there is no AUROC, slope or O:E; Brier score and log loss remain; one site cannot be pooled."""
    events, risks = np.r_[EVENTS, np.zeros(10)], np.r_[RISKS, np.full(10, 0.3)]
    report = clinical_report(events, risks, ["a"] * 60 + ["b"] * 10)
    empty = report.sites[1]
    values = (empty.auroc.value, empty.slope.value, empty.intercept.value, empty.oe.value)
    assert np.isnan(values).all()
    assert empty.brier.value == pytest.approx(0.09)
    assert {pooled.measure for pooled in report.pooled} <= {"brier", "log_loss", "net_benefit", "specificity", "npv"}
    assert report.pooled_of("auroc") is None


def test_a_perfect_order_is_pooled_with_its_uncertainty():
    """An AUROC of 1 has a lower limit, no slope, and does not make the pooled one infinite."""
    y = np.tile([0, 0, 0, 1, 1, 1], 10)
    risks = np.where(y == 1, 0.9, 0.1) + np.tile([0.0, 0.01, 0.02], 20)
    sites = np.repeat(["a", "b"], 30)
    mixed = np.where(sites == "b", special.expit(np.sin(np.arange(60.0)) + y), risks)
    report = clinical_report(y, mixed, sites)
    assert report.sites[0].auroc.value == 1.0
    assert 0.8 < report.sites[0].auroc.low < 1.0
    assert np.isnan(report.sites[0].slope.value)
    assert 0.5 < report.pooled_of("auroc").mean.value < 1.0


def test_risks_of_zero_and_one_are_finite():
    """Log-odds are clipped, so that a sure mistake costs much but not everything."""
    (site,) = clinical_report([1, 0, 1, 0, 1, 0], [1.0, 0.0, 0.0, 1.0, 0.7, 0.2], ["a"] * 6).sites
    assert np.isfinite([site.log_loss.value, site.slope.value, site.intercept.value]).all()


def test_sites_that_differ_at_random_are_rarely_far_from_the_others():
    """In about 5 of 100 tables of six such sites one is beyond the 5 % limit; a site far away is beyond it, too."""
    generator, n_far = np.random.default_rng(0), 0
    for _ in range(100):
        values, variances = generator.normal(0, np.hypot(0.1, 0.05), 6), np.full(6, 0.05**2)
        chances = [chance_of_site(v, 0.05**2, np.delete(values, k), variances[1:]) for k, v in enumerate(values)]
        n_far += min(chances) < 0.05 / 6
    assert 1 <= n_far <= 11
    assert chance_of_site(0.5, 0.05**2, [0.8, 0.82, 0.77, 0.81, 0.8], variances[1:]) < 0.05 / 6


def test_the_prediction_interval_knows_that_tau_is_uncertain():
    """With sites more alike than chance it is that of the fixed effect; with very many, that of the known variance."""
    values, variances = ALIKE
    reach = 1.96 / np.sqrt(sum(1 / np.array(variances)))
    low, high = prediction_interval(values, variances)
    assert (low, high) == pytest.approx((0.10246753 - reach, 0.10246753 + reach), abs=0.001)
    generator = np.random.default_rng(0)
    many = generator.normal(1.0, 0.5, 2000)
    low, high = prediction_interval(many, np.full(2000, 1e-4))
    assert (low, high) == pytest.approx((1 - 0.98, 1 + 0.98), abs=0.06)


def test_the_prediction_interval_covers():
    """With 8 sites and half of the variance between them, 93 to 97 % of new sites are inside; the plain one fails."""
    generator, hits = np.random.default_rng(0), []
    for _ in range(600):
        variances = 0.04 * generator.uniform(0.4, 1.9, 8)
        truth = generator.normal(0, 0.2, 9)
        values = generator.normal(truth[:8], np.sqrt(variances))
        low, high = prediction_interval(values, variances)
        mean, error, tau2, _ = random_effects(values, variances)
        reach = stats.t.ppf(0.975, 7) * np.sqrt(error**2 + tau2)
        hits.append((low <= truth[8] <= high, abs(truth[8] - mean) <= reach))
    covered, plain = np.mean(hits, axis=0)
    assert 0.93 <= covered <= 0.97
    assert plain < 0.93


def test_the_four_shares_at_a_threshold_by_hand():
    """Treated from 0.5 on: 3 of 4 events, 1 of 6 others."""
    events, risks = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [0.9, 0.8, 0.5, 0.4, 0.7, 0.3, 0.3, 0.2, 0.1, 0.1]
    (site,) = clinical_report(events, risks, ["a"] * 10, threshold=0.5).sites
    shares = (site.sensitivity.value, site.specificity.value, site.ppv.value, site.npv.value)
    assert shares == pytest.approx((3 / 4, 5 / 6, 3 / 4, 5 / 6))
    assert site.sensitivity.error == pytest.approx(1 / np.sqrt(4 * 0.75 * 0.25))


def test_a_weight_of_three_gives_the_values_of_three_rows():
    """Measures of weighted rows are those of repeated rows; weights of one change nothing but the errors' formula."""
    repeated = np.repeat(np.arange(60), 1 + 2 * (ROWS % 2))
    weighted = clinical_report(EVENTS, RISKS, ["a"] * 60, threshold=0.4, sample_weight=1 + 2 * (ROWS % 2))
    plain = clinical_report(EVENTS[repeated], RISKS[repeated], ["a"] * len(repeated), threshold=0.4)
    for name in ("auroc", "slope", "intercept", "oe", "brier", "log_loss", "net_benefit", "sensitivity", "npv"):
        assert getattr(weighted.sites[0], name).value == pytest.approx(getattr(plain.sites[0], name).value, abs=1e-6)
    ones = clinical_report(EVENTS, RISKS, ["a"] * 60, sample_weight=np.full(60, 7.0)).sites[0]
    once = clinical_report(EVENTS, RISKS, ["a"] * 60).sites[0]
    assert (ones.auroc.error, ones.brier.error) == pytest.approx((once.auroc.error, once.brier.error))
    assert ones.slope.error == pytest.approx(once.slope.error, rel=0.3)


def test_a_row_of_weight_zero_does_not_exist():
    """Nor does a site that has only such rows."""
    weights = np.r_[np.ones(60), np.zeros(5)]
    report = clinical_report(
        np.r_[EVENTS, [1] * 5], np.r_[RISKS, [0.1] * 5], ["a"] * 60 + ["b"] * 5, sample_weight=weights
    )
    assert [site.name for site in report.sites] == ["a"]
    assert report.sites[0].n_rows == 60


@pytest.mark.parametrize(
    ("events", "risks", "threshold", "error", "message"),
    [
        ([0, 1], [0.5], None, InputError, r"events has shape \(2,\) and risks \(1,\)"),
        ([0, 2], [0.5, 0.5], None, LabelsError, "events has values other than 0 and 1"),
        ([0, 1], [0.5, 1.5], None, InputError, "risks has values outside 0 to 1"),
        ([0, 1], [0.5, 0.5], 1.0, ParameterError, "threshold must be between 0 and 1. Got 1 instead."),
    ],
)
def test_what_cannot_be_measured_is_refused(events, risks, threshold, error, message):
    """Shapes, labels, probabilities and thresholds are checked."""
    with pytest.raises(error, match=message):
        clinical_report(events, risks, ["a", "a"], threshold=threshold)


SCRIPT = """
suppressMessages({library(metafor); library(rms); library(stats)})
given <- commandArgs(TRUE)
read <- function(text) as.numeric(strsplit(text, ",")[[1]])
m <- rma(read(given[1]), read(given[2]), method = "REML", test = "knha"); p <- predict(m)
v <- val.prob(read(given[3]), read(given[4]), pl = FALSE)
g <- coef(glm(read(given[4]) ~ offset(qlogis(read(given[3]))), family = binomial))
cat(sprintf("[%s]", paste(sprintf("%.10f", c(m$b, m$tau2, m$I2 / 100, p$ci.lb, p$ci.ub, p$pi.lb, p$pi.ub,
    v["C (ROC)"], v["Brier"], v["Slope"], v["Intercept"], g)), collapse = ",")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_fresh_numbers_are_those_of_r(seed):
    """Random sites and risks get the numbers that metafor and rms give, where they are installed, to 1e-3."""
    rscript = shutil.which("Rscript")
    check = ["-e", 'cat(all(c("metafor", "rms") %in% rownames(installed.packages())))']
    if rscript is None or subprocess.run([rscript, *check], capture_output=True, text=True).stdout != "TRUE":
        pytest.skip("needs R with metafor and rms")
    generator = np.random.default_rng(seed)
    k = int(generator.integers(3, 15))
    variances = generator.uniform(0.01, 0.1, k)
    values = generator.normal(0.5, np.sqrt(variances + generator.choice([0.0, 0.05])))
    risks = special.expit(generator.normal(-0.5, 1.2, 300))
    events = (generator.random(300) < special.expit(0.3 + 0.8 * special.logit(risks))).astype(int)
    given = [",".join(f"{number:.12g}" for number in part) for part in (values, variances, risks, events)]
    answer = subprocess.run([rscript, "-e", SCRIPT, *given], capture_output=True, text=True, check=True)
    pooled = pool_sites("slope", [Estimate(y, y, y, np.sqrt(v)) for y, v in zip(values, variances, strict=True)])
    (site,) = clinical_report(events, risks, ["a"] * 300).sites
    found = (pooled.mean.value, pooled.tau2, pooled.i2, pooled.mean.low, pooled.mean.high)
    found += (pooled.next_site_plain.low, pooled.next_site_plain.high, site.auroc.value, site.brier.value)
    found += (site.slope.value, site.slope_intercept, site.intercept.value)
    assert found == pytest.approx(json.loads(answer.stdout), abs=1e-3)
