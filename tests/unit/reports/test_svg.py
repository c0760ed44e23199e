import math
import xml.etree.ElementTree as ElementTree

import pytest
from markupsafe import Markup

from holdfast.exceptions import ParameterError
from holdfast.reports.marks import NARROW, WIDE, element, label, nice_ticks, shorten, tip
from holdfast.reports.svg import draw, save_figure, write_svg
from holdfast.reports.values import Curves, Dot, Dots, HeatMap, Line, Shares

SVG = "{http://www.w3.org/2000/svg}"


def parse(markup) -> ElementTree.Element:
    """Return the drawing as a tree; it must be well-formed."""
    return ElementTree.fromstring(str(markup).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def texts(tree: ElementTree.Element) -> list[str]:
    """Return what is written in a drawing, without titles."""
    return ["".join(t for t in [node.text, *(child.tail for child in node)] if t) for node in tree.iter(f"{SVG}text")]


def titles(tree: ElementTree.Element) -> list[str]:
    """Return what the pointer is shown; the first is the drawing's own."""
    return [node.text for node in tree.iter(f"{SVG}title")]


def test_every_drawing_has_a_text_alternative(figures_named):
    """The title and the description are the first children, and the drawing refers to them by ids of its own."""
    for number, figure in enumerate(figures_named("name"), start=1):
        tree = parse(draw(figure, number))
        assert (tree[0].tag, tree[1].tag) == (f"{SVG}title", f"{SVG}desc")
        assert tree[1].text == figure.describe()
        assert tree.get("aria-labelledby") == f"{tree[0].get('id')} {tree[1].get('id')}"
        assert tree.get("role") == "img"


def test_names_stay_text(figures_named, hostile):
    """Names that try to be elements are letters: the drawings hold only elements of ours, without handlers."""
    name, shown = hostile
    known = {f"{SVG}{tag}" for tag in ("svg", "title", "desc", "g", "rect", "text", "path", "line", "circle")}
    for figure in figures_named(name):
        tree = parse(draw(figure, 1))
        assert {node.tag for node in tree.iter()} <= known
        assert not [key for node in tree.iter() for key in node.attrib if key.startswith("on")]
        assert any(shown in title for title in titles(tree))


def test_heat_map_colors_and_numbers():
    """Blue is positive, red negative, as strong as the number; the number itself is there too."""
    figure = HeatMap("T", ("a",), ("p", "q", "r"), ((0.9, -0.5, math.nan),), "correlation", "rows", "columns")
    tree = parse(draw(figure, 1))
    colored = [
        (node.get("class"), node.get("fill-opacity")) for node in tree.iter(f"{SVG}rect") if node.get("fill-opacity")
    ]
    assert colored == [("positive", "0.90"), ("negative", "0.50")]
    assert texts(tree)[-3:] == ["+0.90", "-0.50", "–"]
    shades = [node.get("class") for node in tree.iter(f"{SVG}text") if node.get("class") in ("strong", "weak")]
    assert shades == ["strong", "weak", "weak"]
    assert titles(tree)[1:] == ["a · p: +0.90", "a · q: -0.50", "a · r: –"]


def test_heat_map_over_the_range_of_its_numbers():
    """Accuracies from 0.70 to 0.80 have the whole scale, so that neighbors can be told apart."""
    figure = HeatMap("T", ("a",), ("p", "q", "r", "s"), ((0.7, 0.8, math.nan, 0.75),), "range", "rows", "columns")
    rects = list(parse(draw(figure, 1)).iter(f"{SVG}rect"))
    assert [node.get("fill-opacity") for node in rects if node.get("fill-opacity")] == ["0.10", "0.90", "0.50"]
    assert {node.get("class") for node in rects if node.get("fill-opacity")} == {"share"}


def test_marked_curve_is_drawn_last_and_named_first():
    """The marked line lies on top, leads the legend, and a gap breaks a line."""
    lines = (Line("worst", (1.0, 2.0, 3.0), (0.5, math.nan, 0.25)), Line("other", (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)))
    tree = parse(draw(Curves("T", "epoch", "risk", lines, "worst"), 1))
    paths = [(node.get("class"), node.get("d")) for node in tree.iter(f"{SVG}path")]
    assert [kind for kind, _ in paths] == ["curve c1", "curve marked", "curve marked", "curve c1"]
    assert paths[1][1].count("M") == 2
    assert texts(tree)[-2:] == ["worst: 0.2500 at the end", "other: 0.3000 at the end"]
    assert "worst, epoch 3: 0.2500" in titles(tree)


def test_logarithmic_axis_leaves_out_what_has_no_logarithm():
    """Zero is a gap on a logarithmic axis; ticks are powers of ten."""
    tree = parse(draw(Curves("T", "iteration", "gap", (Line("gap", (1.0, 2.0), (0.1, 0.0)),), log=True), 1))
    assert len(list(tree.iter(f"{SVG}circle"))) == 1
    assert texts(tree)[1:3] == ["0.1", "1"]


def test_dots_without_interval(figures_named):
    """A value without limits is a shape alone; methods differ in shape as well as in color."""
    figure = figures_named("name")[3]
    assert isinstance(figure, Dots)
    tree = parse(draw(figure, 1))
    shapes = [node.get("d") for node in tree.iter(f"{SVG}path") if node.get("class") == "shape"]
    assert ["a5.0" in shapes[0], "h9v9" in shapes[1]] == [True, True]
    assert len([node for node in tree.iter(f"{SVG}path") if node.get("class") == "curve"]) == 1
    assert "0.50 [0.25, 0.75]" in texts(tree)


def test_shares_fill_the_width():
    """The bars of a whole add up, a narrow one carries no number."""
    figure = Shares("T", ("a",), ("no", "yes"), ((0.01, 0.99),), (100,))
    tree = parse(draw(figure, 1))
    bars = [float(node.get("width")) for node in tree.iter(f"{SVG}rect")][:2]
    assert bars[0] / bars[1] < 0.02
    assert texts(tree)[1:3] == ["99%", "100 rows"]


def test_nothing_known_is_drawn_without_failing():
    """Figures without a single number are drawn empty."""
    empty = (
        HeatMap("T", (), (), (), "share", "r", "c"),
        HeatMap("T", ("a",), ("b",), ((math.nan,),), "correlation", "r", "c"),
        Curves("T", "x", "y", ()),
        Curves("T", "x", "y", (Line("a", (1.0,), (math.nan,)),), log=True),
        Dots("T", "accuracy", ()),
        Shares("T", (), (), (), ()),
    )
    for figure in empty:
        assert parse(draw(figure, 1)).get("class").startswith("figure wide")
        assert parse(draw(figure, 1, NARROW)).get("class").startswith("figure narrow")


def test_both_widths_say_the_same(figures_named):
    """The narrow drawing is narrower, has ids of its own and the same numbers; its names stay inside."""
    for figure in figures_named("name"):
        wide, narrow = parse(draw(figure, 1)), parse(draw(figure, 1, NARROW))
        assert float(narrow.get("width")) <= NARROW < float(wide.get("width")) or isinstance(figure, HeatMap)
        assert sorted(titles(narrow)) == sorted(titles(wide))
        assert {node.get("id") for node in wide.iter()} & {node.get("id") for node in narrow.iter()} == {None}
        assert all(float(node.get("x")) >= 0 for node in narrow.iter(f"{SVG}text"))


def test_forecasts_and_bars():
    """A forecast is a band with its own look; bars begin at zero; a reference is a line."""
    dots = (Dot("age", "a", 0.5, 0.4, 0.6), Dot("age", "b", -0.5, -0.6, -0.4), Dot("age", "next", 0, -1, 1, True))
    tree = parse(draw(Dots("T", "effect", dots, reference=0.0), 1))
    kinds = [node.get("class") for node in tree.iter()]
    assert (kinds.count("forecast"), kinds.count("reference")) == (1, 1)
    bars = Dots("T", "share", (Dot("x", "a", 0.5, math.nan, math.nan), Dot("x", "b", 0.25, 0.2, 0.3)), bars=True)
    tree = parse(draw(bars, 1))
    first, second = (node for node in tree.iter(f"{SVG}rect") if node.get("class") == "bar")
    assert first.get("x") == second.get("x")
    assert float(first.get("width")) == pytest.approx(2 * float(second.get("width")), abs=0.2)


def test_curves_are_drawn_on_logarithmic_axes():
    """A tenfold value is as far from the first as a hundredfold one from it; names are escaped; the file is XML."""
    line = Line("fit & more", (10, 100, 1000), (1, 10, 100))
    text = write_svg(
        Curves(
            "a < b", "rows", "seconds", (line, Line("compare", (10, 1000), (1, 1), dashed=True)), log=True, log_x=True
        )
    )
    circles = [
        (float(m.get("cx")), float(m.get("cy"))) for m in ElementTree.fromstring(text.encode()).iter(f"{SVG}circle")
    ]
    (x0, y0), (x1, y1), (x2, y2) = circles
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert "fit &amp; more" in text


def test_every_figure_is_a_file_of_its_own(figures_named, hostile, tmp_path):
    """The file is well-formed, has its colors filled in, loads nothing, and holds the words of the figure."""
    for number, figure in enumerate(figures_named(hostile[0])):
        path = save_figure(tmp_path / f"{number}.svg", figure)
        text = path.read_text(encoding="utf-8")
        tree = ElementTree.fromstring(text.encode())
        assert "var(" not in text and "url(" not in text
        assert {node.tag for node in tree.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "style", "title", "desc", "g", "rect", "text", "path", "line", "circle")
        }
        assert figure.describe()[:20] in "".join(tree.itertext())
        assert text == save_figure(path, figure).read_text(encoding="utf-8")  # the same figure, the same bytes


