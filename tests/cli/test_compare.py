import numpy as np
import pandas as pd
import pytest

from holdfast.cli.estimators import make_estimator, make_method
from holdfast.cli.table_classifier import TableClassifier
from holdfast.cli.tabular import read_training

DROP = ("--drop", "note", "--drop", "visit")


@pytest.fixture(scope="module")
def three(hospitals, tmp_path_factory):
    """Write Boston, Chicago and Denver into one table."""
    file = tmp_path_factory.mktemp("three") / "three.csv"
    tables = [pd.read_csv(hospitals.train), pd.read_csv(hospitals.test).query("site == 'Denver'")]
    pd.concat(tables).to_csv(file, index=False)
    return file


def test_the_recommended_method_holds_where_it_was_not_fitted(holdfast, hospitals, three):
    """The accuracy in Denver is the one that a classifier fitted on the other two by `holdfast fit` has there."""
    result = holdfast("compare", three, *hospitals.fit_options, *DROP, "--method", "pi", "--json").json
    assert (result["n_rows"], result["n_environments"]) == (500, 3)
    assert result["protocol"] == "each environment left out in turn"
    assert [method["method"] for method in result["methods"]] == ["pi", "erm"]
    assert result["recommended"] == "pi"
    assert result["recommendation"].startswith("Use pi: its accuracy in unseen environments is 0.7")
    training = read_training(str(hospitals.train), label="diagnosis", environments=["site"], drop=["note", "visit"])
    frame = pd.read_csv(three).query("site == 'Denver'")
    for method in result["methods"]:
        classifier = make_method(method["method"], make_estimator("logistic"), random_state=0)
        fitted = TableClassifier.fit(training, classifier, dense=False, names={})
        predicted = fitted.pipeline.predict(training.roles.schema.features(frame))
        accuracy = np.mean(predicted == frame["diagnosis"].to_numpy())
        assert method["parts"]["Denver"] == pytest.approx(accuracy)


def test_text_is_a_ranking_and_a_sentence(holdfast, hospitals):
    """With two environments the worst half counts; progress goes to stderr, and all fits 80 columns."""
    outcome = holdfast("compare", hospitals.train, *hospitals.fit_options, *DROP, "--method", "pi")
    assert outcome.code == 0
    assert max(map(len, outcome.out.splitlines()[:-1])) <= 80
    assert "Ranked by accuracy in the worst half (95 % intervals)\n  method " in outcome.out
    assert "\n  Chicago, mistaken " in outcome.out
    assert "\nUse pi: its accuracy in the worst held-out half is " in outcome.out
    assert outcome.err.splitlines()[0] == "fitting 1 of 4: erm, 1 of 2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "ill", "--environment", "site"], "has no column 'ill'. "),
        (["--method", "pii"], "error: There is no method 'pii'. "),
        (["--method", "oracle"], "error: There is no method 'oracle'. It may be 'pi', "),
        (["--method", "irm"], "error: The method 'irm' needs a network, not 'logistic'. Pass --estimator mlp.\n"),
        (["--estimator", "forests"], "error: There is no estimator 'forests'. Did you mean 'forest'?\n"),
        (
            ["--environment", "visit", "--environment-by", "day"],
            "error: Column 'site × visit' names 400 environments, and every method would be fitted once for each; at "
            "most 100 are. Name a coarser column, or cut dates with --environment-by.\n",
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
        "error: Column 'site' names one environment only, so no method can be tried on another. "
        "Pass rows of at least two.\n"
    )
