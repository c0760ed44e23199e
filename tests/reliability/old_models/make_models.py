"""Writes the saved models of version 0.1 that `test_old_models.py` loads.

They were made once, by version 0.1 itself, with its source before the packages were renamed:
`PYTHONPATH=<source of 0.1> python make_models.py FOLDER`. This code does not run with later versions.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import (
    BalancedClassifier,
    ERMClassifier,
    ExtrapolationClassifier,
    GroupDROClassifier,
    IRMClassifier,
    NeuralClassifier,
    OracleClassifier,
    PIClassifier,
    PIRegressor,
    save_model,
)


def make_rows():
    """Return rows, labels and environments: a stable column, and one that turns."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    environments = np.repeat(["a", "b", "c"], 40)
    agreement = np.select([environments == "a", environments == "b"], [0.9, 0.75], 0.6)
    turning = np.where(rng.random(120) < agreement, y, 1 - y)
    return np.column_stack([y + rng.normal(size=120), turning + 0.1 * rng.normal(size=120)]), y, environments


def main(folder):
    """Write every model as a zip file of its folder, and what they answer to the first twenty rows."""
    X, y, environments = make_rows()
    rows = X[:20]
    network = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=2, random_state=0)
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    models = {
        "pi_worst_case": PIClassifier(interpolation="worst_case", halves="hard", random_state=0),
        "pi_soft_worst_case": PIClassifier(interpolation="worst_case", halves="soft", random_state=0),
        "pi_default": PIClassifier(random_state=0),
        "pi_invariant": PIClassifier(interpolation="invariant", random_state=0),
        "pi_network": PIClassifier(network, random_state=0),
        "pi_tree": PIClassifier(tree, interpolation="worst_case", reweight_rounds=1, n_folds=0, random_state=0),
        "pi_regressor": PIRegressor(random_state=0),
        "erm": ERMClassifier(random_state=0),
        "balanced": BalancedClassifier(random_state=0),
        "group_dro": GroupDROClassifier(random_state=0),
        "oracle": OracleClassifier(random_state=0),
        "extrapolation": ExtrapolationClassifier(random_state=0),
        "irm": IRMClassifier(network, random_state=0),
        "network": network,
        "pipeline": make_pipeline(StandardScaler(), PIClassifier(interpolation="worst_case", random_state=0)),
        "scikit_learn": make_pipeline(StandardScaler(), LogisticRegression()),
        "unfitted": PIClassifier(LogisticRegression(C=2.0)),
    }
    known = {}
    for name, model in models.items():
        if name == "pipeline":
            model.fit(X, y, piclassifier__environments=environments)
        elif name in ("scikit_learn", "network"):
            model.fit(X.astype(np.float32) if name == "network" else X, y)
        elif name == "oracle":
            model.fit(X, y, environments=environments, attribute=(X[:, 1] > 0.5).astype(int))
        elif name == "pi_regressor":
            model.fit(X, X[:, 0] + y, environments=environments)
        elif name == "pi_tree":
            model.fit(X[:80], y[:80], environments=environments[:80])
        elif name != "unfitted":
            model.fit(X.astype(np.float32) if "network" in name or name == "irm" else X, y, environments=environments)
        if name != "unfitted":
            answers = model.predict(rows) if name == "pi_regressor" else model.predict_proba(rows)[:, 1]
            known[name] = np.asarray(answers, dtype=float).tolist()
        write(model, name, folder)
    with tempfile.TemporaryDirectory() as temporary:
        table, out = Path(temporary) / "table.csv", Path(temporary) / "model"
        frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1].round(), "site": environments, "ill": y})
        frame.to_csv(table, index=False)
        for name, options in {"table_worst_case": ["--interpolation", "worst_case"], "table_default": []}.items():
            command = [sys.executable, "-m", "holdfast", "fit", table, "--label", "ill", "--environment", "site"]
            subprocess.run([*command, *options, "--out", out, "--overwrite"], check=True)
            shutil.make_archive(str(folder / name), "zip", out)
            predict = [sys.executable, "-m", "holdfast", "predict", out, table, "--out", Path(temporary) / "p.csv"]
            subprocess.run([*predict, "--overwrite"], check=True)
            known[name] = pd.read_csv(Path(temporary) / "p.csv")["probability_1"][:20].tolist()
    (folder / "answers.json").write_text(json.dumps(known) + "\n")


def write(model, name, folder):
    """Write one model, zipped."""
    with tempfile.TemporaryDirectory() as temporary:
        save_model(model, Path(temporary) / "model")
        shutil.make_archive(str(folder / name), "zip", Path(temporary) / "model")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
