import math

from holdfast.metrics import Interval
from holdfast.reports.values import (
    MOST_DOTS,
    MOST_POINTS,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Line,
    Picture,
    Pictures,
    crop_figure,
    figure_table,
)


def test_figures_as_tables():
    """Each figure's numbers are a table; curves over different points share their axis."""
    heat = HeatMap("T", ("a",), ("b", "c"), ((0.5, 0.25),), "share", "judge", "judged")
    assert (figure_table(heat).columns, figure_table(heat).rows) == (("judge", "b", "c"), (("a", 0.5, 0.25),))
    curves = Curves("T", "epoch", "risk", (Line("a", (1.0, 2.0), (0.5, 0.25)), Line("b", (2.0,), (0.75,))))
    assert figure_table(curves).rows == ((1, 0.5, None), (2, 0.25, 0.75))
    dots = figure_table(Dots("T", "accuracy", (Dot("here", "PI", 0.5, 0.25, 0.75),)))
    assert (dots.columns, dots.rows[0][:2]) == (("where", "PI"), ("here", Interval(0.5, 0.25, 0.75)))


def test_long_curves_are_thinned():
    """A long line keeps its first and last point; of many lines the marked one stays."""
    x = tuple(map(float, range(1000)))
    lines = tuple(Line(f"g{n}", x, x) for n in range(100))
    kept = crop_figure(Curves("T", "epoch", "risk", lines, "g99"))
    assert isinstance(kept, Curves)
    assert [line.name for line in kept.lines][-1] == "g99"
    assert len(kept.lines[0].x) == MOST_POINTS
    assert (kept.lines[0].x[0], kept.lines[0].x[-1]) == (0.0, 999.0)


def test_no_place_is_cut_in_two():
    """Of many places, whole ones are kept; a single place is cut."""
    many = tuple(Dot(f"p{n // 7}", f"s{n % 7}", 0.5, math.nan, math.nan) for n in range(7 * 30))
    kept = crop_figure(Dots("T", "accuracy", many))
    assert isinstance(kept, Dots)
    assert len(kept.dots) == MOST_DOTS // 7 * 7
    one = tuple(Dot("p", f"s{n}", 0.5, math.nan, math.nan) for n in range(200))
    assert len(crop_figure(Dots("T", "accuracy", one)).dots) == MOST_DOTS


def test_the_best_is_emphasized_on_request():
    """The highest value of each place is marked, unless all are alike."""
    dots = tuple(
        Dot(place, series, value, math.nan, math.nan)
        for place, series, value in (("a", "x", 0.5), ("a", "y", 0.75), ("b", "x", 1.0), ("b", "y", 1.0))
    )
    assert figure_table(Dots("T", "accuracy", dots, best=True)).marked == ((0, 2),)
    assert figure_table(Dots("T", "accuracy", dots)).marked == ()


def test_pictures_are_described_by_their_captions():
    """Words and table have the captions, group by group."""
    picture = Picture(((0.0, 1.0), (0.5, 0.0)), 3, "seven")
    figure = Pictures("T", (("right", (picture, picture)), ("wrong", (picture,))))
    assert figure.describe() == "Pictures. right: seven, seven; wrong: seven."
    assert figure_table(figure).rows == (("right", "seven"), ("right", "seven"), ("wrong", "seven"))


def test_small_shares_keep_a_digit():
    """Where no share reaches a twentieth, whole percents would all be 0 or 1."""
    dots = tuple(
        Dot(place, "ordinary", value, float("nan"), float("nan")) for place, value in (("a", 0.004), ("b", 0.0012))
    )
    assert [Dots("", "share", dots, percent=True).write(dot) for dot in dots] == ["0.40%", "0.12%"]
    larger = (*dots, Dot("c", "ordinary", 0.02, float("nan"), float("nan")))
    assert Dots("", "share", larger, percent=True).write(larger[0]) == "0.4%"
