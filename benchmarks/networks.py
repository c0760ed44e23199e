"""Does the verdict for networks hold? Sixteen tasks on small pictures and token sequences, half with nothing planted.

    python benchmarks/networks.py run [TASK...] [--seeds 0 1]
    python benchmarks/networks.py paper [DATA SET...] [--seeds 0] [--cache FOLDER]
    python benchmarks/networks.py cost [--sites 2 3 5 10] [--repeats 3]
    python benchmarks/networks.py table
    python benchmarks/networks.py write

`run` appends one JSON line for each task and seed to docs/evidence/networks.jsonl. It skips what is there, so it can be
stopped and started at will; a run takes about a minute of one core. `table` prints the tables, `write` puts them into
docs/network-evidence.md.

`paper` does the same for data of the paper in HOLDFAST_TEST_DATA, with small networks: the colored digits (14 x 14),
the reviews of beers' looks (GloVe vectors, 20 filters of each width), and label × gender tasks of CelebA (a linear
layer on features of MobileNetV2, which are kept in the cache). Its records are docs/evidence/networks-paper.jsonl.

`cost` fits `StableClassifier` and the ordinary network in turn, and counts steps, rows and seconds in units of the
ordinary fit. Its records, docs/evidence/networks-cost.jsonl, are replaced by each run.

The pictures are those of HOLDFAST_TEST_DATA/mnist and HOLDFAST_FASHION (by default the folder of Debian's package
dataset-fashion-mnist), averaged to 14 x 14. Every site has 2,000 rows. *Known* is the accuracy on new rows of the known
sites, *turned* at a site where what was planted agrees with the label in 10 % of the rows, or, with nothing planted, at
one more site of the same kind. The tasks marked *held out* were not looked at while the decision was built.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import os
import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from holdfast import ERMClassifier, PIClassifier, StableClassifier
from holdfast.datasets import Split, load_dataset
from holdfast.datasets.beer import TOKENS
from holdfast.datasets.vectors import load_vectors
from holdfast.environments import Group
from holdfast.lab.experiments import parse_run
from holdfast.lab.inputs import prepare
from holdfast.neural import NeuralClassifier
from holdfast.neural.batches import Vocabulary
from holdfast.neural.networks.text_cnn import TextCNN
from holdfast.neural.sources import pad

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "evidence" / "networks.jsonl"
PAPER_RECORDS = RECORDS.with_name("networks-paper.jsonl")
COST_RECORDS = RECORDS.with_name("networks-cost.jsonl")
PAGE = ROOT / "docs" / "network-evidence.md"
DATA = Path(os.environ.get("HOLDFAST_TEST_DATA", ""))
FASHION = Path(os.environ.get("HOLDFAST_FASHION", "/usr/share/datasets/fashion-mnist"))
MNIST = DATA / "mnist"
SITE_ROWS, TEST_ROWS = 2000, 2000
TURNED = 0.1  # agreement of what was planted, at the turned site
Generator = np.random.Generator
Rows = tuple[Any, np.ndarray]  # X, y


# --- Networks --------------------------------------------------------------------------------------------------------


class Picture(nn.Module):
    """Two convolutions and a hidden layer."""

    def __init__(self, input_shape: tuple[int, ...], n_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(input_shape[0], 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(256, 32),
            nn.ReLU(),
            nn.Linear(32, n_classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        out: torch.Tensor = self.layers(x)
        return out


class Words(nn.Module):
    """The mean vector of the tokens, then a hidden layer."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(N_WORDS, 16)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, n_classes))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        out: torch.Tensor = self.layers(self.vectors(tokens).sum(1) / 3)
        return out


def make_network(task: Task, seed: int) -> NeuralClassifier:
    """Return the network of a task."""
    return NeuralClassifier(
        Words if task.kind == "text" else Picture,
        max_epochs=6,
        steps_per_epoch=100,
        batch_size=50,
        learning_rate=2e-3,
        scheduler="cosine",
        training__precision="fp32",
        random_state=seed,
    )


