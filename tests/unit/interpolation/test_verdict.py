"""How much of an unstable column is used, and what the verdict says."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.audit.effects import Effect
from holdfast.audit.results import Finding
from holdfast.interpolation import verdict as module
from holdfast.interpolation.verdict import (
    Accuracy,
    Verdict,
    doubt_about,
    fitted_as,
    is_given_up,
    kept_share,
    removal_levels,
)
from holdfast.metrics import Interval

SURE_P, LARGE, CLEARLY = module.SURE / 10, 5 * module.HALF_SIZE, 2 * module.CLEAR


def effect(p_value=SURE_P, size=LARGE, statistic=50.0, rival=50.0 - CLEARLY, n_environments=2, **others):
    """Return the effect of a column for two classes: certain, large and its own where nothing else is said."""
    effects, errors = np.linspace(0.5, 1.0, n_environments), np.full(n_environments, 0.1)
    return Effect(0, statistic, p_value, rival, (0, 1), effects, errors, 0.75, 0.3, size, **others)


# -- how much is kept ------------------------------------------------------------------------------------------------


def test_a_large_change_that_is_certain_is_given_up():
    """Next to nothing is kept where evidence, size and the column's own part are beyond doubt."""
    assert kept_share(effect()) < 0.05


@pytest.mark.parametrize(("size", "given_up"), [(0.12, False), (0.14, False), (0.16, True), (0.2, True)])
def test_most_of_a_column_has_to_go_for_others_to_be_asked_again(size, given_up):
    """A column of which more than half is used needs nobody that stands in for it."""
    assert is_given_up(effect(size=size)) == given_up


@pytest.mark.parametrize(
    "doubtful",
    [
        {"p_value": module.LEVEL},
        {"statistic": 50.0, "rival": 50.0 - module.FAINT},
        {"statistic": 40.0, "rival": 50.0},
        {"size": 0.0},
        {"supported": 1.0, "shared": module.SHARED[1]},
    ],
    ids=["no evidence", "noisier labels explain almost as much", "noisier labels explain more", "no change", "holds"],
)
def test_each_of_four_doubts_keeps_a_column_whole(doubtful):
    """A p value at the level, a rival that explains as much, no size, all of it expected: it is used as it is."""
    assert kept_share(effect(**doubtful)) == 1.0


@pytest.mark.parametrize(
    "half",
    [
        {"p_value": math.sqrt(module.LEVEL * module.SURE)},
        {"statistic": 10 + (module.FAINT + module.CLEAR) / 2, "rival": 10.0},
        {"size": module.HALF_SIZE},
    ],
    ids=["evidence", "own", "size"],
)
def test_in_the_middle_of_each_scale_about_half_is_kept(half):
    """Evidence counts by the logarithm of p, the own part by the lead over noisier labels, size around its half.

    What is given up begins where a tenth would be: of a half (0.5 - 0.1) / 0.9 is given up.
    """
    assert kept_share(effect(**half)) == pytest.approx(1 - 0.4 / 0.9, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"p_value": 0.05}, 1.0),
        ({"p_value": 0.0158}, 0.556),
        ({"p_value": 0.005}, 0.0),
        ({"size": 0.085}, 1.0),
        ({"size": 0.1}, 0.981),
        ({"size": 0.14}, 0.556),
        ({"size": 0.2}, 0.117),
        ({"statistic": 105.0, "rival": 100.0}, 1.0),
        ({"statistic": 106.0, "rival": 100.0}, 0.556),
        ({"statistic": 107.0, "rival": 100.0}, 0.0),
        ({"statistic": 1015.0, "rival": 1000.0, "n_environments": 10}, 1.0),
        ({"statistic": 1016.0, "rival": 1000.0, "n_environments": 10}, 0.556),
        ({"statistic": 66.0, "rival": 60.0, "n_environments": 40}, 1.0),
        ({"statistic": 69.0, "rival": 60.0, "n_environments": 40}, 0.556),
        ({"statistic": 72.0, "rival": 60.0, "n_environments": 40}, 0.0),
        ({"supported": 0.64, "shared": 0.0}, 0.0),
        ({"supported": 0.64, "shared": 0.01}, 0.356),
        ({"supported": 0.64, "shared": 0.02}, 0.711),
        ({"supported": 0.64, "shared": 1.0}, 0.711),
        ({"supported": 0.0, "shared": 1.0}, 0.0),
        ({"supported": 0.91, "shared": 1.0}, 1.0),
        ({"supported": 0.64, "shared": 1.0, "size": 0.14}, 0.911),
    ],
)
def test_known_shares(changes, kept):
    """Where evidence, size and the lead over noisier labels begin to count, where half is kept, and where nothing."""
    assert kept_share(effect(**{"size": 2.0, **changes})) == pytest.approx(kept, abs=0.002)


