import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.lab.experiments import read_experiment
from holdfast.lab.store import RunStore

TOY = """
name = "small"
seeds = [0, 1]
[run]
dataset = "toy"
estimator = "logistic"
[[methods]]
name = "ERM"
method = "erm"
[[methods]]
name = "PI"
method = "pi"
"""


@pytest.fixture
def file(tmp_path):
    """Return an experiment of four quick runs."""
    path = tmp_path / "small.toml"
    path.write_text(TOY)
    return path


def test_sweep_makes_each_run_once(holdfast, file, tmp_path):
    """The first call makes all runs and tunes; the second makes none; progress goes to stderr."""
    outcome = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0, "--json")
    assert outcome.code == 0
    assert (outcome.json["n_runs"], outcome.json["n_new"], outcome.json["failures"]) == (4, 4, [])
    best = {(row["method"], row["validation"]): row for row in outcome.json["best"]}
    assert best["PI", "train"]["seeds"] == 2
    assert best["PI", "train"]["test accuracy"] == pytest.approx(0.8)
    assert outcome.err.splitlines()[0].startswith(
        "done 0 of 4, running 1, left 3; 0 s gone, about 20 s to go; ERM seed 0"
    )
    again = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0)
    assert again.code == 0
    assert again.out.startswith("small: 4 of 4 runs are done, 0 of them new.")


def test_a_study_chooses_the_runs(holdfast, file, tmp_path):
    """Optuna asks for two of three points with both seeds; the command again makes none; records are the store's."""
    pytest.importorskip("optuna")
    grid = 'estimator = "logistic"\nbatch_size = [10, 20, 40]\n'
    file.write_text(TOY.replace('estimator = "logistic"\n', grid) + '[search]\nsampler = "optuna"\ntrials = 2\n')
    command = ("sweep", file, "--out", tmp_path / "out", "--jobs", 0, "--json")
    first, again = holdfast(*command).json, holdfast(*command).json
    assert (first["n_runs"], first["n_new"], again["n_runs"], again["n_new"]) == (8, 8, 8, 0)
    assert {(row["points"], row["seeds"]) for row in first["best"]} == {(2, 2)}
    assert again["best"] == first["best"]
    assert (tmp_path / "out" / "optuna.journal").is_file()
    assert len(RunStore(tmp_path / "out").records()) == 8


def test_what_is_finished_can_be_shown(holdfast, file, tmp_path):
    """Nothing is made; the counts say how far it is."""
    outcome = holdfast("sweep", file, "--out", tmp_path / "out", "--finished")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("small: 0 of 4 runs are done, 0 of them new.\n\nNext: ")


def test_failed_runs_are_listed_and_the_exit_code_is_1(holdfast, file, tmp_path):
    """A run that cannot be made is named at the end; the others are done."""
    file.write_text(TOY + '[[methods]]\nname = "IRM"\nmethod = "irm"\n')
    outcome = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0)
    assert outcome.code == 1
    assert "small: 4 of 6 runs are done, 4 of them new." in outcome.out
    lines = outcome.err.splitlines()
    assert f"2 of 6 runs failed; what happened is in {tmp_path / 'out'}/failed:" in lines
    assert "IRM, seed 1: ParameterError: The 'estimator' parameter of IRMClassifier" in lines[-1]


