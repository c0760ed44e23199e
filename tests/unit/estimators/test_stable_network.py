"""StableClassifier around networks: pictures, dicts and Datasets."""

import json
import warnings

import numpy as np
import pytest
import torch

from holdfast import ERMClassifier, PIClassifier, StableClassifier, load, save
from holdfast.exceptions import HoldfastWarning, ParameterError, SmallGroupWarning
from holdfast.neural import NeuralClassifier
from holdfast.stable.network import NetworkRows


def make_pictures(agreements, *, n=600, seed=0):
    """Return 2 x 3 x 3 pictures: the first channel agrees with the label in 3 of 4 rows, the second as said."""
    rng, parts = np.random.default_rng(seed), []
    for agreement in agreements:
        y = rng.integers(2, size=n)
        X = 0.3 * rng.standard_normal((n, 2, 3, 3))
        for channel, share in enumerate((0.75, agreement)):
            code = np.where(rng.random(n) < share, y, 1 - y)
            X[:, channel] += (2 * code - 1)[:, None, None]
        parts.append((X.astype(np.float32), y))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, np.array(["no", "yes"])[y], np.repeat([f"site {i}" for i in range(len(agreements))], n)


def make_network(**changed):
    """Return a linear network that trains for 200 steps."""
    settings = {
        "max_epochs": 2,
        "steps_per_epoch": 100,
        "learning_rate": 0.02,
        "training__precision": "fp32",
        "random_state": 0,
    }
    return NeuralClassifier("linear", **settings | changed)


@pytest.fixture(scope="module")
def unstable():
    """Return a classifier of two sites where the second channel agrees in 97 % and in 80 % of the rows."""
    X, y, sites = make_pictures((0.97, 0.8), n=1500, seed=1)
    return StableClassifier(make_network(), random_state=0).fit(X, y, environments=sites)


@pytest.fixture(scope="module")
def stable():
    """Return a classifier of two sites where it agrees in 85 % at both."""
    X, y, sites = make_pictures((0.85, 0.85))
    return StableClassifier(make_network(), random_state=0).fit(X, y, environments=sites)


def test_an_unstable_channel_is_given_up(unstable):
    """Where the channel turns, the classifier is right in about 3 of 4 rows, and the ordinary network is wrong."""
    X, y, _ = make_pictures((0.1,), seed=3)
    assert unstable.verdict_.network.outcome == "unstable"
    assert unstable.verdict_.fitted in ("stable", "partly")
    assert unstable.score(X, y) > 0.65
    assert np.mean(unstable.classes_[unstable.ordinary_.predict(X)] == y) < 0.35
    assert unstable.verdict_.answer.endswith(("so the classifier is the PI network.", "so the PI network is mixed in."))
    assert unstable.verdict_.gain[1] > 0.2


def test_without_evidence_it_is_the_ordinary_network(stable):
    """To the last bit: the same probabilities as ERMClassifier with the same seed, for every caution."""
    X, y, sites = make_pictures((0.85, 0.85))
    ordinary = ERMClassifier(make_network(), random_state=0).fit(X, y, environments=sites)
    assert stable.verdict_.fitted == "ordinary"
    assert stable.estimator_ is stable.ordinary_
    np.testing.assert_array_equal(stable.predict_proba(X), ordinary.predict_proba(X))
    assert [point.price.value for point in stable.path_] == [0.0] * 5


def test_the_price_is_said_without_evidence(stable):
    """The remarks begin with what PI would cost, and promise no gain."""
    assert stable.verdict_.remarks[0].startswith("A network trained on PI's halves would cost")
    assert not any("vanishes" in remark for remark in stable.verdict_.remarks)


def test_path_and_json(unstable):
    """Caution 0 costs nothing; the verdict is plain values."""
    assert unstable.path_[0].price.value == 0.0
    assert unstable.path_[-1].price.value > 0.0
    values = json.loads(json.dumps(unstable.verdict_.to_dict()))
    assert values["network"]["outcome"] == "unstable"
    assert values["fitted"] == unstable.verdict_.fitted
    assert list(values["by_environment"]) == ["site 0", "site 1"]


