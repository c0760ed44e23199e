from __future__ import annotations

import numpy as np
import pytest

from holdfast.audit.judges import calibrated, fit_calibration, given_judges
from holdfast.audit.naming import PermutationNull, _both_ways, adjusted
from holdfast.audit.pooling import PairScores
from holdfast.audit.results import Audit, Finding, PartitionEvidence, sort_findings
from holdfast.exceptions import ParameterError


def finding(**changes: object) -> Finding:
    """Return a finding with the given fields."""
    fields: dict[str, object] = {
        "feature": "scanner_id=B",
        "judge": "Boston",
        "judged": "Lyon",
        "label": "ill",
        "environment_correlation": 0.2,
        "correct_soft": 0.41,
        "mistaken_soft": -0.38,
        "correct_hard": 0.5,
        "mistaken_hard": -0.6,
        "home_mistaken_soft": 0.01,
        "flip_score": -0.39,
        "statistic": -6.0,
        "p_value": 1e-6,
        "q_value": 0.002,
        "named": True,
        "explained_by": None,
        "is_input": True,
    }
    return Finding(**(fields | changes))  # type: ignore[arg-type]


def partition(**changes: object) -> PartitionEvidence:
    """Return evidence with the given fields."""
    fields: dict[str, object] = {
        "judge": "Boston",
        "judged": "Lyon",
        "alpha": 0.8,
        "correct_size": 700.0,
        "mistaken_size": 150.0,
        "detectable": 0.2,
        "problem": None,
        "remark": None,
    }
    return PartitionEvidence(**(fields | changes))  # type: ignore[arg-type]


def test_q_values_are_benjamini_and_hochbergs() -> None:
    """Known numbers, in any order, with missing tests left out."""
    q = adjusted([0.04, np.nan, 0.005, 0.03], "hochberg")
    assert q[[0, 2, 3]] == pytest.approx([0.04, 0.015, 0.04])
    assert np.isnan(q[1])
    assert np.isnan(adjusted([np.nan])).all()


def test_q_values_for_dependent_tests_cost_the_harmonic_sum() -> None:
    """Yekutieli's are Hochberg's times 1 + 1/2 + 1/3, up to one."""
    expected = [0.04 * 11 / 6, 0.015 * 11 / 6, 0.04 * 11 / 6]
    assert adjusted([0.04, 0.005, 0.03], "yekutieli") == pytest.approx(expected)
    assert adjusted([0.9, 0.8], "yekutieli").tolist() == [1.0, 1.0]


def test_holms_steps_down() -> None:
    """The smallest p value counts for every test, the next for one fewer, never less than the one before."""
    q = adjusted([0.04, np.nan, 0.005, 0.03])
    assert q[[0, 2, 3]] == pytest.approx([0.06, 0.015, 0.06])
    assert np.isnan(q[1])


def test_permutations_count_draws_at_least_as_large() -> None:
    """P = (1 + draws at least as large)/(1 + draws); between observed values the lower one's count is used."""
    null = PermutationNull([1.0, -3.0, np.nan])
    null.add(np.array([[0.5, 1.0], [2.0, 4.0]]))
    null.add(np.array([3.0]))
    assert null.p_values(np.array([1.0, 3.0])).tolist() == [5 / 6, 3 / 6]
    assert null.p_values(np.array([-2.52, 0.1])).tolist() == [3 / 6, 1.0]


