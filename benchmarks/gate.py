"""How often the checks of `holdfast.diagnosis.soundness` are right, on tables whose mistakes are known.

    python benchmarks/gate.py [--draws 40] [--clean 200] [--all] [--kind NAME]
    python benchmarks/gate.py --sites [--draws 100]
    python benchmarks/gate.py --speed
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/gate.py --cuts

Patients are drawn at random, or come from tables that scikit-learn brings, and are dealt at random to six sites, so
that nothing differs between sites. Then one mistake is planted. The first table counts alarms where there is none, the
second how often the right check names the right column and site. `--sites` lets rates and effects differ between sites
at random and counts how often one is said to stand apart. The kinds marked "measured last" were neither run nor
used in a test until the checks were finished; like the others, they were written by the author of the checks.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from holdfast import TableClassifier
from holdfast.diagnosis.measurement import Experiment
from holdfast.diagnosis.soundness import KEYS, Problem, check_table
from holdfast.diagnosis.soundness.table import CheckedTable
from holdfast.diagnosis.soundness.units import check_units
from holdfast.environments import split_environments
from holdfast.tables.diagnosis import TableSubject, diagnose_rows
from holdfast.tables.roles import TableOptions, read_rows

SITES = np.array(["Aachen", "Bonn", "Celle", "Dresden", "Essen", "Köln"])
ODD = "Köln"


class Patients(NamedTuple):
    """A table: features, labels, sites."""

    X: pd.DataFrame
    y: np.ndarray
    sites: np.ndarray


def patients(generator: np.random.Generator, n_rows: int = 900) -> Patients:
    """Return patients of six hospitals that differ in nothing; about a third of them die."""
    n = n_rows
    age = generator.normal(64, 12, n).clip(20, 97).round()
    height = generator.normal(171, 9, n).round()
    weight = (generator.normal(26, 4, n).clip(16, 45) * (height / 100) ** 2).round(1)
    creatinine = np.exp(generator.normal(0.05, 0.3, n)).round(1)
    glucose = np.exp(generator.normal(4.7, 0.25, n)).round()
    temperature = generator.normal(37.1, 0.7, n).round(1)
    sodium = generator.normal(139, 4, n).round()
    marker = np.exp(generator.normal(2, 1.2, n)).round(2)
    score = (0.05 * (age - 64) + 1.2 * (creatinine - 1.1) + 0.5 * (temperature - 37) + 0.4 * (np.log(marker) - 2)) * 1.3
    smoker = generator.choice(["no", "former", "yes"], n, p=[0.5, 0.3, 0.2])
    score += 0.8 * (smoker == "yes") - 0.8
    y = (generator.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    lactate = np.where(generator.random(n) < 0.25, np.nan, np.exp(generator.normal(0.4 + 0.3 * y, 0.5, n)).round(1))
    X = pd.DataFrame(
        {
            "age": age,
            "height": height,
            "weight": weight,
            "creatinine": creatinine,
            "glucose": glucose,
            "temperature": temperature,
            "sodium": sodium,
            "marker": marker,
            "lactate": lactate,
            "smoker": smoker,
            "ward": generator.choice([f"ward {k}" for k in range(12)], n),
            "children": generator.poisson(1.5, n).astype(float),
            "diabetes": (generator.random(n) < 0.2).astype(float),
        }
    )
    sizes = generator.dirichlet(np.full(6, 8.0))
    return Patients(X, np.array(["no", "yes"], dtype=object)[y], generator.choice(SITES, n, p=sizes))


def bundled(generator: np.random.Generator) -> Iterator[tuple[str, Patients]]:
    """Yield scikit-learn's tables, dealt at random to sites."""
    diabetes = load_diabetes(as_frame=True, scaled=False)
    tables = {
        name: (load(as_frame=True).data, load(as_frame=True).target.to_numpy())
        for name, load in (
            ("breast cancer", load_breast_cancer),
            ("wine", load_wine),
            ("iris", load_iris),
            ("digits", load_digits),
        )
    }
    tables["diabetes"] = (diabetes.data, (diabetes.target > 140).to_numpy().astype(int))
    for name, (X, y) in tables.items():
        n_sites = 3 if len(y) < 200 else 6
        yield name, Patients(X.astype(float), np.asarray(y), generator.choice(SITES[:n_sites], len(y)))


Plant = Callable[[Patients, np.random.Generator], Patients]