def test_it_survives_saving(unstable, stable, tmp_path):
    """Verdict and probabilities are the same after loading."""
    X = make_pictures((0.5,), seed=2)[0]
    for name, model in (("unstable", unstable), ("stable", stable)):
        save(model, tmp_path / name)
        loaded = load(tmp_path / name)
        assert str(loaded.verdict_) == str(model.verdict_)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_site_that_can_be_read_off_the_input_hides_differences():
    """A brighter site: nothing found is no assurance, and the answer says what would help."""
    X, y, sites = make_pictures((0.85, 0.85))
    X[sites == "site 1"] += 3.0
    verdict = StableClassifier(make_network(), random_state=0).fit(X, y, environments=sites).verdict_
    assert verdict.fitted == "ordinary"
    assert verdict.network.outcome == "cannot_tell"
    assert verdict.network.reason == "site_readable"
    assert "would help" in verdict.answer


def test_many_sites_are_said_to_take_long():
    """Before the start, with the number of networks: those that are trained, beside the ordinary one."""
    X, y, _ = make_pictures((0.85,), n=21 * 60)
    started = set()

    class Counter:
        def on_train_begin(self, net):
            started.add(id(net))
            self.kept = [*getattr(self, "kept", []), net]

    network = make_network(max_epochs=1, steps_per_epoch=1, callbacks=[Counter()])
    with pytest.warns(
        HoldfastWarning, match="21 environments: StableClassifier trains 47 networks to decide, in about 26"
    ):
        StableClassifier(network, random_state=0).fit(X, y, environments=np.repeat(np.arange(21), 60))
    assert len(started) == 1 + 47


class Items(torch.utils.data.Dataset):
    """Pictures one by one, with label and environment."""

    def __init__(self, X, y, sites):
        self.rows = X, y, sites

    def __len__(self):
        return len(self.rows[1])

    def __getitem__(self, row):
        X, y, sites = self.rows
        return X[row], y[row], sites[row]


def test_a_dataset_gives_the_same_verdict(unstable):
    """Labels and environments come out of the items."""
    data = Items(*make_pictures((0.97, 0.8), n=1500, seed=1))
    model = StableClassifier(make_network(), random_state=0).fit(data)
    assert model.verdict_.network.outcome == "unstable"
    assert model.predict(data).tolist() == unstable.predict(data.rows[0]).tolist()


@pytest.mark.parametrize("n_sites", [2, 3, 5])
def test_a_step_reads_as_many_rows_for_a_site_however_many_there_are(n_sites):
    """All judges of a site cut it together, so that it has two halves, and a step at most twice the ordinary rows."""
    n_rows = {}

    class Rows(torch.nn.Linear):
        def forward(self, x):
            if self.training:
                n_rows["now"] = n_rows.get("now", 0) + len(x)
            return super().forward(x.flatten(1))

    class Counter:
        def on_train_begin(self, net):
            n_rows["now"] = 0

        def on_train_end(self, net):
            n_rows.setdefault(net.stage_, []).append(n_rows["now"])

    X, y, sites = make_pictures((0.85,) * n_sites, n=60)
    network = make_network(max_epochs=1, steps_per_epoch=10, batch_size=5, callbacks=[Counter()])
    network.set_params(network=lambda n_classes: Rows(18, n_classes))
    StableClassifier(network, random_state=0).fit(X, y, environments=sites)
    ordinary = n_rows["training"][0]
    assert len(n_rows["stage 3"]) == 2
    assert max(n_rows["stage 3"]) <= 2 * ordinary


def test_the_evidence_costs_few_steps():
    """Where nothing is found, all fits beside the ordinary network take at most seven times its steps."""
    steps = []

    class Counter:
        def on_batch_end(self, net):
            steps.append(net.stage_)

    X, y, sites = make_pictures((0.85, 0.85), n=100)
    network = make_network(max_epochs=2, steps_per_epoch=20, callbacks=[Counter()])
    model = StableClassifier(network, random_state=0).fit(X, y, environments=sites)
    assert model.verdict_.fitted == "ordinary"
    ordinary = 2 * 20
    assert len(steps) - ordinary <= 7 * ordinary


def test_the_pi_network_is_that_of_pi(monkeypatch):
    """Unless the one that found the evidence is clearly better, PI is PIClassifier of the same settings, bit by bit."""
    monkeypatch.setattr(NetworkRows, "has_evidence", True)
    monkeypatch.setattr(NetworkRows, "_mix", lambda self, share: ((0.0, 1.0), np.zeros(len(self.y))))
    rows = dict(zip(("X", "y", "environments"), make_pictures((0.97, 0.8), n=100), strict=True))
    network = make_network(max_epochs=1, steps_per_epoch=20)
    model = StableClassifier(network, random_state=0).fit(**rows)
    pi = PIClassifier(network, random_state=0).fit(**rows)
    (stable,) = model.estimator_.estimators
    np.testing.assert_array_equal(stable.predict_proba(rows["X"]), pi.predict_proba(rows["X"]))


