"""Figures for notebooks and papers, in the manner of scikit-learn's displays; they need the extra `plots` (matplotlib).

Each display is made by `from_estimator` or `from_predictions`, which draw it. `plot(ax)` draws it again, and `ax_` and
`figure_` are matplotlib's objects.
"""

from __future__ import annotations

from holdfast.plots.displays import (
    AuditDisplay,
    PartitionDisplay,
    ReliabilityDisplay,
    SiteAccuracyDisplay,
    StrengthPathDisplay,
)

__all__ = ["AuditDisplay", "PartitionDisplay", "ReliabilityDisplay", "SiteAccuracyDisplay", "StrengthPathDisplay"]
