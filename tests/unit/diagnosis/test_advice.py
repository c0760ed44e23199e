import itertools

import pytest

from holdfast.diagnosis.advice import RULES, Facts, decide

STATES = ("breaks", "miscalibrated", "holds", "unclear")
REMEDIES = (None, "repair", "stable", "recalibrate", "collect")


@pytest.mark.parametrize(
    ("facts", "key", "action", "command"),
    [
        (Facts(state="holds", data_is_wrong=True, is_unstable=True), "wrong_data", "repair", "diagnose"),
        (Facts(state="unclear", is_unstable=True, remedy="collect"), "unstable", "stable", "fit"),
        (Facts(state="breaks", drifts=True, remedy="recalibrate"), "drift", "collect", "fit"),
        (Facts(state="holds", odd_site="labels", remedy="collect"), "odd_labels", "repair", "diagnose"),
        (Facts(state="miscalibrated", odd_site="rates"), "odd_rates", "recalibrate", "fit"),
        (Facts(is_unstable=True), "unstable", "stable", "fit"),
        (Facts(state="holds", tells_nothing=True), "tells_nothing", "collect", "diagnose"),
        (Facts(state="breaks", odd_site="rates", remedy="repair"), "odd_column", "repair", "diagnose"),
        (Facts(state="unclear", remedy="recalibrate"), "few_rows", "collect", "diagnose"),
        (Facts(state="breaks", remedy="repair"), "odd_column", "repair", "diagnose"),
        (Facts(state="miscalibrated", remedy="recalibrate"), "calibration", "recalibrate", "fit"),
        (Facts(state="breaks", remedy="collect"), "site_rows", "collect", "fit"),
        (Facts(state="breaks"), "breaks", "collect", "fit"),
        (Facts(state="miscalibrated"), "holds", "keep", "fit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_rule_has_its_case(facts, key, action, command):
    """The first rule that applies decides."""
    rule = decide(facts)
    assert (rule.key, rule.action, rule.command[0]) == (key, action, command)


def test_there_is_always_one_advice():
    """Every combination of facts has a rule, an unstable column is always told, and every rule is used."""
    used = set()
    for state, wrong, unstable, drifts, nothing, odd, remedy in itertools.product(
        STATES, (False, True), (False, True), (False, True), (False, True), (None, "labels", "rates"), REMEDIES
    ):
        facts = Facts(
            state=state,
            data_is_wrong=wrong,
            is_unstable=unstable,
            drifts=drifts,
            odd_site=odd,
            remedy=remedy,
            tells_nothing=nothing,
        )
        rule = decide(facts)
        used.add(rule.key)
        if unstable and not wrong:
            assert rule.action == "stable"
    assert used == {rule.key for rule in RULES}
