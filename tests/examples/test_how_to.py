"""The pages of docs/how-to run as they are: blocks that begin with a file's name are written to it, the others run."""

import re
import runpy
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def run_page(name, folder, monkeypatch):
    """Run all Python blocks of a page in a folder, one after the other, and return what they defined."""
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / name).read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    script = []
    for block in blocks:
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (folder / named[1]).write_text(block, encoding="utf-8")
            sys.modules.pop(named[1][:-3], None)
        else:
            script.append(block)
    (folder / "page.py").write_text("\n".join(script), encoding="utf-8")
    return runpy.run_path("page.py")


def test_own_network(tmp_path, monkeypatch, capsys):
    """A network and a Dataset get the verdict that the page says; what was saved answers the same."""
    run_page("own-network.md", tmp_path, monkeypatch)
    out = capsys.readouterr().out.splitlines()
    page = (PAGES / "own-network.md").read_text(encoding="utf-8")
    said = page.split("```text\n")[1].split("\n```")[0].splitlines()
    assert len(out) == len(said) + 1
    for line, shown in zip(out, said, strict=False):
        assert re.sub(r"\d\.\d+", "", line) == re.sub(r"\d\.\d+", "", shown)
    accuracy, same = out[-1].split()
    assert float(accuracy) > 0.65  # the color is right in 10 % of these rows
    assert same == "True"


@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # MLflow warns of itself when it is imported
def test_trackers(tmp_path, monkeypatch, capsys):
    """A fit is logged to MLflow, and the model that comes back answers the same; wandb writes its own folder."""
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("wandb").teardown()  # it keeps the folders of the first run in a process
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    run_page("trackers.md", tmp_path, monkeypatch)
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert capsys.readouterr().out.splitlines() == ["True"]
    assert "price" in mlflow.search_runs(experiment_names=["wards"], output_format="list")[0].data.metrics


def test_deploy(tmp_path, monkeypatch):
    """The web service of the page answers like the classifier, and says what is wrong with a row."""
    fastapi = pytest.importorskip("fastapi")
    import pandas as pd

    from holdfast import TableClassifier

    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(PAGES.parents[1] / "examples" / "hospitals.py"))
    table = pd.read_csv("hospitals.csv")
    model = TableClassifier(label="diagnosis", environment="site").fit(table)
    model.save("model")
    run_page("deploy.md", tmp_path, monkeypatch)
    predict = runpy.run_path("service.py")["predict"]
    rows = [{"marker": 1.0, "scanner": 0.0}, {"marker": 0.0, "scanner": 0.0}]
    answers = predict(rows)
    assert [answer["label"] for answer in answers] == model.predict(pd.DataFrame(rows)).tolist()
    assert sum(answers[0]["probabilities"].values()) == pytest.approx(1)
    with pytest.raises(fastapi.HTTPException, match="scanner"):
        predict([{"marker": 1.0}])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")  # two epochs teach a tiny network little
def test_backbones(tmp_path, monkeypatch, capsys):
    """Tiny networks on texts and on a folder of pictures, frozen and fine-tuned, with nothing downloaded."""
    pytest.importorskip("transformers")
    run_page("backbones.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out.splitlines()[-3:] == ["True", "(200,)", "['north' 'south'] (80,) (80,)"]


def test_new_site(tmp_path, monkeypatch, capsys):
    """Check, adapt, recalibrate and evaluate: the advice is to adapt, and accuracy rises from 0.75 to about 0.9."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(PAGES.parents[1] / "examples" / "hospitals.py"))
    capsys.readouterr()
    found = run_page("new-site.md", tmp_path, monkeypatch)
    out = capsys.readouterr().out
    assert out.startswith(
        "Adapt the model to this site before you use it. `scanner` agrees with the label in 9% ± 4% of these rows"
    )
    assert "Adapted to 1,000 rows without labels" in out
    accuracies = [
        found[name].evaluate(found["rest"]).overall.accuracy.value for name in ("model", "adapted", "corrected")
    ]
    assert accuracies[0] == pytest.approx(0.75, abs=0.03)
    assert min(accuracies[1:]) > 0.88