def test_a_negligible_change_is_not_acted_on_however_certain():
    """With very many rows every difference is significant; its size decides."""
    negligible = module.HALF_SIZE * ((1 - module.WHOLE) / module.WHOLE) ** (1 / module.STEEPNESS)
    assert kept_share(effect(p_value=1e-200, size=0.99 * negligible)) == 1.0
    assert kept_share(effect(p_value=1e-200, size=1.1 * negligible)) < 1.0


def test_among_many_environments_a_small_lead_over_noisier_labels_says_less():
    """It has to grow with the root of their number; a lead that is a fifth of the other statistic needs not."""
    many, lead = {"rival": 1000.0, "n_environments": 10}, module.CLEAR + 2 * module.FAINT
    assert kept_share(effect(statistic=1000.0 + lead - 2, rival=1000.0)) < 0.05
    assert kept_share(effect(statistic=1000.0 + lead - 1, **many)) == pytest.approx(0.5, abs=0.06)
    assert kept_share(effect(statistic=1000.0 + lead - 2, **many)) == 1.0
    assert kept_share(effect(statistic=1000.0 + lead, **many)) < 0.05
    some = {"n_environments": 40}
    low, high = module.LARGE
    assert kept_share(effect(statistic=60 * (1 + low), rival=60.0, **some)) == 1.0
    assert kept_share(effect(statistic=60 * (1 + (low + high) / 2), rival=60.0, **some)) == pytest.approx(0.5, abs=0.06)
    assert kept_share(effect(statistic=60 * (1 + high), rival=60.0, **some)) < 0.05


def test_what_the_interval_supports_is_kept_of_a_column_that_others_predict():
    """One that only depends on the label may turn altogether, however narrow its interval."""
    assert kept_share(effect(supported=0.7, shared=0.3)) == pytest.approx(1 - (0.3 - 0.1) / 0.9, abs=1e-3)
    assert kept_share(effect(supported=0.7, shared=0.0)) == kept_share(effect())
    assert doubt_about(effect(supported=0.95, shared=0.3)) == "turns"
    assert not is_given_up(effect(supported=0.6, shared=0.3))


@pytest.mark.parametrize(("shared", "kept"), [(0.0, 0.0), (0.01, 0.5), (0.02, 1.0), (0.4, 1.0)])
def test_a_change_that_the_classifier_knows_is_none_for_a_column_that_others_predict(shared, kept):
    """What is left beside what it says decides, as far as others predict the column; it can only keep more."""
    nothing_left = effect(p_value=0.4, shared=shared)
    assert kept_share(effect(shared=shared, unexplained=nothing_left)) == pytest.approx(kept, abs=1e-3)
    assert kept_share(effect(p_value=0.4, shared=shared, unexplained=effect(shared=shared))) == 1.0
    assert kept_share(effect(shared=shared, unexplained=effect(shared=shared))) == pytest.approx(0.0, abs=1e-3)


