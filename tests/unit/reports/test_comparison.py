import math
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.datasets.values import Split
from holdfast.exceptions import InputError
from holdfast.reports.comparison import compare_on_rows, comparison_dots, comparison_section, seeds_interval
from holdfast.tables.comparison import Comparison, MethodScore

TEST = Split(
    np.zeros((8, 1)), np.array([0, 1] * 4), np.repeat(["known", "fresh"], 4), {"color": np.array(list("rrggrrgg"))}
)


def answering(*answers: int) -> SimpleNamespace:
    """Return a classifier with these answers."""
    return SimpleNamespace(predict=lambda X: np.array(answers))


def test_places_and_values():
    """Worst and average lead, each environment says whether it is new, each attribute has a worst and an average."""
    methods = {"good": answering(*TEST.y), "half": answering(0, 1, 0, 1, 1, 0, 1, 0)}
    found = compare_on_rows(methods, TEST, known=["known"])
    assert found.places == (
        "worst environment",
        "average over environments",
        "environment fresh (new)",
        "environment known",
        "attribute color: worst group",
        "attribute color: average over groups",
    )
    values = {(dot.place, dot.series): dot.value for dot in found.dots}
    assert [values[place, "good"] for place in found.places] == [1.0] * 6
    assert [values[place, "half"] for place in found.places] == [0.0, 0.5, 0.0, 1.0, 0.5, 0.5]
    assert all(dot.low <= dot.value <= dot.high for dot in found.dots)


def test_one_environment_needs_no_average():
    """With one environment there is no worst of several; attributes can be chosen."""
    one = TEST.take(np.arange(4))
    assert compare_on_rows({"m": answering(0, 0, 0, 0)}, one, attributes=[]).places == ("environment known",)


def test_table_marks_the_best():
    """The best method of each place is emphasized, unless all are alike."""
    methods = {"erm": answering(0, 0, 0, 0, 0, 0, 0, 0), "pi": answering(0, 1, 0, 1, 1, 1, 1, 1)}
    section = comparison_section(compare_on_rows(methods, TEST, attributes=[]))
    table = section.blocks[1]
    assert table.columns == ("where", "erm", "pi")
    assert [(row[0], row[1].value, row[2].value) for row in table.rows] == [
        ("worst environment", 0.5, 0.5),
        ("average over environments", 0.5, 0.75),
        ("environment fresh", 0.5, 0.5),
        ("environment known", 0.5, 1.0),
    ]
    assert table.marked == ((1, 2), (3, 2))


def test_interval_over_seeds():
    """Student's interval: 0.6 ± 12.706 · 0.1414 / √2 for two seeds; unknown for one."""
    found = seeds_interval([0.5, 0.7])
    assert (found.low, found.high) == pytest.approx((0.6 - 1.2706, 0.6 + 1.2706), abs=1e-4)
    assert math.isnan(seeds_interval([0.5]).low)
    with pytest.raises(InputError, match=r"there are no values to average"):
        seeds_interval([])


def test_dots_of_a_comparison_by_left_out_environments():
    """Means, worst and parts become places; a method that failed is left out; the recommendation is the note."""
    nan = float("nan")
    scores = (
        MethodScore("pi", 0.75, 0.5, {"a": 1.0, "b": 0.5}, 0, 0, 0, 0),
        MethodScore("irm", nan, nan, {}, nan, nan, nan, nan, problem="needs a network"),
    )
    found = comparison_dots(Comparison("each left out", "mean", scores, "pi", "Use pi."))
    assert [(dot.place, dot.series, dot.value) for dot in found.dots] == [
        ("mean", "pi", 0.75),
        ("worst", "pi", 0.5),
        ("a", "pi", 1.0),
        ("b", "pi", 0.5),
    ]
    assert found.note == "each left out. Use pi."


def test_nothing_to_compare():
    """No method is refused; no comparison is no section."""
    with pytest.raises(InputError, match=r"methods is empty"):
        compare_on_rows({}, TEST)
    assert comparison_section(None) is None
