"""What the verdict says: what was fitted, why, what it costs and what it saves."""

import json
from dataclasses import replace

import pytest

from holdfast.metrics import Interval
from holdfast.stable.findings import REASONS, Finding
from holdfast.stable.verdict import Accuracy, Verdict, fitted_as

FOUND = Finding(
    "scanner",
    0.97,
    0.0004,
    label="ill",
    effects={"Boston": 1.5, "Lyon": 0.1},
    errors={"Boston": 0.1, "Lyon": 0.1},
    mean=0.8,
    spread=0.9,
    low=-3.0,
    high=4.6,
)
HERE = Accuracy(0.9, 0.8)


def make(fitted="stable", columns=(FOUND,), kept=None, **changes):
    """Return a verdict about one column."""
    values = {
        "price": Interval(0.1, 0.08, 0.12),
        "known": HERE,
        "vanished": Accuracy(0.6, 0.79),
        "reversed": Accuracy(0.3, 0.78),
        "forecast": Interval(0.8, 0.71, 0.86),
        "by_environment": {"Boston": HERE, "Lyon": HERE},
        "chance": 0.5,
        "n_tests": 5,
        **changes,
    }
    return Verdict(fitted, columns, kept if kept is not None else {f.feature: 0.02 for f in columns}, **values)


def test_the_answer_names_column_and_evidence():
    """What was fitted stands first, then why, with the probability of a change."""
    assert make().answer == (
        "Stable classifier: the effect of `scanner` differs between sites (probability 0.97), so the classifier "
        "ignores it."
    )
    partly = make("partly", kept={"scanner": 0.4})
    assert partly.answer == (
        "Partly stable classifier: the effect of `scanner` differs between sites (probability 0.97), so the "
        "classifier uses 40% of its effect."
    )


def test_what_is_not_likely_is_not_said_to_be_so():
    """A little of a column is given up on a small probability already; the answer then says "may"."""
    unlikely = make("partly", (replace(FOUND, probability=0.07),), {"scanner": 0.93})
    assert unlikely.answer.startswith("Partly stable classifier: the effect of `scanner` may differ between sites")
    several = (FOUND, Finding("ward", 0.3))
    assert "the effects of `scanner`, `ward` may differ" in make("partly", several, {"scanner": 0, "ward": 0.8}).answer


def test_of_one_environment_nothing_is_claimed():
    """Neither evidence nor a forecast, which would need another environment."""
    alone = make("ordinary", columns=(), by_environment={}, n_tests=0)
    assert str(alone) == "Ordinary classifier: there is only one environment, so nothing could be compared."
    assert alone.remarks == ()


def test_several_columns_are_named_least_used_first():
    """With the plural that belongs to them, and the smallest of their probabilities: it holds for each."""
    columns = (Finding("ward", 0.99), replace(FOUND, probability=0.6))
    made = make("partly", columns=columns, kept={"ward": 0.7, "scanner": 0.1})
    assert made.answer == (
        "Partly stable classifier: the effects of `scanner`, `ward` differ between sites (probability at least 0.60), "
        "so the classifier uses 10% to 70% of their effects."
    )
    assert make(columns=columns).answer.endswith("so the classifier ignores them.")
    assert made.remarks[1].startswith("If these effects vanish: 0.790 instead of 0.600; if they reverse: 0.780")


def test_a_column_that_is_kept_whole_is_no_reason():
    """What is not acted on is not in the answer, but it is said."""
    verdict = make(columns=(FOUND, Finding("ward", 0.9, 0.03)), kept={"scanner": 0.0, "ward": 1.0})
    assert verdict.answer == make().answer
    assert "The effect of `ward` seems to differ too, but the change is too small to act on." in verdict.remarks
    assert verdict.reasons == {"ward": "small_change"}
    assert fitted_as([0.0, 1.0]) == "stable"
    assert fitted_as([0.0, 0.95]) == "partly" == fitted_as([0.95])
    assert fitted_as([1.0, 1.0]) == fitted_as([]) == "ordinary"
    slightly = make(columns=verdict.columns, kept={"scanner": 0.95, "ward": 1.0})  # the one of which any less is used
    assert [finding.feature for finding in slightly.acted_on] == ["scanner"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"columns": ()}, "none of the 5 columns has an effect that differs between sites"),
        ({"columns": (), "n_tests": 1}, "the effect of its one column does not differ between sites"),
        ({"kept": {"scanner": 1.0}}, "seems to differ between sites, but the change is too small to act on"),
        *(
            ({"columns": (Finding("scanner", 0.1, 0.01, reason),), "kept": {"scanner": 1.0}}, f"sites, but {text}")
            for reason, text in REASONS.items()
        ),
        ({"kept": {"scanner": 1.0}, "caution": 0.0}, "caution is 0, so nothing is given up"),
    ],
)
def test_the_ordinary_classifier_says_why(changes, reason):
    """Nothing found, one of the rivals, too small, or not asked for."""
    made = make("ordinary", **changes)
    assert made.answer.startswith("Ordinary classifier: ")
    assert made.answer.endswith(f"{reason}.")
    assert made.remarks == ("Expect an accuracy of 0.71 to 0.86 at a new site.",)


