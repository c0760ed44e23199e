"""What is said of one feature: the sentence, the reason, and the summary of its effects."""

import numpy as np
import pytest

from holdfast.stable.columns import encode_table
from holdfast.stable.design import make_design
from holdfast.stable.findings import REASONS, Finding, find
from holdfast.stable.hypotheses import Posterior


def finding(effects=(1.5, 0.6), probability=0.9, **values):
    """Return a finding about two sites."""
    facts = {"label": "ill", "effects": dict(zip(("Boston", "Lyon"), effects, strict=True)), **values}
    return Finding("scanner", probability, 0.001, mean=float(np.mean(effects)), **facts)


@pytest.mark.parametrize(
    ("effects", "how"),
    [
        ((1.5, 0.6), "a higher value raises the odds of ill, more so in Boston than in Lyon"),
        ((-0.6, -1.5), "a higher value lowers the odds of ill, more so in Lyon than in Boston"),
        ((1.5, 0.1), "a higher value raises the odds of ill in Boston, and hardly in Lyon"),
        ((1.5, -0.4), "a higher value raises the odds of ill in Boston, and does the opposite in Lyon"),
    ],
)
def test_the_sentence_says_where_the_effect_is_strong(effects, how):
    """Direction, and the sites with the strongest and the weakest effect."""
    assert finding(effects).sentence == f"The effect of `scanner` differs between sites (probability 0.90): {how}."


def test_an_effect_that_is_surely_there_is_not_said_to_be_hardly_there():
    """An effect of 1.4 multiplies the odds by four, also if that of another site is six times as large."""
    sure, unsure = (finding((8.4, 1.4), errors={"Lyon": error}).sentence for error in (0.2, 1.0))
    assert sure.endswith("more so in Boston than in Lyon.")
    assert unsure.endswith("and hardly in Lyon.")


@pytest.mark.parametrize(
    ("effects", "how"), [((1.5, 0.6), "weaker"), ((1.5, 0.1), "hardly seen"), ((1.5, -0.4), "misleading")]
)
def test_several_values_or_classes_have_no_direction(effects, how):
    """There is no higher value of a category, and no class that it speaks for."""
    sentence = finding(effects, has_direction=False).sentence
    assert sentence.endswith(f"(probability 0.90): it is strongest in Boston, and {how} in Lyon.")


def test_the_value_of_a_category_is_named():
    """Of two values the one that the effects are about."""
    assert "): 'B' raises the odds of ill" in finding(level="B").sentence


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_not_likely_has_a_reason(reason):
    """Below one half the relation is not said to change, and the reason is given."""
    unlikely = finding(probability=0.2, reason=reason)
    assert not unlikely.named
    assert unlikely.sentence == f"`scanner` is not said to change (probability 0.20): {REASONS[reason]}."


def found_of(*posteriors):
    """Return the findings of columns with these posteriors, at two sites."""
    generator = np.random.default_rng(0)
    X, y, sites = generator.normal(size=(200, len(posteriors))), np.tile([0, 1], 100), np.repeat([0, 1], 100)
    columns = encode_table(X)
    design = make_design(columns, y, sites, n_classes=2)
    return find(columns, design, posteriors, np.array(["well", "ill"]), ["Boston", "Lyon"], sites)


def test_the_summary_is_that_of_a_meta_analysis():
    """Cochran's Q of effects 2 and 1 with errors 0.1 is 50; the spread is DerSimonian and Laird's."""
    effects, errors = np.array([2.0, 1.0]), np.array([0.1, 0.1])
    found = found_of(Posterior(0.9, by_site=effects, errors=errors))["x0"]
    assert found.mean == pytest.approx(1.5)
    assert found.spread == pytest.approx(np.sqrt((50 - 1) / 100))
    assert found.p_value == pytest.approx(1.54e-12, rel=0.01)  # chi-squared with one degree of freedom
    assert found.effects == {"Boston": 2.0, "Lyon": 1.0}
    assert found.low < 1.0 < 2.0 < found.high
    assert found.label == "ill"


def test_p_values_are_adjusted_for_the_number_of_columns():
    """Bonferroni, and never above one; the most probable change comes first."""
    one = Posterior(0.1, by_site=np.array([0.3, 0.0]), errors=np.full(2, 0.1))
    other = Posterior(0.8, by_site=np.array([0.1, 0.1]), errors=np.full(2, 0.1))
    found = found_of(one, other)
    assert list(found) == ["x1", "x0"]
    assert found["x0"].p_value == pytest.approx(2 * 0.0339, rel=0.01)
    assert found["x1"].p_value == 1.0