class Kind(NamedTuple):
    """A mistake: how it is planted, and what should be found."""

    plant: Plant
    key: str
    column: str = ""
    site: str = ""
    apart: bool = False  # measured last


def relabel(yes: str, no: str) -> Plant:
    """Write the labels of one site in another way."""

    def plant(t: Patients, g: np.random.Generator) -> Patients:
        y = np.where(t.sites == ODD, np.where(t.y == "yes", yes, no), t.y)
        return t._replace(y=y.astype(object))

    return plant


def change(column: str, how: Callable[[pd.Series], pd.Series], *, everywhere: bool = False) -> Plant:
    """Change a column at one site."""

    def plant(t: Patients, g: np.random.Generator) -> Patients:
        values = t.X[column].copy()
        rows = np.ones(len(values), bool) if everywhere else t.sites == ODD
        values[rows] = how(values[rows])
        return t._replace(X=t.X.assign(**{column: values}))

    return plant


def some(column: str, value: float, share: float, *, everywhere: bool = False) -> Plant:
    """Write a number in a share of the rows of one site, or of all."""

    def plant(t: Patients, g: np.random.Generator) -> Patients:
        there = (t.sites == ODD) | everywhere
        rows = (g.random(len(t.y)) < share) & there
        rows[np.flatnonzero(there)[0]] |= not rows.any()  # else nothing is planted
        return t._replace(X=t.X.assign(**{column: t.X[column].mask(rows, value)}))

    return plant


def add(name: str, make: Callable[[Patients, np.random.Generator], object]) -> Plant:
    """Add a column."""
    return lambda t, g: t._replace(X=t.X.assign(**{name: make(t, g)}))


def copied(share: float) -> Plant:
    """Append copies of some rows."""

    def plant(t: Patients, g: np.random.Generator) -> Patients:
        rows = np.flatnonzero(g.random(len(t.y)) < share)
        order = np.concatenate([np.arange(len(t.y)), rows])
        return Patients(t.X.iloc[order].reset_index(drop=True), t.y[order], t.sites[order])

    return plant


def in_a_part(t: Patients, g: np.random.Generator) -> Patients:
    """Write creatinine of two in five rows of a site in another unit."""
    rows = (t.sites == ODD) & (g.random(len(t.y)) < 0.4)
    return t._replace(X=t.X.assign(creatinine=t.X["creatinine"].mask(rows, (t.X["creatinine"] * 88.4).round())))


def exchanged_columns(t: Patients, g: np.random.Generator) -> Patients:
    """Exchange two columns at a site."""
    X, rows = t.X.copy(), t.sites == ODD
    X.loc[rows, ["age", "sodium"]] = X.loc[rows, ["sodium", "age"]].to_numpy()
    return t._replace(X=X)


def far(t: Patients, g: np.random.Generator) -> Patients:
    """Multiply five values by a million."""
    rows = g.permutation(np.flatnonzero(t.sites == ODD))[:5]
    return t._replace(X=t.X.assign(creatinine=t.X["creatinine"].mask(np.isin(np.arange(len(t.y)), rows), 1e6)))


def two_spellings(t: Patients, g: np.random.Generator) -> Patients:
    """Write a third of a site's rows in capitals."""
    return t._replace(sites=np.where((t.sites == ODD) & (g.random(len(t.y)) < 1 / 3), ODD.upper(), t.sites))


def near_copied(column: str) -> Plant:
    """Append copies of a fifth of the rows in which one column, or the label, is another."""

    def plant(t: Patients, g: np.random.Generator) -> Patients:
        rows = np.flatnonzero(g.random(len(t.y)) < 0.2)
        X, y = t.X.iloc[rows].copy(), t.y[rows]
        if column:
            X[column] += 1
        else:
            y = np.where(y == "yes", "no", "yes").astype(object)
        whole = pd.concat([t.X, X], ignore_index=True)
        return Patients(whole, np.concatenate([t.y, y]), np.concatenate([t.sites, t.sites[rows]]))

    return plant


def exchanged(t: Patients, g: np.random.Generator) -> Patients:
    """Exchange the labels of one site."""
    other = np.where(t.y == "yes", "no", "yes")
    return t._replace(y=np.where(t.sites == ODD, other, t.y).astype(object))


