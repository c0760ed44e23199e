"""The command line: the only package that prints. Results go to stdout, progress and errors to stderr.

Exit codes: 0 done, 1 the run failed, 2 the input does not fit (one line says why), 130 interrupted.
Each command is one module; nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import sys

import typer

from holdfast.cli.audit import audit
from holdfast.cli.compare import compare
from holdfast.cli.data import data
from holdfast.cli.demo import demo
from holdfast.cli.diagnose import diagnose
from holdfast.cli.doctor import doctor
from holdfast.cli.evaluate import evaluate
from holdfast.cli.export import export
from holdfast.cli.fit import fit
from holdfast.cli.options import one_by_one
from holdfast.cli.partition import partition
from holdfast.cli.predict import predict
from holdfast.cli.report import report
from holdfast.cli.reproduce import reproduce
from holdfast.cli.sweep import sweep
from holdfast.cli.terminal import INTERRUPTED, Shell, start
from holdfast.cli.theory import theory

app = typer.Typer(
    cls=Shell,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts faster and reads well in a pipe
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.callback(invoke_without_command=True)(start)
for command in (
    demo,
    diagnose,
    fit,
    predict,
    evaluate,
    compare,
    audit,
    report,
    export,
    partition,
    data,
    sweep,
    reproduce,
    theory,
    doctor,
):
    app.command()(one_by_one(command))


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="holdfast")
    except KeyboardInterrupt:  # before the command has begun, or after its end
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
