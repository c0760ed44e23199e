"""Data sets by name: the paper's, synthetic ones, and your own tables.

Other packages add theirs with entry points of the group ``holdfast.datasets``, each a `DatasetEntry`. Loaders do not
import torch. Nothing is downloaded unless `download` is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.datasets.folders import data_command, data_folder, noting_files
from holdfast.datasets.values import NOTHING_NEEDED, Dataset, DatasetEntry, Split
from holdfast.exceptions import DatasetError, ParameterError, suggest
from holdfast.registry import Registry

__all__ = ["DATASETS", "Dataset", "DatasetEntry", "Split", "data_instructions", "download", "load_dataset"]

DATASETS: Registry[DatasetEntry] = Registry(
    "data set",
    {
        "toy": "holdfast.datasets.toy:TOY",
        "gaussian": "holdfast.datasets.gaussian:GAUSSIAN",
        "colored_digits": "holdfast.datasets.colored_digits:COLORED_DIGITS",
        "units": "holdfast.datasets.units:UNITS",
        "colored_mnist": "holdfast.datasets.mnist:COLORED_MNIST",
        "beer": "holdfast.datasets.beer:BEER",
        "celeba": "holdfast.datasets.celeba:CELEBA",
        "ask2me": "holdfast.datasets.ask2me:ASK2ME",
        "adult": "holdfast.datasets.adult:ADULT",
        "table": "holdfast.datasets.own_table:TABLE",
        "vectors": "holdfast.datasets.vectors:VECTORS",
    },
    group="holdfast.datasets",
    accepts=lambda value: isinstance(value, DatasetEntry),
    expected="a holdfast.datasets.DatasetEntry",
    error=DatasetError,
)


def load_dataset(name: str, *, folder: Path | str | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    folder : path, optional
        Where its files are, for those that need files. None: $HOLDFAST_DATA, or the user's cache folder.
    seed : int, default=0
        Everything random: the order of rows, labels, colors, tokens.
    **options
        The loader's own options, for example ``etas=(0.9, 0.8)``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> data = load_dataset("toy", etas=(0.0, 0.1))
    >>> data.train.X.shape, sorted(set(data.train.environments.tolist()))
    ((2000, 2), ['E1', 'E2'])
    """
    entry = DATASETS.find(name)
    if entry.loader is None:
        raise DatasetError(f"{name!r} is not a data set, only files that data sets need: {entry.summary}")
    known = entry.options()
    for option in options:
        if option not in known:
            raise ParameterError(f"Data set {name!r} has no option {option!r}. {suggest(option, known)}")
    with noting_files() as files:
        data = entry.load(None if folder is None else Path(folder), seed, **options)
    _refuse_empty_splits(data, files, options)
    return data


def data_instructions(name: str, folder: Path | str | None = None) -> str:
    """Say which files a data set needs, and where they go.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    folder : path, optional
        Written into the answer. None: $HOLDFAST_DATA, or the user's cache folder.

    Examples
    --------
    >>> data_instructions("toy")
    'No files are needed: the data are synthetic, or come with scikit-learn.'
    """
    entry = DATASETS.find(name)
    text = entry.instructions.replace("COMMAND", data_command(name, folder))
    return text.replace("FOLDER", str(data_folder() if folder is None else folder))


def download(name: str, folder: Path | str | None = None, **options: Any) -> list[Path]:
    """Get a data set's files from a public source, and verify them.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    folder : path, optional
        Where the files go. None: $HOLDFAST_DATA, or the user's cache folder.
    **options
        ``timeout`` in seconds; ``progress``, called with the file's name, the bytes so far and, if known, in all.

    Returns
    -------
    list of Path
        The files. Empty for data that need none.
    """
    entry = DATASETS.find(name)
    target = data_folder() if folder is None else Path(folder)
    if entry.downloader is not None:
        return list(entry.downloader(target, **options))
    if entry.instructions == NOTHING_NEEDED:
        return []
    raise DatasetError(
        f"Data set {name!r} cannot be downloaded from here. Get its files by hand. {data_instructions(name, target)}"
    )


def _refuse_empty_splits(data: Dataset, files: Iterable[Path], options: Mapping[str, Any]) -> None:
    """Refuse a data set of which a split has no rows, with the files it was read from and the options given."""
    validation = {f"validation ({name!r})": split for name, split in data.validation.items()}
    splits = {"training": data.train, **validation, "the test": data.test}
    empty = [name for name, split in splits.items() if not len(split)]
    if empty:
        read = ", ".join(map(str, dict.fromkeys(files)))
        source = f"It was read from {read}. Check that these files have rows for it, and" if read else "Check"
        given = ", ".join(f"{name}={value!r}" for name, value in options.items()) or "all defaults"
        raise DatasetError(
            f"Data set {data.name!r} has no rows for {empty[0]}. {source} that the options ({given}) leave some."
        )
