"""Named independent random streams from one integer seed.

Nobody else in the package touches global random state: a stream is asked for by name, so adding a consumer never
shifts the numbers that another one draws.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np

from holdfast.exceptions import ParameterError

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None


class Seeding:
    """Named random streams that all derive from one `random_state`.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        An integer makes every stream repeatable. None draws fresh entropy once.

    Examples
    --------
    >>> a, b = Seeding(7), Seeding(7)
    >>> a.generator("batches").integers(100) == b.generator("batches").integers(100)
    np.True_
    """

    def __init__(self, random_state: RandomState = None) -> None:
        if random_state is None:
            self.seed = int(np.random.SeedSequence().entropy % 2**32)  # type: ignore[operator]
        elif isinstance(random_state, np.random.Generator):
            self.seed = int(random_state.integers(2**32))
        elif isinstance(random_state, np.random.RandomState):
            self.seed = int(random_state.randint(2**32, dtype=np.uint32))
        elif isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
            self.seed = int(random_state)
        else:
            raise ParameterError(
                f"The 'random_state' parameter must be a non-negative integer, a RandomState, a Generator or None. "
                f"Got {random_state!r} instead."
            )

    def _sequence(self, *names: object) -> np.random.SeedSequence:
        digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
        return np.random.SeedSequence([self.seed, *np.frombuffer(digest[:16], dtype=np.uint32).tolist()])

    def integer(self, *names: object) -> int:
        """Return a repeatable 32-bit integer for the stream `names` (for another library's `random_state`)."""
        return int(self._sequence(*names).generate_state(1)[0])

    def generator(self, *names: object) -> np.random.Generator:
        """Return a numpy generator for the stream `names`."""
        return np.random.default_rng(self._sequence(*names))

    def child(self, *names: object) -> Seeding:
        """Return the streams of a part of the work, independent of every other part's."""
        return Seeding(self.integer("child", *names))
