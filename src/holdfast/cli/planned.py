"""What `--dry-run` tells: the runs that are still to be made, and about how long they take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.sweeping import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.experiments.estimates import Estimate
    from holdfast.experiments.grids import PlannedRun


@dataclass(frozen=True)
class Waiting:
    """Runs that are not finished."""

    n_runs: int  # with the finished ones
    runs: tuple[PlannedRun, ...]
    estimate: Estimate
    jobs: int

    @property
    def total(self) -> float:
        """Seconds until all are made."""
        return self.estimate.seconds / max(self.jobs, 1)

    def as_json(self) -> dict[str, Any]:
        """Return the runs with their settings, and the seconds."""
        runs = [
            {"identity": run.config.identity, "name": run.name, "config": run.config.as_dict()} for run in self.runs
        ]
        return {"n_runs": self.n_runs, "seconds": self.total, "runs": runs}

    def print_total(self) -> None:
        """Print how many runs are to be made, and how long that takes."""
        print(f"\n{len(self.runs)} of {self.n_runs} runs are to be made, in about {format_seconds(self.total)}")
        if self.estimate.n_guessed:
            print(f"({self.estimate.n_guessed} of them guessed: no run like them is finished).")


def find_waiting(runs: Sequence[PlannedRun], out: Path, jobs: int) -> Waiting:
    """Return the runs that a folder of records does not have yet; nothing is written there."""
    from holdfast.experiments.estimates import estimate
    from holdfast.experiments.store import RunStore

    store = RunStore(out) if out.is_dir() else None
    records = store.records(damaged="skip") if store is not None else []
    waiting = tuple(run for run in runs if store is None or not store.has(run.config.identity))
    return Waiting(len(runs), waiting, estimate(waiting, records), jobs)
