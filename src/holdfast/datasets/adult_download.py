"""Getting UCI Adult: what is there already, then the archive's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.datasets.adult import SUBFOLDERS
from holdfast.datasets.compressed import read_plain
from holdfast.datasets.downloads import Progress, check_sha256, fetch, make_folder
from holdfast.datasets.folders import existing_folders, find_file
from holdfast.exceptions import DatasetError

SOURCE = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
PAGE = "archive.ics.uci.edu/dataset/2/adult"
# File -> sha256 of its uncompressed bytes.
ADULT_SHA256: Mapping[str, str] = MappingProxyType(
    {
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    }
)


def download_adult(
    folder: Path, *, source: str = SOURCE, timeout: float = 30.0, progress: Progress | None = None
) -> list[Path]:
    """Put ``adult.data`` and ``adult.test`` into a folder; each is verified, and those that are there are left alone.

    Parameters
    ----------
    folder : Path
        Created if need be.
    source : str
        Address, ending with a slash, of the folder with the two files.
    timeout : float, default=30
        Seconds without a byte after which the source is given up.
    progress : callable, optional
        Called with the file's name, the bytes so far and, if known, in all.

    Returns
    -------
    list of Path
        The two files.
    """
    found = {name: _present(name, folder) for name in ADULT_SHA256}
    for name, path in found.items():
        if path is None:
            check = check_sha256(ADULT_SHA256[name])
            try:
                found[name] = fetch(
                    [f"{source}{name}"], make_folder(folder) / name, check=check, timeout=timeout, progress=progress
                )
            except DatasetError as problem:
                raise DatasetError(f"{problem} The files are also on the page {PAGE}.") from problem
    return [path for path in found.values() if path is not None]


def _present(name: str, folder: Path) -> Path | None:
    """Return the verified file if the folder has it, and None if it is absent.

    Any other file of that name is refused: it would be read in place of what is fetched, and it is not ours to delete.
    """
    path = find_file(name, existing_folders(folder, SUBFOLDERS), f"{name}.gz")
    if path is None:
        return None
    sha256 = hashlib.sha256(read_plain(path)).hexdigest()
    if sha256 != ADULT_SHA256[name]:
        raise DatasetError(
            f"{path} has the sha256 {sha256} (uncompressed), not {ADULT_SHA256[name]}: it is not UCI's file. "
            "Move it away to get the original, or load it as it is."
        )
    return path
