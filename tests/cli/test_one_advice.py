import shlex

import numpy as np
import pandas as pd
import pytest

OPTIONS = ("--label", "died", "--environment", "site")
SITES = np.array(["Aachen", "Bonn", "Celle", "Köln"])
ODD = "Köln"


def patients(seed, n_rows):
    """Return rows of four hospitals that differ in nothing."""
    generator = np.random.default_rng(seed)
    score = generator.normal(size=n_rows)
    died = generator.random(n_rows) < 1 / (1 + np.exp(-1.5 * score))
    return generator, pd.DataFrame(
        {
            "site": SITES[generator.integers(4, size=n_rows)],
            "age": (60 + 9 * score + generator.normal(0, 5, n_rows)).round(),
            "weight": generator.normal(80, 11, n_rows).round(1),
            "creatinine": np.exp(0.2 * score + generator.normal(0, 0.2, n_rows)).round(2),
            "temperature": (37 + 0.4 * score + generator.normal(0, 0.5, n_rows)).round(1),
            "sodium": generator.normal(139, 4, n_rows).round(),
            "died": np.where(died, "yes", "no"),
        }
    )


def at_odd(rows, **columns):
    """Change columns at one site."""
    return rows.assign(**{name: rows[name].where(rows["site"] != ODD, values) for name, values in columns.items()})


def scanner(rows, generator, agreement):
    """Add a column that agrees with the label in a share of rows that depends on the site."""
    right = generator.random(len(rows)) < rows["site"].map(dict(zip(SITES, agreement, strict=True)))
    return rows.assign(scanner=np.where(right, rows["died"] == "yes", rows["died"] == "no").astype(int))


def other_label(rows, share, generator):
    """Exchange a share of the labels of one site."""
    wrong = (rows["site"] == ODD) & (generator.random(len(rows)) < share)
    return rows.assign(died=np.where(wrong, np.where(rows["died"] == "yes", "no", "yes"), rows["died"]))


KINDS = {
    "clean": lambda t, g: t,
    "turned": lambda t, g: scanner(t, g, (0.95, 0.9, 0.92, 0.1)),
    "leak": lambda t, g: t.assign(code=np.where(t["died"] == "yes", "X", g.choice(["A", "B"], len(t)))),
    "unit": lambda t, g: at_odd(t, creatinine=(t["creatinine"] * 88.4).round(1)),
    "exchanged": lambda t, g: other_label(t, 1.0, g),
    "weak": lambda t, g: scanner(t, g, (0.8, 0.7, 0.75, 0.5)),
    "near leak": lambda t, g: t.assign(alarm=(t["died"] == "yes") ^ (g.random(len(t)) > 0.99)),
    "date of death": lambda t, g: t.assign(
        death=np.where(t["died"] == "yes", g.integers(18_000, 19_000, len(t)), np.nan)
    ),
    "pounds": lambda t, g: at_odd(t, weight=(t["weight"] * 2.2046).round()),
    "fahrenheit": lambda t, g: at_odd(t, temperature=(t["temperature"] * 1.8 + 32).round(1)),
    "999": lambda t, g: t.assign(sodium=t["sodium"].mask(g.random(len(t)) < 0.05, 999)),
    "number": lambda t, g: t.assign(patient=np.arange(len(t)) + 1000),
    "copies": lambda t, g: pd.concat([t, t[::4]], ignore_index=True),
    "labels": lambda t, g: at_odd(t, died=t["died"].map({"yes": "Ja", "no": "Nein"})),
    "spelling": lambda t, g: at_odd(t, died=t["died"].str.upper()),
    "rates": lambda t, g: t[(t["site"] != ODD) | (t["died"] == "yes") | (g.random(len(t)) < 0.3)],
    "wrong labels": lambda t, g: other_label(t, 0.3, g),
    "rare": lambda t, g: t[(t["died"] == "no") | (g.random(len(t)) < 0.08)],
    "noise": lambda t, g: t.assign(died=g.permutation(t["died"].to_numpy())),
    "kelvin": lambda t, g: at_odd(t, temperature=(t["temperature"] + 273.15).round(1)),
    "zero": lambda t, g: at_odd(t, sodium=t["sodium"].mask(g.random(len(t)) < 0.2, 0)),
    "codes": lambda t, g: t.assign(sex=g.integers(2, size=len(t)) + (t["site"] == ODD)),
    "unknown label": lambda t, g: t.assign(died=t["died"].mask(g.random(len(t)) < 0.05, "unknown")),
    "unit in cells": lambda t, g: at_odd(t.astype({"weight": str}), weight=t["weight"].astype(str) + " kg"),
    "two sites": lambda t, g: t.assign(site=np.where(np.isin(t["site"], SITES[:2]), "A", "B")),
}
TABLES = [(kind, seed) for seed in (0, 1) for kind in KINDS]
SHORT = TABLES[:4]


