"""holdfast and other packages on real tables, in one run: as they are, and with a column that turns at the new site.

    HOLDFAST_TEST_DATA=FOLDER python benchmarks/packages.py [--only METHOD …] [--records FILE]

Appends one JSON line for each table, left-out environment and method to docs/evidence/packages.jsonl and skips what is
there. The tables are the seven of trust.py that nothing was chosen on; the first and the last of the environments that
trust.py leaves out are left out in turn. Every method fits the same rows once with its defaults; nothing is tuned. What
the packages need: pip install dro==0.4.3 fairlearn==0.15.0 anchorboosting==0.4.0 cvxpy xgboost lightgbm catboost. A
package that is not there is named and skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import trust
from peers import StubFinder
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import GroupDROClassifier, PIClassifier, StableClassifier
from holdfast.estimators.named import ESTIMATORS
from holdfast.methods import IRMClassifier, RGMClassifier, VRExClassifier
from holdfast.neural import NeuralClassifier

SUITES = ("natural", "planted")
Fit = Callable[[Any, Any, Any], Callable[[Any], Any]]  # rows, labels, environments -> rows to labels


def plain(name: str) -> Fit:
    """Return an ordinary fit of a named estimator, as trust.py has logistic regression and boosting."""

    def fit(X: Any, y: Any, environments: Any) -> Callable[[Any], Any]:
        make = trust.ESTIMATORS[name] if name in trust.ESTIMATORS else lambda seed: ESTIMATORS[name].make()
        return make(0).fit(X, y).predict  # type: ignore[no-any-return]

    return fit


def method(make: Callable[[Any], Any], estimator: Callable[[], Any]) -> Fit:
    """Return a fit of one of holdfast's methods."""

    def fit(X: Any, y: Any, environments: Any) -> Callable[[Any], Any]:
        return make(estimator()).fit(X, y, environments=environments).predict  # type: ignore[no-any-return]

    return fit


def network() -> Any:
    """Return a small network on scaled columns."""
    return make_pipeline(StandardScaler(), NeuralClassifier("mlp", max_epochs=5))


def fit_dro(X: Any, y: Any, environments: Any) -> Callable[[Any], Any]:
    """Fit dro's exact group DRO; it wants the group as a column, which has its mean at a new site."""
    stubs = StubFinder()  # for what the package imports and group DRO never touches, where it is not installed
    sys.meta_path.append(stubs)
    try:
        from dro.linear_model import GroupDRO
    finally:
        sys.meta_path.remove(stubs)
    scaler = StandardScaler().fit(X)
    codes = np.unique(environments, return_inverse=True)[1]
    model = GroupDRO(input_dim=X.shape[1] + 1, group_idx=X.shape[1], model_type="logistic")
    model.fit(np.column_stack([scaler.transform(X), codes]), 2 * y - 1)
    theta = np.asarray(model.theta).ravel()

    def predict(new: Any) -> Any:
        rows = scaler.transform(new)
        known = np.column_stack([rows, np.full(len(rows), codes.mean())])[:, : len(theta)]
        return (known @ theta + model.b > 0).astype(int)

    return predict


def fit_fairlearn(X: Any, y: Any, environments: Any) -> Callable[[Any], Any]:
    """Fit fairlearn's reduction to equal error rates in all environments."""
    from fairlearn.reductions import ErrorRateParity, ExponentiatedGradient

    scaler = StandardScaler().fit(X)
    mitigator = ExponentiatedGradient(LogisticRegression(max_iter=1000), ErrorRateParity(), max_iter=20)
    mitigator.fit(scaler.transform(X), y, sensitive_features=environments)
    return lambda new: mitigator.predict(scaler.transform(new), random_state=0)


def fit_anchor(X: Any, y: Any, environments: Any) -> Callable[[Any], Any]:
    """Fit anchor boosting with the environments as anchors."""
    from anchorboosting import AnchorBooster

    anchors = (environments[:, None] == np.unique(environments)[None, :]).astype(float)
    model = AnchorBooster(gamma=7.0, objective="binary", num_boost_round=50, max_depth=3, verbose=-1)
    model.fit(X, y, Z=anchors)
    return lambda new: (model.predict(new) > 0.5).astype(int)


