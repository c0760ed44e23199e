import numpy as np
import pytest

from holdfast.datasets import DATASETS, load_dataset
from holdfast.datasets.synthetic import MAKERS, make_files
from holdfast.environments import split_environments, take_rows

OPTIONS = {"colored_mnist": {"verify": False}}
N_ENVIRONMENTS = 2


@pytest.fixture(scope="module", params=sorted(set(DATASETS) - {"vectors"}))
def dataset(request, tmp_path_factory):
    """Every registered data set: embedded ones as they are, others from small synthetic files."""
    name = request.param
    folder = make_files(name, tmp_path_factory.mktemp(name)) if name in MAKERS else None
    return load_dataset(name, folder=folder, **OPTIONS.get(name, {}))


def splits(dataset):
    """Return all splits."""
    return [dataset.train, *dataset.validation.values(), dataset.test]


def test_name_is_the_registered_one(dataset):
    """A data set knows its name."""
    assert dataset.name in DATASETS


def test_labels_are_codes_of_the_classes(dataset):
    """Labels are integers from 0, and training shows every class."""
    for split in splits(dataset):
        assert split.y.dtype == np.intp
        assert split.y.min() >= 0
        assert split.y.max() < len(dataset.classes)
    assert len(np.unique(dataset.train.y)) == len(dataset.classes)


def test_several_training_environments(dataset):
    """Training rows are in two environments, three in some, which `split_environments` takes as they are."""
    found = split_environments(dataset.train.environments, len(dataset.train))
    assert len(found) == (3 if dataset.name in ("gaussian", "units") else N_ENVIRONMENTS)
    assert all(isinstance(name, str) for name in dataset.train.environments.tolist())


def test_attributes_are_there(dataset):
    """Each split has the attributes to evaluate; a planted one is in the codes of the labels."""
    for split in splits(dataset):
        for name in dataset.attribute_names:
            assert len(split.attributes[name]) == len(split)
        if dataset.unstable_attribute is not None:
            values = split.attributes[dataset.unstable_attribute]
            assert set(np.unique(values)) <= set(range(len(dataset.classes)))


def test_a_training_like_validation_is_always_there(dataset):
    """Every data set has the setting "train"; synthetic environments have "test" too."""
    assert "train" in dataset.validation
    planted = dataset.unstable_attribute is not None or dataset.name == "units"  # five columns, which no code names
    assert ("test" in dataset.validation) == planted


def test_rows_can_be_taken(dataset):
    """Rows come out of X in order and as often as asked."""
    rows = np.array([2, 0, 2])
    taken = take_rows(dataset.train.X, rows)
    if isinstance(dataset.train.X, list):
        assert taken == [dataset.train.X[row] for row in rows]
    elif hasattr(dataset.train.X, "columns"):
        assert taken.reset_index(drop=True).equals(dataset.train.X.iloc[rows].reset_index(drop=True))
    else:
        dense = np.asarray(taken)
        assert dense.shape == (3, *dataset.train.X.shape[1:])
        np.testing.assert_array_equal(dense[0], dense[2])
        np.testing.assert_array_equal(dense[1], dataset.train.X[0])
        assert np.isfinite(dense).all()


def test_embedded_data_have_nothing_to_note(dataset):
    """Synthetic files differ from the paper's and say so; embedded data are exactly what they promise."""
    assert bool(dataset.notes) == (dataset.name in MAKERS)