def test_full_evidence_is_reached():
    """Beyond the sure p value, and beyond a clear lead over noisier labels, more makes no difference."""
    sure = kept_share(effect(p_value=module.SURE))
    assert kept_share(effect(p_value=0.0)) == pytest.approx(sure)
    assert kept_share(effect(p_value=1.1 * module.SURE)) > sure
    clear = kept_share(effect(statistic=10 + module.CLEAR, rival=10.0))
    assert kept_share(effect(statistic=1000.0, rival=0.0)) == pytest.approx(clear)
    assert kept_share(effect(statistic=9.7 + module.CLEAR, rival=10.0)) > clear + 0.05


def test_more_rows_make_the_better_explanation_clearer():
    """Twice the rows make every statistic twice as large, the rival's too."""
    few = kept_share(effect(statistic=16.0, rival=10.0))
    assert 0 < kept_share(effect(statistic=32.0, rival=20.0)) < few < 1


chances = st.floats(1e-12, 1.0)
sizes = st.floats(0.0, 5.0)
statistics = st.floats(0.1, 500.0)


@given(chances, sizes, statistics, statistics)
def test_a_share_is_a_share(p_value, size, statistic, rival):
    """Between nothing and all."""
    assert 0.0 <= kept_share(effect(p_value, size, statistic, rival)) <= 1.0


@given(chances, chances, sizes, statistics, statistics)
def test_less_evidence_never_gives_up_more(first, second, size, statistic, rival):
    """A larger p value keeps at least as much."""
    surer, less_sure = sorted([first, second])
    kept = [kept_share(effect(p, size, statistic, rival)) for p in (surer, less_sure)]
    assert kept[0] <= kept[1] + 1e-12


@given(sizes, sizes, chances, statistics, statistics)
def test_a_smaller_change_never_gives_up_more(first, second, p_value, statistic, rival):
    """The size of the change counts in one direction."""
    small, large = sorted([first, second])
    kept = [kept_share(effect(p_value, size, statistic, rival)) for size in (large, small)]
    assert kept[0] <= kept[1] + 1e-12


@given(statistics, statistics, statistics, chances, sizes)
def test_a_stronger_rival_never_gives_up_more(first, second, statistic, p_value, size):
    """What noisier labels explain better is blamed on the column less; a stronger statistic more."""
    weak, strong = sorted([first, second])
    kept = [kept_share(effect(p_value, size, statistic, rival)) for rival in (weak, strong)]
    assert kept[0] <= kept[1] + 1e-12
    kept = [kept_share(effect(p_value, size, value, statistic)) for value in (strong, weak)]
    assert kept[0] <= kept[1] + 1e-12


@given(chances, sizes, st.floats(1.0, 100.0), st.floats(1.0, 100.0))
def test_a_little_noise_changes_little(p_value, size, statistic, rival):
    """No threshold changes the classifier when it is crossed: 1 % more of anything moves a share by some percent."""
    before = kept_share(effect(p_value, size, statistic, rival))
    for changed in (
        effect(1.01 * p_value, size, statistic, rival),
        effect(p_value, 1.01 * size, statistic, rival),
        effect(p_value, size, 1.01 * statistic, rival),
        effect(p_value, size, statistic, 1.01 * rival),
    ):
        assert abs(kept_share(changed) - before) < 0.05


units = st.floats(0.0, 1.0)


@given(units, units, units, units, chances, sizes)
def test_more_that_others_explain_or_the_interval_supports_never_gives_up_more(
    first, second, share, supported, p, size
):
    """Both count in one direction, and a little of each changes little."""
    low, high = sorted([first, second])
    kept = [kept_share(effect(p, size, supported=value, shared=share)) for value in (low, high)]
    assert kept[0] <= kept[1] + 1e-12
    kept = [kept_share(effect(p, size, supported=supported, shared=value)) for value in (low, high)]
    assert kept[0] <= kept[1] + 1e-12
    nearly = kept_share(effect(p, size, supported=supported, shared=share + 0.001))
    assert abs(nearly - kept_share(effect(p, size, supported=supported, shared=share))) < 0.03


# -- levels ----------------------------------------------------------------------------------------------------------


