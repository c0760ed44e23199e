"""The site: every page has its place, every name its entry, every link and anchor its target."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

import holdfast

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def listed_pages(page: Path) -> set[Path]:
    """Return the files that the tables of contents of a page lead to."""
    found: set[Path] = set()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            name = re.sub(r".*<(.+)>$", r"\1", line.strip())
            if name and not name.startswith(":"):
                found.update(path.resolve() for path in page.parent.glob(f"{name}.md"))
    return found


def test_every_page_is_in_the_site():
    """A page is found from the home page by the tables of contents alone."""
    reached, waiting = set(), {DOCS / "index.md"}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting |= listed_pages(page) - reached
    assert len(reached) > 30
    assert set(DOCS.rglob("*.md")) - reached == set()


def test_every_public_name_is_in_the_reference():
    """The page of the Python reference has each name that the package offers, and none that it does not."""
    lines = (DOCS / "reference" / "python.md").read_text(encoding="utf-8").splitlines()
    named = {line.removeprefix("   holdfast.") for line in lines if line.startswith("   holdfast.")}
    assert {name for name in named if "." not in name} == set(holdfast.__all__) - {"__version__"}


def test_every_public_name_has_an_example():
    """Who looks up a class or a function finds code to start from; the doctests run it."""
    names = [name for name in holdfast.__all__ if name not in ("__version__", "theory")]
    assert [name for name in names if ">>>" not in (getattr(holdfast, name).__doc__ or "")] == []


def read_page(page: Path) -> tuple[list[str], set[str]]:
    """Return where the links and pictures of a Markdown page lead, and the anchors of its headings."""
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    links, anchors = [], set()
    for before, token in zip([None, *tokens], tokens, strict=False):
        for part in token.children or ():
            target = part.attrs.get("href") or part.attrs.get("src")
            if target:
                links.append(unquote(str(target)))
        if before is not None and before.type == "heading_open":
            words = "".join(part.content for part in token.children or () if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            numbered = (slug if not n else f"{slug}-{n}" for n in range(100))
            anchors.add(next(name for name in numbered if name not in anchors))
    return links, anchors


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file or heading does not exist."""
    broken = []
    for link in read_page(page)[0]:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target.parent == DOCS / "gallery":  # made of the examples when the site is built
            target = ROOT / "examples" / (target.stem.replace("index", "GALLERY_HEADER") + target.suffix)
            target = target if target.is_file() else target.with_suffix(".py")
        if not target.exists() or (anchor and anchor not in read_page(target)[1]):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_anchors_lead_somewhere(page):
    """No file and no heading that a page links to is missing."""
    assert broken_links(page) == []


def count_words(page: Path) -> int:
    """Return how many words a page has, tables included, without code blocks, comments and addresses of links."""
    text = re.sub(
        "<!-- glance -->.*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )  # the paper's rows
    text = re.sub(r"^[ \t]*(`{3,}).*?^[ \t]*\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_the_pages_can_be_read_in_two_hours():
    """All pages have at most 25,000 words; decision records and the paper's tables are not counted."""
    uncounted = ("decisions", "reproduction", "scoreboard.md")
    pages = [page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in uncounted]
    words = {page.relative_to(DOCS).as_posix(): count_words(page) for page in pages}
    assert len(words) > 30
    assert sum(words.values()) <= 25_000, sorted(words.items(), key=lambda item: -item[1])


def test_words_are_counted_outside_of_code(tmp_path):
    """Six words: a heading, a link's text, two cells; neither code nor comments nor addresses."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n\n[three](a/b.md) four\n\n```bash\nno words\n```\n<!-- none -->\n| five | six |\n|---|---|\n"
    )
    assert count_words(page) == 6


def test_a_broken_link_is_found(tmp_path):
    """The check sees a missing file, a missing heading and a missing picture, and nothing else."""
    (tmp_path / "other.md").write_text("# One `two`, three\n\n## Same\n\n## Same\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md#one-two-three) [b](other.md#same-1) [c](#here) [d](https://example.org/x.md)\n\n"
        "| x |\n|---|\n| [e](nowhere.md) |\n\n[f](other.md#four) [g](#there) ![h](none.png)\n\n"
        "```\n[i](code.md)\n```\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["nowhere.md", "other.md#four", "#there", "none.png"]