# --- Tasks -----------------------------------------------------------------------------------------------------------

N_WORDS = 80


@functools.cache
def pictures(name: str) -> Rows:
    """Return all 70,000 pictures, averaged to 14 x 14, and their labels."""
    folder = FASHION if name == "fashion" else MNIST
    X, y = [], []
    for part in ("train", "t10k"):
        raw = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
        X.append(np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255)
        raw = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
        y.append(np.frombuffer(raw, np.uint8, offset=8))
    return np.concatenate(X).astype(np.float32), np.concatenate(y).astype(np.intp)


def agreeing(y: np.ndarray, share: float, n_classes: int, rng: Generator) -> np.ndarray:
    """Return codes that equal the label in a share of the rows, and else are one of the others."""
    other = (y + rng.integers(1, n_classes, len(y))) % n_classes
    return np.where(rng.random(len(y)) < share, y, other)


@dataclass(frozen=True)
class Task:
    """A task: where its rows come from, and how a site changes them."""

    name: str
    kind: str  # colour, texture, patch or text
    base: str  # fashion3, fashion10, mnist2, mnist10 or text
    sites: tuple[Mapping[str, float], ...]  # settings of each known site
    new: Mapping[str, float]  # of the turned site
    planted: bool
    held_out: bool
    noise: float = 0.0  # share of wrong labels, everywhere

    def draw(self, seed: int) -> tuple[list[Rows], list[Rows], Rows]:
        """Return training rows of each site, test rows of each, and those of the turned site."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        if self.base == "text":
            return (
                [make_texts(site, SITE_ROWS, self.noise, rng) for site in self.sites],
                [make_texts(site, TEST_ROWS // len(self.sites), self.noise, rng) for site in self.sites],
                make_texts(self.new, TEST_ROWS, self.noise, rng),
            )
        X, y = choose(self.base)
        order = iter(rng.permutation(len(y)))

        def site(settings: Mapping[str, float], n_rows: int) -> Rows:
            target = rates(int(y.max()) + 1, settings.get("rates", 0.0))
            rows: list[int] = []
            while len(rows) < n_rows:
                row = int(next(order))
                if rng.random() < target[y[row]] / target.max():
                    rows.append(row)
            return change(X[rows], y[rows], int(y.max()) + 1, self.kind, settings, self.noise, rng)

        each = TEST_ROWS // len(self.sites)
        train = [site(settings, SITE_ROWS) for settings in self.sites]
        return train, [site(settings, each) for settings in self.sites], site(self.new, TEST_ROWS)


@functools.cache
def choose(base: str) -> Rows:
    """Return the rows of a data set with the labels of a task."""
    X, y = pictures("fashion" if base.startswith("fashion") else "mnist")
    if base == "fashion3":  # pullover, coat, shirt
        rows = np.isin(y, (2, 4, 6))
        return X[rows], np.searchsorted((2, 4, 6), y[rows])
    return X, (y >= 5).astype(np.intp) if base == "mnist2" else y


def rates(n_classes: int, tilt: float) -> np.ndarray:
    """Return label rates that rise (or fall) with the label."""
    weights = np.exp(tilt * np.arange(n_classes))
    return np.asarray(weights / weights.sum())


def change(
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    kind: str,
    settings: Mapping[str, float],
    noise: float,
    rng: Generator,
) -> Rows:
    """Return pictures as a site has them, (n_rows, channels, 14, 14), and their labels."""
    y = agreeing(y, 1 - max(noise, settings.get("noise", 0.0)), n_classes, rng)
    if "shift" in settings:
        X = np.roll(X, int(settings["shift"]), axis=2)
    if "blur" in settings:
        near = (np.roll(X, 1, 1) + np.roll(X, -1, 1) + np.roll(X, 1, 2) + np.roll(X, -1, 2)) / 4
        X = (1 - settings["blur"]) * X + settings["blur"] * near
    X = X * settings.get("brightness", 1.0)
    code = agreeing(y, settings["agreement"], n_classes, rng) if "agreement" in settings else None
    if kind == "colour":
        n_channels = max(n_classes, 2)
        tint = np.ones((len(X), n_channels)) if code is None else 0.25 + 0.75 * np.eye(n_channels)[code]
        X = X[:, None] * tint[:, :, None, None]
    elif kind == "texture":  # stripes behind the object: which way they run
        place = np.arange(14)
        stripes = np.stack([(place[:, None] * a + place[None] * b) % 4 < 2 for a, b in ((1, 0), (0, 1), (1, 1))])
        behind = np.zeros_like(X) if code is None else 0.35 * stripes[code]
        X = np.maximum(X, behind)[:, None]
    else:
        X = X[:, None].copy()
        if code is not None:  # a bright spot in the first rows: where it is
            X[np.arange(len(X)), 0, code % 2, code // 2 * 2 if n_classes > 3 else code * 5] = 1.0
    noisy = X + 0.02 * rng.standard_normal(X.shape)
    return noisy.astype(np.float32), y


def make_texts(settings: Mapping[str, float], n_rows: int, noise: float, rng: Generator) -> Rows:
    """Return token sequences: some words that agree with the label somewhat, maybe a marker, and words at random."""
    y = (rng.random(n_rows) < 0.5 + settings.get("rates", 0.0)).astype(np.intp)
    said = np.stack([agreeing(y, settings["signal"], 2, rng) for _ in range(int(settings["words"]))], axis=1)
    words = [2 + 10 * said + rng.integers(10, size=said.shape)]  # 2 to 21
    if "agreement" in settings:
        marker = agreeing(y, settings["agreement"], 2, rng)
        words.append((22 + 4 * marker + rng.integers(4, size=n_rows))[:, None])  # 22 to 29
    n_other = 12 - sum(part.shape[1] for part in words)
    low = 30 + int(settings.get("topic", 0))
    words.append(rng.integers(low, low + 30, (n_rows, n_other)))
    tokens = rng.permuted(np.concatenate(words, axis=1), axis=1)
    wrong = rng.random(n_rows) < max(noise, settings.get("noise", 0.0))
    return tokens.astype(np.int64), np.where(wrong, 1 - y, y)


def _agree(*shares: float) -> tuple[dict[str, float], ...]:
    return tuple({"agreement": share} for share in shares)


def _texts(words: int, signal: float, *sites: Mapping[str, float]) -> tuple[dict[str, float], ...]:
    return tuple({"words": words, "signal": signal, **site} for site in sites)


TURN = {"agreement": TURNED}
ONE, TWO, THREE = (1, 0.8), (2, 0.75), (3, 0.7)  # words of a text that agree with the label, and how often each does
TASKS = (
    # while building
    Task("colour", "colour", "fashion3", _agree(0.95, 0.85), TURN, True, False),
    Task("texture", "texture", "fashion3", _agree(0.95, 0.8), TURN, True, False),
    Task("patch ten", "patch", "fashion10", _agree(0.95, 0.85, 0.75), TURN, True, False),
    Task("text marker", "text", "text", _texts(*ONE, *_agree(0.95, 0.85, 0.75)), _texts(*ONE, TURN)[0], True, False),
    Task("plain", "patch", "fashion3", ({}, {}), {}, False, False),
    Task(
        "brightness and blur",
        "colour",
        "fashion3",
        ({"brightness": 1.0}, {"brightness": 0.7, "blur": 0.7}),
        {"brightness": 0.85, "blur": 0.35},
        False,
        False,
    ),
    Task("noisier labels", "texture", "fashion3", ({}, {"noise": 0.25}), {}, False, False),
    Task("text plain", "text", "text", _texts(*THREE, {}, {}, {}), _texts(*THREE, {})[0], False, False),
    # held out
    Task("colour, noisy labels", "colour", "mnist2", _agree(0.9, 0.8), TURN, True, True, noise=0.2),
    Task("texture, weaker", "texture", "fashion3", _agree(0.9, 0.75), TURN, True, True),
    Task("patch", "patch", "fashion3", _agree(0.95, 0.8, 0.85), TURN, True, True),
    Task("text marker, two sites", "text", "text", _texts(*TWO, *_agree(0.95, 0.8)), _texts(*TWO, TURN)[0], True, True),
    Task("label shift", "texture", "fashion3", ({"rates": 0.7}, {"rates": -0.7}), {}, False, True),
    Task("two stable signals", "colour", "fashion3", _agree(0.9, 0.9), {"agreement": 0.9}, False, True),
    Task("geometry", "patch", "mnist10", ({"shift": -1}, {"shift": 1}, {}), {"shift": 2}, False, True),
    Task(
        "text, noise and topics",
        "text",
        "text",
        _texts(*THREE, {"topic": 0}, {"topic": 10, "noise": 0.15}),
        _texts(*THREE, {"topic": 5})[0],
        False,
        True,
    ),
)


# --- Runs ------------------------------------------------------------------------------------------------------------


def run(task: Task, seed: int) -> dict[str, Any]:
    """Fit StableClassifier on a task, and PI where it was not fitted inside; return accuracies and the verdict."""
    train, test, new = task.draw(seed)
    X, y, sites = _join(task, train)
    known, known_y, _ = _join(task, test)
    turned, turned_y, _ = _join(task, [new])
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StableClassifier(make_network(task, seed), random_state=seed).fit(X, y, environments=sites)
        took = time.process_time() - started
        started = time.process_time()
        pi = PIClassifier(make_network(task, seed), random_state=seed).fit(X, y, environments=sites)
        pi_took = time.process_time() - started
        started = time.process_time()
        make_network(task, seed).fit_groups(X, y, _groups(sites), objective="pooled")
        ordinary_took = time.process_time() - started

    def accuracy(classifier: Any) -> dict[str, float]:
        pairs = (("known", known, known_y), ("turned", turned, turned_y))
        return {name: round(float((classifier.predict(rows) == labels).mean()), 4) for name, rows, labels in pairs}

    verdict = model.verdict_
    assert verdict.network is not None
    return {
        "key": {"task": task.name, "seed": seed},
        "erm": accuracy(model.ordinary_),
        "pi": accuracy(pi),
        "stable": accuracy(model),
        "same": bool(verdict.fitted != "ordinary" or model.estimator_ is model.ordinary_),
        "fitted": verdict.fitted,
        "outcome": verdict.network.outcome,
        "reason": verdict.network.reason,
        "probability": round(verdict.network.probability, 4),
        "statistic": round(verdict.network.statistic, 2),
        "p_value": float(f"{verdict.network.p_value:.2g}"),
        "readable": None if np.isnan(verdict.network.readable) else round(verdict.network.readable, 3),
        "price": round(verdict.network.stable_price.value, 4),
        "forecast": [round(verdict.forecast.low, 3), round(verdict.forecast.high, 3)],
        "seconds": {"stable": round(took, 2), "pi": round(pi_took, 2), "ordinary": round(ordinary_took, 2)},
    }


def _join(task: Task, parts: Sequence[Rows]) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return rows of several sites as one; token sequences as a dict, which a network reads by name."""
    X = np.concatenate([x for x, _ in parts])
    sites = np.repeat([f"site {number}" for number in range(len(parts))], [len(y) for _, y in parts])
    return {"tokens": X} if task.kind == "text" else X, np.concatenate([y for _, y in parts]), sites


