"""The verdict of a network at the top of a page."""

import pytest

from holdfast.metrics import Interval
from holdfast.reports.findings import verdict_answer
from holdfast.stable.network import NetworkFinding
from holdfast.stable.verdict import Accuracy, Verdict


@pytest.mark.parametrize(
    ("outcome", "reason", "fitted", "signal"),
    [
        ("unstable", "", "stable", "protected"),
        ("nothing_found", "", "ordinary", "good"),
        ("cannot_tell", "few_rows", "ordinary", "caution"),
    ],
)
def test_each_outcome_has_a_signal(outcome, reason, fitted, signal):
    """The page begins with the verdict's own sentence, without a word about columns."""
    both, price = Accuracy(0.9, 0.8), Interval(0.1, 0.08, 0.12)
    finding = NetworkFinding(outcome, reason, 0.9, 12.0, 0.001, 0.0, price)
    sites = {"a": both, "b": both}
    forecast = Interval(0.8, 0.7, 0.9)
    verdict = Verdict(fitted, (), {}, price, both, both, both, forecast, sites, 0.5, network=finding)
    answer = verdict_answer(verdict)
    assert answer.signal == signal
    assert str(verdict).startswith(finding.answer)
    assert "column" not in str(verdict)
    assert verdict.to_dict()["network"]["outcome"] == outcome
    assert verdict.to_dict()["network"]["readable"] is None
