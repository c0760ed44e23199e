"""Does the decision of `StableClassifier` hold in simple worlds? Synthetic suites that need no outside data.

    python benchmarks/worlds.py run SUITE... [--draws N] [--estimator logistic] [--only NAME] [--fit MODULE:CALLABLE]
    python benchmarks/worlds.py table [SUITE...] [--fit MODULE:CALLABLE]
    python benchmarks/worlds.py list

`run` appends one JSON line for each suite, world, estimator and draw to docs/evidence/worlds.jsonl. It skips what is
there, so it can be stopped and started at will. `run default` runs the seven suites that need no outside data: about
ten minutes of one core for an estimator.
`table` prints one Markdown table for each suite. `list` prints every world with its description.

same: P(y|x) is the same at every site. Measures the accuracy lost against the plain estimator.
planted: a column is spurious and turns at the new site. Measures the share of the gap recovered:
    (stable - plain) / (without the column - plain).
smooth: how far one flipped label of 1,000, or a bootstrap of the rows, moves a kept share.
units: the linear unit tests of invariance (Aubin et al., 2021), Examples 2, 2s, 3 and 3s.
clones: nothing changes, but rows are copies or belong together. Measures how often the classifier acts.
forecast: coverage of the forecast at a new site under covariate shift, label shift and rare labels.
bundled: scikit-learn's bundled tables with made environments.
natural, planted_real: the tables and splits of trust.py, for classifiers given by --fit. They need HOLDFAST_TEST_DATA.

--fit names a callable `fit(estimator, X, y, environments)`. It returns an object with `predict`, `predict_proba`,
`kept` (a share for each column, 1.0 = used whole) and `forecast` (low and high, or None). Its records go to a file of
their own in the temporary folder; --again deletes them first.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import trust
from scipy.special import expit
from scipy.stats import ortho_group
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import StableClassifier
from holdfast.datasets.units import unit_environment

Generator = np.random.Generator
Rows = tuple[Any, Any]  # X, y
TEST_ROWS = 5000  # of the new site, and of the known sites together
WHOLE = 0.98  # kept share below which the classifier acts
ESTIMATORS: Mapping[str, Callable[[int], Any]] = {  # dense tables: centered, as holdfast's default is
    **trust.ESTIMATORS,
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
TOGETHER = "subjects"  # keyword of `fit` for rows that belong together


# --- Worlds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A site: where it stands among the others, and what is its own."""

    u: float  # position, from -1 to 1
    number: int  # 0, 1, … among the known sites; -1: new
    turned: bool  # whether what was planted turned
    z: Any  # (40,) standard normal numbers of the site


@dataclass(frozen=True)
class World:
    """A law by which rows of a site are drawn."""

    about: str
    site: Callable[[Generator, int, Place], Rows]
    layouts: Sequence[tuple[int, int]] = ((5, 600), (2, 500))  # number of sites, rows of each
    planted: Sequence[int] = ()  # columns that turn
    score: str = "accuracy"  # or auroc


@dataclass(frozen=True)
class Draw:
    """Training rows of the known sites, and test rows."""

    X: Any
    y: Any
    sites: Any
    same: Rows  # fresh rows of the known sites
    new: Rows  # a new site
    patients: Any = field(default=None)


def generator(*parts: Any) -> Generator:
    """Return a generator that depends on names and numbers and on nothing else."""
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in parts])


