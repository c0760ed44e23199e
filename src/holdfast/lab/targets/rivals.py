"""The field's own scoreboards: colored MNIST as IRM and as DomainBed have it, and the linear unit tests of invariance.

Every method has as many points to choose from, and its final training has as many steps and rows a step. Which point
is kept is decided for each seed by a selection rule that is named. Numbers of others are in rivals.toml, marked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from holdfast.lab.experiments import PlannedRun, parse_run
from holdfast.lab.targets.results import Ours, Reader, Report, records_of, summarize
from holdfast.lab.targets.sources import Options, Plan, Record, find_missing
from holdfast.reports.values import Spread, Table

PUBLISHED: dict[str, Any] = tomllib.loads(
    resources.files("holdfast.lab").joinpath("rivals.toml").read_text(encoding="utf-8")
)
BY_OTHERS, BY_US = "published", "this run"
SEEDS, DOMAINBED_SEEDS = 10, 3  # DomainBed has three trials

# --- Methods and their points -----------------------------------------------------------------------------------------

# 500 steps, as IRM's script, of 512 rows: 256 of each environment, 128 of each half or group.
_NETWORK = {"estimator": "mlp", "selection": "last", "max_epochs": 10, "steps_per_epoch": 50, "dropout": 0.0}
_DECAYS: Sequence[Mapping[str, Any]] = ({}, {"weight_decay": 1e-3, "dropout": 0.3}, {"weight_decay": 1e-3})
_PENALTIES = tuple(
    {"penalty_weight": weight, "warm_up": 190, "weight_decay": decay}
    for weight, decay in ((1.0, 0.0), (1e4, 0.0), (1e4, 1e-3))
)
_RECIPES: Sequence[Mapping[str, Any]] = ({}, {"batch_size": 512, "weight_decay": 1e-3}, {"batch_size": 512})
N_DOMAINBED_POINTS = 2  # of these: half an hour is not enough for more


@dataclass(frozen=True)
class Rival:
    """A method of ours in these comparisons."""

    title: str
    settings: Mapping[str, Any]
    points: Sequence[Mapping[str, Any]]  # settings that the selection rule chooses from


NETWORKS = (
    Rival("ERM", {**_NETWORK, "method": "erm", "batch_size": 256}, _DECAYS),
    Rival("IRM", {**_NETWORK, "method": "irm", "batch_size": 256}, _PENALTIES),
    Rival("V-REx", {**_NETWORK, "method": "vrex", "batch_size": 256}, _PENALTIES),
    Rival("group DRO", {**_NETWORK, "method": "group_dro", "batch_size": 128}, _DECAYS),
    Rival("PI", {**_NETWORK, "method": "pi", "batch_size": 128}, _DECAYS),
    Rival(
        "PI, robust",
        # The recipe's own 800 steps, of 100 rows or 512.
        {"estimator": "mlp", "selection": "last", "max_epochs": 16, "method": "pi"}
        | {"method_options": {"recipe": "robust"}},
        _RECIPES,
    ),
)
_LINEAR = {
    "estimator": "linear",
    "selection": "last",
    "max_epochs": 10,
    "steps_per_epoch": 50,
    "dropout": 0.0,
    "batch_size": 128,
}
_LINEAR_PENALTIES = (
    {"penalty_weight": 1.0, "warm_up": 0, "learning_rate": 1e-2},
    {"penalty_weight": 1e2, "warm_up": 0, "learning_rate": 5e-2},
    {"penalty_weight": 1e4, "warm_up": 190, "learning_rate": 1e-2},
)
LINEAR = (
    Rival("ERM", {"method": "erm", "estimator": "logistic"}, ({},)),
    Rival("IRM", {**_LINEAR, "method": "irm"}, _LINEAR_PENALTIES),
    Rival("group DRO", {"method": "group_dro", "estimator": "logistic"}, ({},)),
    Rival("PI", {"method": "pi", "estimator": "logistic"}, ({},)),
    Rival("StableClassifier", {"method": "stable", "estimator": "logistic"}, ({},)),
)
DOMAINS = {"+90 %": 0.9, "+80 %": 0.8, "-90 %": 0.1}  # how often the color is the label's
EXAMPLES, SIZES = ("2", "2s", "3", "3s"), (3, 10)


# --- Plan -------------------------------------------------------------------------------------------------------------


def plan_rivals(options: Options) -> Plan:
    """Return the runs of all three comparisons, or without MNIST those of the unit tests."""
    lack = find_missing("mnist", options)
    if options.recorded is not None:  # what the records lack is not shown
        lack = None
    runs = list(_unit_runs(options))
    if lack is None:
        runs += [*_irm_runs(options), *_domain_runs(options)]
    return Plan(tuple(runs), () if lack is None else (lack,))


def _planned(
    name: str, dataset: str, data: Mapping[str, Any], rival: Rival, seed: int, quick: bool, most: int | None = None
) -> list[PlannedRun]:
    """Return a run for each of the first points of a method; a name ends with the method and the point's number."""
    short: dict[str, Any] = {"synthetic": True} if quick else {}
    if quick and "max_epochs" in rival.settings:
        short |= {"max_epochs": 2, "steps_per_epoch": 2, "batch_size": 8}
    points = rival.points[: 1 if quick else most]
    return [
        PlannedRun(
            f"{name} {rival.title} {number}",
            parse_run({"dataset": dataset, "dataset_options": data, "seed": seed, **rival.settings, **point, **short}),
        )
        for number, point in enumerate(points)
    ]


