"""IRM as its penalty's weight grows."""

import pytest

from holdfast.lab.targets.sources import Options
from holdfast.lab.targets.studies import plan_irm, report_irm


def test_irm_has_curves_of_accuracy_and_penalty():
    """Points are means over seeds at the powers of ten; the penalty has a logarithmic axis."""
    options = Options(quick=True, n_seeds=2)

    def read(config):
        score = 0.5 + 0.1 * config.seed
        setting = {
            "selection": "min_train_validation", "training_score": 0.9, "epoch": 3,
            "validation": {"accuracy": 0.8}, "test": {"accuracy": score},
            "penalty": {"risk": 1.0, "penalty": score / 10},
        }  # fmt: skip
        return {"settings": {"train": setting, "test": setting}, "data": {"notes": []}}

    accuracy, penalty = report_irm(plan_irm(options), read).figures
    lines = {line.name: line for figure in (accuracy, penalty) for line in figure.lines}
    assert {line.name for line in accuracy.lines} == {
        f"{rows} rows, validation {as_}" for rows in ("training", "test") for as_ in ("as test", "as training")
    }
    assert lines["test rows, validation as test"].x == pytest.approx((-2, 1, 4))
    assert lines["test rows, validation as test"].y == pytest.approx((0.55,) * 3)
    assert penalty.log
    assert lines["validation as training"].y == pytest.approx((0.055,) * 3)