def draw_world(world: World, name: str, layout: tuple[int, int], draw: int) -> Draw:
    """Return rows of the known sites and of a new one."""
    n_sites, n_rows = layout
    rng = generator(name, *layout, draw)
    width = 1.0 if world.planted else min(1.0, n_sites / 4)  # two sites that are worlds apart show nothing
    us = np.linspace(-width, width, n_sites)
    places = [Place(float(u), number, False, rng.normal(size=40)) for number, u in enumerate(us)]
    new = Place(float(rng.uniform(-1, 1)), -1, True, rng.normal(size=40))
    parts = [world.site(rng, n_rows, place) for place in places]
    fresh = [world.site(rng, TEST_ROWS // n_sites, place) for place in places]
    X, y = _stacked(parts)
    return Draw(X, y, np.repeat(_names(n_sites), n_rows), _stacked(fresh), world.site(rng, TEST_ROWS, new))


def _names(n_sites: int) -> list[str]:
    return [f"site {number:02d}" for number in range(n_sites)]


def _stacked(parts: Sequence[Rows]) -> Rows:
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _labels(rng: Generator, log_odds: Any) -> Any:
    return (rng.random(len(log_odds)) < expit(log_odds)).astype(int)


def _flipped(rng: Generator, y: Any, share: float) -> Any:
    return np.where(rng.random(len(y)) < share, 1 - y, y)


# --- same: P(y|x) is the same at every site ---------------------------------------------------------------------------


def _law(
    log_odds: Callable[[Any], Any], moved: Callable[[Any, Place], None] = lambda X, place: None, n_columns: int = 4
) -> Callable[[Generator, int, Place], Rows]:
    """Return a world of normal columns, changed in place at each site, with one law of the label."""

    def site(rng: Generator, n: int, place: Place) -> Rows:
        X = rng.normal(size=(n, n_columns))
        moved(X, place)
        return X, _labels(rng, log_odds(X))

    return site


def _weak(X: Any) -> Any:
    """Return what the columns from the second on say, in the log-odds."""
    return X[:, 1:4] @ [0.6, -0.4, 0.3]


def _move(column: int, by: float, sd: float = 1.0, mean: float = 0.0) -> Callable[[Any, Place], None]:
    def moved(X: Any, place: Place) -> None:
        X[:, column] = mean + by * place.u + sd * X[:, column]

    return moved


def _log_scale(X: Any, place: Place) -> None:
    X[:, 0] = np.exp(1.2 * place.u + 0.8 * X[:, 0])


def _spread(X: Any, place: Place) -> None:
    X[:, 0] *= np.exp(place.u)


def _move_all(X: Any, place: Place) -> None:
    X += 2.0 * place.z[: X.shape[1]]


def _move_three(X: Any, place: Place) -> None:
    X[:, :3] += 0.5 + np.array([0.8, -0.8, 0.8]) * place.u


def _collinear(X: Any, place: Place) -> None:
    X[:, 0] += place.u
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    X[:, 2] = 0.7 * X[:, 0] + 0.7 * X[:, 2]


def _move_many(X: Any, place: Place) -> None:
    X += 0.7 * place.z[: X.shape[1]]


def _codes(X: Any, place: Place) -> None:
    level = np.digitize(X[:, 0] + 0.8 * place.u, [-1.2, -0.6, 0.0, 0.6, 1.2])
    X[:, 0] = np.array([3, 0, 5, 1, 4, 2])[level]


def _label_rates(rng: Generator, n: int, place: Place) -> Rows:
    y = (rng.random(n) < 0.5 + 0.3 * place.u).astype(int)
    return rng.normal(size=(n, 4)) + np.array([0.7, 0.5, 0.3, 0.0]) * (2 * y[:, None] - 1), y


def _measured(how: Callable[[Any, Place, Generator], Any]) -> Callable[[Generator, int, Place], Rows]:
    """Return a world in which the label follows the true values, and the table holds the measured ones."""

    def site(rng: Generator, n: int, place: Place) -> Rows:
        X = rng.normal(size=(n, 4))
        y = _labels(rng, 1.5 * X[:, 0] + _weak(X))
        return how(X, place, rng), y

    return site


def _rounded(X: Any, place: Place, rng: Generator) -> Any:
    step = np.exp(0.8 * place.u) * 0.7
    X[:, 0] = np.round(X[:, 0] / step) * step
    return X


def _censored(X: Any, place: Place, rng: Generator) -> Any:
    X[:, 0] = np.minimum(X[:, 0], 0.8 - 0.8 * place.u)
    return X


def _missing(X: Any, place: Place, rng: Generator) -> Any:
    gone = rng.random(len(X)) < 0.25 + 0.2 * place.u
    X[:, 0] = np.where(gone, 0.0, X[:, 0])  # the median
    return np.column_stack([X, gone])


def _noisy(share: float) -> Callable[[Generator, int, Place], Rows]:
    def site(rng: Generator, n: int, place: Place) -> Rows:
        X = rng.normal(size=(n, 4))
        y = _labels(rng, 1.5 * X[:, 0] + _weak(X))
        return X, _flipped(rng, y, share) if place.number == 0 else y

    return site


def _noisy_code(share: float) -> Callable[[Generator, int, Place], Rows]:
    def site(rng: Generator, n: int, place: Place) -> Rows:
        X, y = _four_weak(rng, n)
        X = np.column_stack([X, _flipped(rng, y, 0.1)])
        return X, _flipped(rng, y, share) if place.number == 0 else y

    return site


def _heavy(rng: Generator, n: int, place: Place) -> Rows:
    X = rng.standard_t(2, size=(n, 4)) + 0.7 * place.u
    y = _labels(rng, 1.5 * np.clip(X[:, 0], -3, 3) + _weak(np.clip(X, -3, 3)))
    wild = rng.random(X.shape) < (0.01 if place.number == 0 else 0.0)
    return np.where(wild, 20.0 * rng.normal(size=X.shape), X), y


SAME: Mapping[str, World] = {
    "identical": World("nothing differs between sites", _law(lambda X: 1.5 * X[:, 0] + _weak(X))),
    "bent": World(
        "3·tanh(x0), sites 1.2 apart, sd 0.7", _law(lambda X: 3 * np.tanh(X[:, 0]) + _weak(X), _move(0, 2.4, 0.7))
    ),
    "step": World(
        "a threshold at 0, sites 1 apart", _law(lambda X: 4.0 * (X[:, 0] > 0) - 2 + _weak(X), _move(0, 2.0, 0.8))
    ),
    "product": World(
        "x0·x1, the mean of x1 differs", _law(lambda X: 1.5 * X[:, 0] * X[:, 1] + _weak(X), _move(1, 1.5, mean=1.0))
    ),
    "three-way product": World(
        "sign(x0)·x1·x2, all three means differ",
        _law(lambda X: 1.5 * np.sign(X[:, 0]) * X[:, 1] * X[:, 2] + X[:, 0] + X[:, 3], _move_three),
    ),
    "log": World(
        "2·log(x0), other magnitudes at each site", _law(lambda X: 2 * np.log(X[:, 0]) + _weak(X), _log_scale)
    ),
    "quadratic": World(
        "x0² - 1, the mean of x0 differs", _law(lambda X: X[:, 0] ** 2 - 1 + _weak(X), _move(0, 1.2, mean=0.5))
    ),
    "scale": World("the spread of x0 differs by a factor of 7", _law(lambda X: 1.2 * X[:, 0] + _weak(X), _spread)),
    "covariate shift": World(
        "means of all columns differ with sd 2", _law(lambda X: X[:, 0] - 0.5 * X[:, 1] + 0.5 * X[:, 2], _move_all)
    ),
    "collinear": World(
        "three columns correlated at 0.7 to 0.95, one mean differs",
        _law(lambda X: X[:, 0] + 0.5 * X[:, 2] + 0.5 * X[:, 3], _collinear),
    ),
    "many weak": World(
        "20 columns of effect 0.3, all means differ",
        _law(lambda X: X @ np.tile([0.3, -0.3], 10), _move_many, n_columns=20),
    ),
    "integer codes": World(
        "a category of six levels as integers, other frequencies",
        _law(lambda X: np.array([1.5, -1.0, 0.5, -1.5, 1.0, -0.5])[X[:, 0].astype(int)] + _weak(X), _codes),
    ),
    "label rates": World("the label's rate goes from 20 % to 80 %", _label_rates),
    "rounding": World("x0 is rounded to steps of 0.3 to 1.6", _measured(_rounded)),
    "censoring": World("x0 is clipped at 1.6 to 0", _measured(_censored)),
    "missing": World("x0 is missing in 5 to 45 % (median and indicator)", _measured(_missing)),
    "noisier labels": World("15 % of labels are flipped at one site", _noisy(0.15)),
    "noisier labels, code": World("the same, with a code that is right in 90 % everywhere", _noisy_code(0.15)),
    "heavy tails": World("Student's t, 2 degrees of freedom; outliers at one site", _heavy),
}


# --- planted: a column turns at the new site --------------------------------------------------------------------------


def _natural(rng: Generator, n: int) -> Rows:
    """Return five correlated columns, and a label that follows them."""
    X = 0.5 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 5))
    return X, _labels(rng, X @ [0.9, -0.6, 0.5, 0.4, 0.3])


