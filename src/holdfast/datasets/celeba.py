"""CelebA: faces with 40 attributes, in the official layout or as a zip archive with a table of attributes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.drawing import check_choice, check_probability, deal_rows
from holdfast.datasets.files import read_npz, read_text
from holdfast.datasets.folders import DAMAGED, candidate_folders, find_file, missing_file, note_file
from holdfast.datasets.values import Dataset, DatasetEntry, LazyRows, Split, size_notes, split_sizes
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError, ParameterError
from holdfast.extras import require
from holdfast.seeding import Seeding


class ImageFiles(LazyRows):
    """Image files of a folder or zip archive as rows: dense, they are (n_rows, 3, height, width) float32 in [0, 1].

    Images are resized to `size`, (height, width); without it they must all have the size of the first one.
    """

    def __init__(self, location: Path, names: Sequence[str], size: tuple[int, int] | None = None) -> None:
        self.location = Path(location)
        self.names = np.asarray(names, dtype=np.str_)
        self.size = size
        self._archive: zipfile.ZipFile | None = None
        self._row_shape: tuple[int, int, int] | None = None if size is None else (3, *size)

    @property
    def row_shape(self) -> tuple[int, int, int]:
        """(3, height, width); the first image is decoded to know it."""
        if self._row_shape is None:
            if not len(self.names):
                raise DatasetError(
                    f"{self.location}: there is no image to take the size from. Pass rows that have one, or give "
                    "image_size=(height, width)."
                )
            self._row_shape = (3, *self._decode(str(self.names[0]), None).shape[:2])
        return self._row_shape

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_rows, 3, height, width)."""
        return (len(self.names), *self.row_shape)

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_archive": None}  # an open file belongs to its process

    def _take(self, rows: Any) -> ImageFiles:
        part = ImageFiles(self.location, self.names[rows], self.size)
        part._row_shape = self._row_shape
        return part

    def dense(self, rows: Any) -> NDArray[np.float32]:
        """Decode these rows (numbers, a slice or a mask) into one array, (n_rows, 3, height, width)."""
        names = self.names[rows]
        height, width = self.row_shape[1:]
        decoded = np.empty((len(names), 3, height, width), dtype=np.float32)
        for row, name in enumerate(names):
            pixels = self._decode(str(name), self.size)
            if pixels.shape[:2] != (height, width):
                raise DatasetError(
                    f"{self.location / str(name)} is {pixels.shape[1]}x{pixels.shape[0]} pixels, "
                    f"others are {width}x{height}. Give image_size=(height, width) to resize them all."
                )
            decoded[row] = pixels.transpose(2, 0, 1)  # (height, width, 3) -> (3, height, width)
        decoded /= 255
        return decoded

    @staticmethod
    def concatenate(parts: Sequence[ImageFiles]) -> ImageFiles:
        """Return the rows of several, one after the other."""
        return ImageFiles(parts[0].location, np.concatenate([part.names for part in parts]).tolist(), parts[0].size)

    def _decode(self, name: str, size: tuple[int, int] | None) -> NDArray[np.uint8]:
        """Return one image as (height, width, 3) bytes."""
        Image = require("PIL.Image", extra="neural", what="Images")

        where = self.location / name
        try:
            with Image.open(io.BytesIO(self._read(name))) as image:
                converted = image.convert("RGB")
                if size is not None and (converted.height, converted.width) != size:
                    converted = converted.resize((size[1], size[0]), Image.Resampling.BILINEAR)
                return np.asarray(converted, dtype=np.uint8)
        except DatasetError:
            raise
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
            raise DatasetError(
                f"{where} is not an image that can be decoded ({problem}). Get the file again, or remove its row."
            ) from problem

    def _read(self, name: str) -> bytes:
        """Return a file's bytes."""
        try:
            if self.location.is_dir():
                return (self.location / name).read_bytes()
            if self._archive is None:
                self._archive = zipfile.ZipFile(self.location)
            return self._archive.read(name)
        except FileNotFoundError as problem:
            raise DatasetError(f"The image {self.location / name} does not exist. Get the images again.") from problem
        except KeyError as problem:
            raise DatasetError(f"{self.location} holds no image {name!r}. Get the archive again.") from problem
        except DAMAGED as problem:
            raise DatasetError(f"{self.location}: {name!r} is damaged ({problem}). Get the archive again.") from problem


