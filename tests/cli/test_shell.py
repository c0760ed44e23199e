import errno
import subprocess
import sys

import pytest

import holdfast as package
from holdfast.exceptions import StorageError


def test_help_loads_nothing_heavy():
    """`holdfast --help` answers without torch, scikit-learn, pandas, numpy or pyarrow."""
    script = (
        "import sys\nfrom holdfast.cli import app\n"
        "try:\n    app(['--help'], prog_name='holdfast')\n"
        "except SystemExit as end:\n    print(end.code)\n"
        "print(sorted({'torch', 'sklearn', 'pandas', 'numpy', 'pyarrow', 'scipy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["0", "[]"]
    assert done.stderr == ""


def test_help_names_every_command(holdfast):
    """Alone, and with --help, the commands are listed."""
    for args in ([], ["--help"]):
        outcome = holdfast(*args)
        assert outcome.code == 0
        for command in ("demo", "fit", "predict", "evaluate", "partition"):
            assert f"\n  {command} " in outcome.out
        assert max(map(len, outcome.out.splitlines())) <= 80


def test_version(holdfast):
    """The version is the package's."""
    assert holdfast("--version").out == f"holdfast {package.__version__}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fti"], "error: No such command 'fti'. Did you mean 'fit'? See 'holdfast --help'.\n"),
        (["fit"], "error: Missing argument 'TABLE'. See 'holdfast fit --help'.\n"),
        (
            ["partition", "a", "--label", "b", "--environment", "c"],
            "error: Missing option '--out'. See 'holdfast partition --help'.\n",
        ),
    ],
)
def test_wrong_calls_are_one_line_and_code_2(holdfast, args, message):
    """A call that does not fit is answered in one line on stderr."""
    outcome = holdfast(*args)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == message


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (StorageError("The disk is\nfull."), 1, "error: The disk is full.\n"),
        (ZeroDivisionError("division by zero"), 1, "error: ZeroDivisionError: division by zero\n"),
        (
            MemoryError(),
            1,
            "error: There is not enough memory. Leave columns out, or take a sample of the rows.\n",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/disk/p.csv"),
            1,
            "error: /disk/p.csv: Read-only file system. Check the path and whether it may be written.\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_failures_have_their_exit_code(holdfast, monkeypatch, tmp_path, problem, code, message):
    """A failing disk or a bug is code 1 with one line, an interrupt code 130."""

    def fail(*args, **kwargs):
        raise problem

    monkeypatch.setattr("holdfast.lab.hospitals.run_hospitals", fail)
    outcome = holdfast("demo", "--out", tmp_path / "demo")
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err == f"fitting 1 of 22: hospitals\n{message}"


def test_debug_shows_the_whole_story(holdfast, monkeypatch, tmp_path):
    """With HOLDFAST_DEBUG set the exception itself is raised."""
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert holdfast("predict", tmp_path / "none", "t.csv", "--out", tmp_path / "p.csv").code == 1
