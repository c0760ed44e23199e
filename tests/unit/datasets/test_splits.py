import numpy as np
import pytest

from holdfast.datasets.splits import deal_rows
from holdfast.exceptions import DatasetError


def test_no_rows_cannot_be_dealt():
    """Zero rows are an error of ours, with what to check."""
    with pytest.raises(DatasetError, match="There are no rows to deal to training, validation and test. Check that"):
        deal_rows(np.array([]), 2, validation_share=0.2, test_share=0.3, generator=np.random.default_rng(0))
