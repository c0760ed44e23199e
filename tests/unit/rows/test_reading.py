"""Arguments of `fit` that are read in a way the user may not expect are said."""

import numpy as np
import pandas as pd
import pytest

from holdfast import ERMClassifier
from holdfast.exceptions import HoldfastWarning

generator = np.random.default_rng(0)
X = pd.DataFrame({"a": generator.normal(size=60), "b": generator.normal(size=60)})
y = pd.Series(np.tile([0, 1], 30))
sites = pd.Series(np.repeat(["Boston", "Lyon"], 30))


@pytest.mark.parametrize("name", ["environments", "sample_weight"])
def test_labels_in_another_order_are_noticed(name):
    """Rows are read by position, as in scikit-learn: what has the same index in another order may be a mistake."""
    given = {"environments": sites, "sample_weight": pd.Series(np.ones(60))}
    ERMClassifier().fit(X, y, **given)
    given[name] = given[name].iloc[::-1]
    with pytest.warns(HoldfastWarning, match=f"{name} has the index of X in another order"):
        ERMClassifier().fit(X, y, **given)


def test_another_index_is_no_other_order():
    """Labels that were numbered anew, or have an index with copies, are read by position without a word."""
    ERMClassifier().fit(X, y.set_axis(range(100, 160)), environments=sites.set_axis([0] * 60))


def test_weights_of_a_survey_are_noticed():
    """Weights count rows. Those that are not whole numbers and large make evidence of noise."""
    for weights in (np.full(60, 10.0), np.full(60, 0.5)):
        ERMClassifier().fit(X, y, environments=sites, sample_weight=weights)
    with pytest.warns(HoldfastWarning, match="these 60 rows count as 630. Divide weights of a survey by their mean"):
        ERMClassifier().fit(X, y, environments=sites, sample_weight=np.full(60, 10.5))
