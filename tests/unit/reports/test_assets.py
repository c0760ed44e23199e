import csv

import pytest

from holdfast.exceptions import StorageError
from holdfast.reports.tables import write_assets
from holdfast.reports.values import (
    MOST_POINTS,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Line,
    Section,
    Sentences,
    Shares,
    Story,
    Table,
    crop_figure,
    figure_table,
)


def test_every_block_becomes_files(tmp_path):
    """Tables are written in three forms, figures as pictures with their numbers, sentences not at all."""
    story = Story(
        "T",
        "",
        (
            Section("A", "", (Sentences(("s",)), Table("Réd & blue", ("a",), ((0.5,),)))),
            Section("B", "", (Shares("../Balance", ("E1",), ("no",), ((1.0,),), (8,)),)),
        ),
    )
    files = write_assets(story, tmp_path / "new" / "assets")
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
        write_assets(Story("T", "", ()), tmp_path / "assets")


def test_figures_as_tables():
    """Each figure's numbers are a table; curves over different points share their axis."""
    heat = HeatMap("T", ("a",), ("b", "c"), ((0.5, 0.25),), "share", "judge", "judged")
    assert (figure_table(heat).columns, figure_table(heat).rows) == (("judge", "b", "c"), (("a", 0.5, 0.25),))
    curves = Curves("T", "epoch", "risk", (Line("a", (1.0, 2.0), (0.5, 0.25)), Line("b", (2.0,), (0.75,))))
    assert figure_table(curves).rows == ((1, 0.5, None), (2, 0.25, 0.75))
    dots = figure_table(Dots("T", "accuracy", (Dot("here", "PI", 0.5, 0.25, 0.75),)))
    assert (dots.columns, dots.rows[0][:2]) == (("where", "method", "accuracy"), ("here", "PI"))


def test_long_curves_are_thinned():
    """A long line keeps its first and last point; of many lines the marked one stays."""
    x = tuple(map(float, range(1000)))
    lines = tuple(Line(f"g{n}", x, x) for n in range(100))
    kept = crop_figure(Curves("T", "epoch", "risk", lines, "g99"))
    assert isinstance(kept, Curves)
    assert [line.name for line in kept.lines][-1] == "g99"
    assert len(kept.lines[0].x) == MOST_POINTS
    assert (kept.lines[0].x[0], kept.lines[0].x[-1]) == (0.0, 999.0)