def answers(holdfast, folder, kind, seed):
    """Run the commands on a table of a kind; return what each says."""
    generator, rows = patients([7, seed, list(KINDS).index(kind)], 480 + 480 * seed)
    file = folder / "rows.csv"
    KINDS[kind](rows, generator).to_csv(file, index=False)
    found = {
        "diagnose": holdfast("diagnose", file, *OPTIONS, "--json"),
        "fit": holdfast("fit", file, *OPTIONS, "--out", folder / "saved", "--json"),
        "compare": holdfast("compare", file, *OPTIONS, "--method", "stable", "--json"),
        "audit": holdfast("audit", file, *OPTIONS, "--json"),
        "check": holdfast("check", folder / "saved", file, "--json"),
        "report": holdfast("report", folder / "saved", "--table", file, "--out", folder / "page.html", "--json"),
    }
    for command, outcome in found.items():
        assert outcome.code == 0, (command, outcome.err)
    return {command: outcome.json for command, outcome in found.items()}


def find_contradictions(found):
    """Return in what the commands contradict each other."""
    said, others = found["diagnose"]["recommendation"], ("fit", "compare", "audit")
    rule = said["rule"] if said["rule"] in ("wrong_data", "unstable") else "holds"
    wrong = [f"{name} applies another rule" for name in others if found[name]["advice"]["rule"] != rule]
    if found["diagnose"]["forecast"] != found["fit"]["verdict"]["forecast"]:
        wrong.append("diagnose and fit forecast something else")
    if found["report"]["verdict"] != found["fit"]["verdict"]:
        wrong.append("report has another verdict than fit")
    is_stable = found["compare"]["recommended"].startswith("stable")
    if rule == "unstable":
        names = (*others, "report")
        wrong += [f"{name} misses {c}" for c in said["columns"] for name in names if c not in found[name]["answer"]]
        wrong += [] if is_stable else ["compare recommends another method"]
    if rule == "wrong_data":
        first = found["diagnose"]["answer"].split(". ")[0]
        names = (*others, "report")
        wrong += [f"{name} begins otherwise" for name in names if not found[name]["answer"].startswith(first)]
        options = shlex.join(said["options"])
        wrong += [f"{name} mends otherwise" for name in others if options not in found[name]["next"]]
    if (found["check"]["advice"] == "do_not_use") != (rule == "wrong_data"):
        wrong.append("check does not know what is wrong with the data, or something else")
    return wrong


def check_table(holdfast, folder, monkeypatch, kind, seed):
    """Assert that no command contradicts another one, and that the next command runs as pasted."""
    monkeypatch.chdir(folder)
    (folder / "model").mkdir()  # so that the next command needs another name
    found = answers(holdfast, folder, kind, seed)
    assert find_contradictions(found) == []
    following = shlex.split(found["diagnose"]["next"])
    assert holdfast(*following[1:]).code == 0
    assert "model" not in following


@pytest.mark.parametrize(("kind", "seed"), SHORT)
def test_commands_agree(holdfast, tmp_path, monkeypatch, kind, seed):
    """diagnose, fit, compare, audit, check and report give one advice, and the next command runs."""
    check_table(holdfast, tmp_path, monkeypatch, kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), TABLES[4:])
def test_commands_agree_on_fifty_tables(holdfast, tmp_path, monkeypatch, kind, seed):
    """The same for the other tables: leaks, units, codes, identifiers, copies, labels, rates, rare events and noise."""
    check_table(holdfast, tmp_path, monkeypatch, kind, seed)


def test_contradictions_are_found():
    """The test can fail: another rule, another method or a missing column is a contradiction."""
    said = {"rule": "unstable", "columns": ["scanner"], "options": []}
    agreed = {"advice": {"rule": "unstable"}, "answer": "scanner", "next": ""}
    found = {
        "diagnose": {"recommendation": said, "forecast": 1, "answer": ""},
        "fit": {**agreed, "verdict": {"forecast": 1}},
        "compare": {**agreed, "recommended": "stable"},
        "audit": agreed,
        "check": {"advice": "use"},
        "report": {"verdict": {"forecast": 1}, "answer": "scanner"},
    }
    assert find_contradictions(found) == []
    found["compare"] = {**agreed, "recommended": "erm", "answer": ""}
    assert find_contradictions(found) == ["compare misses scanner", "compare recommends another method"]
