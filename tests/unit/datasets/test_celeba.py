import os
import pickle  # noqa: S403
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.datasets import load_dataset
from holdfast.datasets.celeba import ImageFiles
from holdfast.datasets.synthetic import make_files
from holdfast.environments import take_rows
from holdfast.exceptions import DatasetError, ParameterError

DATA = os.environ.get("HOLDFAST_TEST_DATA")
NAMES = "Blond_Hair Male Wearing_Hat"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """600 synthetic images as a zip with attrs.npz."""
    return make_files("celeba", tmp_path_factory.mktemp("celeba"))


@pytest.fixture
def official(tmp_path):
    """Six images in the official layout: two of each split."""
    folder = tmp_path / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True)
    rows, splits = [], []
    for i in range(6):
        name = f"{i + 1:06d}.jpg"
        Image.new("RGB", (4, 5), (40 * i, 0, 255)).save(folder / "img_align_celeba" / name, quality=95)
        rows.append(f"{name}  {'1' if i % 2 else '-1'}  {'1' if i > 2 else '-1'} -1")
        splits.append(f"{name} {i // 2}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(["6", NAMES, *rows]) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")
    return folder


def test_attributes_with_few_rows_in_a_cell_are_left_out(archive):
    """With `min_rows`, attributes with so many rows in each cell of label and attribute stay, not the environment."""
    data = load_dataset("celeba", folder=archive)
    cells = {
        name: min(
            sum(int(((s.y == y) & (s.attributes[name] == value)).sum()) for s in data.splits)
            for y in (0, 1)
            for value in (0, 1)
        )
        for name in data.attribute_names
        if name != "Male"
    }
    least = sorted(cells.values())[len(cells) // 2]
    kept = tuple(name for name, count in cells.items() if count >= least)
    assert 0 < len(kept) < len(cells)
    assert load_dataset("celeba", folder=archive, min_rows=least).attribute_names == kept


def test_the_official_layout_keeps_its_splits(official):
    """Labels, environments and attributes are read from the table, splits from the partition file."""
    data = load_dataset("celeba", folder=official.parent)
    assert data.train.y.tolist() == [0, 1]
    assert data.train.environments.tolist() == ["Male=0", "Male=0"]
    assert data.test.environments.tolist() == ["Male=1", "Male=1"]
    assert data.attribute_names == ("Male", "Wearing_Hat")
    assert data.validation["train"].attributes["Male"].tolist() == [0, 1]
    assert data.train.X.shape == (2, 3, 5, 4)
    np.testing.assert_allclose(data.validation["train"].X[0][:, 2, 2], [80 / 255, 0, 1], atol=0.02)
    assert data.notes == (
        "Male=0: 2 rows, the paper has 94,509",
        "validation: 2 rows, the paper has 19,867",
        "test: 2 rows, the paper has 19,962",
    )


def test_any_attribute_is_label_or_environment(official):
    """Roles may be exchanged, but not be the same, and unknown names are refused."""
    data = load_dataset("celeba", folder=official, label="Male", environment="Wearing_Hat")
    assert data.train.environments.tolist() == ["Wearing_Hat=0"] * 2
    assert data.test.y.tolist() == [1, 1]
    with pytest.raises(ParameterError, match="The label and the environment are both 'Male'"):
        load_dataset("celeba", folder=official, label="Male")
    with pytest.raises(ParameterError, match="'label' option must be one of .*'Blond_Hair', 'Male', 'Wearing_Hat'"):
        load_dataset("celeba", folder=official, label="Bald")


def test_an_archive_is_split_by_label_and_environment(archive):
    """Every cell of label and environment is in every split at the same share, and the notes say so."""
    data = load_dataset("celeba", folder=archive)
    assert (len(data.train) + len(data.validation["train"]) + len(data.test)) == 600

    def cells(split):
        return np.bincount(2 * split.attributes["Male"] + split.y, minlength=4)

    total = cells(data.train) + cells(data.validation["train"]) + cells(data.test)
    np.testing.assert_array_equal(cells(data.validation["train"]), (total * 0.2).astype(int))
    np.testing.assert_array_equal(cells(data.test), (total * 0.3).astype(int))
    assert data.notes[0] == "no list_eval_partition.txt: rows are split at random by Blond_Hair and Male"


def test_images_belong_to_their_rows(archive):
    """Hair is brighter in images of blond people: rows and images are in the same order."""
    train = load_dataset("celeba", folder=archive).train
    hair = np.asarray(train.X)[:, :, 4:8].mean(axis=(1, 2, 3))
    assert hair[train.y == 1].mean() - hair[train.y == 0].mean() == pytest.approx(70 / 255, abs=0.03)


def test_lazy_rows_equal_decoded_rows(archive):
    """Whatever way rows are taken, they equal those of the decoded array; workers get the same."""
    images = load_dataset("celeba", folder=archive).train.X
    decoded = np.asarray(images[:20])
    rows = np.array([3, 0, 3])
    np.testing.assert_array_equal(np.asarray(take_rows(images, rows)), decoded[rows])
    np.testing.assert_array_equal(images.dense(rows), decoded[rows])
    np.testing.assert_array_equal(images[3], decoded[3])
    np.testing.assert_array_equal(images[:20][1, 0], decoded[1, 0])
    copied = pickle.loads(pickle.dumps(images))  # noqa: S301
    np.testing.assert_array_equal(np.asarray(copied[:20]), decoded)
    joined = ImageFiles.concatenate([images[:5], images[5:20]])
    np.testing.assert_array_equal(np.asarray(joined), decoded)
    assert (decoded.dtype, images.dtype, images.ndim) == (np.float32, np.float32, 4)


def test_images_can_be_resized(archive):
    """A size is (height, width)."""
    images = load_dataset("celeba", folder=archive, image_size=(12, 10)).train.X
    assert images.shape[1:] == (3, 12, 10)
    assert images.dense([0]).shape == (1, 3, 12, 10)


def test_images_that_do_not_decode_are_named(official):
    """A file that is no image, one that is cut off, one that is missing and one of another size."""
    images = load_dataset("celeba", folder=official).train.X
    shape = images.shape
    path = official / "img_align_celeba" / "000002.jpg"
    content = path.read_bytes()
    path.write_bytes(b"no image")
    with pytest.raises(DatasetError, match="000002.jpg is not an image that can be decoded .*remove its row"):
        images.dense([1])
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DatasetError, match="000002.jpg is not an image that can be decoded"):
        images.dense([1])
    path.unlink()
    with pytest.raises(DatasetError, match="^The image .*000002.jpg does not exist. Get the images again.$"):
        images.dense([1])
    Image.new("RGB", (7, 5)).save(path)
    with pytest.raises(DatasetError, match="000002.jpg is 7x5 pixels, others are 4x5. Give image_size"):
        images.dense([1])
    assert shape == (2, 3, 5, 4)


