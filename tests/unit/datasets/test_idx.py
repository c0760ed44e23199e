import gzip

import numpy as np
import pytest

from holdfast.datasets.mnist import idx_bytes, md5_of, read_idx
from holdfast.exceptions import DatasetError


@pytest.fixture
def images():
    """Five 3x2 images of bytes."""
    return np.arange(30, dtype=np.uint8).reshape(5, 3, 2)


def test_written_arrays_are_read_plain_and_gzip(tmp_path, images):
    """The same array comes back from a plain and from a gzip file, whatever the file is called."""
    (tmp_path / "plain").write_bytes(idx_bytes(images))
    (tmp_path / "packed").write_bytes(gzip.compress(idx_bytes(images)))
    np.testing.assert_array_equal(read_idx(tmp_path / "plain"), images)
    np.testing.assert_array_equal(read_idx(tmp_path / "packed"), images)


def test_header_is_the_documented_one(images):
    """Two zeros, the type 8, the number of axes, then each length as four bytes."""
    assert (
        idx_bytes(images)[:16] == b"\x00\x00\x08\x03" + b"\x00\x00\x00\x05" + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x02"
    )


def test_checksum_is_of_the_uncompressed_bytes(tmp_path, images):
    """A right md5 passes for a gzip file, a wrong one names both."""
    path = tmp_path / "packed.gz"
    path.write_bytes(gzip.compress(idx_bytes(images)))
    np.testing.assert_array_equal(read_idx(path, md5=md5_of(idx_bytes(images))), images)
    with pytest.raises(
        DatasetError, match=r"packed.gz has the md5 [0-9a-f]{32} \(uncompressed\), not abc: .*Delete it"
    ):
        read_idx(path, md5="abc")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-1], "has 45 bytes where its header says 46"),
        (lambda content: content + b"x", "has 47 bytes where its header says 46"),
        (lambda content: content[:9], "ends inside its header"),
        (lambda content: b"", "does not start like an idx file of bytes"),
        (lambda content: b"<html>" + content, "does not start like an idx file of bytes"),
        (lambda content: gzip.compress(content)[:-9], "is a truncated or damaged gzip file"),
        (lambda content: gzip.compress(content)[:12] + b"\xff" * 30, "is a truncated or damaged gzip file"),
    ],
)
def test_damaged_files_are_refused(tmp_path, images, damage, message):
    """Truncated, extended, foreign and broken gzip files each get an error with the file's name and a remedy."""
    path = tmp_path / "images"
    path.write_bytes(damage(idx_bytes(images)))
    with pytest.raises(DatasetError, match=f"images {message}.*get it again"):
        read_idx(path)


def test_the_remedy_is_a_command_for_the_files_folder(tmp_path):
    """What to run names the folder, quoted where the shell needs it."""
    folder = tmp_path / "my data"
    folder.mkdir()
    (folder / "images").write_bytes(b"<html>")
    with pytest.raises(DatasetError, match=r"get it again: holdfast data colored_mnist --folder '.*/my data'$"):
        read_idx(folder / "images")
