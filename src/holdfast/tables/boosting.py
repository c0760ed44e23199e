"""Fit XGBoost and LightGBM on folders larger than the memory, also with several workers of a cluster.

XGBoost reads block after block. LightGBM first reads some rows of each row group to choose the bins, and then row group
after row group. Both keep only the number of each value's bin. On a cluster each worker reads its own files, and all
workers build every tree together by the messages of the library.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import ClusterError
from holdfast.fitting.estimators import last_step, library_of
from holdfast.fitting.kinds import Estimator
from holdfast.parallel import Runner, sharing
from holdfast.tables.files import CHUNK_ROWS

if TYPE_CHECKING:
    from holdfast.tables.folders import Part
    from holdfast.tables.passes import Stream

ROW_BYTES = {"xgboost": 80, "lightgbm": 85}  # next to a byte for each number, measured (docs/scale.md)
PATIENCE = 300  # seconds that a worker waits for the others
Fitting = Callable[["Stream", int, "Sequence[Part]", Mapping[str, Any]], tuple[Any, int]]


def booster_of(estimator: Estimator, *, has_texts: bool = False) -> str | None:
    """Return the library of a booster that can be fitted in passes; None for every other estimator."""
    last = last_step(estimator)
    kind = (library_of(last), type(last).__name__)
    if kind == ("xgboost", "XGBClassifier"):
        return "xgboost"
    if kind == ("lightgbm", "LGBMClassifier") and last.class_weight is None and not has_texts:
        return "lightgbm"
    return None


def boost(library: str, stream: Stream, n_jobs: int | None) -> int:
    """Fit boosters again on all rows: in this process, or on a cluster by all its workers together; return the passes.

    A pass reads every file once.
    """
    fit, meet = _LIBRARIES[library]
    parts, n_passes = stream.source.parts(), 0
    with sharing(stream, n_jobs) as run:
        n_workers = min(run.n_jobs, len(parts)) if run.is_far else 1
        for number, model in enumerate(stream.models):
            if n_workers == 1:
                booster, n_more = fit(stream, number, parts, {})
            else:
                with meet(n_workers) as addresses:
                    tasks = [(number, parts[k::n_workers], address) for k, address in enumerate(addresses)]
                    booster, n_more = _together(run, fit, tasks)
            model.fitted._Booster = booster
            n_passes += n_more
    return n_passes


def _together(run: Runner, fit: Fitting, tasks: list[tuple[Any, ...]]) -> tuple[Any, int]:
    """Run tasks that talk to each other; return what the first has found."""
    try:
        found: tuple[Any, int] = run(fit, tasks)[0]
    except Exception as problem:
        if type(problem).__name__ not in ("XGBoostError", "LightGBMError"):
            raise
        raise ClusterError(f"A worker was lost while boosting: {str(problem)[:300]} Run the command again.") from None
    return found


@contextlib.contextmanager
def _meet_by_tracker(n_workers: int) -> Iterator[list[dict[str, Any]]]:
    """Yield what each worker of XGBoost needs to find the others."""
    import xgboost.tracker

    tracker = xgboost.tracker.RabitTracker(n_workers, None, sortby="task")
    tracker.start()
    yield [tracker.worker_args() | {"dmlc_task_id": f"{k:05d}"} for k in range(n_workers)]


def _fit_xgboost(stream: Stream, number: int, parts: Sequence[Part], address: Mapping[str, Any]) -> tuple[Any, int]:
    """Fit one classifier on some files, with the others at the address; return it, and the passes over the files."""
    import xgboost

    model = stream.models[number]

    class Blocks(xgboost.DataIter):
        """Hands out one block after the other, as often as XGBoost asks for all."""

        n_passes = 0

        def reset(self) -> None:
            self.n_passes += 1
            self.left = (block for part in parts for block in stream.blocks(*part))

        def next(self, input_data: Any) -> bool:
            for features, codes, _ in self.left:
                input_data(data=model.rows(features), label=codes)
                return True
            return False

    blocks, parameters = Blocks(), model.fitted.get_xgb_params()
    blocks.reset()
    bins = {"max_bin": parameters["max_bin"]} if parameters.get("max_bin") else {}
    parameters |= {"num_class": len(stream.classes)} if len(stream.classes) > 2 else {}
    parameters |= {"nthread": 1} if address else {}
    with xgboost.collective.CommunicatorContext(**address) if address else contextlib.nullcontext():
        matrix = xgboost.QuantileDMatrix(blocks, enable_categorical=True, **bins)
        booster = xgboost.train(parameters, matrix, num_boost_round=model.fitted.get_num_boosting_rounds())
    return booster, blocks.n_passes


@contextlib.contextmanager
def _meet_by_listener(n_workers: int) -> Iterator[list[dict[str, Any]]]:
    """Let LightGBM's workers exchange their addresses; yield how each of them reaches this process."""

    def exchange() -> None:
        with contextlib.suppress(OSError, EOFError):  # closed, since a worker was lost
            workers: list[Connection[Any, Any]] = []
            while len(workers) < n_workers:
                with contextlib.suppress(AuthenticationError):  # of anybody else
                    workers.append(listener.accept())
            addresses = b",".join([worker.recv_bytes() for worker in workers])
            for worker in workers:
                worker.send_bytes(addresses)

    key = os.urandom(32)
    with Listener(("", 0), backlog=n_workers, authkey=key) as listener:
        Thread(target=exchange, daemon=True).start()
        yield [{"host": _own_address(), "port": listener.address[1], "key": key}] * n_workers


