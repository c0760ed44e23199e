"""Tables 3 and 4."""

import pytest

from holdfast.lab import paper
from holdfast.lab.grids import PlannedRun
from holdfast.lab.targets.natural import report_table3
from holdfast.lab.targets.planning import make_run
from holdfast.lab.targets.values import Options, Plan


def test_claims_of_the_text_stand_beside_ours():
    """PI's mean worst accuracy minus DRO's and minus IRM's, in percent."""
    worst = {"erm": 0.3, "group_dro": 0.5, "irm": 0.4, "rgm": 0.45, "pi": 0.6}
    attribute = {"worst": 0.1, "average": 0.2, "worst_low": 0.0, "worst_high": 0.3, "worst_rows": 4}
    runs, records = [], {}
    for method, value in worst.items():
        run = PlannedRun(f"ask2me {paper.METHODS[method]}", make_run("ask2me", method, Options(quick=True)))
        test = {"worst": value, "average": 0.7, "attributes": {"melanoma": attribute}}
        settings = {"train": {"selection": "worst_group_validation", "test": test}}
        records[run.config.identity] = {"settings": settings, "data": {"notes": []}}
        runs.append(run)
    means, claims, *_ = report_table3(Options(), Plan(tuple(runs)), lambda config: records[config.identity]).tables
    assert means.note == "Selection: worst_group_validation."
    assert [row[1:] for row in claims.rows] == [
        (6.81, pytest.approx(10.0)), (pytest.approx(16.29), pytest.approx(20.0)),
    ]  # fmt: skip
    assert "PI over IRM, mean of ASK2ME and CelebA, 12.41" in claims.note
