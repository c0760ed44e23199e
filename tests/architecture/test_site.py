from pathlib import Path

import holdfast

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_site():
    """A page without a place in the navigation is not found; tables of the reproduction are linked from its page."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    listed = [page for page in pages if not page.startswith("reproduction/")]
    assert len(listed) > 15
    assert [page for page in listed if f": {page}\n" not in nav] == []


def test_every_public_name_is_in_the_reference():
    """The page of the Python reference has each name that the package offers, and none that it does not."""
    lines = (DOCS / "reference" / "python.md").read_text(encoding="utf-8").splitlines()
    told = {line.removeprefix("::: holdfast.") for line in lines if line.startswith(":::")}
    assert {name for name in told if "." not in name} == set(holdfast.__all__) - {"__version__"}