def seen(levels, n_columns):
    """Return the weight of the parts that see each column."""
    return [sum(weight for weight, removed in levels if column not in removed) for column in range(n_columns)]


def test_nothing_to_remove_is_one_part():
    """The ordinary classifier alone."""
    assert removal_levels([]) == [(1.0, ())]
    assert removal_levels([1.0, 1.0]) == [(1.0, ())]


def test_one_column_is_seen_with_its_share():
    """Two parts: one with it, one without."""
    assert removal_levels([0.3]) == [(0.3, ()), (0.7, (0,))]
    assert removal_levels([1.0, 0.0]) == [(0.0, ()), (1.0, (1,))]


def test_columns_far_apart_have_levels_of_their_own():
    """Each is seen with its own share, and those that are used as they are by all parts."""
    kept = [0.1, 1.0, 0.1 + 3 * module.APART, 0.1 + 6 * module.APART][: module.MOST_LEVELS + 1]
    levels = removal_levels(kept)
    assert seen(levels, len(kept)) == pytest.approx(kept)


shares = st.lists(st.floats(0.0, 1.0), max_size=8)


@given(shares)
def test_levels_are_a_mixture(kept):
    """Weights sum to one, sets are nested, nothing that is used as it is is removed, and fits are few."""
    levels = removal_levels(kept)
    assert sum(weight for weight, _ in levels) == pytest.approx(1.0)
    assert all(weight >= -1e-12 for weight, _ in levels)
    assert levels[0][1] == ()
    for (_, inner), (_, outer) in zip(levels, levels[1:], strict=False):
        assert set(inner) < set(outer)
    assert set(levels[-1][1]) == {column for column, share in enumerate(kept) if share < 1.0}
    assert len(levels) <= 1 + module.MOST_LEVELS


@given(shares)
def test_a_smaller_share_is_never_seen_more(kept):
    """The order of the kept shares is that of what the mixture sees."""
    weights = seen(removal_levels(kept), len(kept))
    for one in range(len(kept)):
        for other in range(len(kept)):
            if kept[one] < kept[other]:
                assert weights[one] <= weights[other] + 1e-9


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=2))
def test_columns_are_seen_about_as_much_as_they_are_kept(kept):
    """Columns that are close share a level, which differs from each by less than `APART`."""
    for share, weight in zip(kept, seen(removal_levels(kept), len(kept)), strict=True):
        assert abs(share - weight) <= module.APART + 1e-9


# -- what it says ----------------------------------------------------------------------------------------------------

FOUND = Finding(
    "scanner",
    0.0004,
    named=True,
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
        "p_value": 0.0004,
        "n_tests": 5,
        **changes,
    }
    return Verdict(fitted, columns, kept if kept is not None else {f.feature: 0.02 for f in columns}, **values)


def test_shares_that_are_near_are_one_level_and_there_are_three_at_most():
    """Columns whose kept shares differ by less than 0.1 are given up together."""
    assert [columns for _, columns in removal_levels([0.5, 0.55])] == [(), (0, 1)]
    assert [columns for _, columns in removal_levels([0.1, 0.3, 0.5, 0.7, 0.9])] == [
        (),
        (0,),
        (0, 1),
        (0, 1, 2, 3, 4),
    ]


def test_the_answer_names_column_and_evidence():
    """What was fitted stands first, then why."""
    assert make().answer == (
        "Stable classifier: `scanner` does not mean the same in every environment (p < 0.001), so it is not used."
    )
    partly = make("partly", kept={"scanner": 0.4})
    assert partly.answer.startswith("Partly stable classifier: `scanner` does not mean the same")
    assert partly.answer.endswith("so 40% of its effect is used.")


def test_of_one_environment_nothing_is_claimed():
    """Neither evidence nor a forecast, which would need another environment."""
    alone = make("ordinary", columns=(), by_environment={}, n_tests=0)
    assert str(alone).endswith("there is only one environment, so whether it holds at others is not known.")
    assert alone.remarks == ()


