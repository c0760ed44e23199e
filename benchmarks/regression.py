"""Does the decision of `StableRegressor` hold? Synthetic worlds, bundled tables and real tables with a number as label.

    python benchmarks/regression.py run same planted bundled [--estimators ridge,boosting] [--draws 4]
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/regression.py run natural planted_real
    python benchmarks/regression.py table [SUITE...]

`run` appends one JSON line for each fit to docs/evidence/regression.jsonl and skips what is there. `table` prints one
Markdown table for each suite. The model was chosen on draws 0 to 3 of the worlds; the records are of draws from 10 on.
Nothing was chosen on the bundled and the real tables.

same: P(y|x) is the same at every site, or the sites' labels and columns have other noise and other ranges. Measures how
    often the model acts, and the points of R² that it loses at a new site (100 R²).
planted: a fifth column follows the label alone; its correlation with the
    label, 0.9 or 0.6, is lower at some sites or turns at one, and turns at the new one. Measures the share of the gap
    recovered: (stable - plain) / (without the column - plain).
bundled: scikit-learn's diabetes, dealt to sites or cut by a column: as it is, and with a planted column.
natural, planted_real: thirteen real tables, with two of their numbers as labels in turn; one environment is left out in
    turn, at most four. Planted: a number or a category that turns where it is left out; the first and the last only.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - the thread counts come first
import pandas as pd  # noqa: E402
import trust  # noqa: E402
import worlds  # noqa: E402
from sklearn.datasets import load_diabetes  # noqa: E402

from holdfast import StableRegressor  # noqa: E402
from holdfast.fitting.estimators import fit_rows  # noqa: E402
from holdfast.tables.preprocessing import with_preprocessing  # noqa: E402
from holdfast.tables.regression import REGRESSORS  # noqa: E402
from holdfast.tables.schema import TableSchema  # noqa: E402

Site = Callable[[np.random.Generator, int, float, Any], tuple[Any, Any]]  # rng, rows, place from -1 to 1, own numbers
LAYOUTS = ((5, 600), (2, 500), (3, 150))  # sites, rows of each
FIRST_DRAW, TEST_ROWS = 10, 3000
WHOLE = 0.98  # kept share below which the model acts
LABELS: Mapping[str, tuple[str, str]] = {  # of the real tables; a category's columns are put together again
    "abalone": ("shell", "whole"),
    "adult_occup": ("hours-per-week", "age"),
    "bank": ("age", "balance"),
    "bike_season": ("temp", "hum"),
    "compas_race": ("age", "priors_count"),
    "computers": ("speed", "hd"),
    "elec": ("nswprice", "nswdemand"),
    "fars": ("AGE",) * 2,
    "heart": ("thalach", "age"),
    "hi": ("whrswk", "experience"),
    "males": ("wage", "exper"),
    "occupancy": ("CO2", "Temperature"),
    "wine": ("alcohol", "density"),
}


# --- same: no effect changes -----------------------------------------------------------------------------------------


def _weak(X: Any) -> Any:
    return X[:, 1:4] @ [0.6, -0.4, 0.3]


def _law(mean: Callable[[Any], Any], *, column: int = 0, by: float = 0.0, noise: float = 0.0) -> Site:
    """Return a law of the label with one column whose mean moves, and noise that grows, from site to site."""

    def site(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
        X = rng.normal(size=(n, 4))
        X[:, column] += by * u
        return X, mean(X) + np.exp(noise * u) * rng.normal(size=n)

    return site


def _moved(mean: Callable[[Any], Any]) -> Site:
    """Return a law of the label where all columns have other means at each site."""

    def site(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
        X = rng.normal(size=(n, 4)) + z[:4]
        return X, mean(X) + rng.normal(size=n)

    return site


def _effects(*, spread: float = 0.0, noise: float = 0.0, shift: float = 0.0, wrong: float = 0.0) -> Site:
    """Return columns that are effects of the label, whose range, place and errors differ."""

    def site(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
        y = np.exp(spread * u) * rng.normal(size=n) + shift * u
        X = y[:, None] * [1.0, 0.7, 0.4, 0.0] + np.exp(noise * u) * rng.normal(size=(n, 4))
        return X, y + wrong * (u + 1.2) / 2 * rng.normal(size=n)

    return site


def _heavy(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
    X = rng.standard_t(3, size=(n, 4))
    X[:, 0] += u
    return X, X[:, 0] + _weak(X) + np.exp(0.5 * u) * rng.standard_t(2.5, size=n)


def _grows(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
    X = rng.normal(size=(n, 4)) + [u, 0, 0, 0]
    return X, X[:, 0] + _weak(X) + np.abs(X[:, 0] + u) * rng.normal(size=n)


def _latent(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
    hidden = rng.normal(size=(n, 2)) + [u, 0]
    X = hidden @ np.array([[1, 0.8, 0.5, 0, 0.3], [0, 0.5, 0.8, 1, -0.4]]) + 0.6 * rng.normal(size=(n, 5))
    return X, X @ [0.5, 0.3, 0, 0.4, 0.2] + 0.8 * rng.normal(size=n)


def _category(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
    X = rng.normal(size=(n, 4))
    level = np.clip(rng.integers(4, size=n) + (rng.random(n) < 0.3 * (u + 1)), 0, 3)
    y = _weak(X) + np.array([0, 1, 0.3, -1])[level] + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame.assign(a=np.array(list("pqrs"))[level]), y


def _exponential(rng: Any, n: int, u: float, z: Any) -> tuple[Any, Any]:
    X, y = _law(lambda X: X[:, 0] + _weak(X), by=0.7)(rng, n, u, z)
    return X, np.exp(0.6 * y)


SAME: Mapping[str, Site] = {
    "plain": _law(lambda X: X[:, 0] + _weak(X)),
    "noise differs": _law(lambda X: X[:, 0] + _weak(X), noise=0.8),
    "noise grows with a column": _grows,
    "heavy tails": _heavy,
    "bend, ranges": _law(lambda X: 2 * np.abs(X[:, 0]) + _weak(X), by=1.0),
    "exponential effect, ranges": _law(lambda X: np.exp(0.7 * X[:, 0]) + _weak(X), by=1.0),
    "threshold, ranges": _law(lambda X: 2 * (X[:, 0] > 0.3) + _weak(X), by=1.0),
    "saturation, ranges": _law(lambda X: 2 * np.tanh(X[:, 0]) + _weak(X), by=1.5),
    "product, ranges": _law(lambda X: X[:, 0] * X[:, 1] + _weak(X), column=1, by=1.0),
    "product, all moved": _moved(lambda X: X[:, 0] + _weak(X) + 0.5 * X[:, 0] * X[:, 3]),
    "exclusive or, all moved": _moved(lambda X: 2 * (X[:, 0] > 0) * (X[:, 1] > 0) + _weak(X)),
    "product of three, all moved": _moved(lambda X: X[:, 0] * X[:, 1] * X[:, 2] + _weak(X)),
    "latent factors": _latent,
    "category": _category,
    "exponential label": _exponential,
    "effects of the label": _effects(),
    "effects, range of the label": _effects(spread=0.6),
    "effects, noise of the columns": _effects(noise=0.6),
    "effects, level of the label": _effects(shift=1.0),
    "effects, errors in the label": _effects(wrong=0.8),
}


# --- planted ---------------------------------------------------------------------------------------------------------

STRENGTHS: Mapping[str, Callable[[int, int], float]] = {  # of a known site; -1 at the new one
    "falls by half": lambda i, n: 1 - 0.5 * i / (n - 1),
    "whole or half": lambda i, n: (1.0, 0.5)[i % 2],
    "turned at the last": lambda i, n: -1.0 if i == n - 1 else 1.0,
}


def planted_column(rng: Any, y: Any, strength: float, kind: str) -> Any:
    """Return a number, a code or a category that correlates with y, of unit variance, by 0.9 (weak: 0.6) times this."""
    correlation = strength * (0.6 if kind == "weak number" else 0.9)
    number = correlation * y + np.sqrt(1 - correlation**2) * rng.normal(size=len(y))
    if kind == "code":
        return (number > 0).astype(float)
    if kind == "category":
        return np.array(["blue", "red", "green", "white"])[np.digitize(number, [-0.7, 0.0, 0.7])]
    return number


KINDS = ("number", "weak number", "code", "category")


def _planted_site(rng: Any, n: int, u: float, strength: float, kind: str) -> tuple[Any, Any]:
    X = rng.normal(size=(n, 4))
    X[:, 1] += 0.5 * X[:, 0]
    X[:, 2] += 0.5 * u
    X[:, 3] -= 0.4 * X[:, 1]
    y = X @ [1, 0.5, -0.5, 0.4] + rng.normal(size=n)
    return pd.DataFrame(X, columns=list("abcd")).assign(planted=planted_column(rng, y / 1.9, strength, kind)), y


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(train: tuple[Any, Any, Any], new: tuple[Any, Any], estimator: str) -> dict[str, Any]:
    """Fit the stable model, the ordinary one and, where a column is planted, one without it; return what they reach."""
    X, y, sites = train
    frame, there = (pd.DataFrame(np.asarray(rows)) if isinstance(rows, np.ndarray) else rows for rows in (X, new[0]))
    frame, there = (rows.rename(columns=str) for rows in (frame, there))
    inner = REGRESSORS[estimator].make()
    schema = TableSchema.infer(frame)
    model = StableRegressor(with_preprocessing(schema, inner), random_state=0).fit(frame, y, environments=sites)
    verdict, spread = model.verdict_, float(np.var(new[1]))

    def r2(predicted: Any) -> float:
        return float(1 - np.mean((new[1] - predicted) ** 2) / spread)

    stable = model.predict(there)
    found = {
        "fitted": verdict.fitted,
        "kept": {name: share for name, share in verdict.kept.items() if share < WHOLE},
        "plain": r2(model.ordinary_.predict(there)),
        "stable": r2(stable),
        "covers": bool(verdict.forecast.low <= np.sqrt(np.mean((new[1] - stable) ** 2)) <= verdict.forecast.high),
    }
    if "planted" in frame:
        rest = frame.drop(columns="planted")
        without = with_preprocessing(TableSchema.infer(rest), REGRESSORS[estimator].make())
        found["without"] = r2(fit_rows(without, rest, y, np.arange(len(y)), None).predict(there))
    return found


def _stack(parts: list[Any]) -> Any:
    return pd.concat(parts, ignore_index=True) if hasattr(parts[0], "columns") else np.vstack(parts)


def _generator(*parts: Any) -> Any:
    return worlds.generator(*parts)


def tasks(suite: str, draws: int) -> Iterator[tuple[dict[str, Any], Callable[[], tuple[Any, Any]]]]:
    """Yield the key of each task, and how to draw its training rows and those of the new site."""
    if suite == "same":
        for name, site in SAME.items():
            for layout in LAYOUTS:
                for draw in range(FIRST_DRAW, FIRST_DRAW + draws):
                    yield _key(suite, name, layout, draw), _drawn(site, name, layout, draw)
    elif suite == "planted":
        for kind in KINDS:
            for strengths in STRENGTHS:
                for layout in LAYOUTS:
                    for draw in range(FIRST_DRAW, FIRST_DRAW + draws):
                        yield (
                            _key(suite, f"{kind}, {strengths}", layout, draw),
                            _drawn_planted(kind, strengths, layout, draw),
                        )
    elif suite == "bundled":
        for cut in ("dealt", "sex", "age", "bp"):
            for kind in ("", "number", "category"):
                for draw in range(draws):
                    key = {"suite": suite, "world": f"diabetes by {cut}", "kind": kind, "draw": draw}
                    yield key, _bundled(cut, kind, draw)
    else:
        for table, labels in LABELS.items():
            for label in dict.fromkeys(labels):
                yield from _real(suite, table, label)


def _key(suite: str, world: str, layout: tuple[int, int], draw: int) -> dict[str, Any]:
    return {"suite": suite, "world": world, "layout": list(layout), "draw": draw}


def _drawn(site: Site, name: str, layout: tuple[int, int], draw: int) -> Callable[[], tuple[Any, Any]]:
    def draw_rows() -> tuple[Any, Any]:
        n_sites, n_rows = layout
        rng = _generator(name, *layout, draw)
        places = np.linspace(-1, 1, n_sites) * min(1.0, n_sites / 4)
        parts = [site(rng, n_rows, float(u), rng.normal(size=40)) for u in places]
        new = site(rng, TEST_ROWS, float(rng.uniform(-1, 1)), rng.normal(size=40))
        return (_stack([X for X, _ in parts]), np.concatenate([y for _, y in parts]), _sites(layout)), new

    return draw_rows


def _sites(layout: tuple[int, int]) -> Any:
    return np.repeat([f"site {number}" for number in range(layout[0])], layout[1])


def _drawn_planted(kind: str, strengths: str, layout: tuple[int, int], draw: int) -> Callable[[], tuple[Any, Any]]:
    def draw_rows() -> tuple[Any, Any]:
        n_sites, n_rows = layout
        rng = _generator(kind, strengths, *layout, draw)
        parts = [
            _planted_site(rng, n_rows, float(u), STRENGTHS[strengths](i, n_sites), kind)
            for i, u in enumerate(np.linspace(-1, 1, n_sites))
        ]
        new = _planted_site(rng, TEST_ROWS, float(rng.uniform(-1, 1)), -1.0, kind)
        return (_stack([X for X, _ in parts]), np.concatenate([y for _, y in parts]), _sites(layout)), new

    return draw_rows


def _bundled(cut: str, kind: str, draw: int) -> Callable[[], tuple[Any, Any]]:
    def draw_rows() -> tuple[Any, Any]:
        data = load_diabetes(as_frame=True)
        rng = _generator("diabetes", cut, kind, draw)
        frame, y = data.data, data.target.to_numpy()
        if cut == "dealt":
            sites = rng.integers(4, size=len(y))
        elif cut == "sex":
            sites = 2 * (frame["sex"] > 0) + rng.integers(2, size=len(y))
        else:
            sites = np.digitize(frame[cut], np.quantile(frame[cut], [0.25, 0.5, 0.75]))
        return _leave_out(frame, y, np.asarray(sites), draw % 4, kind, rng)

    return draw_rows


def _real(suite: str, table: str, label: str) -> Iterator[tuple[dict[str, Any], Callable[[], tuple[Any, Any]]]]:
    frame, y, sites = read_real(table, label)
    some = trust.left_out_in_turn(sites)
    kinds = [""] if suite == "natural" else ["number", "category"]
    for site in some if suite == "natural" else [some[0], some[-1]]:
        for kind in kinds:
            rng = _generator(table, label, kind, site)
            key = {"suite": suite, "world": table, "label": label, "kind": kind, "left out": str(site)}
            yield key, lambda site=site, kind=kind, rng=rng: _leave_out(frame, y, sites, site, kind, rng)


def read_real(table: str, label: str) -> tuple[pd.DataFrame, Any, Any]:
    """Return columns, labels and environments of a real table; columns of 0 and 1 are categories again."""
    folder = Path(os.environ["HOLDFAST_TEST_DATA"])
    X, outcome, sites = trust.read_real(table, folder)
    with np.load(folder / "real" / f"{table}.npz", allow_pickle=False) as data:
        names = [str(name) for name in data["cols"]]
    place, gap = names.index(label), f"{label} is missing"
    columns: dict[str, Any] = {"outcome": outcome.astype(float)}
    levels: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        if "=" in name:
            levels.setdefault(name.split("=")[0], []).append(number)
        elif name not in (label, gap):
            columns[name] = X[:, number]
    for name, places in levels.items():
        texts = np.array([*(names[number].split("=", 1)[1] for number in places), "other"], dtype=object)
        columns[name] = texts[np.column_stack([X[:, places], X[:, places].sum(axis=1) == 0]).argmax(axis=1)]
    kept = X[:, names.index(gap)] == 0 if gap in names else np.ones(len(X), dtype=bool)
    return pd.DataFrame(columns)[kept].reset_index(drop=True), X[kept, place], sites[kept]


def _leave_out(frame: pd.DataFrame, y: Any, sites: Any, site: Any, kind: str, rng: Any) -> tuple[Any, Any]:
    """Return rows of the other sites, and of the one left out, where the planted column turns."""
    is_new = sites == site
    if kind:
        known = [one for one in np.unique(sites) if one != site]
        ranks = pd.Series(y).groupby(sites).rank(pct=True).to_numpy() - 0.5
        planted = np.empty(len(y), dtype=object if kind == "category" else float)
        for one in np.unique(sites):
            rows = np.flatnonzero(sites == one)
            strength = -1.0 if one == site else STRENGTHS["whole or half"](known.index(one), len(known))
            planted[rows] = planted_column(rng, ranks[rows] / 0.29, strength, kind)
        frame = frame.assign(planted=planted)
    return (frame[~is_new].reset_index(drop=True), y[~is_new], sites[~is_new]), (
        frame[is_new].reset_index(drop=True),
        y[is_new],
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def print_table(suite: str, records: list[dict[str, Any]]) -> None:
    """Print what was measured as a Markdown table."""
    print(f"\n{suite}\n")
    print("| world | estimator | fits | acts | R² points lost: mean | worst | share of the gap | forecast covers |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        key = record["key"]
        world = f"{key['world']} {tuple(key['layout'])}" if suite == "planted" else key["world"]
        kind = f", {key['kind']} planted" if key.get("kind") else ""
        groups.setdefault((world + kind, key["estimator"]), []).append(record)
    for estimator in dict.fromkeys(estimator for _, estimator in groups):
        found = {world: mine for (world, own), mine in groups.items() if own == estimator}
        for world, mine in found.items():
            print(_row(world, estimator, mine))
        for part in ("planted", ""):
            mine = [r for rows in found.values() for r in rows if ("without" in r) == bool(part)]
            if mine:
                print(_row(f"**all{', planted' if part else ''}**", estimator, mine))


def _row(world: str, estimator: str, mine: list[dict[str, Any]]) -> str:
    lost = 100 * np.array([r["plain"] - r["stable"] for r in mine])
    acts = np.mean([bool(r["kept"]) for r in mine])
    covers = np.mean([r["covers"] for r in mine])
    share = ""
    if "without" in mine[0]:
        share = f"{worlds.gap_closed([[r[name] for name in ('plain', 'stable', 'without')] for r in mine]):.2f}"
        lost = np.array([np.nan])
    points = [f"{value:.2f}" if np.isfinite(value) else "" for value in (lost.mean(), lost.max())]
    return f"| {world} | {estimator} | {len(mine)} | {acts:.0%} | {points[0]} | {points[1]} | {share} | {covers:.0%} |"


def main() -> None:
    """Run suites or print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("suites", nargs="*", default=[], metavar="SUITE")
    parser.add_argument("--estimators", default="ridge")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--records", type=Path, default=trust.EVIDENCE / "regression.jsonl")
    options = parser.parse_args()
    records = trust.Records(options.records.stem, options.records.parent, prefix="")
    names = options.suites or ["same", "planted", "bundled", "natural", "planted_real"]
    for suite in names:
        if options.what == "run":
            for estimator in options.estimators.split(","):
                for key, draw in tasks(suite, options.draws):
                    records.add({**key, "estimator": estimator}, lambda draw=draw, e=estimator: measure(*draw(), e))
        else:
            print_table(suite, [r for r in records.found.values() if r["key"]["suite"] == suite])


if __name__ == "__main__":
    main()