def one_class(t: Patients, g: np.random.Generator) -> Patients:
    """Keep only those who live at one site."""
    keep = (t.sites != ODD) | (t.y == "no")
    return Patients(t.X[keep].reset_index(drop=True), t.y[keep], t.sites[keep])


def died(t: Patients) -> np.ndarray:
    """Return who died."""
    return t.y == "yes"


def nearly(t: Patients, g: np.random.Generator, right: float) -> np.ndarray:
    """Return a column that agrees with the label in so many rows."""
    return (died(t) ^ (g.random(len(t.y)) > right)).astype(float)


def codes(t: Patients, g: np.random.Generator) -> np.ndarray:
    """Return codes of which each belongs to one outcome."""
    return np.array([f"{'D' if d else 'H'}{g.integers(60)}" for d in died(t)], dtype=object)


def hospice(t: Patients, g: np.random.Generator) -> np.ndarray:
    """Return where patients went: a third of those who die to one place."""
    places = g.choice(["home", "rehab", "other"], len(t.y))
    return np.where(died(t) & (g.random(len(t.y)) < 0.35), "hospice", places)


KINDS = {
    "labels Ja, Nein": Kind(relabel("Ja", "Nein"), "label_codes", site=ODD),
    "labels exchanged": Kind(exchanged, "labels_exchanged", site=ODD),
    "one class only": Kind(one_class, "one_class", site=ODD),
    "discharge code": Kind(
        add("code", lambda t, g: np.where(died(t), "X", g.choice(["A", "B"], len(t.y)))), "leak", "code"
    ),
    "leak of 98.5 %": Kind(add("alarm", lambda t, g: nearly(t, g, 0.985)), "leak", "alarm"),
    "creatinine × 88.4": Kind(change("creatinine", lambda v: (v * 88.4).round(1)), "unit", "creatinine", ODD),
    "pounds": Kind(change("weight", lambda v: (v * 2.2046).round()), "unit", "weight", ODD),
    "999 at one site": Kind(some("glucose", 999, 0.15), "sentinel", "glucose", ODD),
    "growing number": Kind(add("patient", lambda t, g: 1000.0 + np.arange(len(t.y))), "identifier", "patient"),
    "every row twice": Kind(copied(1.1), "copied_rows"),
    "labels 1, 0": Kind(relabel("1", "0"), "label_codes", site=ODD),
    "labels Yes, No": Kind(relabel("Yes", "No"), "label_spelling", site=ODD),
    "date of death": Kind(
        add("death", lambda t, g: np.where(died(t), g.integers(18_000, 19_000, len(t.y)), np.nan)),
        "leak_by_gaps",
        "death",
    ),
    "codes of one outcome": Kind(add("icd", codes), "leak", "icd"),
    "hospice for a third": Kind(add("where", hospice), "leak_by_level", "where"),
    "°F": Kind(change("temperature", lambda v: (1.8 * v + 32).round(1)), "unit", "temperature", ODD),
    "inches": Kind(change("height", lambda v: (v / 2.54).round()), "unit", "height", ODD),
    "months": Kind(change("age", lambda v: v * 12), "unit", "age", ODD),
    "mmol/L of glucose": Kind(change("glucose", lambda v: (v / 18.016).round(1)), "unit", "glucose", ODD, apart=True),
    "× 1000, wide column": Kind(change("marker", lambda v: v * 1000), "unit", "marker", ODD, apart=True),
    "× 10, wide column": Kind(change("marker", lambda v: v * 10), "unit", "marker", ODD, apart=True),
    "-9 at all sites": Kind(some("sodium", -9, 0.05, everywhere=True), "sentinel", "sodium"),
    "9999 in 3 %": Kind(some("weight", 9999, 0.03), "sentinel", "weight", ODD),
    "names": Kind(
        add("name", lambda t, g: [f"Mr {chr(65 + k % 26)}{k}" for k in g.permutation(len(t.y))]), "identifier", "name"
    ),
    "shuffled numbers": Kind(
        add("mrn", lambda t, g: 5000.0 + g.permutation(2 * len(t.y))[: len(t.y)]), "identifier", "mrn"
    ),
    "a fifth copied": Kind(copied(0.2), "copied_rows", apart=True),
    "rows nearly copied": Kind(near_copied("sodium"), "near_copied_rows"),
    "copied with another label": Kind(near_copied(""), "near_copied_rows", apart=True),
    "weight in pounds, too": Kind(
        add("weight lb", lambda t, g: (t.X["weight"] * 2.2046).round(1)), "near_copied_column", "weight lb"
    ),
    "marker with some noise": Kind(
        add("marker 2", lambda t, g: t.X["marker"] + g.normal(0, 0.001, len(t.y))),
        "near_copied_column",
        "marker 2",
        apart=True,
    ),
    "a unit in 40 % of the rows": Kind(in_a_part, "unit", "creatinine", ODD),
    "two columns exchanged": Kind(exchanged_columns, "columns_exchanged", "age", ODD),
    "five values of a million": Kind(far, "far_values", "creatinine", ODD),
    "a site in two spellings": Kind(two_spellings, "site_spelling"),
    "a column twice": Kind(add("age2", lambda t, g: t.X["age"]), "copied_column", "age2"),
}


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40, help="tables for each kind and size")
    parser.add_argument("--clean", type=int, default=200, help="clean tables of each source")
    parser.add_argument("--all", action="store_true", help="show the kinds that are measured last, too")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="show this kind only; can be repeated")
    parser.add_argument("--sites", action="store_true", help="count sites that are said to stand apart instead")
    parser.add_argument("--cuts", action="store_true", help="count units that are named in real tables instead")
    parser.add_argument("--speed", action="store_true", help="time `diagnose` instead")
    asked = parser.parse_args()
    if asked.speed:
        print_speed()
        return
    if asked.cuts:
        print_cuts(Path(os.environ["HOLDFAST_TEST_DATA"]))
        return
    if asked.sites:
        print_odd_sites(asked.draws)
        return
    if asked.clean:
        print_alarms(asked.clean)
    print_power(asked.draws, with_apart=asked.all, only=asked.kind)


