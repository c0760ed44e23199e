import random

import numpy as np
import pytest

from holdfast.exceptions import ParameterError
from holdfast.seeding import Seeding


def draws(seeding: Seeding, *names: object) -> list[int]:
    """Return the first five numbers of a stream."""
    return seeding.generator(*names).integers(1000, size=5).tolist()


def test_streams_are_the_same_in_every_release():
    """The numbers of a seed and a name are fixed: a change here moves every published result."""
    assert Seeding(7).integer("batches") == 2359758876
    assert draws(Seeding(7), "batches", "site A") == [897, 191, 361, 978, 296]
    assert Seeding(7).child("stage 1").seed == 3410965577


def test_equal_seeds_give_equal_streams():
    """Two objects with one seed agree on every kind of stream."""
    first, second = Seeding(7), Seeding(np.int64(7))
    assert draws(first, "batches") == draws(second, "batches")
    assert first.integer("dropout") == second.integer("dropout")


def test_asking_for_one_stream_never_shifts_another():
    """A stream depends on its name, not on what was asked for before."""
    seeding = Seeding(7)
    undisturbed = draws(Seeding(7), "batches")
    seeding.generator("weights").random(100)
    seeding.child("stage 1")
    assert draws(seeding, "batches") == undisturbed


@pytest.mark.parametrize("other", [("weights",), ("batches", "a"), ("bat", "ches"), ()])
def test_other_names_give_other_streams(other):
    """Names differ as wholes: neither a prefix nor another way to cut the letters gives the same stream."""
    assert draws(Seeding(7), *other) != draws(Seeding(7), "batches")


def test_other_seeds_give_other_streams():
    """A thousand seeds give a thousand different integers for one name."""
    assert len({Seeding(seed).integer("batches") for seed in range(1000)}) == 1000


def test_streams_of_one_seed_are_uncorrelated():
    """Two names of the same seed draw independent numbers: |correlation| < 4 / sqrt(n)."""
    seeding, n_draws = Seeding(0), 10_000
    first, second = (seeding.generator(name).standard_normal(n_draws) for name in ("first", "second"))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(n_draws)


def test_child_streams_differ_from_the_parents_and_each_others():
    """The same name in a child means another stream."""
    parent = Seeding(7)
    streams = [draws(seeding, "batches") for seeding in (parent, parent.child("a"), parent.child("b"))]
    assert streams[0] != streams[1] != streams[2] != streams[0]
    assert draws(Seeding(7).child("a"), "batches") == streams[1]


def test_none_draws_fresh_entropy_once():
    """Without a seed two objects differ, and one object agrees with itself."""
    first, second = Seeding(None), Seeding()
    assert first.seed != second.seed
    assert draws(first, "batches") == draws(first, "batches")


def test_generator_and_random_state_are_advanced_once():
    """A Generator or RandomState gives another seed each time it is handed in, repeatably."""
    generators = [np.random.default_rng(3), np.random.default_rng(3)]
    first, second = ([Seeding(generator).seed for _ in range(2)] for generator in generators)
    assert first == second
    assert first[0] != first[1]
    states = [np.random.RandomState(3), np.random.RandomState(3)]
    assert Seeding(states[0]).seed == Seeding(states[1]).seed


def test_global_random_state_is_left_alone():
    """Neither Python's, numpy's nor torch's global stream moves."""
    torch = pytest.importorskip("torch")
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002  the state that must not move
    python_state, torch_state = random.getstate(), torch.get_rng_state()
    seeding = Seeding(7)
    seeding.generator("a").random(10)
    seeding.integer("b")
    seeding.child("c")
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tolist() == numpy_state  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, [7]])
def test_unusable_random_state_is_named(bad):
    """The message says what may be passed and what came."""
    with pytest.raises(ParameterError, match="'random_state' parameter must be a non-negative integer") as caught:
        Seeding(bad)
    assert str(caught.value).endswith(f"Got {bad!r} instead.")