def _four_weak(rng: Generator, n: int) -> Rows:
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) + 0.3 * (2 * y[:, None] - 1), y


def _right(place: Place, first: float, last: float) -> float:
    """Return how often a code is right: between two shares at the known sites, 10 % where it turned."""
    return 0.1 if place.turned else float(np.interp(place.u, [-1, 1], [first, last]))


def _code(first: float, last: float, n_codes: int = 1) -> Callable[[Generator, int, Place], Rows]:
    def site(rng: Generator, n: int, place: Place) -> Rows:
        X, y = _natural(rng, n)
        codes = [_flipped(rng, y, 1 - _right(place, first, last)) for _ in range(n_codes)]
        return np.column_stack([X, *codes]), y

    return site


def _two_ways(rng: Generator, n: int, place: Place) -> Rows:
    X, y = _natural(rng, n)
    codes = [_flipped(rng, y, 1 - _right(place, *shares)) for shares in ((0.95, 0.8), (0.8, 0.95))]
    return np.column_stack([X, *codes]), y


def _lean(place: Place) -> float:
    """Return half the distance between the means of a spurious number, by label."""
    return -1.3 if place.turned else float(np.interp(place.u, [-1, 1], [1.6, 1.0]))


def _number(rng: Generator, n: int, place: Place) -> Rows:
    X, y = _natural(rng, n)
    return np.column_stack([X, _lean(place) * (2 * y - 1) + rng.normal(size=n)]), y


def _number_twice(rng: Generator, n: int, place: Place) -> Rows:
    X, y = _number(rng, n, place)
    return np.column_stack([X, 32 + 1.8 * X[:, -1]]), y


def _predicted_number(rng: Generator, n: int, place: Place) -> Rows:
    X, y = _number(rng, n, place)
    X[:, -1] += X[:, :5] @ [0.5, 0.5, 0.0, 0.0, 0.3]
    return X, y


def _rare(rng: Generator, n: int, place: Place) -> Rows:
    y = (rng.random(n) < 0.05).astype(int)
    X = rng.normal(size=(n, 5)) + y[:, None] * np.linspace(0.2, 1.0, 5)
    return np.column_stack([X, _flipped(rng, y, 1 - _right(place, 0.95, 0.8))]), y


def _wrong_labels(share: float) -> Callable[[Generator, int, Place], Rows]:
    def site(rng: Generator, n: int, place: Place) -> Rows:
        X, y = _four_weak(rng, n)
        X = np.column_stack([X, _flipped(rng, y, 1 - _right(place, 0.93, 0.8))])
        return X, _flipped(rng, y, share) if place.number == 0 else y

    return site


GRID = tuple((n_sites, n_rows) for n_sites in (2, 3, 5, 7) for n_rows in (100, 300, 500, 1500))
LARGE = ((2, 500), (3, 500), (5, 300))
PLANTED: Mapping[str, World] = {
    "code": World("a code right in 95 to 85 %", _code(0.95, 0.85), GRID, planted=(5,)),
    "code 90/70": World("a code right in 90 to 70 %", _code(0.9, 0.7), LARGE, planted=(5,)),
    "two codes": World("two codes right in 95 to 85 %", _code(0.95, 0.85, 2), LARGE, planted=(5, 6)),
    "two codes, crossed": World("one right in 95 to 80 %, one in 80 to 95 %", _two_ways, LARGE, planted=(5, 6)),
    "number": World("a number 1.6 to 1.0 sd from its mean", _number, LARGE, planted=(5,)),
    "number, copied": World("the same and a copy in other units", _number_twice, LARGE, planted=(5, 6)),
    "number, predicted": World("a number that other columns predict too", _predicted_number, LARGE, planted=(5,)),
    "rare labels": World(
        "5 % events, a code right in 95 to 80 %", _rare, ((3, 500), (3, 1500)), planted=(5,), score="auroc"
    ),
    **{
        f"{share:.0%} wrong labels": World(
            f"code 93/80 beside four weak columns; {share:.0%} wrong labels at the first site",
            _wrong_labels(share),
            ((2, 500),),
            planted=(4,),
        )
        for share in (0.0, 0.04, 0.08)
    },
}
SMOOTH = {name: world for name, world in PLANTED.items() if name.endswith("wrong labels")}


