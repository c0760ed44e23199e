"""The reference page of the command line, made of every command's own help: `python -m holdfast.cli.reference`."""

from __future__ import annotations

import re

import typer
from typer.testing import CliRunner

from holdfast.cli import app

HEAD = """# Command line

Made by `python -m holdfast.cli.reference > docs/reference/cli.md`; a test keeps it true.

Results go to stdout, progress, notes and warnings to stderr. `--json` prints one JSON object instead of text, with
fractions as numbers, NaN as null and all warnings under `warnings`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the run failed: a full disk, a diverged fit, a bug; one line on stderr (`HOLDFAST_DEBUG=1` shows the traceback) |
| 2 | the input does not fit; one line on stderr, `error: …`, says what was asked, what came and what to do |
| 130 | interrupted |
"""


def reference() -> str:
    """Return the page as Markdown."""
    names = list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    parts = [HEAD, _section("holdfast", "--help"), *(_section(f"holdfast {name}", name, "--help") for name in names)]
    return "\n".join(parts)


def _section(title: str, *args: str) -> str:
    result = CliRunner().invoke(app, list(args), prog_name="holdfast", env={"COLUMNS": "80"})
    text = re.sub(r"[ \t]+\n", "\n", result.stdout).strip()
    return f"## {title}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
