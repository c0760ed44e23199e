import pandas as pd
import pytest

STAGES = ["Stage 1: judges", "Stage 2: halves", "Stage 3: risks"]


def test_report_of_a_saved_classifier(holdfast, hospitals, tmp_path):
    """A folder alone tells its stages; the page stands where it was asked for."""
    page = tmp_path / "page.html"
    outcome = holdfast("report", hospitals.folder / "pi", "--out", page, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["sections"] == ["The data by environment", *STAGES, "How this was made"]
    assert outcome.json["bytes"] == page.stat().st_size < 200_000
    assert "<title>pi in pi</title>" in page.read_text(encoding="utf-8")


def test_report_with_tables(holdfast, hospitals, tmp_path):
    """Its table brings correlations and the audit, other rows and classifiers the comparison; files come on request."""
    page, assets = tmp_path / "page.html", tmp_path / "assets"
    outcome = holdfast(
        "report", hospitals.folder / "pi", "--table", hospitals.train, "--test", hospitals.test,
        "--compare", hospitals.folder / "erm", "--attribute", "visit", "--out", page, "--assets", assets,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    text = " ".join(outcome.out.split())
    # The answer comes first, then what was written; 200 rows of a site are little evidence.
    assert text.startswith("None of 5 columns is likely to have an effect that differs between Boston, Chicago")
    assert (
        "What each classifier relies on, Accuracy by environment, What clinical studies report, What changes between "
        "environments, The data by environment, Every feature, Stage 1: judges" in text
    )
    names = sorted(file.name for file in assets.iterdir())
    assert any(name.endswith("-attributes-correlation-with-label-well.svg") for name in names)
    (features,) = assets.glob("*-features-correlation-with-label-well.csv")
    table = pd.read_csv(features)
    assert {"scanner=B", "marker"} <= set(table.columns)
    assert table["rows"][:3].str.startswith("Boston").all()
    content = page.read_text(encoding="utf-8")
    assert "environment Denver (new)" in content
    assert hospitals.train.name in content.partition("How this was made")[2], "the page says which table it is about"
    assert '<th scope="col" class="number">erm</th>' in content


def test_report_is_not_overwritten(holdfast, hospitals, tmp_path):
    """An older page stays, unless --overwrite says otherwise; DIR.html is the default."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (hospitals.folder / "pi").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert holdfast("report", copy).code == 0
    assert (tmp_path / "copy.html").is_file()
    outcome = holdfast("report", copy)
    assert (outcome.code, "exists. Choose another file, or pass --overwrite" in outcome.err) == (2, True)
    assert holdfast("report", copy, "--overwrite").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "page.pdf"], "--out page.pdf is of the unknown type '.pdf'. Use one of .html, .htm."),
        (["--out", "nowhere/page.html"], "is in a folder that does not exist"),
        (["--compare", "erm"], "--compare needs rows to compare on. Pass --test TABLE too."),
    ],
)
def test_options_that_do_not_fit(holdfast, hospitals, tmp_path, monkeypatch, options, message):
    """One line says what is wrong."""
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in options else ["--out", tmp_path / "page.html"]
    outcome = holdfast("report", hospitals.folder / "pi", *options, *out)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_another_table_is_refused(holdfast, hospitals, tmp_path):
    """Rows that cannot be those of the fit are refused before anything is drawn from them."""
    outcome = holdfast("report", hospitals.folder / "pi", "--table", hospitals.test, "--out", tmp_path / "page.html")
    assert outcome.code == 2
    assert "Pass the rows it was fitted on, in the same order." in outcome.err


def test_report_of_runs(holdfast, tmp_path):
    """A folder of records is told over its seeds; options of tables do not go with it."""
    from holdfast.lab.experiments import parse_run
    from holdfast.lab.store import RunStore

    store = RunStore(tmp_path / "sweep")
    for seed, accuracy in ((0, 0.5), (1, 0.7)):
        config = parse_run({"dataset": "toy", "method": "pi", "seed": seed, "estimator": "logistic"})
        test = {"accuracy": accuracy, "n_rows": 10, "environments": {"eta=1": accuracy}}
        found = {"selection": "one fit", "epoch": None, "value": 0.8, "history": [], "test": test}
        record = {"config": config.as_dict(), "seconds": 1.0, "settings": {"train": found}, "warnings": []}
        store.write(config.identity, record)
    outcome = holdfast("report", tmp_path / "sweep", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["sections"] == ["Comparison", "How this was made"]
    assert "0.600 [-0.671, 1.871]" in (tmp_path / "sweep.html").read_text(encoding="utf-8")
    outcome = holdfast("report", tmp_path / "sweep", "--overwrite", "--table", "x.csv")
    assert (outcome.code, outcome.err.strip().endswith("so --table cannot be used with it. Leave it out.")) == (2, True)


def test_fit_writes_a_report(holdfast, hospitals, tmp_path):
    """`fit --report` tells the fit with its table, its notes and the audit."""
    page = tmp_path / "fit.html"
    outcome = holdfast(
        "fit", hospitals.folder / "many.csv", *hospitals.fit_options, "--drop", "note", "--out", tmp_path / "model",
        "--report", page,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert f"\nWrote the report {page}.\n" in outcome.out
    content = page.read_text(encoding="utf-8")
    assert "<title>many.csv: stable with logistic</title>" in content
    assert "What changes between environments" in content
    outcome = holdfast("report", tmp_path / "model", "--json")
    assert outcome.json["verdict"]["text"].startswith(outcome.json["answer"])
    assert outcome.json["answer"].startswith("Stable classifier: the effect of `scanner` differs")
    outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, "--out", tmp_path / "other", "--report", page)
    assert (outcome.code, (tmp_path / "other").exists()) == (2, False)
