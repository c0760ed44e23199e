"""Read rows as tensors: arrays, memory maps, sparse matrices, texts, dicts and Datasets.

Memory maps stay on disk, sparse rows become dense a batch at a time, texts stay token numbers, items of a Dataset are
read when they are asked for. Numbers become float32; 8-bit images (uint8 rows with two or more axes) are also divided
by 255. Integers in dicts and Datasets stay integers: they are tokens.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
import torch
import torch.multiprocessing
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad as pad_tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from holdfast.environments import PerRow, Rows, is_lazy
from holdfast.exceptions import FeaturesError, InputTypeError, LabelsError, ParameterError
from holdfast.neural.randomness import RandomStream

PADDING, UNKNOWN, N_RESERVED = 0, 1, 2
# Keys of a dict, or of a Dataset's dict items, that are not inputs of the network.
LABEL_KEYS, ENVIRONMENT_KEYS = ("labels", "label", "y"), ("environments", "environment")

Inputs: TypeAlias = Tensor | dict[str, Tensor]  # of a batch, each (n_rows, ...)
RowShape: TypeAlias = tuple[int, ...] | dict[str, tuple[int, ...]]


def tokenize(text: str | Sequence[str], *, lowercase: bool = False) -> list[str]:
    """Return the whitespace tokens of a text; a list of tokens passes as it is.

    Examples
    --------
    >>> tokenize("A dark  beer", lowercase=True)
    ['a', 'dark', 'beer']
    """
    if isinstance(text, str):
        return (text.lower() if lowercase else text).split()
    if isinstance(text, list | tuple | np.ndarray) and all(isinstance(token, str) for token in text):
        return [token.lower() for token in text] if lowercase else list(text)
    raise InputTypeError(f"A text must be a str or a list of str tokens. Got {type(text).__name__} instead.")


@dataclass(frozen=True)
class Vocabulary:
    """Numbers for tokens: 0 is padding, 1 is any unknown word, then come the tokens in their order."""

    tokens: tuple[str, ...]
    lowercase: bool = False
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {token: number for number, token in enumerate(self.tokens, start=N_RESERVED)}
        if len(numbers) < len(self.tokens):
            raise ParameterError("A vocabulary must not contain a token twice.")
        object.__setattr__(self, "_numbers", numbers)

    def __len__(self) -> int:
        return len(self.tokens) + N_RESERVED

    @classmethod
    def build(cls, texts: Iterable[str | Sequence[str]], *, min_count: int = 1, lowercase: bool = False) -> Vocabulary:
        """Collect the tokens that occur at least `min_count` times, in alphabetical order.

        Examples
        --------
        >>> Vocabulary.build(["a b b", "b c"], min_count=2).tokens
        ('b',)
        """
        counts = Counter(token for text in texts for token in tokenize(text, lowercase=lowercase))
        return cls(tuple(sorted(token for token, count in counts.items() if count >= min_count)), lowercase)

    def encode(self, text: str | Sequence[str]) -> NDArray[np.int32]:
        """Return the token numbers of a text."""
        numbers = self._numbers
        tokens = tokenize(text, lowercase=self.lowercase)
        return np.fromiter((numbers.get(token, UNKNOWN) for token in tokens), dtype=np.int32, count=len(tokens))

    def vectors(self, known: dict[str, NDArray[np.floating]] | None) -> Tensor | None:
        """Return the (n_tokens, dimension) matrix of word vectors, zero for padding and words without one."""
        if known is None:
            return None
        if not known:
            raise ParameterError("The word vectors are empty. Pass a mapping from words to vectors.")
        dimension = len(next(iter(known.values())))
        matrix = np.zeros((len(self), dimension), dtype=np.float32)
        for token, number in self._numbers.items():
            if token in known:
                matrix[number] = known[token]
        return torch.from_numpy(matrix)


def pad(rows: Sequence[NDArray[np.int32]]) -> Tensor:
    """Return the token numbers as one (n_rows, longest) int64 tensor; shorter texts end with zeros."""
    if len(rows) == 0:
        raise FeaturesError("X has 0 texts, but at least one is needed.")
    longest = max(1, max(len(row) for row in rows))
    padded = np.full((len(rows), longest), PADDING, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)


class RowSource:
    """Rows by number: `take(rows)` gives them as one tensor, (n_rows, ...), or as a dict of tensors."""

    row_shape: RowShape  # of one row; for texts (n_tokens,), for dicts the shape of each entry

    def __init__(self, n_rows: int, row_shape: RowShape, take: Callable[[Any], Inputs]) -> None:
        self._n_rows, self.row_shape, self._take = n_rows, row_shape, take

    def __len__(self) -> int:
        return self._n_rows

    def take(self, rows: Rows | slice, draw: int = 0) -> Inputs:
        """Return the rows as tensors; random transforms of a Dataset give the same for the same `draw`."""
        return self._take(rows)

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Return a block in which the rows are read by worker processes, where there are any."""
        return contextlib.nullcontext()


