"""A model that exists already: sites that stand out are named, others are not, and the advice follows."""

import numpy as np
import pytest
from scipy import special

from holdfast.diagnosis.clinical import clinical_report
from holdfast.diagnosis.scores import find_sites, judge_scores

SITES = ("Aachen", "Berlin", "Essen", "Köln", "Mainz", "Ulm")


def patients(seed, n_rows=300, shift=None, slope=None):
    """Return events, stated risks and sites; log-odds of some sites are shifted, or multiplied by a slope."""
    generator = np.random.default_rng(seed)
    sites = np.repeat(SITES, n_rows)
    scores = generator.normal(-0.8, 1.1, len(sites))
    true = scores * np.vectorize((slope or {}).get)(sites, 1.0) + np.vectorize((shift or {}).get)(sites, 0.0)
    return generator.random(len(sites)) < special.expit(true), special.expit(scores), sites


def judged(*rows):
    """Return the diagnosis of events, stated risks and sites."""
    return judge_scores(clinical_report(*rows, event="yes"), name="risk", label="died")


def test_nothing_stands_out_where_nothing_is_wrong():
    """Of 60 tables without any difference at most 5 % name a site, and the model is kept."""
    named = [find_sites(clinical_report(*patients(seed, 150))) for seed in range(60)]
    assert sum(map(bool, named)) <= 3
    found = judged(*patients(0))
    assert (found.state, found.recommendation.action) == ("holds", "keep")
    assert str(found).startswith("The model holds at all 6 sites: AUROC 0.7")


def test_the_site_with_more_events_is_named_with_its_numbers():
    """Köln has far more events than stated; the other five are fine."""
    events, risks, sites = patients(1, shift={"Köln": 1.4})
    found = judged(events, risks, sites)
    assert [(finding.site, finding.question) for finding in found.findings] == [("Köln", "level")]
    here = sites == "Köln"
    stated, seen = 100 * risks[here].mean(), 100 * events[here].mean()
    expected = f"In Köln the model predicts `died` = yes for {stated:.0f} of 100 rows, and it occurs in {seen:.0f}."
    assert found.finding.startswith(expected)
    assert found.finding.endswith("Aachen, Berlin, Essen, Mainz and 1 more are fine.")
    assert found.recommendation.sentence == "Recalibrate the model in Köln."
    intercept = next(site.intercept.value for site in found.clinical.sites if site.name == "Köln")
    assert f"Köln {intercept:+.2f}" in found.recommendation.reason


def test_exchanged_labels_are_asked_for():
    """A ranking upside down at one site is no calibration problem."""
    events, risks, sites = patients(2, slope={"Ulm": -1.0})
    found = judged(events, risks, sites)
    assert [finding.question for finding in found.findings] == ["reversed"]
    assert "In Ulm the ranking is reversed" in str(found)
    assert found.recommendation.action == "repair"


def test_a_site_that_is_ranked_worse_is_named():
    """Half random labels at one site: an AUROC far below the others', which no recalibration mends."""
    events, risks, sites = patients(3, 600)
    generator = np.random.default_rng(0)
    noisy = (sites == "Essen") & (generator.random(len(sites)) < 0.8)
    events = np.where(noisy, generator.permutation(events), events)
    found = judged(events, risks, sites)
    assert found.findings[0].question == "ranking"
    assert found.findings[0].site == "Essen"
    assert (found.state, found.recommendation.action) == ("breaks", "collect")


def test_few_rows_promise_nothing():
    """With twelve rows at each site the answer is that more are needed."""
    found = judged(*patients(4, 12))
    assert found.state == "unclear"
    assert found.recommendation.sentence.startswith("Collect more rows")


def test_in_a_notebook_and_in_a_list():
    """The short form names state and action; the notebook gets a table with escaped names."""
    events, risks, sites = patients(0)
    found = judged(events, risks, np.where(sites == "Ulm", "<b>Ulm</b>", sites))
    assert repr(found) == "<ScoreDiagnosis risk: holds, keep>"
    html = found._repr_html_()
    assert "&lt;b&gt;Ulm&lt;/b&gt;" in html
    assert "<b>Ulm" not in html
    assert html.count("<tr>") == 7


@pytest.mark.parametrize("seed", range(3))
def test_a_site_is_not_named_for_what_all_sites_vary_by(seed):
    """Where AUROCs differ everywhere, one of the lowest is no outlier."""
    generator = np.random.default_rng(seed)
    slopes = dict(zip(SITES, np.exp(generator.normal(0, 0.35, 6)), strict=True))
    found = find_sites(clinical_report(*patients(seed + 10, 400, slope=slopes)))
    assert not [finding for finding in found if finding.question in ("ranking", "reversed")]