def _own_address() -> str:
    """Return the address of this machine that others can reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("10.255.255.255", 1))  # nothing is sent
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _network(address: Mapping[str, Any]) -> dict[str, Any]:
    """Return LightGBM's settings of this worker: its own address and those of the others."""
    if not address:
        return {}
    with socket.socket() as free, Client((address["host"], address["port"]), authkey=address["key"]) as meeting:
        free.bind(("", 0))
        port = free.getsockname()[1]
        with socket.socket(fileno=os.dup(meeting.fileno())) as line:
            host = line.getsockname()[0]
        meeting.send_bytes(f"{host}:{port}".encode())
        if not meeting.poll(PATIENCE):
            raise ClusterError(f"Other workers have not begun after {PATIENCE} seconds. Free them, or use fewer.")
        addresses = meeting.recv_bytes().decode()
    return {
        "machines": addresses,
        "num_machines": addresses.count(",") + 1,
        "local_listen_port": port,
        "tree_learner": "data",
        "pre_partition": True,
        "time_out": PATIENCE // 60,
        "num_threads": 1,
    }


def _fit_lightgbm(stream: Stream, number: int, parts: Sequence[Part], address: Mapping[str, Any]) -> tuple[Any, int]:
    """Fit one classifier on some files, with the others at the address; return it, and the passes over the files."""
    import lightgbm

    model, groups = stream.models[number], [(file, group) for file, some in parts for group in some]
    ends = np.cumsum([file.row_groups[group] for file, group in groups])
    labels = np.zeros(ends[-1], dtype=np.float32)

    @lru_cache(maxsize=1)  # row groups are asked for in their order
    def read(k: int) -> NDArray[np.float64]:
        file, group = groups[k]
        blocks = [(_as_numbers(model.rows(features)), codes) for features, codes, _ in stream.blocks(file, [group])]
        labels[ends[k] - file.row_groups[group] : ends[k]] = np.concatenate([codes for _, codes in blocks])
        return np.concatenate([rows for rows, _ in blocks])

    class RowGroup(lightgbm.Sequence):
        """The rows of a row group, read when LightGBM asks for them."""

        batch_size = CHUNK_ROWS

        def __init__(self, k: int) -> None:
            self.k = k

        def __len__(self) -> int:
            return int(groups[self.k][0].row_groups[groups[self.k][1]])

        def __getitem__(self, rows: Any) -> NDArray[np.float64]:
            return np.asarray(read(self.k)[rows])

    before = model.fitted.booster_
    parameters = dict(before.params) | _network(address)
    levels = parameters.pop("categorical_column", [])
    # LightGBM looks at the labels when it has read all rows, and so they are known by then.
    matrix = lightgbm.Dataset(
        [RowGroup(k) for k in range(len(groups))],
        labels,
        feature_name=before.feature_name(),
        categorical_feature=levels,
    )
    booster = lightgbm.train(parameters, matrix, num_boost_round=model.fitted.n_estimators)
    if address:  # the text of the model, which is saved and sent, would name the workers
        booster.free_network()
        text = re.sub(r"^\[(machines|local_listen_port): .*\]\n", "", booster.model_to_string(), flags=re.MULTILINE)
        booster = lightgbm.Booster(dict(before.params), model_str=text)
    booster.pandas_categorical = before.pandas_categorical
    booster.free_dataset()
    return booster, 2


def _as_numbers(rows: Any) -> NDArray[np.float64]:
    """Return rows as LightGBM takes them: numbers, of a level its number."""
    if not hasattr(rows, "dtypes"):
        return np.asarray(rows, dtype=np.float64)
    found = np.empty(rows.shape)
    for place, (_, column) in enumerate(rows.items()):
        is_level = hasattr(column, "cat")
        found[:, place] = column.cat.codes.replace(-1, np.nan) if is_level else column.to_numpy(np.float64)
    return found


_LIBRARIES: dict[str, tuple[Fitting, Callable[[int], contextlib.AbstractContextManager[list[dict[str, Any]]]]]] = {
    "xgboost": (_fit_xgboost, _meet_by_tracker),
    "lightgbm": (_fit_lightgbm, _meet_by_listener),
}