def test_several_columns_are_named_together():
    """With the plural that belongs to them."""
    other = Finding("ward", 0.01, named=True)
    assert "`scanner`, `ward` do not mean the same" in make(columns=(FOUND, other)).answer
    assert make(columns=(FOUND, other)).answer.endswith("so they are not used.")
    assert "only a part of their effects" in make("partly", (FOUND, other), {"scanner": 0.4, "ward": 0.6}).answer


def test_a_column_that_is_kept_whole_is_no_reason():
    """With many rows tiny changes are certain: what is not acted on is not in the answer, but it is said."""
    verdict = make(columns=(FOUND, Finding("ward", 0.03, named=True)), kept={"scanner": 0.0, "ward": 1.0})
    assert verdict.answer == make().answer
    assert "`ward` changes too, but the change is too small to act on." in str(verdict)
    assert fitted_as([0.0, 1.0]) == "stable"
    assert fitted_as([0.0, 0.95]) == "stable"
    assert fitted_as([0.0, 0.5]) == "partly" == fitted_as([0.95])
    assert fitted_as([1.0, 1.0]) == "ordinary"
    slightly = make(columns=verdict.columns, kept={"scanner": 0.95, "ward": 1.0})  # the one of which any less is used
    assert [finding.feature for finding in slightly.acted_on] == ["scanner"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"columns": (), "p_value": 0.31}, r"no evidence that any of 5 columns .* \(smallest adjusted p = 0.310\)"),
        ({"columns": (), "n_tests": 1}, r"no evidence that its one column means something else"),
        ({"kept": {"scanner": 1.0}}, "but the change is too small to act on"),
        (
            {"kept": {"scanner": 1.0}, "doubts": {"scanner": "own"}},
            r"but labels that are noisier .* explain it as well",
        ),
        ({"kept": {"scanner": 1.0}, "doubts": {"scanner": "evidence"}}, "but the evidence is too weak to act on"),
        (
            {"kept": {"scanner": 1.0}, "doubts": {"scanner": "turns"}},
            "but most of the effect is to be expected at a new environment too",
        ),
        (
            {"kept": {"scanner": 1.0}, "doubts": {"scanner": "known"}},
            "but the classifier can predict that from other columns",
        ),
        ({"kept": {"scanner": 1.0}, "strength": 0.0}, "but strength is 0"),
        ({"kept": {"scanner": 1.0}, "strength": 0.0, "expect": "as_seen"}, "but with environments left out in turn"),
    ],
)
def test_the_ordinary_classifier_says_why(changes, reason):
    """Nothing found, too small, or not asked for."""
    made = make("ordinary", **changes)
    assert made.answer.startswith("Ordinary classifier: ")
    assert re.search(reason, made.answer)
    assert made.remarks == ("Expect an accuracy of 0.71 to 0.86 at a new environment.",)


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"p_value": 0.04}, "evidence"),
        ({"statistic": 50.0, "rival": 48.0}, "own"),
        ({"size": 0.05}, "size"),
        ({"shared": 0.3, "unexplained": effect(p_value=0.3)}, "known"),
        ({"shared": 0.3, "unexplained": effect(size=0.01)}, "known"),
        ({"shared": 0.3, "unexplained": effect(statistic=50.0, rival=48.0)}, "own"),
        ({"size": 0.05, "shared": 0.3, "unexplained": effect(p_value=0.3)}, "size"),
    ],
)
def test_the_weakest_ground_is_the_doubt(changes, doubt):
    """A column that is used although it changes is used for one of these reasons."""
    assert doubt_about(effect(**changes)) == doubt


def test_several_columns_are_named_least_used_first():
    """With the largest of their p values: it holds for each."""
    columns = (Finding("ward", 0.001, named=True), Finding("scanner", 0.036, named=True))
    answer = make("partly", columns=columns, kept={"ward": 0.7, "scanner": 0.1}).answer
    assert "`scanner`, `ward` do not mean the same in every environment (p ≤ 0.036)" in answer