# --- units: the linear unit tests of invariance -----------------------------------------------------------------------


def draw_units(name: str, n_environments: int, draw: int) -> tuple[Draw, Rows]:
    """Return training rows, a new environment, and test rows of the known ones with the spurious block shuffled."""
    rng = generator("units", name, n_environments, draw)
    example, scrambled = name[0], name.endswith("s")
    turn = ortho_group.rvs(10, random_state=rng) if scrambled else np.eye(10)
    known = [unit_environment(example, rng, number) for number in range(n_environments)]
    X, y = _stacked([rows(1000) for rows in known])
    fresh = [rows(1000) for rows in known]
    same, same_y = _stacked(fresh)
    shuffled = np.vstack([np.hstack([rows[:, :5], rng.permutation(rows[:, 5:])]) for rows, _ in fresh])
    new_X, new_y = unit_environment(example, rng, -1)(TEST_ROWS)
    sites = np.repeat(_names(n_environments), 1000)
    return Draw(X @ turn, y, sites, (same @ turn, same_y), (new_X @ turn, new_y)), (shuffled @ turn, same_y)


# --- clones: rows that belong together --------------------------------------------------------------------------------


def draw_clones(name: str, layout: tuple[int, int], draw: int) -> Draw:
    """Return a table in which no column changes, whose rows are copies or visits of one patient."""
    n_sites, n_patients = layout
    rng = generator("clones", name, *layout, draw)
    n = n_sites * n_patients
    X = rng.normal(size=(n, 5))
    y = _labels(rng, X @ [1.0, 0.7, 0.5, 0.3, 0.0])
    X = np.column_stack([X, _flipped(rng, y, 0.15)])
    sites, patients = np.repeat(_names(n_sites), n_patients), np.arange(n)
    n_each = {"once": 1, "three copies": 3, "five visits": 5}[name]
    rows = np.repeat(np.arange(n), n_each)
    X, y, sites, patients = X[rows], y[rows], sites[rows], patients[rows]
    if name == "five visits":  # numbers vary from visit to visit, the label and the code are the patient's
        X[:, :5] += 0.5 * rng.normal(size=(len(X), 5))
    return Draw(X, y, sites, (X, y), (X, y), patients)


# --- forecast: coverage at a new site ---------------------------------------------------------------------------------


def _shifted(covariates: float = 0.0, labels: float = 0.0, rate: float = 0.5) -> Callable[..., Rows]:
    """Return a world of one linear law whose means and intercept vary between sites."""

    def site(rng: Generator, n: int, place: Place) -> Rows:
        y = (rng.random(n) < expit(np.log(rate / (1 - rate)) + labels * place.z[0])).astype(int)
        X = rng.normal(size=(n, 4)) + np.array([0.8, 0.5, 0.3, 0.0]) * (2 * y[:, None] - 1)
        if covariates:  # the label follows the columns
            X = rng.normal(size=(n, 4)) + covariates * place.z[1:5]
            y = _labels(rng, X @ [1.5, 1.0, 0.5, 0.0] + np.log(rate / (1 - rate)))
        if len(np.unique(y)) < 2:
            y[0] = 1 - y[0]
        return X, y

    return site


SIZES = ((2, 30), (2, 300), (5, 300), (12, 30), (12, 300), (4, 5000))
FORECAST: Mapping[str, World] = {
    name: World(about, site, SIZES)
    for name, about, site in (
        ("no shift", "sites are alike", _shifted()),
        ("covariate shift 1", "means differ with sd 1", _shifted(covariates=1.0)),
        ("covariate shift 2", "means differ with sd 2", _shifted(covariates=2.0)),
        ("label shift 1", "log-odds of the label differ with sd 1", _shifted(labels=1.0)),
        ("label shift 2", "log-odds of the label differ with sd 2", _shifted(labels=2.0)),
        ("rare labels", "8 % events, log-odds differ with sd 0.5", _shifted(labels=0.5, rate=0.08)),
    )
}


# --- bundled: scikit-learn's tables -----------------------------------------------------------------------------------

BUNDLED: Mapping[str, Callable[[], Any]] = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
}
CUTS = ("dealt at random", "cut by a column", "planted code")


def draw_bundled(table: str, cut: str, draw: int) -> Draw:
    """Return three environments of a bundled table: two thirds of the rows to train, the others to test."""
    data = BUNDLED[table]()
    rng = generator("bundled", table, cut, draw)
    X, y = data.data, data.target
    if table == "diabetes":
        y = (y > np.median(y)).astype(int)
    if table == "digits":  # pixels that vary
        X = X[:, X.std(axis=0) > 1.0]
    environments = rng.permutation(np.arange(len(y)) % 3)
    if cut == "cut by a column":
        values = X[:, rng.integers(X.shape[1])]
        order = np.lexsort([rng.random(len(y)), values])
        environments[order] = np.arange(len(y)) * 3 // len(y)
    turned_X = X
    if cut == "planted code":
        n_classes = int(y.max()) + 1
        other = (y + rng.integers(1, n_classes, size=len(y))) % n_classes
        chance = rng.random(len(y))
        code = np.where(chance < np.array([0.95, 0.9, 0.85])[environments], y, other)
        X, turned_X = np.column_stack([X, code]), np.column_stack([X, np.where(chance < 0.1, y, other)])
    test = rng.random(len(y)) < 1 / 3
    names = np.array(_names(3))[environments]
    return Draw(X[~test], y[~test], names[~test], (X[test], y[test]), (turned_X[test], y[test]))


