"""Are whole diagnoses right? Real people dealt at random to six sites, with one thing planted.

    [HOLDFAST_TEST_DATA=FOLDER] python benchmarks/diagnoses.py run [--part build] [--draws 3] [--first 0] [--out FILE]
    [HOLDFAST_TEST_DATA=FOLDER] python benchmarks/diagnoses.py nulls [--draws 10] [--out FILE]
    python benchmarks/diagnoses.py tables [--out FILE]

The people are in tables that scikit-learn and statsmodels bring (`pip install statsmodels`), and in those of
HOLDFAST_TEST_DATA. As they are dealt at random, sites differ in nothing but what is planted. A diagnosis is right if
its first sentences name the planted site and column, its rule is one of those expected, the next command runs as
pasted and mends what it can mend, and `fit` agrees. `nulls` plants nothing: an alarm is any advice but to keep the
model, or to collect rows because there are few.

`run` and `nulls` append a JSON line for each table to docs/evidence/diagnoses.jsonl and skip what is there. `tables`
writes the tables of docs/diagnosis-evidence.md anew from these records. Kinds and people marked `held_out` were first
run when nothing was changed any more.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - the thread counts come first
import pandas as pd  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_diabetes  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from holdfast.cli import app  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
RECORDS, PAGE = ROOT / "docs/evidence/diagnoses.jsonl", ROOT / "docs/diagnosis-evidence.md"
OPTIONS = ("--label", "outcome", "--environment", "site")
SITES = np.array(["Aachen", "Bonn", "Celle", "Dresden", "Essen", "Köln"])
MOST_ROWS, MOST_COLUMNS = 1_500, 12
QUIET = ("holds", "few_rows")  # rules that ask for nothing but the model, or more rows
RIGHT = ("named", "action", "next", "agrees")  # what is looked at in a diagnosis
Generator = np.random.Generator


# People


def read_people(name: str) -> pd.DataFrame:
    """Return people with a column `outcome` of yes and no."""
    if name == "breast cancer":
        data = load_breast_cancer(as_frame=True)
        return data.data.assign(outcome=data.target == 0)
    if name == "diabetes":
        data = load_diabetes(as_frame=True, scaled=False)
        return data.data.assign(outcome=data.target > 140)
    if name == "affairs":
        frame = pd.read_csv(_statsmodels("fair/fair.csv"))
        return frame.drop(columns="affairs").assign(outcome=frame["affairs"] > 0)
    if name == "voters":
        frame = pd.read_csv(_statsmodels("anes96/anes96.csv"), sep="\t", quotechar="'")
        return frame.drop(columns="vote").assign(outcome=frame["vote"] == 1)
    if name == "doctor visits":
        frame = pd.read_csv(_statsmodels("randhie/randhie.csv"))
        frame = frame.drop_duplicates([name for name in frame.columns if name != "mdvis"])  # a row for each person
        return frame.drop(columns="mdvis").assign(outcome=frame["mdvis"] > 2)
    from trust import read_frame

    X, y, _ = read_frame(name, Path(os.environ["HOLDFAST_TEST_DATA"]))
    if name == "adult_occup":  # 99999 stands for more
        X, y = X[X["capital-gain"] < 99_999], np.asarray(y)[X["capital-gain"] < 99_999]
    return pd.DataFrame(X).reset_index(drop=True).assign(outcome=np.asarray(y) == 1)


def _statsmodels(file: str) -> Path:
    found = importlib.util.find_spec("statsmodels")
    if found is None or found.origin is None:
        raise SystemExit("Some tables are in statsmodels: pip install statsmodels")
    return Path(found.origin).parent / "datasets" / file


PEOPLE = {"build": ("breast cancer", "affairs", "diabetes", "voters"), "held out": ("doctor visits",)}
WITH_DATA = ("heart", "hi", "compas_race", "adult_occup")  # held out


def people_of(part: str) -> tuple[str, ...]:
    """Return the names of tables."""
    return PEOPLE[part] + WITH_DATA * (part == "held out" and "HOLDFAST_TEST_DATA" in os.environ)


def deal(name: str, generator: Generator, n_rows: int = MOST_ROWS, n_sites: int = 6) -> pd.DataFrame:
    """Return people dealt at random to sites."""
    people = read_people(name)
    rows = generator.permutation(len(people))[:n_rows]
    features = [column for column in people.columns if column != "outcome"][:MOST_COLUMNS]
    dealt = people.iloc[rows][[*features, "outcome"]].reset_index(drop=True)
    sizes = generator.dirichlet(np.full(n_sites, 20.0))
    return dealt.assign(
        outcome=np.where(dealt["outcome"], "yes", "no"), site=generator.choice(SITES[:n_sites], len(rows), p=sizes)
    )


def usual_number(table: pd.DataFrame, generator: Generator) -> tuple[pd.Series, str]:
    """Return a new column `lab`, related to the outcome as blood values are: 40 to 160, one decimal."""
    score = generator.normal(0, 1, len(table)) + 0.5 * (table["outcome"] == "yes")
    return np.exp(4.4 + 0.2 * score).round(1), "lab"


# Plants: each changes the dealt table; returns it with what the headline must name


class Planted(NamedTuple):
    """A table, and the words that the headline must have."""

    table: pd.DataFrame
    named: tuple[str, ...]


Plant = Callable[[pd.DataFrame, Generator, np.ndarray], Planted]  # the last: sites in random order


class Kind(NamedTuple):
    """What is planted, and the rules of `holdfast.diagnosis.advice` that are right."""

    plant: Plant
    rules: tuple[str, ...]
    held_out: bool = False
    not_on: tuple[str, ...] = ()  # people whose outcome is so clear that the planted thing changes nothing


def relabel(yes: str, no: str, named: str) -> Plant:
    """Write the labels of one site in another way."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        other = t["outcome"].map({"yes": yes, "no": no})
        return Planted(t.assign(outcome=t["outcome"].where(t["site"] != sites[0], other)), (sites[0], named))

    return plant


