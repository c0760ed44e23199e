"""The model arrives at a new site: what adapting, recalibrating and checking bring there.

    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run planted [--tables heart] [--estimators logistic,boosting]
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run natural
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run recalibrate
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run forecast
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run alarms
    python benchmarks/newsite.py run named
    python benchmarks/newsite.py run rows
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run digits
    python benchmarks/newsite.py tables

`run` appends one JSON line for each fit to docs/evidence/newsite.jsonl and skips what is there. `tables` writes the
tables of docs/new-site-evidence.md anew from these records. One thread; the rows are those of benchmarks/trust.py.
`--tables rtables` takes the 21 tables of benchmarks/rtables.py that were chosen last; two sites of each are left out.

planted: real tables with one more column, which agrees with the label in 95 % to 85 % of the training sites' rows; at
    the site left out it agrees in 10 % (turned), by chance (vanished) or in 90 % (as known).
natural: real tables as they are; and with the most suspicious column treated as if it were unstable, guards as usual.
recalibrate: a logistic regression at the site left out, recalibrated with 25 to 200 labeled rows; five draws.
forecast: real tables, the accuracy at the site left out and its forecasts, by us and by other estimators.
alarms: real tables; a random half of one site's rows plays the new site, the other half trains with all other sites.
named: the example of the README, 300 rows of the new site: is a scanner that turned named? One as known? 100 draws.
rows: the example of the README with 30 to 3,000 rows of the new site, 50 draws each.
digits: two-class colored MNIST (digits below 5 against the others, 25 % of the labels wrong; the color agrees with the
    label in 90 and 80 % of 20,000 images each, 2,500 more of each calibrate); a network, adapted to 100 to 1,000 images
    of a new site, five draws. The method was chosen on another draw.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - the thread counts come first
import pandas as pd  # noqa: E402
import rtables  # noqa: E402
import scipy.sparse as sp  # noqa: E402
import trust  # noqa: E402

from holdfast import ERMClassifier, StableClassifier, TableClassifier  # noqa: E402
from holdfast.estimators import stable as fitting  # noqa: E402
from holdfast.fitting.calibration import calibrate, class_scores  # noqa: E402
from holdfast.metrics import auroc  # noqa: E402
from holdfast.newsite.adapt import adapt  # noqa: E402
from holdfast.newsite.check import RULES  # noqa: E402
from holdfast.newsite.codes import UnstableColumn  # noqa: E402
from holdfast.newsite.forecast import forecast_accuracy, forecast_auroc, summarize  # noqa: E402
from holdfast.newsite.recalibrate import recalibrate  # noqa: E402
from holdfast.newsite.trials import Relearning, play_partners, try_known_sites  # noqa: E402
from holdfast.stable.columns import encode_table  # noqa: E402
from holdfast.stable.design import make_design  # noqa: E402
from holdfast.stable.hypotheses import posteriors  # noqa: E402
from holdfast.stable.removal import plan_removal  # noqa: E402

EVIDENCE = trust.EVIDENCE
PAGE = EVIDENCE.parent / "new-site-evidence.md"
SUITES = ("planted", "natural", "recalibrate", "forecast", "alarms", "named", "rows", "digits")
SCENARIOS = {"turned": 0.1, "vanished": None, "as known": 0.9}
N_LABELS = (25, 50, 100, 200)
N_ROWS = (30, 100, 300, 1000, 3000)
N_IMAGES = (100, 300, 1000)


def splits(folder: Path, tables: list[str], estimators: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield table, estimator, site left out, rows, labels, sites and which rows train, for each fit."""
    for name in tables:
        from_r = name in rtables.SOURCES
        X, y, environments = rtables.read_table(name) if from_r else trust.read_real(name, folder)
        X = X.to_numpy(np.float64) if from_r else X
        for estimator in (e for e in estimators if trust.takes(e, X)):
            for left_out, train in trust.leave_out(y, environments, ends=from_r):
                yield name, estimator, left_out, X, y, environments, train