# --- Fits -------------------------------------------------------------------------------------------------------------


class Holdfast:
    """`StableClassifier` as the suites ask for it."""

    def __init__(self, estimator: Any, X: Any, y: Any, environments: Any, **options: Any) -> None:
        self.model = StableClassifier(estimator, random_state=0).fit(X, y, environments=environments, **options)
        verdict = self.model.verdict_
        self.kept = [verdict.kept.get(f"x{column}", 1.0) for column in range(X.shape[1])]
        self.forecast = None if verdict.forecast is None else (verdict.forecast.low, verdict.forecast.high)
        self.predict, self.predict_proba = self.model.predict, self.model.predict_proba


def find_fit(name: str) -> Callable[..., Any]:
    """Return the callable that `MODULE:CALLABLE` names, or that of holdfast."""
    if not name:
        return Holdfast
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def told_together(fit: Callable[..., Any], patients: Any) -> dict[str, Any] | None:
    """Return the option that says which rows belong together; None: a callable of --fit does not take it."""
    if fit is not Holdfast and TOGETHER not in inspect.signature(fit).parameters:
        return None
    return {TOGETHER: patients}


@dataclass(frozen=True)
class Bench:
    """What is fitted, and where it is written down."""

    records: trust.Records
    fit: Callable[..., Any]
    estimator: str

    def make(self, seed: int = 0) -> Any:
        """Return the plain estimator."""
        return ESTIMATORS[self.estimator](seed)

    def add(self, suite: str, world: str, draw: int, measure: Callable[[], dict[str, Any]], **more: Any) -> None:
        """Measure what is not there yet."""
        key = {"suite": suite, "world": world, **more, "estimator": self.estimator, "draw": draw}
        self.records.add(key, measure)


def _rounded_values(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]


def _score(model: Any, rows: Rows, score: str = "accuracy") -> float:
    return round(trust.scores(model, *rows)[score], 4)


def _fitted(model: Any) -> dict[str, Any]:
    """Return what was decided: kept shares of columns that are not used whole, and the forecast."""
    kept = {str(column): round(float(share), 3) for column, share in enumerate(model.kept) if share < 1.0}
    return {"kept": kept} | ({} if model.forecast is None else {"forecast": _rounded_values(model.forecast)})


def _compare(bench: Bench, drawn: Draw, planted: Sequence[int] = (), score: str = "accuracy") -> dict[str, Any]:
    """Return scores of the plain estimator, the one that is tried, and one without what was planted."""
    plain = bench.make().fit(drawn.X, drawn.y)
    model = bench.fit(bench.make(), drawn.X, drawn.y, drawn.sites)
    found = {
        place: [_score(plain, rows, score), _score(model, rows, score)]
        for place, rows in (("same", drawn.same), ("new", drawn.new))
    }
    if planted:
        without = bench.make().fit(np.delete(drawn.X, planted, axis=1), drawn.y)
        for place, (X, y) in (("same", drawn.same), ("new", drawn.new)):
            found[place].append(_score(without, (np.delete(X, planted, axis=1), y), score))
    return found | _fitted(model)


def run_worlds(bench: Bench, suite: str, worlds: Mapping[str, World], n_draws: int) -> None:
    """Compare in every world, layout and draw."""
    for draw in range(n_draws):
        for name, world in worlds.items():
            for layout in world.layouts:
                measure = partial(_in_world, bench, world, name, layout, draw)
                bench.add(suite, name, draw, measure, sites=layout[0], rows=layout[1])


def _in_world(bench: Bench, world: World, name: str, layout: tuple[int, int], draw: int) -> dict[str, Any]:
    return _compare(bench, draw_world(world, name, layout, draw), world.planted, world.score)


def run_smooth(bench: Bench, n_draws: int, n_flips: int = 20, n_bootstraps: int = 8) -> None:
    """Flip one label at a time; draw the rows of each site with replacement."""
    for draw in range(n_draws):
        for name, world in SMOOTH.items():
            bench.add("smooth", name, draw, partial(_smooth, bench, world, name, draw, n_flips, n_bootstraps))


def _smooth(bench: Bench, world: World, name: str, draw: int, n_flips: int, n_bootstraps: int) -> dict[str, Any]:
    layout = world.layouts[0]
    drawn, rng = draw_world(world, name, layout, draw), generator("smooth", name, draw)

    def kept(X: Any, y: Any) -> Any:
        return np.asarray(bench.fit(bench.make(), X, y, drawn.sites).kept, dtype=float)

    before, moves = kept(drawn.X, drawn.y), []
    for row in rng.choice(len(drawn.y), n_flips, replace=False):
        y = drawn.y.copy()
        y[row] = 1 - y[row]
        moves.append(np.abs(kept(drawn.X, y) - before).max())
    again = []
    for _ in range(n_bootstraps):
        rows = np.concatenate([rng.choice(np.flatnonzero(drawn.sites == s), layout[1]) for s in np.unique(drawn.sites)])
        again.append(kept(drawn.X[rows], drawn.y[rows]))
    code = world.planted[0]
    return {
        "kept": round(float(before[code]), 3),
        "moved": round(float(max(moves)), 3),
        "sd": round(float(np.std(again, axis=0, ddof=1)[code]), 3),
    }


def run_units(bench: Bench, n_draws: int) -> None:
    """The linear unit tests: error where the spurious block is shuffled, and whether the forecast covers it."""
    for draw in range(n_draws):
        for name in ("2", "2s", "3", "3s"):
            for n_environments in (3, 10):
                measure = partial(_unit, bench, name, n_environments, draw)
                bench.add("units", f"Example {name}", draw, measure, sites=n_environments)


