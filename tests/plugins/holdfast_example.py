"""A package that adds a method, a network and a data set; tests put its folder on sys.path and install nothing."""

import numpy as np

from holdfast import ERMClassifier
from holdfast.datasets import Dataset, DatasetEntry, Split


class ExampleClassifier(ERMClassifier):
    """A method of another package."""


def example_network(*, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0):
    """Return a linear network."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(int(np.prod(input_shape)), n_classes))


def load_example(*, seed: int = 0, n_rows: int = 40) -> Dataset:
    """Return two environments of `n_rows` rows each whose one column is the label and noise."""
    generator = np.random.default_rng(seed)

    def split() -> Split:
        y = np.arange(2 * n_rows) % 2
        X = (y + generator.normal(0, 0.1, 2 * n_rows))[:, None]
        return Split(X, y, np.repeat(["a", "b"], n_rows))

    return Dataset("example_data", split(), {"train": split()}, split(), ("0", "1"), ())


EXAMPLE_DATA = DatasetEntry(summary="Two environments and one column; synthetic.", loader=load_example)
