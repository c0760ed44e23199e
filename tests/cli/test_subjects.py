"""Rows that belong together, in the commands: `--subjects COL`."""

import numpy as np
import pandas as pd
import pytest

COLUMNS = ("--label", "ill", "--environment", "site")


@pytest.fixture
def visits(tmp_path):
    """Each of 300 patients four times, with small differences; without them, one row each."""
    rng = np.random.default_rng(3)
    ill = rng.integers(0, 2, 300)
    site = np.repeat(["Boston", "Chicago"], 150)
    scanner = np.where(rng.random(300) < np.where(site == "Boston", 0.92, 0.76), ill, 1 - ill)
    frame = pd.DataFrame({"site": site, "marker": ill + rng.normal(size=300), "scanner": scanner, "ill": ill})
    frame["patient"] = [f"p{number}" for number in rng.permutation(300)]
    many = frame.loc[np.repeat(np.arange(300), 4)].reset_index(drop=True)
    many["marker"] += 1e-6 * np.arange(len(many))
    frame.drop(columns="patient").to_csv(tmp_path / "once.csv", index=False)
    many.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path


def _posterior(outcome):
    return outcome.json["verdict"]["posterior"].get("scanner", 0.0)


def test_visits_of_a_patient_count_once(holdfast, visits):
    """Four visits are no more evidence than one, and the patient is no feature."""
    once = holdfast("fit", visits / "once.csv", *COLUMNS, "--out", visits / "a", "--json")
    many = ("fit", visits / "visits.csv", *COLUMNS)
    said = holdfast(*many, "--subjects", "patient", "--out", visits / "b", "--json")
    unsaid = holdfast(*many, "--drop", "patient", "--out", visits / "c", "--json")
    assert said.code == 0, said.err
    assert set(said.json["columns"]) == {"marker", "scanner"}
    assert _posterior(said) == pytest.approx(_posterior(once), abs=0.02)
    assert _posterior(unsaid) > _posterior(once) + 0.1
    assert holdfast("predict", visits / "b", visits / "once.csv", "--out", visits / "p.csv").code == 0


def test_audit_and_diagnose_know_subjects(holdfast, visits):
    """The audit has the posterior of the fit; diagnose counts patients once, too, and its next command says so."""
    many = (visits / "visits.csv", *COLUMNS, "--subjects", "patient")
    fitted = holdfast("fit", *many, "--out", visits / "m", "--json")
    audited = holdfast("audit", *many, "--json")
    (found,) = [finding for finding in audited.json["findings"] if finding["feature"] == "scanner"]
    assert found["probability"] == pytest.approx(_posterior(fitted), abs=0.02)
    diagnosed = holdfast("diagnose", *many)
    assert diagnosed.code == 0, diagnosed.err
    assert "--subjects patient" in " ".join(diagnosed.out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--subjects", "ill"),
            "Column 'ill' is the label or an environment; it cannot also say which rows belong together.",
        ),
        (("--subjects", "patint"), "patint"),
        (("--subjects", "one"), "Subject column 'one' is 'x' in every row"),
    ],
)
def test_what_cannot_be_a_subject_is_one_line(holdfast, visits, options, message):
    """Other roles, unknown names and constant columns are refused."""
    pd.read_csv(visits / "visits.csv").assign(one="x").to_csv(visits / "v.csv", index=False)
    outcome = holdfast("fit", visits / "v.csv", *COLUMNS, *options, "--out", visits / "m")
    assert outcome.code != 0
    assert message in " ".join(outcome.err.split())


def test_compare_does_not_take_subjects(holdfast, visits):
    """It says what does."""
    outcome = holdfast("compare", visits / "visits.csv", *COLUMNS, "--subjects", "patient")
    assert "compare does not take --subjects. Use fit, diagnose or audit" in " ".join(outcome.err.split())
