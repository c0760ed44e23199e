import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from holdfast import diagnose
from holdfast.diagnosis.answer import recommend, say_price
from holdfast.diagnosis.measurement import MOST_ROUNDS, Experiment
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError, SmallGroupWarning
from holdfast.metrics import Interval
from holdfast.tables.diagnosis import TableSubject, diagnose_rows
from holdfast.tables.roles import TableOptions, read_rows

SITES = ("Boston", "Chicago", "Denver", "Lyon")


def table(n_rows=400, sites=SITES, seed=0):
    """Return rows in which two columns tell the label in the same way everywhere."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n_rows * len(sites))
    columns = {name: generator.normal(size=len(y)) + 1.2 * y for name in ("marker", "pressure")}
    return pd.DataFrame({**columns, "age": generator.normal(50, 10, size=len(y))}), y, np.repeat(sites, n_rows)


def test_a_model_that_holds_is_kept():
    """Where nothing differs the model holds, no part of the loss stands out, and the ordinary model is kept."""
    found = diagnose(*table())
    assert (found.state, found.recommendation.action, found.cause) == ("holds", "keep", None)
    assert str(found).startswith("An ordinary model holds at a site it has not seen: its accuracy is ")
    assert str(found).endswith("Keep the ordinary model.")
    assert found.findings == ()
    assert found.profile.sentences == ()
    assert found.lost.high < 0.05
    for site in found.sites:
        assert site.new.accuracy.low < site.known.accuracy.value < site.new.accuracy.high
        assert site.new.auroc.low < site.elsewhere.auroc.value < site.new.auroc.high


def test_other_rates_are_recalibrated():
    """Where only the classes' frequencies differ, that part is the largest and recalibration is advised."""
    X, y, sites = table(n_rows=1600)
    generator = np.random.default_rng(1)
    shares = dict(zip(SITES, (0.1, 0.25, 0.6, 1.0), strict=True))
    keep = generator.random(len(y)) < np.where(
        y == 1, [shares[s] for s in sites], 1.1 - np.array([shares[s] for s in sites])
    )
    found = diagnose(X[keep], y[keep], sites[keep])
    assert found.cause == "label_shift"
    assert found.recommendation.action == "recalibrate"
    assert "mostly because classes are more or less frequent there (label shift)" in str(found)
    assert "At a new site the model ranks rows well (AUROC " in found.recommendation.reason
    assert re.search(
        r"its probabilities are wrong there: `\w+` is 1 in \d+% of rows in \w+, but in \d+% in \w+\. At the left-out",
        found.recommendation.reason,
    )


def test_few_labels_are_asked_for_where_few_are_enough():
    """Recalibration is advised with the fewest rows of a site that bring most of what half of its rows bring."""
    X, y, sites = table(n_rows=600)
    y = np.where(np.isin(sites, SITES[:2]) & (np.random.default_rng(1).random(len(y)) < 0.8), 1, y)  # rates differ
    found = diagnose(X, y, sites)
    remedy = next(remedy for remedy in found.remedies if remedy.action == "recalibrate")
    assert remedy.n_labels in (50, 100)
    assert remedy.name == f"recalibrated with {remedy.n_labels} rows"
    assert remedy.is_sure
    if found.recommendation.action == "recalibrate":
        assert f"label about {remedy.n_labels} rows there" in str(found)
        assert "--recalibrate LABELED.csv" in found.recommendation.how


def test_a_column_in_another_unit_is_to_be_repaired():
    """A column that is measured in another unit at one site is named, and dropping it helps at sites left out."""
    X, y, sites = table()
    X["pressure"] = 120 + 10 * X["pressure"]
    X.loc[sites == "Lyon", "pressure"] /= 7.5  # kPa
    found = diagnose(X, y, sites)
    assert found.recommendation.action == "repair"
    assert found.recommendation.columns == ("pressure",)
    assert str(found).startswith("`pressure` is about 1/7.5 as large in Lyon as elsewhere (median 16.7 against 126), ")
    assert str(found).endswith("Convert `pressure` in Lyon, or leave it out.")
    assert found.state == "breaks"


