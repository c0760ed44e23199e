import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from holdfast.exceptions import ParameterError
from holdfast.reports.figures import draw_figure, save_figure
from holdfast.reports.values import Curves, Dot, Dots, HeatMap, Line, Shares


def test_every_figure_is_written_as_svg_and_png(figures_named, hostile, tmp_path):
    """Names are taken letter by letter: dollars are no formula, underscores hide nothing, tags are text."""
    name = "_$x^{" + hostile[0]
    for number, figure in enumerate(figures_named(name)):
        for kind in ("svg", "png"):
            path = save_figure(figure, tmp_path / f"{number}.{kind}", dpi=40)
            assert path.stat().st_size > 1000
        text = "".join(ElementTree.parse(tmp_path / f"{number}.svg").getroot().itertext())
        assert name[:12] in text
        with Image.open(tmp_path / f"{number}.png") as picture:
            assert picture.width > 80


def test_svg_carries_its_words_and_no_date(tmp_path):
    """The text alternative is in the metadata, and the same figure gives the same bytes."""
    figure = Shares("Balance", ("a",), ("no", "yes"), ((0.25, 0.75),), (8,))
    first = save_figure(figure, tmp_path / "a.svg").read_bytes()
    assert figure.describe().encode() in first
    assert first == save_figure(figure, tmp_path / "b.svg").read_bytes()


def test_heat_map_shows_the_values():
    """The picture is drawn from the data unchanged, on a scale from -1 to 1 for correlations."""
    values = ((0.5, -0.5),)
    (axes,) = draw_figure(HeatMap("T", ("a",), ("b", "c"), values, "correlation", "r", "c")).axes
    (image,) = axes.images
    assert np.array_equal(image.get_array(), np.array(values))
    assert image.get_clim() == (-1.0, 1.0)
    assert [text.get_text() for text in axes.texts] == ["+0.50", "-0.50"]


def test_marked_curve_is_red_and_thick():
    """The marked line differs in color and in width."""
    lines = (Line("a", (1.0, 2.0), (0.5, 0.25)), Line("b", (1.0, 2.0), (0.1, 0.2)))
    (axes,) = draw_figure(Curves("T", "epoch", "risk", lines, "b", log=True)).axes
    assert [line.get_linewidth() for line in axes.get_lines()] == [1.2, 2.6]
    assert axes.get_yscale() == "log"


def test_dots_of_several_methods():
    """Each dot lies at its value, each method has its marker."""
    dots = (Dot("here", "ERM", 0.25, 0.1, 0.4), Dot("here", "PI", 0.75, 0.6, 0.9))
    (axes,) = draw_figure(Dots("T", "accuracy", dots)).axes
    assert [float(line.get_xdata()[0]) for line in axes.get_lines()] == [0.1, 0.25, 0.6, 0.75]
    assert [line.get_marker() for line in axes.get_lines()[1::2]] == ["o", "s"]


def test_global_settings_stay(tmp_path):
    """matplotlib's settings are after a figure what they were before."""
    before = dict(matplotlib.rcParams)
    save_figure(Shares("T", ("例",), ("x",), ((1.0,),), (1,)), tmp_path / "a.png", dpi=40)
    assert dict(matplotlib.rcParams) == before


def test_other_endings_are_refused(tmp_path):
    """Only SVG and PNG are written."""
    with pytest.raises(ParameterError, match=r"Figures are written as \.svg or \.png\. Got 'a\.pdf' instead"):
        save_figure(Shares("T", ("a",), ("x",), ((1.0,),), (1,)), tmp_path / "a.pdf")