@pytest.mark.parametrize(
    ("file", "line", "text", "message"),
    [
        ("list_attr_celeba.txt", 0, "many", "line 1: the number of images was expected"),
        ("list_attr_celeba.txt", 0, "7", "has 6 images where line 1 says 7"),
        ("list_attr_celeba.txt", 3, "000002.jpg 1 -1", "line 4: a file name and 3 values of 1 or -1 were expected"),
        ("list_eval_partition.txt", 1, "000002.jpg 5", "line 2: a file name and 0, 1 or 2 were expected"),
        ("list_eval_partition.txt", 1, "999999.jpg 0", "does not say which split 000002.jpg is in"),
    ],
)
def test_bad_tables_are_named(official, file, line, text, message):
    """Counts, columns and splits that do not fit name file and line."""
    lines = (official / file).read_text().splitlines()
    lines[line] = text
    (official / file).write_text("\n".join(lines))
    with pytest.raises(DatasetError, match=f"{file},? {message}"):
        load_dataset("celeba", folder=official)


def test_missing_parts_are_named(official, tmp_path_factory):
    """Without the partition file, the image folder or anything, the missing part is named."""
    (official / "list_eval_partition.txt").unlink()
    with pytest.raises(DatasetError, match="needs list_eval_partition.txt, which is not in"):
        load_dataset("celeba", folder=official)
    (official / "img_align_celeba").rename(official / "elsewhere")
    with pytest.raises(DatasetError, match="needs the folder img_align_celeba, which is not in"):
        load_dataset("celeba", folder=official)
    with pytest.raises(DatasetError, match=r"needs list_attr_celeba.txt \(or attrs.npz and a zip of images\)"):
        load_dataset("celeba", folder=tmp_path_factory.mktemp("empty"))


