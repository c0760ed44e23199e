import json
from pathlib import Path

import pytest

from holdfast.cli.reproduce import NAMES
from holdfast.lab.targets import TARGETS

FILES = Path(__file__).parents[2] / "experiments"
KEPT = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return one folder of records for all targets."""
    return tmp_path_factory.mktemp("out")


def test_the_help_names_every_target():
    """The names on the command line are those of the registry."""
    assert tuple(TARGETS) == NAMES


@pytest.mark.parametrize(
    "target", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("table1", "ablation"))) for name in NAMES]
)
def test_every_target_runs_at_a_small_size(holdfast, out, target):
    """Quick targets work on synthetic data; the second call re-uses every record."""
    outcome = holdfast("reproduce", target, "--quick", "--out", out)
    assert outcome.code == 0, outcome.err
    assert "missing" not in outcome.err
    assert TARGETS[target].title in " ".join(outcome.out.split())
    again = holdfast("reproduce", target, "--quick", "--out", out, "--json")
    assert again.code == 0
    assert "started" not in again.err
    assert again.json["missing"] == []
    assert again.json["tables"][0]["rows"]


def test_toy_reaches_the_papers_values(holdfast, out):
    """The halves have correlations 1 and -1, and PI keeps 0.8 where the unstable feature flips."""
    tables = holdfast("reproduce", "toy", "--quick", "--out", out, "--json").json["tables"]
    assert [row["ours"] for row in tables[0]["rows"]] == pytest.approx([1.0, -1.0, 0.0])
    accuracy = {row["method"]: row["eta=1"] for row in tables[1]["rows"]}
    assert accuracy == pytest.approx({"ERM": 0.0, "DRO": 0.0, "PI": 0.8, "oracle": 0.8})


def test_irm_has_a_table_for_each_kind_of_validation_rows(holdfast, out):
    """Every penalty weight is a row of both; what one selects need not be what the other does."""
    tables = holdfast("reproduce", "irm", "--quick", "--out", out, "--json").json["tables"]
    assert [table["title"].rpartition("; ")[2] for table in tables] == [
        "validation as test",
        "validation as training",
    ]
    assert [[row["penalty weight"] for row in table["rows"]] for table in tables] == [["0.01", "10", "10000"]] * 2


def test_a_reproduction_writes_a_page(holdfast, out, tmp_path):
    """--report writes one HTML file with the target's tables."""
    page = tmp_path / "toy.html"
    assert holdfast("reproduce", "toy", "--out", out, "--report", page).code == 0
    assert "Correlation of x2 and y" in page.read_text(encoding="utf-8")


def test_table2_as_json(holdfast, out, tmp_path):
    """Rows carry the four correlations; compact records and Markdown are written beside them."""
    options = ("--records", tmp_path / "records.jsonl", "--markdown", tmp_path / "table.md")
    outcome = holdfast("reproduce", "table2", "--quick", "--out", out, "--json", *options)
    assert outcome.code == 0, outcome.err
    rows = {row["dataset"]: row for row in outcome.json["rows"]}
    assert list(rows) == ["mnist", "beer_look", "beer_aroma", "beer_palate"]
    assert rows["mnist"]["E1"] > 0.7
    assert {"E1", "E2", "correct", "mistaken"} <= set(rows["mnist"])
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(records) == 4
    assert (tmp_path / "table.md").read_text().startswith("**Correlation of unstable feature and label**")


def test_known_records_count_as_finished(holdfast, out, tmp_path):
    """A reproduction goes on from the compact records of another: nothing is run again, the tables are the same."""
    kept, other = tmp_path / "kept.jsonl", tmp_path / "other"
    first = holdfast("reproduce", "toy", "--out", out, "--records", kept, "--json")
    left = holdfast("reproduce", "toy", "--out", other, "--known", kept, "--dry-run", "--json")
    assert left.json["runs"] == []
    again = holdfast("reproduce", "toy", "--out", other, "--known", kept, "--finished", "--json")
    assert again.json["tables"] == first.json["tables"]


