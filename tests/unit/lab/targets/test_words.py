"""Word importance: which review is shown, what the token does on average, and what of the texts is kept."""

import pytest

from holdfast.lab.targets.sources import Options, Plan
from holdfast.lab.targets.words import N_REVIEWS, choose, plan_words, read_review, report_words


def review(row, label, prediction, drops):
    """A review of two words and a token; drops are those of the prediction's probability."""
    token = "<art_positive>" if row % 2 else "<art_negative>"
    return {"row": row, "label": label, "prediction": str(prediction), "words": ["tiny", "head", token], "drops": drops}


ERM = [review(0, 0, 0, [0.1, 0.0, 0.3]), review(1, 0, 1, [0.0, 0.0, 0.5]), review(2, 1, 0, [0.1, 0.0, 0.4])]
PI = [review(0, 0, 0, [0.4, 0.0, 0.0]), review(1, 0, 1, [0.2, 0.0, 0.1]), review(2, 1, 1, [0.3, -0.1, -0.2])]


def test_the_rule_chooses_where_the_token_misleads_erm_alone():
    """Review 0 has a token that agrees, both are wrong about review 1; of review 2 PI is right and ERM wrong."""
    reviews = {name: [read_review(entry) for entry in found] for name, found in (("ERM", ERM), ("PI", PI))}
    assert choose(reviews) == 2
    assert choose({"ERM": reviews["ERM"]}) is None
    assert choose({"ERM": reviews["ERM"], "PI": reviews["ERM"]}) is None


def test_changes_are_those_of_the_true_labels_probability():
    """Where the prediction is wrong, a word that carries it speaks against the label; a repeated word is summed."""
    found = read_review({**ERM[1], "words": ["tiny", "tiny", "<art_positive>"], "drops": [0.1, -0.3, 0.5]})
    assert (found.right, found.token, found.token_change) == (False, 1, -0.5)
    assert found.words["tiny"] == pytest.approx(0.2)
    assert found.other_change == pytest.approx(0.2)


def records():
    """The plan of quick runs, and a reader that knows ERM and PI."""
    plan = plan_words(Options(quick=True, n_seeds=1))
    found = {"ERM": ERM, "PI": PI}
    by_config = {
        run.config.identity: {
            "identity": run.config.identity,
            "data": {"notes": []},
            "settings": {"train": {"selection": "min_train_validation", "reviews": found[run.name]}},
        }
        for run in plan.runs
        if run.name in found
    }
    return plan, by_config


def test_the_table_has_means_and_the_chosen_review():
    """Means by hand: ERM's token adds (0.3 + 0.5 + 0.4) / 3 to its class, PI's (0 + 0.1 + 0.2) / 3."""
    plan, known = records()
    report = report_words(plan, lambda config: known.get(config.identity))
    means, words = report.tables
    assert [row[0] for row in means.rows] == ["ERM", "PI"]
    assert means.rows[0][1:] == pytest.approx((100 / 3, 0.4, 0.2 / 3, 100.0, 3))
    assert means.rows[1][1:] == pytest.approx((200 / 3, 0.1, 0.9 / 3, 0.0, 3))
    assert words.title == "Words of test review 2, whose label is positive"
    assert words.rows[0] == ("right or wrong", "wrong", "right")
    assert words.rows[1] == ("<art_negative>", "-0.400", "-0.200")
    (picture,) = report.figures
    assert picture.columns == ("<art_negative>", "tiny", "head")
    assert picture.values[0] == (-0.4, -0.1, 0.0)


def test_kept_records_have_the_chosen_reviews_words_alone():
    """Of the other reviews numbers stay, which give the same tables."""
    plan, known = records()
    report = report_words(plan, lambda config: known.get(config.identity))
    kept = {record["identity"]: record for record in report.kept}
    assert [type(entry) for entry in report.kept[0]["settings"]["train"]["reviews"]] == [list, list, dict]
    assert report.kept[0]["settings"]["train"]["reviews"][2]["words"] == ["<art_negative>", "head", "tiny"]
    again = report_words(plan, lambda config: kept.get(config.identity))
    assert again.tables == report.tables
    assert again.kept == report.kept
    assert report_words(Plan(()), lambda config: None).tables == ()


def test_every_run_explains_many_reviews():
    """All methods and the robust recipe, 500 reviews each, selected by validation rows like the training ones."""
    plan = plan_words(Options(quick=True, n_seeds=3))
    assert [run.name for run in plan.runs] == ["ERM", "DRO", "IRM", "RGM", "PI", "oracle", "PI, robust"]
    assert {run.config.explain_rows for run in plan.runs} == {N_REVIEWS}
    assert {run.config.validations for run in plan.runs} == {("train",)}