@pytest.mark.parametrize("flat", [False, True])
def test_patience_is_refused_before_any_fit(flat):
    """Without validation rows nothing could end a training early; the default and None are no such wish."""
    X, y, sites = make_pictures((0.9, 0.9), n=30)
    with pytest.raises(ParameterError, match="patience=3 ends .* there are no validation rows. Pass"):
        StableClassifier(make_network(patience=3)).fit(X.reshape(60, -1) if flat else X, y, environments=sites)


@pytest.mark.parametrize("flat", [False, True])
def test_validation_rows_select_the_number_of_epochs(flat):
    """They select that of the ordinary network, which is ERMClassifier's; all other networks train as long."""
    X, y, sites = make_pictures((0.85, 0.85), n=100)
    held_X, held_y, _ = make_pictures((0.85,), n=100, seed=5)
    if flat:
        X, held_X = X.reshape(len(X), -1), held_X.reshape(len(held_X), -1)
    epochs = {}

    class Counter:
        def on_epoch_end(self, net):
            epochs.setdefault(net.stage_, []).append(len(net.history_))

    network = make_network(max_epochs=20, steps_per_epoch=5, patience=2, callbacks=[Counter()])
    held_out = {"environments": sites, "validation": (held_X, held_y)}
    ordinary = ERMClassifier(network, random_state=0).fit(X, y, **held_out)
    epochs.clear()
    model = StableClassifier(network, random_state=0).fit(X, y, **held_out)
    assert model.validation_score_ == ordinary.validation_score_ == model.score(held_X, held_y)
    np.testing.assert_array_equal(model.ordinary_.predict_proba(held_X), ordinary.estimator_.predict_proba(held_X))
    selected = ordinary.estimator_.selected_.scores.epoch
    assert selected < len(ordinary.history_)
    assert all(max(numbers) == selected for stage, numbers in epochs.items() if stage.startswith("stage"))


def test_a_share_is_held_out_for_validation():
    """A share works as for PIClassifier, but may not part the rows of a subject."""
    X, y, sites = make_pictures((0.85, 0.85), n=100)
    model = StableClassifier(make_network(max_epochs=1), random_state=0).fit(X, y, environments=sites, validation=0.2)
    assert model.validation_score_ == pytest.approx(round(40 * model.validation_score_) / 40)
    with pytest.raises(ParameterError, match="could part rows that belong to one subject"):
        StableClassifier(make_network()).fit(X, y, environments=sites, validation=0.2, subjects=np.arange(200) // 2)


def test_many_small_sites_are_pooled_with_a_warning():
    """A hundred sites of six rows become ten; each has rows for a network of its own in both folds."""
    X, y, _ = make_pictures((0.85,), n=600)
    sites = np.repeat([f"site {i:02}" for i in range(100)], 6)
    network = make_network(max_epochs=1, steps_per_epoch=5)
    with pytest.warns(SmallGroupWarning, match="100 of 100 environments .* are pooled into 10"):
        model = StableClassifier(network, random_state=0).fit(X, y, environments=sites)
    assert len(model.environments_) == 10
    assert list(model.verdict_.by_environment)[0] == "site 00 to site 09 (10 environments)"


def test_networks_of_the_decision_do_not_warn():
    """That no network can tell the sites apart is good news, and no collapse of the user's network."""
    y = np.repeat([0, 1], 200)
    X = np.tile((2.0 * y - 1)[:, None, None], (1, 3, 3)).astype(np.float32)
    y[::8] = 1 - y[::8]
    sites = np.where(np.arange(400) % 9 < 5, "north", "south")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StableClassifier(make_network(), random_state=0).fit(X, y, environments=sites)
    assert model.verdict_.network.readable == 0.0


def test_subjects_stay_together():
    """Rows of a subject share a fold; a wrong number of labels is refused."""
    X, y, sites = make_pictures((0.85, 0.85), n=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StableClassifier(make_network(max_epochs=1), random_state=0)
        assert model.fit(X, y, environments=sites, subjects=np.arange(200) // 2).verdict_.network is not None


def test_caution_is_checked_before_any_fit():
    """As for tables."""
    with pytest.raises(ParameterError, match="'caution' parameter"):
        StableClassifier(make_network(), caution=2).fit(*make_pictures((0.9,))[:2])