def test_several_reasons_are_said_once_each():
    """Columns that are kept for different reasons are named together, with every reason."""
    columns = tuple(Finding(name, 0.1, 0.01, why) for name, why in (("a", "weak_evidence"), ("b", "label_noise")))
    assert make("ordinary", columns, {"a": 1.0, "b": 1.0}).answer == (
        "Ordinary classifier: the effects of `a`, `b` seem to differ between sites, but the evidence is weak, or "
        "noisier labels at some sites would explain it."
    )


def test_price_and_gain_stand_in_the_remarks():
    """Accuracy now, if the effect vanishes and if it reverses, for both classifiers; gains are their differences."""
    made = make()
    assert made.remarks[0] == "Accuracy at known sites: 0.800 instead of 0.900."
    assert made.remarks[1] == (
        "If the effect vanishes: 0.790 instead of 0.600; if it reverses: 0.780 instead of 0.300."
    )
    assert made.remarks[-1] == "Expect an accuracy of 0.71 to 0.86 at a new site."
    assert made.gain == pytest.approx((0.19, 0.48))
    assert str(made) == " ".join([made.answer, *made.remarks])


@pytest.mark.parametrize(
    ("fitted", "said"),
    [
        (0.85, None),
        (0.71, None),
        (0.69, "More than half of the skill at known sites came from these columns."),
        (0.55, "More than half of the skill"),
        (0.53, "Without these columns the classifier is hardly better than always predicting the most frequent label."),
        (0.45, "Without these columns"),
    ],
)
def test_lost_skill_is_said(fitted, said):
    """Skill is what is better than the most frequent label: half of it gone, or almost all."""
    lines = make(known=Accuracy(0.9, fitted)).remarks
    assert len(lines) == (3 if said is None else 4)
    assert said is None or lines[2].startswith(said)


def test_without_skill_nothing_is_lost():
    """A classifier that was no better than chance before has lost no skill."""
    assert len(make(known=Accuracy(0.5, 0.45)).remarks) == 3


@pytest.mark.parametrize(("low", "uncertain"), [(0.51, True), (0.53, False)])
def test_a_forecast_far_below_the_known_environments_is_no_good_news(low, uncertain):
    """The next environment may lack a fifth of the accuracy at known ones."""
    verdict = make(known=Accuracy(0.9, 0.72), forecast=Interval(0.7, low, 0.8))
    assert verdict.is_uncertain is uncertain


def test_it_is_plain_values():
    """JSON in and out, with the text, the columns' kept shares and effects by environment."""
    stored = json.loads(json.dumps(make().to_dict()))
    assert stored["text"] == str(make())
    assert stored["fitted"] == "stable"
    assert stored["columns"][0]["kept"] == 0.02
    assert stored["columns"][0]["effects"] == {"Boston": 1.5, "Lyon": 0.1}
    assert stored["price"] == {"value": 0.1, "low": 0.08, "high": 0.12}
    assert stored["reversed"] == {"ordinary": 0.3, "fitted": 0.78}
    assert stored["by_environment"]["Lyon"] == {"ordinary": 0.9, "fitted": 0.8}
    assert stored["posterior"] == {"scanner": 0.97}
    assert stored["caution"] == 0.75
    assert {"known", "vanished", "forecast", "chance", "n_tests", "kept", "reasons", "auroc"} <= set(stored)


RANKS = {"known": Accuracy(0.9, 0.8), "vanished": Accuracy(0.6, 0.79), "reversed": Accuracy(0.3, 0.78)}


def test_where_nearly_all_labels_are_the_same_the_ranking_is_said():
    """Accuracy would hardly move; skill is then what is better than a random order."""
    rare = make(chance=0.97, known=Accuracy(0.98, 0.971), auroc=RANKS)
    assert rare.remarks[2] == (
        "97% of the rows have the same label, so accuracy says little. AUROC at known sites: 0.800 instead of "
        "0.900; if the effect vanishes: 0.790 instead of 0.600; if it reverses: 0.780 instead of 0.300."
    )
    assert len(rare.remarks) == 4
    lost = make(chance=0.97, auroc={**RANKS, "known": Accuracy(0.9, 0.53)})
    assert lost.remarks[3].endswith("the classifier is hardly better than ranking rows at random.")
    ordinary = make("ordinary", kept={"scanner": 1.0}, chance=0.97, auroc=RANKS)
    assert ordinary.remarks[0].endswith("accuracy says little. AUROC at known sites: 0.800.")
    assert rare.to_dict()["auroc"]["reversed"] == {"ordinary": 0.3, "fitted": 0.78}
    assert make().to_dict()["auroc"] == {}
    assert make(chance=0.9972, auroc=RANKS).remarks[2].startswith("99.7% of the rows have the same label")


def test_several_columns_of_one_mechanism_are_them():
    """The sentence has the number of its columns."""
    one, two = (tuple(Finding(name, 0.1, 0.01, "part_of_mechanism") for name in names) for names in ("a", "ab"))
    assert make("ordinary", one, {"a": 1.0}).answer.endswith("when it is part of one mechanism.")
    assert make("ordinary", two, {"a": 1.0, "b": 1.0}).answer.endswith("when they are part of one mechanism.")


def test_columns_can_be_renamed():
    """Findings and kept shares get the same other names; what is not listed stays."""
    renamed = make(columns=(FOUND, Finding("ward")), kept={"scanner": 0.0, "ward": 1.0}).renamed({"scanner": "device"})
    assert [finding.feature for finding in renamed.columns] == ["device", "ward"]
    assert renamed.kept == {"device": 0.0, "ward": 1.0}
    assert "`device`" in renamed.answer
