"""`StableRegressor`: the ordinary model where nothing changes, and what is fitted where something does."""

from unittest.mock import patch

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from holdfast import StableRegressor, load, save
from holdfast.estimators import mixing
from holdfast.estimators.base import scaled
from holdfast.exceptions import HoldfastWarning, ParameterError, SingleEnvironmentWarning
from holdfast.stable.removal import MixedRegressor

SLOPES = {"Boston": 1.0, "Chicago": 1.0, "Denver": -0.2}


def costs(slopes=SLOPES, n_rows=400, seed=0):
    """Return age, weight and a device that follows the cost with a slope of each site; the cost; and the site."""
    generator = np.random.default_rng(seed)
    site = np.repeat(list(slopes), n_rows)
    age, weight = generator.normal(size=(2, len(site)))
    cost = age + 0.5 * weight + generator.normal(size=len(site))
    device = np.array([slopes[name] for name in site]) * cost + 0.5 * generator.normal(size=len(site))
    return np.column_stack([age, weight, device]), cost, site


def test_where_nothing_changes_it_is_the_ordinary_model():
    """To the last bit."""
    X, y, site = costs(dict.fromkeys(SLOPES, 1.0))
    model = StableRegressor().fit(X, y, environments=site)
    plain = scaled(X, ("ridge", Ridge())).fit(X, y)
    assert model.verdict_.fitted == "ordinary"
    assert (model.predict(X) == plain.predict(X)).all()
    assert model.verdict_.answer == "Ordinary model: none of the 3 columns has an effect that differs between sites."
    assert model.verdict_.price.value == 0.0


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=5)])
def test_a_reversed_column_is_ignored(estimator):
    """The model is the one without the column, and is much better where the column reverses."""
    X, y, site = costs()
    model = StableRegressor(estimator, random_state=0).fit(X, y, environments=site)
    assert model.verdict_.kept == {"x2": 0.0}
    there, truth, _ = costs({"Erie": -1.0}, seed=1)
    errors = [
        np.sqrt(np.mean((truth - found) ** 2)) for found in (model.ordinary_.predict(there), model.predict(there))
    ]
    assert errors[1] < 0.9 * errors[0]
    assert model.verdict_.forecast.low < errors[1] < model.verdict_.forecast.high
    changed = np.column_stack([there[:, :2], np.zeros(len(there))])
    assert model.predict(changed) == pytest.approx(model.predict(there))


def test_the_verdict_says_what_it_costs_and_saves():
    """R² and RMSE at known sites, if the effect vanishes and if it reverses, are those of numpy on known rows."""
    X, y, site = costs()
    verdict = StableRegressor().fit(X, y, environments=site).verdict_
    assert verdict.known.fitted == pytest.approx(1 - verdict.rmse["known"].fitted ** 2 / y.var())
    assert verdict.price.value == pytest.approx(verdict.known.ordinary - verdict.known.fitted)
    assert verdict.reversed.ordinary < verdict.known.ordinary
    assert verdict.vanished.fitted == verdict.reversed.fitted == verdict.known.fitted  # it does not see the column
    assert verdict.rmse["known"].fitted == pytest.approx(1.0, abs=0.1)
    first, second, *_ = verdict.remarks
    assert first.startswith("At known sites: R² 0.")
    assert "if it reverses: R²" in second
    assert verdict.columns[0].sentence.endswith(
        "a higher value raises the label in Boston, and does the opposite in Denver."
    ) or "in Chicago, and does the opposite in Denver" in str(verdict.columns[0].sentence)
    assert set(verdict.to_dict()["rmse"]) == {"known", "vanished", "reversed"}


def test_caution_zero_gives_nothing_up():
    """The path still shows what the default would save."""
    X, y, site = costs()
    model = StableRegressor(caution=0.0).fit(X, y, environments=site)
    assert model.verdict_.fitted == "ordinary"
    assert "caution is 0" in model.verdict_.answer
    saved = [point.reversed.fitted - point.reversed.ordinary for point in model.path_]
    assert saved[0] == 0.0 < saved[-1]
    with pytest.raises(ParameterError, match="'caution' parameter of StableRegressor must lie between 0 and 1. Got 2"):
        StableRegressor(caution=2).fit(X, y, environments=site)


def test_one_environment_is_the_ordinary_model():
    """With a warning, and a verdict without figures."""
    X, y, _ = costs()
    with pytest.warns(SingleEnvironmentWarning, match="StableRegressor compares environments"):
        model = StableRegressor().fit(X, y)
    assert model.verdict_.answer.startswith("Ordinary model: there is only one environment")
    assert (model.path_, model.verdict_.remarks) == ((), ())


def test_rows_of_weight_two_are_two_rows():
    """As evidence, in the fit and in the figures."""
    X, y, site = costs(n_rows=150)
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = StableRegressor().fit(X, y, environments=site, sample_weight=weights)
    with pytest.warns(HoldfastWarning, match="are exact copies of others"):
        copied = StableRegressor().fit(X[rows], y[rows], environments=site[rows])
    assert weighted.ordinary_.predict(X) == pytest.approx(copied.ordinary_.predict(X), abs=0.01)
    assert weighted.verdict_.rmse["known"].ordinary == pytest.approx(copied.verdict_.rmse["known"].ordinary, rel=0.03)


def test_a_mixture_is_saved_and_loaded(tmp_path):
    """Predictions and verdict are the same, to the last bit."""
    X, y, site = costs(SLOPES)
    model = StableRegressor(caution=0.4).fit(X, y, environments=site)
    assert isinstance(model.estimator_, MixedRegressor)
    assert model.verdict_.fitted == "partly"
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.verdict_ == model.verdict_


def test_weights_of_the_mixture_are_the_kept_shares():
    """The column is seen by the ordinary model alone, with the kept share as its weight."""
    X, y, site = costs(SLOPES)
    model = StableRegressor(caution=0.4).fit(X, y, environments=site)
    kept = model.verdict_.kept["x2"]
    assert model.estimator_.weights == pytest.approx([kept, 1 - kept])
    ordinary, without = (
        part.predict(rows)
        for part, rows in zip(model.estimator_.estimators, [X, model.estimator_.removals[1].apply(X)], strict=True)
    )
    assert model.predict(X) == pytest.approx(kept * ordinary + (1 - kept) * without)


def test_boosting_of_parts_stops_where_that_of_all_rows_stopped():
    """scikit-learn stops early on more than 10,000 rows only: parts of the rows would be fitted longer, and differ."""
    X, y, site = costs(n_rows=3400)
    with patch.object(mixing, "fit_folds", wraps=mixing.fit_folds) as fitted:
        model = StableRegressor(HistGradientBoostingRegressor(max_iter=60), random_state=0).fit(X, y, environments=site)
    assert model.ordinary_.n_iter_ < 60
    assert {call.args[0].max_iter for call in fitted.call_args_list} == {model.ordinary_.n_iter_}