def test_words_among_numbers_come_first(tmp_path):
    """A question mark among numbers is named with the column, before anything else is advised."""
    X, y, sites = table(n_rows=100)
    X["marker"] = X["marker"].round(2).astype(str).mask(np.arange(len(X)) % 9 == 0, "?")
    found = diagnose(X, y, sites)
    advice = found.recommendation
    assert (advice.action, advice.columns, advice.options) == ("repair", ("marker",), ("--missing", "?"))
    assert found.tokens == {"marker": ("?",)}
    file = tmp_path / "rows.csv"
    X.assign(y=y, site=sites).to_csv(file, index=False)
    rows = read_rows(file, TableOptions(label="y", environment="site"))
    assert "pass missing='?' if that means a missing value" in rows.notes[0]
    again = read_rows(file, TableOptions(label="y", environment="site", missing="?"))
    assert again.notes == ()
    assert again.roles.schema.names("numeric") == ["marker", "pressure", "age"]


def test_a_second_header_and_units_in_cells_are_named():
    """Rows that repeat the names of columns, and numbers with a unit at one site, are said with what to do."""
    X, y, sites = table(n_rows=100)
    X["pressure"] = (120 + 10 * X["pressure"]).round().astype(int).astype(str)
    X["pressure"] = X["pressure"].where(sites != "Lyon", X["pressure"] + " mmHg")
    (problem,) = [p for p in diagnose(X, y, sites).problems if p.is_headline]
    assert (problem.key, problem.column, problem.sites) == ("unit_in_cells", "pressure", ("Lyon",))
    header = X.iloc[[0]].assign(**{name: name for name in X.columns})
    texts = pd.concat([X, header])[["marker", "age"]].astype(str)
    found = diagnose(texts, [*y, y[0]], [*sites, sites[0]])
    assert str(found).startswith(
        "Some rows repeat the names of the columns, such as 'marker', 'age': are there several"
    )
    assert found.recommendation.sentence == "Delete these rows from the file."


def test_a_copy_of_the_label_is_named():
    """A column that tells the label alone is the headline, and known before anything is fitted."""
    X, y, sites = table(n_rows=40)
    X, said = X.assign(copy=y), "`copy` alone predicts `ill` in 100% of rows, which looks like a leak."
    advice = diagnose(X, pd.Series(y, name="ill"), sites).recommendation
    assert (advice.action, advice.columns) == ("repair", ("copy",))
    assert advice.sentence == "Leave `copy` out, unless it is known when you predict."
    rows = read_rows(X.assign(ill=y, site=sites), TableOptions(label="ill", environment="site"))
    assert rows.notes == ()
    found = diagnose_rows(rows)
    assert (found.profile.sentences, found.notes) == ((said,), ())


def test_an_unstable_column_calls_for_the_stable_classifier():
    """A column that tells the label at some sites, and hardly at others, is named; price and gain are given."""
    X, y, sites = table()
    generator = np.random.default_rng(1)
    agreement = np.array([dict(zip(SITES, (0.95, 0.8, 0.3, 0.1), strict=True))[site] for site in sites])
    X["scanner"] = np.where(generator.random(len(y)) < agreement, y, 1 - y)
    found = diagnose(X, y, sites)
    assert [finding.feature for finding in found.findings] == ["scanner"]
    assert (found.state, found.cause) == ("breaks", "concept_shift")
    advice = found.recommendation
    assert advice.action == "stable"
    assert "points if the effect vanishes" in advice.reason
    assert next(remedy for remedy in found.remedies if remedy.action == "stable").n_better == 4
    assert found.to_dict()["recommendation"]["columns"] == ("scanner",)


def test_few_rows_call_for_more():
    """With a handful of rows it cannot be said whether the model breaks: more are to be collected."""
    found = diagnose(*table(n_rows=14, seed=3))
    assert (found.state, found.recommendation.action) == ("unclear", "collect")
    assert found.recommendation.site in SITES
    overconfident = diagnose(*table(n_rows=20, seed=3), estimator=DecisionTreeClassifier())
    assert any(remedy.is_sure for remedy in overconfident.remedies)
    assert (overconfident.state, overconfident.recommendation.action) == ("unclear", "collect")


def test_what_only_the_site_knows_calls_for_its_rows():
    """Where wards differ, and every site has wards of its own, only rows of the site say which ones do."""
    generator = np.random.default_rng(0)
    sites, ward = np.repeat(SITES, 200), generator.integers(4, size=800)
    y = (generator.random(800) < np.array([0.1, 0.9, 0.2, 0.8])[ward]).astype(int)
    X = pd.DataFrame({"ward": [f"{site} {number}" for site, number in zip(sites, ward, strict=True)]})
    found = diagnose(X.assign(age=generator.normal(size=800)), y, sites)
    assert (found.state, found.recommendation.action) == ("breaks", "collect")
    assert found.recommendation.reason.startswith("Training with rows of the site helps more than all else")