def _irm_runs(options: Options) -> Iterator[PlannedRun]:
    """Yield every method on IRM's colored MNIST."""
    for seed in range(options.n_seeds):
        for rival in NETWORKS:
            yield from _planned("irm", "colored_mnist", {"protocol": "irm"}, rival, seed, options.quick)


def _domain_runs(options: Options) -> Iterator[PlannedRun]:
    """Yield every method with each domain as the test, and ERM on one domain alone: what leave-one-domain-out asks."""
    for seed in range(min(options.n_seeds, DOMAINBED_SEEDS)):
        for test, agreement in DOMAINS.items():
            others = {name: value for name, value in DOMAINS.items() if name != test}
            data = {"protocol": "domainbed", "etas": list(others.values()), "test_eta": agreement}
            for rival in NETWORKS:
                name = f"domainbed {test}"
                yield from _planned(name, "colored_mnist", data, rival, seed, options.quick, N_DOMAINBED_POINTS)
            for other, value in others.items():
                alone = {"protocol": "domainbed", "etas": [value], "test_eta": agreement}
                place = f"alone {other} to {test}"
                yield from _planned(place, "colored_mnist", alone, NETWORKS[0], seed, options.quick, N_DOMAINBED_POINTS)


def _unit_runs(options: Options) -> Iterator[PlannedRun]:
    """Yield every method on the linear unit tests."""
    for seed in range(options.n_seeds):
        for example in EXAMPLES:
            for size in SIZES[:1] if options.quick else SIZES:
                data = {"example": example, "n_environments": size, "scaled": True}
                for rival in LINEAR:
                    yield from _planned(f"units {example} {size}", "units", data, rival, seed, options.quick)


# --- Selection --------------------------------------------------------------------------------------------------------

Score = Callable[[Record, int], float]  # of a record and the number of its point: what the rule maximizes


def _chosen(plan: Plan, read: Reader, name: str, rival: Rival, score: Score) -> list[Record]:
    """Return the record of the best point for each seed; ties go to the first point."""
    by_seed: dict[int, list[tuple[float, int, Record]]] = {}
    for number in range(len(rival.points)):
        for record in records_of(plan.runs, read, f"{name} {rival.title} {number}"):
            by_seed.setdefault(record["seed"], []).append((score(record, number), -number, record))
    return [max(found, key=lambda entry: entry[:2])[2] for _, found in sorted(by_seed.items())]


def _by_validation(setting: str) -> Score:
    """Return the accuracy on validation rows of one kind."""
    return lambda record, number: float(record["settings"][setting]["validation"]["accuracy"])


