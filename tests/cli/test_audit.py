import numpy as np
import pandas as pd
import pytest

OPTIONS = ("--label", "grade", "--environment", "site")


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """Write 800 slides: a stain follows the grade nine times in ten at Lyon, four times at Oslo; a lesion always."""
    file = tmp_path_factory.mktemp("slides") / "slides.csv"
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=800)
    follows = generator.random(800) < np.repeat([0.9, 0.4], 400)
    stain = np.where(follows, y, 1 - y)
    pd.DataFrame(
        {
            "site": np.repeat(["Lyon", "Oslo"], 400),
            "slide": [f"s{number}" for number in range(800)],
            "lesion": 2 * y - 1 + generator.normal(size=800).round(3),
            "stain": np.where(stain == 1, "red", "blue"),
            "remark": np.where(stain == 1, "slide looks pale", "slide looks dark"),
            "scanner": generator.choice(["A", "B"], size=800),
            "grade": np.where(y == 1, "high", "low"),
        }
    ).to_csv(file, index=False)
    return file


def test_what_changes_is_named(holdfast, slides):
    """The stain is named, the lesion is not, and sentence, evidence and findings agree."""
    result = holdfast("audit", slides, *OPTIONS, "--drop", "remark", "--drop", "slide", "--json").json
    assert (result["n_rows"], result["environments"]) == (800, ["Lyon", "Oslo"])
    assert result["named"] == ["stain"]
    assert result["answer"] == "The effect of `stain` differs between sites (1 of 3 columns)."
    assert result["sentences"][0] == result["answer"]
    assert {f["feature"] for f in result["findings"] if f["named"]} == set(result["named"])
    assert "relied_on" not in result
    assert [column["feature"] for column in result["verdict"]["columns"]] == result["named"]
    plain = holdfast("audit", slides, *OPTIONS, "--drop", "remark", "--drop", "slide").out
    said = "What `fit` does about it: Stable classifier: the effect of `stain` differs between sites (probab"
    assert said in " ".join(plain.split())


def test_words_and_attributes_are_audited(holdfast, slides):
    """A word is found by itself; as an attribute the stain is audited though judges do not see it."""
    words = holdfast("audit", slides, *OPTIONS, "--drop", "stain", "--text", "remark", "--json").json
    assert words["named"][0] in ("remark: pale", "remark: dark")
    options = ("--drop", "remark", "--attribute", "stain")
    result = holdfast("audit", slides, *OPTIONS, *options, "--json").json
    seen = {finding["feature"]: finding["is_input"] for finding in result["findings"]}
    assert seen["stain"] is False
    assert seen["lesion"] is True
    assert result["named"] == ["stain"]


def test_text_fits_80_columns(holdfast, slides, tmp_path):
    """The sentence, the evidence, then a row for each feature with the named ones marked; no evidence is said."""
    outcome = holdfast("audit", slides, *OPTIONS, "--drop", "remark", "--drop", "slide")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Next: ")) <= 80
    assert lines[0] == "The effect of `stain` differs between sites (1 of 3 columns)."
    assert "stain: log-odds of low for one standard deviation" in lines
    assert "Columns without evidence of a change" in lines
    frame = pd.read_csv(slides).drop(columns=["stain", "remark", "slide"])
    frame.to_csv(tmp_path / "stable.csv", index=False)
    stable = holdfast("audit", tmp_path / "stable.csv", *OPTIONS)
    assert stable.code == 0
    assert stable.out.startswith(
        "None of 2 columns is likely to have an effect that differs between Lyon, Oslo\n(largest"
    )


def test_a_model_is_audited_with_what_it_relies_on(holdfast, hospitals):
    """PI holds on to the marker and ERM to the scanner, which is named; the two stand side by side."""
    folders = (hospitals.folder / "pi", hospitals.many, "--baseline", hospitals.folder / "erm")
    result = holdfast("audit", *folders, "--json").json
    assert result["named"] == ["scanner"]
    relied_on = result["relied_on"]
    assert list(relied_on["accuracies"]) == ["pi", "erm"]
    columns = {column["column"]: column for column in relied_on["columns"]}
    assert {name: column["named"] for name, column in columns.items()} == {
        "marker": False,
        "scanner": True,
        "sex": False,
    }
    assert columns["marker"]["falls"]["pi"] > 0.1 > columns["scanner"]["falls"]["pi"]
    text = holdfast("audit", *folders).out
    assert "\nWhat the classifiers rely on: accuracy lost if a column is shuffled\n" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("Next: ")) <= 80


def test_all_findings_are_written(holdfast, slides, tmp_path):
    """A table with a row for each finding, or a page with the sentences."""
    base = ("audit", slides, *OPTIONS, "--drop", "remark", "--out")
    outcome = holdfast(*base, tmp_path / "all.csv")
    assert f"\nWrote {tmp_path / 'all.csv'}.\n" in outcome.out
    frame = pd.read_csv(tmp_path / "all.csv")
    assert frame["feature"][0] == "stain"
    assert sorted(frame["feature"][1:]) == ["lesion", "scanner", "slide"]
    assert holdfast(*base, tmp_path / "page.html", "--json").json["out"] == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Audit of slides.csv" in page
    assert "<code>stain</code>" in page


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["{slides}"], "A table needs --label, the name of a column. See 'holdfast audit --help'."),
        (["{slides}", "--label", "grade"], "A table needs --environment, the name of a column. See 'holdfast audit"),
        (["{slides}", "--label", "grad", "--environment", "site"], "has no column 'grad'. Did you mean 'grade'?"),
        (["{slides}", *OPTIONS, "--attribute", "site"], "Column 'site' is the label or an environment; it cannot be"),
        (["{slides}", "{slides}"], "is not a folder that 'holdfast fit' wrote. Pass a model and a table, or a table."),
        (["{slides}", *OPTIONS, "--baseline", "x"], "--baseline needs a saved model. Pass a model and a table"),
        (["{slides}", *OPTIONS, "--out", "a.xls"], "--out a.xls is of the unknown type '.xls'. Use one of .csv, .tsv"),
        (["{slides}", *OPTIONS, "--text", "slide"], "Text column 'slide' has no word that at least 10 rows have"),
        (["{model}"], "is a folder. To audit a saved model pass a table too: holdfast audit "),
        (["{model}", "{slides}"], "has no column 'diagnosis'. Choose from 'site', 'slide', "),
        (
            ["{model}", "{slides}", "--label", "grade"],
            "--label cannot be used with a saved model, which knows its columns.",
        ),
        (["{folder}", "{slides}"], "is not a saved model: manifest.json is missing."),
    ],
)
def test_what_does_not_fit_is_one_line(holdfast, hospitals, slides, args, message):
    """Missing options, columns that are not there and folders that are no models are named."""
    places = {"slides": slides, "model": hospitals.folder / "pi", "folder": slides.parent}
    outcome = holdfast("audit", *(arg.format(**places) for arg in args))
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_one_environment_cannot_be_audited(holdfast, slides, tmp_path):
    """There is nothing that could have changed."""
    pd.read_csv(slides).query("site == 'Lyon'").to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("audit", tmp_path / "t.csv", *OPTIONS)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "note: column 'slide' has 400 levels, none in 5 rows or more: all count as one\n"
        "note: `slide` has 400 different texts: it looks like an identifier.\n"
        "error: Column 'site' has only one value, so no effects can be compared. "
        "Pass rows of at least two sites.\n"
    )