@pytest.mark.parametrize("estimator", ["linear_svm", RandomForestClassifier(20, min_samples_leaf=5)])
def test_other_estimators(estimator):
    """Estimators without probabilities lose mistakes instead of log loss; classifiers may be passed themselves."""
    found = diagnose(*table(n_rows=80), estimator=estimator, random_state=1)
    assert found.loss_name == ("share of mistakes" if estimator == "linear_svm" else "log loss")
    assert np.isnan(found.sites[0].new.auroc.value) == (estimator == "linear_svm")
    assert found.estimator == ("linear_svm" if estimator == "linear_svm" else "RandomForestClassifier")


def test_many_sites_are_left_out_together_and_several_classes_are_told():
    """With more sites than rounds, several are left out at a time, which is said; three classes have an AUROC."""
    generator = np.random.default_rng(0)
    sites = np.repeat([f"site {number:02}" for number in range(13)], 24)
    y = generator.integers(3, size=len(sites))
    steps = []
    found = diagnose(
        np.column_stack([y + generator.normal(size=len(y))]), y, sites, progress=lambda *step: steps.append(step)
    )
    assert len(found.sites) == 13
    assert f"13 sites were left out in {MOST_ROUNDS} rounds, several at a time." in found.notes
    assert len(dict.fromkeys(step for step, _, _ in steps)) >= 2 + MOST_ROUNDS
    assert [n_done for _, n_done, _ in steps] == sorted(n_done for _, n_done, _ in steps)
    assert {n_fits for _, _, n_fits in steps} == {
        5 + MOST_ROUNDS * 2 + 10 + 10 * MOST_ROUNDS
    }  # the stable one counts 10
    assert steps[-1][1] < steps[-1][2]
    assert 0.6 < found.sites[0].new.auroc.value < 0.95


def test_the_answer_does_not_depend_on_the_order_of_rows():
    """Shuffled rows get the same scores at sites left out and the same advice; only folds are dealt otherwise."""
    X, y, sites = table(n_rows=40)
    order = np.random.default_rng(0).permutation(len(y))
    first, second = diagnose(X, y, sites), diagnose(X.iloc[order], y[order], sites[order])
    assert (first.state, first.recommendation.sentence) == (second.state, second.recommendation.sentence)
    scores = [[site.new.accuracy.value for site in found.sites] for found in (first, second)]
    assert scores[0] == scores[1]
    assert first.mean("known") == pytest.approx(second.mean("known"), abs=0.03)


def test_a_lost_ranking_is_not_recalibrated():
    """Where a column turns at one site, recalibration lowers the loss, but the ranking is lost: it is not advised."""
    generator = np.random.default_rng(0)
    sites, y = np.repeat(SITES[:3], 150), generator.integers(2, size=450)
    agreement = np.array([{"Boston": 0.95, "Chicago": 0.8, "Denver": 0.2}[site] for site in sites])
    X = pd.DataFrame(
        {"scanner": np.where(generator.random(450) < agreement, y, 1 - y), "age": generator.normal(size=450)}
    )
    found = diagnose(X, y, sites)
    remedies = {remedy.action: remedy for remedy in found.remedies}
    assert remedies["recalibrate"].is_sure
    assert remedies["recalibrate"].gain.value > 0.5 * max(remedy.gain.value for remedy in found.remedies)
    assert found.state == "breaks"
    assert found.recommendation.action in ("stable", "collect")


def test_what_cannot_be_diagnosed_is_refused():
    """One site, images, and labels that do not match get an error that says what to pass."""
    X, y, sites = table(n_rows=20)
    with pytest.raises(EnvironmentsError, match="has only one value, so no site can be left out"):
        diagnose(X, y, np.full(len(y), "Boston"))
    with pytest.raises(FeaturesError, match="diagnose looks at the columns of a table"):
        diagnose(np.zeros((4, 8, 8)), [0, 1, 0, 1], ["a", "a", "b", "b"])
    with pytest.raises(LabelsError, match="y has 79 labels for 80 rows"):
        diagnose(X, y[1:], sites)
    with pytest.raises(LabelsError, match=r"y is missing in 1 of 80 rows: .* Drop those rows before fitting\."):
        diagnose(X, np.where(np.arange(len(y)) == 3, np.nan, y), sites)
    with pytest.raises(LabelsError, match=r"y has one class only \('ill'\)"):
        diagnose(X, ["ill"] * len(y), sites)
    with pytest.raises(ParameterError, match=r"its estimator is a regressor \(Ridge\)"):
        diagnose(X, y, sites, estimator=Ridge())