def _channels_last(tensor: Tensor) -> Tensor:
    """Lay out images with the channels last: convolutions on a CPU are about 1.5 times faster (docs/decisions/0003)."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


class ItemRows:
    """Rows that are read one by one: items of a map-style Dataset, of a dict of arrays, or of an array.

    Indexing gives other rows of the same items, and reads nothing.
    """

    def __init__(self, items: Any, rows: Rows | None = None) -> None:
        self.items = items
        first = next(iter(items.values())) if isinstance(items, dict) else items
        self.rows = np.arange(len(first)) if rows is None else rows
        self.shape = self.rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Rows | slice) -> ItemRows:
        return ItemRows(self.items, self.rows[rows])

    def dense(self, rows: Rows | slice) -> Inputs:
        """Return rows as tensors."""
        return ItemSource(self).take(rows)


def read_items(X: Any, y: PerRow, environments: PerRow = None, *, n_workers: int = 0) -> tuple[ItemRows, Any, Any]:
    """Return the rows of a Dataset or dict, with labels and environments: those given, else those of the items.

    A Dataset's labels are found by reading every item once; None stays None where the items have none.

    Examples
    --------
    >>> rows, y, environments = read_items({"tokens": [[5, 6], [7]], "label": ["a", "b"]}, None)
    >>> y.tolist(), environments, rows.dense(np.array([0, 1]))["tokens"].tolist()
    (['a', 'b'], None, [[5, 6], [7, 0]])
    """
    if isinstance(X, DataLoader):
        raise InputTypeError(
            "X is a DataLoader. Pass its dataset, X=loader.dataset: batches are drawn by group, and n_workers and "
            "collate_fn are parameters of the estimator: data__n_workers=, data__collate_fn=."
        )
    if isinstance(X, IterableDataset):
        raise InputTypeError(
            "X is an IterableDataset, but rows are asked for by number. Pass a map-style Dataset, with __getitem__ and "
            "__len__."
        )
    if isinstance(X, ItemRows):
        return X, y, environments
    if isinstance(X, Mapping):
        columns = {str(name): _column(values) for name, values in X.items()}
        labels = [columns.pop(key) for key in LABEL_KEYS if key in columns]
        sites = [columns.pop(key) for key in ENVIRONMENT_KEYS if key in columns]
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) != 1:
            raise FeaturesError(f"X is a dict whose entries must have one row for each example. Got lengths {sizes}.")
        rows = ItemRows(columns)
        y = labels[0] if y is None and labels else y
        return rows, y, sites[0] if environments is None and sites else environments
    rows = ItemRows(X)
    if not len(rows):
        raise FeaturesError("X is a Dataset with 0 items, but at least one is needed.")
    if y is not None and environments is not None:
        return rows, y, environments
    _, label, environment = _parts_of(X[0])
    asks = y is None and label is not None, environments is None and environment is not None
    if any(asks):
        with _reading(ItemReader(X, only_labels=True), n_workers) as read:
            found = read(rows.rows, None)
        y = [label for label, _ in found] if asks[0] else y
        environments = [environment for _, environment in found] if asks[1] else environments
    return rows, y, environments


def rows_to_predict(X: Any) -> Any:
    """Return the Dataset of a DataLoader that goes through it in order, and all else as it is.

    A loader that shuffles, or leaves rows out, would give the predictions of other rows than the caller thinks.
    """
    if not isinstance(X, DataLoader):
        return X
    if not isinstance(X.sampler, SequentialSampler) or X.drop_last:
        raise InputTypeError(
            "X is a DataLoader that shuffles or leaves out rows, so predictions could not be matched with its rows. "
            "Pass its dataset, X=loader.dataset, or a DataLoader with shuffle=False."
        )
    return X.dataset


def labeled_items(X: Any, y: PerRow, *, n_workers: int = 0) -> tuple[Any, Any]:
    """Return rows and their labels: those given, else those of a dict's or Dataset's items.

    Of a DataLoader these are the items of its Dataset: their order makes no difference to a score.
    """
    X = X.dataset if y is None and isinstance(X, DataLoader) else X
    if y is None and isinstance(X, Mapping | Dataset):
        X, y, _ = read_items(X, None, (), n_workers=n_workers)
    if y is None:
        raise LabelsError("score needs labels. Pass score(X, y), or a Dataset whose items have labels.")
    return X, y


def _column(values: Any) -> Any:
    """Return an entry of a dict as array, tensor or list, whichever can be indexed by number."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    if isinstance(values, list | tuple):
        try:
            return np.asarray(values)
        except ValueError:  # rows of different lengths
            return list(values)
    return np.asarray(values)


