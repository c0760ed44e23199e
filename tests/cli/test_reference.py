from pathlib import Path

from holdfast.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_reference_page_is_what_the_commands_say():
    """The page is made from the commands' own help: python -m holdfast.cli.reference > docs/reference/cli.md."""
    assert PAGE.read_text(encoding="utf-8").split() == reference().split()