def test_where_a_column_is_used_less_that_is_the_advice():
    """Whatever else would help; that it was not tried at sites left out, or saves next to nothing, is considered."""
    found = diagnose(*table(n_rows=40))
    scanner = SimpleNamespace(feature="scanner")
    price = Interval(0.02, 0.01, 0.03)
    facts = {"fitted": "partly", "acted_on": (scanner,), "kept": {"scanner": 0.8}, "auroc": {}, "network": None}
    verdict = SimpleNamespace(**facts, gain=(0.1, 0.3), price=price)
    advice = recommend(replace(found, state="breaks", verdict=verdict))
    assert (advice.action, advice.columns, advice.command) == ("stable", ("scanner",), ("fit",))
    assert advice.sentence == (
        "Use the stable classifier, which relies less on `scanner`, a column whose effect differs between sites."
    )
    assert advice.sure == (
        "Confidence: low, because with two sites the stable classifier cannot be tried at a left-out site."
    )
    nothing = SimpleNamespace(**{**vars(verdict), "gain": (0.001, 0.002)})
    assert recommend(replace(found, state="breaks", verdict=nothing)).action != "stable"
    given_up = SimpleNamespace(**{**vars(nothing), "kept": {"scanner": 0.0}})
    assert recommend(replace(found, state="breaks", verdict=given_up)).action == "stable"


@pytest.mark.parametrize(
    ("price", "said"), [(-0.001, "costs no accuracy at"), (0.02, "costs 2.0 points [1.0 to 3.0] of")]
)
def test_a_price_below_zero_is_no_price(price, said):
    """Nobody reads that something costs −0.1 points; one point is one point."""
    verdict = SimpleNamespace(price=Interval(price, price - 0.01, price + 0.01), gain=(0.012, 0.05), auroc={})
    text = say_price(verdict)
    assert text.startswith(said)
    assert text.endswith("saves 1 point if the effect vanishes and 5 points if it reverses")


def rare_table(agreements, n_rows=4000, share=0.04, seed=0):
    """Return rows of sites at which 4 % died: age says something everywhere, the billing code what it says there."""
    generator, parts = np.random.default_rng(seed), []
    for site, agreement in agreements.items():
        died = generator.random(n_rows) < share
        billing = generator.random(n_rows) < np.where(died, agreement, 1 - agreement)
        age = generator.normal(size=n_rows) + 1.2 * died
        parts.append(pd.DataFrame({"site": site, "age": age, "billing": billing.astype(int), "died": died}))
    return pd.concat(parts, ignore_index=True)


def test_rare_events_are_told_by_their_ranking():
    """Accuracy is 96 % whatever happens; where the order of the patients is lost, the model breaks."""
    table = rare_table({"A": 0.85, "B": 0.8, "C": 0.3})
    found = diagnose(table[["age", "billing"]], table["died"], table["site"])
    assert found.by_rank
    assert found.lost.high < 0.01
    assert found.state == "breaks"
    assert found.cause == "concept_shift"
    worst = found.sites[2]
    assert worst.name == "C"
    lost = f". The largest loss is in C: {worst.new.auroc.value:.2f} instead of {worst.known.auroc.value:.2f}."
    assert found.finding.startswith("An ordinary model breaks at a site it has not seen")
    assert lost in found.finding
    assert found.recommendation.action == "stable"
    assert re.search(r"AUROC[^.]* 0\.\d", found.recommendation.reason)
    assert found.worst is worst
    rates = replace(found, parts={**found.parts, "label_shift": Interval(1.0, 0.9, 1.1)})
    assert rates.cause == "concept_shift"  # 4 % everywhere, whatever the parts say


def test_rare_events_that_rank_alike_are_kept():
    """The reason is the AUROC at new sites; few events leave it open."""
    table = rare_table({"A": 0.9, "B": 0.9, "C": 0.9})
    kept = diagnose(table[["age", "billing"]], table["died"], table["site"])
    assert (kept.state, kept.recommendation.action) == ("holds", "keep")
    assert "holds at a site it has not seen: its AUROC is 0.9" in str(kept)
    assert kept.recommendation.reason.startswith("The AUROC at a site it has not seen is 0.9")
    few = rare_table({"A": 0.6, "B": 0.6, "C": 0.6}, n_rows=150, seed=1)
    unclear = diagnose(few[["age", "billing"]], few["died"], few["site"])
    assert unclear.state == "unclear"
    assert unclear.recommendation.reason.startswith("The AUROC at a new site is 0.")


