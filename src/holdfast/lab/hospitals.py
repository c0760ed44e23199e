"""The first part of the demo: a table of two hospitals, and the third one that comes later.

The marker is right in 3 of 4 patients everywhere. The scanner is right in 95 % and 85 % at the known hospitals, and in
10 % at the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.tables.classifier import TableClassifier
from holdfast.tables.diagnosis import diagnose

if TYPE_CHECKING:
    import pandas as pd

AGREEMENTS = {"Boston": 0.95, "Chicago": 0.85, "Denver": 0.1}  # of the scanner with the diagnosis
NEW = "Denver"
COLUMNS = ["marker", "scanner"]


def draw_hospitals(n_rows: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Return the patients of the three hospitals."""
    import pandas as pd

    generator, parts = np.random.default_rng(seed), []
    for site, agreement in AGREEMENTS.items():
        ill = generator.integers(2, size=n_rows)
        right = {name: generator.random(n_rows) < share for name, share in (("marker", 0.75), ("scanner", agreement))}
        values = {name: np.where(agrees, ill, 1 - ill) for name, agrees in right.items()}
        parts.append(pd.DataFrame({"site": site, **values, "diagnosis": np.where(ill, "ill", "well")}))
    return pd.concat(parts, ignore_index=True)


def run_hospitals(seed: int = 0) -> dict[str, Any]:
    """Diagnose and fit on the known hospitals, check and adapt at the new one; return what is said and measured."""
    table = draw_hospitals(seed=seed)
    is_new = table["site"] == NEW
    known, new = table[~is_new], table[is_new]
    found = diagnose(known[COLUMNS], known["diagnosis"], known["site"])
    ordinary, stable = (
        TableClassifier(label="diagnosis", environment="site", method=method).fit(known) for method in ("erm", "stable")
    )
    unlabeled = new[COLUMNS]
    checked, adapted = stable.check(unlabeled), stable.adapt(unlabeled)
    models = {"ordinary": ordinary, "stable": stable, "adapted": adapted}
    return {
        "n_rows": len(known),
        "diagnose": found.recommendation.sentence,
        "fit": stable.verdict_.answer,
        "check": checked.answer,
        "unstable": list(stable.verdict_.kept),
        "accuracy": {name: model.score(new) for name, model in models.items()},
    }
