"""Diagnosing a column of probabilities, or a saved model, of a table."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from holdfast import TableClassifier, diagnose_scores
from holdfast.exceptions import LabelsError, ParameterError, TableError
from holdfast.tables.roles import TableOptions
from holdfast.tables.scores import diagnose_model, diagnose_score_column

OPTIONS = TableOptions(label="died", environment="site")


def patients(n_rows=200, seed=0):
    """Return rows of three hospitals whose stated risk is right."""
    generator = np.random.default_rng(seed)
    site = np.repeat(["Boston", "Chicago", "Denver"], n_rows)
    age = generator.normal(60, 10, 3 * n_rows)
    risk = special.expit((age - 62) / 8)
    died = np.where(generator.random(3 * n_rows) < risk, "yes", "no")
    return pd.DataFrame({"site": site, "age": age.round(1), "risk": risk, "died": died})


def test_a_table_of_label_site_and_score_is_enough():
    """Other columns are checked where there are some, and change nothing about the score."""
    frame = patients()
    alone = diagnose_score_column(frame[["site", "risk", "died"]], OPTIONS, "risk")
    among = diagnose_score_column(frame, OPTIONS, "risk")
    assert alone.clinical.sites == among.clinical.sites
    assert alone.profile is None
    assert among.profile.columns == ("age",)
    from_python = diagnose_scores(frame["risk"], frame["died"], frame["site"])
    assert from_python.clinical.sites == alone.clinical.sites
    assert from_python.name == "risk"


def test_the_other_label_can_be_meant():
    """A score of 'no' that is read as one of 'yes' ranks upside down, and the error says what to pass."""
    frame = patients().assign(risk=lambda rows: 1 - rows["risk"])
    with pytest.raises(LabelsError, match="it seems to be the probability of 'no'. Pass positive='no'"):
        diagnose_score_column(frame, OPTIONS, "risk")
    found = diagnose_score_column(frame, OPTIONS, "risk", positive="no")
    assert found.clinical.event == "no"
    assert found.state == "holds"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"risk": 50.0}, TableError, "runs from 50 to 50, so it has no probabilities. Divide percentages by 100"),
        ({"risk": -1.5}, TableError, "Turn log-odds into"),
        ({"risk": "high"}, TableError, "has texts such as 'high'"),
        ({"risk": [np.nan] * 3 + [0.5] * 597}, TableError, "is missing in 3 of 600 rows"),
        ({"site": "Boston"}, TableError, "All rows are of one site, 'Boston'"),
        ({"died": ["yes", "no", "dead"] * 200}, LabelsError, "'died' has 3 values: dead, no, yes"),
    ],
)
def test_what_is_no_score_is_refused(change, error, message):
    """Percentages, log-odds, texts, gaps, one site and three classes; each error says what came."""
    with pytest.raises(error, match=message):
        diagnose_score_column(patients().assign(**change)[["site", "risk", "died"]], OPTIONS, "risk")


def test_labels_written_otherwise_at_one_site_are_the_answer():
    """Where Denver writes ja and nein, no AUROC is given: the values and the site are named."""
    frame = patients()
    frame.loc[frame["site"] == "Denver", "died"] = frame["died"].map({"yes": "ja", "no": "nein"})
    with pytest.raises(LabelsError, match="In Denver, `died` is 'ja', 'nein'"):
        diagnose_score_column(frame, OPTIONS, "risk")


def test_a_saved_model_is_measured_and_known_sites_are_said(tmp_path):
    """The risks are those that it predicts; sites with rows that it was fitted on are named."""
    frame = patients()
    model = TableClassifier(label="died", environment="site", method="erm", drop="risk")
    model.fit(frame[frame["site"] != "Denver"]).save(tmp_path / "model")
    fitted = TableClassifier.load(tmp_path / "model")
    found = diagnose_model(fitted, frame)
    assert found.known == ("Boston", "Chicago")
    assert found.notes[0].startswith("The model was fitted on rows of Boston, Chicago")
    denver = frame[frame["site"] == "Denver"]
    assert found.clinical.sites[2].brier.value == pytest.approx(
        np.mean((fitted.predict_proba(denver)[:, 1] - (denver["died"] == "yes")) ** 2)
    )


def test_a_model_of_three_classes_is_refused():
    """With the command that takes it."""
    frame = patients().assign(died=["yes", "no", "lost"] * 200)
    model = TableClassifier(label="died", environment="site", method="erm", drop="risk").fit(frame)
    with pytest.raises(ParameterError, match="has 3 classes .* Use 'holdfast evaluate'"):
        diagnose_model(model, frame)


def test_weights_count():
    """Rows of weight two count like two rows."""
    frame = patients()
    twice = frame.assign(w=np.where(frame["age"] > 60, 2.0, 1.0))
    weighted = diagnose_score_column(twice, TableOptions(label="died", environment="site", weight="w"), "risk")
    repeated = pd.concat([frame, frame[frame["age"] > 60]])
    plain = diagnose_score_column(repeated, OPTIONS, "risk", threshold=weighted.clinical.threshold)
    for one, other in zip(weighted.clinical.sites, plain.clinical.sites, strict=True):
        assert one.auroc.value == pytest.approx(other.auroc.value)
        assert one.oe.value == pytest.approx(other.oe.value)
