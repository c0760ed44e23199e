import pytest
from markupsafe import Markup

from holdfast.reports.svg import element, label, nice_ticks, shorten, tip


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
