"""Adaptation: what EM learns without labels, the guards, and what does not fit."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from holdfast import StableClassifier, TableClassifier
from holdfast.exceptions import ParameterError, TableError
from holdfast.newsite.codes import Coding, UnstableColumn
from holdfast.newsite.relation import Relation, join, relearn
from holdfast.newsite.trials import Relearning, SiteTrial

from .conftest import hospital, known_hospitals  # noqa: TID252 - helpers of this folder


def site(agreement, n_rows=2000, seed=0):
    """Return P(y | rest), labels, and a code that agrees with the label in a share of the rows."""
    generator = np.random.default_rng(seed)
    chances = special.expit(generator.normal(0, 1.5, n_rows))
    y = (generator.random(n_rows) < chances).astype(np.intp)
    code = np.where(generator.random(n_rows) < agreement, y, 1 - y).astype(float)
    return np.column_stack([1 - chances, chances]), y, code[:, None]


COLUMN = UnstableColumn("scanner", (0,), sides={"0.0": 0, "1.0": 1})


@pytest.mark.parametrize("agreement", [0.1, 0.3, 0.9])
def test_em_finds_the_agreement_without_labels(agreement):
    """The share of rows in which the code is right is within its error, and q is the table of code and label."""
    chances, y, code = site(agreement)
    relation = relearn(COLUMN, code, chances)
    assert abs(relation.right - agreement) < 2.5 * relation.error
    assert relation.error < 0.05
    ratio = np.exp(relation.logs[1] / relation.weight) * (code == 1).mean()  # q(1 | y)
    assert ratio[1] == pytest.approx(agreement, abs=0.08)


def test_a_column_that_says_nothing_has_no_weight():
    """A code by chance gains about half its free parameter in log-likelihood, which the shrinkage takes away."""
    weights = [relearn(COLUMN, site(0.5, seed=seed)[2], site(0.5, seed=seed)[0]).weight for seed in range(20)]
    assert np.median(weights) < 0.3
    assert np.mean(np.array(weights) == 0) >= 0.4


def test_a_constant_column_says_nothing():
    """One value at the site: no weight, and nothing is divided by zero."""
    chances, _, code = site(0.9)
    relation = relearn(COLUMN, np.ones_like(code), chances)
    assert relation.weight == 0
    assert "cannot be estimated" in relation.sentence


def test_class_shares_are_kept():
    """Whatever the columns add, the mean probabilities are those of the stable part."""
    generator = np.random.default_rng(0)
    logs = special.log_softmax(generator.normal(size=(300, 3)), axis=1)
    added = generator.normal(0, 2, size=(300, 3)) + [0, 1, 2]
    adapted = join(logs, added, 0.7).probabilities(logs + 0.7 * added)
    np.testing.assert_allclose(adapted.mean(axis=0), np.exp(logs).mean(axis=0), atol=1e-5)


def test_values_become_codes():
    """Levels in order, unknown and missing ones last; numbers are cut at six quantiles of the site."""
    levels = Coding((0,), levels=("A", "B"))
    assert levels.encode(pd.DataFrame({"x": ["B", "A", "C", None]})).tolist() == [1, 0, 2, 2]
    column = UnstableColumn("x", (0,))
    numbers = np.r_[np.arange(120.0), np.nan][:, None]
    coding = column.coding(numbers)
    assert np.bincount(coding.encode(numbers)).tolist() == [20, 20, 20, 20, 20, 20, 1]
    assert column.coding(np.array([[1.0], [2.0], [1.0]])).levels == ("1.0", "2.0")


def tried(learned=(0.2, 0.1), **gains):
    """Return trials of the known sites A and B with standard errors of 0.01, for each scenario."""
    return {
        scenario: {
            name: SiteTrial(500, saved, 0.01, gain, 0.9, 0.8, gain_error=0.01)
            for name, saved, gain in zip("AB", learned, both, strict=True)
        }
        for scenario, both in gains.items()
    }


GAINS = {"known": (0.2, 0.1), "vanished": (0.0, 0.0), "reversed": (0.3, 0.3)}


@pytest.mark.parametrize(
    ("column", "trials", "reason"),
    [
        ({}, GAINS, None),
        ({"mechanism": 5.0}, GAINS, "mechanism"),
        ({}, GAINS | {"reversed": (0.3, -0.1)}, "loses"),
        ({}, GAINS | {"reversed": (0.01, 0.0)}, "no_gain"),
        ({}, {}, "too_few_sites"),
        ({"change": 0.1}, GAINS, None),
        ({"change": 0.1}, GAINS | {"known": (0.2, -0.2)}, "loses"),
        ({}, GAINS | {"learned": (0.2, -0.03)}, "loses"),
        ({}, GAINS | {"learned": (0.01, 0.005)}, "no_gain"),
    ],
)
def test_the_guards(column, trials, reason):
    """Both are needed: independence within label, and a gain expected at the known sites with a loss at none."""
    relearning = Relearning((UnstableColumn("x", (0,), **column),), trials=tried(**trials))
    found = relearning.refusal()
    assert (None if found is None else found[0]) == reason


@pytest.mark.parametrize(
    ("right", "weight", "reason"),
    [(0.9, 1.0, "as_known"), (0.1, 1.0, None), (0.5, 0.0, None), (0.9, 0.0, "says_nothing")],
)
def test_the_rows_of_the_site_are_evidence_too(right, weight, reason):
    """A column that is used, and probably the same everywhere, is learned only where the rows say that it differs."""
    trials = tried(known=(-0.05, -0.05), vanished=(0.2, 0.2), reversed=(0.9, 0.9))
    relearning = Relearning((UnstableColumn("x", (0,), change=0.02),), trials=trials)
    relation = Relation("x", Coding((0,)), np.zeros((1, 2)), weight, right, 0.03, {"A": 0.92, "B": 0.88})
    found = relearning.refusal([relation])
    assert (None if found is None else found[0]) == reason


@pytest.mark.parametrize("kind", ["code", "words", "numbers"])
def test_a_turned_column_is_learned_anew(kind):
    """Accuracy at a site where the column turned, vanished or stayed: above, or as good as, without the column."""
    model = TableClassifier(label="ill", environment="site").fit(known_hospitals(kind=kind))
    assert model.verdict_.fitted == "stable"
    gains = []
    for seed, agreement in enumerate((0.1, 0.5, 0.9), start=10):
        new = hospital("Denver", 500, agreement, seed, kind=kind)
        adapted = model.adapt(new.drop(columns="ill"))
        gains.append(np.mean(adapted.predict(new) == new["ill"]) - np.mean(model.predict(new) == new["ill"]))
    assert gains[0] > 0.08
    assert gains[1] > -0.02
    assert gains[2] > 0.08


def test_a_column_that_no_verdict_found_is_learned_where_it_turned(tmp_path):
    """Too few rows tell that its effect differs, so it is used; rows of the site tell that it does there."""
    shares = {"Boston": 0.92, "Chicago": 0.88, "Detroit": 0.86}
    parts = [hospital(name, 200, share, seed) for seed, (name, share) in enumerate(shares.items(), start=30)]
    model = TableClassifier(label="ill", environment="site").fit(pd.concat(parts, ignore_index=True))
    assert model.verdict_.fitted == "ordinary"
    model.save(tmp_path / "model")
    model = TableClassifier.load(tmp_path / "model")
    for agreement, before, after, reason in ((0.1, 0.3, 0.85, ""), (0.5, 0.65, 0.72, ""), (0.9, 0.9, 0.85, "as_known")):
        new = hospital("Denver", 500, agreement, 10)
        adapted = model.adapt(new.drop(columns="ill"))
        assert adapted.adaptation_.reason == reason
        assert np.mean(model.predict(new) == new["ill"]) < before or reason
        assert np.mean(adapted.predict(new) == new["ill"]) > after
        found = model.check(new)
        assert found.advice == ("use" if reason else "adapt")
        assert found.forecast.low < np.mean(adapted.predict(new) == new["ill"]) < found.forecast.high
        if not reason:
            assert found.as_it_is == pytest.approx(np.mean(model.predict(new) == new["ill"]), abs=0.08)
            assert "Expected accuracy once adapted: " in str(found)
            assert "without adapting 0." in str(found)


def test_three_classes():
    """The column is learned for every class."""
    model = TableClassifier(label="ill", environment="site").fit(known_hospitals(n_classes=3, kind="words"))
    new = hospital("Denver", 800, 0.05, 9, n_classes=3, kind="words")
    adapted = model.adapt(new)
    assert adapted.adaptation_.adapted, adapted.adaptation_
    before, after = ((m.predict(new) == new["ill"]).mean() for m in (model, adapted))
    assert after > before + 0.05


def test_an_adapted_classifier_is_saved_without_rows(model, tmp_path):
    """It loads and answers the same; the one that it was made of stays as it was."""
    new = hospital("Denver", 300, 0.1, 7)
    before = model.predict_proba(new)
    adapted = model.adapt(new)
    np.testing.assert_array_equal(model.predict_proba(new), before)
    assert model.adaptation_ is None
    adapted.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(new), adapted.predict_proba(new))
    assert str(loaded.adaptation_) == str(adapted.adaptation_)
    assert "`scanner` agrees with the label in 1" in str(adapted.adaptation_)
    assert "98% in Boston" in str(adapted.adaptation_)
    assert "The label column 'ill' is ignored." in str(adapted.adaptation_)
    assert sum(path.stat().st_size for path in (tmp_path / "model").iterdir()) < 100_000


def test_a_loaded_classifier_can_be_adapted(model, tmp_path):
    """What adapting needs is saved with the model."""
    new = hospital("Denver", 300, 0.1, 7)
    model.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.adapt(new).predict_proba(new), model.adapt(new).predict_proba(new))


def test_then_recalibrate(model):
    """Labeled rows correct an adapted classifier; the other way round is refused."""
    new = hospital("Denver", 300, 0.1, 7)
    corrected = model.adapt(new).recalibrate(new[:60])
    assert corrected.recalibration_.n_labels == 60
    assert corrected.adaptation_.adapted
    with pytest.raises(ParameterError, match="then recalibrate"):
        corrected.adapt(new)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.NewSiteWarning")
@pytest.mark.parametrize(
    ("change", "reason", "says"),
    [
        (lambda rows: rows[:1], "few_rows", "at least 30 rows"),
        (lambda rows: rows.assign(scanner=1.0), "says_nothing", "effect of `scanner` cannot be estimated"),
        (lambda rows: rows.iloc[[0] * 100], "says_nothing", "cannot be estimated"),
    ],
)
def test_what_does_not_help_is_said_and_nothing_is_lost(model, change, reason, says):
    """One row, a constant column, rows that are all alike: it predicts as before."""
    new = change(hospital("Denver", 300, 0.1, 7))
    adapted = model.adapt(new)
    assert adapted.adaptation_.reason == reason
    assert says in str(adapted.adaptation_)
    assert "The model is unchanged." in str(adapted.adaptation_)
    np.testing.assert_array_equal(adapted.predict_proba(new), model.predict_proba(new))


def test_without_an_unstable_column_nothing_is_adapted():
    """The ordinary classifier stays as it is."""
    rows = known_hospitals().drop(columns="scanner")
    adapted = TableClassifier(label="ill", environment="site").fit(rows).adapt(rows)
    assert adapted.adaptation_.reason == "no_unstable_column"
    assert str(adapted.adaptation_).startswith("Not adapted: the model uses no column whose effect may differ much and")


def test_models_of_before_say_so(model):
    """A model that was saved without what adapting needs is not adapted."""
    method = model.method_
    older = StableClassifier.__new__(StableClassifier)
    older.__dict__.update({name: value for name, value in vars(method).items() if name != "relearning_"})
    rows = model.roles_.schema.features(hospital("Denver", 50, 0.1, 7))
    assert older.adapt(rows).adaptation_.reason == "older_model"


def test_what_cannot_be_adapted_is_refused(model):
    """Other methods, a table without the column, and no rows."""
    rows = known_hospitals()
    with pytest.raises(ParameterError, match="Only a classifier of the method 'stable'"):
        TableClassifier(label="ill", environment="site", method="erm").fit(rows).adapt(rows)
    with pytest.raises(TableError, match="Column 'scanner' is missing"):
        model.adapt(rows.drop(columns="scanner"))
    with pytest.raises(TableError, match="no rows"):
        model.adapt(rows[:0])
