"""The training loop."""

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.environments import Group
from holdfast.exceptions import CollapseWarning, DivergedError, ParameterError
from holdfast.neural.evaluation import Examiner, HeldOut, outputs_on, right_class
from holdfast.neural.monitors import Monitor, watch
from holdfast.neural.networks import build_network
from holdfast.neural.objectives import make_objective
from holdfast.neural.risks import cross_entropy
from holdfast.neural.settings import TrainingSettings, autocast
from holdfast.neural.sources import make_source
from holdfast.neural.training import TrainingTask, train
from holdfast.seeding import Seeding

CPU = torch.device("cpu")


def noisy_rows(n=240, seed=0):
    """Return rows whose first column gives the label three times in four."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n)
    X = generator.normal(size=(n, 4))
    X[:, 0] = np.where(generator.random(n) < 0.75, y, 1 - y) * 2 - 1
    return X.astype(np.float32), y


X, Y = noisy_rows()
GROUPS = [Group("first", np.arange(0, 120)), Group("second", np.arange(120, 240))]
VALIDATION = HeldOut(make_source(noisy_rows(seed=1)[0]), noisy_rows(seed=1)[1])


def run(objective="erm", *, build=None, X=X, y=Y, groups=GROUPS, seed=0, **options):
    """Train a small network for a few steps."""
    keywords = {"max_epochs": 3, "steps_per_epoch": 5, "batch_size": 20, "learning_rate": 0.01}
    passed_on = ("selection", "validation", "others", "stage")
    monitor = options.pop("monitor", None)
    task = TrainingTask(
        source=make_source(X),
        targets=y,
        groups=groups,
        objective=make_objective(objective),
        loss=cross_entropy,
        score=right_class,
        **{name: options.pop(name) for name in passed_on if name in options},
    )
    build = build or (lambda: build_network("mlp", input_shape=(4,), n_classes=2, dropout=0.3, hidden=(8,)))
    return train(build, task, TrainingSettings(**(keywords | options)), Seeding(seed), monitor)


def weights_of(trained):
    """Return all parameters as one vector."""
    return torch.cat([parameter.flatten() for parameter in trained.network.parameters()])


def test_the_same_seed_gives_the_same_network_and_leaves_the_global_state_alone():
    """Initialization, dropout and batches come from the seed; torch's and numpy's own states are untouched."""
    before = torch.get_rng_state()
    first, second, other = run(seed=0), run(seed=0), run(seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(weights_of(first), weights_of(second))
    assert first.history == second.history
    assert not torch.equal(weights_of(first), weights_of(other))


def test_what_is_selected_belongs_together():
    """Weights, training and validation scores are all those of the selected epoch, not of the last one."""
    trained = run(max_epochs=12, learning_rate=0.1, validation=VALIDATION, patience=None, precision="fp32")
    selected = trained.selected
    assert selected.rule == "validation_accuracy"
    assert selected.epoch < 12
    assert trained.history[selected.epoch - 1] == selected.scores.as_dict()
    best = max(entry["validation_score"] for entry in trained.history)
    assert selected.value == selected.scores.validation_score == best
    outputs = outputs_on(trained.network, VALIDATION.source, device=CPU, autocast=autocast("fp32", CPU))
    assert (outputs.argmax(1).numpy() == VALIDATION.targets).mean() == pytest.approx(best)
    state = trained.network.state_dict()
    assert all(torch.equal(state[name], weight) for name, weight in selected.weights.items())


def test_patience_stops_and_last_does_not():
    """Training stops `patience` evaluations after the best one; the rule `last` always goes on."""
    stopped = run(max_epochs=50, steps_per_epoch=1, patience=3, learning_rate=0.5, validation=VALIDATION)
    assert len(stopped.history) == stopped.selected.epoch + 3
    last = run(max_epochs=6, patience=1)
    assert (last.selected.rule, last.selected.epoch, len(last.history)) == ("last", 6, 6)


def test_min_train_validation_reads_the_worst_group_of_min_max_objectives():
    """With one easy and one impossible group, the hard max reports the latter's accuracy, ERM the mean."""
    y = np.concatenate([(X[:120, 0] > 0).astype(int), np.random.default_rng(3).integers(2, size=120)])
    scores = {
        name: run(name, y=y, validation=VALIDATION, selection="min_train_validation", max_epochs=4, learning_rate=0.05)
        for name in ("max", "erm")
    }
    assert scores["max"].history[-1]["worst_group"] == "second"
    assert scores["max"].history[-1]["training_score"] < 0.66
    assert scores["erm"].history[-1]["training_score"] > 0.7
    selected = scores["erm"].selected
    assert selected.value == min(selected.scores.training_score, selected.scores.validation_score)


def test_worst_group_validation_selects_by_the_worst_group():
    """The value is the smallest of the groups' accuracies."""
    groups = (Group("a", np.arange(100)), Group("b", np.arange(100, 240)))
    held_out = HeldOut(VALIDATION.source, VALIDATION.targets, groups)
    trained = run(validation=held_out, selection="worst_group_validation")
    assert set(trained.selected.scores.validation_group_scores) == {"a", "b"}
    assert trained.selected.value == min(trained.selected.scores.validation_group_scores.values())


def test_other_environments_selects_by_rows_that_were_not_trained_on():
    """Stage 1 of the paper: the best mean accuracy over the other environments."""
    others = HeldOut(make_source(X), Y, (GROUPS[1],))
    trained = run(groups=GROUPS[:1], others=others, selection="other_environments")
    outputs = outputs_on(trained.network, make_source(X[120:]), device=CPU, autocast=autocast("fp32", CPU))
    accuracy = (outputs.argmax(1).numpy() == Y[120:]).mean()
    assert trained.selected.scores.other_environments_score == pytest.approx(accuracy)


