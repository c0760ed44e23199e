"""The command line: the only package that prints. Results go to stdout, progress and errors to stderr.

Exit codes: 0 done, 1 the run failed, 2 the input does not fit (one line says why), 3 the advice
changed (`check` of several periods), 130 interrupted.
Each command is one module; nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from holdfast.cli.options import one_by_one
from holdfast.cli.terminal import INTERRUPTED, Shell, start

# Each is a module of this package, with a function of the same name; in the order of the help.
COMMANDS = (
    *("demo", "diagnose", "fit", "check", "predict", "adapt", "recalibrate", "evaluate", "compare", "audit"),
    *("report", "export", "partition", "data", "sweep", "reproduce", "theory", "doctor"),
)

app = typer.Typer(
    cls=Shell,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts faster and reads well in a pipe
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.callback(invoke_without_command=True)(start)
for name in COMMANDS:
    app.command()(one_by_one(getattr(import_module(f"holdfast.cli.{name}"), name)))


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="holdfast")
    except KeyboardInterrupt:  # before the command has begun, or after its end
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