def print_alarms(n_tables: int) -> None:
    """Print how often each check speaks where there is nothing to find."""
    found: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for seed in range(n_tables):
        generator = np.random.default_rng([1, seed])
        sources = [(f"patients, {n} rows", patients(generator, n)) for n in (300, 900, 3000)]
        sources += list(bundled(generator)) if seed < n_tables // 4 else []
        for source, table in sources:
            problems = [p for p in check_table(table.X, table.y, table.sites) if p.key != "small_site"]
            totals[source] += 1
            counts = found.setdefault(source, Counter())
            counts.update({p.key for p in problems})
            counts["headline"] += any(p.is_headline for p in problems)
    keys = [key for key in (*KEYS, "headline") if any(key in counts for counts in found.values())]
    keys = list(dict.fromkeys([*keys, "headline"]))
    print(f"| clean table | tables | {' | '.join(keys)} |\n|---|--:|{'--:|' * len(keys)}")
    for source, counts in found.items():
        shares = " | ".join(f"{counts[key] / totals[source]:.1%}" for key in keys)
        print(f"| {source} | {totals[source]} | {shares} |")
    silent = [key for key in KEYS if key not in keys]
    print(f"\nChecks without any alarm: {', '.join(silent)}.\n")


def print_power(n_draws: int, *, with_apart: bool, only: list[str] | None = None) -> None:
    """Print how often each planted mistake is found, and is the first headline."""
    sizes = (300, 900, 3000)
    head = " | ".join(f"{n} rows" for n in sizes)
    print(f"| planted | measured last | check | {head} |\n|---|---|---|{'--:|' * len(sizes)}")
    for name, kind in KINDS.items():
        if (kind.apart and not with_apart) or name not in (only or KINDS):
            continue
        shares, others = [], 0
        for n_rows in sizes:
            hits = 0
            for seed in range(n_draws):
                generator = np.random.default_rng([2, seed])
                table = kind.plant(patients(generator, n_rows), generator)
                problems = check_table(table.X, table.y, table.sites)
                right = [p for p in problems if is_right(p, kind)]
                hits += bool(right)
                others += any(p.is_headline and not is_right(p, kind) for p in problems)
            shares.append(hits / n_draws)
        cells = " | ".join(f"{share:.0%}" for share in shares)
        apart = "yes" if kind.apart else ""
        print(f"| {name} | {apart} | `{kind.key}` | {cells} |" + f" other alarms: {others}" * bool(others), flush=True)


