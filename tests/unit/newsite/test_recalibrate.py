"""Recalibration: what is chosen, how it shrinks, how many labels are enough."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from holdfast import ERMClassifier, StableClassifier, TableClassifier, load
from holdfast.exceptions import TableError
from holdfast.newsite.recalibrate import RecalibratedClassifier, enough_labels, recalibrate


def site(n_rows, *, slope=1.0, intercept=0.0, seed=0):
    """Return log-probabilities of a classifier, and labels whose log-odds are slope times theirs plus intercept."""
    generator = np.random.default_rng(seed)
    lead = generator.normal(0, 1.5, n_rows)
    y = (generator.random(n_rows) < special.expit(intercept + slope * lead)).astype(np.intp)
    return special.log_softmax(np.column_stack([np.zeros(n_rows), lead]), axis=1), y


@pytest.mark.parametrize(
    ("change", "kind"),
    [({}, "none"), ({"intercept": 1.0}, "intercept"), ({"slope": 0.3, "intercept": 1.0}, "slope and intercept")],
)
def test_the_evidence_chooses_what_is_corrected(change, kind):
    """With 400 rows the right model is chosen, and its coefficients are those of the site."""
    found = recalibrate(*site(400, **change))
    assert found.kind == kind
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert found.calibration.scale == pytest.approx(change.get("slope", 1.0), abs=0.15)
    intercept = found.calibration.offsets[1] - found.calibration.offsets[0]
    assert intercept == pytest.approx(change.get("intercept", 0.0), abs=0.3)


def test_the_models_are_averaged():
    """Where the rows leave open whether to correct, half of the correction is made, and more labels are called for."""
    scores, y = site(40, intercept=0.7, seed=3)
    found = recalibrate(scores, y)
    assert 0.1 < found.probabilities["none"] < 0.9
    whole = recalibrate(*site(4000, intercept=0.7)).calibration.offsets
    assert 0 < found.calibration.offsets[1] < whole[1]
    assert found.n_enough == 100


@pytest.mark.parametrize(("slope", "is_reversed"), [(-1.0, True), (0.0, False), (1.0, False)])
def test_a_ranking_that_is_upside_down_is_said(slope, is_reversed):
    """No map of the scores with a positive slope mends it; chance is no reversal."""
    found = recalibrate(*site(60, slope=slope))
    assert found.is_reversed is is_reversed
    assert ("The ranking is reversed at this site (AUROC 0." in str(found)) is is_reversed
    assert ("adapt the model" in str(found)) is is_reversed
    assert ("ranking may be no better than chance" in str(found)) is (slope == 0)
    assert ("Their AUROC is 0." in str(found)) is not is_reversed


def test_few_rows_are_shrunk():
    """Ten positive rows of ten move the log-odds by less than the infinity that they would be alone."""
    scores = np.log(np.full((10, 2), 0.5))
    found = recalibrate(scores, np.ones(10, dtype=np.intp))
    assert found.kind == "intercept"
    assert 0.8 < found.calibration.probabilities(scores)[0, 1] < 0.97


def test_the_intercept_is_known_in_closed_form():
    """Equal scores and 60 of 80 positive rows: the maximum solves 60 - 80 p = (log-odds of p) / 2."""
    scores = np.log(np.full((80, 2), 0.5))
    found = recalibrate(scores, (np.arange(80) < 60).astype(np.intp))
    assert found.probabilities["none"] < 0.001  # which is in the average
    p = found.calibration.probabilities(scores)[0, 1]
    assert 60 - 80 * p == pytest.approx(special.logit(p) / 2, abs=0.005)


def test_three_classes_get_an_intercept_each():
    """Class shares of a site are reproduced."""
    scores = np.log(np.full((300, 3), 1 / 3))
    y = np.repeat(np.arange(3), [200, 60, 40])
    found = recalibrate(scores, y)
    assert found.kind == "intercept"
    np.testing.assert_allclose(found.calibration.probabilities(scores)[0], [0.667, 0.2, 0.133], atol=0.01)


def test_enough_labels_is_never_more_than_the_site_has():
    """An intercept needs 50 rows, a rare class more; a site of 40 rows is never asked for more."""
    assert enough_labels("intercept", 2, 0.5) == 50
    assert enough_labels("intercept", 2, 0.02) == 500
    scores, y = site(30)
    assert recalibrate(scores, y).n_enough >= 50
    assert recalibrate(scores, y, n_rows_of_site=40).n_enough == 40


def test_an_estimator_is_recalibrated_and_stays_as_it_was():
    """A copy is returned; recalibrating it again replaces the correction."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2))
    y = np.where(X[:, 0] + generator.normal(size=200) > 0, "ill", "well")
    model = ERMClassifier().fit(X, y, environments=np.arange(200) % 2)
    before = model.predict_proba(X)
    other = np.where(generator.random(200) < 0.9, "ill", "well")
    once = model.recalibrate(X, other)
    twice = once.recalibrate(X, other)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    np.testing.assert_array_equal(once.predict_proba(X), twice.predict_proba(X))
    assert once.predict_proba(X)[:, 0].mean() == pytest.approx(0.9, abs=0.05)
    assert isinstance(once.estimator_, RecalibratedClassifier)


