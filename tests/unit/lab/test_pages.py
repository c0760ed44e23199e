import math

import pytest

from holdfast.exceptions import InputError
from holdfast.lab.pages import best_points, data_name, runs_page
from holdfast.reports.html import render_report
from holdfast.reports.values import Table, figure_table


def record(method: str, seed: int, value: float, accuracy: float, **config):
    """Return the record of a run, as the experiments write it."""
    history = [{"epoch": n, "worst_group_risk": 1 / n, "validation_score": value * n / 3} for n in (1, 2, 3)]
    test = {
        "accuracy": accuracy,
        "environments": {"test": accuracy},
        "attributes": {"color": {"worst": 0.1, "average": 0.3}},
    }
    found = {"selection": "min_train_validation", "epoch": 3, "value": value, "history": history, "test": test}
    return {
        "config": {"dataset": "colored_mnist", "method": method, "seed": seed, **config},
        "seconds": 1.5,
        "data": {
            "environments": [
                {"environment": "E1", "n_rows": 10, "correlations": {"color": 0.9}},
                {"environment": "E2", "n_rows": 10, "correlations": {"color": 0.8}},
            ]
        },
        "halves": [
            {"judge": "E1", "judged": "E2", "half": "correct", "n_rows": 8, "correlations": {"color": 0.99}},
            {"judge": "E1", "judged": "E2", "half": "mistaken", "n_rows": 2, "correlations": {"color": math.nan}},
        ],
        "settings": {"train": found},
        "warnings": ["A small half."],
    }


RECORDS = [
    record("pi", 1, 0.7, 0.6, learning_rate=0.01),
    record("pi", 0, 0.7, 0.8, learning_rate=0.01),
    record("pi", 0, 0.5, 0.9, learning_rate=0.1),
    record("erm", 0, 0.9, 0.2),
]


def test_validation_chooses_the_settings():
    """The settings with the better mean validation are told, though others have a higher test accuracy."""
    points = best_points(RECORDS)
    assert list(points) == [("train", "pi"), ("train", "erm")]
    assert [run["config"]["seed"] for run in points["train", "pi"]] == [0, 1]
    assert {run["config"]["learning_rate"] for run in points["train", "pi"]} == {0.01}


def test_page_of_runs():
    """Results, halves, training, comparison and every run, with means over the seeds."""
    content = runs_page(RECORDS, title="Table 1", tables=[Table("Paper", ("a",), ((1,),))])
    assert [section.title for section in content.sections] == [
        "Results", "Halves", "Training", "Comparison", "How this was made",
    ]  # fmt: skip
    (picture,) = content.sections[1].blocks
    assert picture.rows == ("E1 (10)", "E2 (10)", "E2 by E1: correct (8)", "E2 by E1: mistaken (2)")
    assert picture.values[:3] == ((0.9,), (0.8,), (0.99,))
    assert [curves.title for curves in content.sections[2].blocks] == [
        "colored_mnist: risk of the worst group",
        "colored_mnist: validation accuracy",
    ]
    (dots,) = content.sections[3].blocks
    assert dots.title == "colored_mnist, validation like the training environments"
    assert dots.places == ("all test rows", "attribute color: worst", "attribute color: average")
    assert [(dot.series, dot.value) for dot in dots.dots[:2]] == [("pi", pytest.approx(0.7)), ("erm", 0.2)]
    assert figure_table(dots).marked == ((0, 1),)
    warning, runs, _ = content.sections[4].blocks
    assert warning.lines == ("A small half.",)
    assert runs.rows[0][:9] == (
        "colored_mnist", "pi", 1, "train", "min_train_validation", 3, 0.7, 0.6, 1.5,
    )  # fmt: skip
    assert "Table 1" in render_report(content)


def test_runs_without_settings_or_halves():
    """A run of stages 1 and 2 alone has no settings; one of other data no halves."""
    bare = {"config": {"dataset": "toy", "method": "halves", "dataset_options": {"noise": 0.1}}}
    content = runs_page([bare])
    assert data_name(bare) == "toy (noise=0.1)"
    assert [section.title for section in content.sections] == ["How this was made"]


def test_no_runs_are_refused():
    """An empty folder has no page."""
    with pytest.raises(InputError, match=r"there are no records of finished runs"):
        runs_page([])
