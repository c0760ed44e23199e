import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast import PIClassifier

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def shown_code(page, place=0):
    """Return a Python block of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[place]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_is_short(example, tmp_path, monkeypatch, capsys):
    """Every example has fewer than 60 lines, runs without a warning and shows something."""
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_shown_code_prints_the_numbers_beside_it(page, tmp_path, monkeypatch, capsys):
    """The accuracies in the comment are those that come out, ERM's first."""
    code = shown_code(page)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shown.py").write_text(code)
    runpy.run_path("shown.py")
    printed = re.findall(r"^\w+Classifier (0\.\d+)$", capsys.readouterr().out, re.MULTILINE)
    expected = re.search(r"# (0\.\d+), (0\.\d+)\n", code).groups()
    assert [float(number) for number in printed] == pytest.approx([float(number) for number in expected], abs=0.01)


@pytest.mark.parametrize("page", ["README.md", "docs/stable.md"])
def test_shown_output_is_what_the_code_prints(page, tmp_path, monkeypatch, capsys):
    """The block of text after the code is its output, apart from where lines are broken."""
    text = (ROOT / page).read_text(encoding="utf-8")
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    (tmp_path / "shown.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("shown.py")
    assert capsys.readouterr().out.split() == output.split()


def test_hospitals_example_shows_the_price_and_the_gain(tmp_path, monkeypatch, capsys):
    """ERM fails at the new hospital, PI does not; at the known one it is the other way round."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "hospitals.py"))
    known, new = zip(*re.findall(r"known hospital (\S+), new hospital (\S+)", capsys.readouterr().out), strict=True)
    assert float(known[0]) > float(known[1]) + 0.1
    assert float(new[1]) > float(new[0]) + 0.6
    assert (tmp_path / "hospitals.csv").is_file()


def test_the_memory_map_of_the_own_data_page_is_fitted_like_the_table(tmp_path, monkeypatch):
    """The page's last block runs beside the example's files, and its classifier is that of the rows in memory."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "hospitals.py"))
    code = shown_code("docs/how-to/own-data.md", place=-1)
    (tmp_path / "shown.py").write_text(code.replace("\nPIClassifier", "\nclassifier = PIClassifier"))
    found = runpy.run_path("shown.py")
    table = pd.read_csv("hospitals.csv")
    X = table[["marker", "scanner"]].to_numpy(dtype=float)
    expected = PIClassifier().fit(X, table["diagnosis"], environments=table["site"])
    np.testing.assert_allclose(found["classifier"].predict_proba(X), expected.predict_proba(X), atol=1e-6)
