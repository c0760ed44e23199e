import shlex

import numpy as np
import pandas as pd
import pytest

from holdfast.tables.classifier import TableClassifier
from holdfast.tables.method_scores import METRICS

DROP = ("--drop", "note", "--drop", "visit")


def patients(site, agreement, generator, n_rows=800):
    """Return rows of whom the marker tells 75 of 100 diagnoses, and the scanner `agreement` of them."""
    ill = generator.integers(2, size=n_rows)
    columns = {
        name: np.where(generator.random(n_rows) < share, ill, 1 - ill)
        for name, share in (("marker", 0.75), ("scanner", agreement))
    }
    return pd.DataFrame({"site": site, **columns, "diagnosis": np.where(ill, "ill", "well")})


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Write a table of Boston and Chicago, and one with Denver too, where the scanner tells the opposite."""
    folder, generator = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    tables = [patients(site, share, generator) for site, share in (("Boston", 0.97), ("Chicago", 0.8), ("Denver", 0.1))]
    pd.concat(tables[:2]).to_csv(folder / "two.csv", index=False)
    pd.concat(tables).to_csv(folder / "three.csv", index=False)
    return folder


def test_the_recommended_method_holds_where_it_was_not_fitted(holdfast, hospitals, sites):
    """The accuracy in Denver is the one that a classifier fitted on the other two by `holdfast fit` has there."""
    result = holdfast("compare", sites / "three.csv", *hospitals.fit_options, "--method", "stable", "--json").json
    assert (result["n_rows"], result["n_environments"]) == (2400, 3)
    assert result["protocol"] == "each environment left out in turn"
    assert [method["method"] for method in result["methods"]] == ["stable", "erm"]
    assert result["recommended"] == "stable"
    assert result["caveat"].startswith("The ranking is about environments that differ from these as much as")
    assert result["answer"].startswith("Use stable: its mean accuracy in unseen environments is 0.")
    denver = pd.read_csv(sites / "three.csv").query("site == 'Denver'")
    for method in result["methods"]:
        classifier = TableClassifier(label="diagnosis", environment="site", method=method["method"])
        predicted = classifier.fit(sites / "two.csv").predict(denver)
        assert method["parts"]["Denver"] == pytest.approx(np.mean(predicted == denver["diagnosis"].to_numpy()))


def test_text_is_a_ranking_and_a_sentence(holdfast, hospitals, sites):
    """With two environments the worst half counts, with a caveat; progress goes to stderr, and all fits 80 columns."""
    outcome = holdfast("compare", sites / "two.csv", *hospitals.fit_options, "--method", "pi")
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines() if not line.startswith("Next: ")) <= 80
    assert "\nRanked by lowest accuracy\n  method " in outcome.out
    assert "\n  Chicago, mistaken " in outcome.out
    assert outcome.out.startswith("Use pi: its accuracy in the worst held-out half is ")
    assert "The halves are those of pi, which favors pi by construction." in " ".join(outcome.out.split())
    assert outcome.err.splitlines()[0] == "fitting 1 of 4: erm, 1 of 2"


def test_without_probabilities_the_spread_is_missing(holdfast, hospitals, sites):
    """A linear SVM has no log loss, and the text says so."""
    outcome = holdfast(
        "compare", sites / "two.csv", *hospitals.fit_options, "--method", "balanced", "--estimator", "linear_svm"
    )
    assert outcome.code == 0, outcome.err
    assert "–: linear_svm gives no probabilities, so there is no AUROC, loss or score" in outcome.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "ill", "--environment", "site"], "has no column 'ill'. "),
        (["--method", "pii"], "error: There is no method 'pii' to compare. Did you mean 'pi'?"),
        (["--method", "oracle"], "error: There is no method 'oracle' to compare. Choose from 'stable', 'pi', "),
        (
            ["--method", "irm"],
            "error: The method 'irm' needs a network. Pass --estimator mlp, or a NeuralClassifier.\n",
        ),
        (["--estimator", "forests"], "error: There is no estimator 'forests'. Did you mean 'forest'?\n"),
        (
            ["--environment", "visit", "--environment-by", "day"],
            "error: Column 'site × visit' has 400 environments, and every method would be fitted once for each; at "
            "most 100 are allowed. Name a coarser column, or cut dates with --environment-by year.\n",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(holdfast, hospitals, options, message):
    """Columns, methods and estimators that do not fit are named before anything is fitted."""
    outcome = holdfast("compare", hospitals.train, *hospitals.fit_options, "--drop", "note", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_one_environment_cannot_be_compared(holdfast, hospitals, tmp_path):
    """There is none to be left out."""
    pd.read_csv(hospitals.train).query("site == 'Boston'").to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("compare", tmp_path / "t.csv", *hospitals.fit_options, *DROP)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: Column 'site' has only one value, so no site can be left out. Pass rows of at least two sites.\n"
    )


def test_the_metric_ranks(holdfast, hospitals, sites):
    """Every metric is shown; the chosen one ranks, and an unknown one is refused."""
    command = ("compare", sites / "three.csv", *hospitals.fit_options, "--method", "stable")
    result = holdfast(*command, "--metric", "log_loss", "--json").json
    assert result["ranked_by"] == "log_loss"
    losses = [method["metrics"]["log_loss"] for method in result["methods"]]
    assert losses == sorted(losses)
    assert set(result["methods"][0]["metrics"]) == set(METRICS)
    assert "lowest log loss" not in result["answer"]
    outcome = holdfast(*command, "--metric", "acuracy")
    assert (outcome.code, outcome.err) == (2, "error: There is no metric 'acuracy'. Did you mean 'accuracy'?\n")


def test_the_next_command_can_be_pasted(holdfast, hospitals, sites, tmp_path, monkeypatch):
    """It fits what was recommended, with all options that were given."""
    monkeypatch.chdir(tmp_path)
    outcome = holdfast("compare", sites / "three.csv", *hospitals.fit_options, "--method", "stable")
    words = shlex.split(outcome.out.splitlines()[-1].removeprefix("Next: "))
    assert words[:2] == ["holdfast", "fit"]
    assert words[-4:] == ["--method", "stable", "--out", "model"]
    assert holdfast(*words[1:]).code == 0
