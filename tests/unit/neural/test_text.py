"""Vocabularies and tokens."""

import numpy as np
import pytest

from holdfast.exceptions import FeaturesError, InputTypeError, ParameterError
from holdfast.neural.sources import Vocabulary, pad, tokenize


def test_tokens_are_split_at_whitespace_only():
    """Artificial tokens survive; lower-casing is an option; token lists pass."""
    assert tokenize("Good <art_positive>\tBeer ") == ["Good", "<art_positive>", "Beer"]
    assert tokenize(["Good", "Beer"], lowercase=True) == ["good", "beer"]
    with pytest.raises(InputTypeError, match="must be a str or a list of str tokens. Got float instead"):
        tokenize(float("nan"))


def test_vocabulary_keeps_frequent_words():
    """Words below min_count become the unknown word; the numbers do not depend on the order of the texts."""
    texts = ["a b b", "b c", "c"]
    vocabulary = Vocabulary.build(texts, min_count=2)
    assert vocabulary.tokens == ("b", "c")
    assert vocabulary == Vocabulary.build(reversed(texts), min_count=2)
    assert vocabulary.encode("a b c").tolist() == [1, 2, 3]
    assert len(vocabulary) == 4


def test_vocabulary_refuses_doubles():
    """A token has one number."""
    with pytest.raises(ParameterError, match="must not contain a token twice"):
        Vocabulary(("a", "a"))


def test_vectors_are_zero_where_unknown():
    """Padding, the unknown word and words without a vector are zero."""
    vectors = Vocabulary(("a", "b")).vectors({"b": np.array([1.0, 2.0])})
    assert vectors.tolist() == [[0, 0], [0, 0], [0, 0], [1, 2]]
    assert Vocabulary(("a",)).vectors(None) is None
    with pytest.raises(ParameterError, match="word vectors are empty"):
        Vocabulary(("a",)).vectors({})


def test_padding_of_empty_texts():
    """A batch of empty texts still has one column; no texts at all are refused."""
    assert pad([np.array([], dtype=np.int32)]).tolist() == [[0]]
    with pytest.raises(FeaturesError, match="X has 0 texts"):
        pad([])
