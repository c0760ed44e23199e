"""Several ranks train one network as one process with the whole batch does."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

PROGRAM = """
import json, sys, warnings
from contextlib import nullcontext
import numpy as np
import torch
from torch import nn
from holdfast.environments import Group
from holdfast.exceptions import HoldfastError, MismatchWarning
from holdfast.neural.distributed import data_parallel
from holdfast.neural.estimator import NeuralClassifier
from holdfast.neural.monitors import watch
from holdfast.neural.objectives import OnlineGroups, make_objective
from holdfast.saving.monitors import CheckpointMonitor

warnings.simplefilter("ignore", MismatchWarning)
torch.set_num_threads(1)
generator = np.random.default_rng(0)
X = generator.normal(size=(301, 6)).astype(np.float32)
y = (X[:, 0] + 0.3 * generator.normal(size=301) > 0).astype(int)
y[200:] = X[200:, 1] > 0
weights = generator.uniform(0.5, 2, 60)
groups = [Group("a", np.arange(120)), Group("b", np.arange(120, 240)), Group("c", np.arange(241, 301), weights),
          Group("few", np.arange(5))]


def normalized(input_shape, n_classes):  # no bias before it: its gradient is rounding noise, which Adam magnifies
    return nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))


def fit(objective, network="mlp", mixture=False, epochs=2, dropout=0.0, folder=None):
    options = {} if network == "normalized" else {"network__dropout": dropout}
    model = NeuralClassifier(
        normalized if network == "normalized" else network, batch_size=41, max_epochs=epochs, steps_per_epoch=10,
        learning_rate=0.01, training__precision="fp32", random_state=3, patience=None, **options)
    objective = OnlineGroups(groups_per_step=1) if mixture else make_objective(objective)
    try:
        with nullcontext() if folder is None else watch(CheckpointMonitor(folder)):
            model.fit_groups(X, y, groups, objective=objective, validation=(X[:99], y[:99]))
    except HoldfastError as problem:
        return str(problem)
    weights = [value for tensor in model.network_.state_dict().values() for value in tensor.reshape(-1).tolist()]
    return weights, [entry["validation_score"] for entry in model.history_]


cases, out = json.loads(sys.argv[1]), sys.argv[2]
alone = [] if "--together" in sys.argv else [fit(**case) for case in cases]
together = []
for case in cases:  # a block for each: the processes find one another again
    with data_parallel() as ranks:
        together.append(fit(**case))
if ranks.number == 0:
    with open(out, "w") as file:
        json.dump([alone, together], file)
"""


def start(tmp_path, n_ranks, cases, *further):
    """Start trainings with some ranks."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_ranks}"] if n_ranks > 1 else []
    environment = {key: value for key, value in os.environ.items() if key not in ("WORLD_SIZE", "RANK")}
    return subprocess.Popen(
        [sys.executable, *torchrun, str(program), json.dumps(cases), str(tmp_path / "out.json"), *further],
        env={**environment, "OMP_NUM_THREADS": "1"}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def train(tmp_path, n_ranks, cases, *further):
    """Train with one process and with some ranks; return weights and validation scores of both, for each case."""
    process = start(tmp_path, n_ranks, cases, *further)
    out, problem = process.communicate(timeout=600)
    assert process.returncode == 0, out + problem[-3000:]
    return json.loads((tmp_path / "out.json").read_text())


def assert_alike(tmp_path, n_ranks, cases):
    """Compare weights after 20 steps, and scores, up to the order of sums."""
    for case, one, several in zip(cases, *train(tmp_path, n_ranks, cases), strict=True):
        assert several[1] == one[1], case
        np.testing.assert_allclose(several[0], one[0], rtol=2e-4, atol=2e-5, err_msg=str(case))


def test_two_ranks_train_like_one(tmp_path):
    """After 20 steps the weights are those of one process with the whole batch, up to the order of sums."""
    normalized = {"objective": "max", "network": "normalized"}
    assert_alike(tmp_path, 2, [{"objective": "max"}, {"objective": "online"}, normalized])


@pytest.mark.slow
def test_three_ranks_train_like_one(tmp_path):
    """So do three, which do not share groups evenly; batch normalization is over all of them."""
    cases = [{"objective": name} for name in ("max", "online", "erm", "balanced", "pooled", "vrex")]
    cases += [{"objective": "online", "network": "normalized"}, {"objective": "online", "mixture": True}]
    assert_alike(tmp_path, 3, cases)


@pytest.mark.slow
def test_killed_ranks_go_on(tmp_path):
    """A training whose rank is killed goes on from its checkpoint: bit for bit with as many ranks, also with others."""
    case = {"objective": "max", "dropout": 0.2, "epochs": 30}
    _, (whole,) = train(tmp_path, 2, [case], "--together")
    for n_ranks in (2, 1):
        folder = tmp_path / f"checkpoints-{n_ranks}"
        (tmp_path / "out.json").unlink()
        process = start(tmp_path, 2, [{**case, "folder": str(folder)}], "--together")
        while not list(folder.glob("training-*/manifest.json")):
            time.sleep(0.05)
            assert process.poll() is None, process.communicate()
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGKILL)  # torchrun ends the other one
        process.communicate(timeout=600)
        assert process.returncode != 0
        assert not (tmp_path / "out.json").exists()
        _, (again,) = train(tmp_path, n_ranks, [{**case, "folder": str(folder)}], "--together")
        assert n_ranks == 1 or again == whole
        assert len(again[1]) == 30


@pytest.mark.slow
def test_objectives_that_need_whole_batches_are_refused(tmp_path):
    """IRM's penalty is no sum over rows: it says so instead of training something else."""
    _, (problem,) = train(tmp_path, 2, [{"objective": "irm"}], "--together")
    assert problem.startswith(
        "The objective 'irm' needs all rows of a batch in one process, but 2 ranks train together."
    )


def test_the_rest_of_the_share():
    """Shares of all ranks are the batch, and totals are those of the whole batch."""
    from holdfast.neural.distributed import Ranks

    rows, sizes, weights = np.arange(10, 20), (7, 3), np.linspace(1, 2, 10)
    shares = [Ranks(number, 3).share(rows, sizes, weights) for number in range(3)]
    assert sorted(np.concatenate([share[0] for share in shares]).tolist()) == rows.tolist()
    assert [sum(share[1][group] for share in shares) for group in (0, 1)] == [7, 3]
    for share in shares:
        np.testing.assert_allclose(share[3], [weights[:7].sum(), weights[7:].sum()])


def test_alone_nothing_changes():
    """Without torchrun there is one rank, which is asked about all rows."""
    from holdfast.neural.distributed import current_ranks, data_parallel

    with data_parallel() as ranks:
        assert (ranks.number, ranks.n) == (0, 1) == (current_ranks().number, current_ranks().n)
    answer = ranks.gather(lambda rows: torch.from_numpy(rows), np.arange(3), torch.device("cpu"))
    assert answer.tolist() == [0, 1, 2]
