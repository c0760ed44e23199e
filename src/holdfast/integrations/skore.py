"""A check for skore reports (https://docs.skore.probabl.ai) that says whether the model fits the site of the test rows.

report = skore.EstimatorReport(model, X_test=rows_of_the_new_site, y_test=labels)
report.checks.add([NewSiteCheck()])
report.checks.summarize()
"""

from __future__ import annotations

from typing import Any, Literal

from holdfast.extras import require


class NewSiteCheck:
    """Report what `check` of a fitted `StableClassifier` advises about the test rows.

    The labels are not used. Nothing is reported where the model can be used and its accuracy is not in doubt.
    Estimators without `check` are not applicable; skore itself takes no `TableClassifier`.
    """

    code: str = "HFT001"
    title: str = "The model may not fit this site"
    docs_url: str | None = None
    severity: Literal["issue", "tip"] = "issue"
    slow: bool = False

    def __init__(self) -> None:
        self.report_types = ["estimator"]

    def check_function(self, report: Any) -> str | None:
        """Return the advice and what it rests on; None where the model can be used."""
        estimator, rows = report.estimator_, report.X_test
        if rows is None or not hasattr(estimator, "check"):
            why = "it has no test rows" if rows is None else f"{type(estimator).__name__} has no method check"
            skore = require("skore", extra=None, what="Checks of reports")
            raise skore.CheckNotApplicable(f"The new site is not checked: {why}.")
        found = estimator.check(rows)
        return None if found.advice == "use" and not found.is_unsure else str(found)
