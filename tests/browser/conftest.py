"""One browser for all tests of a file."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("devtools", Path(__file__).with_name("devtools.py"))
devtools = importlib.util.module_from_spec(_spec)
sys.modules["devtools"] = devtools
_spec.loader.exec_module(devtools)


@pytest.fixture(scope="module")
def shared_page(tmp_path_factory):
    """Return the page of a browser that runs for all tests of a file."""
    program = devtools.find_browser()
    if program is None:
        pytest.skip("no Chromium is installed; scripts/browser-test installs one and runs these tests")
    with devtools.browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page
