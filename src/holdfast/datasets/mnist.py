"""Colored MNIST: ten classes as in the paper, or two classes as in IRM and DomainBed."""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.colored_digits import N_COLORS, ColoredImages, Coloring, Digits, color_digits
from holdfast.datasets.drawing import Codes, check_choice
from holdfast.datasets.files import MAX_BYTES, BytesProgress, fetch, read_plain
from holdfast.datasets.folders import candidate_folders, data_command, existing_folders, find_file, missing_file
from holdfast.datasets.two_classes import CUTS, cut_two_classes
from holdfast.datasets.values import Dataset, DatasetEntry, size_notes
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError
from holdfast.seeding import Seeding

# File -> md5 of its uncompressed bytes.
MNIST_MD5: Mapping[str, str] = MappingProxyType(
    {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
)
_UNSIGNED_BYTES = 0x08


def other_names(name: str) -> tuple[str, ...]:
    """Return the other names that one of the four files goes by.

    Examples
    --------
    >>> other_names("t10k-labels-idx1-ubyte")
    ('t10k-labels-idx1-ubyte.gz', 't10k-labels.idx1-ubyte', 't10k-labels.idx1-ubyte.gz')
    """
    dotted = name.replace("-idx", ".idx")
    return f"{name}.gz", dotted, f"{dotted}.gz"


MAX_PACKED, MAX_PLAIN = 1 << 24, 1 << 26  # bytes; the largest of the files has 9,912,422 and 47,040,016


def read_idx(path: Path, *, md5: str | None = None) -> NDArray[np.uint8]:
    """Read one idx file of bytes, plain or gzip; with `md5`, the uncompressed bytes must have it."""
    content = read_plain(path, max_bytes=MAX_BYTES if md5 is None else MAX_PLAIN, remedy=_remedy(path))
    if md5 is not None and (found := md5_of(content)) != md5:
        raise DatasetError(
            f"{path} has the md5 {found} (uncompressed), not {md5}: it is not the original file. {_remedy(path)}"
        )
    return parse_idx(content, path)


def parse_idx(content: bytes, source: Any) -> NDArray[np.uint8]:
    """Return the array that idx bytes hold; `source` is named in errors.

    Examples
    --------
    >>> parse_idx(idx_bytes(np.array([[1, 2], [3, 4]], dtype=np.uint8)), "an example").tolist()
    [[1, 2], [3, 4]]
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES or not 1 <= content[3] <= 4:
        raise DatasetError(f"{source} does not start like an idx file of bytes. {_remedy(source)}")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise DatasetError(f"{source} ends inside its header. {_remedy(source)}")
    shape = struct.unpack(f">{n_axes}I", content[4:start])
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DatasetError(f"{source} has {len(content)} bytes where its header says {expected}. {_remedy(source)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Return the idx file that holds an array of bytes."""
    header = bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + np.ascontiguousarray(array, dtype=np.uint8).tobytes()


def md5_of(content: bytes) -> str:
    """Return the md5, which names the original files; it protects against damage, not against malice."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _remedy(source: Any) -> str:
    """Say what to do about a file that is not MNIST's, with the command for its folder."""
    folder = source.parent if isinstance(source, Path) else None
    return f"Delete it and get it again: {data_command('colored_mnist', folder)}"


SUBFOLDERS = ("mnist", "MNIST/raw", "colored_mnist")
N_QUARTERS = 4
_SHUFFLE_SEED = 0  # never the run's: which digits are in which split does not change
PAPER_ROWS = {"environment": 14_995, "validation": 2_497, "test": 2_497}


def load_colored_mnist(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    etas: Sequence[float] = (0.9, 0.8),
    test_eta: float = 0.1,
    label_noise: float = 0.25,
    test_colorings: int = 1,
    verify: bool = True,
    protocol: str = "paper",
) -> Dataset:
    """Color MNIST so that color predicts the label in training and misleads in the test environment.

    The rows of each digit class are shuffled, always in the same way, and cut into four equal quarters; what does not
    divide is left out. Quarters 1 and 2 of the training files are E1 and E2, quarters 3 and 4 of the test files are
    validation and test. More than two environments take further quarters, more than four cut the classes into as many
    parts. X is `ColoredImages`.

    Parameters
    ----------
    seed : int, default=0
        Draws labels and colors. Which digits are in which split never changes.
    etas : sequence of float, default=(0.9, 0.8)
        Probability that the color is the label's, for each training environment.
    test_eta : float, default=0.1
        The same in the test environment.
    label_noise : float, default=0.25
        Probability that the label is another digit than the one drawn.
    test_colorings : int, default=1
        How often the test digits get new labels and colors (attribute ``coloring``). Once leaves a standard error of
        0.9 %.
    verify : bool, default=True
        Refuse files that are not the original ones. False also takes other data in idx files, such as Fashion-MNIST.
    protocol : {"paper", "irm", "domainbed"}, default="paper"
        Which cut: the one described above, with ten classes; or, with two classes and 14x14 pixels, that of IRM (two
        environments of 25,000 digits, 10,000 to test) or of DomainBed (three domains of 23,333, one of them the test).

    Notes
    -----
    The authors shuffle before they cut. It matters: in the order of the files, the second half of the test digits is
    easier than the first, and accuracies are 1 to 2 points too high.
    """
    coloring = Coloring(etas, test_eta, label_noise, test_colorings)
    check_choice("protocol", protocol, ("paper", *CUTS))
    training, testing = read_mnist(folder, verify=verify)
    if protocol != "paper":
        return cut_two_classes(protocol, training, testing, coloring, seed)
    shuffling = Seeding(_SHUFFLE_SEED).child("quarters")
    parts = class_parts(training.digits, max(N_QUARTERS, len(etas)), generator=shuffling.generator("training"))[
        : len(etas)
    ]
    if not len(parts[0]):
        raise DatasetError(
            f"{len(etas)} etas leave no training digit for each environment: each class is cut into as many parts, and "
            f"there are {len(training.digits):,} training digits. Pass fewer etas, or files with more digits."
        )
    quarters = class_parts(testing.digits, N_QUARTERS, generator=shuffling.generator("test"))
    return color_digits(
        "colored_mnist",
        [training.take(rows) for rows in parts],
        testing.take(quarters[2]),
        testing.take(quarters[3]),
        represent=lambda images, colors: ColoredImages(images, colors, N_COLORS),
        coloring=coloring,
        streams=Seeding(seed).child("coloring"),
        notes=_notes(len(parts[0]), len(quarters[2]), len(quarters[3]), len(etas), verify),
    )


def read_mnist(folder: Path | str | None, *, verify: bool = True) -> tuple[Digits, Digits]:
    """Read the training and test digits from the four idx files."""
    folders = candidate_folders(folder, SUBFOLDERS)
    arrays = []
    for name, md5 in MNIST_MD5.items():
        path = find_file(name, folders, *other_names(name))
        if path is None:
            raise missing_file("colored_mnist", f"{name} (plain or .gz)", folder)
        arrays.append((path, read_idx(path, md5=md5 if verify else None)))
    return _digits(*arrays[:2]), _digits(*arrays[2:])


def class_parts(digits: Codes, n_parts: int, *, generator: np.random.Generator) -> list[Rows]:
    """Shuffle the rows of each class, cut them into equal parts, and return the rows of each part, ascending.

    Examples
    --------
    >>> parts = class_parts(np.array([0, 1, 0, 0, 1, 0, 0]), 2, generator=np.random.default_rng(0))
    >>> [len(rows) for rows in parts]
    [3, 3]
    """
    parts: list[list[Rows]] = [[] for _ in range(n_parts)]
    for digit in np.unique(digits):
        rows = generator.permutation(np.flatnonzero(digits == digit))
        size = len(rows) // n_parts
        for i in range(n_parts):
            parts[i].append(rows[i * size : (i + 1) * size])
    return [np.sort(np.concatenate(rows)) for rows in parts]


def _digits(images: tuple[Path, NDArray[np.uint8]], labels: tuple[Path, NDArray[np.uint8]]) -> Digits:
    """Pair images with their labels."""
    (image_path, pixels), (label_path, codes) = images, labels
    if pixels.ndim != 3 or codes.ndim != 1 or len(pixels) != len(codes):
        raise DatasetError(
            f"{image_path} holds an array of shape {pixels.shape} and {label_path} one of {codes.shape}: not as many "
            "images as labels. Get both files from the same source."
        )
    if not len(codes):
        raise DatasetError(f"{label_path} holds no labels. Get both files from the same source.")
    if codes.max() >= N_COLORS:
        raise DatasetError(f"{label_path} holds the label {codes.max()}, but ten classes, 0 to 9, were expected.")
    return Digits(pixels, codes.astype(np.intp))


def _notes(n_environment: int, n_validation: int, n_test: int, n_environments: int, verify: bool) -> tuple[str, ...]:
    """Compare the sizes with the paper's."""
    found = {"environment": n_environment, "validation": n_validation, "test": n_test}
    notes = size_notes(found, PAPER_ROWS)
    if n_environments != 2:
        notes.append(f"{n_environments} training environments, the paper has 2")
    return (*notes, *(() if verify else ("the files' checksums were not compared with MNIST's",)))


MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def download_mnist(
    folder: Path, *, mirrors: tuple[str, ...] = MIRRORS, timeout: float = 30.0, progress: BytesProgress | None = None
) -> list[Path]:
    """Put the four idx files into a folder; each is verified, and existing ones are kept."""
    files = []
    for name, path in {name: _present(name, folder) for name in MNIST_MD5}.items():
        if path is None:
            urls = [f"{mirror}{name}.gz" for mirror in mirrors]
            target, check = folder / f"{name}.gz", functools.partial(read_idx, md5=MNIST_MD5[name])
            path = fetch(urls, target, check=check, max_bytes=MAX_PACKED, timeout=timeout, retries=1, progress=progress)
        files.append(path)
    return files


def _present(name: str, folder: Path) -> Path | None:
    """Return the verified file if the folder has it, and None if it is absent or a download would replace it.

    Any other file of that name is refused: it would be read in place of what is fetched, and it is not ours to delete.
    """
    path = find_file(name, existing_folders(folder, SUBFOLDERS), *other_names(name))
    if path is None:
        return None
    try:
        read_idx(path, md5=MNIST_MD5[name])
    except DatasetError:
        if path == folder / f"{name}.gz":
            return None
        raise
    return path


COLORED_MNIST = DatasetEntry(
    summary="MNIST, colored: ten classes, or two as IRM and DomainBed cut it.",
    loader=load_colored_mnist,
    edition=2,  # 1 cut the classes in the order of the files
    downloader=download_mnist,
    instructions=(
        "Four files, plain or gzip (.gz), in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw:\n"
        "  train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte\n"
        "To get them (12 MB) with their checksums verified, run: COMMAND"
    ),
)
