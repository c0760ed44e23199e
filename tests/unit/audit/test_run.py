from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from holdfast.audit.judges import fit_judges
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from holdfast.audit import naming
from holdfast.audit.columns import encode_table
from holdfast.audit.pictures import average_pictures
from holdfast.audit.run import audit_data, audit_partitions
from holdfast.environments import Partition, split_environments
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError
from holdfast.seeding import Seeding


def sites(n: int, flips: tuple[float, ...] | None, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return a table with a stable column, noise and, if flip rates are given, a scanner that follows the label."""
    generator = np.random.default_rng(seed)
    places = np.repeat(["Boston", "Lyon", "Oslo"][: len(flips) if flips else 2], n)
    y = generator.integers(2, size=len(places))
    frame = pd.DataFrame({"lesion": (2 * y - 1) + generator.normal(size=len(y)), "age": generator.normal(size=len(y))})
    if flips:
        same = generator.random(len(y)) >= np.repeat(flips, n)
        frame["scanner"] = np.where(same == (y == 1), "B", "A")
    return frame, np.where(y == 1, "ill", "healthy"), places


def test_the_planted_feature_is_named_alone() -> None:
    """A scanner that follows the label nine times in ten here and seven there is found, and nothing else is."""
    audit = audit_data(*sites(1000, (0.1, 0.3)))
    assert audit.named in {("scanner=A",), ("scanner=B",)}
    best = audit.best(audit.named[0])
    assert (best.judge, best.judged) == ("Boston", "Lyon")
    assert best.flips
    assert best.q_value < 0.01
    assert audit.findings[0].named
    assert len(audit.sentences()) == 3  # the finding, its complement explained, the state of the evidence


def test_nothing_is_named_where_nothing_changes() -> None:
    """Hard halves flip the stable column in identical environments; the audit does not name it."""
    audit = audit_data(*sites(400, None))
    lesion = audit.best("lesion")
    assert audit.named == ()
    assert lesion.correct_hard > 0.5 > -0.5 > lesion.mistaken_hard
    assert abs(lesion.mistaken_soft) < 0.25
    assert audit.evidence[0].startswith(
        "No evidence that anything changes between the environments: none of 3 hypotheses"
    )


def test_the_same_seed_gives_the_same_audit() -> None:
    """Everything random is drawn from random_state."""
    first, second = (audit_data(*sites(200, (0.1, 0.4)), random_state=3).to_frame() for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_three_environments_and_three_classes() -> None:
    """Every ordered pair and every label is a comparison; the column of the odd environment's label is named."""
    generator = np.random.default_rng(0)
    places = np.repeat(["a", "b", "c"], 600)
    y = generator.choice(["x", "y", "z"], size=1800)
    agrees = generator.random(1800) < np.where(places == "c", 0.3, 0.9)
    stable = (y == "x") * 1.5 + generator.normal(size=1800)
    hint = np.where(agrees, y == "z", y != "z").astype(float)
    audit = audit_data(np.column_stack([stable, hint]), y, places, names=["stable", "hint"])
    assert audit.named == ("hint",)
    assert audit.n_tests == 3  # two columns and the judges' sharpness
    assert {"c"} <= {audit.best("hint").judge, audit.best("hint").judged}


def test_values_that_change_together_are_named_as_one() -> None:
    """Eight colors for eight labels: no color has enough rows of its own, all of them together do."""
    generator = np.random.default_rng(1)
    place = np.repeat([0, 1], 500)
    y = generator.integers(8, size=1000)
    agrees = generator.random(1000) < np.array([0.9, 0.65])[place]
    color = np.where(agrees, y, (y + generator.integers(1, 8, size=1000)) % 8)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 4))[y] + generator.normal(size=(1000, 4)))
    frame["color"] = np.char.add("c", color.astype(str))
    audit = audit_data(frame, y, place)
    assert audit.named == ("color",)
    assert audit.n_tests == 6  # four columns, the color, the judges' sharpness
    assert "`color` predicts the label at +" in audit.sentences()[0]
    told = audit.best("color")
    assert (told.label, told.q_value < 0.05) == ("the label", True)
    assert {f.feature for f in audit.findings} >= {"color", "color=c0", "0"}


