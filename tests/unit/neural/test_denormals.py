"""Numbers below 1e-38 count as zero while a network trains, in every thread, and not afterwards."""

import subprocess
import sys

import pytest
import torch

from holdfast.neural.settings import _parallel, without_denormals

# Two threads share the work, the first of them was there before; then the same in a forked process, where the second
# is gone and must not be waited for. The pool of a process cannot be taken back, hence a process of its own.
TWO_THREADS = """
import os, signal, torch
from holdfast.neural.settings import without_denormals

torch.set_num_threads(2)
tiny = torch.full((1_000_000,), 2.0**-128)
share = lambda: (tiny * 1.0 == 0).double().mean().item()
shares = [share()]
with without_denormals():
    shares.append(share())
with without_denormals(all_threads=True):
    shares.append(share())
shares.append(share())
print(shares, flush=True)
if os.fork() == 0:
    signal.alarm(20)
    with without_denormals(all_threads=True):
        print("child", (torch.tensor(2.0**-126) * 0.25).item(), flush=True)
    os._exit(0)
print("ended", os.wait()[1])
"""


def test_denormals_are_zero_inside_the_block_alone():
    """Numbers below 1e-38 vanish while a network trains, and are back afterwards, also after an error."""
    tiny = torch.tensor(2.0**-128) * 1.0
    assert tiny.item() > 0
    with without_denormals():
        assert (torch.tensor(2.0**-126) * 0.25).item() == 0.0
        with without_denormals():
            pass
        assert (torch.tensor(2.0**-126) * 0.25).item() == 0.0
    assert (torch.tensor(2.0**-126) * 0.25).item() == 2.0**-128
    with pytest.raises(ValueError, match="stop"), without_denormals():
        raise ValueError("stop")
    assert (torch.tensor(2.0**-126) * 0.25).item() == 2.0**-128


@pytest.mark.skipif(_parallel() is None, reason="torch's threads cannot be reached here")
def test_all_threads_take_them_for_zero():
    """The calling thread's half alone without the option, all of it with it; a fork neither hangs nor fails."""
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["[0.0, 0.5, 1.0, 0.0]", "child 0.0", "ended 0"]
