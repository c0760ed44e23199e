import gzip

import pytest

from holdfast.datasets.files import open_plain, read_plain
from holdfast.exceptions import DatasetError


def test_gzip_is_known_by_its_bytes(tmp_path):
    """A gzip file is uncompressed whatever its name, another file is read as it is, also one called .gz."""
    for name, content in (("packed", gzip.compress(b"rows")), ("plain.gz", b"rows"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    assert [read_plain(tmp_path / name) for name in ("packed", "plain.gz", "empty")] == [b"rows", b"rows", b""]
    with open_plain(tmp_path / "packed") as file:
        assert (file.read(2), file.seek(0), file.read()) == (b"ro", 0, b"rows")


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path):
    """Damage is told with the caller's remedy; what is no file with the system's reason."""
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"rows" * 100)[:-6])
    with pytest.raises(DatasetError, match=r"cut.gz is a truncated or damaged gzip file .*\. Ask the sender\."):
        read_plain(tmp_path / "cut.gz", remedy="Ask the sender.")
    with pytest.raises(DatasetError, match=r"cannot be read: Is a directory. Check its permissions."):
        read_plain(tmp_path)
