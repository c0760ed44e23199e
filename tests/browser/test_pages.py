"""The demo's report and the main pages of the site in a real browser: light, dark, on paper and 400 pixels wide."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast.cli import app

SITE = Path(__file__).parents[2] / "site"
built = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built: ./scripts/docs")
MAIN = (
    "index",
    "gallery/tutorial",
    "how-to/index",
    "how-to/diagnose",
    "how-to/own-data",
    "science",
    "stable",
    "reference/python",
    "reference/cli",
    "reference/generated/holdfast.StableClassifier",
    "decisions/index",
)
MODES = ((1200, "light"), (1200, "dark"), (400, "light"), (400, "dark"), (794, "print"))
BOTTOM = "(name => document.querySelector(name).getBoundingClientRect().bottom)"
# The least contrast of any visible text with what is behind it, as WCAG counts it, and that text
CONTRAST = """(() => {
  const numbers = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor, found = numbers(color);
      if (color.startsWith('rgb') && (found.length < 4 || found[3] === 1)) return found;
    }
    return [255, 255, 255];
  };
  let least = [21, ''];
  for (const node of document.querySelectorAll('p, li, td, th, pre, pre span, h1, h2, code, a, button')) {
    const own = [...node.childNodes].some(part => part.nodeType === 3 && part.textContent.trim());
    const style = getComputedStyle(node);
    if (!own || !node.checkVisibility() || style.opacity < 1 || !style.color.startsWith('rgb')) continue;
    const [a, b] = [light(numbers(style.color)), light(behind(node))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least[0]) least = [contrast, node.textContent.slice(0, 60)];
  }
  return least;
})()"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """Return the report of the demo with one seed."""
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(app, ["demo", "--seeds", "1", "--out", str(folder / "demo")], prog_name="holdfast")
    assert result.exit_code == 0, result.output
    return folder / "demo.html"


def open_in(shared_page, file: Path, width: int, mode: str, screenshots: Path) -> None:
    """Open a file in a mode; it must fit, complain about nothing, and ask nobody but the disk."""
    shared_page.resize(width, 900)
    shared_page.prefer("light" if mode == "print" else mode)
    shared_page.open(file)
    if mode == "print":
        shared_page.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert shared_page.ask("document.documentElement.scrollWidth") <= width
        contrast, text = shared_page.ask(CONTRAST)
        assert contrast >= 4.5, f"{text!r} is hard to read: {contrast:.1f}"
        folder = Path(os.environ.get("HOLDFAST_SCREENSHOTS", screenshots))
        shared_page.screenshot(folder / f"{file.parent.name}-{file.stem}-{width}-{mode}.png", whole=mode == "print")
    finally:
        shared_page.call("Emulation.setEmulatedMedia", media="")
    assert shared_page.complaints() == []
    assert [address for address in shared_page.requests() if not address.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize(("width", "mode"), MODES)
def test_the_demo_answers_in_the_first_screenful(shared_page, demo, width, mode, tmp_path):
    """The verdict is seen without scrolling, in every theme and width, and the report is one file."""
    open_in(shared_page, demo, width, mode, tmp_path)
    assert shared_page.requests() == [demo.as_uri()]
    assert 0 < shared_page.ask(f"{BOTTOM}('.verdict')") < 900
    assert shared_page.ask("document.querySelectorAll('svg.figure').length") > 2


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, Path]:
    """Return the page of `holdfast diagnose` and the report of `holdfast fit` about three hospitals."""
    folder, generator = tmp_path_factory.mktemp("hospitals"), np.random.default_rng(0)
    ill, site = generator.integers(2, size=1800), np.repeat(["Boston", "Chicago", "Denver"], 600)
    agreement = np.repeat([0.95, 0.85, 0.75], 600)
    noisy = {"marker": generator.random(1800) < 0.75, "scanner": generator.random(1800) < agreement}
    columns = {name: np.where(right, ill, 1 - ill) for name, right in noisy.items()}
    table = folder / "rows.csv"
    pd.DataFrame({"site": site, "age": generator.normal(60, 9, 1800), **columns, "ill": ill}).to_csv(table, index=False)
    roles = [str(table), "--label", "ill", "--environment", "site"]
    files = {name: folder / f"{name}.html" for name in ("diagnose", "fit")}
    for call in (
        ["diagnose", *roles, "--out", str(files["diagnose"])],
        ["fit", *roles, "--out", str(folder / "model"), "--report", str(files["fit"])],
    ):
        result = CliRunner().invoke(app, call, prog_name="holdfast")
        assert result.exit_code == 0, result.output
    return files


@pytest.mark.parametrize("name", ["diagnose", "fit"])
@pytest.mark.parametrize(("width", "mode"), MODES)
def test_pages_about_a_table_answer_in_the_first_screenful(shared_page, written, name, width, mode, tmp_path):
    """The verdict stands first and whole, in every theme and width; the page is one file and legible on paper."""
    open_in(shared_page, written[name], width, mode, tmp_path)
    assert shared_page.requests() == [written[name].as_uri()]
    assert 0 < shared_page.ask(f"{BOTTOM}('.verdict')") < 900
    assert shared_page.ask("document.querySelectorAll('svg.figure').length") > 1
    if name == "diagnose":  # what to do, and the command, stand in the first card, and its words are not cut in two
        assert shared_page.ask("document.querySelector('.answer .verdict em').innerText.length") > 20
        assert shared_page.ask("document.querySelector('.answer').innerText.includes('Run next: holdfast ')")
        assert shared_page.ask(f"{BOTTOM}('.answer .next')") < 900
        if width >= 1000:  # a dot for each site, too
            assert shared_page.ask(f"{BOTTOM}('.answer figure')") < 1000
        heights = "[...document.querySelectorAll('.answer code span')].map(word => word.getClientRects().length)"
        assert set(shared_page.ask(heights)) == {1}


@built
@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize(("width", "mode"), MODES)
def test_the_pages_of_the_site_fit_and_load_nothing(shared_page, name, width, mode, tmp_path):
    """The title is in the first screenful; nothing is cut, and nothing comes from the network."""
    open_in(shared_page, SITE / f"{name}.html", width, mode, tmp_path)
    assert 0 < shared_page.ask(f"{BOTTOM}('h1')") < 450
    assert shared_page.ask("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


@built
def test_the_home_page_shows_the_commands_without_scrolling(shared_page, tmp_path):
    """Install and the two commands are in the first screenful; code has copy buttons; theme and search are there."""
    open_in(shared_page, SITE / "index.html", 1200, "light", tmp_path)
    assert shared_page.ask(f"{BOTTOM}('div.highlight')") < 900
    assert shared_page.ask("document.querySelector('div.highlight').innerText.includes('holdfast diagnose')")
    assert shared_page.ask("document.querySelectorAll('button.copybtn').length") >= 2
    assert shared_page.ask(
        "document.querySelector('.theme-switch-button, .theme-switch, .theme-switch-container') !== null"
    )
    assert shared_page.ask("document.querySelector('.search-button, .search-button-field') !== null")


@built
def test_the_tutorial_shows_output_and_figures(shared_page, tmp_path):
    """What the code printed and drew when the site was built is on the shared_page."""
    open_in(shared_page, SITE / "gallery" / "tutorial.html", 1200, "light", tmp_path)
    assert shared_page.ask("document.body.innerText.includes('Stable classifier: the effect of `referred` differs')")
    assert shared_page.ask("document.querySelectorAll('img.sphx-glr-single-img').length") >= 3


@built
def test_learned_attributes_keep_their_underscore(shared_page, tmp_path):
    """The reference names `verdict_`, not `verdict`, and attributes that share a line of the docstring one by one."""
    open_in(shared_page, SITE / "reference/generated/holdfast.StableClassifier.html", 1200, "light", tmp_path)
    names = shared_page.ask("[...document.querySelectorAll('dd strong')].map(name => name.innerText)")
    assert {"verdict_", "path_", "environments_", "classes_"} <= set(names)


@built
def test_the_search_finds_a_word_from_disk(shared_page, tmp_path):
    """The search works without a server."""
    shared_page.resize(1200, 900)
    shared_page.call("Page.navigate", url=(SITE / "search.html").as_uri() + "?q=recalibrate")
    found = (
        "new Promise(done => { const look = () => { "
        "const n = document.querySelectorAll('#search-results li').length; "
        "n > 0 ? done(n) : setTimeout(look, 100) }; setTimeout(look, 300) })"
    )
    assert shared_page.ask(found) > 0
