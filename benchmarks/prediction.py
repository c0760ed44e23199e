"""How often the prediction interval of `holdfast.diagnosis.clinical` holds the true value of the next site.

    python benchmarks/prediction.py [--draws 500]

A risk model is right up to an intercept and a slope of each site, which are drawn at random. Patients are drawn at
every site, the sites' AUROC and O:E are pooled, and the truth of one more site is taken from 20,000 of its patients.
"Plain" is the interval that metafor's `predict` gives.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import special

from holdfast.diagnosis.clinical import clinical_report

SPREADS = {"none": (0.0, 0.0), "small": (0.15, 0.1), "medium": (0.4, 0.25), "large": (0.8, 0.4)}
N_TRUTH = 20_000


def draw_site(
    generator: np.random.Generator, n_rows: int, intercept: float, slope: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return events and stated risks of one site."""
    scores = generator.normal(-0.8, 1.2, n_rows)
    events = generator.random(n_rows) < special.expit(intercept + slope * scores)
    return events, special.expit(scores)


def measure(generator: np.random.Generator, n_sites: int, spread: tuple[float, float]) -> dict[str, tuple[bool, bool]]:
    """Return for each measure whether both intervals hold the value of one more site."""
    effects = [(generator.normal(0, spread[0]), max(generator.normal(1, spread[1]), 0.1)) for _ in range(n_sites + 1)]
    sizes = generator.integers(100, 600, n_sites)
    parts = [draw_site(generator, int(n), *effect) for n, effect in zip(sizes, effects, strict=False)]
    sites = np.repeat(np.arange(n_sites), sizes)
    report = clinical_report(*(np.concatenate([part[place] for part in parts]) for place in (0, 1)), sites)
    truth = clinical_report(*draw_site(generator, N_TRUTH, *effects[-1]), np.zeros(N_TRUTH)).sites[0]
    found = {}
    for name in ("auroc", "oe"):
        pooled, value = report.pooled_of(name), getattr(truth, name).value
        assert pooled is not None
        both = (pooled.next_site, pooled.next_site_plain)
        found[name] = tuple(interval.low <= value <= interval.high for interval in both)
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    n_draws = parser.parse_args().draws
    print("| sites | sites differ | AUROC | AUROC, plain | O:E | O:E, plain |\n|--:|---|--:|--:|--:|--:|")
    for n_sites in (5, 10, 20):
        for name, spread in SPREADS.items():
            draws = [measure(np.random.default_rng([n_sites, seed]), n_sites, spread) for seed in range(n_draws)]
            shares = [np.mean([draw[key] for draw in draws], axis=0) for key in ("auroc", "oe")]
            cells = " | ".join(f"{share:.1%}" for pair in shares for share in pair)
            print(f"| {n_sites} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
