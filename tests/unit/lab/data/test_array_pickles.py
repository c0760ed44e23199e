import pickle  # noqa: S403

import numpy as np
import pytest

from holdfast.exceptions import DatasetError
from holdfast.lab.data.array_pickles import read_array_pickle


def old_pickle(*arrays):
    """Return what Python 2 wrote for a tuple of arrays: byte strings and numpy's old names."""
    content = b"\x80\x02"
    for array in arrays:
        shape = b"(" + b"".join(b"J" + int(n).to_bytes(4, "little") for n in array.shape) + b"t"
        code = array.dtype.str[1:].encode()
        dtype = b"cnumpy\ndtype\nU" + bytes([len(code)]) + code + b"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ"
        dtype += b"\xff\xff\xff\xffK\x00tb"
        data = array.tobytes()
        content += b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + dtype
        content += b"\x89T" + len(data).to_bytes(4, "little") + data + b"tb"
    return content + {1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(arrays)] + b"."


def test_arrays_come_back():
    """Floats and integers of an old pickle are read with their shapes."""
    one, two = np.linspace(0, 1, 6, dtype="<f4").reshape(2, 3), np.arange(4, dtype="<i8")
    first, second = read_array_pickle(old_pickle(one, two), "made")
    np.testing.assert_array_equal(first, one)
    np.testing.assert_array_equal(second, two)
    assert (first.dtype, second.dtype) == (np.float32, np.int64)


def test_reading_equals_what_pickle_would_do():
    """The stand-in pickle is a real one: numpy's own loader agrees."""
    array = np.arange(6, dtype="<f4").reshape(3, 2)
    (theirs,) = pickle.loads(old_pickle(array), encoding="latin1")  # noqa: S301
    np.testing.assert_array_equal(read_array_pickle(old_pickle(array), "made")[0], theirs)


class Hostile:
    """Writes a marker file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_hostile_pickles_are_refused_and_not_executed(tmp_path, protocol):
    """A pickle that calls something is refused in every protocol, and nothing happens."""
    marker = tmp_path / "executed"
    content = pickle.dumps((Hostile(marker),), protocol=protocol)
    with pytest.raises(DatasetError, match="is not a plain pickle of numpy arrays .* Nothing in it was executed"):
        read_array_pickle(content, "hostile.pkl")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends too early"),
        (b"\x80\x02", "it ends too early"),
        (b"\x80\x02K\x01.", "it holds something else than arrays"),
        (b"\x80\x02cos\nsystem\nU\x02ls\x85R.", "the name 'os system' is not one that arrays need"),
        (b"\x80\x02cnumpy\nndarray\nK\x00\x85R.", "'numpy ndarray' is called"),
        (b"\x80\x02cnumpy\ndtype\nU\x01OK\x00K\x01\x87R.", "numbers of type 'O'"),
        (b"\x80\x02h\x07.", "7"),
        (b"\x80\x02Ib.", "opcode b'I' at byte 2 is not one that arrays need"),
        (b"\x80\x02U\x01aU\x01ab.", "something else than an array is built"),
    ],
)
def test_everything_else_is_refused(content, message):
    """Foreign names, objects, opcodes and cut-off files each get the reason."""
    with pytest.raises(DatasetError, match=message):
        read_array_pickle(content, "other.pkl")


def test_truncation_at_any_byte_is_refused():
    """No prefix of a good file passes."""
    content = old_pickle(np.arange(3, dtype="<i8"))
    for size in range(len(content)):
        with pytest.raises(DatasetError, match="is not a plain pickle of numpy arrays"):
            read_array_pickle(content[:size], "cut.pkl")
