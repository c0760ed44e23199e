"""`holdfast check` of several periods."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a model, four monthly files of which the last is in another unit, and one table of all."""
    from .conftest import invoke  # noqa: TID252 - runs a command

    folder = tmp_path_factory.mktemp("monitor")
    generator = np.random.default_rng(0)

    def site(n_rows):
        ill = generator.integers(2, size=n_rows)
        return pd.DataFrame({"age": 60 + 10 * ill + generator.normal(0, 10, n_rows), "ill": np.where(ill, "yes", "no")})

    train = pd.concat([site(300).assign(site=name) for name in "ABC"])
    train.to_csv(folder / "train.csv", index=False)
    (folder / "dated").mkdir()
    months = []
    for month in (1, 2, 3, 4):
        rows = site(100).drop(columns="ill")
        if month == 4:
            rows["age"] *= 12
        rows.to_csv(folder / "dated" / f"site-2026{month:02d}.csv", index=False)
        days = pd.Timestamp(2026, month, 1) + pd.to_timedelta(np.arange(100) % 28, unit="D")
        months.append(rows.assign(seen=days.strftime("%Y-%m-%d")))
    pd.concat(months).sample(frac=1, random_state=0).to_csv(folder / "all.csv", index=False)
    options = ("--label", "ill", "--environment", "site", "--out", folder / "model")
    assert invoke("fit", folder / "train.csv", *options).code == 0
    return folder


def test_each_file_gets_a_line_and_a_record(holdfast, folder, tmp_path):
    """In the order of time; exit code 3, because the advice changed in the last month."""
    records, page = tmp_path / "course.jsonl", tmp_path / "course.html"
    found = holdfast("check", folder / "model", folder / "dated", "--records", records, "--out", page)
    assert found.code == 3
    lines = found.out.splitlines()
    assert lines[0].startswith("The advice changed in site-202604. In site-202604: Do not use the model")
    assert [line.split(":")[0] for line in lines if line.startswith("site-")] == [
        f"site-20260{n}" for n in (1, 2, 3, 4)
    ]
    written = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    assert [record["advice"] for record in written] == ["use", "use", "use", "do_not_use"]
    assert [record["changed"] for record in written] == [False, False, False, True]
    html = page.read_text(encoding="utf-8")
    assert "The course over time" in html
    assert "site-202603" in html


def test_a_change_is_reported_once(holdfast, folder, tmp_path):
    """With records, the next run has no news until there are new rows."""
    records = tmp_path / "course.jsonl"
    args = ("check", folder / "model", folder / "dated", "--records", records, "--json")
    first, second = holdfast(*args), holdfast(*args)
    assert (first.code, second.code) == (3, 0)
    assert first.json["changed"] == ["site-202604"]
    assert second.json["changed"] == []
    assert len(records.read_text(encoding="utf-8").splitlines()) == 4


def test_a_table_is_cut_by_its_dates(holdfast, folder):
    """The months of a table are the same as the files."""
    by_month = holdfast("check", folder / "model", folder / "all.csv", "--by", "month", "--json")
    assert by_month.code == 3
    assert [(p["period"], p["n_rows"], p["advice"]) for p in by_month.json["periods"]] == [
        ("2026-01", 100, "use"),
        ("2026-02", 100, "use"),
        ("2026-03", 100, "use"),
        ("2026-04", 100, "do_not_use"),
    ]
    quarter = holdfast("check", folder / "model", folder / "all.csv", "--by", "quarter", "--date", "seen", "--json")
    assert [p["n_rows"] for p in quarter.json["periods"]] == [300, 100]


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ("all.csv", ("--by", "fortnight"), "--by fortnight is not a period."),
        ("all.csv", ("--by", "month", "--date", "age"), "Column 'age' of"),
        ("all.csv", ("--by", "month", "--date", "when"), "has no column 'when'"),
        ("all.csv", ("--date", "seen"), "--date is the column that --by cuts"),
        ("train.csv", ("--by", "month"), "has no column of dates. Name the one to cut by with --date"),
        ("train.csv", ("--records", "course.jsonl"), "--records needs several periods"),
        ("dated", ("--records", "train.csv"), "is of the unknown type '.csv'"),
    ],
)
def test_what_cannot_be_followed(holdfast, folder, table, options, says):
    """One line says what to do."""
    found = holdfast("check", folder / "model", folder / table, *options)
    assert found.code == 2
    assert says in " ".join(found.err.split())


def test_names_without_a_date_have_no_order(holdfast, folder, tmp_path):
    """A folder whose files cannot be put in order is refused, as is one without tables."""
    assert "has no tables" in " ".join(holdfast("check", folder / "model", tmp_path).err.split())
    pd.read_csv(folder / "dated" / "site-202601.csv").to_csv(tmp_path / "january.csv", index=False)
    found = holdfast("check", folder / "model", tmp_path)
    assert found.code == 2
    assert "The names of january.csv have no date" in " ".join(found.err.split())


def test_records_of_something_else_are_not_overwritten(holdfast, folder, tmp_path):
    """A file that check did not write stays as it is."""
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    found = holdfast("check", folder / "model", folder / "dated", "--records", tmp_path / "other.jsonl")
    assert found.code == 2
    assert (tmp_path / "other.jsonl").read_text(encoding="utf-8") == '{"a": 1}\n'