def measure_planted(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return accuracies at the site left out of the whole road: fit, adapt, predict."""
    tables = {
        name: trust.beside(X, trust.planted_column(y, environments, left_out, share))
        for name, share in SCENARIOS.items()
    }
    model = StableClassifier(make()).fit(tables["turned"][train], y[train], environments=environments[train])
    ordinary = ERMClassifier(make()).fit(tables["turned"][train], y[train], environments=environments[train])
    found: dict[str, Any] = {"fitted": model.verdict_.fitted}
    for name, table in tables.items():
        new = table[~train]
        adapted = model.adapt(new)
        found[name] = {
            key: float((m.predict(new) == y[~train]).mean())
            for key, m in (("ordinary", ordinary), ("stable", model), ("adapted", adapted))
        } | {"is_adapted": adapted.adaptation_.adapted, "reason": adapted.adaptation_.reason}
    return found


def give_up(X: Any, y: Any, environments: Any, place: int, make: Callable[[], Any]) -> tuple[Any, Any, Relearning]:
    """Return a classifier without one column, the removal, and what adapting needs: the user knows what is unstable."""
    removal, n_classes = plan_removal(X, [place], ["planted"]), int(y.max()) + 1
    without, names = removal.apply(X), np.unique(environments)
    scores = np.empty((len(y), n_classes))
    for site in names:
        own = environments == site
        scores[own] = class_scores(make().fit(without[~own], y[~own]), without[own], n_classes)
    calibration = calibrate(scores, y)
    logs = calibration.log_probabilities(scores)
    sites = {str(name): np.flatnonzero(environments == name) for name in names}
    partners = play_partners(y, sites)
    column, before = UnstableColumn("planted", (place,)), dict.fromkeys(partners, logs)
    relearning = try_known_sites([column], X, y, sites, logs, before, calibration, partners)
    return make().fit(without, y), removal, relearning


def measure_natural(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return accuracies at the site left out, with nothing planted; also with the most suspicious column given up."""
    rows, labels, sites = X[train], y[train], environments[train]
    model = StableClassifier(make()).fit(rows, labels, environments=sites)
    adapted = model.adapt(X[~train])
    found: dict[str, Any] = {
        key: float((m.predict(X[~train]) == y[~train]).mean()) for key, m in (("stable", model), ("adapted", adapted))
    } | {"fitted": model.verdict_.fitted, "reason": adapted.adaptation_.reason}
    columns = encode_table(rows)
    design = make_design(columns, labels, np.unique(sites, return_inverse=True)[1], n_classes=int(y.max()) + 1)
    posterior = max(zip(posteriors(design), design.features, strict=True), key=lambda pair: pair[0].change)
    place = posterior[1][0]
    stable, removal, relearning = give_up(rows, labels, sites, place, make)
    column = replace(relearning.columns[0], mechanism=posterior[0].mechanism)
    relearning = replace(relearning, columns=(column,))
    forced, why = adapt(relearning, stable, removal, X[~train], int(y.max()) + 1)
    without = float((stable.predict(removal.apply(X[~train])) == y[~train]).mean())
    found["given_up"] = {
        "stable": without,
        "adapted": without if forced is None else float((forced.predict(X[~train]) == y[~train]).mean()),
        "reason": why.reason,
    }
    return found


def measure_recalibrate(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return log loss and accuracy at the site left out, before and after, for numbers of labeled rows."""
    model = ERMClassifier(make()).fit(X[train], y[train], environments=environments[train])
    logs, truth = np.log(np.maximum(model.predict_proba(X[~train]), 1e-6)), y[~train]
    found: dict[str, Any] = {}
    for n_labels in N_LABELS:
        if len(truth) < 2 * n_labels:
            continue
        draws = []
        for draw in range(5):
            order = np.random.default_rng(draw).permutation(len(truth))
            labeled, rest = order[:n_labels], order[n_labels:]
            if len(np.unique(truth[labeled])) < 2:
                continue
            after = recalibrate(logs[labeled], truth[labeled]).calibration.log_probabilities(logs[rest])
            always = calibrate(logs[labeled], truth[labeled], offsets=True).log_probabilities(logs[rest])
            draws.append([value for some in (logs[rest], always, after) for value in _scores(some, truth[rest])])
        if draws:
            names = [f"{what}_{when}" for when in ("before", "always", "after") for what in ("loss", "accuracy")]
            found[str(n_labels)] = dict(zip(names, np.mean(draws, axis=0).tolist(), strict=True))
    return found


def _scores(logs: Any, y: Any) -> tuple[float, float]:
    """Return log loss and accuracy."""
    losses = -np.maximum(logs[np.arange(len(y)), y], np.log(1e-6))
    return float(losses.mean()), float((logs.argmax(axis=1) == y).mean())


def measure_hospitals(n_rows: int, draw: int) -> Any:
    """Return accuracies at 10,000 rows of the new hospital, after adapting to some of them."""
    generator = np.random.default_rng(draw)
    parts = [trust.patients(generator, 1000, agreement) for agreement in (0.95, 0.85)]
    X, y, sites = np.vstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), np.repeat([0, 1], 1000)
    model = StableClassifier().fit(X, y, environments=sites)
    found: dict[str, Any] = {"fitted": model.verdict_.fitted}
    for name, agreement in SCENARIOS.items():
        rows, _ = trust.patients(generator, n_rows, 0.5 if agreement is None else agreement)
        new, truth = trust.patients(generator, 10_000, 0.5 if agreement is None else agreement)
        adapted = model.adapt(rows)
        found[name] = {
            "ordinary": float((model.ordinary_.predict(new) == truth).mean()),
            "stable": float((model.predict(new) == truth).mean()),
            "adapted": float((adapted.predict(new) == truth).mean()),
            "is_adapted": adapted.adaptation_.adapted,
        }
    return found


def measure_forecast(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return the accuracy at the site left out, and what was forecast without labels, by us and by others."""
    with mock.patch.object(fitting, "make_basis", wraps=fitting.make_basis) as made:
        model = StableClassifier(make()).fit(X[train], y[train], environments=environments[train])
    folds, elsewhere, truth, sites = made.call_args.args
    probabilities = model.predict_proba(X[~train])
    found = forecast_accuracy(model.forecasting_, summarize(probabilities))
    assert found is not None
    before, right = model.verdict_.forecast, folds.argmax(axis=1) == truth
    right_elsewhere = elsewhere.argmax(axis=1) == truth
    return {
        "accuracy": float((probabilities.argmax(axis=1) == y[~train]).mean()),
        "forecast": [found.value, found.low, found.high],
        "without_rows": [before.value, before.low, before.high],
        "auroc": _auroc(model, probabilities, y[~train]),
        "others": {
            "out_of_fold": float(right.mean()),
            "left_out": float(np.mean([right_elsewhere[own].mean() for own in sites.values()])),
            "cbpe": float(probabilities.max(axis=1).mean()),
            "doc": float(right.mean() + probabilities.max(axis=1).mean() - folds.max(axis=1).mean()),
            "atc": float((_sureness(probabilities) >= np.quantile(_sureness(folds), 1 - right.mean())).mean()),
        },
    }


def _auroc(model: StableClassifier, probabilities: Any, y: Any) -> list[float] | None:
    """Return the AUROC at a site of two classes, its forecast, and the AUROC out of fold."""
    found = forecast_auroc(model.forecasting_, summarize(probabilities))
    if found is None or len(np.unique(y)) < 2:
        return None
    return [float(auroc(y, probabilities)), found.value, found.low, found.high, model.forecasting_.folds.auroc]


def _sureness(probabilities: Any) -> Any:
    """Return the negative entropy of each row, (n_rows,)."""
    return (probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1)


def measure_alarms(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return the advice about half of a site's rows, where the other half was known."""
    names = [f"x{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(label=y, site=environments)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(~train))
    new = rows[: len(rows) // 2]
    known = frame.drop(index=new)
    model = TableClassifier(label="label", environment="site", estimator=make()).fit(known)
    found = model.check(frame.loc[new, names])
    of_site = replace(found, doubts=())  # doubts are about the training rows
    advice = next(advice for advice, holds in RULES if holds(of_site))
    return {
        "advice": advice,
        "doubts": list(found.doubts),
        "problems": [c.problem for c in found.columns],
        "turned": list(found.turned),
    }


def measure_named(draw: int) -> Any:
    """Return whether the scanner is named at a site where it turned, and at one where it is as known."""
    generator = np.random.default_rng(draw)
    parts = [trust.patients(generator, 1000, agreement) for agreement in (0.95, 0.85)]
    X, y, sites = np.vstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), np.repeat([0, 1], 1000)
    model = StableClassifier().fit(X, y, environments=sites)
    return {
        name: any(r.differs for r in model.adapt(trust.patients(generator, 300, share)[0]).adaptation_.relations)
        for name, share in (("turned", 0.1), ("as known", 0.9))
    }


def color(images: Any, digits: Any, agreement: float, generator: Any) -> tuple[Any, Any]:
    """Return small pictures in two colors, and labels of which a quarter is wrong."""
    small = images[:, ::2, ::2].reshape(len(images), -1) / 255
    y = (digits < 5).astype(np.intp)
    y = np.where(generator.random(len(y)) < 0.25, 1 - y, y)
    red = np.where(generator.random(len(y)) < agreement, y, 1 - y)[:, None]
    return np.hstack([small * (1 - red), small * red]).astype(np.float32), y


def measure_digits(folder: Path, draw: int) -> Any:
    """Return accuracies at a new site of a network, before and after adapting, and the processor seconds it takes."""
    from holdfast import PIClassifier
    from holdfast.datasets.mnist import read_mnist
    from holdfast.neural import NeuralClassifier
    from holdfast.newsite.judges import SiteAdapter

    generator = np.random.default_rng(draw)
    known, other = read_mnist(folder)
    order, parts = generator.permutation(len(known.digits)), []
    for number, agreement in enumerate((0.9, 0.8)):
        rows = order[22_500 * number : 22_500 * (number + 1)]
        parts.append(color(known.images[rows], known.digits[rows], agreement, generator))
    X, y, sites = np.vstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), np.repeat([0, 1], 22_500)
    train = np.arange(len(y)) % 22_500 < 20_000
    network = PIClassifier(NeuralClassifier("mlp"), recipe="robust", random_state=0)
    network.fit(X[train], y[train], environments=sites[train])
    adapter = SiteAdapter(network).fit(X[~train], y[~train], environments=sites[~train])
    found: dict[str, Any] = {}
    for name, agreement in SCENARIOS.items():
        rows, truth = color(other.images, other.digits, 0.5 if agreement is None else agreement, generator)
        shuffled = generator.permutation(len(truth))
        new, asked = shuffled[:1000], shuffled[1000:]
        found[name] = {"stable": float((network.predict(rows[asked]) == truth[asked]).mean())}
        for n_rows in N_IMAGES:
            began = time.process_time()
            adapted = adapter.adapt(rows[new[:n_rows]])
            predicted = adapted.predict(rows[asked])
            found[name][str(n_rows)] = float((predicted == truth[asked]).mean())
            found[name]["seconds"] = round(time.process_time() - began, 2)
            found[name]["is_adapted"] = adapted.adaptation_.adapted
    return found


def tables(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of each table."""
    records = list(trust.Records("newsite", folder, prefix="").found.values())
    by_suite = {suite: [r for r in records if r["key"]["suite"] == suite] for suite in SUITES}
    yield "adapt", _adapt_table(by_suite["planted"])
    yield "natural", _natural_table(by_suite["natural"])
    yield "rows", _rows_table(by_suite["rows"])
    yield "digits", _digits_table(by_suite["digits"])
    yield "recalibrate", _recalibrate_table(by_suite["recalibrate"])
    yield "forecast", _forecast_table(by_suite["forecast"])
    yield "alarms", _alarms_table(by_suite["alarms"], by_suite["named"])


def _mean(records: list[dict[str, Any]], *path: str) -> float:
    """Return the mean over tables of a value's mean over sites left out, in points."""
    values: dict[str, list[float]] = {}
    for record in records:
        value: Any = record
        for step in path:
            value = value[step]
        values.setdefault(record["key"]["table"], []).append(float(value))
    return 100 * float(np.mean([np.mean(found) for found in values.values()]))


def _adapt_table(records: list[dict[str, Any]]) -> list[str]:
    """Return accuracies: all tables, and those that no rule was chosen on."""
    lines = [
        "| tables | estimator | at the new site | ordinary | stable | adapted |",
        "|---|---|---|--:|--:|--:|",
    ]
    for what, names in (("fifteen", (*trust.CHOSEN_ON, *trust.HELD_OUT)), ("seven, held out", trust.HELD_OUT)):
        for estimator in ("logistic", "boosting"):
            mine = [r for r in records if r["key"]["estimator"] == estimator and r["key"]["table"] in names]
            for scenario in SCENARIOS if mine else ():
                values = [_mean(mine, scenario, name) for name in ("ordinary", "stable", "adapted")]
                lines.append(f"| {what} | {estimator} | {scenario} | " + " | ".join(f"{v:.1f}" for v in values) + " |")
    return lines


def _natural_table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| column | estimator | adapted | mean | lowest table |", "|---|---|--:|--:|--:|"]
    for what in ("as found", "most suspicious"):
        for estimator in ("logistic", "boosting"):
            mine = [r for r in records if r["key"]["estimator"] == estimator]
            if not mine:
                continue
            found = mine if what == "as found" else [{"key": r["key"], **r["given_up"]} for r in mine]
            names = dict.fromkeys(r["key"]["table"] for r in found)
            gains = [
                np.mean([100 * (r["adapted"] - r["stable"]) for r in found if r["key"]["table"] == name])
                for name in names
            ]
            n_adapted = f"{sum(not r['reason'] for r in found)} of {len(found)}"
            lines.append(f"| {what} | {estimator} | {n_adapted} | {np.mean(gains):+.2f} | {min(gains):+.1f} |")
    return lines


def _rows_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| rows of the new site | turned | vanished | as known | adapted where it turned |",
        "|--:|--:|--:|--:|--:|",
    ]
    for n_rows in N_ROWS:
        mine = [r for r in records if r["key"]["rows"] == n_rows]
        if mine:
            values = [np.mean([100 * r[scenario]["adapted"] for r in mine]) for scenario in SCENARIOS]
            share = np.mean([r["turned"]["is_adapted"] for r in mine])
            lines.append(f"| {n_rows:,} | " + " | ".join(f"{v:.1f}" for v in values) + f" | {share:.0%} |")
    return lines


def _digits_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| color at the new site | before | " + " | ".join(f"{n:,} images" for n in N_IMAGES) + " | seconds |",
        "|---|--:|" + "--:|" * len(N_IMAGES) + "--:|",
    ]
    for scenario in SCENARIOS if records else ():
        values = [np.mean([100 * r[scenario][name] for r in records]) for name in ("stable", *map(str, N_IMAGES))]
        seconds = np.mean([r[scenario]["seconds"] for r in records])
        lines.append(f"| {scenario} | " + " | ".join(f"{v:.1f}" for v in values) + f" | {seconds:.1f} |")
    return lines


def _recalibrate_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| labeled rows | tables | log loss before | always both | averaged by evidence | accuracy before | after |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for n_labels in map(str, N_LABELS):
        mine = [r for r in records if n_labels in r]
        if mine:
            losses = [_mean(mine, n_labels, f"loss_{when}") / 100 for when in ("before", "always", "after")]
            right = [_mean(mine, n_labels, f"accuracy_{when}") for when in ("before", "after")]
            n_tables = len({r["key"]["table"] for r in mine})
            cells = [f"{v:.3f}" for v in losses] + [f"{v:.1f}" for v in right]
            lines.append(f"| {n_labels} | {n_tables} | " + " | ".join(cells) + " |")
    return lines


def _forecast_table(records: list[dict[str, Any]]) -> list[str]:
    """Return the error of each estimator: tables with natural sites, and those of R's packages."""
    others = {
        "out_of_fold": "accuracy out of fold",
        "left_out": "mean of the sites left out",
        "cbpe": "mean confidence (CBPE)",
        "doc": "difference of confidence (DoC)",
        "atc": "thresholded confidence (ATC)",
    }
    groups = [
        [r for r in records if r["key"]["estimator"] == estimator and (r["key"]["table"] in rtables.SOURCES) == from_r]
        for from_r in (False, True)
        for estimator in ("logistic", "boosting")
    ]
    names = [
        f"{len({r['key']['table'] for r in mine})} {kind}, {estimator}"
        for mine, (kind, estimator) in zip(
            groups, [(k, e) for k in ("tables", "tables of R") for e in ("logistic", "boosting")], strict=True
        )
    ]
    lines = ["| error in points | " + " | ".join(names) + " |", "|---|--:|--:|--:|--:|"]

    def row(name: str, cells: list[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def errors(value: Callable[[Any], float]) -> list[str]:
        found = [[{"key": r["key"], "error": abs(value(r) - r["accuracy"])} for r in mine] for mine in groups]
        return [f"{_mean(mine, 'error'):.1f}" if mine else "" for mine in found]

    for name, words in others.items():
        row(words, errors(lambda r, name=name: r["others"][name]))
    row("**holdfast**", [f"**{cell}**" for cell in errors(lambda r: r["forecast"][0])])
    held = [[r["forecast"][1] <= r["accuracy"] <= r["forecast"][2] for r in mine] for mine in groups]
    row("intervals that hold", [f"{sum(mine)} of {len(mine)}" for mine in held])
    for name, key in (("width of the interval", "forecast"), ("width before the rows are seen", "without_rows")):
        widths = [[{"key": r["key"], "width": r[key][2] - r[key][1]} for r in mine] for mine in groups]
        row(name, [f"{_mean(mine, 'width'):.0f}" if mine else "" for mine in widths])
    ranked = [[{"key": r["key"], "auroc": r["auroc"]} for r in mine if r["auroc"]] for mine in groups]
    for name, place in (("AUROC out of fold", 4), ("AUROC, holdfast", 1)):
        apart = [[r | {"error": abs(r["auroc"][place] - r["auroc"][0])} for r in mine] for mine in ranked]
        row(name, [f"{_mean(mine, 'error'):.1f}" if mine else "" for mine in apart])
    held = [[r["auroc"][2] <= r["auroc"][0] <= r["auroc"][3] for r in mine] for mine in ranked]
    row("intervals of the AUROC that hold", [f"{sum(mine)} of {len(mine)}" for mine in held])
    return lines


def _alarms_table(alarms: list[dict[str, Any]], named: list[dict[str, Any]]) -> list[str]:
    lines = ["| question | share |", "|---|--:|"]
    if alarms:
        labels, repair = (np.mean([r["advice"] == advice for r in alarms]) for advice in ("label", "do_not_use"))
        lines.append(f"| known site: label rows first | {labels:.1%} of {len(alarms)} |")
        lines.append(f"| known site: do not use it | {repair:.1%} of {len(alarms)} |")
        doubted = np.mean([bool(r["doubts"]) for r in alarms])
        lines.append(f"| known site: the training rows are doubted | {doubted:.1%} of {len(alarms)} |")
    if named:
        for name in ("turned", "as known"):
            share = np.mean([r[name] for r in named])
            lines.append(f"| unstable column, {name}: said to differ | {share:.1%} of {len(named)} |")
    return lines


def main() -> None:
    """Run a suite, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "tables", "show"])
    parser.add_argument("suite", nargs="?", choices=SUITES)
    parser.add_argument("--estimators", default="logistic,boosting")
    parser.add_argument("--tables", default=",".join([*trust.CHOSEN_ON, *trust.HELD_OUT]))
    parser.add_argument("--records", type=Path, default=EVIDENCE)
    options = parser.parse_args()
    if options.what == "tables":
        trust.write_tables(PAGE, tables(options.records))
        return
    if options.what == "show":
        trust.show_tables(tables(options.records))
        return
    records = trust.Records("newsite", options.records, prefix="")
    for key, measure in plan(options.suite, options.tables, options.estimators.split(",")):
        records.add({"suite": options.suite, **key}, measure)


def plan(suite: str, tables: str, estimators: list[str]) -> Iterator[tuple[dict[str, Any], Callable[[], Any]]]:
    """Yield what is measured in a suite, each with its key."""
    folder = Path(os.environ.get("HOLDFAST_TEST_DATA", ""))
    draws: Mapping[str, Iterable[tuple[dict[str, int], Callable[[], Any]]]] = {
        "rows": (
            ({"rows": n, "draw": draw}, partial(measure_hospitals, n, draw)) for n in N_ROWS for draw in range(50)
        ),
        "named": (({"draw": draw}, partial(measure_named, draw)) for draw in range(100)),
        "digits": (({"draw": draw}, partial(measure_digits, folder, draw)) for draw in range(1, 6)),
    }
    if suite in draws:
        yield from draws[suite]
        return
    measure: Callable[..., Any] = {
        "forecast": measure_forecast,
        "alarms": measure_alarms,
        "planted": measure_planted,
        "natural": measure_natural,
        "recalibrate": measure_recalibrate,
    }[suite]
    names = [*rtables.FOURTH] if tables == "rtables" else tables.split(",")
    for name, estimator, left_out, X, *rest in splits(folder, names, estimators):
        if suite == "alarms" and sp.issparse(X):
            continue  # words have no profile
        if suite == "recalibrate" and estimator != "logistic":
            continue
        key = {"table": name, "estimator": estimator, "left_out": left_out}
        yield key, partial(measure, X, *rest, left_out, partial(trust.ESTIMATORS[estimator], 0))


if __name__ == "__main__":
    main()