def test_class_weights_are_those_of_the_labels():
    """The labels 1 and 2 are not their codes: what weighs the first one weighs it here, too."""
    X, y, sites = table()
    words, numbers = (
        diagnose(X, labels, sites, estimator=LogisticRegression(class_weight={most: 3.0})).mean("new")
        for labels, most in ((np.where(y, "yes", "no"), "yes"), (y + 1, 2))
    )
    assert numbers == words < diagnose(X, y, sites).mean("new")


def months(slope, n_months=16, n_rows=150):
    """Return rows of months in which the effect of `lab` falls by `slope` a month, and that of `age` stays."""
    generator = np.random.default_rng(0)
    month = np.repeat(np.arange(n_months), n_rows)
    age, lab = generator.normal(size=(2, len(month)))
    y = generator.random(len(month)) < 1 / (1 + np.exp(-(age + (2.5 - slope * month) * lab)))
    names = np.array([f"{2021 + m // 12}-{m % 12 + 1:02d}" for m in range(n_months)])[month]
    return pd.DataFrame({"age": age, "lab": lab}), y.astype(int), names


def test_a_model_of_the_past_is_asked_about_the_future():
    """Months left out between others hide a steady change; the last quarter of them shows it."""
    drifting = diagnose(*months(0.25))
    assert drifting.lost.high < 0.05
    assert (drifting.state, drifting.recommendation.action) == ("breaks", "stable")
    assert drifting.later.first == "2022-01"
    new, known = drifting.later.new.accuracy.value, drifting.later.known.accuracy.value
    assert drifting.later.lost.value == pytest.approx(known - new)
    assert drifting.finding.startswith(
        "An ordinary model breaks as time goes on: fitted on rows before 2022-01, its accuracy on later rows is"
    )
    assert drifting.recommendation.columns == ("lab",)
    assert drifting.to_dict()["later"]["first"] == "2022-01"
    again = replace(drifting, verdict=None)
    assert recommend(again).sentence.startswith("Fit it again with recent rows before you use it")
    steady = diagnose(*months(0.0))
    assert (steady.state, steady.later.breaks, steady.later.stable) == ("holds", False, None)


def test_only_times_have_an_order():
    """Names of sites, numbers that are no years and few times are not put in order."""
    X, y, times = months(0.25, n_months=4, n_rows=100)
    assert diagnose(X, y, times).later.first == "2021-04"
    assert diagnose(X, y, np.char.add("site ", times)).later is None
    assert diagnose(X, y, np.unique(times, return_inverse=True)[1]).later is None
    few = times != "2021-01"
    assert diagnose(X[few], y[few], times[few]).later is None


def seven_sites(seed=0, n_rows=200):
    """Return rows of seven sites that differ in nothing."""
    return table(n_rows=n_rows, sites=(*SITES, "Oslo", "Turin", "Köln"), seed=seed)


def test_wrong_labels_at_one_site_are_named():
    """Where 35 % of the labels of one site are wrong, the headline has its AUROC, and the advice is to check them."""
    X, y, sites = seven_sites()
    wrong = (sites == "Köln") & (np.random.default_rng(1).random(len(y)) < 0.35)
    found = diagnose(X, np.where(wrong, 1 - y, y), sites)
    assert [(odd.name, odd.kind) for odd in found.odd_sites] == [("Köln", "labels")]
    assert str(found).startswith(
        "In Köln an ordinary model ranks rows much worse than at the other six sites (AUROC 0."
    )
    assert (found.recommendation.action, found.recommendation.rule) == ("repair", "odd_labels")
    assert "`label`" in found.recommendation.sentence


def test_people_who_are_alike_at_one_site_have_no_wrong_labels():
    """Where nobody is at either end of a column, the AUROC is low because people are alike, which the risks tell."""
    X, y, sites = seven_sites(n_rows=400)
    keep = (sites != "Köln") | ((X["marker"] + X["pressure"] - 1.2).abs() < 1.2)
    found = diagnose(X[keep], y[keep], sites[keep])
    koeln = next(site for site in found.sites if site.name == "Köln")
    assert koeln.new.auroc.value < min(s.new.auroc.value for s in found.sites if s is not koeln) - 0.1
    assert found.odd_sites == ()


