import re
import runpy
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"
PINNED = re.findall(r"^typer==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.skipif(
    [version("typer")] != PINNED, reason="another typer than the pinned one lays help out in another way"
)
def test_reference_page_is_what_the_commands_say():
    """The page is made from the commands' own help, by scripts/pages."""
    reference = runpy.run_path(str(ROOT / "scripts" / "pages"))["reference"]
    assert PAGE.read_text(encoding="utf-8").split() == reference().split()