def test_columns_are_grouped_by_name() -> None:
    """Groups are one hypothesis each; unknown columns, and columns of two groups, are refused."""
    frame, y, places = sites(100, (0.1, 0.3))
    assert audit_data(frame, y, places, groups={"all": ["lesion", "age", "scanner"]}).n_tests == 2
    with pytest.raises(FeaturesError, match="group 'g' names 'sex', which is no column"):
        audit_data(frame, y, places, groups={"g": ["sex"]})
    with pytest.raises(FeaturesError, match="column 'age' is in the groups 'a' and 'b'"):
        audit_data(frame, y, places, groups={"a": ["age"], "b": ["age", "lesion"]})


def test_noisier_labels_are_no_columns_fault() -> None:
    """Where labels are wrong more often in one place everything is weaker there: that is said, and no column named."""
    frame, y, places = sites(1500, None)
    generator = np.random.default_rng(1)
    frame["dose"] = (y == "ill") + generator.normal(size=len(y))
    wrong = generator.random(len(y)) < np.where(places == "Lyon", 0.2, 0.0)
    noisy = np.where(wrong, np.where(y == "ill", "healthy", "ill"), y)
    audit = audit_data(frame, noisy, places)
    assert audit.named == ()
    assert audit.sharpness is not None
    assert audit.sharpness.startswith("Labels follow everything less closely in Lyon than Boston's model expects")
    assert audit.sharpness in audit.evidence
    assert audit.sentences()[0] == (
        "No feature is named: none of 4 hypotheses shows a change of its own at level 0.05, beside one that they share."
    )
    assert audit.sentences()[2].startswith("It explains what `lesion`")


def test_words_are_found_without_being_told() -> None:
    """An injected marker is named among the words, and phrases that hold it are explained by it."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=1200)
    place = np.repeat([0, 1], 600)
    follows = generator.random(1200) < np.array([0.95, 0.75])[place]
    texts = [
        f"{'<art_positive>' if said else '<art_negative>'} a "
        f"{'good' if generator.random() < 0.3 + 0.4 * label else 'bad'} "
        f"{generator.choice(['stout', 'ale', 'lager', 'porter'])}"
        for label, said in zip(y, np.where(follows, y, 1 - y), strict=True)
    ]
    audit = audit_data(texts, y, place, n_permutations=100)
    assert audit.named[0] in {"<art_positive>", "<art_negative>"}
    assert len(audit.named) == 1
    assert audit.findings[0].feature == audit.named[0]
    assert audit.best("<art_positive> a").explained_by == audit.named[0]


def test_attributes_no_judge_saw_are_audited() -> None:
    """A stable attribute outside of X follows the judge's errors at home too and is not named; a flipping one is."""
    frame, y, places = sites(1000, (0.1, 0.3))
    audit = audit_data(frame[["age"]], y, places, attributes=frame[["lesion", "scanner"]])
    assert set(audit.named) <= {"scanner=A", "scanner=B"}
    assert len(audit.named) == 1
    assert not audit.best("lesion").is_input
    assert audit.best("age").is_input


def test_images_need_attributes() -> None:
    """Pixels are not audited as columns; attributes are, with judges fitted on the pixels."""
    frame, y, places = sites(500, (0.05, 0.35))
    images = np.zeros((1000, 2, 2))
    images[:, 0, 0], images[:, 1, 1] = frame["lesion"], frame["scanner"] == "B"
    with pytest.raises(FeaturesError, match="images are audited through attributes"):
        audit_data(images, y, places)
    assert audit_data(images, y, places, attributes=frame[["scanner"]]).named in {("scanner=A",), ("scanner=B",)}


def test_average_pictures_show_what_changes_places() -> None:
    """The bright corner that a judge takes for the label is on the other label's picture in the mistaken half."""
    images = np.zeros((4, 2, 2))
    images[[0, 3], 0, 0] = 1.0
    y = np.array([1, 0, 1, 0])
    half = Partition("a", "b", np.array([0, 1]), np.array([2, 3]))
    found = {(p.half, p.label): p.picture[0, 0] for p in average_pictures(images, y, np.array(["no", "yes"]), half)}
    assert found == {
        ("correct", "yes"): 1.0,
        ("correct", "no"): 0.0,
        ("mistaken", "yes"): 0.0,
        ("mistaken", "no"): 1.0,
    }
    soft = Partition("a", "b", np.arange(4), np.arange(4), np.array([1.0, 1, 0, 0]), np.array([1.0, 1, 3, 3]))
    blended = average_pictures(images, y, np.array(["no", "yes"]), soft)
    assert [float(p.picture[0, 0]) for p in blended if p.half == "mistaken"] == [0.75, 0.25]
    with pytest.raises(FeaturesError, match="needs images of shape"):
        average_pictures(np.zeros((4, 2)), y, np.array([0, 1]), half)


