import pytest

from holdfast.datasets.synthetic import MAKERS, make_files
from holdfast.exceptions import ParameterError


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_synthetic_files_repeat_with_the_seed(tmp_path, name):
    """The same seed writes the same bytes (zip and npz hold times, so their sizes), another seed others."""
    one, same, other = (make_files(name, tmp_path / str(i), seed=s, n_rows=60) for i, s in enumerate((0, 0, 1)))
    files = sorted(path.name for path in one.iterdir())
    plain = [file for file in files if not file.endswith((".npz", ".zip"))]
    assert all((one / file).read_bytes() == (same / file).read_bytes() for file in plain)
    assert any((one / file).read_bytes() != (other / file).read_bytes() for file in files)


def test_unknown_formats_are_refused(tmp_path):
    """Only data sets that come as files have synthetic ones."""
    with pytest.raises(ParameterError, match="The 'name' option must be one of .*'ask2me'.* Got 'toy' instead."):
        make_files("toy", tmp_path)
