"""Texts as token numbers: whitespace tokens, a vocabulary with a minimum count, padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.exceptions import FeaturesError, InputTypeError, ParameterError

PADDING, UNKNOWN, N_RESERVED = 0, 1, 2


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
    """Numbers for tokens: 0 pads, 1 stands for every unknown word, the tokens follow in their order."""

    tokens: tuple[str, ...]
    lowercase: bool = False
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {token: number for number, token in enumerate(self.tokens, start=N_RESERVED)}
        if len(numbers) < len(self.tokens):
            raise ParameterError("A vocabulary must not hold a token twice.")
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
    """Return the token numbers as one (n_rows, longest) int64 tensor, zeros behind the shorter ones."""
    if len(rows) == 0:
        raise FeaturesError("X has 0 texts, but at least one is needed.")
    longest = max(1, max(len(row) for row in rows))
    padded = np.full((len(rows), longest), PADDING, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)