@pytest.mark.parametrize("target", sorted(path.stem for path in KEPT.glob("*.jsonl")))
def test_the_documented_tables_follow_from_the_kept_records(holdfast, target, tmp_path):
    """No number in the documentation is typed: each table comes from the compact records beside it."""
    command = ("reproduce", target) if target in TARGETS else ("sweep", FILES / f"{target}.toml")
    outcome = holdfast(*command, "--from", KEPT / f"{target}.jsonl", "--markdown", tmp_path / "table.md")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "table.md").read_text() == (KEPT / f"{target}.md").read_text()


def cells(page):
    """Return the rows of a page's Markdown tables as lists of cells."""
    return [line.strip("| ").split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]


def test_the_table_at_a_glance_shows_what_table1_has():
    """Every finished cell of Table 1 stands in the first table of docs/reproduction.md, rounded, with its seeds."""
    shown = {row[0]: row[2:4] for row in cells(KEPT.parent / "reproduction.md") if row[0].startswith("Table 1 · ")}
    finished = {f"Table 1 · {row[0]} · {row[1]} · {row[2]}": row for row in cells(KEPT / "table1.md") if len(row) == 8}
    finished.pop("Table 1 · data set · method · validation")
    for name, row in finished.items():
        ours, n_seeds = shown[name]
        rounded, exact = ([float(n) for n in cell.split(" ± ")] for cell in (ours, row[5]))
        assert rounded == pytest.approx(exact, abs=0.051)  # of the record, not of its two digits
        assert n_seeds == row[7]
    assert {name for name, (ours, _) in shown.items() if ours != "–"} == set(finished)


def test_absent_data_are_listed_and_do_not_fail(holdfast, tmp_path):
    """Without any file the target says what it needs, and the exit code is 0."""
    (tmp_path / "data").mkdir()
    outcome = holdfast("reproduce", "table2", "--data", tmp_path / "data", "--out", tmp_path / "out", "--json")
    assert outcome.code == 0
    assert outcome.json["rows"] == []
    missing = {entry["dataset"]: entry for entry in outcome.json["missing"]}
    assert list(missing) == ["mnist", "beer_look", "beer_aroma", "beer_palate"]
    assert "train-images-idx3-ubyte" in missing["mnist"]["needs"]


