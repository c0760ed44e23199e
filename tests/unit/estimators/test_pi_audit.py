import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from holdfast import PIClassifier
from holdfast.auditing.run import AuditSettings, audit_data
from holdfast.exceptions import CollapseWarning

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")


@pytest.fixture(scope="module")
def sites():
    """Return rows of two sites, in mixed order, where a scanner follows the label 95 and 75 times in 100."""
    generator = np.random.default_rng(0)
    places = generator.permutation(np.repeat(["Boston", "Lyon"], 600))
    y = generator.integers(2, size=1200)
    follows = generator.random(1200) < np.where(places == "Boston", 0.95, 0.75)
    lesion = 2 * y - 1 + generator.normal(size=1200)
    return pd.DataFrame({"lesion": lesion, "scanner": np.where(follows, y, 1 - y)}), y, places


@pytest.fixture(scope="module")
def model(sites):
    """Return a classifier fitted on the sites."""
    X, y, places = sites
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        return PIClassifier(random_state=0).fit(X, y, environments=places)


def test_the_scanner_is_named(model, sites):
    """The method is the function of the package, on any rows."""
    X, y, places = sites
    audit = model.audit(X, y, places)
    assert audit.named == ("scanner",)
    pd.testing.assert_frame_equal(audit.to_frame(), audit_data(X, y, places).to_frame())


def test_a_classifier_must_be_fitted(sites):
    """One that was not fitted is refused, as by every other method."""
    X, y, places = sites
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PIClassifier().audit(X, y, places)


def test_the_method_takes_the_settings_of_the_function(model, sites):
    """Level and groups are passed on: columns that are grouped have one finding."""
    X, y, places = sites
    settings = AuditSettings(groups={"both": ["lesion", "scanner"]}, level=0.2)
    audit = model.audit(X, y, places, settings=settings)
    assert audit.named == ("both",)
    assert audit.level == 0.2
    assert audit.to_dict() == audit_data(X, y, places, settings).to_dict()