def test_no_permutations_leave_welchs_test() -> None:
    """Without draws the permutation p value is 0, so that the other one decides."""
    assert PermutationNull([1.0]).p_values(np.array([1.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("back", "expected"),
    [(2.5, 0.04), (-2.5, 1.0), (None, 0.001)],
    ids=["opposite", "alike", "one direction only"],
)
def test_noisier_labels_must_show_both_ways(back: float | None, expected: float) -> None:
    """One judge is too sure and the other not sure enough: the larger p value counts, and 1 where both are too sure."""

    def scores(statistic: float) -> PairScores:
        return PairScores(np.array([5.0, statistic]), np.zeros(2), np.ones(2), {})

    tests, p_values = {(0, 1): scores(-6.0)}, {(0, 1): np.array([0.01, 0.001])}
    if back is not None:
        tests[1, 0], p_values[1, 0] = scores(back), np.array([0.02, 0.04])
    result = _both_ways(tests, p_values, 1)
    assert result[0, 1].tolist() == [0.01, expected]
    assert all(p[1] == expected for p in result.values())
    assert p_values[0, 1][1] == 0.001


def test_calibration_undoes_shrinkage() -> None:
    """Log-odds that were halved get their slope 2 back, for two classes and for three."""
    generator = np.random.default_rng(0)
    for n_classes in (2, 3):
        scores = generator.normal(scale=1.5, size=(20_000, n_classes))
        truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        y = (truth.cumsum(axis=1) < generator.random((20_000, 1))).sum(axis=1)
        shrunk = np.sqrt(truth) / np.sqrt(truth).sum(axis=1, keepdims=True)
        slope, intercepts = fit_calibration(shrunk, y)
        assert slope == pytest.approx(2.0, abs=0.1)
        assert np.abs(calibrated(shrunk, slope, intercepts) - truth).mean() < 0.01


def test_given_probabilities_must_fit() -> None:
    """One probability for each judge, row and class."""
    with pytest.raises(ParameterError, match=r"= \(2, 5, 3\). Got \(2, 5\) instead"):
        given_judges(np.zeros((2, 5)), 2, 5, 3)


def test_sentence_says_what_flips() -> None:
    """A named finding reads as one plain sentence."""
    assert finding().sentence == (
        "In Lyon, `scanner_id=B` predicts *ill* at +0.41 among rows that Boston's model gets right and -0.38 among "
        "those it gets wrong (+0.01 if nothing had changed; q = 0.002)."
    )
    assert finding(named=False, explained_by="ward=7").sentence.endswith("it gets wrong, which `ward=7` explains.")
    assert finding(named=False, q_value=0.5).sentence.endswith("wrong: no evidence of a change (q = 0.500).")


def test_findings_are_sorted_by_flip_score() -> None:
    """Named ones come first; those whose score is unknown come last."""
    parts = [
        finding(feature="c", named=False, flip_score=0.9),
        finding(feature="d", named=False, flip_score=float("nan")),
        finding(feature="a", flip_score=-0.5),
        finding(feature="b", flip_score=0.2),
    ]
    assert [part.feature for part in sort_findings(parts)] == ["a", "b", "c", "d"]


def test_best_finding_is_one_that_flips() -> None:
    """Of two named partitions the one with opposite signs is told, even if the other is stronger."""
    stays = finding(judge="Lyon", judged="Boston", mistaken_soft=0.7, statistic=9.0)
    audit = Audit((stays, finding()), (partition(),), 0.05, 4)
    assert audit.best("scanner_id=B").judge == "Boston"
    with pytest.raises(KeyError, match="age"):
        audit.best("age")


def test_sentences_name_what_follows() -> None:
    """Each named feature is told once, with the features it explains, and the evidence closes."""
    follower = finding(feature="ward=7", named=False, explained_by="scanner_id=B")
    audit = Audit((finding(), follower), (partition(remark="hardly varies."),), 0.05, 4)
    assert audit.named == ("scanner_id=B",)
    assert audit.sentences()[1:] == (
        "`scanner_id=B` explains what `ward=7` would show alone.",
        "Named: 1 of 4 hypotheses tested, at level 0.05.",
        "Lyon judged by Boston: hardly varies.",
    )


def test_evidence_says_when_there_is_none() -> None:
    """Nothing named: what could have been seen is said; nothing tested: that too."""
    quiet = Audit((finding(named=False, q_value=0.31),), (partition(),), 0.05, 4)
    assert quiet.evidence[0] == (
        "No evidence that anything changes between the environments: none of 4 hypotheses is a discovery at level 0.05 "
        "(smallest q = 0.310). With so many rows, a change of correlation among mistaken rows below about 0.20 would "
        "not be seen."
    )
    blind = Audit((), (partition(problem="no evidence: too small."),), 0.05, 0)
    assert blind.evidence == (
        "No evidence either way: no pair of environments could be compared.",
        "Lyon judged by Boston: no evidence: too small.",
    )


def test_frame_has_a_row_for_each_finding() -> None:
    """Every field is a column, and the sentence is the last one."""
    frame = Audit((finding(), finding(feature="age", named=False)), (partition(),), 0.05, 2).to_frame()
    assert frame["feature"].tolist() == ["scanner_id=B", "age"]
    assert frame.columns[-1] == "sentence"
    assert frame.loc[0, "mistaken_soft"] == -0.38
