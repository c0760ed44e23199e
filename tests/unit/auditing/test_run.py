"""An audit from beginning to end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from holdfast.auditing import AuditSettings, audit_data, average_pictures
from holdfast.environments import Partition
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError


def sites(agreements=(0.95, 0.75), n_rows=1000, noise=(0.0, 0.0), seed=0):
    """Return a frame with a stable marker and a scanner that agrees with the label less in each site."""
    generator = np.random.default_rng(seed)
    parts = []
    for number, agreement in enumerate(agreements):
        y = generator.integers(2, size=n_rows)
        marker = np.where(generator.random(n_rows) < 0.8, y, 1 - y)
        scanner = np.where(generator.random(n_rows) < agreement, y, 1 - y)
        flipped = generator.random(n_rows) < (noise[number] if number < len(noise) else 0.0)
        label = np.where(flipped, 1 - y, y)
        parts.append(pd.DataFrame({"marker": marker, "scanner": scanner, "y": label, "site": f"s{number}"}))
    return pd.concat(parts, ignore_index=True)


def audit(frame, settings=None, columns=("marker", "scanner"), **options):
    """Audit some columns of a frame."""
    return audit_data(frame[list(columns)], frame["y"], frame["site"], settings, **options)


def test_the_planted_feature_is_named_alone():
    """The scanner is named, the marker is not, and the sentence says where it is strong."""
    found = audit(sites())
    assert found.named == ("scanner",)
    finding = found.best("scanner")
    assert finding.effects["s0"] > finding.effects["s1"] > 0
    assert finding.low < finding.mean < finding.high
    assert finding.sentence == (
        f"The effect of `scanner` differs between sites (probability {finding.probability:.2f}): a higher value raises "
        "the odds of 1, more so in s0 than in s1."
    )
    assert found.answer == "The effect of `scanner` differs between sites (1 of 2 columns)."
    assert found.sentences() == (found.answer, finding.sentence)
    assert found.differing == ("scanner",)
    assert not found.best("marker").named


def test_a_column_that_stands_in_for_a_named_one_is_named_too():
    """Without the scanner its copy, with one value of ten exchanged, would be relied on in its place."""
    frame = sites((0.95, 0.8))
    exchanged = np.random.default_rng(1).random(len(frame)) < 0.1
    frame["copy"] = np.where(exchanged, 1 - frame["scanner"], frame["scanner"])
    found = audit(frame, columns=("marker", "scanner", "copy"))
    assert found.named == ("scanner", "copy")
    assert [finding.is_input for finding in found.findings] == [True, True, True]


def test_nothing_is_named_where_nothing_changes():
    """Two sites alike: no name, and the answer says how many columns there are."""
    found = audit(sites((0.85, 0.85)))
    assert found.named == ()
    assert found.answer.startswith("None of 2 columns is likely to have an effect that differs between s0, s1 (largest")
    assert found.sentences() == (found.answer,)


def test_a_higher_level_finds_all_that_a_lower_one_finds():
    """The level is that of the tests of equal effects; what is named does not depend on it."""
    frame = sites((0.9, 0.84), n_rows=700, seed=3)
    found = [audit(frame, AuditSettings(level=level)) for level in (1e-9, 0.05, 0.999)]
    assert [one.differing for one in found] == [(), ("scanner",), ("scanner", "marker")]
    assert len({one.named for one in found}) == 1


def test_three_environments_and_three_classes():
    """The column that changes is named; with several classes its effects have no direction."""
    generator = np.random.default_rng(0)
    y, site = generator.integers(3, size=4500), np.repeat(["a", "b", "c"], 1500)
    agreement = np.repeat([0.95, 0.8, 0.6], 1500)
    code = np.where(generator.random(4500) < agreement, y, generator.integers(3, size=4500))
    X = np.column_stack([y + generator.normal(size=4500), code])
    found = audit_data(X, y, site, names=["stable", "code"])
    assert "code" in found.named
    effects = found.best("code").effects
    assert effects["a"] > effects["b"] > effects["c"] > 0
    assert found.best("code").sentence.endswith("it is strongest in a, and weaker in c.")


def test_columns_are_grouped_by_name():
    """Columns of one group are one feature."""
    frame = sites()
    found = audit(frame, AuditSettings(groups={"both": ["marker", "scanner"]}))
    assert found.named == ("both",)
    assert [finding.feature for finding in found.findings] == ["both"]


def test_noisier_labels_are_no_columns_fault():
    """Labels that are noisier in one site weaken every effect there: no column is named."""
    found = audit(sites((0.85, 0.85), n_rows=2000, noise=(0.0, 0.2)))
    assert found.named == ()


def test_words_are_found_without_being_told():
    """A word that goes with the label at one site only is named."""
    generator = np.random.default_rng(0)
    y, site = generator.integers(2, size=2000), np.repeat(["a", "b"], 1000)
    agreement = np.repeat([0.95, 0.5], 1000)
    token = np.where(generator.random(2000) < agreement, y, 1 - y)
    fine = np.where(generator.random(2000) < 0.8, y, 1 - y)
    texts = [f"{'good' if f else 'bad'} beer {'token' if t else ''}" for f, t in zip(fine, token, strict=True)]
    found = audit_data(texts, y, site, AuditSettings(n_words=(1, 1)))
    assert found.named[0] == "token"


def test_attributes_are_audited_beside_images():
    """Images are audited through attributes, which are marked as no inputs."""
    frame = sites()
    images = np.zeros((len(frame), 2, 2))
    found = audit_data(images, frame["y"], frame["site"], attributes=frame[["marker", "scanner"]])
    assert found.named == ("scanner",)
    assert not found.best("scanner").is_input
    with pytest.raises(FeaturesError, match="Images are audited through attributes"):
        audit_data(images, frame["y"], frame["site"])


def test_the_frame_has_a_row_for_each_feature():
    """Effects and errors have a column for each environment."""
    frame = audit(sites()).to_frame()
    assert list(frame["feature"]) == ["scanner", "marker"]
    assert frame.loc[0, "effect in s0"] > frame.loc[0, "effect in s1"]
    finding = audit(sites()).best("marker")
    assert frame.loc[1, ["effect in s0", "error in s1"]].tolist() == [finding.effects["s0"], finding.errors["s1"]]
    assert frame.loc[0, "probability"] > 0.5 > frame.loc[1, "probability"]


def test_average_pictures_show_what_changes_places():
    """The mean picture of each half and label."""
    images = np.zeros((4, 1, 2))
    images[:2, 0, 0] = 1.0
    pictures = average_pictures(
        images, np.array([0, 1, 0, 1]), np.array(["no", "yes"]), Partition("a", "b", np.arange(2), np.arange(2, 4))
    )
    correct = next(p for p in pictures if p.half == "correct" and p.label == "no")
    assert correct.picture.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"site": "one"}, EnvironmentsError, "An audit compares environments"),
        ({"y": 1}, LabelsError, "1 different labels"),
    ],
)
def test_unusable_arguments_are_refused(change, error, message):
    """One environment or one class cannot be compared."""
    with pytest.raises(error, match=message):
        audit(sites(n_rows=50).assign(**change))


def test_a_level_outside_of_its_range_is_refused():
    """The level is a chance."""
    with pytest.raises(ParameterError, match="must lie between 0 and 1"):
        AuditSettings(level=1.5)


def test_average_pictures_of_soft_halves_are_weighted():
    """A row counts with its weight in the half; a half without weight has no picture."""
    images = np.arange(4.0)[:, None, None] * np.ones((4, 2, 2))
    rows = np.arange(4)
    weights = np.array([3.0, 1.0, 0.0, 1.0])
    soft = Partition("a", "b", rows, rows, weights, np.array([0.0, 0.0, 1.0, 0.0]))
    pictures = average_pictures(images, np.array([0, 0, 1, 1]), np.array(["no", "yes"]), soft)
    found = {(picture.half, picture.label): float(picture.picture[0, 0]) for picture in pictures}
    assert found == pytest.approx({("correct", "no"): 0.25, ("correct", "yes"): 3.0, ("mistaken", "yes"): 2.0})
