"""How often a prediction interval holds the true value of the next site: ours, and that of metafor.

    python benchmarks/prediction.py [--draws 500] [--first 0]

A risk model is right up to an intercept and a slope of each site, which are drawn at random. Patients are drawn at
every site, the sites' AUROC and O:E are pooled, and the truth of one more site is taken from 20,000 of its patients.

| interval | what it is |
|---|---|
| ours | `holdfast.diagnosis.pooling.prediction_interval`: averaged over the confidence distribution of tau² |
| metafor | REML, Hartung and Knapp's error, t with k - 1 degrees of freedom: what metafor's `predict` gives |
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import special, stats

from holdfast.diagnosis.clinical import _auroc, _observed_to_expected
from holdfast.diagnosis.pooling import prediction_interval, random_effects

SPREADS = {"none": (0.0, 0.0), "small": (0.15, 0.1), "medium": (0.4, 0.25), "large": (0.8, 0.4)}
MEASURES = {"AUROC": (_auroc, special.logit), "O:E": (_observed_to_expected, np.log)}
N_TRUTH = 20_000
Limits = tuple[float, float]


def of_metafor(y: np.ndarray, v: np.ndarray) -> Limits:
    """Return REML's interval with Hartung and Knapp's error and k - 1 degrees of freedom."""
    mean, error, tau2, _ = random_effects(y, v)
    reach = stats.t.ppf(0.975, len(y) - 1) * np.sqrt(error**2 + tau2)
    return mean - reach, mean + reach


INTERVALS = {"ours": prediction_interval, "metafor": of_metafor}


def draw_site(
    generator: np.random.Generator, n_rows: int, intercept: float, slope: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return events and stated risks of one site."""
    scores = generator.normal(-0.8, 1.2, n_rows)
    events = generator.random(n_rows) < special.expit(intercept + slope * scores)
    return events.astype(float), special.expit(scores)


def measure(generator: np.random.Generator, n_sites: int, spread: tuple[float, float]) -> list[list[bool]]:
    """Return for each measure whether each interval holds the value of one more site."""
    effects = [(generator.normal(0, spread[0]), max(generator.normal(1, spread[1]), 0.1)) for _ in range(n_sites + 1)]
    sizes = generator.integers(100, 600, n_sites)
    parts = [draw_site(generator, int(n), *effect) for n, effect in zip(sizes, effects, strict=False)]
    next_site = draw_site(generator, N_TRUTH, *effects[-1])
    found = []
    for estimate, change in MEASURES.values():
        estimates = [estimate(*part, None) for part in parts]
        y, v = np.array([change(e.value) for e in estimates]), np.array([e.error**2 for e in estimates])
        value = float(change(estimate(*next_site, None).value))
        limits = [interval(y, v) for interval in INTERVALS.values()]
        found.append([low <= value <= high for low, high in limits])
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    given = parser.parse_args()
    names = [f"{measure}, {interval}" for measure in MEASURES for interval in INTERVALS]
    print(f"| sites | sites differ | {' | '.join(names)} |\n|--:|---|{'--:|' * len(names)}")
    for n_sites in (5, 10, 20):
        for name, spread in SPREADS.items():
            seeds = range(given.first, given.first + given.draws)
            draws = [measure(np.random.default_rng([n_sites, seed]), n_sites, spread) for seed in seeds]
            cells = " | ".join(f"{share:.1%}" for share in np.mean(draws, axis=0).ravel())
            print(f"| {n_sites} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
