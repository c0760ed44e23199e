"""Numbers below 1e-38 taken for zero.

Weight decay drives unused weights there, and processors are tens of times slower with such numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

_forked = False  # in a forked process the threads of its parent are gone, and waiting for them would never end
_IN_THREAD = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@contextlib.contextmanager
def without_denormals(*, all_threads: bool = False) -> Iterator[None]:
    """Take numbers below 1e-38 for zero inside the block.

    Parameters
    ----------
    all_threads : bool, default=False
        In torch's other threads too, where their library (OpenMP) can be reached; else in the calling thread alone.
    """
    was_on = torch.tensor(1e-39).item() == 0.0
    _flush(True, all_threads)
    try:
        yield
    finally:
        _flush(was_on, all_threads)


def _flush(on: bool, all_threads: bool) -> None:
    """Set the mode: it belongs to a thread, and torch sets the calling one's."""
    torch.set_flush_denormal(on)
    n_threads = torch.get_num_threads()
    run = _parallel() if all_threads and n_threads > 1 and not _forked else None
    if run is not None:

        def in_thread(_: Any) -> None:
            torch.set_flush_denormal(on)

        run(_IN_THREAD(in_thread), None, n_threads, 0)


@cache
def _parallel() -> Callable[..., None] | None:
    """Return OpenMP's call that runs a function in every thread of torch's pool; None where it is not there."""
    libraries = Path(torch.__file__).parent / "lib"
    for path in sorted(libraries.glob("libgomp*")):
        with contextlib.suppress(OSError, AttributeError):
            run = ctypes.CDLL(str(path)).GOMP_parallel
            run.argtypes, run.restype = [_IN_THREAD, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return run
    return None


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
