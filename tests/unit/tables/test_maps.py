"""Tables as memory maps."""

import numpy as np
import pandas as pd
import pytest

from holdfast.exceptions import TableError
from holdfast.tables.maps import map_columns


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_number_columns_are_mapped_in_parts(tmp_path, kind):
    """Columns come in the order asked for, missing numbers as NaN, whatever the size of the parts."""
    frame = pd.DataFrame({"a": np.arange(7), "name": list("abcdefg"), "b": [0.5, None, 2.0, 3.0, 4.0, 5.0, 6.0]})
    file = tmp_path / f"rows.{kind}"
    frame.to_csv(file, index=False) if kind == "csv" else frame.to_parquet(file)
    mapped = map_columns(file, ["b", "a"], tmp_path / "rows.npy", dtype=np.float32, rows_at_once=3)
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(mapped, frame[["b", "a"]].to_numpy(dtype=np.float32))


def test_texts_are_refused(tmp_path):
    """A column of texts cannot be mapped, and is named."""
    pd.DataFrame({"a": [1, 2], "name": ["x", "y"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TableError, match="Column 'name' of .* does not hold numbers"):
        map_columns(tmp_path / "rows.parquet", ["a", "name"], tmp_path / "rows.npy")
