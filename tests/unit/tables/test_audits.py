import numpy as np
import pandas as pd

from holdfast import TableClassifier
from holdfast.tables.audits import audit_rows


def test_the_audit_names_what_fit_names():
    """A column that only stands in for one that `fit` still uses is not named by either."""
    generator, n = np.random.default_rng(1), 4000
    y, site = generator.integers(2, size=3 * n), np.repeat(["a", "b", "c"], n)
    unstable = (2 * y - 1) * np.repeat([0.9, 1.0, 1.1], n) * 0.6 + generator.normal(size=3 * n)
    columns = {"unstable": unstable, "copy": unstable + 0.3 * generator.normal(size=3 * n)}
    frame = pd.DataFrame({**columns, "stable": (2 * y - 1) * 0.5 + generator.normal(size=3 * n), "site": site, "y": y})
    fitted = TableClassifier(label="y", environment="site").fit(frame)
    named = tuple(finding.feature for finding in fitted.verdict_.columns)
    assert audit_rows(fitted.read_rows(frame), level=0.05).named == named == ("unstable",)