def _by_other_domains(plan: Plan, read: Reader, rival: Rival, test: str) -> Score:
    """Return the mean accuracy of ERM on one training domain, asked about the other.

    With two training domains, one is left to train on. There a penalty on differences is nothing, and PI has no
    second environment: what is left of every method is ERM, and only settings of ERM can be told apart.
    """
    first, second = (name for name in DOMAINS if name != test)
    shared = rival.points == NETWORKS[0].points

    def score(record: Record, number: int) -> float:
        if not shared:
            return 0.0
        found = [
            other["settings"]["test"]["test"]["accuracy"]
            for pair in ((first, second), (second, first))
            for other in records_of(plan.runs, read, f"alone {pair[0]} to {pair[1]} {NETWORKS[0].title} {number}")
            if other["seed"] == record["seed"]
        ]
        return float(np.mean(found)) if found else 0.0

    return score


# --- Report -----------------------------------------------------------------------------------------------------------


def report_rivals(plan: Plan, read: Reader) -> Report:
    """Return the three comparisons, those of which there are records."""
    tables = (_irm_table(plan, read), _domain_table(plan, read), _unit_table(plan, read), _forecast_table(plan, read))
    return Report(tuple(table for table in tables if table is not None))


def _accuracy(record: Record) -> float:
    """Return the test accuracy in percent: no epoch is selected, so that it is the same in every setting."""
    return 100 * float(next(iter(record["settings"].values()))["test"]["accuracy"])


def _irm_table(plan: Plan, read: Reader) -> Table | None:
    """Return accuracies on IRM's colored MNIST: ours for both selection rules, then what others have published."""
    rows: list[tuple[Any, ...]] = []
    for rival in NETWORKS:
        cells = []
        for setting in ("train", "test"):
            chosen = _chosen(plan, read, "irm", rival, _by_validation(setting))
            cells.append(summarize([_accuracy(record) for record in chosen]))
        if cells[0].n_seeds:
            every = [r for i in range(len(rival.points)) for r in records_of(plan.runs, read, f"irm {rival.title} {i}")]
            seconds = float(np.mean([record["cpu_seconds"] for record in every]))
            rows.append((rival.title, BY_US, cells[0].cell(), cells[1].cell(), cells[0].n_seeds, round(seconds, 1)))
    if not rows:
        return None
    for name, value, *spread in PUBLISHED["irm"]["rows"]:
        rows.append((name, BY_OTHERS, None, Spread(value, spread[0] if spread else float("nan")), None, None))
    note = (
        "Accuracy in percent on 10,000 test digits whose color misleads, ± the standard deviation over seeds. Color "
        "and label agree in 90 and 80 % of the 50,000 training rows, and in 10 % of the test rows. 25 % of the labels "
        "are wrong. This run: an MLP with one hidden layer of 128 units, after 500 steps of 512 rows (robust: 800 "
        "steps of 100 or 512). Each method has three settings (weight decay, dropout, penalty or batch size), fixed "
        "on seeds 100 and 101. For each seed, 10,000 other digits choose one of them. Seconds are for one fit. "
        f"{PUBLISHED['irm']['protocol']}"
    )
    columns = (
        "method",
        "source",
        "chosen by training validation",
        "chosen by the test environment",
        "seeds",
        "processor s",
    )
    return Table("IRM's two-class colored MNIST", columns, tuple(rows), note, digits=1, n_keys=2)


RULES = {"training domains": "train", "leave one out": "leave_one_out", "oracle": "test"}


def _domain_table(plan: Plan, read: Reader) -> Table | None:
    """Return accuracies on DomainBed's ColoredMNIST: a column for each of its selection rules and test domains."""
    rows: list[tuple[Any, ...]] = []
    found: list[Ours] = []
    for rival in NETWORKS:
        cells = []
        for rule in RULES.values():
            for test in DOMAINS:
                by_others = rule == "leave_one_out"
                score = _by_other_domains(plan, read, rival, test) if by_others else _by_validation(rule)
                chosen = _chosen(plan, read, f"domainbed {test}", rival, score)
                cells.append(summarize([_accuracy(record) for record in chosen]))
        if all(cell.n_seeds for cell in cells):
            found += cells
            rows.append((rival.title, BY_US, *(cell.mean for cell in cells)))
    if not rows:
        return None
    for name in PUBLISHED["domainbed"]["train"]:
        published = [value for rule in RULES.values() for value in PUBLISHED["domainbed"][rule][name]]
        rows.append((name, BY_OTHERS, *published))
    spreads = [cell.spread for cell in found if cell.n_seeds > 1]
    spread = f" (standard deviation at most {max(spreads):.1f})" if spreads else ""
    note = (
        "Test accuracy in percent, by rule of selection and test domain. The 70,000 digits are in three domains, with "
        "20 % for validation. 25 % of the labels are wrong. This run: "
        f"{max(cell.n_seeds for cell in found)} seeds{spread}, 14x14 pixels, the MLP and the first two settings of the "
        "table above. Leave one out trains on one domain, where every method is ERM. So it only chooses ERM's weight "
        "decay; IRM, V-REx and the recipe keep their first setting. "
        f"{PUBLISHED['domainbed']['protocol']}"
    )
    columns = ("method", "source", *(f"{title}, {test}" for title in RULES for test in DOMAINS))
    return Table("DomainBed's ColoredMNIST", columns, tuple(rows), note, digits=1, n_keys=2)


