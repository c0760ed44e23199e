"""A page with every kind of block, all of whose names try to be more than text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from holdfast.metrics import Interval
from holdfast.reports.values import (
    Answer,
    Curves,
    Dot,
    Dots,
    Figure,
    HeatMap,
    Highlight,
    Line,
    Page,
    Picture,
    Pictures,
    Section,
    Sentences,
    Shares,
    Table,
)

HOSTILE = "<script>alert('x')</script>\"></svg><img src=x onerror=alert(1)>{{ 7*7 }}]]>--><!-- \x00\x1b\u202e\ud800"
# What readers see of it: the same letters, without those that would garble the page.
SHOWN = "<script>alert('x')</script>\"></svg><img src=x onerror=alert(1)>{{ 7*7 }}]]>--><!-- \ufffd\ufffd\ufffd\ufffd"


def every_figure(name: str) -> tuple[Figure, ...]:
    """Return one figure of each kind, with `name` in every place that takes one."""
    return (
        HeatMap(name, (name, "b"), (name, "d"), ((0.25, 1.0), (math.nan, 0.0)), "share", name, name, name),
        HeatMap("signs", ("a",), ("c", name), ((-0.5, 1.0),), "correlation", "rows", "columns", breaks=(0,)),
        Curves(
            name,
            name,
            name,
            (Line(name, (1.0, 2.0, 3.0), (0.5, math.nan, 0.25)), Line("e", (1.0, 2.0), (1.0, 0.1))),
            name,
        ),
        Dots(name, name, (Dot(name, name, 0.5, 0.25, 0.75), Dot(name, "PI", 0.75, math.nan, math.nan))),
        Shares(name, (name, "b"), (name, "yes"), ((0.25, 0.75), (1.0, 0.0)), (8, 1000)),
        Pictures(name, ((name, (Picture(((0.0, 1.0), (0.5, 0.0)), 3, name),)),), name),
    )


@pytest.fixture
def hostile_page() -> Page:
    """Return the page."""
    table = Table(HOSTILE, (HOSTILE, "n"), ((HOSTILE, 1), (None, Interval(0.5, 0.25, 0.75))), HOSTILE, marked=((0, 0),))
    sentences = Sentences((HOSTILE, f"`{HOSTILE}` predicts *{HOSTILE}*"), "warning")
    return Page(
        HOSTILE,
        HOSTILE,
        (
            Section(HOSTILE, HOSTILE, (table, sentences, *every_figure(HOSTILE))),
            Section(HOSTILE, HOSTILE, (sentences,), folded=True),
        ),
        (Highlight(HOSTILE, HOSTILE),),
        Answer(HOSTILE, "bad", HOSTILE, replace(table, columns=(HOSTILE, HOSTILE)), (HOSTILE,)),
    )


@pytest.fixture
def hostile() -> tuple[str, str]:
    """Return a name that tries to be more than text, and what readers should see of it."""
    return HOSTILE, SHOWN


@pytest.fixture
def figures_named():
    """Return the function that makes one figure of each kind with a given name everywhere."""
    return every_figure
