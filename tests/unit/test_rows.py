"""What `fit` was handed, where it is unusual: lists with gaps, rare environments, settings by column, refits."""

import numpy as np
import pandas as pd
import pytest
from holdfast.interpolation.invariant import find_step
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import (
    ERMClassifier,
    ExtrapolationClassifier,
    GroupDROClassifier,
    NeuralClassifier,
    PIClassifier,
    PIRegressor,
)
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError
from holdfast.interpolation import invariant as steps
from holdfast.judging.judgements import Evidence

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def made(n_rows=400, seed=0):
    """Return two columns, of which the second follows the label less in the second site."""
    rng = np.random.default_rng(seed)
    y, site = rng.integers(2, size=n_rows), np.repeat(["a", "b"], n_rows // 2)
    stable = np.where(rng.random(n_rows) < 0.75, y, 1 - y)
    unstable = np.where(rng.random(n_rows) < np.where(site == "a", 0.95, 0.7), y, 1 - y)
    return np.column_stack([stable, unstable]).astype(float), y, site


@pytest.mark.parametrize("classifier", [ERMClassifier(), PIClassifier(), NeuralClassifier("linear", max_epochs=1)])
def test_a_gap_in_a_list_is_no_label(classifier):
    """Numpy would write NaN as the text 'nan' beside other texts."""
    X, y, _ = made(20)
    labels = [*np.where(y, "ill", "well").tolist()[:-1], float("nan")]
    with pytest.raises(LabelsError, match="contains NaN or None"):
        classifier.fit(X, labels)


def test_a_gap_in_a_list_is_no_environment():
    """Neither is a number beside texts the same as its text."""
    X, y, site = made(20)
    with pytest.raises(EnvironmentsError, match=r"environments is missing \(NaN or None\) in 1 of 20 rows"):
        PIClassifier().fit(X, y, environments=[*site.tolist()[:-1], float("nan")])
    with pytest.raises(EnvironmentsError, match="environments mixes labels of types int, str"):
        PIClassifier().fit(X, y, environments=[*site.tolist()[:-1], 1])


def test_only_judges_are_limited_in_number():
    """Methods without pairs of environments take any number of them."""
    X, y, _ = made(4000)
    many = np.arange(4000) % 400
    assert len(ERMClassifier().fit(X, y, environments=many).environments_) == 400
    assert len(GroupDROClassifier().fit(X, y, environments=many).environments_) == 400
    for classifier in (PIClassifier(), ExtrapolationClassifier(min_group_size=1)):
        with pytest.raises(EnvironmentsError, match="environments has 400 different labels; every pair of them is"):
            classifier.fit(X, y, environments=many)


def test_rare_environments_are_looked_at_whole(monkeypatch):
    """However few of very many rows an environment has, the search for equal risks sees them, at their own weight."""
    monkeypatch.setattr(steps, "MOST_ROWS", 2_000)
    monkeypatch.setattr(steps, "LEAST_ROWS", 100)
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [9_000, 6_000, 5])
    kept, weights = steps._drawn(np.arange(15_005), codes, np.ones(15_005), rng)
    assert np.bincount(codes[kept])[2] == 5
    shares = np.bincount(codes[kept], weights[kept]) / weights[kept].sum()
    np.testing.assert_allclose(shares, np.bincount(codes) / 15_005, atol=0.02)
    y = rng.integers(2, size=15_005)
    judges = rng.normal(size=(3, 15_005, 2))
    step = find_step(Evidence(judges.mean(0), judges, joint=False, are_probabilities=False), y, codes)
    assert np.isfinite(step.risks).all()


def test_settings_by_column_are_those_of_the_users_columns():
    """Judges with environment columns behind the rows would ask for four settings where the user has two."""
    X, y, site = made()
    for estimator in (
        DecisionTreeClassifier(monotonic_cst=[1, 0], max_depth=2),
        HistGradientBoostingClassifier(categorical_features=[False, True], max_iter=5),
    ):
        model = PIClassifier(estimator, random_state=0).fit(X, y, environments=site)
        assert model.score(X, y) > 0.6