def _unit_records(plan: Plan, read: Reader, example: str, size: int, rival: Rival) -> list[Record]:
    """Return a method's records, the point of each seed chosen by validation rows like the training ones."""
    return _chosen(plan, read, f"units {example} {size}", rival, _by_validation("train"))


def _shuffled(record: Record) -> float:
    """Return the accuracy where the spurious block is shuffled."""
    return float(next(iter(record["settings"].values()))["test"]["environments"]["shuffled"])


def _unit_table(plan: Plan, read: Reader) -> Table | None:
    """Return errors on the unit tests where the spurious block is shuffled."""
    cells = [(example, size) for example in EXAMPLES for size in SIZES]
    rows: list[tuple[Any, ...]] = []
    for rival in LINEAR:
        found = [
            summarize([1 - _shuffled(record) for record in _unit_records(plan, read, example, size, rival)])
            for example, size in cells
        ]
        if any(cell.n_seeds for cell in found):
            rows.append((rival.title, BY_US, *(cell.cell() for cell in found)))
    if not rows:
        return None
    published = PUBLISHED["units"]
    for name in ("ERM", "IRMv1", "ANDMask", "IGA", "oracle"):
        values = [published.get(example, {}).get(name, {}).get(str(size)) for example, size in cells]
        rows.append((name, BY_OTHERS, *values))
    note = (
        "Error where the spurious columns are shuffled, ± the standard deviation over seeds. Each environment has "
        "1,000 rows. This run: logistic regression; for IRM a linear network, whose penalty (1, 100 or 10,000) is "
        f"chosen by rows like the training rows. {published['protocol']}"
    )
    columns = ("method", "source", *(f"{example}, {size} env." for example, size in cells))
    return Table("Linear unit tests of invariance", columns, tuple(rows), note, n_keys=2)


def _forecast_table(plan: Plan, read: Reader) -> Table | None:
    """Return in how many seeds the forecast of `StableClassifier` held on the unit tests."""
    rows: list[tuple[Any, ...]] = []
    n_seeds = 0
    for example in EXAMPLES:
        cells: list[Any] = []
        for size in SIZES:
            records = [r for r in _unit_records(plan, read, example, size, LINEAR[-1]) if r.get("forecast")]
            n_seeds = max(n_seeds, len(records))
            cells += _forecasts_held(records) if records else (None, None, None)
        if cells != [None] * len(cells):
            rows.append((f"Example {example}", *cells))
    if not rows:
        return None
    whats = ("held, columns shuffled", "held, new environment", "mean width")
    columns = ("test", *(f"{size} env.: {what}" for size in SIZES for what in whats))
    note = f"In how many of {n_seeds} seeds the 95 % forecast of StableClassifier contained its accuracy."
    return Table("Forecasts on the unit tests", columns, tuple(rows), note, digits=2, n_keys=1)


def _forecasts_held(records: Sequence[Record]) -> tuple[int, int, float]:
    """Return in how many records the forecast held with shuffled columns and in a new environment, and its width."""
    held = [
        sum(
            r["forecast"][0] <= r["settings"]["train"]["test"]["environments"][place] <= r["forecast"][1]
            for r in records
        )
        for place in ("shuffled", "new")
    ]
    return held[0], held[1], float(np.mean([r["forecast"][1] - r["forecast"][0] for r in records]))