def test_records_of_other_data_are_left_out_of_the_tables(holdfast, tmp_path):
    """A finished run whose file has changed is listed, not told, also by --finished; nothing points to a story."""
    rows = [f"{'ab'[i % 2]},{i % 3},{i % 2 if i % 5 else 1 - i % 2}" for i in range(60)]
    (tmp_path / "own.csv").write_text("site,x,y\n" + "\n".join(rows))
    (tmp_path / "own.toml").write_text('file = "own.csv"\nlabel = "y"\nenvironment = "site"\n')
    file = tmp_path / "sweep.toml"
    data = '"table"\ndataset_options = { config = "own.toml" }\nvalidations = ["train"]'
    file.write_text(TOY.replace('"toy"', data).replace("[0, 1]", "[0]"))
    options = [file, "--out", tmp_path / "out", "--data", tmp_path]
    assert holdfast("sweep", *options, "--jobs", 0).code == 0
    (tmp_path / "own.csv").write_text("site,x,y\n" + "\n".join(rows[::-1]))
    for more in (["--jobs", 0], ["--finished"]):
        outcome = holdfast("sweep", *options, *more)
        assert outcome.code == 1
        assert outcome.out.startswith("small: 0 of 2 runs are done, 0 of them new.\n\nNext: ")
        failures = outcome.err.splitlines()[-3:]
        assert failures[0] == "2 of 2 runs failed:"
        assert "ERM, seed 0: finished, but own.csv has changed since. Use another --out, or delete " in failures[1]


def test_waiting_for_another_sweep_is_told_once(holdfast, file, tmp_path):
    """A run that another sweep has in work is named, but not every second again."""
    identity = read_experiment(file).runs[0].config.identity
    claim = RunStore(tmp_path / "out").claim(identity)
    assert claim.__enter__()
    release = threading.Timer(3.5, lambda: claim.__exit__(None, None, None))
    release.start()
    outcome = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0)
    release.join()
    assert outcome.code == 0
    assert sum("ERM seed 0: another sweep is running it" in line for line in outcome.err.splitlines()) <= 2


def test_a_damaged_record_costs_its_own_run_alone(holdfast, file, tmp_path):
    """It is listed with what to do, the others are told, and the grid can still be shown."""
    options = [file, "--out", tmp_path / "out", "--jobs", 0]
    assert holdfast("sweep", *options).code == 0
    record = min((tmp_path / "out" / "runs").glob("*.json"))
    record.write_bytes(record.read_bytes().replace(b"0", b"1", 1))
    assert holdfast("sweep", *options, "--dry-run").code == 0
    outcome = holdfast("sweep", *options)
    assert outcome.code == 1
    assert outcome.out.startswith("small: 3 of 4 runs are done, 0 of them new.")
    assert f"finished, but its record is damaged. Restore {record}, or delete it to run again" in outcome.err
    record.unlink()
    assert holdfast("sweep", *options).code == 0


def test_dry_run_prints_the_grid_and_makes_nothing(holdfast, file, tmp_path):
    """The grid comes with an estimate; no folder is created."""
    outcome = holdfast("sweep", file, "--out", tmp_path / "out", "--dry-run")
    assert outcome.code == 0
    assert outcome.out.startswith("small: 4 of 4 runs are left and take about 20 s")
    assert not (tmp_path / "out").exists()
    listed = holdfast("sweep", file, "--out", tmp_path / "out", "--dry-run", "--json").json
    assert [run["name"] for run in listed["runs"]] == ["ERM", "ERM", "PI", "PI"]


def test_the_grid_says_what_differs_and_what_is_shared(holdfast, file, tmp_path):
    """A line for each point with its own settings and its seeds; what all share stands once above, nothing is cut."""
    file.write_text(TOY.replace('"toy"', '"toy"\nlearning_rate = [0.01, 0.1]').replace('"logistic"', '"mlp"'))
    lines = holdfast("sweep", file, "--out", tmp_path / "out", "--dry-run").out.splitlines()
    assert "settings of all runs: dataset=toy" in lines  # mlp is the default
    first = lines.index("runs that are left") + 1
    assert [line.split() for line in lines[first : first + 5]] == [
        ["method", "learning_rate", "seeds"],
        ["ERM", "0.01", "0,", "1"],
        ["ERM", "0.1", "0,", "1"],
        ["PI", "0.01", "0,", "1"],
        ["PI", "0.1", "0,", "1"],
    ]


