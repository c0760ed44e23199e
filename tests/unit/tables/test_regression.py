"""Tables whose label is an amount: reading, fitting, saving, evaluating and diagnosing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from holdfast import TableClassifier
from holdfast.exceptions import LabelsError, ParameterError, SavedModelError, TableError
from holdfast.tables.regression import TableRegressor, diagnose_regression
from holdfast.tables.roles import TableOptions, is_amount, read_rows


def costs(n_rows=150, seed=0, shift=0.0):
    """Return rows of four hospitals; the fourth is dearer by `shift`."""
    generator = np.random.default_rng(seed)
    site = np.repeat(["Boston", "Chicago", "Denver", "Erie"], n_rows)
    age, sex = generator.normal(60, 10, len(site)).round(), generator.choice(["f", "m"], len(site))
    cost = 3 * age + 20 * (sex == "m") + generator.normal(0, 10, len(site)) + shift * (site == "Erie")
    return pd.DataFrame({"site": site, "age": age, "sex": sex, "cost": cost.round(2)})


def test_amounts_are_detected_and_said():
    """Decimals, and whole numbers with many values; classes and codes stay classes."""
    assert is_amount(pd.Series([1.5, 2.0]), "cost")
    assert is_amount(pd.Series(range(400)), "cost")
    assert not is_amount(pd.Series([0.0, 1.0] * 50), "ill")
    assert not is_amount(pd.Series(list(range(60)) * 50), "code")
    assert not is_amount(pd.Series(["yes", "no"]), "ill")
    rows = read_rows(costs(), TableOptions(label="cost", environment="site", task="auto"))
    assert rows.task == "regression"
    assert "label 'cost' is numeric, so this is a regression" in rows.notes[0]
    assert rows.y.dtype == np.float64


@pytest.mark.parametrize("method", ["stable", "erm", "pi"])
def test_a_saved_regressor_predicts_the_same(tmp_path, method):
    """Every method: R² near what the data allows, and the same numbers after loading."""
    frame = costs()
    model = TableRegressor(label="cost", environment="site", method=method).fit(frame)
    assert model.score(frame) > 0.8
    model.save(tmp_path / "model")
    loaded = TableRegressor.load(tmp_path / "model")
    assert loaded.predict(frame.drop(columns="cost")) == pytest.approx(model.predict(frame))
    assert loaded.names == {"estimator": "ridge", "method": method}
    with pytest.raises(SavedModelError, match="is a regression model"):
        TableClassifier.load(tmp_path / "model")


def test_it_is_evaluated_by_site():
    """RMSE of all rows and of each site are those of numpy; known sites are said."""
    frame = costs(shift=40.0)
    model = TableRegressor(label="cost", environment="site", estimator=LinearRegression())
    model.fit(frame[frame["site"] != "Erie"])
    found = model.evaluate(frame)
    errors = frame["cost"] - model.predict(frame)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.report.sites[3].bias.value == pytest.approx(errors[frame["site"] == "Erie"].mean())
    assert found.known == ("Boston", "Chicago", "Denver")
    assert "the largest RMSE is" in str(found)
    assert "in Erie (new)" in str(found)


def test_the_dear_hospital_is_named():
    """Left out in turn; without it nothing is named."""
    options = TableOptions(label="cost", environment="site", task="regression")
    found = diagnose_regression(read_rows(costs(shift=40.0), options))
    assert found.shifted == ("Erie",)
    assert found.state == "miscalibrated"
    sound = diagnose_regression(read_rows(costs(), options), estimator="forest")
    assert (sound.state, sound.shifted, sound.worse) == ("holds", (), ())
    assert sound.new.pooled_of("rmse").mean.value == pytest.approx(10, abs=2)


def with_device(frame):
    """Return the rows with a device that follows the cost, and goes the other way in Denver."""
    noise = np.random.default_rng(5).normal(0, 10, len(frame))
    above = frame["cost"] - frame["cost"].mean()
    return frame.assign(device=np.where(frame["site"] == "Denver", -1, 1) * above + noise)


def test_a_device_that_goes_the_other_way_is_ignored_and_told(tmp_path):
    """`fit` ignores it, `diagnose` recommends that, the saved model knows why."""
    frame = with_device(costs())
    model = TableRegressor(label="cost", environment="site").fit(frame)
    assert model.verdict_.kept["device"] < 0.5
    model.save(tmp_path / "model")
    assert TableRegressor.load(tmp_path / "model").verdict_ == model.verdict_
    found = diagnose_regression(read_rows(frame, TableOptions(label="cost", environment="site", task="regression")))
    assert (found.recommendation.action, found.recommendation.columns) == ("stable", ("device",))
    assert "Use the stable model, which relies less on `device`" in str(found)
    assert found.verdict == model.verdict_
    assert found.to_dict()["verdict"]["fitted"] == "stable"
    plain = TableRegressor(label="cost", environment="site", method="erm").fit(frame)
    assert plain.verdict_ is None


def test_weights_count():
    """Rows of weight zero are not fitted on."""
    frame = costs().assign(w=lambda rows: (rows["site"] != "Erie").astype(float))
    frame.loc[frame["site"] == "Erie", "cost"] += 1000
    weighted = TableRegressor(label="cost", environment="site", weight="w").fit(frame)
    assert weighted.predict(frame).max() < 400


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"cost": "a"}, LabelsError, "contains string values such as 'a', so it is not an amount"),
        ({"cost": 1.0}, LabelsError, "is 1 in every row"),
        ({"cost": np.inf}, LabelsError, "contains infinity"),
        ({"cost": np.nan}, TableError, "Label column 'cost' is missing"),
    ],
)
def test_labels_that_are_no_amounts_are_refused(change, error, message):
    """Texts, constants, infinity and gaps."""
    with pytest.raises(error, match=message):
        TableRegressor(label="cost", environment="site").fit(costs().assign(**change))


def test_names_and_estimators_are_checked():
    """Methods and estimators of classes are refused with what there is."""
    with pytest.raises(ParameterError, match="There is no method 'irm' for numbers"):
        TableRegressor(label="cost", environment="site", method="irm").fit(costs())
    with pytest.raises(ParameterError, match="method='erm' has no setting caution=1"):
        TableRegressor(label="cost", environment="site", method="erm", method_options={"caution": 1}).fit(costs())
    with pytest.raises(ParameterError, match="There is no estimator 'naive_bayes' of numbers"):
        TableRegressor(label="cost", environment="site", estimator="naive_bayes").fit(costs())
    with pytest.raises(ParameterError, match="must be a scikit-learn regressor. Got LogisticRegression"):
        TableRegressor(label="cost", environment="site", estimator=LogisticRegression()).fit(costs())