@pytest.mark.parametrize(("most", "n_scored"), [(10, 20), (None, 240), (1000, 240)])
def test_other_environments_are_scored_by_some_of_their_rows(most, n_scored, monkeypatch):
    """Evenly spaced rows of each one, and no further pass for the check of collapse."""
    seen = []
    outputs = Examiner._outputs

    def note(self, network, source, rows):
        seen.append(rows)
        return outputs(self, network, source, rows)

    monkeypatch.setattr(Examiner, "_outputs", note)
    others = HeldOut(VALIDATION.source, VALIDATION.targets, tuple(GROUPS))
    trained = run(others=others, selection="other_environments", selection_rows=most, max_epochs=1)
    assert [len(rows) for rows in seen] == [n_scored]
    assert (np.unique(seen[0] < 120, return_counts=True)[1] == n_scored / 2).all()
    if most == 10:
        network_outputs = outputs_on(
            trained.network, others.source, device=CPU, autocast=autocast("fp32", CPU), rows=seen[0]
        )
        accuracy = (network_outputs.argmax(1).numpy() == others.targets[seen[0]]).mean()
        assert trained.selected.scores.other_environments_score == pytest.approx(accuracy)
        assert trained.selected.scores.predicts_one_class is False


def test_divergence_names_step_group_and_advice():
    """A risk that is no number stops the training at once."""
    broken = X.copy()
    broken[120:] = 3e38
    message = r"The risk of group 'second' became (nan|inf) at step 0 \(epoch 1\). Lower learning_rate \(now 0.01\)"
    for objective in ("erm", "max", "online"):
        with pytest.raises(DivergedError, match=message):
            run(objective, X=broken)


def test_collapse_is_named():
    """A network that gives every row one class is returned with a warning that suggests the online objective."""
    with pytest.warns(CollapseWarning, match="predicts one class for all evaluated rows.*try objective='online'"):
        run("max", weight_decay=100.0, max_epochs=8, learning_rate=0.05)
    with pytest.warns(CollapseWarning, match="predicts one class"):
        run("erm", weight_decay=100.0, max_epochs=8, learning_rate=0.05, validation=VALIDATION, selection="last")


def test_weight_averaging_keeps_the_average():
    """The selected weights are an average of the path, not its end."""
    plain, averaged = run(learning_rate=0.1), run(learning_rate=0.1, weight_averaging=0.9)
    assert not torch.equal(weights_of(plain), weights_of(averaged))
    # One step: decay min(0.9, 2/11), so the average is 2/11 of the start and 9/11 of the end.
    one = {"max_epochs": 1, "steps_per_epoch": 1, "validation": VALIDATION}
    start = weights_of(run(**one, learning_rate=1e-30))
    expected = 2 / 11 * start + 9 / 11 * weights_of(run(**one))
    assert torch.allclose(weights_of(run(**one, weight_averaging=0.9)), expected, atol=1e-6)


def test_cosine_schedule_ends_near_zero():
    """The rate of the last step of T is (1 + cos(π(T−1)/T))/2 of the first."""

    class Rates(Monitor):
        seen: list[float] = []

        def epoch(self, report):
            """Note the rate of the epoch's last step."""
            self.seen.append(report.state.optimizer.param_groups[0]["lr"])

    run(scheduler="cosine", max_epochs=4, steps_per_epoch=1, monitor=Rates())
    assert Rates.seen == pytest.approx([0.01 * (1 + np.cos(np.pi * share)) / 2 for share in (0, 0.25, 0.5, 0.75)])


def test_a_monitor_sees_stage_epoch_and_worst_group():
    """`watch` reaches a training that knows nothing of the monitor."""

    class Notes(Monitor):
        seen: list[tuple] = []

        def epoch(self, report):
            """Note what a progress bar would show."""
            self.seen.append(
                (report.stage, report.epoch, report.max_epochs, report.scores.worst_group in "firstsecond")
            )

    with watch(Notes()):
        run("max", stage="stage 3")
    run("max")
    assert Notes.seen == [("stage 3", epoch, 3, True) for epoch in (1, 2, 3)]


def test_weight_decay_is_coupled():
    """One Adam step with decay alone moves every weight by the learning rate towards zero."""

    class Zero(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, inputs):
            """Return logits that do not depend on w."""
            return torch.zeros(len(inputs), 2) + 0 * self.w.sum()

    with pytest.warns(CollapseWarning, match="one class"):
        trained = run(build=Zero, max_epochs=1, steps_per_epoch=1, weight_decay=0.1)
    assert trained.network.w.tolist() == pytest.approx([0.99] * 3)


def test_nothing_to_train_is_refused():
    """No groups, no parameters."""
    with pytest.raises(ParameterError, match="There are no groups to train on"):
        run(groups=[])
    with pytest.raises(ParameterError, match="no parameters that learn"):
        run(build=lambda: nn.Flatten())


def test_every_epoch_says_how_far_the_training_is_and_how_long_it_takes(caplog):
    """Stage, epoch, the most epochs there will be and the most time that is left are in the log."""
    with caplog.at_level("DEBUG", logger="holdfast.neural.training"):
        run(stage="stage 1: Boston")
    epochs = [record for record in caplog.records if hasattr(record, "epoch")]
    assert [record.epoch for record in epochs] == [1, 2, 3]
    assert epochs[1].getMessage().startswith("stage 1: Boston: epoch 2 of at most 3, at most 0 s left, risk 0.")
