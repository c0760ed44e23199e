"""
A table of hospitals
====================

A table with a site column: an ordinary classifier fails at the next hospital, the stable one does not.
"""

import numpy as np
import pandas as pd

from holdfast import ERMClassifier, StableClassifier

generator = np.random.default_rng(0)


def patients(site, n_rows, agreement):
    """Return rows: the marker agrees with 3 of 4 diagnoses everywhere, the scanner with the share `agreement`."""
    ill = generator.integers(2, size=n_rows)
    marker = np.where(generator.random(n_rows) < 0.75, ill, 1 - ill)
    scanner = np.where(generator.random(n_rows) < agreement, ill, 1 - ill)
    return pd.DataFrame({"site": site, "marker": marker, "scanner": scanner, "diagnosis": np.where(ill, "ill", "well")})


train = pd.concat([patients("Boston", 1000, 0.95), patients("Chicago", 1000, 0.85)], ignore_index=True)
known, new = patients("Boston", 1000, 0.95), patients("Denver", 1000, 0.10)
columns = ["marker", "scanner"]

for method in (ERMClassifier(), StableClassifier()):
    method.fit(train[columns], train["diagnosis"], environments=train["site"])
    scores = [method.score(rows[columns], rows["diagnosis"]) for rows in (known, new)]
    print(f"{type(method).__name__:16} known hospital {scores[0]:.3f}, new hospital {scores[1]:.3f}")
print(method.verdict_)

train.to_csv("hospitals.csv", index=False)  # for the command line: holdfast fit hospitals.csv --label diagnosis …
pd.concat([known, new]).to_csv("hospitals-test.csv", index=False)
new[columns].to_csv("new-site.csv", index=False)  # Denver without labels: holdfast check model new-site.csv
