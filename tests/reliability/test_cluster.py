"""A sweep on a real local cluster of Ray loses no run and makes none twice, whoever is killed."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from holdfast.lab.experiments import read_experiment
from holdfast.lab.store import RunStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray"),
    pytest.mark.filterwarnings("ignore"),  # of Ray
]
N_CELLS, N_KILLS = 1000, 20
EXPERIMENT = """
name = "cells"
seeds = {seeds}
resources = {{ cpus = 1 }}

[run]
dataset = "toy"
estimator = "logistic"
validations = ["train"]

[[methods]]
method = "erm"

[[methods]]
method = "pi"
resources = {{ cpus = 2 }}
"""


def workers_of(node):
    """Return the processes of a node that execute a run at the moment."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = subprocess.run(["pgrep", "-P", str(raylet), "-f", "_attempt_in"], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def start(file, out, address):
    """Start a sweep on the cluster."""
    command = [sys.executable, "-m", "holdfast", "sweep", file, "--out", out, "--cluster", f"ray:{address}", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.fixture
def cluster(monkeypatch):
    """Return a cluster of a head that runs nothing and three machines."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        found.add_node(num_cpus=2)
    yield found
    ray.shutdown()
    found.shutdown()


def test_a_sweep_survives_kills(tmp_path, cluster):
    """Workers, a machine and the sweep itself are killed at random: every run is recorded, once."""
    file, out = tmp_path / "cells.toml", tmp_path / "runs"
    file.write_text(EXPERIMENT.format(seeds=list(range(N_CELLS // 2))), encoding="utf-8")
    expected = {run.config.identity for run in read_experiment(file).runs}
    assert len(expected) == N_CELLS
    draw, kills, begin = random.Random(0), [], time.monotonic()
    process, nodes = start(file, out, cluster.address), list(cluster.worker_nodes)
    while process.poll() is None or process.returncode != 0:
        if process.poll() is not None:  # it was killed: it goes on
            process = start(file, out, cluster.address)
        time.sleep(draw.uniform(0.5, 2.0))
        n_done = len(list((out / "runs").glob("*.json"))) if out.exists() else 0
        due = n_done >= (len(kills) + 1) * N_CELLS // (N_KILLS + 2)
        if len(kills) >= N_KILLS or not due:
            continue
        if len(kills) == N_KILLS // 3:
            gone = nodes.pop(0)
            cluster.remove_node(gone, allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=2))
            kills.append("machine")
        elif len(kills) == 2 * N_KILLS // 3:
            process.kill()
            process.wait()
            kills.append("sweep")
        else:
            alive = [pid for node in nodes for pid in workers_of(node)]
            if alive:
                os.kill(draw.choice(alive), signal.SIGKILL)
                kills.append("worker")
    result = json.loads(process.stdout.read())
    store = RunStore(out)
    made = [record["identity"] for record in store.records()]  # every byte checked
    facts = {
        "cells": N_CELLS,
        "kills": len(kills),
        "seconds": round(time.monotonic() - begin),
        "of_last": result["n_new"],
    }
    (tmp_path / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    assert len(kills) == N_KILLS, kills
    assert set(made) == expected  # none lost
    assert len(made) == N_CELLS  # none twice: a record is never replaced
    assert result["failures"] == []
    assert not list((out / "failed").glob("*.json"))
