"""The report in a real browser, opened from disk. One browser serves all tests of this file."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from holdfast import ERMClassifier, PIClassifier, StableClassifier, diagnose
from holdfast.auditing import audit_data
from holdfast.datasets.values import Split
from holdfast.exceptions import CollapseWarning
from holdfast.reports.chapters import Evidence, estimator_page
from holdfast.reports.diagnosis import diagnosis_page
from holdfast.reports.html import write_report
from holdfast.reports.values import Page, Section, Table

SCRIPT = "<script>window.harmed = true</script>"
IMAGE = "\"'><img src=https://example.org/x.png onerror='window.harmed = true'>"
PLAIN = "document.querySelectorAll('[data-table]')[{}]"


def hospitals() -> tuple[Page, Split]:
    """Return the page of three hospitals whose names and columns are made to harm."""
    generator = np.random.default_rng(0)
    blocks = []
    for name, agreement in (("Boston", 0.95), (SCRIPT, 0.85), (IMAGE, 0.75)):
        y = np.arange(200) % 2
        stable = np.where(generator.random(200) < 0.8, y, 1 - y)
        unstable = np.where(generator.random(200) < agreement, y, 1 - y)
        blocks.append(Split(np.column_stack([stable, unstable]).astype(float), y, np.full(200, name, dtype=object)))
    rows = Split(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.environments for block in blocks]),
        {SCRIPT: generator.integers(0, 2, 600), "age": generator.normal(50, 9, 600)},
    )
    names = ["lesion", IMAGE]
    frame = pd.DataFrame(rows.X, columns=names)
    stable = StableClassifier().fit(frame, rows.y, environments=rows.environments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the page is about what is shown, not about this fit
        pi = PIClassifier(random_state=0).fit(rows.X, rows.y, environments=rows.environments)
    content = estimator_page(
        stable,
        Evidence(
            training=replace(rows, X=frame),
            test=rows,
            methods={"ERM": ERMClassifier().fit(rows.X, rows.y), IMAGE: pi},
            audit=audit_data(frame, rows.y, rows.environments),
            warnings=[SCRIPT],
        ),
        title=f"Hospitals {SCRIPT}",
        advice=[f"Next: `holdfast {SCRIPT}`"],
    )
    stages = estimator_page(pi, Evidence(training=rows, feature_names=names)).sections
    numbers = tuple((f"row {n}", float(value)) for n, value in enumerate([10, 9, -3, 100, 0.5, 7, 8, 1, 2, 3, 4, 5]))
    table = Table("Numbers", ("name", "value"), (*numbers, ("unknown", None), (SCRIPT, 6.0)))
    sections = (Section("First", "", (table,)), *content.sections, *(part for part in stages if part.folded))
    return replace(content, sections=sections), rows


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """Return a written report."""
    return write_report(hospitals()[0], tmp_path_factory.mktemp("report") / "report with space.html")


@pytest.fixture
def page(shared_page, report):
    """Return the page with the report freshly opened, 1200 pixels wide, on a light system."""
    shared_page.resize(1200)
    shared_page.prefer("light")
    shared_page.open(report)
    yield shared_page
    assert shared_page.complaints() == []
    assert shared_page.requests() == [report.as_uri()]


def test_opens_without_complaint_or_request(page):
    """Nothing goes to the console or to the network, and no string of a user became code."""
    assert page.ask("document.title").startswith("Hospitals <script>")
    assert page.ask("window.harmed === undefined && document.images.length === 0 && document.scripts.length === 1")
    assert page.ask(f"document.body.innerText.includes({SCRIPT!r})")
    assert page.ask("document.querySelectorAll('svg.figure').length") >= 6


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (400, 800)])
def test_the_answer_is_in_the_first_screenful(page, width, height):
    """Signal and verdict are seen without scrolling, and the signal is more than a color."""
    page.resize(width, height)
    bottom = "(name => document.querySelector(name).getBoundingClientRect().bottom)"
    assert 0 < page.ask(f"{bottom}('.signal')") < page.ask(f"{bottom}('.verdict')") < height
    assert page.ask(
        "document.querySelector('.light').textContent + document.querySelector('.signal').innerText"
    ).strip()
    assert width < 1000 or page.ask(f"{bottom}('table.few')") < height


def test_the_diagnosis_answers_in_the_first_screenful_and_is_not_cut(shared_page, tmp_path):
    """Wide and narrow, light and dark: the verdict is seen without scrolling, and the page is as wide as the screen."""
    _, rows = hospitals()
    found = diagnose(pd.DataFrame(rows.X, columns=["lesion", IMAGE]), rows.y, rows.environments)
    content = diagnosis_page(found, title=SCRIPT, following=f"holdfast {SCRIPT}")
    written = write_report(content, tmp_path / "diagnosis.html")
    for width, scheme in ((1200, "light"), (400, "dark")):
        shared_page.resize(width, 800)
        shared_page.prefer(scheme)
        shared_page.open(written)
        assert shared_page.ask("document.querySelector('.verdict').getBoundingClientRect().bottom") < 800
        assert shared_page.ask("document.documentElement.scrollWidth") == width
        assert shared_page.ask("window.harmed === undefined && document.querySelectorAll('section').length") == 7
        assert shared_page.complaints() == []
        assert shared_page.requests() == [written.as_uri()]


def test_a_link_opens_its_folded_section(page):
    """Folded sections are closed; the link to one opens it, by keyboard too."""
    folded = "[...document.querySelectorAll('details.folded')]"
    assert page.ask(f"{folded}.length > 2 && {folded}.every(part => !part.open)")
    page.ask("[...document.querySelectorAll('nav a')].find(link => link.textContent.startsWith('Stage 1')).focus()")
    page.press("Enter")
    page.ask("new Promise(done => setTimeout(done, 50))")
    assert page.ask(f"{folded}.filter(part => part.open).length") == 1
    page.ask("history.replaceState(null, '', location.pathname)")


@pytest.mark.parametrize("width", [400, 600, 800, 1200])
def test_figures_fill_their_cards_and_stay_legible(page, width):
    """At every width one drawing of each figure is seen; letters have at least 9 px; only heat maps may scroll."""
    page.resize(width)
    page.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    seen = page.ask(
        "[...document.querySelectorAll('figure > .scroll')].map(box => {"
        " const shown = [...box.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);"
        " const one = shown[0], size = one.getBoundingClientRect().width;"
        " return [shown.length, 13 * one.getScreenCTM().a, size / box.clientWidth, one.getAttribute('class')]; })"
    )
    assert len(seen) >= 7
    assert {count for count, *_ in seen} == {1}
    assert min(letter for _, letter, *_ in seen) >= 9
    assert all(share <= 1.001 for _, _, share, kind in seen if "scrolled" not in kind)
    filled = [share for _, _, share, kind in seen if "scrolled" not in kind and "small" not in kind]
    assert min(filled) > (0.95 if width in (400, 800, 1200) else 0.8)


def test_a_click_sorts_and_a_second_turns_it(page):
    """Numbers sort as numbers, unknown ones stay below, and the header says how it is sorted."""
    values = f"[...{PLAIN.format(0)}.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent)"
    click = f"{PLAIN.format(0)}.querySelectorAll('th button')[1].click()"
    sort = f"{PLAIN.format(0)}.querySelectorAll('th')[1].getAttribute('aria-sort')"
    page.ask(click)
    assert page.ask(sort) == "ascending"
    ascending = page.ask(values)
    assert ascending[:3] + ascending[-2:] == ["-3.000", "0.500", "1.000", "100.000", "–"]
    page.ask(click)
    assert page.ask(sort) == "descending"
    assert page.ask(values)[:2] + page.ask(values)[-1:] == ["100.000", "10.000", "–"]
    assert page.ask("document.getElementById('said').textContent") == "Sorted by value, descending."


def test_keyboard_sorts(page):
    """Tab reaches a header, Enter sorts, and what has the focus is outlined."""
    page.ask(f"{PLAIN.format(0)}.querySelector('.scroll').focus()")
    page.press("Tab")
    assert page.ask("document.activeElement.textContent") == "name"
    page.press("Enter")
    assert page.ask("document.activeElement.parentNode.getAttribute('aria-sort')") == "ascending"
    assert page.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_filter_hides_rows(page):
    """Words filter rows, whatever their case, and the count is said; an empty filter shows all."""
    typed = (
        f"(text => {{ const box = {PLAIN.format(0)}, input = box.querySelector('input'); input.value = text; "
        "input.dispatchEvent(new Event('input')); "
        "return [[...box.querySelectorAll('tbody tr')].filter(row => row.offsetParent).length, "
        "box.querySelector('.count').textContent]; })"
    )
    assert page.ask(f"{typed}('ROW 11')") == [1, "1 of 14 rows"]
    assert page.ask(f"{typed}('row 1 9.0')") == [1, "1 of 14 rows"]
    assert page.ask(f"{typed}('<script>')") == [1, "1 of 14 rows"]
    assert page.ask(f"{typed}('')") == [14, ""]


def test_theme_follows_the_system_and_the_reader(page, report):
    """The page is as dark as the system, until the reader chooses; the choice outlives the page where it can."""
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(background)
    page.prefer("dark")
    dark = page.ask(background)
    assert dark != light
    page.ask("document.getElementById('theme').click()")
    assert (page.ask(background), page.ask("document.getElementById('theme').textContent")) == (light, "Dark theme")
    page.open(report)
    assert page.ask(background) == light
    page.ask("localStorage.clear()")


def test_pointer_shows_values(page):
    """The value under the pointer is shown at once."""
    box = page.ask(
        "(() => { const cell = document.querySelector('svg .mark rect'); "
        "cell.scrollIntoView({block: 'center', behavior: 'instant'}); "
        "const r = cell.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    page.point(*box)
    assert page.ask("!document.getElementById('tip').hidden && document.getElementById('tip').textContent.length > 5")


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_hangs_over(page, width, tmp_path):
    """At any width only boxes scroll, never the page; a screenshot shows more than one color."""
    page.resize(width)
    assert page.ask("document.documentElement.scrollWidth") == width
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        file = Path(os.environ.get("HOLDFAST_SCREENSHOTS", tmp_path)) / f"report-{width}-{scheme}.png"
        page.screenshot(file, whole=True)
        with Image.open(file) as picture:
            assert picture.width == width
            assert len(picture.convert("RGB").reduce(4).getcolors(1 << 24)) > 50


def test_paper(page):
    """On paper there are no tools, colors are those of the light theme whatever the screen, and nothing is cut off."""
    page.resize(794)
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    try:
        assert page.ask("getComputedStyle(document.querySelector('.tools')).display") == "none"
        assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.ask("document.documentElement.scrollWidth") == 794
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
