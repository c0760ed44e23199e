"""The model card beside a saved classifier."""

import pandas as pd
import pytest

from holdfast import TableClassifier


@pytest.fixture(scope="module")
def model():
    """Return a classifier of two sites, one of which has a name that would break a table."""
    frame = pd.DataFrame({"site": ["A|<b>", "B"] * 60, "age": range(120), "ill": ["no"] * 60 + ["yes"] * 60})
    return TableClassifier(label="ill", environment="site").fit(frame)


def test_the_card_has_verdict_sites_price_forecast_and_limits(model, tmp_path):
    """It is written when the classifier is saved; names cannot break its tables."""
    model.save(tmp_path / "model")
    card = (tmp_path / "model" / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# Model card: ill\n")
    for title in ("## Verdict", "## Known sites", "## Price and forecast", "## Limits"):
        assert title in card
    assert "| A\\|&lt;b> | 60 | " in card
    verdict = model.verdict_
    assert f"| at the known sites | {verdict.known.ordinary:.3f} | {verdict.known.fitted:.3f} |" in card
    assert f"between {verdict.forecast.low:.3f} and {verdict.forecast.high:.3f}" in card
    assert str(verdict).split(". ")[0] in card


def test_the_card_may_be_edited_or_removed(model, tmp_path):
    """It is not part of what is checked when the classifier is loaded, and does not hinder --overwrite."""
    model.save(tmp_path / "model")
    (tmp_path / "model" / "card.md").write_text("mine", encoding="utf-8")
    assert TableClassifier.load(tmp_path / "model").classes_.tolist() == ["no", "yes"]
    model.save(tmp_path / "model", overwrite=True)
    (tmp_path / "model" / "card.md").unlink()
    assert TableClassifier.load(tmp_path / "model").classes_.tolist() == ["no", "yes"]


def test_a_method_without_a_verdict_has_a_short_card(model, tmp_path):
    """No price and forecast are claimed."""
    frame = pd.DataFrame({"site": ["A", "B"] * 60, "age": range(120), "ill": ["no"] * 60 + ["yes"] * 60})
    TableClassifier(label="ill", environment="site", method="erm").fit(frame).save(tmp_path / "model")
    card = (tmp_path / "model" / "card.md").read_text(encoding="utf-8")
    assert "## Verdict" not in card
    assert "| A | 60 | – | – |" in card
    assert "equally strong" not in card
