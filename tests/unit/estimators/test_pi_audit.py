import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from holdfast import PIClassifier
from holdfast.audit.run import AuditSettings, audit_data
from holdfast.exceptions import CollapseWarning, EnvironmentsError

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


@pytest.mark.parametrize("halves", ["hard", "soft"])
def test_the_environments_of_fit_are_remembered(sites, halves):
    """Without environments the rows are those of fit; their environments are in the partitions."""
    X, y, places = sites
    model = PIClassifier(halves=halves, random_state=0).fit(X, y, environments=places)
    assert model._fitted_environments(1200).tolist() == places.tolist()
    assert model.audit(X, y).named == ("scanner",)


def test_other_rows_need_environments(model, sites):
    """A number of rows that is not that of fit is refused, and so is a classifier that was not fitted."""
    X, y, places = sites
    with pytest.raises(
        EnvironmentsError, match="takes the rows of fit, which were 1200 in several environments. Got 100 labels"
    ):
        model.audit(X[:100], y[:100])
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