def test_several_figures_share_a_file(figures_named):
    """Figures stand one below the other."""
    one, two = (ElementTree.fromstring(write_svg(*figures_named("n")[:n]).encode()) for n in (1, 2))
    assert float(two.get("height")) > float(one.get("height"))
    places = [float(node.get("y")) for node in two.iter(f"{SVG}svg") if node is not two]
    assert places == sorted(places) and len(places) == 2
    assert float(one.get("width")) >= WIDE


def test_other_endings_are_refused(tmp_path):
    """Only SVG is written."""
    with pytest.raises(ParameterError, match=r"Figures are written as \.svg\. Got 'a\.pdf' instead"):
        save_figure(tmp_path / "a.pdf", Shares("T", ("a",), ("x",), ((1.0,),), (1,)))


def test_element_escapes_children_and_attributes():
    """Text and attribute values are escaped; markup is not escaped twice."""
    inner = element("title", "a & b")
    assert str(element("g", inner, "<", class_='x"y', data_n=1.25)) == (
        '<g class="x&#34;y" data-n="1.2"><title>a &amp; b</title>&lt;</g>'
    )
    assert isinstance(inner, Markup)


def test_empty_attributes_are_left_out():
    """An attribute without a value is not written, and an element without children closes itself."""
    assert str(element("path", d="M0 0", stroke_dasharray="")) == '<path d="M0 0"/>'


def test_shorten_keeps_both_ends():
    """Names often differ at their ends: the middle goes."""
    assert shorten("x" * 30 + "mistaken", 20) == "x" * 11 + "…mistaken"
    assert shorten("short", 20) == "short"
    assert len(tip("y" * 10_000)) == 160


def test_label_shows_the_whole_name_to_the_pointer():
    """A cut name carries the whole one in its title; a short one needs none."""
    assert str(label("abc", 1, 2)) == '<text x="1" y="2">abc</text>'
    assert "<title>" + "z" * 50 + "</title>" in label("z" * 50, 1, 2)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.13, 0.14, [0.13, 0.132, 0.134, 0.136, 0.138, 0.14]),
        (5.0, 5.0, [2, 3, 4, 5, 6, 7, 8]),
        (float("nan"), 1.0, [0, 1]),
    ],
)
def test_nice_ticks(low, high, ticks):
    """Ticks are round and cover the range, also a range without width."""
    assert nice_ticks(low, high) == pytest.approx(ticks)
