import sys

import pytest

from holdfast.exceptions import MissingExtraError
from holdfast.extras import require


def test_an_installed_package_is_returned():
    """The module itself comes back."""
    assert require("json", extra="neural", what="Networks") is sys.modules["json"]


def test_a_missing_package_names_the_extra(monkeypatch):
    """The error says what needs which package and what to type; whoever catches ImportError catches it too."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"^Networks need torch, .* pip install 'holdfast\[neural\]'$") as found:
        require("torch", extra="neural", what="Networks")
    assert found.value.name == "torch"
    assert isinstance(found.value, ImportError)


def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    """Installing the extra again would not help, so the package's own error is shown."""
    (tmp_path / "a_broken_package.py").write_text("raise ImportError('libsomething.so: cannot open')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="cannot open") as found:
        require("a_broken_package", extra="neural", what="Networks")
    assert not isinstance(found.value, MissingExtraError)