def test_bad_archives_are_named(archive, tmp_path):
    """A zip that is none, too few images, no zip, and a table of other arrays."""
    attrs = tmp_path / "attrs.npz"
    attrs.write_bytes((archive / "attrs.npz").read_bytes())
    with pytest.raises(DatasetError, match="has 0 zip archives next to attrs.npz; one with the images is needed"):
        load_dataset("celeba", folder=tmp_path)
    (tmp_path / "images.zip").write_bytes((archive / "images.zip").read_bytes()[:1000])
    with pytest.raises(DatasetError, match="images.zip is not a readable zip archive"):
        load_dataset("celeba", folder=tmp_path)
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as packed:
        packed.writestr("1.png", b"")
    with pytest.raises(DatasetError, match="images.zip holds 1 images where attrs.npz has 600 rows"):
        load_dataset("celeba", folder=tmp_path)
    np.savez(attrs, attr_names=np.array(["Male"]))
    with pytest.raises(DatasetError, match="must hold the arrays 'attr_names' and 'attrs'"):
        load_dataset("celeba", folder=tmp_path)
    np.savez(attrs, attr_names=np.array(["Male"]), attrs=np.array([[7]]))
    with pytest.raises(DatasetError, match="'attrs' must be a table of 0/1 or -1/1"):
        load_dataset("celeba", folder=tmp_path)


def test_a_split_without_images_is_named(official):
    """An official split that no image is in is refused before an image is asked for."""
    (official / "list_eval_partition.txt").write_text("".join(f"00000{i}.jpg {i % 2}\n" for i in range(1, 7)))
    with pytest.raises(DatasetError, match="'celeba' has no rows for the test. It was read from .*partition.txt"):
        load_dataset("celeba", folder=official)


def test_no_images_have_no_size(official):
    """The size of zero images is asked for in vain."""
    empty = ImageFiles(official / "img_align_celeba", [])
    with pytest.raises(DatasetError, match="img_align_celeba: there is no image to take the size from. .*image_size"):
        empty.shape  # noqa: B018
    assert ImageFiles(official, [], (5, 4)).shape == (0, 3, 5, 4)


def test_an_archive_without_images_is_named(tmp_path):
    """An empty zip beside an empty table is no data set."""
    np.savez(tmp_path / "attrs.npz", attr_names=np.array(["Male", "Blond_Hair"]), attrs=np.zeros((0, 2), dtype=int))
    with zipfile.ZipFile(tmp_path / "images.zip", "w"):
        pass
    with pytest.raises(DatasetError, match="images.zip holds no images. Get the archive again"):
        load_dataset("celeba", folder=tmp_path)


@pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
def test_real_faces_are_stratified():
    """Of 81 blond men among 10,000 faces, 24 are in the test split."""
    data = load_dataset("celeba", folder=Path(DATA))
    assert data.train.X.shape[1:] == (3, 109, 89)
    assert len(data.attribute_names) == 39
    blond_men = [(s.y == 1) & (s.environments == "Male=1") for s in (data.train, data.validation["train"], data.test)]
    assert [int(rows.sum()) for rows in blond_men] == [41, 16, 24]
