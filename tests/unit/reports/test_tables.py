import csv
import io
import math

import pytest

from holdfast.exceptions import InputError, StorageError
from holdfast.metrics import Interval
from holdfast.reports.tables import to_csv, to_latex, to_markdown, write_assets
from holdfast.reports.values import (
    Page,
    Section,
    Sentences,
    Shares,
    Spread,
    Table,
    clean_text,
    format_cell,
    sort_value,
)

TABLE = Table(
    "Accuracy & more",
    ("method", "accuracy", "seeds", "100%"),
    (
        ("PI_hard", Interval(0.75, 0.5, 1.0), 5, True),
        ("a|b *c*", Interval(math.nan, -0.25, 1.0), None, False),
        ('[x] \\ <b>, "q"', None, 1797, None),
    ),
    note="Worst $5 first.",
    marked=((0, 1),),
)


def test_markdown():
    """Text is escaped, numbers are aligned to the right, the marked cell is strong."""
    assert to_markdown(TABLE) == (
        "**Accuracy &amp; more**\n"
        "\n"
        "| method | accuracy | seeds | 100% |\n"
        "|---|--:|--:|---|\n"
        "| PI\\_hard | **0.750 [0.500, 1.000]** | 5 | yes |\n"
        "| a\\|b \\*c\\* | – [-0.250, 1.000] | – | no |\n"
        '| \\[x\\] \\\\ &lt;b&gt;, "q" | – | 1,797 | – |\n'
        "\n"
        "Worst \\$5 first."
    )


def test_latex():
    """Letters that LaTeX reads as commands are text; no row begins with what could be an option of the line break."""
    assert to_latex(TABLE) == (
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{Accuracy \\& more Worst \\$5 first.}\n"
        "  \\begin{tabular}{lrrl}\n"
        "    \\toprule\n"
        "    method & accuracy & seeds & 100\\% \\\\\n"
        "    \\midrule\n"
        "    PI\\_hard & \\textbf{0.750 {[}0.500, 1.000{]}} & 5 & yes \\\\\n"
        "    a\\textbar{}b {*}c{*} & -- {[}$-$0.250, 1.000{]} & -- & no \\\\\n"
        '    {[}x{]} \\textbackslash{} \\textless{}b\\textgreater{}, "q" & -- & 1,797 & -- \\\\\n'
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}"
    )


def test_latex_hyphens_stay_hyphens():
    """Two hyphens do not become a dash, a dash does."""
    assert "a-{}-b – c".replace("–", "--") in to_latex(Table("", ("n",), (("a--b – c",),)))


def test_csv():
    """Values have full precision, an interval has three columns, and a reader gives back every text."""
    text = to_csv(TABLE)
    assert text == (
        "method,accuracy,accuracy low,accuracy high,seeds,100%\n"
        "PI_hard,0.75,0.5,1.0,5,true\n"
        "a|b *c*,,-0.25,1.0,,false\n"
        '"[x] \\ <b>, ""q""",,,,1797,\n'
    )
    assert next(iter(csv.DictReader(io.StringIO(text.split("\n", 3)[3]), fieldnames=["a"])))["a"] == '[x] \\ <b>, "q"'


def test_csv_spread():
    """A mean with its spread has two columns."""
    assert to_csv(Table("", ("a",), ((Spread(1 / 3, 0.5),), (2.0,)))) == "a,a spread\n0.3333333333333333,0.5\n2.0,\n"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (1234567, "1,234,567"),
        (0.0, "0.000"),
        (0.00004, "4e-05"),
        (-math.inf, "-∞"),
        (False, "no"),
        (Spread(0.5, math.nan), "0.500"),
        (Interval(0.0001, 0.0, 1.0), "0.000 [0.000, 1.000]"),
        (" two\n lines ", "two lines"),
    ],
)
def test_format_cell(cell, text):
    """Cells read well: unknown as a dash, tiny numbers with their size, text on one line."""
    assert format_cell(cell) == text


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (3, 3.0),
        (True, 1.0),
        (math.nan, None),
        (Interval(0.5, 0, 1), 0.5),
        (Spread(2.0, 1), 2.0),
        ("a", "a"),
        (None, None),
    ],
)
def test_sort_value(cell, value):
    """Cells sort by their value; unknown ones have none."""
    assert sort_value(cell) == value


def test_clean_text_keeps_letters_of_every_script():
    """Letters stay; control characters, turns of direction and halves of pairs are replaced."""
    assert clean_text("café 例 עברית") == "café 例 עברית"
    assert clean_text("a\x1b[31m\u202eb\ud800") == "a\ufffd[31m\ufffdb\ufffd"


def test_ragged_rows_are_refused():
    """Every row has a cell for each column."""
    with pytest.raises(InputError, match=r"row 1 of the table 'T' has 1 cells for 2 columns"):
        Table("T", ("a", "b"), ((1, 2), (1,)))


def test_numeric_columns():
    """A column of numbers may have gaps; one with a text, with truth values or without anything is not numeric."""
    table = Table("", ("a", "b", "c", "d"), ((1, 1, True, None), (None, "x", False, None)))
    assert table.numeric() == (True, False, False, False)


def test_every_block_becomes_files(tmp_path):
    """Tables are written in three forms, figures as pictures with their numbers, sentences not at all."""
    content = Page(
        "T",
        "",
        (
            Section("A", "", (Sentences(("s",)), Table("Réd & blue", ("a",), ((0.5,),)))),
            Section("B", "", (Shares("../Balance", ("E1",), ("no",), ((1.0,),), (8,)),)),
        ),
    )
    files = write_assets(content, tmp_path / "new" / "assets")
    assert [file.name for file in files] == [
        "01-red-blue.md", "01-red-blue.tex", "01-red-blue.csv", "02-balance.svg", "02-balance.csv",
    ]  # fmt: skip
    assert files[0].read_text(encoding="utf-8") == "**Réd &amp; blue**\n\n| a |\n|--:|\n| 0.500 |\n"
    with files[-1].open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["environment", "rows", "no"], ["E1", "8", "1.0"]]


def test_a_file_in_the_folders_place_is_said(tmp_path):
    """Writing fails in one line."""
    (tmp_path / "assets").touch()
    with pytest.raises(StorageError, match="Could not write"):
        write_assets(Page("T", "", ()), tmp_path / "assets")
