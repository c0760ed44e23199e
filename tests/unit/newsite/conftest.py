"""Hospitals: a marker that tells 3 of 4 diagnoses everywhere, and a scanner whose agreement differs between sites."""

import numpy as np
import pandas as pd
import pytest

from holdfast import TableClassifier


def hospital(site, n_rows, agreement, seed, kind="code", n_classes=2):
    """Return rows of a site; the unstable column is a code, words, or numbers that go with the code."""
    generator = np.random.default_rng(seed)
    y = generator.integers(n_classes, size=n_rows)
    other = (y + generator.integers(1, n_classes, size=n_rows)) % n_classes
    told = np.where(generator.random(n_rows) < agreement, y, other)
    age = generator.normal(60, 10, n_rows)
    marker = y + generator.normal(0, 0.75, n_rows)
    scanner = {
        "code": told.astype(float),
        "words": np.array(["Acme", "Beta", "Core"], dtype=object)[told],
        "numbers": 10 + 2 * told + generator.normal(0, 0.3, n_rows),
    }[kind]
    return pd.DataFrame({"site": site, "age": age, "marker": marker, "scanner": scanner, "ill": y})


def known_hospitals(**options):
    """Return three known hospitals."""
    shares = {"Boston": 0.98, "Chicago": 0.9, "Detroit": 0.8}
    parts = [hospital(name, 500, share, seed, **options) for seed, (name, share) in enumerate(shares.items())]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="package")
def model():
    """Return a stable classifier of three hospitals."""
    return TableClassifier(label="ill", environment="site").fit(known_hospitals())
