import re
from html.parser import HTMLParser

import pytest

from holdfast.exceptions import InputError, StorageError
from holdfast.metrics import Interval
from holdfast.reports.html import MAX_BYTES, inline_markup, render_report, write_report
from holdfast.reports.values import (
    Answer,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Line,
    Page,
    Section,
    Sentences,
    Shares,
    Table,
)

VOID = {"meta", "input", "br", "img", "link"}


class Outline(HTMLParser):
    """Every tag with its attributes, the text, and whether tags close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._open = "", []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        """Note a tag, and that it is open."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note a tag that closes itself."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """See that the innermost open tag is the one that closes."""
        assert self._open.pop() == tag

    def handle_data(self, data):
        """Note the text that readers see."""
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text += data

    def count(self, tag: str) -> int:
        """Return how often a tag occurs."""
        return sum(name == tag for name, _ in self.tags)


def page_of(*blocks) -> Page:
    """Return a page of one section."""
    return Page("Title", "", (Section("Section", "", blocks),))


def test_structure(hostile_page):
    """The page has one heading, sections with theirs, a table for each table and figure, ids that are unique."""
    outline = Outline(render_report(hostile_page))
    counts = {tag: outline.count(tag) for tag in ("h1", "h2", "section", "figure", "svg", "table", "script", "style")}
    assert counts == {"h1": 1, "h2": 2, "section": 2, "figure": 6, "svg": 12, "table": 7, "script": 1, "style": 1}
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for tag, attributes in outline.tags if tag == "a"]
    assert all(link.removeprefix("#") in ids for link in links)


def test_strings_of_users_are_text(hostile_page, hostile):
    """A name that closes the script, opens an image or is a template is seen as it is, and nothing else comes of it."""
    page = render_report(hostile_page)
    outline = Outline(page)
    assert outline.count("img") == 0
    assert not [key for _, attributes in outline.tags for key in attributes if key.startswith("on")]
    assert "49" not in outline.text  # 7*7
    assert outline.text.count(hostile[1]) >= 10
    page.encode("utf-8")


def test_nothing_is_loaded(hostile_page):
    """No element names a source, and the page's own policy forbids everything but its style and script."""
    page = render_report(hostile_page)
    outline = Outline(page)
    assert not [key for _, attributes in outline.tags for key in attributes if key in ("src", "srcset", "action")]
    assert outline.count("link") == 0
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style and "@import" not in style
    (policy,) = [a["content"] for tag, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; script-src 'sha256-[\w+/]{43}='; base-uri 'none'; "
        r"form-action 'none'",
        policy,
    )


def test_sentences_are_marked_up():
    """Backticks and stars are set as code and emphasis; a lone backtick is a letter; stars in code stay."""
    assert inline_markup("In `a<b*c*` *ill* & `x`") == "In <code>a&lt;b*c*</code> <em>ill</em> &amp; <code>x</code>"
    assert inline_markup("a ` b *c*") == "a ` b *c*"
    assert inline_markup("*Drop `a*b`, or* keep") == "<em>Drop <code>a*b</code>, or</em> keep"
    assert inline_markup("`run --out x`") == "<code>run <span>--out</span> x</code>"  # not cut at its hyphens


def test_cells_carry_their_values():
    """Numbers carry what the page's script sorts by, text and unknown values do not; marked cells are strong."""
    page = render_report(
        page_of(Table("T", ("a", "b"), (("x", 0.123456), ("y", float("inf")), ("z", None)), marked=((0, 0),)))
    )
    assert '<td><strong>x</strong></td><td class="number" data-v="0.123456">0.123</td>' in page
    assert '<td class="number" data-v="Infinity">∞</td>' in page
    assert '<td>z</td><td class="number">–</td>' in page


def test_same_page_same_bytes(hostile_page):
    """Nothing of a page depends on when it is written."""
    assert render_report(hostile_page) == render_report(hostile_page)


def test_long_tables_are_cut_and_say_so():
    """A page shows 400 rows of a table and says how many there are."""
    page = render_report(page_of(Table("T", ("a",), tuple((n,) for n in range(1000)))))
    assert page.count("<tr>") == 401
    assert "The first 400 of 1,000 rows are shown." in page


def test_the_largest_page_can_be_mailed(tmp_path):
    """Many environments, columns, groups and long names: the file stays below two megabytes."""
    names = tuple(f"environment number {n} " + "x" * 2000 for n in range(300))
    values = tuple(tuple(0.5 for _ in names) for _ in names)
    lines = tuple(Line(name, tuple(map(float, range(500))), tuple(0.123456 * n for n in range(500))) for name in names)
    dots = tuple(Dot(name, method, 0.5, 0.25, 0.75) for name in names for method in ("ERM", "PI"))
    content = page_of(
        HeatMap("A", names, names, values, "share", "judge", "judged"),
        HeatMap("B", names, names, values, "correlation", "rows", "columns"),
        Curves("C", "epoch", "risk", lines, names[7]),
        Dots("D", "accuracy", dots),
        Shares("E", names, names, values, (7,) * 300),
        Table("F", ("name", *(f"c{n}" for n in range(9))), tuple((name, *range(9)) for name in names)),
        Sentences(names[:50]),
    )
    assert write_report(content, tmp_path / "new" / "report.html").stat().st_size < MAX_BYTES


def test_a_page_that_is_too_large_is_refused(tmp_path, monkeypatch):
    """A content put together by hand can be too much even with the tightest limits; then nothing is written."""
    monkeypatch.setattr("holdfast.reports.html.MAX_BYTES", 30_000)
    block = Table("T", tuple("abcdefghij"), tuple(("y" * 60,) * 10 for _ in range(25)))
    with pytest.raises(InputError, match=r"The report would have [\d,]+ bytes, more than the 30,000"):
        write_report(page_of(block), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_no_place_to_write_is_said(tmp_path):
    """A file in the place of the folder is said in one line."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Could not write"):
        write_report(Page("T", "", ()), tmp_path / "file" / "report.html")


def test_the_answer_comes_before_everything_else():
    """The signal is a shape and words, not a color alone; shares are percentages with their intervals."""
    numbers = Table("Few", ("accuracy", "ordinary", "stable"), (("now", 0.812, Interval(0.5, 0.25, 0.75)),))
    answer = Answer("Use `a`.", "bad", "At risk", numbers, ("Run `b`.",))
    page = render_report(Page("T", "", (Section("S", "", ()),), answer=answer))
    assert page.index("Use <code>a</code>.") < page.index("<nav") < page.index('<main id="main">')
    assert '<p class="signal"><span class="light" aria-hidden="true">✕</span>At risk</p>' in page
    assert '<td class="number">81.2%</td><td class="number">50.0%<small>[25.0, 75.0]</small></td>' in page
    assert "<li>Run <code>b</code>.</li>" in page


def test_folded_sections_are_details():
    """A folded section is closed until it is opened, its heading is the summary."""
    page = render_report(Page("T", "", (Section("Open", "", ()), Section("Closed", "", (), folded=True))))
    assert page.count('<details class="folded"><summary><h2') == 1
    assert '<h2 id="heading-2">Closed</h2></summary>' in page