def _unit(bench: Bench, name: str, n_environments: int, draw: int) -> dict[str, Any]:
    drawn, shuffled = draw_units(name, n_environments, draw)
    plain = bench.make().fit(drawn.X, drawn.y)
    model = bench.fit(bench.make(), drawn.X, drawn.y, drawn.sites)
    places = (("same", drawn.same), ("new", drawn.new), ("shuffled", shuffled))
    return {place: [_score(m, rows) for m in (plain, model)] for place, rows in places} | _fitted(model)


def run_clones(bench: Bench, n_draws: int) -> None:
    """Tables in which nothing changes, with and without saying which rows belong together."""
    for draw in range(n_draws):
        for name in ("once", "three copies", "five visits"):
            for layout in ((2, 300), (5, 200)):
                drawn = draw_clones(name, layout, draw)
                options = {"not said": {}, "said": told_together(bench.fit, drawn.patients)}
                for said, option in options.items():
                    if option is None or (name == "once" and said == "said"):
                        continue
                    measure = partial(_clones, bench, drawn, option)
                    bench.add("clones", name, draw, measure, sites=layout[0], rows=layout[1], together=said)


def _clones(bench: Bench, drawn: Draw, option: dict[str, Any]) -> dict[str, Any]:
    return _fitted(bench.fit(bench.make(), drawn.X, drawn.y, drawn.sites, **option))


def run_bundled(bench: Bench, n_draws: int) -> None:
    """scikit-learn's tables with made environments."""
    for draw in range(n_draws):
        for table in BUNDLED:
            for cut in CUTS:
                if table == "digits" and draw >= 2:
                    continue  # ten classes: as long as all others together
                bench.add("bundled", table, draw, partial(_bundled, bench, table, cut, draw), cut=cut)


def _bundled(bench: Bench, table: str, cut: str, draw: int) -> dict[str, Any]:
    drawn = draw_bundled(table, cut, draw)
    return _compare(bench, drawn, (drawn.X.shape[1] - 1,) if cut == "planted code" else ())


def run_real(bench: Bench, suite: str, names: Sequence[str]) -> None:
    """Leave one environment out of the tables of trust.py in turn, as trust.py does."""
    folder = Path(os.environ["HOLDFAST_TEST_DATA"])
    for name in names:
        X, y, environments = trust.read_real(name, folder)
        if sp.issparse(X):
            continue  # words: not for prototypes
        for left_out, train in trust.leave_out(y, environments):
            for seed in range(trust.N_SEEDS[bench.estimator]):
                measure = partial(_real, bench, suite, (X, y, environments), train, left_out, seed)
                bench.add(suite, name, seed, measure, left_out=left_out)


def _real(bench: Bench, suite: str, rows: tuple[Any, Any, Any], train: Any, left_out: str, seed: int) -> dict[str, Any]:
    (X, y, environments), test = rows, ~train
    found: dict[str, Any] = {}
    if suite == "planted_real":
        without = bench.make(seed).fit(X[train], y[train])
        found["without"] = _rounded_values(trust.scores(without, X[test], y[test]).values())
        X = np.column_stack([X, trust.planted_column(y, environments, left_out)])
    plain = bench.make(seed).fit(X[train], y[train])
    model = bench.fit(bench.make(seed), X[train], y[train], environments[train])
    for name, fitted in (("plain", plain), ("stable", model)):  # accuracy, AUROC, log loss
        found[name] = _rounded_values(trust.scores(fitted, X[test], y[test]).values())
    return found | _fitted(model)


# --- Tables -----------------------------------------------------------------------------------------------------------


def _acts(records: Sequence[dict[str, Any]]) -> str:
    n_acts = sum(any(share < WHOLE for share in r["kept"].values()) for r in records)
    return f"{n_acts / len(records):.0%}"


def _lost(records: Sequence[dict[str, Any]], place: str) -> Any:
    """Return how many points of accuracy are lost against the plain estimator."""
    return 100 * np.array([r[place][0] - r[place][1] for r in records])


def _given_up(shares: Sequence[float]) -> str:
    """Return in how many fits a column is given up, used partly, and used whole."""
    counts = sum(s < 0.1 for s in shares), sum(0.1 <= s <= 0.9 for s in shares), sum(s > 0.9 for s in shares)
    return "/".join(map(str, counts))


def _same_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| world | sites × rows | estimator | draws | acts | points lost, same sites: mean | worst | new site: mean "
        "| worst |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (world, sites, rows, estimator), mine in trust.grouped(records, "world", "sites", "rows", "estimator").items():
        same, new = _lost(mine, "same"), _lost(mine, "new")
        lines.append(
            f"| {world} | {sites} × {rows} | {estimator} | {len(mine)} | {_acts(mine)} | {same.mean():.2f} "
            f"| {same.max():.1f} | {new.mean():.2f} | {new.max():.1f} |"
        )
    for (estimator,), mine in trust.grouped(records, "estimator").items():
        same, new = _lost(mine, "same"), _lost(mine, "new")
        lines.append(
            f"| **all** | | {estimator} | {len(mine)} | {_acts(mine)} | {same.mean():.2f} | {same.max():.1f} "
            f"| {new.mean():.2f} | {new.max():.1f} |"
        )
    return lines


def gap_closed(triples: Any) -> float:
    """Return (stable - plain) / (without - plain) of mean scores, for rows of (plain, stable, without).

    Below one point there is no gap to close: the answer is NaN.
    """
    plain, stable, without = np.asarray(triples, dtype=float).mean(axis=0)
    return float((stable - plain) / (without - plain)) if without - plain >= 0.01 else float("nan")