@dataclass(frozen=True)
class Rival:
    """A way to fit, and the package that it needs."""

    fit: Fit
    package: str = "scikit-learn"
    imported: str = "sklearn"


def _logistic() -> Any:
    return trust.ESTIMATORS["logistic"](0)


def _boosting() -> Any:
    return trust.ESTIMATORS["boosting"](0)


METHODS: Mapping[str, Rival] = {
    "logistic regression": Rival(plain("logistic")),
    "boosting": Rival(plain("boosting")),
    "XGBoost": Rival(plain("xgboost"), "xgboost", "xgboost"),
    "LightGBM": Rival(plain("lightgbm"), "lightgbm", "lightgbm"),
    "CatBoost": Rival(plain("catboost"), "catboost", "catboost"),
    "dro, group DRO": Rival(fit_dro, "dro", "dro"),
    "fairlearn, equal error rates": Rival(fit_fairlearn, "fairlearn", "fairlearn"),
    "anchorboosting": Rival(fit_anchor, "anchorboosting", "anchorboosting"),
    "holdfast, StableClassifier, logistic": Rival(
        method(lambda e: StableClassifier(e, random_state=0), _logistic), "holdfast", "holdfast"
    ),
    "holdfast, StableClassifier, boosting": Rival(
        method(lambda e: StableClassifier(e, random_state=0), _boosting), "holdfast", "holdfast"
    ),
    "holdfast, PI, logistic": Rival(
        method(lambda e: PIClassifier(e, random_state=0), _logistic), "holdfast", "holdfast"
    ),
    "holdfast, group DRO, logistic": Rival(
        method(lambda e: GroupDROClassifier(e, random_state=0), _logistic), "holdfast", "holdfast"
    ),
    "holdfast, IRM, network": Rival(
        method(lambda e: IRMClassifier(e, random_state=0), network), "holdfast", "holdfast"
    ),
    "holdfast, V-REx, network": Rival(
        method(lambda e: VRExClassifier(e, random_state=0), network), "holdfast", "holdfast"
    ),
    "holdfast, RGM, network": Rival(
        method(lambda e: RGMClassifier(e, random_state=0), network), "holdfast", "holdfast"
    ),
}


def measure(rival: Rival, suite: str, rows: tuple[Any, Any, Any], left_out: str) -> dict[str, Any]:
    """Return the accuracy at the left-out environment, or why there is none."""
    X, y, environments = rows
    if suite == "planted":
        X = np.column_stack([X, trust.planted_column(y, environments, left_out)])
    train = environments != left_out
    try:
        predict = rival.fit(X[train], y[train], environments[train])
    except Exception as problem:  # a solver that gives up is a result
        return {"error": f"{type(problem).__name__}: {problem}"[:200], "version": version(rival.package)}
    accuracy = float((np.asarray(predict(X[~train])).ravel() == y[~train]).mean())
    return {"accuracy": round(accuracy, 4), "n_rows": int(train.sum()), "version": version(rival.package)}


def main() -> None:
    """Run what is not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*METHODS], metavar="METHOD", help="may be given repeatedly")
    parser.add_argument("--records", type=Path, default=trust.EVIDENCE / "packages.jsonl")
    options = parser.parse_args()
    records = trust.Records(options.records.stem, options.records.parent, prefix="")
    folder = Path(os.environ["HOLDFAST_TEST_DATA"])
    chosen = {name: rival for name, rival in METHODS.items() if name in (options.only or METHODS)}
    absent = {rival.package for rival in chosen.values() if importlib.util.find_spec(rival.imported) is None}
    if absent:
        print(f"skipped, not installed: {', '.join(sorted(absent))}", file=sys.stderr)
    tables = {table: trust.read_real(table, folder) for table in trust.HELD_OUT}
    tables = dict(sorted(tables.items(), key=lambda item: len(np.unique(item[1][2]))))  # many environments are slow
    for place in (0, -1):  # a run that is stopped has all tables rather than both environments
        for table, rows in tables.items():
            left_out = str(trust.left_out_in_turn(rows[2])[place])
            for suite in SUITES:
                for name, rival in chosen.items():
                    if rival.package not in absent:
                        key = {"suite": suite, "table": table, "left_out": left_out, "method": name}
                        records.add(key, partial(measure, rival, suite, rows, left_out))


if __name__ == "__main__":
    main()