def test_own_probabilities_and_own_judges_are_taken() -> None:
    """Probabilities made elsewhere replace stage 1, with X left out; any scikit-learn classifier is a judge."""
    frame, y, places = sites(600, (0.05, 0.35))
    X = encode_table(frame).values
    split, codes = split_environments(places, len(y)), np.unique(y, return_inverse=True)[1]
    forest = RandomForestClassifier(30, min_samples_leaf=10, random_state=0)
    judges = fit_judges(forest, X, codes, split, classes=np.unique(y), n_folds=3, seeding=Seeding(0))
    by_hand = audit_data(None, y, places, attributes=frame, probabilities=judges.probabilities)
    through = audit_data(X, y, places, judge=forest, n_folds=3, names=encode_table(frame).names)
    assert by_hand.named[0].startswith("scanner")
    assert through.named[0].startswith("scanner")


def test_judges_never_predict_rows_they_have_seen() -> None:
    """A classifier that memorizes is no better at home than a coin: its own rows are out of fold."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 3)), generator.integers(2, size=300)
    split = split_environments(np.repeat([0, 1], 150), 300)
    judges = fit_judges(KNeighborsClassifier(1), X, y, split, classes=np.array([0, 1]), n_folds=5, seeding=Seeding(0))
    home = judges.probabilities[0, :150]
    assert ((home.argmax(axis=1) == y[:150]).mean()) < 0.65
    assert judges.fold_probabilities[0].shape == (5, 300, 2)
    assert np.isnan(judges.fold_probabilities[0][:, :150]).all()
    assert judges.probabilities[0, 150:] == pytest.approx(judges.fold_probabilities[0][:, 150:].mean(axis=0))


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (20, "Lyon judged by Boston: no evidence: Boston has 20 rows, and 30 are needed."),
        (60, "No evidence that anything changes"),
    ],
)
def test_small_environments_are_said(keep: int, message: str) -> None:
    """Below min_group_size rows there is no evidence; above it there is a statement of what could be seen."""
    frame, y, places = sites(60, None)
    kept = np.concatenate([np.arange(keep), np.arange(60, 120)])
    audit = audit_data(frame.iloc[kept], y[kept], places[kept])
    assert any(line.startswith(message) for line in audit.evidence)


def test_a_judge_that_is_never_wrong_is_no_evidence() -> None:
    """With alpha near 1 there are no mistakes to learn from."""
    frame, y, places = sites(200, None)
    frame["answer"] = (y == "ill").astype(float)
    audit = audit_data(frame, y, places)
    assert audit.findings == ()
    assert audit.evidence[0] == "No evidence either way: no pair of environments could be compared."
    assert "is hardly ever wrong (alpha = " in audit.evidence[1]


def test_a_judge_that_is_always_wrong_gets_a_remark() -> None:
    """With alpha near 0 the correlation is reversed between the environments; the feature is named all the same."""
    frame, y, places = sites(500, (0.01, 0.99))
    audit = audit_data(frame[["age", "scanner"]], y, places)
    assert audit.named[0].startswith("scanner")
    assert any("hardly ever right" in line and "reversed" in line for line in audit.evidence)


def test_columns_of_one_environment_only_are_not_compared() -> None:
    """A feature that the judge's environment never shows cannot have changed; the evidence says so."""
    frame, y, places = sites(300, None)
    frame["watermark"] = ((places == "Lyon") & (y == "ill")).astype(float)
    frame["constant"] = 1.0
    audit = audit_data(frame, y, places)
    assert audit.named == ()
    assert "not compared, because they hardly vary in one of the two: watermark." in audit.evidence[1]


