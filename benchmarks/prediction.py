"""How often a prediction interval holds the true value of the next site: ours, and others that are in use.

    python benchmarks/prediction.py [--draws 500] [--first 0]

A risk model is right up to an intercept and a slope of each site, which are drawn at random. Patients are drawn at
every site, the sites' AUROC and O:E are pooled, and the truth of one more site is taken from 20,000 of its patients.

| interval | what it is |
|---|---|
| ours | `holdfast.diagnosis.pooling.prediction_interval`: averaged over the confidence distribution of tau² |
| metafor | REML, Hartung and Knapp's error, t with k - 1 degrees of freedom: what metafor's `predict` gives |
| Higgins | REML, error of known weights, t with k - 2 degrees of freedom (Higgins, Thompson and Spiegelhalter, 2009) |
| Jeffreys | Bayes: posterior of tau with Jeffreys' prior, flat prior of the mean |
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import optimize, special, stats

from holdfast.diagnosis.clinical import clinical_report
from holdfast.diagnosis.pooling import Estimate, prediction_interval, random_effects

SPREADS = {"none": (0.0, 0.0), "small": (0.15, 0.1), "medium": (0.4, 0.25), "large": (0.8, 0.4)}
MEASURES = {"AUROC": ("auroc", special.logit), "O:E": ("oe", np.log)}
N_TRUTH = 20_000
Limits = tuple[float, float]


def of_metafor(y: np.ndarray, v: np.ndarray) -> Limits:
    """Return REML's interval with Hartung and Knapp's error and k - 1 degrees of freedom."""
    mean, error, tau2, _ = random_effects(y, v)
    reach = stats.t.ppf(0.975, len(y) - 1) * np.sqrt(error**2 + tau2)
    return mean - reach, mean + reach


def of_higgins(y: np.ndarray, v: np.ndarray) -> Limits:
    """Return REML's interval with the error of known weights and k - 2 degrees of freedom."""
    mean, _, tau2, _ = random_effects(y, v)
    reach = stats.t.ppf(0.975, len(y) - 2) * np.sqrt(1 / (1 / (v + tau2)).sum() + tau2)
    return mean - reach, mean + reach


def of_jeffreys(y: np.ndarray, v: np.ndarray) -> Limits:
    """Return the limits of the predictive distribution with Jeffreys' prior of tau, on a grid."""
    top = 6 * max(y.std(ddof=1), np.sqrt(v.max())) * (1 + 4 / len(y))
    tau = (np.arange(400) + 0.5) * top / 400
    weights = 1 / (v[:, None] + tau**2)
    total = weights.sum(axis=0)
    means = (weights * y[:, None]).sum(axis=0) / total
    logs = 0.5 * np.log(weights).sum(axis=0) - 0.5 * np.log(total)
    logs += 0.5 * np.log((tau**2 * weights**2).sum(axis=0)) - 0.5 * (weights * (y[:, None] - means) ** 2).sum(axis=0)
    shares = np.exp(logs - logs.max())
    shares, spreads = shares / shares.sum(), np.sqrt(tau**2 + 1 / total)
    ends = means.min() - 40 * spreads.max(), means.max() + 40 * spreads.max()

    def limit(share: float) -> float:
        return float(optimize.brentq(lambda x: float(shares @ special.ndtr((x - means) / spreads)) - share, *ends))

    return limit(0.025), limit(0.975)


INTERVALS = {"ours": prediction_interval, "metafor": of_metafor, "Higgins": of_higgins, "Jeffreys": of_jeffreys}


def draw_site(
    generator: np.random.Generator, n_rows: int, intercept: float, slope: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return events and stated risks of one site."""
    scores = generator.normal(-0.8, 1.2, n_rows)
    events = generator.random(n_rows) < special.expit(intercept + slope * scores)
    return events, special.expit(scores)


def measure(generator: np.random.Generator, n_sites: int, spread: tuple[float, float]) -> list[list[bool]]:
    """Return for each measure whether each interval holds the value of one more site."""
    effects = [(generator.normal(0, spread[0]), max(generator.normal(1, spread[1]), 0.1)) for _ in range(n_sites + 1)]
    sizes = generator.integers(100, 600, n_sites)
    parts = [draw_site(generator, int(n), *effect) for n, effect in zip(sizes, effects, strict=False)]
    sites = np.repeat(np.arange(n_sites), sizes)
    report = clinical_report(*(np.concatenate([part[place] for part in parts]) for place in (0, 1)), sites)
    truth = clinical_report(*draw_site(generator, N_TRUTH, *effects[-1]), np.zeros(N_TRUTH)).sites[0]
    found = []
    for name, change in MEASURES.values():
        estimates: list[Estimate] = [getattr(site, name) for site in report.sites]
        y, v = np.array([change(e.value) for e in estimates]), np.array([e.error**2 for e in estimates])
        value = float(change(getattr(truth, name).value))
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
