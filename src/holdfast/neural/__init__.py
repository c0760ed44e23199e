"""Networks: batches, objectives, one training loop and a scikit-learn estimator. Needs the extra `neural`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.extras import require

if TYPE_CHECKING:
    from holdfast.neural.estimator import NeuralClassifier as NeuralClassifier
    from holdfast.neural.estimator import NeuralRegressor as NeuralRegressor
    from holdfast.neural.objectives import OnlineGroupWeights as OnlineGroupWeights
    from holdfast.neural.risks import worst_case_risk as worst_case_risk

require("torch", extra="neural", what="Networks")  # every module below needs it: one clear error for all of them

_PUBLIC = {
    "NeuralClassifier": "holdfast.neural.estimator",
    "NeuralRegressor": "holdfast.neural.estimator",
    "OnlineGroupWeights": "holdfast.neural.objectives",
    "worst_case_risk": "holdfast.neural.risks",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: modules below import one another through this package."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holdfast.neural' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
