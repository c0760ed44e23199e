import numpy as np
import pandas as pd
import pytest

from holdfast import TableClassifier
from holdfast.tables.audits import audit_rows


def test_the_audit_names_what_fit_names():
    """A column and its noisy copy: named by both, with the same probabilities."""
    generator, n = np.random.default_rng(1), 4000
    y, site = generator.integers(2, size=3 * n), np.repeat(["a", "b", "c"], n)
    unstable = (2 * y - 1) * np.repeat([0.6, 1.0, 1.4], n) * 0.6 + generator.normal(size=3 * n)
    columns = {"unstable": unstable, "copy": unstable + 0.3 * generator.normal(size=3 * n)}
    frame = pd.DataFrame({**columns, "stable": (2 * y - 1) * 0.5 + generator.normal(size=3 * n), "site": site, "y": y})
    fitted = TableClassifier(label="y", environment="site").fit(frame)
    found = audit_rows(fitted.read_rows(frame), level=0.05)
    assert found.named == tuple(fitted.verdict_.posterior) == ("unstable", "copy")
    assert {name: found.best(name).probability for name in found.named} == pytest.approx(fitted.verdict_.posterior)
    assert not found.best("stable").named
