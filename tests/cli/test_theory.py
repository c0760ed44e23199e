import math

import pytest


def test_numbers_are_those_of_the_derivation(holdfast):
    """With equal environments soft mistaken halves have no correlation; hard ones flip it for a judge that uses x2."""
    result = holdfast("theory", "--eta1", "0.1", "--eta2", "0.1", "--json").json
    assert result["correlation"] == pytest.approx(0.8)
    assert result["halves"]["soft"]["mistaken"] == pytest.approx(0.0, abs=1e-12)
    # This judge follows x2, so the hard halves are the rows where x2 and y agree, and those where they do not.
    assert result["halves"]["hard"] == pytest.approx(
        {"alpha": 0.9, "correct": 1.0, "mistaken": -1.0, "oracle_weight": 0.5}
    )
    assert len(result["curves"]) == 201
    assert result["curves"][-1]["eta"] == 1.0


def test_text_fits_80_columns(holdfast):
    """Two lines of numbers; where no mixture hides x2 the weight is a dash."""
    outcome = holdfast("theory", "--eta1", "0.5", "--eta2", "0.9")
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out.startswith("x2 and y correlate at -0.800 in the judged environment")
    soft = next(line.split() for line in outcome.out.splitlines() if line.startswith("  soft "))
    assert soft == ["soft", "0.680", "-0.800", "-0.800", "–"]


def test_the_picture_is_the_same_for_the_same_numbers(holdfast, tmp_path):
    """An SVG file holds the numbers in words, and no date."""
    pictures = [tmp_path / name for name in ("a.svg", "b.svg")]
    for picture in pictures:
        outcome = holdfast("theory", "--out", picture)
        assert outcome.code == 0
        assert f"\nWrote {picture}.\n" in outcome.out
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert b"oracle at weight 0.31" in first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eta1", "1.5"], "error: Invalid value for '--eta1': "),
        (["--eta2", str(math.nan)], "error: "),
        (["--out", "curves.pdf"], "error: --out curves.pdf is of the unknown type '.pdf'. Use one of .svg.\n"),
        (["--out", "nowhere/a.svg"], "error: --out nowhere/a.svg is in a folder that does not exist. Create it"),
    ],
)
def test_what_does_not_fit_is_one_line(holdfast, options, message):
    """Probabilities outside of 0 and 1 and other files are refused before anything is computed."""
    outcome = holdfast("theory", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1


def test_a_picture_is_replaced_only_when_asked(holdfast, tmp_path):
    """An older file stays, unless --overwrite is passed."""
    picture = tmp_path / "a.svg"
    picture.write_text("mine")
    outcome = holdfast("theory", "--out", picture)
    assert outcome.code == 2
    assert outcome.err == f"error: --out {picture} exists. Choose another file, or pass --overwrite.\n"
    assert picture.read_text() == "mine"
    assert holdfast("theory", "--out", picture, "--overwrite").code == 0
    assert picture.read_text().startswith("<?xml")
