"""Selection rules by name."""

import pytest
import torch

from holdfast.exceptions import ParameterError
from holdfast.neural.selection import SELECTION_RULES, EpochScores, Selected, choose_rule


def scores(**values):
    """Return an epoch's scores with some of them set."""
    settings = {"epoch": 3, "step": 30, "risk": 0.5, "training_score": 0.6, "worst_group": "g", "worst_group_risk": 0.9}
    return EpochScores(**(settings | values))


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ("validation_accuracy", {"validation_score": 0.7}, 0.7),
        ("worst_group_validation", {"validation_score": 0.7, "validation_group_scores": {"a": 0.9, "b": 0.2}}, 0.2),
        ("min_train_validation", {"validation_score": 0.7}, 0.6),
        ("min_train_validation", {"validation_score": 0.5}, 0.5),
        ("other_environments", {"other_environments_score": 0.4}, 0.4),
        ("last", {}, 3.0),
    ],
)
def test_rules_compare_what_they_say(rule, values, expected):
    """Each rule's value is the number in the table of the module."""
    assert SELECTION_RULES[rule].value(scores(**values)) == expected


def test_of_equal_epochs_the_earlier_stays():
    """Only a strictly better epoch replaces the best."""
    rule = SELECTION_RULES["validation_accuracy"]
    best = Selected(rule.name, 0.7, scores(validation_score=0.7), {"w": torch.zeros(1)})
    assert not rule.improves(scores(validation_score=0.7), best)
    assert rule.improves(scores(validation_score=0.71), best)
    assert not rule.improves(scores(validation_score=float("nan")), best)


def test_none_means_validation_accuracy_or_last():
    """Without a name the rule follows from what was handed over."""
    assert choose_rule(None, validation=True).name == "validation_accuracy"
    assert choose_rule(None, validation=False).name == "last"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("validation_accuracy", r"needs validation rows. Pass validation=\(X, y\), or use selection='last'"),
        ("min_train_validation", "needs validation rows"),
        ("worst_group_validation", r"with group labels. Pass validation=\(X, y, group_labels\)"),
        ("other_environments", "needs other training environments. Pass environments="),
        ("leave_one_environment_out", "compares whole trainings, each without one environment"),
        ("best", r"must be one of .*'min_train_validation'.* Got 'best' instead"),
    ],
)
def test_rules_without_their_data_are_refused(rule, message):
    """A rule that cannot be measured says what to pass."""
    with pytest.raises(ParameterError, match=message):
        choose_rule(rule, validation=False)
    if rule == "worst_group_validation":
        with pytest.raises(ParameterError, match=message):
            choose_rule(rule, validation=True)


def test_scores_as_plain_values_leave_out_what_was_not_measured():
    """The history has no None."""
    values = scores(validation_group_scores={"a": 0.9}).as_dict()
    assert values["validation_group_scores"] == {"a": 0.9}
    assert "validation_score" not in values
    assert EpochScores(**values) == scores(validation_group_scores={"a": 0.9})