SUBFOLDERS = ("celeba", "celeba10k", "CelebA", "celebA")
ATTRIBUTE_FILE = "list_attr_celeba.txt"
PARTITION_FILE = "list_eval_partition.txt"
IMAGE_FOLDER = "img_align_celeba"
ARCHIVE_ATTRIBUTES = "attrs.npz"
PAPER_ROWS = {"Male=0": 94_509, "Male=1": 68_261, "validation": 19_867, "test": 19_962}
_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, eq=False)
class Faces:
    """Images and what is known about them."""

    images: ImageFiles
    attribute_names: tuple[str, ...]
    attributes: NDArray[np.intp]  # (n_rows, n_attributes) of 0 and 1
    splits: NDArray[np.intp] | None  # (n_rows,) 0 train, 1 validation, 2 test; None: no official one


def load_celeba(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    label: str = "Blond_Hair",
    environment: str = "Male",
    image_size: tuple[int, int] | None = None,
    validation_share: float = 0.2,
    test_share: float = 0.3,
    min_rows: int = 0,
) -> Dataset:
    """Load faces; one attribute is the label, one defines the environments, the others are what not to rely on.

    Two layouts are read. The official one has ``img_align_celeba/``, ``list_attr_celeba.txt`` and, for its splits,
    ``list_eval_partition.txt``. An archive is one zip of images, sorted by name, next to ``attrs.npz`` with the arrays
    ``attr_names`` and ``attrs`` (0/1 or -1/1); it is split at random by label and environment.
    X is `ImageFiles`, decoded when asked for.

    Parameters
    ----------
    seed : int, default=0
        Deals rows of an archive to the splits; the official ones are fixed.
    label : str, default="Blond_Hair"
        Attribute to predict.
    environment : str, default="Male"
        Attribute whose values are the environments.
    image_size : tuple of (height, width), optional
        What images are resized to. None: as they are.
    validation_share, test_share : float, default=0.2, 0.3
        Shares of an archive's rows.
    min_rows : int, default=0
        Leave out the environment's attribute, and all with fewer rows than this, over all splits, in a cell of
        label × attribute: an accuracy of few rows is luck. 0: keep all.
    """
    check_probability("validation_share", validation_share)
    check_probability("test_share", test_share)
    faces = _read_faces(folder, image_size)
    check_choice("label", label, faces.attribute_names)
    check_choice("environment", environment, faces.attribute_names)
    if label == environment:
        raise ParameterError(f"The label and the environment are both {label!r}. Choose two attributes.")
    columns = dict(zip(faces.attribute_names, faces.attributes.T, strict=True))
    y, environments = columns[label], np.array([f"{environment}={value}" for value in (0, 1)])[columns[environment]]
    names = tuple(
        name
        for name, values in columns.items()
        if name != label
        and (not min_rows or (name != environment and np.bincount(2 * y + values, minlength=4).min() >= min_rows))
    )

    def split(rows: Rows) -> Split:
        return Split(faces.images[rows], y[rows], environments[rows], {name: columns[name][rows] for name in names})

    if faces.splits is None:
        cells = 2 * columns[environment] + y
        deal = deal_rows(
            cells,
            1,
            validation_share=validation_share,
            test_share=test_share,
            generator=Seeding(seed).generator("splits"),
        )
        parts = [deal.environments[0], deal.validation, deal.test]
        notes = [f"no {PARTITION_FILE}: rows are split at random by {label} and {environment}"]
    else:
        parts = [np.flatnonzero(faces.splits == code) for code in range(3)]
        notes = []
    train, validation, test = map(split, parts)
    notes += size_notes(split_sizes(train, validation, test), PAPER_ROWS)
    return Dataset("celeba", train, {"train": validation}, test, ("0", "1"), names, None, tuple(notes))


def _read_faces(folder: Path | str | None, size: tuple[int, int] | None) -> Faces:
    """Read whichever layout is there."""
    folders = candidate_folders(folder, SUBFOLDERS)
    official = find_file(ATTRIBUTE_FILE, folders)
    if official is not None:
        return _read_official(official, size)
    archive = find_file(ARCHIVE_ATTRIBUTES, folders)
    if archive is None:
        raise missing_file("celeba", f"{ATTRIBUTE_FILE} (or {ARCHIVE_ATTRIBUTES} and a zip of images)", folder)
    return _read_archive(archive, size)