def print_odd_sites(n_draws: int) -> None:
    """Print how often a site is said to stand apart where sites differ at random, and where one differs more."""
    print("| sites | rows of each | they differ | one more | named, none right | right |\n|--:|--:|--:|--:|--:|--:|")
    for n_sites, n_rows in ((4, 150), (6, 150), (10, 150)):
        for spread, odd in ((0.0, 0.0), (0.2, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.5), (0.2, 1.5)):
            wrong = right = 0
            for draw in range(n_draws):
                generator = np.random.default_rng([5, n_sites, n_rows, draw])
                names = differing_sites(generator, n_sites, n_rows, spread, odd)
                wrong, right = wrong + bool(names and "S0" not in names), right + ("S0" in names and odd > 0)
                wrong += odd == 0 and "S0" in names
            shares = f"{wrong / n_draws:.0%} | {right / n_draws:.0%}"
            print(f"| {n_sites} | {n_rows} | {spread} | {odd} | {shares} |", flush=True)


def differing_sites(
    generator: np.random.Generator, n_sites: int, n_rows: int, spread: float, odd: float
) -> tuple[str, ...]:
    """Return the sites that stand apart, where rates and effects differ at random, and one has more events."""
    site = generator.integers(n_sites, size=n_sites * n_rows)
    X = generator.normal(size=(len(site), 4))
    levels, effects = generator.normal(0, spread, n_sites), np.exp(generator.normal(0, spread, n_sites))
    levels[0] += odd
    y = generator.random(len(site)) < 1 / (1 + np.exp(0.7 - levels[site] - effects[site] * X.sum(axis=1) * 0.6))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y.astype(int), site=[f"S{number}" for number in site])
    subject = TableSubject(read_rows(frame, TableOptions(label="y", environment="site")), "logistic", 1, 0)
    experiment = Experiment(subject, n_jobs=1, random_state=0)
    known, new, *_ = experiment.ask_all((), elsewhere_too=False)
    return tuple(found.name for found in experiment.odd_sites(new, known))


def print_cuts(folder: Path) -> None:
    """Print the units that are named in real tables, of which each site is left out, and in each pair of sites."""
    from trust import CHOSEN_ON, HELD_OUT, read_frame

    n_cuts = n_named = 0
    for name in CHOSEN_ON + HELD_OUT:
        if name == "vader":
            continue  # words, no columns
        X, _, environments = read_frame(name, folder)
        sites = np.unique(environments)[:12]
        cuts = [environments != site for site in sites]
        cuts += [np.isin(environments, pair) for pair in combinations(sites, 2)]
        for kept in cuts:
            table = CheckedTable(X[kept], split_environments(environments[kept], int(kept.sum())), None, frozenset())
            found = [problem for problem in check_units(table) if problem.key != "size"]
            n_cuts, n_named = n_cuts + 1, n_named + bool(found)
            for problem in found:
                print(f"{name}: {problem.column} in {', '.join(problem.sites)} {problem.evidence}", flush=True)
    print(f"{n_named} of {n_cuts} tables")


def print_speed() -> None:
    """Print the processor time of the checks and of a diagnosis, in seconds and in ordinary fits."""
    print("| rows | columns | sites | checks, s | diagnose, s | one fit, s | diagnose, in fits |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for n_rows, n_columns, n_sites in ((1_000, 15, 6), (300_000, 11, 8)):
        generator = np.random.default_rng([4, n_rows])
        y = generator.integers(2, size=n_rows)
        columns = {f"x{j}": generator.normal(size=n_rows) + 0.3 * y * (j < 5) for j in range(n_columns)}
        frame = pd.DataFrame(columns).assign(y=y, site=[f"S{k}" for k in generator.integers(n_sites, size=n_rows)])
        rows = read_rows(frame, TableOptions(label="y", environment="site"))
        ordinary = TableClassifier(label="y", environment="site", method="erm")
        times = []
        for run in (lambda rows=rows: rows.problems, lambda rows=rows: diagnose_rows(rows)):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
        start = time.process_time()
        ordinary.fit(rows)
        fit = time.process_time() - start
        checks, diagnosis = times
        cells = f"{checks:.2f} | {checks + diagnosis:.2f} | {fit:.3f} | {(checks + diagnosis) / fit:.0f}"
        print(f"| {n_rows:,} | {n_columns} | {n_sites} | {cells} |", flush=True)


def is_right(problem: Problem, kind: Kind) -> bool:
    """Return whether a problem is the one that was planted."""
    where = not kind.site or problem.sites == (kind.site,)
    return problem.key == kind.key and problem.column == kind.column and where


if __name__ == "__main__":
    main()
