import importlib.util
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
    """Below its title an example has fewer than 60 lines (the tutorial more); it never warns and shows something."""
    code = example.read_text(encoding="utf-8").split('"""', maxsplit=2)[2]
    assert len(code.splitlines()) < (150 if example.stem == "tutorial" else 60)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/algorithm.md"])
def test_shown_code_prints_the_numbers_beside_it(page, tmp_path, monkeypatch, capsys):
    """The accuracies in the comment are those that come out, ERM's first."""
    code = shown_code(page)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "hospitals.py"))  # the tables of the README's example
    capsys.readouterr()
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
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "hospitals.py"))
    capsys.readouterr()
    (tmp_path / "shown.py").write_text(code)
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


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_the_page_about_boosters_runs(tmp_path, monkeypatch, capsys):
    """Its code, from top to bottom, with XGBoost; the part with Optuna where that is installed."""
    pytest.importorskip("xgboost")
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/how-to/boosters.md").read_text(encoding="utf-8"), re.DOTALL
    )
    if importlib.util.find_spec("optuna") is None:
        blocks = [block for block in blocks if "optuna" not in block]
    (tmp_path / "shown.py").write_text("\n".join(blocks))
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path("shown.py")
    assert capsys.readouterr().out.startswith("['scanner']\naccuracy at each site left out: [")
    assert len(found["nested"]["test_score"]) == 3


def test_the_page_about_files_runs(tmp_path, monkeypatch, capsys):
    """A file with semicolons, decimal commas and another encoding becomes a classifier."""
    (tmp_path / "shown.py").write_text(shown_code("docs/how-to/files.md"))
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path("shown.py")
    assert "export.csv is read as separated by semicolons, with decimal commas" in capsys.readouterr().out
    assert found["model"].roles_.known == ("Zürich", "Genève")


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_a_network_of_skorch_is_an_estimator_as_any_other():
    """As the page about boosters says: inside methods that do not weight rows."""
    skorch = pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    from holdfast import StableClassifier

    rng = np.random.default_rng(0)
    X, sites = rng.normal(size=(120, 3)).astype(np.float32), np.repeat(["a", "b", "c"], 40)
    y = (X[:, 0] > 0).astype(np.int64)
    net = skorch.NeuralNetClassifier(
        torch.nn.Linear, module__in_features=3, module__out_features=2, max_epochs=5, lr=0.5
    )
    net.set_params(criterion=torch.nn.CrossEntropyLoss, verbose=0, train_split=None)
    assert (StableClassifier(net).fit(X, y, environments=sites).predict(X) == y).mean() > 0.8