def test_names_and_settings_of_results_fit_a_narrow_terminal(holdfast, file, tmp_path, monkeypatch):
    """At 80 columns names stay whole, and the chosen settings stand below the scores."""
    monkeypatch.setenv("COLUMNS", "80")
    file.write_text(TOY.replace('"PI"', '"PI, soft halves"\nmethod_options = { halves = "soft" }'))
    lines = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0).out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Next: ")) <= 80
    assert any(line.split()[-4:] == ["spread", "worst", "group", "seeds"] for line in lines)
    assert sum(line.startswith("  PI, soft halves  t") for line in lines) == 2  # scored with both validations
    below = " ".join(" ".join(lines[lines.index("chosen settings") :]).split())
    assert "PI, soft halves, validation like train: method_options={'halves': 'soft'}; one fit 0." in below


def test_the_guides_example_shows_that_pi_helps(holdfast, tmp_path):
    """docs/how-to/run-a-sweep.md shows a file of the project as it is, and results that the first seed agrees with."""
    project = Path(__file__).parents[2]
    content = (project / "experiments" / "digits.toml").read_text(encoding="utf-8")
    guide = (project / "docs" / "how-to" / "run-a-sweep.md").read_text(encoding="utf-8")
    assert f"```toml\n{content}```" in guide
    file = tmp_path / "digits.toml"
    file.write_text(content.replace("seeds = [0, 1, 2]", "seeds = [0]"))
    best = holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", 0, "--json").json["best"]
    for row in best:
        if row["validation"] == "train":
            shown = re.search(rf"^  {row['method']} +train +(0\.\d+)", guide, flags=re.MULTILINE)
            assert row["test accuracy"] == pytest.approx(float(shown.group(1)), abs=0.07)


def test_an_unknown_key_is_one_line(holdfast, file, tmp_path):
    """A mistake in the file ends with exit code 2 and says what was meant."""
    file.write_text(TOY.replace("seeds", "sedes"))
    outcome = holdfast("sweep", file, "--out", tmp_path / "out")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"error: {file} has an unknown key 'sedes'. Did you mean 'seeds'?\n"


def is_alive(pid):
    """Return whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_interrupted_sweeps_leave_no_process(file, tmp_path):
    """Ctrl-C ends the sweep and its workers; the exit code is 130."""
    slow = 'max_epochs = 5000\nestimator = "mlp"\nselection = "last"'
    file.write_text(TOY.replace('estimator = "logistic"', slow))
    command = [
        sys.executable,
        "-c",
        "from holdfast.cli import main; main()",
        "sweep",
        str(file),
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert "started" in process.stderr.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=60) == 130
        assert process.stderr.read().splitlines()[-1] == "interrupted"
        assert children
        deadline = time.monotonic() + 20  # what helps to start processes leaves a moment after its parent
        while any(map(is_alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [child for child in children if is_alive(child)]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_dry_run_says_which_data_set_cannot_be_loaded(holdfast, tmp_path):
    """Each is loaded once before hours of other runs; the exit code is 1."""
    file = tmp_path / "sweep.toml"
    file.write_text('name = "x"\n[run]\ndataset = "colored_mnist"\n[[methods]]\nname = "ERM"\nmethod = "erm"\n')
    command = ("sweep", file, "--out", tmp_path / "out", "--data", tmp_path / "empty", "--dry-run")
    outcome = holdfast(*command)
    assert outcome.code == 1
    assert "Data set 'colored_mnist' cannot be loaded" in " ".join(outcome.err.split())
    assert not (tmp_path / "out").exists()


def test_tables_are_written_as_latex(holdfast, file, tmp_path):
    """As for --markdown."""
    holdfast("sweep", file, "--out", tmp_path / "out", "--jobs", "0", "--latex", tmp_path / "table.tex")
    text = (tmp_path / "table.tex").read_text(encoding="utf-8")
    assert text.startswith(r"\begin{table}")
    assert r"\bottomrule" in text