def _planted_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| world | sites × rows | estimator | draws | plain | stable | without | share of the gap "
        "| given up/partly/whole | kept |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    shares: dict[str, list[tuple[int, float]]] = {}
    for (world, sites, rows, estimator), mine in trust.grouped(records, "world", "sites", "rows", "estimator").items():
        kept = [r["kept"].get(str(column), 1.0) for r in mine for column in PLANTED[world].planted]
        plain, stable, without = np.mean([r["new"] for r in mine], axis=0)
        share = gap_closed([r["new"] for r in mine])
        shares.setdefault(estimator, []).append((rows, share))
        lines.append(
            f"| {world} | {sites} × {rows} | {estimator} | {len(mine)} | {plain:.3f} | {stable:.3f} | {without:.3f} "
            f"| {share:.2f} | {_given_up(kept)} | {np.mean(kept):.2f} |"
        )
    for estimator, found in shares.items():
        for what, chosen in (
            ("≥ 500 rows", [s for n, s in found if n >= 500]),
            ("100–300 rows", [s for n, s in found if n < 500]),
        ):
            if chosen:
                lines.append(
                    f"| **mean of cells** | {what} | {estimator} | | | | | {_mean(np.array(chosen)):.2f} "
                    f"| | (least {np.nanmin(chosen):.2f}) |"
                )
    return lines


def _smooth_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| world | estimator | draws | given up/partly/whole | kept: mean | one label moves a share by: mean | worst "
        "| sd over bootstraps: mean |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    every = list(trust.grouped(records, "world", "estimator").items())
    every += [(("**all**", key[0]), mine) for key, mine in trust.grouped(records, "estimator").items()]
    for (world, estimator), mine in every:
        kept, moved, sd = ([r[name] for r in mine] for name in ("kept", "moved", "sd"))
        lines.append(
            f"| {world} | {estimator} | {len(mine)} | {_given_up(kept)} | {np.mean(kept):.2f} | {np.mean(moved):.2f} "
            f"| {max(moved):.2f} | {np.mean(sd):.2f} |"
        )
    return lines


def _covers(records: Sequence[dict[str, Any]], place: str) -> str:
    known = [r for r in records if "forecast" in r]
    if not known:
        return "–"
    return f"{np.mean([r['forecast'][0] <= r[place][1] <= r['forecast'][1] for r in known]):.0%}"


def _width(records: Sequence[dict[str, Any]]) -> str:
    widths = [r["forecast"][1] - r["forecast"][0] for r in records if "forecast" in r]
    return f"{np.mean(widths):.2f}" if widths else "–"


def _units_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| test | environments | estimator | seeds | error, shuffled: plain | stable | error, new environment: plain "
        "| stable | forecast covers shuffled | covers new | width | acts |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    every = list(trust.grouped(records, "world", "sites", "estimator").items())
    every += [(("**all**", "", key[0]), mine) for key, mine in trust.grouped(records, "estimator").items()]
    for (world, sites, estimator), mine in every:
        errors = [1 - np.mean([r[place][i] for r in mine]) for place in ("shuffled", "new") for i in (0, 1)]
        texts = " | ".join(f"{error:.3f}" for error in errors)
        lines.append(
            f"| {world} | {sites} | {estimator} | {len(mine)} | {texts} | {_covers(mine, 'shuffled')} "
            f"| {_covers(mine, 'new')} | {_width(mine)} | {_acts(mine)} |"
        )
    return lines


def _clones_table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| rows | sites × patients | said | estimator | draws | acts |", "|---|---|---|---|---:|---:|"]
    groups = trust.grouped(records, "world", "sites", "rows", "together", "estimator")
    for (world, sites, rows, said, estimator), mine in groups.items():
        lines.append(f"| {world} | {sites} × {rows} | {said} | {estimator} | {len(mine)} | {_acts(mine)} |")
    return lines


def _forecast_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| world | sites × rows | estimator | draws | forecast covers | width | acts |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    every = list(trust.grouped(records, "world", "sites", "rows", "estimator").items())
    every += [
        ((f"**{world}**", "all", "", est), mine)
        for (world, est), mine in trust.grouped(records, "world", "estimator").items()
    ]
    every += [(("**all**", "all", "", est), mine) for (est,), mine in trust.grouped(records, "estimator").items()]
    for (world, sites, rows, estimator), mine in every:
        size = f"{sites} × {rows}" if rows else sites
        lines.append(
            f"| {world} | {size} | {estimator} | {len(mine)} | {_covers(mine, 'new')} | {_width(mine)} "
            f"| {_acts(mine)} |"
        )
    return lines


def _bundled_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| table | environments | estimator | draws | acts | points lost, same: mean | worst | plain, turned | stable "
        "| without | share of the gap |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (table, cut, estimator), mine in trust.grouped(records, "world", "cut", "estimator").items():
        same = _lost(mine, "same")
        turned = " | | | "
        if len(mine[0]["new"]) == 3:
            plain, stable, without = np.mean([r["new"] for r in mine], axis=0)
            turned = f"{plain:.3f} | {stable:.3f} | {without:.3f} | {gap_closed([r['new'] for r in mine]):.2f}"
        lines.append(
            f"| {table} | {cut} | {estimator} | {len(mine)} | {_acts(mine)} | {same.mean():.2f} | {same.max():.1f} "
            f"| {turned} |"
        )
    return lines


