import numpy as np
import pytest

from holdfast.datasets.drawing import agreeing_codes, deal_rows
from holdfast.exceptions import DatasetError


def test_codes_agree_with_the_given_probability_and_err_evenly():
    """At agreement 0.7 of three codes, each of the two others gets 0.15."""
    codes = np.repeat([0, 1, 2], 20_000)
    drawn = agreeing_codes(codes, 0.7, 3, np.random.default_rng(0))
    shift = np.bincount((drawn - codes) % 3) / len(codes)
    np.testing.assert_allclose(shift, [0.7, 0.15, 0.15], atol=0.01)


def test_no_rows_cannot_be_dealt():
    """Zero rows are an error of ours, with what to check."""
    with pytest.raises(DatasetError, match="There are no rows to split into training, validation and test. Check that"):
        deal_rows(np.array([]), 2, validation_share=0.2, test_share=0.3, generator=np.random.default_rng(0))