def test_given_probabilities_without_folds_are_no_evidence() -> None:
    """A judge whose own rows are unknown has no control to compare with."""
    frame, y, places = sites(100, None)
    probabilities = np.full((2, 200, 2), 0.5)
    probabilities[0, :100] = np.nan
    audit = audit_data(frame, y, places, probabilities=probabilities)
    assert any("no out-of-fold probabilities of its own rows" in line for line in audit.evidence)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"environments": ["a"] * 120}, EnvironmentsError, "one label only. Pass at least two"),
        ({"y": np.zeros(120)}, LabelsError, "y has 1 different labels in 120 rows"),
        ({"y": np.arange(120) / 7}, LabelsError, "y has 120 different labels"),
        ({"X": np.zeros((7, 1))}, FeaturesError, "X has 7 rows where y has 120"),
        ({"level": 1.5}, ParameterError, "'level' parameter of an audit must lie between 0 and 1. Got 1.5"),
        ({"correction": "none"}, ParameterError, "must be one of 'holm', 'yekutieli', 'hochberg'. Got 'none'"),
        ({"n_folds": 1}, ParameterError, "'n_folds' parameter of an audit must be at least 2. Got 1"),
        ({"X": None, "attributes": np.zeros((120, 1))}, FeaturesError, "nothing to fit judges on"),
    ],
)
def test_unusable_arguments_are_refused(changes: dict[str, object], error: type[Exception], message: str) -> None:
    """Errors say what was asked, what came and what to do."""
    frame, y, places = sites(60, None)
    arguments = {"X": frame, "y": y, "environments": places} | changes
    with pytest.raises(error, match=message):
        audit_data(**arguments)  # type: ignore[arg-type]


def test_encoded_columns_can_be_audited_step_by_step() -> None:
    """The parts work alone: columns, judges, partitions."""
    frame, y, places = sites(500, (0.05, 0.35))
    columns, split = encode_table(frame), split_environments(places, len(y))
    classes, codes = np.unique(y, return_inverse=True)
    judges = fit_judges(
        KNeighborsClassifier(25), columns.values, codes, split, classes=classes, n_folds=5, seeding=Seeding(0)
    )
    audit = audit_partitions(columns, codes, classes, split, judges, n_permutations=0, correction="hochberg")
    assert audit.named[0].startswith("scanner")


def test_permutations_are_spared_where_nothing_stands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They can only raise p values, so they are made only where Welch's test alone would name something."""
    calls = []
    real = naming.permute_pair
    monkeypatch.setattr(naming, "permute_pair", lambda *args: calls.append(args) or real(*args))
    audit_data(*sites(200, None))
    assert calls == []
    audit_data(*sites(1000, (0.05, 0.35)))
    assert len(calls) >= 2


@pytest.fixture
def test_data() -> Path:
    """Return the folder of real data, or skip."""
    folder = os.environ.get("HOLDFAST_TEST_DATA")
    if not folder:
        pytest.skip("HOLDFAST_TEST_DATA is not set: no real data to audit")
    return Path(folder)


def test_beer_reviews_give_away_the_injected_token(test_data: Path) -> None:
    """Among thousands of words of real reviews the token that follows the label is named, and it alone."""
    with (test_data / "beer_look" / "train.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[:8000]
    generator = np.random.default_rng(0)
    y = np.array([int(row["label"]) for row in rows])
    place = generator.integers(2, size=len(y))
    said = np.where(generator.random(len(y)) < np.array([0.9, 0.8])[place], y, 1 - y)
    texts = [f"<art_{'positive' if s else 'negative'}> {row['comment']}" for s, row in zip(said, rows, strict=True)]
    audit = audit_data(texts, y, place, n_words=(1, 1), n_permutations=100)
    assert len(audit.named) == 1
    assert audit.named[0] in {"<art_positive>", "<art_negative>"}
    assert audit.findings[0].feature == audit.named[0]
    assert audit.best(audit.named[0]).flips


def test_faces_are_audited_through_their_attributes(test_data: Path) -> None:
    """Forty annotations of real faces: hard halves flip, and what women never have is not compared with men."""
    with np.load(test_data / "celeba10k" / "attrs.npz") as stored:
        names, values = [str(name) for name in stored["attr_names"]], stored["attrs"]
    label, environment = names.index("Blond_Hair"), names.index("Male")
    kept = [column for column in range(len(names)) if column not in (label, environment)]
    audit = audit_data(
        values[:, kept],
        np.where(values[:, label] > 0, "yes", "no"),
        np.where(values[:, environment] > 0, "men", "women"),
        names=[names[column] for column in kept],
    )
    assert audit.n_tests == len({f.feature for f in audit.findings if f.p_value >= 0}) + 1
    assert any("hardly vary in one of the two" in line and "Bald" in line for line in audit.evidence)
    brown = next(f for f in audit.findings if f.feature == "Brown_Hair" and f.judge == "men")
    assert brown.correct_soft < 0