@pytest.mark.parametrize("target", [name for name in NAMES if name not in ("toy", "rivals")])
def test_no_target_needs_data_to_say_what_is_missing(holdfast, target, tmp_path):
    """Without any file there is no table row, every data set is listed with what it needs, and nothing fails."""
    (tmp_path / "data").mkdir()
    outcome = holdfast("reproduce", target, "--data", tmp_path / "data", "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["rows"] == []
    assert all(entry["needs"] for entry in outcome.json["missing"])
    assert outcome.json["missing"]


def test_rivals_without_mnist_are_the_unit_tests(holdfast, tmp_path):
    """What needs no file is run: eight cells, ten seeds, seven fits each; MNIST is listed with where to get it."""
    (tmp_path / "data").mkdir()
    options = ("--data", tmp_path / "data", "--out", tmp_path / "out", "--dry-run", "--json")
    outcome = holdfast("reproduce", "rivals", *options)
    assert outcome.code == 0, outcome.err
    assert len(outcome.json["runs"]) == 8 * 10 * 7
    (missing,) = outcome.json["missing"]
    assert missing["dataset"] == "mnist"
    assert "holdfast data colored_mnist" in missing["needs"]


def test_published_numbers_are_marked(holdfast, out):
    """Every row says whether it is from this run or published, and a published one has no seeds of ours."""
    tables = holdfast("reproduce", "rivals", "--quick", "--out", out, "--json").json["tables"]
    assert [table["title"] for table in tables] == [
        "IRM's two-class colored MNIST",
        "DomainBed's ColoredMNIST",
        "Linear unit tests of invariance",
        "Forecasts on the unit tests",
    ]
    for table in tables[:3]:
        assert {row["source"] for row in table["rows"]} == {"this run", "published"}
        assert "Published rows:" in table["note"]
    fishr = next(row for row in tables[0]["rows"] if row["method"] == "Fishr")
    assert (fishr["source"], fishr["chosen by the test environment"], fishr["seeds"]) == (
        "published",
        [69.5, 1.0],
        None,
    )


def test_a_folder_that_does_not_exist_is_one_line(holdfast, tmp_path):
    """A mistyped --data is told before anything is made."""
    outcome = holdfast("reproduce", "table2", "--data", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.err == (
        f"error: The folder {tmp_path / 'nowhere'} does not exist. Pass the folder that holds the data set's files.\n"
    )


def test_damaged_files_fail_where_absent_ones_do_not(holdfast, tmp_path):
    """The error is listed under the data set, the absent ones are still told, and the exit code is 1."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "pubmed.json").write_text('{"text": "a"}\n')
    (data / "wiki.en.vec").touch()
    outcome = holdfast("reproduce", "correlations", "--data", data, "--out", tmp_path / "out", "--json")
    assert outcome.code == 1
    assert [entry["dataset"] for entry in outcome.json["missing"]] == ["celeba"]
    (damaged,) = outcome.json["damaged"]
    assert damaged["dataset"] == "ask2me"
    assert "pubmed.json, line 1" in damaged["error"]
    assert f"failed: ask2me. {damaged['error']}" in outcome.err


def test_a_dry_run_lists_the_runs_and_how_long_they_take(holdfast, tmp_path):
    """Nothing is made, not even the folder."""
    command = ("reproduce", "irm", "--quick", "--seeds", "2", "--out", tmp_path / "out", "--dry-run")
    outcome = holdfast(*command)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith(TARGETS["irm"].title[:40])
    first = lines.index("runs that are left") + 1
    assert lines[first].split() == ["run", "seeds", "about"]
    rows = [line.split()[:3] for line in lines[first + 1 : first + 4]]
    assert rows == [["0.01", "0,", "1"], ["10", "0,", "1"], ["10000", "0,", "1"]]
    assert "6 of 6 runs are left and take about" in " ".join(outcome.out.split())
    found = holdfast(*command, "--json").json
    assert (found["n_runs"], len(found["runs"])) == (6, 6)
    assert found["runs"][0]["config"]["penalty_weight"] == 0.01
    assert not (tmp_path / "out").exists()


def test_quick_records_are_told_again_with_their_warning(holdfast, out, tmp_path):
    """--from finds quick runs as it finds real ones; every table says that its numbers mean nothing."""
    records = tmp_path / "quick.jsonl"
    first = holdfast("reproduce", "table3", "--quick", "--out", out, "--records", records, "--json")
    assert first.code == 0, first.err
    again = holdfast("reproduce", "table3", "--from", records, "--json")
    assert again.code == 0, again.err
    assert again.json["tables"] == first.json["tables"]
    assert all(table["note"].startswith("Quick: synthetic data") for table in again.json["tables"])


def test_names_are_whole_in_80_columns(holdfast):
    """A wide table comes in parts, each of which names its rows; no name and no heading is cut."""
    outcome = holdfast("reproduce", "table4", "--from", KEPT / "table4.jsonl")
    assert max(len(line) for line in outcome.out.splitlines() if not line.startswith("Next: ")) <= 80
    assert "…" not in outcome.out
    for name in ("5_o_Clock_Shadow", "Wearing_Earrings", "Wearing_Necklace", "paper: worst", "paper: average"):
        assert name in outcome.out


def test_irm_is_drawn(holdfast, out, tmp_path):
    """Accuracy, cross-entropy and penalty against the weight, as SVG."""
    outcome = holdfast("reproduce", "irm", "--quick", "--out", out, "--figures", tmp_path)
    assert outcome.code == 0, outcome.err
    titles = ("accuracy-as-its-penalty-weight", "cross-entropy-as-its-penalty-weight", "penalty-as-its-weight")
    for title in titles:
        assert len(list(tmp_path.glob(f"*-irm-s-{title}-grows.svg"))) == 1


def test_the_toy_example_is_drawn(holdfast, out, tmp_path):
    """The figure's three panels are one picture."""
    assert holdfast("reproduce", "toy", "--out", out, "--figures", tmp_path).code == 0
    assert len(list(tmp_path.glob("*-the-toy-example-share-of-rows.svg"))) == 1


def test_an_unknown_target_is_one_line(holdfast):
    """The known ones are listed."""
    outcome = holdfast("reproduce", "table9")
    assert outcome.code == 2
    assert outcome.err.startswith("error: There is no target 'table9'. Did you mean 'table")