def hospitals():
    """Return two hospitals whose rows are ill where the sign says so, and a third where half of the others are too."""
    rows = pd.DataFrame({"site": ["A", "B"] * 40, "sign": [0, 1, 1, 0] * 20, "ill": [0, 1, 1, 0] * 20})
    return rows, rows.assign(site="C", ill=[0, 1, 1, 1] * 20)


@pytest.mark.parametrize("method", ["erm", "stable"])
def test_a_recalibrated_table_classifier_is_saved_without_rows(tmp_path, method):
    """It loads and answers the same, as a pipeline too, and the one that it was made of stays as it was."""
    rows, new = hospitals()
    model = TableClassifier(label="ill", environment="site", method=method).fit(rows)
    before = model.predict_proba(rows)
    corrected = model.recalibrate(new)
    np.testing.assert_array_equal(model.predict_proba(rows), before)
    corrected.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), corrected.predict_proba(rows))
    np.testing.assert_array_equal(
        load(tmp_path / "model").predict_proba(rows[["sign"]] * 1.0), loaded.predict_proba(rows)
    )
    assert loaded.recalibration_.n_labels == 80
    assert model.recalibration_ is None
    assert loaded.evaluate(new).overall.log_loss < model.evaluate(new).overall.log_loss


def test_rows_without_a_label_tell_how_large_the_site_is():
    """Thirty labels of 40 rows: no more than 40 are asked for."""
    rows, new = hospitals()
    model = TableClassifier(label="ill", environment="site", method="erm").fit(rows)
    some = new[:40].assign(ill=new["ill"][:40].where(np.arange(40) < 30))
    found = model.recalibrate(some).recalibration_
    assert (found.n_labels, found.n_enough) == (30, 40)
    assert str(found).endswith("About 40 labeled rows would be enough.")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([None] * 80, "column 'ill' is empty in all 80 rows"),
        ([1] * 80, "at least two classes of 'ill'. The label is .* in all 80 labeled rows"),
        ([0, 1, 2, 3] * 20, "does not know: 2, 3"),
    ],
)
def test_labels_that_do_not_help_are_refused(labels, message):
    """No label, one class only, and labels of no class that was fitted."""
    rows, new = hospitals()
    model = TableClassifier(label="ill", environment="site", method="erm").fit(rows)
    with pytest.raises(TableError, match=message):
        model.recalibrate(new.assign(ill=labels))


def test_a_stable_classifier_keeps_its_verdict():
    """Recalibration changes probabilities and nothing that was said."""
    rows, new = hospitals()
    model = StableClassifier().fit(rows[["sign"]], rows["ill"], environments=rows["site"])
    assert model.recalibrate(new[["sign"]], new["ill"]).verdict_ is model.verdict_