def test_frames_reach_estimators_that_choose_columns_by_name_or_type():
    """By a name in a setting, a category's type, or a pipeline inside of a search."""
    X, y, site = made()
    frame = pd.DataFrame(X, columns=["stable", "unstable"])
    by_name = HistGradientBoostingClassifier(categorical_features=["unstable"], max_iter=5)
    model = PIClassifier(by_name, random_state=0).fit(frame, y, environments=site)
    assert model.estimator_.is_categorical_.tolist() == [False, True]
    typed = frame.assign(unstable=frame["unstable"].astype("category"))
    model = ERMClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(typed, y, environments=site)
    assert model.estimator_.is_categorical_.tolist() == [False, True]
    search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]})
    model = ERMClassifier(search).fit(frame, y, environments=site)
    assert model.estimator_.best_estimator_.feature_names_in_.tolist() == ["stable", "unstable"]


def test_rows_without_weight_change_nothing():
    """Neither the scaler nor the penalty of the exact solver sees them."""
    X, y, site = made()
    far = np.vstack([X, np.full((50, 2), 1e3)])
    longer = {"environments": np.append(site, ["a"] * 50), "sample_weight": np.append(np.ones(400), np.zeros(50))}
    for method in (PIClassifier(interpolation="worst_case", random_state=0), GroupDROClassifier(random_state=0)):
        plain = method.fit(X, y, environments=site, sample_weight=np.ones(400)).predict_proba(X)
        weighted = method.fit(far, np.append(y, [0, 1] * 25), **longer).predict_proba(X)
        np.testing.assert_allclose(weighted, plain, atol=2e-3)


def test_folds_that_hold_a_whole_environment_are_refused():
    """Its classifier could not be calibrated out of fold."""
    X, y, site = made()
    for classifier in (ExtrapolationClassifier(), PIClassifier()):
        with pytest.raises(EnvironmentsError, match="folds puts all rows of environment 'a' into one fold"):
            classifier.fit(X, y, environments=site, folds=site)


def test_what_the_invariant_interpolation_would_ignore_is_refused():
    """Groups that are known, and a solver."""
    X, y, site = made()
    with pytest.raises(ParameterError, match="so that group_labels would have no effect"):
        PIClassifier(interpolation="invariant").fit(X, y, environments=site, group_labels=y)
    with pytest.raises(ParameterError, match="so that solver='reweight' would have no effect"):
        PIClassifier(interpolation="invariant", solver="reweight").fit(X, y, environments=site)
    with pytest.raises(ParameterError, match="'objective' parameter of PIRegressor must be one of"):
        PIRegressor(objective="mean").fit(X, X[:, 0], environments=site)


def test_a_text_that_is_missing_is_named():
    """By its row, before anything is fitted."""
    texts = ["good beer", "bad beer", None, "beer"] * 5
    model = ERMClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    with pytest.raises(FeaturesError, match="5 of them are missing or no text, the first in row 2. Drop those rows"):
        model.fit(texts, [0, 1, 0, 1] * 5)


def test_validation_labels_are_counted_before_the_fit():
    """One label for each row."""
    X, y, site = made()
    with pytest.raises(LabelsError, match="validation has 40 labels for 50 rows"):
        ERMClassifier().fit(X, y, environments=site, validation=(X[:50], y[:40]))


def test_nothing_of_an_earlier_fit_stays():
    """A score of other rows, and weights of groups that are gone."""
    X, y, site = made()
    model = PIClassifier(interpolation="worst_case").fit(X, y, environments=site, validation=(X, y))
    assert model.validation_score_ > 0.5
    model.fit(X, y)
    assert not hasattr(model, "validation_score_")
    assert len(model.group_weights_) == len(model.groups_) == 0


def test_merged_environments_keep_the_labels_of_the_others():
    """Numbers stay numbers beside the name of the merged ones, as in `environment_classifiers_`."""
    X, y, _ = made()
    sites = np.append(np.arange(397) % 2, [2, 3, 4])
    model = PIClassifier(random_state=0).fit(X, y, environments=sites)
    assert list(model.environments_) == [0, 1, "(3 small environments)"]
    assert set(model.environment_classifiers_) == set(model.environments_)