def wrong(share: float) -> Plant:
    """Exchange a share of the labels of one site."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        rows = (t["site"] == sites[0]) & (g.random(len(t)) < share)
        other = t["outcome"].map({"yes": "no", "no": "yes"})
        return Planted(t.assign(outcome=t["outcome"].mask(rows, other)), (sites[0],))

    return plant


def shuffled_site(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Shuffle the labels of one site, as rows do that were joined wrongly."""
    outcome, rows = t["outcome"].to_numpy(dtype=object).copy(), np.flatnonzero(t["site"] == sites[0])
    outcome[rows] = outcome[g.permutation(rows)]
    return Planted(t.assign(outcome=outcome), (sites[0],))


def third_outcome(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Write `unknown` for a tenth of one site."""
    rows = (t["site"] == sites[0]) & (g.random(len(t)) < 0.1)
    return Planted(t.assign(outcome=t["outcome"].mask(rows, "unknown")), (sites[0], "unknown"))


def keep(share: float, outcome: str, site: int = 0) -> Plant:
    """Keep a share of those with an outcome at one site."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        gone = (t["site"] == sites[site]) & (t["outcome"] == outcome) & (g.random(len(t)) >= share)
        return Planted(t[~gone].reset_index(drop=True), (sites[site],))

    return plant


def rates(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Make outcomes frequent at three sites and rare at the others."""
    frequent = t["site"].isin(sites[:3])
    gone = (g.random(len(t)) < 0.7) & np.where(frequent, t["outcome"] == "no", t["outcome"] == "yes")
    return Planted(t[~gone].reset_index(drop=True), ())


def add(name: str, make: Callable[[np.ndarray, Generator], Any]) -> Plant:
    """Add a column that is made from who has the outcome."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        return Planted(t.assign(**{name: make((t["outcome"] == "yes").to_numpy(), g)}), (name,))

    return plant


def change(how: Callable[[pd.Series], pd.Series], n_sites: int = 1) -> Plant:
    """Add the column `lab`, and change it at some sites."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        values, name = usual_number(t, g)
        odd = t["site"].isin(sites[:n_sites])
        return Planted(t.assign(**{name: values.astype(object).where(~odd, how(values))}), (name, *sites[:n_sites]))

    return plant


def temperature(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add temperatures, in Fahrenheit at one site."""
    values = (37 + 0.5 * (t["outcome"] == "yes") + g.normal(0, 0.6, len(t))).round(1)
    odd = t["site"] == sites[0]
    return Planted(t.assign(temperature=values.where(~odd, (1.8 * values + 32).round(1))), ("temperature", sites[0]))


def weight(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add weights, in pounds at one site."""
    values = (80 + 5 * (t["outcome"] == "yes") + g.normal(0, 13, len(t))).round()
    odd = t["site"] == sites[0]
    return Planted(t.assign(weight=values.where(~odd, (2.2046 * values).round())), ("weight", sites[0]))


def instead(value: Any, share: float, *, everywhere: bool = False) -> Plant:
    """Add the column `lab`, and write something else in a share of the rows of one site, or of all."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        values, name = usual_number(t, g)
        rows = ((t["site"] == sites[0]) | everywhere) & (g.random(len(t)) < share)
        named = (name,) if everywhere else (name, sites[0])
        if isinstance(value, str):
            named = (name, value)
        return Planted(t.assign(**{name: values.astype(object).mask(rows, value)}), named)

    return plant


def copied(share: float, *, elsewhere: bool = False, column: str = "") -> Plant:
    """Append copies of a share of the rows: at another site, or with one more in a column of whole numbers."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        values, name = usual_number(t, g)
        t = t.assign(**{name: values}, code=g.integers(10_000, 90_000, len(t)) / 7)
        more = t[g.random(len(t)) < share].copy()
        if elsewhere:
            more["site"] = g.choice(sites, len(more))
        if column:
            more[column] += 1.0
        return Planted(pd.concat([t, more], ignore_index=True), ("another row",))

    return plant


def agreeing(*shares: float) -> Plant:
    """Add a column `scanner` that agrees with the outcome in a share of rows that depends on the site."""

    def plant(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
        share = t["site"].map(dict(zip(sites, shares, strict=True)))
        return Planted(
            t.assign(scanner=((t["outcome"] == "yes") ^ (g.random(len(t)) >= share)).astype(int)), ("scanner",)
        )

    return plant


def ward(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add a category of three levels that tells the outcome; at one site the levels are exchanged."""
    risk = np.where(t["outcome"] == "yes", 0.75, 0.15)
    level = (g.random(len(t)) < risk).astype(int) + (g.random(len(t)) < risk)
    level = np.where(t["site"] == sites[0], 2 - level, level)
    return Planted(t.assign(ward=np.array(["green", "amber", "red"])[level]), ("ward",))


def vanishing(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add a number that tells the outcome at four sites, and nothing at two."""
    told = (t["outcome"] == "yes") & ~t["site"].isin(sites[:2])
    return Planted(t.assign(assay=(g.normal(0, 1, len(t)) + 2 * told).round(2)), ("assay",))


def two_turned(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add two columns that tell the outcome, each turned at another site."""
    for place, name in enumerate(("scanner", "device")):
        share = np.where(t["site"] == sites[place], 0.15, 0.85)
        t = t.assign(**{name: ((t["outcome"] == "yes") ^ (g.random(len(t)) >= share)).astype(int)})
    return Planted(t, ("scanner", "device"))


def decaying(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Make sites years, with a column that tells the outcome less each year."""
    years = dict(zip(sites, range(2018, 2024), strict=True))
    planted = agreeing(0.95, 0.92, 0.88, 0.75, 0.6, 0.4)(t, g, sites).table
    return Planted(planted.assign(site=planted["site"].map(years).astype(str)), ("scanner",))


def other_levels(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add a category that one site writes in another way."""
    level = (g.random(len(t)) < np.where(t["outcome"] == "yes", 0.65, 0.35)).astype(int)
    written = np.where(t["site"] == sites[0], np.array(["M", "F"])[level], np.array(["male", "female"])[level])
    return Planted(t.assign(sex=written), ("sex", sites[0]))


def zeros(t: pd.DataFrame, g: Generator, sites: np.ndarray) -> Planted:
    """Add the column `lab`, with 0 for missing values at one site."""
    return instead(0, 0.5)(t, g, sites)


def date_of_death(died: np.ndarray, g: Generator) -> np.ndarray:
    """Return dates of those who died."""
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(g.integers(0, 700, len(died)), "D")
    return np.where(died, days.strftime("%Y-%m-%d"), "")


def hospice(died: np.ndarray, g: Generator) -> np.ndarray:
    """Return where patients went: a third of those who died to one place."""
    return np.where(died & (g.random(len(died)) < 0.35), "hospice", g.choice(["home", "rehab"], len(died)))


def blanks(column: str) -> Plant:
    """Leave some cells of a column empty."""
    return lambda t, g, sites: Planted(t.assign(**{column: t[column].mask(g.random(len(t)) < 0.05)}), (column,))


DATA, UNSTABLE, READ = ("wrong_data",), ("unstable",), QUIET
KINDS: Mapping[str, Kind] = {
    "yes and no exchanged": Kind(wrong(1.0), DATA),
    "labels Ja, Nein": Kind(relabel("Ja", "Nein", "Ja"), DATA),
    "labels YES, NO": Kind(relabel("YES", "NO", "YES"), DATA),
    "30 % wrong labels": Kind(wrong(0.3), ("odd_labels",)),
    "few without the outcome": Kind(keep(0.25, "no"), ("odd_rates",), not_on=("breast cancer", "voters")),
    "outcomes frequent at three sites": Kind(rates, ("calibration",), not_on=("breast cancer", "voters")),
    "discharge code": Kind(add("code", lambda y, g: np.where(y, "X", g.choice(["A", "B"], len(y)))), DATA),
    "leak of 98.5 %": Kind(add("alarm", lambda y, g: (y ^ (g.random(len(y)) > 0.985)).astype(int)), DATA),
    "codes of one outcome": Kind(
        add("icd", lambda y, g: [f"{'D' if died else 'H'}{g.integers(60)}" for died in y]), DATA
    ),
    "× 88.4": Kind(change(lambda v: (v * 88.4).round(1)), DATA),
    "pounds": Kind(weight, DATA),
    "°F": Kind(temperature, DATA),
    "999 at one site": Kind(instead(999, 0.15), DATA),
    "limits as words": Kind(instead("<0.7", 0.05, everywhere=True), DATA),
    "growing numbers": Kind(add("patient", lambda y, g: 1000 + np.arange(len(y))), DATA),
    "everybody twice": Kind(copied(1.1), DATA),
    "a column turned at one site": Kind(agreeing(0.1, 0.9, 0.9, 0.9, 0.9, 0.9), UNSTABLE),
    "a column that varies": Kind(agreeing(0.95, 0.9, 0.85, 0.75, 0.65, 0.55), UNSTABLE),
    "the same column everywhere": Kind(agreeing(*[0.85] * 6), READ),
    "decimal commas at one site": Kind(change(lambda v: v.map("{:.1f}".format).str.replace(".", ",")), READ),
    "levels written otherwise at one site": Kind(other_levels, DATA),
    "labels 1, 0": Kind(relabel("1", "0", "1"), DATA, held_out=True),
    "one class at one site": Kind(keep(0, "yes"), DATA, held_out=True),
    "a third outcome at one site": Kind(third_outcome, DATA, held_out=True),
    "labels of a site shuffled": Kind(shuffled_site, ("odd_labels", *DATA), held_out=True),
    "few with the outcome": Kind(keep(0.25, "yes"), ("odd_rates",), held_out=True),
    "date of death": Kind(add("death", date_of_death), DATA, held_out=True),
    "hospice for a third": Kind(add("place", hospice), DATA, held_out=True),
    "costs of the treatment": Kind(
        add("costs", lambda y, g: np.where(y, g.gamma(3, 900, len(y)) + 300, g.gamma(2, 40, len(y))).round()),
        DATA,
        held_out=True,
    ),
    "÷ 18.016": Kind(change(lambda v: (v / 18.016).round(1)), DATA, held_out=True),
    "× 12": Kind(change(lambda v: v * 12), DATA, held_out=True),
    "× 1000 at two sites": Kind(change(lambda v: v * 1000, 2), DATA, held_out=True),
    "-9 at all sites": Kind(instead(-9, 0.06, everywhere=True), DATA, held_out=True),
    "9999 in 6 %": Kind(instead(9999, 0.06), DATA, held_out=True),
    "0 for missing": Kind(zeros, (*DATA, "odd_column"), held_out=True),
    "words at one site": Kind(instead("not done", 0.1), DATA, held_out=True),
    "names": Kind(
        add("name", lambda y, g: [f"Mr {chr(65 + k % 26)}{k}" for k in g.permutation(len(y))]), DATA, held_out=True
    ),
    "a fifth copied to other sites": Kind(copied(0.2, elsewhere=True), DATA, held_out=True),
    "nearly copied": Kind(copied(0.2, column="code"), DATA, held_out=True),
    "a category turned at one site": Kind(ward, UNSTABLE, held_out=True),
    "a number that tells nothing at two sites": Kind(vanishing, UNSTABLE, held_out=True),
    "two columns turned": Kind(two_turned, UNSTABLE, held_out=True),
    "a column that decays over years": Kind(decaying, ("unstable", "drift"), held_out=True),
    "labels left blank": Kind(blanks("outcome"), ("refused",), held_out=True),
    "sites left blank": Kind(blanks("site"), ("refused", *QUIET), held_out=True),
    "thousands and percent signs": Kind(
        add("bill", lambda y, g: [f"{value:,.0f}" for value in np.exp(8 + 0.5 * y + 0.5 * g.normal(size=len(y)))]),
        READ,
        held_out=True,
    ),
}  # fmt: skip


# Commands


def invoke(*words: object) -> tuple[int, str, str]:
    """Run a command; return its code and what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="holdfast", env={"COLUMNS": "100"})
    return result.exit_code, result.stdout, result.stderr


def judge(planted: Planted, rules: Sequence[str]) -> dict[str, Any]:
    """Run `diagnose`, its next command and `fit` in an empty folder; return what was right."""
    planted.table.to_csv("people.csv", index=False)
    code, out, err = invoke("diagnose", "people.csv", *OPTIONS, "--json")
    if code:
        following = "--missing-labels" in err or "drop" in err.lower()
        named = all(word in err for word in planted.named)
        refused = bool(invoke("fit", "people.csv", *OPTIONS, "--out", "fitted", "--json")[0])
        right = {"named": named, "action": "refused" in rules, "next": following, "agrees": refused}
        return {"rule": "refused", "answer": err.strip()[-300:], **right}
    found = json.loads(out)
    answer, rule = found["answer"], found["recommendation"]["rule"]
    fitted_code, fitted, _ = invoke("fit", "people.csv", *OPTIONS, "--out", "fitted", "--json")
    return {
        "rule": rule,
        "answer": answer,
        "command": found["next"],
        "named": all(str(word) in answer for word in planted.named) or set(rules) == set(QUIET),
        "action": rule in rules,
        "next": follows(found),
        "agrees": not fitted_code and agrees(found, json.loads(fitted)),
    }


def follows(found: Mapping[str, Any]) -> bool:
    """Return whether the next command runs as pasted, and no longer says what it mends."""
    words = shlex.split(found["next"])
    code, out, _ = invoke(*words[1:], "--json")
    if code:
        return False
    if words[1] != "diagnose" or not found["recommendation"]["options"]:
        return True
    before = {(p["key"], p["column"]) for p in found["problems"] if p["severity"] != "note" and p["options"]}
    again = json.loads(out)
    return not before & {(p["key"], p["column"]) for p in again["problems"] if p["severity"] != "note"}


def agrees(found: Mapping[str, Any], fitted: Mapping[str, Any]) -> bool:
    """Return whether `fit` says the same: the rule, the forecast, the columns and what is wrong."""
    said = found["recommendation"]
    rule = said["rule"] if said["rule"] in ("wrong_data", "unstable") else "holds"
    if fitted["advice"]["rule"] != rule or found["forecast"] != fitted["verdict"]["forecast"]:
        return False
    if rule == "unstable" and not all(column in fitted["answer"] for column in said["columns"]):
        return False
    return rule != "wrong_data" or fitted["answer"].startswith(found["answer"].split(". ")[0])


# Runs


def run(part: str, draws: range, file: Path, only: Sequence[str] | None) -> None:
    """Judge every kind on tables of its part."""
    for number, (name, kind) in enumerate(KINDS.items()):
        if kind.held_out != (part == "held out") or name not in (only or KINDS):
            continue
        people = [source for source in people_of(part) if source not in kind.not_on]
        for draw in draws:
            source = people[(number + draw) % len(people)]
            key = {"part": part, "kind": name, "people": source, "draw": draw}

            def make(source: str = source, number: int = number, draw: int = draw, kind: Kind = kind) -> Planted:
                generator = np.random.default_rng([11, number, draw])
                table = deal(source, generator)
                return kind.plant(table, generator, generator.permutation(SITES))

            measure(key, make, kind.rules, file)


def nulls(draws: range, file: Path) -> None:
    """Judge tables in which nothing is planted: six sites, two small ones, one tiny site, older people at one site."""
    shapes: dict[str, Callable[[str, Generator], pd.DataFrame]] = {
        "six sites": lambda name, g: deal(name, g),
        "two sites of 150 rows": lambda name, g: deal(name, g, 300, 2),
        "a site of three rows": lambda name, g: tiny_site(deal(name, g)),
        "other people at one site": lambda name, g: other_people(deal(name, g), g),
    }
    for number, source in enumerate(people_of("build") + people_of("held out")):
        for place, (shape, make_table) in enumerate(shapes.items()):
            for draw in draws:
                key = {"part": "nulls", "kind": shape, "people": source, "draw": draw}
                seed = [12, number, place, draw]

                def make(source: str = source, seed: list[int] = seed, make_table: Any = make_table) -> Planted:
                    return Planted(make_table(source, np.random.default_rng(seed)), ())

                measure(key, make, QUIET, file)


def tiny_site(table: pd.DataFrame) -> pd.DataFrame:
    """Leave three rows of one site."""
    rows = np.flatnonzero(table["site"] == SITES[0])
    return table.drop(index=rows[3:]).reset_index(drop=True)


def other_people(table: pd.DataFrame, generator: Generator) -> pd.DataFrame:
    """Move people with large values of one column to one site; the outcome given the columns stays as it is."""
    name = generator.choice([c for c in table.columns if pd.api.types.is_numeric_dtype(table[c])])
    rank = table[name].rank(pct=True).fillna(0.5)
    moved = (table["site"] == SITES[0]) & (generator.random(len(table)) > rank)
    return table.assign(site=table["site"].mask(moved, generator.choice(SITES[1:], len(table))))


def measure(key: Mapping[str, Any], make: Callable[[], Planted], rules: Sequence[str], file: Path) -> None:
    """Append the record of one table, unless it is there."""
    names = tuple(key)
    if any(all(record[name] == key[name] for name in names) for record in read(file)):
        return
    before = Path.cwd()
    planted = make()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            found = judge(planted, rules)
        finally:
            os.chdir(before)
    record = {**key, **found}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    wrong = [name for name in RIGHT if not record[name]]
    print(f"{'ok   ' if not wrong else 'WRONG'} {key} {record['rule']} {wrong}", flush=True)
    if wrong:
        print(f"      {record['answer']}\n      {record.get('command', '')}", flush=True)


def read(file: Path) -> list[dict[str, Any]]:
    """Return the records of a file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


# Tables


def tables(records: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the lines of each table of the page, by its mark."""
    planted = [record for record in records if record["part"] != "nulls"]
    parts = list(dict.fromkeys(record["part"] for record in planted))
    head = "| kinds and people | kinds | tables | headline names it | action | next command | `fit` agrees | all four |"
    summary = [head, "|---|" + "--:|" * 7]
    for part in parts:
        rows = [record for record in planted if record["part"] == part]
        shares = [np.mean([record[name] for record in rows]) for name in RIGHT]
        whole = np.mean([all(record[name] for name in RIGHT) for record in rows])
        cells = " | ".join(f"{share:.0%}" for share in (*shares, whole))
        summary.append(f"| {part} | {len({record['kind'] for record in rows})} | {len(rows)} | {cells} |")
    kinds = ["| planted, not always right | held out | right | else |", "|---|---|--:|---|"]
    for name, kind in KINDS.items():
        rows = [record for record in planted if record["kind"] == name]
        wrong = [record for record in rows if not all(record[name] for name in RIGHT)]
        if wrong:
            rules = ", ".join(dict.fromkeys(f"`{record['rule']}`" for record in wrong))
            kinds.append(f"| {name} | {'yes' * kind.held_out} | {len(rows) - len(wrong)} of {len(rows)} | {rules} |")
    clean = ["| nothing planted | tables | alarms | asks for more rows |", "|---|--:|--:|--:|"]
    null_records = [record for record in records if record["part"] == "nulls"]
    shapes = list(dict.fromkeys(record["kind"] for record in null_records))
    for shape in (*shapes, "all"):
        rules = [record["rule"] for record in null_records if shape in (record["kind"], "all")]
        n_alarms = sum(rule not in QUIET for rule in rules)
        clean.append(f"| {shape} | {len(rules)} | {n_alarms} | {rules.count('few_rows')} |")
    return {"whole": summary, "kinds": kinds, "nothing": clean}


def write_tables(page: Path, file: Path) -> None:
    """Replace what is between the marks of each table."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables(read(file)).items():
        before, rest = text.split(f"<!-- diagnoses: {name} -->\n")
        text = (
            f"{before}<!-- diagnoses: {name} -->\n"
            + "\n".join(lines)
            + "\n<!-- end -->"
            + rest.split("<!-- end -->", 1)[1]
        )
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Run, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "nulls", "tables"))
    parser.add_argument("--part", choices=("build", "held out"), default="build")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--out", type=Path, default=RECORDS)
    asked = parser.parse_args()
    draws = range(asked.first, asked.first + asked.draws)
    if asked.what == "run":
        run(asked.part, draws, asked.out, asked.kind)
    elif asked.what == "nulls":
        nulls(draws, asked.out)
    else:
        write_tables(PAGE, asked.out)


if __name__ == "__main__":
    main()