def _parts_of(item: Any) -> tuple[Any, Any, Any]:
    """Return inputs, label and environment of an item; None for a label or environment that is not there."""
    if isinstance(item, Mapping):
        names = {*LABEL_KEYS, *ENVIRONMENT_KEYS}
        label = next((item[key] for key in LABEL_KEYS if key in item), None)
        environment = next((item[key] for key in ENVIRONMENT_KEYS if key in item), None)
        return {name: value for name, value in item.items() if name not in names}, label, environment
    if isinstance(item, tuple):
        if not 1 <= len(item) <= 3:
            raise FeaturesError(
                f"An item of X has {len(item)} parts. Items must be (x, y), (x, y, environment), a dict, or x alone."
            )
        return (*item, None, None)[:3]
    return item, None, None


def _plain(value: Any) -> Any:
    """Return a label as a plain value."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if np.prod(value.shape) != 1:
            raise LabelsError(f"A label or environment in X has shape {tuple(value.shape)}. Each must be one value.")
        return value.item()
    return value


def as_tensor(value: Any, *, n_axes: int = 0, entry: str | None = None) -> Tensor:
    """Return one row, or one `entry` of it, as a tensor: integers stay integers, all else becomes float32.

    8-bit images are divided by 255; pictures of pillow get their channels first. `n_axes` of the value come before
    those of a row: 1 for a batch.
    """
    if isinstance(value, str | bytes) or (isinstance(value, list) and value and isinstance(value[0], str)):
        what = "An item of X" if entry is None else f"Entry {entry!r} of an item of X"
        name = "" if entry is None else " The entry with the site must be called 'environment'."
        raise FeaturesError(
            f"{what} contains text ({value!r:.40}). Turn it into token numbers first, for example with a "
            f"tokenizer, or pass a list of texts as X.{name}"
        )
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if hasattr(value, "getbands") and array.ndim == 3:  # height × width × channels
            array = np.moveaxis(array, -1, 0)
        if array.dtype.kind not in "fiub":
            raise FeaturesError(f"An item of X contains {type(value).__name__}, expected numbers, arrays or tensors.")
        value = torch.from_numpy(np.array(array))  # a copy: views may be read-only
    tensor: Tensor = value
    if tensor.dtype == torch.uint8 and tensor.ndim > 1 + n_axes:
        return tensor.float() / 255
    if tensor.dtype == torch.bool:
        return tensor
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def collate(items: Sequence[Any]) -> Inputs:
    """Return the inputs of several items as one batch; sequences of different lengths end with zeros."""
    if not isinstance(items[0], Mapping):
        return _stack([as_tensor(item) for item in items], "X")
    missing = [name for item in items for name in items[0].keys() ^ item.keys()]
    if missing:
        raise FeaturesError(f"Items of X differ in their keys: {missing[0]!r} is in some of them only.")
    return {name: _stack([as_tensor(item[name], entry=name) for item in items], repr(name)) for name in items[0]}


def _stack(tensors: Sequence[Tensor], name: str) -> Tensor:
    if len({tensor.shape for tensor in tensors}) == 1:
        return torch.stack(list(tensors))
    if all(tensor.ndim == 1 for tensor in tensors):
        return pad_sequence(list(tensors), batch_first=True)
    shapes = sorted({tuple(tensor.shape) for tensor in tensors})[:2]
    raise FeaturesError(
        f"Items of {name} have different shapes, for example {shapes[0]} and {shapes[1]}. Resize them in the Dataset "
        "or by a row_transform, or pass a collate_fn."
    )


def _merge(parts: Sequence[Any]) -> Any:
    """Return several batches as one."""
    if isinstance(parts[0], dict):
        return {name: _merge([part[name] for part in parts]) for name in parts[0]}
    longest = max(part.shape[1] for part in parts) if parts[0].ndim == 2 else 0
    return torch.cat([pad_tensor(part, (0, longest - part.shape[1])) if longest else part for part in parts])


@dataclass(frozen=True, eq=False)
class ItemReader:
    """Reads items by number; what worker processes get."""

    items: Any
    row_transform: Callable[[Any], Any] | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    only_labels: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the rows are those of a dict, as they are."""
        return isinstance(self.items, dict) and self.row_transform is None and self.collate_fn is None

    def read(self, numbers: Rows, seeds: Sequence[int] | None) -> Any:
        """Return items as a batch, as a list for a `collate_fn`, or their labels; each item draws from its own seed."""
        if self.is_plain and not any(isinstance(values, list) for values in self.items.values()):
            batch = {name: as_tensor(values[numbers], n_axes=1, entry=name) for name, values in self.items.items()}
            return _refuse_infinite(batch, numbers)
        found = []
        for place, number in enumerate(numbers.tolist()):
            if seeds is not None:
                _seed_all(seeds[place])
            if self.only_labels:
                found.append(tuple(_plain(part) for part in _parts_of(self.items[number])[1:]))
            else:
                found.append(self._inputs(number))
        if self.only_labels or self.collate_fn is not None:
            return found
        return _refuse_infinite(collate(found), numbers)

    def _inputs(self, number: int) -> Any:
        items = self.items
        if isinstance(items, dict):
            inputs: Any = {name: values[number] for name, values in items.items()}
        else:
            item = items[number]
            inputs = torch.from_numpy(np.array(item)) if isinstance(items, np.ndarray) else _parts_of(item)[0]
        return inputs if self.row_transform is None else self.row_transform(inputs)


