"""What `sweep` and `reproduce` share: progress on stderr, failures at the end."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.terminal import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.lab.execution import Estimate, Progress, SweepResult
    from holdfast.lab.grids import PlannedRun
    from holdfast.reports.values import Table as ReportTable

ProcessesOption = Annotated[
    int, typer.Option("--jobs", help="Processes, each with one thread; 0: none but this one.", min=0, metavar="N")
]

RecordsOption = Annotated[
    Path | None, typer.Option("--records", help="Also write the compact records (JSON lines).", metavar="FILE")
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", help="Also write the tables as Markdown.", metavar="FILE")
]

FinishedOption = Annotated[bool, typer.Option("--finished", help="Make no run; show what is finished.")]
RetoldOption = Annotated[
    Path | None, typer.Option("--from", help="Run nothing: the tables of these compact records.", metavar="FILE")
]


@contextmanager
def showing_progress() -> Iterator[Callable[[Progress], None]]:
    """Show how far a sweep has come: a status line on a terminal, elsewhere a line for everything that is new."""
    if not sys.stderr.isatty():
        told = set()

        def tell(progress: Progress) -> None:
            news = (progress.last, progress.n_done, progress.n_failed)
            if news not in told:  # a sweep that waits for another one looks every second
                told.add(news)
                note(progress_line(progress))

        yield tell
        return
    from rich.console import Console

    with Console(stderr=True).status("sweep …") as status:
        yield lambda progress: status.update(progress_line(progress))


def progress_line(progress: Progress) -> str:
    """Return counts, times and what happened last, in one line."""
    counts = f"done {progress.n_done} of {progress.n_runs}, running {progress.n_running}, left {progress.n_left}"
    failed = f", failed {progress.n_failed}" if progress.n_failed else ""
    times = f"{format_seconds(progress.elapsed)} gone, about {format_seconds(progress.remaining)} to go"
    return f"{counts}{failed}; {times}; {progress.last}"


def format_seconds(seconds: float) -> str:
    """Return a duration as people say it.

    Examples
    --------
    >>> [format_seconds(value) for value in (5, 150, 7320)]
    ['5 s', '2 min 30 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def end(result: SweepResult, folder: Path) -> None:
    """List the runs that failed, and leave with exit code 1 if there are any."""
    if not result.failures:
        return
    told = any((folder / "failed" / f"{run.config.identity}.json").exists() for run, _ in result.failures)
    where = f"; what happened is in {folder / 'failed'}" if told else ""
    note(f"{len(result.failures)} of {result.n_runs} runs failed{where}:")
    for run, message in result.failures:
        note(f"  {run.config.identity}  {run.name}, seed {run.config.seed}: {message}")
    raise typer.Exit(1)


def write_records(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write compact records, one a line; NaN as null."""
    from holdfast.lab.reproduction import compact
    from holdfast.saving.files import write_bytes
    from holdfast.saving.json_files import canonical_json

    lines = [canonical_json(_plain(compact(dict(record)))) for record in records]
    write_bytes(path, b"".join(line + b"\n" for line in lines))


def write_tables(tables: Iterable[ReportTable], path: Path) -> None:
    """Write tables as Markdown, one after the other."""
    from holdfast.reports.tables import to_markdown
    from holdfast.saving.files import write_bytes

    write_bytes(path, ("\n\n".join(map(to_markdown, tables)) + "\n").encode())


def write_markdown(title: str, rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows of named values as a Markdown table under its title."""
    from holdfast.reports.values import Table

    columns = tuple(rows[0]) if rows else ()
    write_tables([Table(title, columns, tuple(tuple(row.values()) for row in rows))], path)


def _plain(value: Any) -> Any:
    """Return the value with NaN as None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    from holdfast.lab.execution import estimate
    from holdfast.lab.store import RunStore

    store = RunStore(out) if out.is_dir() else None
    records = store.records(damaged="skip") if store is not None else []
    waiting = tuple(run for run in runs if store is None or not store.has(run.config.identity))
    return Waiting(len(runs), waiting, estimate(waiting, records), jobs)