def _groups(sites: np.ndarray) -> list[Group]:
    return [Group(name, np.flatnonzero(sites == name)) for name in np.unique(sites)]


def read_records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Return the records."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def run_all(names: Sequence[str], seeds: Sequence[int]) -> None:
    """Run what is not recorded yet."""
    done = {(record["key"]["task"], record["key"]["seed"]) for record in read_records()}
    for seed in seeds:
        for task in TASKS:
            if (task.name, seed) in done or (names and task.name not in names):
                continue
            record = run(task, seed)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


# --- Cost ------------------------------------------------------------------------------------------------------------


class Counted(Picture):
    """A network that counts the rows it is trained on."""

    n_rows = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        if self.training:
            Counted.n_rows += len(x)
        return super().forward(x)


@dataclass
class Work:
    """What some fits took."""

    steps: int = 0
    rows: int = 0
    seconds: float = 0.0


def work_of(fit: Callable[[], Any]) -> tuple[Any, Work]:
    """Return what a fit returns, and what it took."""
    work = Work()

    def count(*_: Any) -> None:
        work.steps += 1

    hook = register_optimizer_step_post_hook(count)
    Counted.n_rows, started = 0, time.process_time()
    try:
        fitted = fit()
    finally:
        hook.remove()
    work.rows, work.seconds = Counted.n_rows, time.process_time() - started
    return fitted, work