def test_price_and_gain_stand_in_the_remarks():
    """Accuracy now, if the relation vanishes and if it reverses, for both classifiers; gains are their differences."""
    made = make()
    assert made.remarks[0] == "Accuracy at known environments: 0.800 instead of 0.900."
    assert made.remarks[1] == (
        "If the relation vanishes: 0.790 instead of 0.600; if it reverses: 0.780 instead of 0.300."
    )
    assert made.remarks[-1] == "Expect an accuracy of 0.71 to 0.86 at a new environment."
    assert made.gain == pytest.approx((0.19, 0.48))
    assert str(made) == " ".join([made.answer, *made.remarks])


@pytest.mark.parametrize(
    ("fitted", "said"),
    [
        (0.85, None),
        (0.71, None),
        (0.69, "More than half of the skill at known environments came from these columns."),
        (0.55, "More than half of the skill"),
        (0.53, "Almost nothing stable is left: without these columns the classifier is hardly better than always"),
        (0.45, "Almost nothing stable is left"),
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
    assert make().to_dict()["noisier"] is False
    assert {"known", "vanished", "forecast", "chance", "p_value", "n_tests", "noisier", "expect", "strength"} <= set(
        stored
    )


RANKS = {"known": Accuracy(0.9, 0.8), "vanished": Accuracy(0.6, 0.79), "reversed": Accuracy(0.3, 0.78)}


def test_where_nearly_all_labels_are_the_same_the_ranking_is_said():
    """Accuracy would hardly move; skill is then what is better than a random order."""
    rare = make(chance=0.97, known=Accuracy(0.98, 0.971), auroc=RANKS)
    assert rare.remarks[2] == (
        "97% of the rows have the same label, so accuracy says little. AUROC at known environments: 0.800 instead of "
        "0.900; if the relation vanishes: 0.790 instead of 0.600; if it reverses: 0.780 instead of 0.300."
    )
    assert len(rare.remarks) == 4
    lost = make(chance=0.97, auroc={**RANKS, "known": Accuracy(0.9, 0.53)})
    assert lost.remarks[3].endswith("the classifier is hardly better than ranking rows at random.")
    ordinary = make("ordinary", kept={"scanner": 1.0}, chance=0.97, auroc=RANKS)
    assert ordinary.remarks[0].endswith("accuracy says little. AUROC at known environments: 0.800.")
    assert rare.to_dict()["auroc"]["reversed"] == {"ordinary": 0.3, "fitted": 0.78}
    assert make().to_dict()["auroc"] == {}
    assert make(chance=0.9972, auroc=RANKS).remarks[2].startswith("99.7% of the rows have the same label")


def test_effects_that_cancel_leave_nothing_to_give_up():
    """A change of sign is neither small nor noise: over all environments the column says nothing."""
    turns = Finding("lab", 0.001, named=True, effects={"2021": 1.0, "2022": 0.0, "2023": -0.9}, mean=0.03)
    answer = make("ordinary", columns=(turns,), kept={"lab": 1.0}).answer
    assert answer.endswith("but taken over all environments it says next to nothing, so there is nothing to give up.")
    other = replace(turns, feature="dose")
    several = make("ordinary", columns=(turns, other), kept={"lab": 1.0, "dose": 1.0}).answer
    assert "`lab`, `dose` do not mean the same" in several
    assert "but taken over all environments they say next to nothing" in several
    both = replace(turns, effects={"2021": 1.0, "2022": 0.9, "2023": -0.9}, mean=0.33)
    assert "too small to act on" in make("ordinary", columns=(both,), kept={"lab": 1.0}).answer


def test_noisier_labels_are_said():
    """Where all relations are weaker somewhere, no column is to blame, but readers should know."""
    noisy = make("ordinary", columns=(), kept={}, noisier=True)
    assert noisy.remarks[0] == "All relations are weaker in some environments, as noisier labels would make them."
    assert len(make("ordinary", columns=(), kept={}).remarks) == 1