def test_other_rates_at_one_site_are_named():
    """Where events are more frequent at one site, the headline says what was expected and what was seen there."""
    X, y, sites = seven_sites(n_rows=400)
    keep = (sites != "Köln") | (y == 1) | (np.random.default_rng(1).random(len(y)) < 0.15)
    found = diagnose(X[keep], y[keep], sites[keep])
    assert [(odd.name, odd.kind) for odd in found.odd_sites] == [("Köln", "rates")]
    assert re.match(r"In Köln a model fitted on the other sites predicts `label` = 1 for \d\d of 100 rows", str(found))
    assert (found.recommendation.action, found.recommendation.site) == ("recalibrate", "Köln")
    assert diagnose(*seven_sites()).odd_sites == ()


def test_shares_are_of_rows_and_have_their_baseline():
    """A small site counts by its rows, and the most frequent class is said beside the accuracy."""
    X, y, sites = table(n_rows=300)
    keep = (sites != "Lyon") | (np.arange(len(y)) % 30 == 0)  # ten rows
    found = diagnose(X[keep], y[keep], sites[keep])
    right = sum(site.new.accuracy.value * site.n_rows for site in found.sites)
    assert found.mean("new") == pytest.approx(right / keep.sum(), abs=1e-8)
    assert [site.name for site in found.large] == list(SITES[:3])
    label, share = found.usual
    assert f"(always predicting {label}: {share:.0%})" in str(found)


def test_remedies_of_a_large_table_come_from_a_sample(monkeypatch):
    """Scores are of all rows, remedies of a sample, and a note says so."""
    monkeypatch.setattr("holdfast.diagnosis.measurement.MOST_TRIED_ROWS", 600)
    monkeypatch.setattr("holdfast.diagnosis.measurement.LEAST_TRIED", 100)
    found = diagnose(*table())
    assert sum(site.n_rows for site in found.sites) == 1600
    assert "remedies and the parts of the loss come from 600 of 1,600 rows, drawn at random" in found.notes
    assert (found.state, found.recommendation.action) == ("holds", "keep")


def test_columns_that_tell_nothing_are_no_model_to_keep():
    """Labels that were shuffled: no model holds, because there is none."""
    X, y, sites = table()
    found = diagnose(X, np.random.default_rng(1).permutation(y), sites)
    assert found.recommendation.rule == "tells_nothing"
    assert str(found).startswith("The columns do not predict `label`: the AUROC of an ordinary model is 0.")
    assert str(found).endswith("Check that labels and columns belong to the same rows, or collect other columns.")


def test_rows_of_weight_0_are_left_out():
    """A site whose rows all have the weight 0 is no site, which is said."""
    X, y, sites = table()
    found = diagnose(X, y, sites, sample_weight=(sites != "Lyon").astype(float))
    assert [site.name for site in found.sites] == ["Boston", "Chicago", "Denver"]
    assert "400 of 1,600 rows are left out because their weight is 0" in found.notes


def test_a_site_with_most_of_the_rows_is_compared_with_as_many_rows():
    """Where 1 row in 20 is of another site, the model that has seen the large site is fitted on as few rows, too."""
    X, y, sites = table()
    subject = TableSubject(
        read_rows(
            X.assign(y=y, site=np.where(np.arange(len(y)) % 20, "large", "small")),
            TableOptions(label="y", environment="site"),
        ),
        "logistic",
        1,
        0,
    )
    experiment = Experiment(subject, n_jobs=1, random_state=0)
    large = experiment.environments[0].rows
    pairs = experiment._as_many(np.arange(0, len(y), 2), np.arange(1, len(y), 2))
    (_, others), (few, asked) = pairs
    assert len(few) == len(y) - len(large) and set(asked) <= set(large) and not set(others) & set(large)
    assert {0, 1} == set(y[few])


def test_of_many_sites_those_of_few_rows_are_pooled():
    """320 practices of 7 or 8 patients become 80 sites of about 30 rows, and a warning says so."""
    generator = np.random.default_rng(8)
    X = pd.DataFrame(generator.normal(size=(2_400, 2)), columns=["age", "marker"])
    y = (generator.random(2_400) < 1 / (1 + np.exp(-X["marker"]))).astype(int)
    sites = [f"practice {number % 320:03}" for number in range(2_400)]
    with pytest.warns(
        SmallGroupWarning, match="320 of 320 environments have fewer than 30 rows. They are pooled into 80"
    ):
        found = diagnose(X, y, sites)
    assert len(found.sites) == 80
    assert {site.n_rows for site in found.sites} <= set(range(20, 41))
    assert found.recommendation.action == "keep"