def measure_cost(n_sites: int, *, planted: bool, repeats: int) -> dict[str, Any]:
    """Return what `StableClassifier` takes beside the ordinary fit, in units of it, for so many sites."""
    shares = np.linspace(0.95, 0.75, n_sites)
    sites = _agree(*shares) if planted else ({},) * n_sites
    task = Task(f"{n_sites} sites", "colour", "mnist2", sites, {}, planted, False, noise=0.2)
    X, y, labels = _join(task, task.draw(0)[0])
    network = make_network(task, 0).set_params(network=Counted)
    seconds, outcome = [], ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ERMClassifier(network, random_state=0).fit(X, y, environments=labels)  # the first fit of a process takes longer
        for _ in range(repeats):
            ordinary = work_of(lambda: ERMClassifier(network, random_state=0).fit(X, y, environments=labels))[1]
            model, all_fits = work_of(lambda: StableClassifier(network, random_state=0).fit(X, y, environments=labels))
            seconds.append(all_fits.seconds / ordinary.seconds - 1)
            outcome = model.verdict_.network.outcome
    return {
        "key": {"sites": n_sites, "planted": planted},
        "outcome": outcome,
        "steps": round(all_fits.steps / ordinary.steps - 1, 2),
        "rows": round(all_fits.rows / ordinary.rows - 1, 2),
        "seconds": round(float(np.median(seconds)), 2),
        "ordinary_seconds": round(ordinary.seconds, 2),
    }