def _refuse_infinite(batch: Inputs, numbers: Rows) -> Inputs:
    """Return the batch, or name the first row that contains NaN or infinity."""
    for name, values in batch.items() if isinstance(batch, dict) else [("", batch)]:
        if values.is_floating_point() and not torch.isfinite(values).all():
            bad = ~torch.isfinite(values).flatten(1).all(1) if values.ndim > 1 else ~torch.isfinite(values)
            row = values[int(bad.nonzero()[0])]
            what = "NaN" if torch.isnan(row).any() else "infinity"
            where = f", entry {name!r}," if name else ""
            raise FeaturesError(
                f"Row {int(numbers[int(bad.nonzero()[0])])} of X{where} contains {what}. Drop the row, or replace the "
                "value."
            )
    return batch


_reader: ItemReader | None = None  # of a worker process


def _start_worker(reader: ItemReader) -> None:
    global _reader
    torch.set_num_threads(1)
    _reader = reader


def _read_in_worker(numbers: Rows, seeds: Sequence[int] | None) -> Any:
    assert _reader is not None
    return _reader.read(numbers, seeds)


@contextlib.contextmanager
def _reading(reader: ItemReader, n_workers: int) -> Iterator[Callable[[Rows, Sequence[int] | None], Any]]:
    """Yield a function that reads items, the rows of each call divided among the workers."""
    if not n_workers:
        yield reader.read
        return
    context = torch.multiprocessing.get_context()
    with ProcessPoolExecutor(n_workers, context, initializer=_start_worker, initargs=(reader,)) as pool:

        def read(numbers: Rows, seeds: Sequence[int] | None) -> Any:
            parts = [part for part in np.array_split(np.arange(len(numbers)), n_workers) if len(part)]
            own = [None if seeds is None else [seeds[i] for i in part] for part in parts]
            try:
                answers = list(pool.map(_read_in_worker, [numbers[part] for part in parts], own))
            except BrokenProcessPool as problem:
                raise FeaturesError(
                    f"A worker that read X ended without an answer, perhaps because memory ran out. Use fewer than "
                    f"n_workers={n_workers}."
                ) from problem
            return [item for part in answers for item in part] if isinstance(answers[0], list) else _merge(answers)

        yield read


def _seed_all(seed: int) -> None:
    """Seed what random transforms draw from."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (transforms of other packages draw from it)


def _random_states() -> tuple[Any, ...]:
    """Return where the generators stand that random transforms draw from."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), state[2]