def _real_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| table | estimator | fits | acts | points of accuracy against plain: mean | worst | AUROC | log loss "
        "| share of the gap | forecast covers |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    tables: dict[str, list[Any]] = {}
    for (table, estimator), mine in trust.grouped(records, "world", "estimator").items():
        more = np.array([np.subtract(r["stable"], r["plain"]) for r in mine])
        accuracy, auroc, loss = 100 * more[:, 0], 100 * more[:, 1], more[:, 2]
        share = float("nan")
        if "without" in mine[0]:
            share = gap_closed([[r[name][0] for name in ("plain", "stable", "without")] for r in mine])
        covers = [r["forecast"][0] <= r["stable"][0] <= r["forecast"][1] for r in mine if "forecast" in r]
        row = [accuracy.mean(), accuracy.min(), _mean(auroc), loss.mean()]
        tables.setdefault(estimator, []).append([*row, share, _mean(np.array(covers, dtype=float))])
        lines.append(f"| {table} | {estimator} | {len(mine)} | {_acts(mine)} | {_cells(tables[estimator][-1])} |")
    for estimator, found in tables.items():
        rows = np.array(found)
        summary = [rows[:, 0].mean(), rows[:, 0].min(), *(_mean(column) for column in rows[:, 2:].T)]
        lines.append(f"| **mean of tables, worst table** | {estimator} | {len(found)} | | {_cells(summary)} |")
    return lines


def _mean(values: Any) -> float:
    """Return the mean of what is there, NaN of nothing."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _cells(values: Sequence[float]) -> str:
    forms = ("{:+.2f}", "{:+.1f}", "{:+.2f}", "{:+.3f}", "{:.2f}", "{:.0%}")
    return " | ".join("–" if np.isnan(v) else form.format(v) for form, v in zip(forms, values, strict=True))


@dataclass(frozen=True)
class Suite:
    """How a suite is run and shown."""

    run: Callable[[Bench, int], None]
    table: Callable[[list[dict[str, Any]]], list[str]]
    draws: int
    worlds: Mapping[str, World] = field(default_factory=dict)


def suites(only: str = "") -> dict[str, Suite]:
    """Return every suite; `only` chooses worlds or real tables by a part of their names."""

    def some(worlds: Mapping[str, World]) -> dict[str, World]:
        return {name: world for name, world in worlds.items() if only in name}

    def of_worlds(name: str, worlds: Mapping[str, World]) -> Callable[[Bench, int], None]:
        return lambda bench, n_draws: run_worlds(bench, name, some(worlds), n_draws)

    def real(name: str) -> Suite:
        names = [table for table in (*trust.CHOSEN_ON, *trust.HELD_OUT) if only in table]
        return Suite(lambda bench, _: run_real(bench, name, names), _real_table, 1)

    return {
        "same": Suite(of_worlds("same", SAME), _same_table, 8, SAME),
        "planted": Suite(of_worlds("planted", PLANTED), _planted_table, 6, PLANTED),
        "smooth": Suite(run_smooth, _smooth_table, 6),
        "units": Suite(run_units, _units_table, 6),
        "clones": Suite(run_clones, _clones_table, 10),
        "forecast": Suite(of_worlds("forecast", FORECAST), _forecast_table, 8, FORECAST),
        "bundled": Suite(run_bundled, _bundled_table, 4),
        "natural": real("natural"),
        "planted_real": real("planted_real"),
    }


OUTSIDE_DATA = ("natural", "planted_real")
SLOWER = {"logistic": 1, "boosting": 3, "forest": 3}  # the default number of draws is divided by this


def records_of(fit: str, path: Path | None) -> trust.Records:
    """Return the records of a classifier: those of holdfast are evidence, those of others are not kept."""
    if path is None and fit:
        path = Path(tempfile.gettempdir()) / f"worlds-{fit.replace(':', '-')}.jsonl"
    path = path or trust.EVIDENCE / "worlds.jsonl"
    return trust.Records(path.stem, path.parent, prefix="")


def main() -> None:
    """Run suites, print their tables, or list the worlds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table", "list"])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"default, {', '.join(suites())}")
    parser.add_argument("--draws", type=int, help="draws of each world (default: as each suite has it)")
    parser.add_argument("--estimator", action="append", choices=[*ESTIMATORS], help="may be given repeatedly")
    parser.add_argument("--only", default="", help="only worlds or tables whose name contains this")
    parser.add_argument("--fit", default="", metavar="MODULE:CALLABLE", help="another classifier, to be tried")
    parser.add_argument("--records", type=Path, help="file of the records")
    parser.add_argument("--again", action="store_true", help="delete the records first")
    options = parser.parse_args()
    known = suites(options.only)
    inside = [name for name in known if name not in OUTSIDE_DATA]
    names = [n for name in options.suites for n in (inside if name == "default" else [name])]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no suite is called {unknown[0]!r}; there are default, {', '.join(known)}")
    if options.what == "list":
        for name, suite in known.items():
            for world, law in suite.worlds.items():
                print(f"{name:9} {world:22} {law.about}")
        return
    records = records_of(options.fit, options.records)
    if options.what == "table":
        for name in names or known:
            mine = [r for r in records.found.values() if r["key"]["suite"] == name]
            if mine:
                print(f"\n{name}\n\n" + "\n".join(known[name].table(mine)))
        return
    if not names:
        parser.error(f"say which suites to run: default, {', '.join(known)}")
    if options.again:
        records.path.unlink(missing_ok=True)
        records = records_of(options.fit, options.records)
    for estimator in options.estimator or ["logistic"]:
        bench = Bench(records, find_fit(options.fit), estimator)
        for name in names:
            known[name].run(bench, options.draws or max(2, known[name].draws // SLOWER[estimator]))


if __name__ == "__main__":
    main()