def measure_costs(numbers: Sequence[int], repeats: int) -> None:
    """Measure and record, in place of earlier records."""
    for n_sites, planted in itertools.product(numbers, (False, True)):
        record = measure_cost(n_sites, planted=planted, repeats=repeats)
        print(json.dumps(record), flush=True)
        kept = [other for other in read_records(COST_RECORDS) if other["key"] != record["key"]]
        lines = sorted((json.dumps(other) for other in (*kept, record)), key=lambda line: str(json.loads(line)["key"]))
        COST_RECORDS.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- Data of the paper -----------------------------------------------------------------------------------------------

CELEBA_LABELS = ("Mouth_Slightly_Open", "Smiling", "Wavy_Hair", "Black_Hair", "Young", "Straight_Hair", "Attractive")
CELEBA_LABELS += ("Oval_Face", "Pointy_Nose", "Big_Lips", "High_Cheekbones", "Bangs", "Brown_Hair", "Blurry")
CELEBA_LABELS += (
    "Big_Nose",
    "Bags_Under_Eyes",
    "Narrow_Eyes",
    "Bushy_Eyebrows",
    "Receding_Hairline",
    "Arched_Eyebrows",
)


class Reviews(nn.Module):
    """A text network with fixed word vectors."""

    def __init__(self, n_classes: int, vectors: torch.Tensor) -> None:
        super().__init__()
        self.network = TextCNN(
            input_shape=(len(vectors),), n_classes=n_classes, dropout=0.1, vectors=vectors, n_filters=20
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        out: torch.Tensor = self.network(tokens)
        return out


class Head(nn.Module):
    """A linear layer."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(1280, n_classes)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        out: torch.Tensor = self.layer(features)
        return out


@dataclass(frozen=True, eq=False)
class Part:
    """Training or test rows as a network takes them."""

    X: Any
    y: np.ndarray
    environments: Any


def read_paper(name: str, seed: int, cache: Path) -> tuple[Any, Part, Part]:
    """Return a network, and the training and test rows that it takes."""
    settings: dict[str, Any] = {"batch_size": 50, "scheduler": "cosine", "random_state": seed}
    settings["training__precision"] = "fp32"
    if name == "digits":
        data = load_dataset("colored_mnist", folder=MNIST, seed=seed)
        network = NeuralClassifier(Picture, max_epochs=10, learning_rate=2e-3, **settings)
        shrink = functools.partial(_averaged, size=1000)
        return network, _part(data.train, shrink), _part(data.test, shrink)
    if name == "beer":
        data = load_dataset("beer", folder=DATA, seed=seed, aspect="look")
        words = Vocabulary.build([*data.train.X, *data.test.X])
        vectors = words.vectors(load_vectors(DATA / "glove" / "glove_beer_look_subset.npz").add_random(TOKENS, seed=0))
        network = NeuralClassifier(
            functools.partial(Reviews, vectors=vectors), max_epochs=6, learning_rate=1e-3, **settings
        )

        def encode(texts: list[str]) -> dict[str, Any]:
            return {"tokens": pad([words.encode(text) for text in texts])}

        return network, _part(data.train, encode), _part(data.test, encode)
    options = {"environment": "Male", "label": name, "min_rows": 200}
    weights = {"backbone": "mobilenet_v2", "weights": "weights/mobilenet_v2-b0353104.pth", "estimator": "linear"}
    run = parse_run(
        {"dataset": "celeba", "dataset_options": options, "method": "erm", "seed": seed, **weights}, "networks.py"
    )
    data = prepare(run, DATA, cache).dataset
    network = NeuralClassifier(Head, max_epochs=10, learning_rate=1e-3, weight_decay=1e-3, **settings)
    return network, _part(data.train, _features), _part(data.test, _features)


def _part(split: Split, read: Callable[[Any], Any]) -> Part:
    return Part(read(split.X), split.y, split.environments)


def _averaged(images: Any, size: int) -> np.ndarray:
    """Return pictures averaged to half of their height and width."""
    parts = [np.asarray(images.dense(slice(i, i + size))) for i in range(0, len(images), size)]
    return np.concatenate([x.reshape(*x.shape[:2], 14, 2, 14, 2).mean(axis=(3, 5), dtype=np.float32) for x in parts])


def _features(X: Any) -> dict[str, np.ndarray]:
    return {"features": np.asarray(X, dtype=np.float32)}


def run_paper(name: str, seed: int, cache: Path) -> dict[str, Any]:
    """Fit StableClassifier on data of the paper, and PI; return test accuracies and the verdict."""
    network, train, test = read_paper(name, seed, cache)
    rows = train.X, train.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StableClassifier(network, random_state=seed).fit(*rows, environments=train.environments)
        pi = PIClassifier(network, random_state=seed).fit(*rows, environments=train.environments)
    found = model.verdict_.network
    assert found is not None
    methods = {"erm": model.ordinary_, "pi": pi, "stable": model}
    right = {name: classifier.predict(test.X) == test.y for name, classifier in methods.items()}
    sites = np.zeros(len(test.y)) if test.environments is None else np.unique(test.environments, return_inverse=True)[1]
    cells = np.unique(np.stack([sites, test.y]), axis=1, return_inverse=True)[1]
    return {
        "key": {"task": name, "seed": seed},
        **{
            method: {
                "accuracy": round(float(hits.mean()), 4),
                "worst_group": round(min(float(hits[cells == cell].mean()) for cell in np.unique(cells)), 4),
            }
            for method, hits in right.items()
        },
        "fitted": model.verdict_.fitted,
        "outcome": found.outcome,
        "reason": found.reason,
        "probability": round(found.probability, 4),
        "statistic": round(found.statistic, 2),
    }


def run_paper_all(names: Sequence[str], seeds: Sequence[int], cache: Path) -> None:
    """Run what is not recorded yet."""
    done = {(record["key"]["task"], record["key"]["seed"]) for record in read_records(PAPER_RECORDS)}
    for seed in seeds:
        for name in names or ("digits", "beer", *CELEBA_LABELS):
            if (name, seed) in done:
                continue
            record = run_paper(name, seed, cache)
            with PAPER_RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


# --- Tables ----------------------------------------------------------------------------------------------------------


def paper(_: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the paper's data: CelebA's tasks in one line."""
    lines = [
        "| data | runs | said unstable | ERM | PI | StableClassifier |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    records = read_records(PAPER_RECORDS)
    for name, measure, tasks in (
        ("colored digits, test accuracy", "accuracy", ("digits",)),
        ("beer, look, test accuracy", "accuracy", ("beer",)),
        ("CelebA, label × gender, worst group", "worst_group", CELEBA_LABELS),
    ):
        own = [record for record in records if record["key"]["task"] in tasks]
        if own:
            found = sum(record["outcome"] == "unstable" for record in own)
            means = [f"{_mean(own, method, measure):.1f}" for method in ("erm", "pi", "stable")]
            lines.append(f"| {name} | {len(own)} | {found} | {' | '.join(means)} |")
    return lines


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the promises: what was measured on the tasks of either kind."""
    tasks = {task.name: task for task in TASKS}
    lines = ["| tasks | runs | said unstable | ERM | PI | StableClassifier |", "|---|---:|---:|---:|---:|---:|"]
    for planted in (False, True):
        for held_out in (False, True):
            own = [
                record
                for record in records
                if (tasks[record["key"]["task"]].planted, tasks[record["key"]["task"]].held_out) == (planted, held_out)
            ]
            if not own:
                continue
            name = f"{'planted' if planted else 'nothing planted'}, {'held out' if held_out else 'while building'}"
            found = sum(record["outcome"] == "unstable" for record in own)
            means = [
                f"{_mean(own, method, 'known'):.1f} / {_mean(own, method, 'turned'):.1f}"
                for method in ("erm", "pi", "stable")
            ]
            lines.append(f"| {name} | {len(own)} | {found} | {' | '.join(means)} |")
    return lines


def _mean(records: Sequence[Mapping[str, Any]], method: str, where: str) -> float:
    return 100 * float(np.mean([record[method][where] for record in records]))


def details(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row for each task: accuracies at known sites and at the turned one, mean over the seeds."""
    lines = [
        "| task | planted | held out | ERM | PI | StableClassifier | verdicts |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for task in TASKS:
        own = [record for record in records if record["key"]["task"] == task.name]
        if not own:
            continue
        means = [
            f"{_mean(own, method, 'known'):.1f} / {_mean(own, method, 'turned'):.1f}"
            for method in ("erm", "pi", "stable")
        ]
        verdicts = ", ".join(record["outcome"].replace("_", " ") for record in own)
        marks = " | ".join("yes" if flag else "" for flag in (task.planted, task.held_out))
        lines.append(f"| {task.name} | {marks} | {' | '.join(means)} | {verdicts} |")
    return lines


def promises(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the promised figures beside those measured, over all recorded runs and over the held-out ones."""
    tasks = {task.name: task for task in TASKS}
    lines = ["| figure | target | held out | all |", "|---|---:|---:|---:|"]
    columns = []
    for chosen in ([r for r in records if tasks[r["key"]["task"]].held_out], list(records)):
        natural = [r for r in chosen if not tasks[r["key"]["task"]].planted]
        planted = [r for r in chosen if tasks[r["key"]["task"]].planted]
        lost = [100 * (r["stable"][where] - r["erm"][where]) for r in natural for where in ("known", "turned")]
        gains = [[r[method]["turned"] - r["erm"]["turned"] for r in planted] for method in ("stable", "pi")]
        found = [sum(r["outcome"] == "unstable" for r in part) for part in (natural, planted)]
        columns.append(
            (
                f"{np.mean(lost):+.1f}",
                f"{min(lost):+.1f}",
                f"{found[0]} of {len(natural)}",
                f"{sum(gains[0]) / sum(gains[1]):.2f}",
                f"{found[1]} of {len(planted)}",
            )
        )
    rows = (
        ("nothing planted: StableClassifier − ERM, mean", "≥ −0.3"),
        ("nothing planted: StableClassifier − ERM, worst", "≥ −2"),
        ("nothing planted: said unstable", "≤ 5 %"),
        ("planted: share of PI's gain at the turned site", "≥ 0.8"),
        ("planted: found", "≥ 80 %"),
    )
    lines += [f"| {name} | {goal} | {a} | {b} |" for (name, goal), a, b in zip(rows, *columns, strict=True)]
    return lines


def costs(_: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the cost by the number of sites, with nothing planted and with a color planted."""
    lines = [
        "| sites | steps | time | planted: steps | time |",
        "|---:|---:|---:|---:|---:|",
    ]
    records = {(record["key"]["sites"], record["key"]["planted"]): record for record in read_records(COST_RECORDS)}
    for n_sites in sorted({n_sites for n_sites, _ in records}):
        both = [records[n_sites, planted] for planted in (False, True)]
        cells = [f"{record[what]:.1f}" for record in both for what in ("steps", "seconds")]
        lines.append(f"| {n_sites} | {' | '.join(cells)} |")
    return lines


TABLES: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], list[str]]] = {
    "network promises": promises,
    "network summary": summary,
    "network tasks": details,
    "network paper": paper,
    "network cost": costs,
}


def fill(text: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with its tables made again."""
    for name, make in TABLES.items():
        mark = f"<!-- table {name} -->\n"
        if mark in text:
            before, rest = text.split(mark, 1)
            text = before + mark + "\n".join(make(records)) + "\n<!-- end -->" + rest.split("<!-- end -->", 1)[1]
    return text


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run")
    command.add_argument("tasks", nargs="*", metavar="TASK")
    command.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    command = commands.add_parser("paper")
    command.add_argument("names", nargs="*", metavar="DATA SET")
    command.add_argument("--seeds", nargs="*", type=int, default=[0])
    command.add_argument("--cache", type=Path, default=Path("build") / "networks")
    command = commands.add_parser("cost")
    command.add_argument("--sites", nargs="*", type=int, default=[2, 3, 5, 10])
    command.add_argument("--repeats", type=int, default=3)
    commands.add_parser("table")
    commands.add_parser("write")
    arguments = parser.parse_args()
    if arguments.command == "run":
        torch.set_num_threads(1)
        run_all(arguments.tasks, arguments.seeds)
    elif arguments.command == "paper":
        torch.set_num_threads(1)
        run_paper_all(arguments.names, arguments.seeds, arguments.cache)
    elif arguments.command == "cost":
        torch.set_num_threads(1)
        measure_costs(arguments.sites, arguments.repeats)
    elif arguments.command == "table":
        for make in TABLES.values():
            print("\n".join(make(read_records())), end="\n\n")
    else:
        PAGE.write_text(fill(PAGE.read_text("utf-8"), read_records()), "utf-8")


if __name__ == "__main__":
    main()
