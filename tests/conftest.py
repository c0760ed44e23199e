"""What every test may rely on: one thread, no window, repeatable examples, and tiny environments made by hand."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from typing import NamedTuple

# Before anybody imports numpy or torch: the suite runs one process for each core.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np  # noqa: E402  the thread counts come first
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

# A busy machine is no failure, and a failure must come back on the next run.
settings.register_profile("holdfast", deadline=None, derandomize=True)
settings.load_profile("holdfast")

# A shell lets what it starts in the background ignore Ctrl-C, and its children too: tests interrupt children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after pytest's own summary
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[None]:
    """Say in the last lines what was not run, and what runs it."""
    yield
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    tools = sorted(set(re.findall(r"could not import '(\w+)", "\n".join(reasons))))
    terminalreporter.section("not run")
    marked = [name for name in ("slow", "network") if f"not {name}" in config.option.markexpr]
    for name in marked:
        terminalreporter.write_line(f"Tests marked {name}: ./scripts/test -m {name}")
    if tools:
        terminalreporter.write_line(f"Tests of {', '.join(tools)}, not installed: ./scripts/test --extras")
    if reasons:
        terminalreporter.write_line(f"Skipped tests: {len(reasons)}. The summary above has the reason of each.")
    elif not marked:
        terminalreporter.write_line("Nothing was left out.")


class TinyEnvironments(NamedTuple):
    """Rows of three environments, in blocks of 40."""

    X: NDArray[np.float64]  # (120, 2) columns: stable, unstable; entries -1 and 1
    y: NDArray[np.int64]  # (120,) 0 and 1, half and half in each environment
    environments: NDArray[np.str_]  # (120,) "a", "b", "c"


@pytest.fixture
def tiny_environments() -> TinyEnvironments:
    """Return rows whose stable column is right for 30 of 40 rows everywhere, the unstable one for 38, 36 and 32.

    Both columns are wrong together in 0, 2 and 2 rows of a, b and c. Every count is the same for either label.
    """
    blocks = []
    # For each label: (stable, unstable) right = 1 or wrong = -1, with how many of the label's 20 rows are like this.
    for name, both_right, only_stable, only_unstable, both_wrong in (
        ("a", 14, 1, 5, 0),
        ("b", 14, 1, 4, 1),
        ("c", 12, 3, 4, 1),
    ):
        agreement = np.repeat(
            [[1, 1], [1, -1], [-1, 1], [-1, -1]], [both_right, only_stable, only_unstable, both_wrong], axis=0
        )
        for label in (0, 1):
            blocks.append((agreement * (2 * label - 1), np.full(20, label), np.full(20, name)))
    X, y, environments = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return TinyEnvironments(X.astype(float), y, environments)
