from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from holdfast.datasets.values import Split
from holdfast.environments import Group, Partition
from holdfast.exceptions import InputError
from holdfast.metrics import group_correlation
from holdfast.reports.correlations import MOST_PARTITIONS, attribute_columns, correlation_maps, correlations

NAMES = {0: "no", 1: "yes"}


def two_environments() -> tuple[SimpleNamespace, Split]:
    """Return rows of two environments in which the second column flips in the half that is mistaken."""
    y = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    X = np.column_stack([y, [0, 0, 1, 1, 0, 1, 1, 0], np.full(8, 3)]).astype(float)
    environments = np.repeat(["a", "b"], 4)
    partition = Partition("a", "b", np.array([4, 6]), np.array([5, 7]), accuracy=0.5)
    return SimpleNamespace(partitions_=(partition,)), Split(X, y, environments, {"kind": np.array(list("uvuvuvuv"))})


def test_picture_of_flipping_columns():
    """Rows are the environments and the halves; the column that flips comes first, a constant one is unknown."""
    fitted, training = two_environments()
    attributes, features = correlation_maps(fitted, training, NAMES, ["stable", "unstable", "constant"])
    assert features.title == "Features: correlation with label yes"
    assert features.rows == ("a (4)", "b (4)", "b by a: correct (2)", "b by a: mistaken (2)")
    assert features.breaks == (1,)
    assert features.columns == ("unstable", "stable", "constant")
    assert np.array(features.values)[:, 0] == pytest.approx([1, 0, 1, -1])
    assert np.array(features.values)[:, 1] == pytest.approx([1, 1, 1, 1])
    assert np.isnan(np.array(features.values)[:, 2]).all()
    assert attributes.columns == ("kind=v",)
    assert np.array(attributes.values)[:, 0] == pytest.approx([0, 0, np.nan, np.nan], nan_ok=True)


def test_soft_halves_are_weighted():
    """With weights, every row counts by its weight, as in the metrics."""
    generator = np.random.default_rng(0)
    values, labels = generator.normal(size=(50, 3)), generator.integers(0, 2, size=50)
    group = Group("soft", np.arange(5, 50), generator.random(45))
    found = correlations(values, labels[:, None].astype(float), group)[:, 0]
    assert found == pytest.approx([group_correlation(values[:, i], labels, group) for i in range(3)])


def test_several_classes_are_told_one_against_the_rest():
    """With three classes a column is named with the class it tells."""
    y = np.array([0, 1, 2] * 4)
    partition = Partition("a", "b", np.arange(6, 9), np.arange(9, 12), accuracy=0.5)
    training = Split((y == 2).astype(float)[:, None], y, np.repeat(["a", "b"], 6))
    (features,) = correlation_maps(SimpleNamespace(partitions_=(partition,)), training, {0: "A", 1: "B", 2: "C"})
    assert features.title == "Features: correlation with each label against the rest"
    assert set(features.columns) == {"x0 → A", "x0 → B", "x0 → C"}
    assert features.values[0][features.columns.index("x0 → C")] == pytest.approx(1.0)


def test_named_features_come_first():
    """What an audit names stands left of everything else."""
    fitted, training = two_environments()
    audit = SimpleNamespace(named=("constant",))
    maps = correlation_maps(fitted, training, NAMES, ["stable", "unstable", "constant"], audit, attributes=[])
    assert [picture.columns[0] for picture in maps] == ["constant"]


def test_frames_show_their_categories():
    """A frame's categories are columns of their own."""
    fitted, training = two_environments()
    fitted.partitions_ = (Partition("a", "b", np.arange(20, 30), np.arange(30, 40), accuracy=0.5),)
    frame = pd.DataFrame({"scanner": list("ABAC") * 10, "age": np.arange(40.0)})
    rows = Split(frame, np.arange(40) % 2, np.repeat(["a", "b"], 20))
    (features,) = correlation_maps(fitted, rows, NAMES)
    assert set(features.columns) == {"scanner=A", "scanner=B", "scanner=C", "age"}


@pytest.mark.parametrize("X", [["some text"] * 8, np.zeros((8, 2, 2))], ids=["texts", "images"])
def test_texts_and_images_have_no_columns(X):
    """Without columns only the attributes are shown."""
    fitted, training = two_environments()
    maps = correlation_maps(fitted, Split(X, training.y, training.environments, training.attributes), NAMES)
    assert [picture.title for picture in maps] == ["Attributes: correlation with label yes"]


def test_many_partitions_are_cut_to_the_worst():
    """Of many judges those that do worst are shown."""
    names = [f"e{n}" for n in range(5)]
    partitions = tuple(
        Partition(judge, judged, np.array([2 * j]), np.array([2 * j + 1]), accuracy=0.1 * j)
        for judge in names
        for j, judged in enumerate(names)
        if judge != judged
    )
    training = Split(np.arange(10.0)[:, None], np.arange(10) % 2, np.repeat(names, 2))
    (features,) = correlation_maps(SimpleNamespace(partitions_=partitions), training, NAMES)
    assert len(partitions) == 20
    assert sum(": correct" in row for row in features.rows) == MOST_PARTITIONS
    assert [row for row in features.rows if ":" not in row] == ["e0 (2)", "e1 (2)", "e2 (2)"]


def test_attributes_become_columns():
    """Two values are one column, several one each, amounts stay numbers."""
    names, values = attribute_columns(
        {
            "smiling": np.array([False, True, True]),
            "color": np.array([0, 1, 2]),
            "age": np.array([0.5, 0.1, 0.2]),
            "code": np.arange(3) + 7,
        }
    )
    assert names == ["smiling", "color=0", "color=1", "color=2", "age", "code=7", "code=8", "code=9"]
    assert values[:, 0].tolist() == [0, 1, 1]
    assert attribute_columns({}) is None


def test_other_rows_than_fitted_are_refused():
    """Row numbers of the halves must exist."""
    fitted, training = two_environments()
    with pytest.raises(InputError, match=r"training has 4 rows, but the estimator was fitted on more than 7"):
        correlation_maps(fitted, training.take(np.arange(4)), NAMES)


def test_rows_in_another_order_are_refused():
    """Halves must lie in the environment that was judged."""
    fitted, training = two_environments()
    with pytest.raises(InputError, match=r"training has rows of other environments .* was fitted on 'b'"):
        correlation_maps(fitted, training.take(np.arange(8)[::-1]), NAMES)


def test_names_must_fit_the_columns():
    """One name for each column."""
    fitted, training = two_environments()
    with pytest.raises(InputError, match=r"feature_names has 1 names for 3 columns"):
        correlation_maps(fitted, training, NAMES, ["one"])
