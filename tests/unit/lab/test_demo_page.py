import pytest

from holdfast.datasets import load_dataset
from holdfast.lab.demo import DATA, METHODS, fit_method
from holdfast.lab.pages import audit_demo, demo_page
from holdfast.reports.html import render_report


def test_page_of_the_demo():
    """The answer compares ERM and PI; digits of both halves are shown; the color flips in the halves; no bare zeros."""
    classifier = fit_method("pi", load_dataset("colored_digits", seed=0, **DATA), 0)
    accuracies = {"erm": [0.1, 0.2], "group_dro": [0.2, 0.3], "pi": [0.7, 0.8], "oracle": [0.75, 0.85]}
    result = {
        "methods": {
            name: {"test_accuracies": accuracies[name], "validation_accuracies": [0.9, 0.9]} for name in METHODS
        },
        "data": {"name": "colored_digits"},
        "estimator": "LogisticRegression(C=0.03)",
        "seeds": [0, 1],
    }
    content = demo_page(result, classifier)
    assert "(ERM) is right in 15% of the rows and PI in 75%" in content.answer.sentence
    (digits,) = content.sections[0].blocks
    right, wrong = digits.groups
    assert (right[0], len(right[1])) == ("Right: the color fits the label in 100%", 20)
    assert [picture.color == int(picture.caption) for picture in right[1]] == [True] * 20
    assert not any(picture.color == int(picture.caption) for picture in wrong[1])
    (dots,) = next(section for section in content.sections if section.title == "Accuracy by environment").blocks
    assert dots.places == ("where the color misleads", "rows like the training ones")
    values = {(dot.place, dot.series): dot.value for dot in dots.dots}
    assert values["where the color misleads", "PI"] == pytest.approx(0.75)
    assert all(0 <= dot.low <= dot.value <= dot.high <= 1 for dot in dots.dots)
    picture = next(section for section in content.sections if section.title == "Stage 2: halves").blocks[0]
    column = picture.columns.index("color=3 → 3")
    correct, mistaken = (picture.values[picture.rows.index(row)][column] for row in picture.rows[1:3])
    assert correct > 0.95
    assert mistaken < 0.1
    assert len(render_report(content).encode()) < 400_000


@pytest.mark.xfail(reason="with ten classes the color seems to be part of the mechanism of the pixels", strict=True)
def test_the_audit_of_the_demo_finds_the_color():
    """Color is named and pixels are not."""
    assert audit_demo()[0].named == ("color",)


def test_the_demo_shows_what_classifiers_rely_on():
    """ERM's predictions change with the color, PI's with the pixels."""
    _, reliance = audit_demo()
    assert reliance.features[0] in ("pixels", "color")
    erm, pi = (dict(zip(reliance.features, changed, strict=True)) for changed in reliance.changed.T.tolist())
    assert pi["pixels"] > erm["pixels"]
    assert pi["color"] < erm["color"] / 2
