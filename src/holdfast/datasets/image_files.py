"""Images that stay compressed, in a folder or a zip archive, until rows are asked for."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.folders import DAMAGED
from holdfast.exceptions import DatasetError


class ImageFiles:
    """Image files as rows: `np.asarray(X[rows])` decodes to (n_rows, 3, height, width) float32 in [0, 1].

    `X[rows]` and `X[a:b]` stay undecoded, `X[3]` is one decoded image.

    Parameters
    ----------
    location : Path
        A folder or a zip archive.
    names : sequence of str
        File of each row, inside the folder or archive.
    size : tuple of (height, width), optional
        What images are resized to. None: they must all have the size of the first one.
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

    @property
    def ndim(self) -> int:
        """4."""
        return 4

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the decoded form."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_archive": None}  # an open file belongs to its process

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # scikit-learn takes rows as X[rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                return np.asarray(self)[key]
            key = key[0]
        if isinstance(key, int | np.integer):
            return self.dense([int(key)])[0]
        part = ImageFiles(self.location, self.names[key], self.size)
        part._row_shape = self._row_shape
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("ImageFiles has no decoded array to share; it has to make one.")
        decoded = self.dense(slice(None))
        return decoded if dtype is None else decoded.astype(dtype, copy=False)

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
        from PIL import Image

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