@contextlib.contextmanager
def _keeping_random_states() -> Iterator[None]:
    """Put the random states of the process back after the block."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with RandomStream().borrowing():
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


class ItemSource(RowSource):
    """Items of a Dataset, a dict or an array, read when they are asked for, in this process or by workers.

    Random transforms draw from seeds that depend on the batch and the row: the same training reads the same, however
    many workers there are, and evaluations are repeatable.
    """

    def __init__(
        self,
        rows: ItemRows,
        *,
        row_transform: Callable[[Any], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        n_workers: int = 0,
    ) -> None:
        self._rows = rows.rows
        self._reader = ItemReader(rows.items, row_transform, collate_fn)
        self._n_workers = n_workers
        self._read: Callable[[Rows, Sequence[int] | None], Any] = self._reader.read
        self._is_random = False
        if not len(rows):
            raise FeaturesError("X has 0 rows, but at least one is needed.")
        if self._reader.is_plain:
            first = self.take(slice(0, 1))
        else:  # code of the user may draw
            with _keeping_random_states():
                _seed_all(0)
                before = _random_states()
                first = self.take(slice(0, 1))
                self._is_random = before != _random_states()
        self.row_shape = _for_each(lambda tensor: tuple(tensor.shape[1:]), first)

    def __len__(self) -> int:
        return len(self._rows)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read with the workers inside the block."""
        with _reading(self._reader, self._n_workers) as self._read:
            try:
                yield
            finally:
                self._read = self._reader.read

    def take(self, rows: Rows | slice, draw: int = 0) -> Inputs:
        """Return the rows as tensors; random transforms give the same for the same `draw`."""
        numbers = self._rows[rows]
        if not self._is_random:
            found = self._read(numbers, None)
        else:
            seeds = np.random.SeedSequence((draw, 0)).generate_state(1, np.uint64)[0] ^ numbers.astype(np.uint64)
            with _keeping_random_states():
                found = self._read(numbers, [int(seed) & (2**63 - 1) for seed in seeds])
        if self._reader.collate_fn is not None:
            found = self._reader.collate_fn(found)
            found = dict(found) if isinstance(found, Mapping) else found
        return _for_each(_channels_last, found)  # type: ignore[no-any-return]


def _for_each(change: Callable[[Tensor], Any], inputs: Inputs) -> Any:
    """Return what a function gives for a tensor, or for each tensor of a dict."""
    return {name: change(part) for name, part in inputs.items()} if isinstance(inputs, dict) else change(inputs)


def moved(inputs: Inputs, device: torch.device) -> Inputs:
    """Return inputs on a device."""
    return _for_each(lambda tensor: tensor.to(device), inputs)  # type: ignore[no-any-return]


def make_source(X: Any, vocabulary: Vocabulary | None = None, **options: Any) -> RowSource:
    """Return the rows of X as a source; texts (str, or lists of str tokens) need a vocabulary.

    `options` are those of `ItemSource`, for rows that are read one by one: a Dataset, a dict, or an array with a
    transform.
    """
    if vocabulary is not None:
        texts = [vocabulary.encode(text) for text in X]

        def encoded(rows: Rows | slice) -> Tensor:
            return pad(texts[rows] if isinstance(rows, slice) else [texts[row] for row in rows])

        return RowSource(len(texts), (len(vocabulary),), encoded)
    if isinstance(X, ItemRows):
        return ItemSource(X, **options)
    if options.get("row_transform") is not None and isinstance(X, np.ndarray):
        return ItemSource(ItemRows(X), **options)
    if sp.issparse(X):  # rows become dense a batch at a time
        matrix: Any = sp.csr_array(cast("Any", X))
        return RowSource(matrix.shape[0], (matrix.shape[1],), lambda rows: _as_floats(matrix[rows].toarray()))
    if is_lazy(X):  # decoded a batch at a time, such as colored or compressed images
        return RowSource(len(X), tuple(X.shape[1:]), lambda rows: _as_floats(X.dense(rows)))
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return _array_source(np.asarray(X))
    raise InputTypeError(
        "X must be an array, a memory map, a sparse matrix, a frame or a list of texts. "
        f"Got {type(X).__name__} instead."
    )


def _array_source(array: NDArray[Any]) -> RowSource:
    """Return the rows of an array; indexing a memory map through it reads only those rows."""
    if array.dtype.kind not in "fiub":
        raise FeaturesError(f"X must contain numbers. Got an array of dtype {array.dtype}.")
    scale = 1 / 255 if array.dtype == np.uint8 and array.ndim > 2 else None

    def take(rows: Rows | slice) -> Tensor:
        # A slice is a view, perhaps of read-only memory: it is copied, as fancy indexing does anyway.
        tensor = _as_floats(array[rows].astype(np.float32, order="C", copy=isinstance(rows, slice)))
        return tensor if scale is None else tensor.mul_(scale)

    return RowSource(len(array), tuple(array.shape[1:]), take)


def _as_floats(array: NDArray[Any]) -> Tensor:
    return _channels_last(torch.from_numpy(np.asarray(array, dtype=np.float32)))
