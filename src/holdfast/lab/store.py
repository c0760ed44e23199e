"""The folder of run records: a run is claimed while it is executed, and is never executed twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from holdfast.exceptions import SavedModelError
from holdfast.saving.files import check_writable, locked, storage_errors
from holdfast.saving.json_files import read_record, write_record


class RunStore:
    """A folder of runs, shared by any number of sweeps.

    ``runs/`` has a record for each finished run, ``failed/`` one for each that failed at its last attempt, ``claims/``
    a lock for each run that is being made, ``checkpoints/`` the state of its trainings. The system releases the lock of
    a process that dies, so its run is free again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        with storage_errors(self.folder):
            for name in ("runs", "failed", "claims"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        check_writable(self.path("probe"))

    def path(self, identity: str) -> Path:
        """Return where a run's record is or will be."""
        return self.folder / "runs" / f"{identity}.json"

    def failure_path(self, identity: str) -> Path:
        """Return where a failed run's record is or would be."""
        return self.folder / "failed" / f"{identity}.json"

    def checkpoints(self, identity: str) -> Path:
        """Return where the trainings of a run that is being made keep their state."""
        return self.folder / "checkpoints" / identity

    def has(self, identity: str) -> bool:
        """Return whether the run is finished."""
        return self.path(identity).exists()

    def read(self, identity: str) -> dict[str, Any] | None:
        """Return a finished run's record, every byte checked, or None."""
        return read_record(self.path(identity)) if self.has(identity) else None

    def records(self, *, damaged: Literal["refuse", "skip"] = "refuse") -> list[dict[str, Any]]:
        """Return all finished runs, in the order of their identities."""
        found = []
        for path in sorted((self.folder / "runs").glob("*.json")):
            try:
                found.append(read_record(path))
            except SavedModelError:
                if damaged == "refuse":
                    raise
        return found

    @contextlib.contextmanager
    def claim(self, identity: str) -> Iterator[bool]:
        """Claim a run for this process; False where another one has it."""
        path = self.folder / "claims" / f"{identity}.lock"
        with locked(path, timeout=0) as mine:
            try:
                yield mine
            finally:
                # Whoever waits for the lock finds the record when it gets it.
                if mine and self.has(identity):
                    with contextlib.suppress(OSError):  # some systems keep files that are open
                        path.unlink()

    def write(self, identity: str, record: dict[str, Any]) -> None:
        """Keep a finished run."""
        write_record(self.path(identity), record)
        self.failure_path(identity).unlink(missing_ok=True)

    def write_failure(self, identity: str, record: dict[str, Any]) -> None:
        """Keep why a run failed; the next sweep tries it again."""
        write_record(self.failure_path(identity), record, overwrite=True)
        if self.has(identity):  # another process has finished it meanwhile
            self.failure_path(identity).unlink(missing_ok=True)
