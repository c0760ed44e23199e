"""Which method for my data."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from holdfast import ERMClassifier, PIClassifier
from holdfast.exceptions import EnvironmentsError, LabelsError, ParameterError
from holdfast.neural import NeuralClassifier
from holdfast.tables.comparison import HELD_OUT, LEFT_OUT, compare_methods


def turning(agreements, n_rows=400, seed=0):
    """Return a stable column (0.85) and one whose agreement with the label differs by environment, in -1/+1."""
    generator = np.random.default_rng(seed)
    n_total = n_rows * len(agreements)
    y = generator.integers(2, size=n_total)
    stable = np.where(generator.random(n_total) < 0.85, y, 1 - y)
    unstable = np.where(generator.random(n_total) < np.repeat(agreements, n_rows), y, 1 - y)
    X = 2.0 * np.stack([stable, unstable], axis=1) - 1.0
    return X, y, np.repeat([f"site {number}" for number in range(len(agreements))], n_rows)


def test_an_environment_where_the_feature_turns_speaks_for_the_stable_classifier():
    """With sites at 0.99, 0.85 and 0.1 ERM fails at the third when it is left out, the stable one does not."""
    X, y, sites = turning([0.99, 0.85, 0.1], n_rows=1500)
    result = compare_methods(X, y, sites, methods=["erm", "stable"], estimator=LogisticRegression())
    by_name = {score.method: score for score in result.scores}
    assert result.protocol == LEFT_OUT
    assert by_name["erm"].parts["site 2"] < 0.3
    assert by_name["stable"].parts["site 2"] > 0.7
    assert by_name["stable"].gain_low > 0
    assert result.recommended == "stable"
    assert result.recommendation.startswith("Use stable: its mean accuracy in unseen environments is 0.")


def test_a_column_that_left_out_sites_confirm_is_still_told():
    """Among sites of 0.95, 0.85 and 0.9 ERM is best, but the advice is that of `fit`, unless a metric was asked for."""
    X, y, sites = turning([0.95, 0.8, 0.9], n_rows=1500)
    result = compare_methods(X, y, sites, methods=["erm", "stable"], estimator=LogisticRegression())
    assert result.recommended == "stable"
    assert result.recommendation.startswith("Use stable: the effect of `x1` differs between these sites")
    assert "By the ranking: Stay with erm" in result.recommendation
    asked = compare_methods(X, y, sites, methods=["erm", "stable"], estimator=LogisticRegression(), metric="accuracy")
    assert asked.recommended == "erm"
    assert "But the effect of `x1` differs between these sites." in asked.recommendation
    assert result.verdict.fitted == "stable"
    assert result.verdict.reversed.fitted > result.verdict.reversed.ordinary + 0.3
    assert compare_methods(X, y, sites, methods=["erm"], estimator=LogisticRegression()).verdict is None


def test_no_gain_beyond_its_interval_recommends_erm():
    """Where every site is alike the sentence says to stay with ERM."""
    X, y, sites = turning([0.6, 0.6, 0.6])
    result = compare_methods(X, y, sites, methods=["erm", "balanced"])
    assert result.recommended == "erm"
    assert result.recommendation.startswith(
        "Stay with erm: no other method is significantly better at the 5 % level over 3 environments"
    )


def test_two_environments_are_judged_by_halves():
    """Two environments hold rows out in both; the parts are the four halves, and the worst one ranks."""
    X, y, sites = turning([0.99, 0.9], n_rows=600)
    own = {"pi": PIClassifier(LogisticRegression(), random_state=0)}
    result = compare_methods(X, y, sites, methods=own, estimator=LogisticRegression())
    assert result.protocol == HELD_OUT
    assert result.ranked_by == "worst"
    assert set(result.scores[0].parts) <= {f"site {e}, {half}" for e in (0, 1) for half in ("correct", "mistaken")}
    assert result.recommended == "pi"
    assert result.caveat.startswith("This ranking is only a hint, because with two environments none can be left out.")


def test_where_labels_are_rare_another_metric_is_advised():
    """With one label in nineteen rows of twenty accuracy ranks nothing."""
    generator = np.random.default_rng(0)
    y = (np.arange(600) % 20 == 0).astype(int)
    X, sites = (generator.normal(size=600) + y)[:, None], np.repeat(["a", "b", "c"], 200)
    found = compare_methods(X, y, sites, methods=["erm"])
    assert found.caveat.startswith("95% of the rows have the same label, so accuracy says little: rank with metric='au")
    ranked = compare_methods(X, y, sites, methods=["erm"], metric="auroc")
    assert ranked.caveat.startswith("The ranking is about environments")


def test_without_probabilities_there_is_no_spread():
    """A linear SVM has accuracies but no log loss."""
    X, y, sites = turning([0.9, 0.8, 0.7], n_rows=60)
    result = compare_methods(X, y, sites, methods=["erm"], estimator=LinearSVC())
    assert np.isnan(result.scores[0].spread)
    assert result.caveat.startswith("The ranking is about environments that differ from these as much as these differ")


def test_fits_that_fell_back_are_said():
    """Where environments are alike, the remark says in how many fits the ordinary classifier was kept, and why."""
    X, y, sites = turning([0.6, 0.6, 0.6], n_rows=200)
    result = compare_methods(X, y, sites, methods=["stable"])
    (remark,) = next(score.remarks for score in result.scores if score.method == "stable")
    assert remark.startswith("in 3 of 3 fits: Ordinary classifier: none of the 2 columns has an effect that differs")


def test_every_row_is_scored_once_out_of_sample():
    """The accuracies by environment are those of fits that did not see it."""
    X, y, sites = turning([0.9, 0.8, 0.7], n_rows=100)
    (score,) = compare_methods(X, y, sites, methods=["erm"]).scores
    kept = sites != "site 1"
    expected = ERMClassifier(random_state=0).fit(X[kept], y[kept]).score(X[~kept], y[~kept])
    assert score.parts["site 1"] == pytest.approx(expected)


def test_methods_of_your_own_and_failures_are_kept():
    """A mapping of estimators is compared beside ERM; one that cannot be fitted is listed with the reason, last."""
    X, y, sites = turning([0.9, 0.8, 0.7], n_rows=100)
    own = {"mine": PIClassifier(LinearSVC()), "broken": PIClassifier(solver="gradient")}
    result = compare_methods(X, y, sites, methods=own)
    assert result.scores[-1].method == "broken"
    assert "solver='gradient' does not work" in result.scores[-1].problem
    assert list(result.to_frame()["method"])[-1] == "broken"


def test_what_cannot_be_compared_is_refused():
    """One environment, or a method that needs a network, is named with advice."""
    X, y, sites = turning([0.9, 0.8], n_rows=20)
    with pytest.raises(EnvironmentsError, match="comparing methods needs at least two environments"):
        compare_methods(X, y, np.zeros(len(y)))
    with pytest.raises(ParameterError, match="The method 'irm' needs a network. Pass estimator='mlp'"):
        compare_methods(X, y, sites, methods=["irm"])


def _signals(shares, n_rows=800):
    """Return rows of two sites: a signal that is right in 80 % of the rows, and one that agrees as often as told."""
    draw, found = np.random.default_rng(0), []
    for share in shares:
        y = draw.integers(2, size=n_rows)
        signals = np.stack([y ^ (draw.random(n_rows) > p) for p in (0.8, share)], axis=1)
        found.append((2 * signals - 1 + 0.4 * draw.normal(size=(n_rows, 2)), y))
    X, y = (np.concatenate(part) for part in zip(*found, strict=True))
    return X.astype(np.float32), y, np.repeat(["north", "south"], n_rows)


class _Signals(torch.utils.data.Dataset):
    """Items (x, label, site), x a picture of one row."""

    def __init__(self, shares):
        self.rows = _signals(shares)

    def __len__(self):
        return len(self.rows[1])

    def __getitem__(self, row):
        X, y, sites = self.rows
        return X[row].reshape(1, 1, 2), int(y[row]), str(sites[row])


NETWORK = NeuralClassifier(
    "mlp", max_epochs=3, steps_per_epoch=60, learning_rate=5e-3, training__precision="fp32", random_state=0
)


@pytest.mark.parametrize(("shares", "best"), [((0.95, 0.8), "pi"), ((0.7, 0.7), "erm")])
def test_two_sites_without_a_verdict_follow_the_evidence(shares, best):
    """Pi is recommended, with its price, only where the second signal differs between the sites."""
    found = compare_methods(_Signals(shares), estimator=NETWORK, methods=["pi"])
    assert found.recommended == best
    assert "points of accuracy on held-out rows of both sites" in found.recommendation


@pytest.mark.parametrize(("shares", "best"), [((0.95, 0.8), "stable"), ((0.7, 0.7), "erm")])
def test_two_sites_follow_the_verdict_of_networks(shares, best):
    """The recommendation is that of the verdict on all rows, in its words."""
    X, y, sites = _signals(shares, n_rows=1600)
    found = compare_methods(X.reshape(-1, 1, 1, 2), y, sites, estimator=NETWORK, methods=["pi", "stable"])
    assert found.recommended == best
    assert found.verdict.answer in found.recommendation


def test_rows_without_labels_or_sites_are_refused():
    """A Dataset without sites cannot be compared."""
    data = torch.utils.data.TensorDataset(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(LabelsError, match="comparing methods needs labels and environments"):
        compare_methods(data, estimator=NETWORK)
