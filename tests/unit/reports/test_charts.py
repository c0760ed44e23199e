import math
import xml.etree.ElementTree as ElementTree

from holdfast.reports.svg import draw
from holdfast.reports.values import Curves, Dots, HeatMap, Line, Shares

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
    assert [parse(draw(figure, 1)).get("class") for figure in empty] == ["figure"] * 6
