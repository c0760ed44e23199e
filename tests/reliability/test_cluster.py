"""Fits and sweeps on real local clusters of Ray: whoever is killed or slow, nothing is lost and nothing made twice."""

import importlib.util
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from holdfast.exceptions import ClusterError
from holdfast.lab.experiments import read_experiment
from holdfast.lab.store import RunStore
from holdfast.parallel import on_cluster, run_each

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


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"


@pytest.fixture
def small_cluster(monkeypatch):
    """Return a cluster of a head that runs nothing and two machines of one processor, and connect to it."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this module
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 * 2**20})
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    ray.init(found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def work(rows, number, folder):
    """Leave the number of the process, take a while, and return a sum."""
    path = folder / f"{number}.{os.getpid()}"
    path.touch()
    time.sleep(1)
    return float(rows.sum()) + number


def test_fits_survive_a_worker_and_a_machine(small_cluster, tmp_path):
    """Tasks whose worker or whose machine died run again elsewhere; the numbers are those of one process."""
    rows, answers = np.arange(100_000.0), []
    tasks = [(number, tmp_path) for number in range(8)]

    def fit():
        with on_cluster("ray"):
            answers.append(run_each(work, rows, tasks))

    thread = threading.Thread(target=fit)
    thread.start()
    while not list(tmp_path.iterdir()):
        time.sleep(0.1)
    os.kill(int(next(tmp_path.iterdir()).suffix[1:]), signal.SIGKILL)
    while len(list(tmp_path.iterdir())) < 4:
        time.sleep(0.1)
    small_cluster.remove_node(next(iter(small_cluster.worker_nodes)), allow_graceful=False)
    thread.join()
    assert answers == [[float(rows.sum()) + number for number in range(8)]]
    assert len(list(tmp_path.iterdir())) > 8  # some ran twice


def test_fits_survive_a_worker_of_dask(tmp_path, monkeypatch, request):
    """Tasks whose worker died run again on the other one."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(sys, "path", [*sys.path, str(request.config.rootpath)])  # that of the workers, too
    rows, answers = np.arange(100_000.0), []
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as started:

        def fit():
            with on_cluster(started.scheduler_address):
                answers.append(run_each(work, rows, [(number, tmp_path) for number in range(8)]))

        thread = threading.Thread(target=fit)
        thread.start()
        while not list(tmp_path.iterdir()):
            time.sleep(0.1)
        os.kill(int(next(tmp_path.iterdir()).suffix[1:]), signal.SIGKILL)
        thread.join()
    assert answers == [[float(rows.sum()) + number for number in range(8)]]


def wait_for_others(folder, number, n_others):
    """Return how many others have finished: the slow one waits for all of them."""
    (folder / str(number)).touch()
    end = time.monotonic() + 120
    while number == 0 and len(list(folder.iterdir())) <= n_others and time.monotonic() < end:
        time.sleep(0.1)
    return len(list(folder.iterdir())) - 1


def test_a_straggler_delays_nobody(small_cluster, tmp_path):
    """While one fit is slow, all others are done elsewhere."""
    with on_cluster("ray"):
        assert run_each(wait_for_others, tmp_path, [(number, 20) for number in range(21)])[0] == 20


def total(rows, factor):
    """Return a sum over the shared rows."""
    return float(rows.sum() * factor)


def test_rows_larger_than_the_object_store(small_cluster, monkeypatch):
    """Rows beyond its size are kept on disk; where that is full, too, it is said that they do not fit."""
    import ray

    with on_cluster("ray"):
        found = run_each(total, np.ones(30 * 2**20), [(1,), (2,)])  # 240 MiB
        assert found == [30.0 * 2**20, 60.0 * 2**20]
        for problem in (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError):
            monkeypatch.setattr(ray, "put", Mock(side_effect=problem))
            with pytest.raises(ClusterError, match="neither into Ray's object store nor on its disk"):
                run_each(total, np.ones(3), [(1,), (2,)])


def test_the_how_to_runs_on_two_nodes(tmp_path, monkeypatch):
    """Every command of the page up to the demo, for a user who never had a cluster."""
    text = PAGE.read_text(encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        text = text.replace("6399", str(free.getsockname()[1]))
    commands = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)[:2] for line in block.splitlines()]
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_TMPDIR": "/tmp", "RAY_worker_niceness": "0"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    nodes = []
    try:
        for command in commands:
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                environment[name] = value
            elif command.startswith("ray start"):
                log = (tmp_path / f"node-{len(nodes)}.log").open("w+")
                nodes.append(
                    subprocess.Popen(
                        [*command.split(), "--block"], env=environment, stdout=log, stderr=subprocess.STDOUT
                    )
                )
                while "Ray runtime started" not in Path(log.name).read_text():
                    assert nodes[-1].poll() is None, Path(log.name).read_text()
                    time.sleep(0.2)
            else:
                done = subprocess.run(command.split(), env=environment, cwd=tmp_path, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr[-3000:]
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
    assert len(nodes) == 2
    assert commands[-1].startswith("holdfast demo")
    assert (tmp_path / "demo.html").exists()
