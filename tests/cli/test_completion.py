import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash completes here")


def run_bash(script, home):
    """Run bash with a `holdfast` on its path, and a home of its own."""
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    command = folder / "holdfast"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "HOME": str(home), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bash_completes_commands_and_options_after_the_installation(tmp_path):
    """`--install-completion` changes the user's .bashrc; bash then completes commands, options and nothing unknown."""
    said = run_bash("holdfast --install-completion bash", tmp_path)
    assert "bash completion installed" in said
    assert (tmp_path / ".bashrc").read_text().strip()
    completing = """
        source ~/.bashrc
        complete -p holdfast
        for line in "holdfast di" "holdfast fit --lab" "holdfast nothing-like-it"; do
            COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
            _holdfast_completion holdfast
            echo "${COMPREPLY[*]}"
        done
    """
    registered, *found = run_bash(completing, tmp_path).splitlines()
    assert registered.endswith("-F _holdfast_completion holdfast")
    assert [line.strip() for line in found] == ["diagnose", "--label", ""]
