"""The check for skore's reports."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast import StableClassifier
from holdfast.integrations.skore import NewSiteCheck
from holdfast.metrics import Interval
from holdfast.newsite.check import SiteCheck


@pytest.fixture(scope="module")
def model():
    """Return a classifier of two sites."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=800)
    X = np.column_stack([y + generator.normal(0, 0.8, 800), generator.normal(size=800)])
    return X, y, StableClassifier().fit(X, y, environments=np.repeat([0, 1], 400))


def test_the_advice_is_the_finding(model):
    """Nothing is found where the model can be used; another unit is explained."""
    X, _, fitted = model
    assert NewSiteCheck().check_function(SimpleNamespace(estimator_=fitted, X_test=X[:300])) is None
    found = NewSiteCheck().check_function(SimpleNamespace(estimator_=fitted, X_test=X[:300] * [40, 1] + [90, 0]))
    assert found.startswith("Do not use the model at this site yet: `x0` must be repaired first.")


@pytest.mark.parametrize(("low", "is_found"), [(0.7, False), (0.4, True)])
def test_a_model_that_may_be_much_worse_there_is_found(low, is_found):
    """The advice is to use it and to label rows to make sure, which a report has to say."""
    found = SiteCheck(300, "use", (), (), None, Interval(0.8, low, 0.95), None, 0.8, 0.75, {"no": 1.0})
    estimator = SimpleNamespace(check=lambda rows: found)
    said = NewSiteCheck().check_function(SimpleNamespace(estimator_=estimator, X_test=np.zeros((300, 1))))
    assert (said is not None) is is_found


def test_in_a_report_of_skore(model):
    """skore takes the check, and other estimators are not applicable."""
    skore = pytest.importorskip("skore")
    X, y, fitted = model
    sections = []
    for estimator, rows in ((fitted, X * [40, 1] + [90, 0]), (fitted, X), (LogisticRegression().fit(X, y), X)):
        report = skore.EstimatorReport(estimator, X_test=rows[:300], y_test=y[:300])
        report.checks.add([NewSiteCheck()])
        found = report.checks.summarize(ignore=[]).frame()
        sections.append(found.loc[found["code"] == "HFT001", "section"].tolist())
    assert sections == [["issue"], ["passed"], ["not_applicable"]]