def _read_official(path: Path, size: tuple[int, int] | None) -> Faces:
    """Read the three parts of the official layout."""
    images, partition = path.parent / IMAGE_FOLDER, path.parent / PARTITION_FILE
    if not images.is_dir():
        raise missing_file("celeba", f"the folder {IMAGE_FOLDER}", path.parent)
    if not partition.is_file():
        raise missing_file("celeba", PARTITION_FILE, path.parent)
    note_file(partition)
    lines = _lines(path)
    if len(lines) < 3 or not lines[0].strip().isdigit():
        raise DatasetError(f"{path}, line 1: the number of images was expected. Get the original file.")
    names, files, rows = lines[1].split(), [], []
    for number, line in enumerate(lines[2:], start=3):
        file, *values = line.split()
        if len(values) != len(names) or not set(values) <= {"1", "-1", "0"}:
            raise DatasetError(
                f"{path}, line {number}: a file name and {len(names)} values of 1 or -1 were expected. "
                "Correct the line."
            )
        files.append(file)
        rows.append([value == "1" for value in values])
    if len(files) != int(lines[0]):
        raise DatasetError(f"{path} has {len(files)} images where line 1 says {lines[0].strip()}. Get the file again.")
    splits = _read_partition(partition, files)
    return Faces(ImageFiles(images, files, size), tuple(names), np.array(rows, dtype=np.intp), splits)


def _read_partition(path: Path, files: list[str]) -> NDArray[np.intp]:
    """Return the official split of each image."""
    codes = {}
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[1] not in ("0", "1", "2"):
            raise DatasetError(f"{path}, line {number}: a file name and 0, 1 or 2 were expected. Correct the line.")
        codes[fields[0]] = int(fields[1])
    for file in files:
        if file not in codes:
            raise DatasetError(f"{path} does not say which split {file} is in. Get the original file.")
    return np.array([codes[file] for file in files], dtype=np.intp)


def _read_archive(path: Path, size: tuple[int, int] | None) -> Faces:
    """Read a table of attributes and the one zip next to it."""
    archives = sorted(path.parent.glob("*.zip"))
    if len(archives) != 1:
        raise DatasetError(
            f"{path.parent} has {len(archives)} zip archives next to {path.name}; one with the images is needed."
        )
    names, values = read_npz(path, "attr_names", "attrs")
    if values.ndim != 2 or names.shape != (values.shape[1],) or not np.isin(values, (-1, 0, 1)).all():
        raise DatasetError(f"{path}: 'attrs' must be a table of 0/1 or -1/1 with a column for each of 'attr_names'.")
    try:
        with zipfile.ZipFile(note_file(archives[0])) as archive:
            files = sorted(name for name in archive.namelist() if name.lower().endswith(_SUFFIXES))
    except DAMAGED as problem:
        raise DatasetError(f"{archives[0]} is not a readable zip archive ({problem}). Get it again.") from problem
    if not files:
        raise DatasetError(f"{archives[0]} holds no images. Get the archive again.")
    if len(files) != len(values):
        raise DatasetError(
            f"{archives[0]} holds {len(files)} images where {path.name} has {len(values)} rows. "
            "Get both from one source."
        )
    attributes = (values == 1).astype(np.intp)
    return Faces(ImageFiles(archives[0], files, size), tuple(map(str, names)), attributes, None)


def _lines(path: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    return [line for line in read_text(path).splitlines() if line.strip()]


CELEBA = DatasetEntry(
    summary="CelebA faces; any of the 40 attributes as label or environment.",
    loader=load_celeba,
    instructions=(
        "In FOLDER or FOLDER/celeba, either the official layout (mmlab.ie.cuhk.edu.hk/projects/CelebA.html):\n"
        "  img_align_celeba/000001.jpg …  list_attr_celeba.txt  list_eval_partition.txt\n"
        "or one zip of images, in the order of their names, and attrs.npz with the arrays attr_names and attrs."
    ),
)
