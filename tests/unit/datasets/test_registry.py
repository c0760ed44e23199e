import subprocess
import sys

import numpy as np
import pytest

from holdfast.datasets import DATASETS, load_dataset
from holdfast.datasets.folders import noting_files
from holdfast.datasets.synthetic import make_files
from holdfast.datasets.values import Split
from holdfast.exceptions import DatasetError, ParameterError


def test_unknown_name_is_guessed():
    """A misspelt name gets the nearest one and the whole list."""
    with pytest.raises(DatasetError, match="There is no data set 'colored_digts'. Did you mean 'colored_digits'?"):
        load_dataset("colored_digts")


def test_unknown_option_is_guessed():
    """A misspelt option gets the nearest one and the whole list."""
    with pytest.raises(ParameterError, match=r"Data set 'toy' has no option 'eta'\. Did you mean 'etas'\?"):
        load_dataset("toy", eta=0.1)


def test_every_entry_has_a_loader():
    """Each registered loader can be imported and takes folder and seed."""
    for name, entry in DATASETS.items():
        assert callable(entry.loader) or name == "vectors", name
        assert entry.summary.endswith(".")


def test_word_vectors_are_files_only():
    """They are listed and downloaded like data sets, but there are no rows to load."""
    with pytest.raises(DatasetError, match="'vectors' is not a data set, only files that data sets need: Word vectors"):
        load_dataset("vectors")


def test_split_refuses_columns_of_different_lengths():
    """A split with three rows and two labels is an error that counts both."""
    with pytest.raises(DatasetError, match="Got X 3, y 2, environments 3."):
        Split(np.zeros((3, 1)), np.zeros(2, dtype=int), np.zeros(3))


def test_split_takes_rows_in_order():
    """Taking rows takes everything that belongs to them."""
    split = Split(["a", "b", "c"], np.array([0, 1, 2]), np.array(["x", "y", "z"]), {"t": np.array([5, 6, 7])})
    taken = split.take(np.array([2, 0]))
    assert (taken.X, taken.y.tolist(), taken.environments.tolist()) == (["c", "a"], [2, 0], ["z", "x"])
    assert taken.attributes["t"].tolist() == [7, 5]
    assert len(taken) == 2


def test_loading_needs_no_torch():
    """Data sets are read without torch."""
    code = "import sys; import holdfast.datasets as d; d.load_dataset('toy'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"validation_share": 0.0},
            "'ask2me' has no rows for validation .'train'.. It was read from .*pubmed.json. ",
        ),
        ({"test_share": 0}, "has no rows for the test. .*that the options .test_share=0. leave some"),
    ],
)
def test_every_split_has_rows(tmp_path, options, message):
    """A split without rows is refused by name, with the files that were read and the options that were given."""
    folder = make_files("ask2me", tmp_path, n_rows=40)
    with pytest.raises(DatasetError, match=message):
        load_dataset("ask2me", folder=folder, **options)


def test_synthetic_data_without_rows_are_refused():
    """Where there are no files, the options alone are named."""
    message = "'colored_digits' has no rows for validation .'train'.. Check that the options .validation_share=0. l"
    with pytest.raises(DatasetError, match=message):
        load_dataset("colored_digits", validation_share=0)


def test_files_are_noted_for_whoever_listens_outside(tmp_path):
    """The list of files that checks the rows takes nothing from the caller's own list."""
    folder = make_files("ask2me", tmp_path, n_rows=40)
    with noting_files() as files:
        load_dataset("ask2me", folder=folder)
    assert files == [folder / "pubmed.json"]
