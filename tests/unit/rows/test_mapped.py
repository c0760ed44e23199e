"""Rows that stay on disk."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast.rows.mapped
from holdfast import PIClassifier
from holdfast.neural import NeuralClassifier
from holdfast.rows.mapped import MappedRows, blocks_of, is_mapped, parts_of


@pytest.fixture
def on_disk(tmp_path):
    """Return a function that writes an array to a file and maps it."""

    def write(array):
        np.save(tmp_path / "rows.npy", array)
        return np.load(tmp_path / "rows.npy", mmap_mode="r")

    return write


def test_a_plain_view_of_a_map_is_still_mapped(on_disk):
    """What scikit-learn's checks make of a memory map is known for one; a copy of rows is not."""
    mapped = on_disk(np.zeros((4, 2)))
    assert is_mapped(mapped)
    assert is_mapped(np.asarray(mapped)[1:])
    assert is_mapped(MappedRows(mapped, np.array([0, 2])))
    assert not is_mapped(mapped[np.array([0, 2])])
    assert not is_mapped([[0.0]])


def test_rows_of_a_map_are_read_where_asked_for(on_disk):
    """Row numbers count within the chosen rows, and slices give arrays."""
    rows = MappedRows(on_disk(np.arange(10.0).reshape(5, 2)), np.array([4, 1, 3]))
    assert rows.shape == (3, 2)
    assert len(rows) == 3
    assert rows[1:].tolist() == [[2.0, 3.0], [6.0, 7.0]]
    assert rows[np.array([2, 0])].tolist() == [[6.0, 7.0], [8.0, 9.0]]


def test_rows_come_in_blocks_from_a_map_alone(on_disk, monkeypatch):
    """Rows of a memory map come in blocks, those of an array at once; both are the same rows, with their numbers."""
    monkeypatch.setattr(holdfast.rows.mapped, "BLOCK_NUMBERS", 4)
    X = np.arange(10.0).reshape(5, 2)
    rows = np.array([0, 2, 3, 4, 1])
    blocks = list(parts_of(on_disk(X), rows))
    assert [len(part) for _, part in blocks] == [2, 2, 1]
    ((numbers, whole),) = parts_of(X, rows)
    np.testing.assert_array_equal(np.concatenate([own for own, _ in blocks]), numbers)
    np.testing.assert_array_equal(np.concatenate([part for _, part in blocks]), whole)
    assert list(blocks_of(X)) == [slice(0, 2), slice(2, 4), slice(4, 5)]


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_predict_then_interpolate_on_a_map_is_that_on_the_array(on_disk, monkeypatch, scaled):
    """Judges, halves and the final classifier are those of the array, fitted without taking the map's rows at once."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=600)
    environments = np.arange(600) % 3
    X = np.column_stack(
        [y + generator.normal(size=600), np.where(generator.random(600) < 0.7 + 0.1 * environments, y, 1 - y)]
    )
    estimator = LogisticRegression(tol=1e-8, max_iter=1000)
    estimator = make_pipeline(StandardScaler(), estimator) if scaled else estimator
    settings = {"halves": "hard", "random_state": 0}
    in_memory = PIClassifier(estimator, **settings).fit(X, y, environments=environments)
    monkeypatch.setattr(holdfast.rows.mapped, "BLOCK_NUMBERS", 128)
    mapped = on_disk(X)
    from_disk = PIClassifier(estimator, **settings).fit(mapped, y, environments=environments)
    for here, there in zip(in_memory.partitions_, from_disk.partitions_, strict=True):
        np.testing.assert_array_equal(here.mistaken, there.mistaken)
    assert from_disk.worst_case_risk_ == pytest.approx(in_memory.worst_case_risk_, abs=1e-4)
    np.testing.assert_array_equal(from_disk.predict(mapped), in_memory.predict(X))


class BlockScaler(StandardScaler):
    """A scaler that remembers the most rows it was ever shown to learn from."""

    most = 0

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a block."""
        BlockScaler.most = max(BlockScaler.most, len(X))
        return super().partial_fit(X, y, sample_weight)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_a_network_behind_a_scaler_reads_a_map_in_blocks(on_disk, monkeypatch):
    """The scaler learns from a block at a time, the network takes batches of it; the result is that on the array."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=400)
    environments = np.arange(400) % 2
    X = np.column_stack([5.0 + 3.0 * y + generator.normal(size=400), 100.0 * (environments + generator.random(400))])
    network = NeuralClassifier("mlp", max_epochs=3, steps_per_epoch=20, batch_size=20, training__selection="last")
    settings = {"halves": "hard", "n_folds": 0, "min_group_size": 1, "random_state": 0}
    monkeypatch.setattr(holdfast.rows.mapped, "BLOCK_NUMBERS", 128)
    mapped = on_disk(X)
    model = PIClassifier(make_pipeline(BlockScaler(), network), **settings)
    from_disk = model.fit(mapped, y, environments=environments)
    assert BlockScaler.most == 64
    in_memory = PIClassifier(make_pipeline(StandardScaler(), network), **settings).fit(X, y, environments=environments)
    assert np.mean(from_disk.predict(X) == in_memory.predict(X)) > 0.99


def test_a_judge_that_misses_a_class_is_fitted_on_the_rows(on_disk):
    """Codes with a gap are left to scikit-learn, and answered without the class that was not there."""
    generator = np.random.default_rng(0)
    y = np.concatenate([np.tile([0, 2], 60), np.tile([0, 1, 2], 40)])
    X = on_disk(np.column_stack([y, np.zeros(240)]) + 0.3 * generator.normal(size=(240, 2)))
    settings = {"halves": "hard", "min_group_size": 1, "random_state": 0}
    model = PIClassifier(LogisticRegression(), **settings)
    with pytest.warns(UserWarning, match="Some classes are missing in"):
        model.fit(X, y, environments=np.repeat(["a", "b"], 120))
    assert model.environment_classifiers_["a"].classes_.tolist() == [0, 2]
    assert model.environment_classifiers_["b"].classes_.tolist() == [0, 1, 2]
