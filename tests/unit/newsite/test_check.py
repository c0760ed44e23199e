"""The check of a new site: what does not fit, what moved, the forecast, and the advice."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from holdfast import StableClassifier, TableClassifier, load, save
from holdfast.cli.check import next_command
from holdfast.exceptions import NewSiteWarning, SavedModelError, TableError
from holdfast.fitting.calibration import Calibration
from holdfast.metrics import Interval
from holdfast.newsite.check import SiteCheck
from holdfast.newsite.codes import Coding, UnstableColumn
from holdfast.newsite.forecast import ForecastBasis, forecast_accuracy, forecast_auroc, summarize
from holdfast.newsite.profile import GRID, TrainingProfile, profile_training
from holdfast.newsite.relation import Relation
from holdfast.newsite.trials import Relearning, SiteTrial
from holdfast.reports.newsite import check_page
from holdfast.stable.removal import Removal

from .conftest import hospital, known_hospitals  # noqa: TID252 - helpers of this folder


@pytest.fixture(scope="module")
def plain():
    """Return a classifier of columns that mean the same everywhere, among them a category."""
    return TableClassifier(label="ill", environment="site").fit(with_ward(known_hospitals().drop(columns="scanner")))


def with_ward(rows):
    """Return rows with a category that goes with the label."""
    return rows.assign(ward=np.where(rows["marker"] > 0.3, "east", "west"))


def new_site(seed=20, n_rows=300):
    """Return rows of a site like the known ones."""
    return with_ward(hospital("Denver", n_rows, 0.9, seed).drop(columns=["scanner", "ill"]))


def test_a_site_like_the_known_ones_is_fine(plain):
    """Nothing is found, and the model may be used."""
    found = plain.check(new_site())
    assert found.advice == "use"
    assert str(found).startswith("Use the model at this site.")
    assert not found.columns
    assert found.forecast.low < found.known_accuracy < found.forecast.high


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.NewSiteWarning")
@pytest.mark.parametrize(
    ("change", "problem", "says"),
    [
        (lambda r: r.assign(marker=12 * (r["marker"] + 5)), "unit", "`marker` may be in another unit: its median is"),
        (lambda r: r.assign(ward="south"), "levels", "`ward` has a category that no known site has: 'south'"),
        (lambda r: r.assign(marker=np.nan), "missing", "`marker` is missing in 100% of the rows"),
        (lambda r: r.assign(marker=r["marker"].where(np.arange(len(r)) % 4 > 0, 30.0)), "range", "in 25% of the rows"),
    ],
)
def test_what_does_not_fit_is_named(plain, change, problem, says):
    """Another unit, unseen levels, missing values, values outside."""
    found = plain.check(change(new_site()))
    assert [check.problem for check in found.columns] == [problem]
    assert says in str(found)


def test_a_model_is_not_used_where_units_differ(plain):
    """The advice names the column, and how many predictions it changes is measured."""
    found = plain.check(new_site().assign(marker=lambda r: 12 * (r["marker"] + 5)))
    assert found.advice == "do_not_use"
    assert found.answer == "Do not use the model at this site yet: `marker` must be repaired first."
    assert found.columns[0].changed > 0.2


def test_a_column_that_the_model_does_not_need_does_not_forbid(plain):
    """Ages in months: said, but hardly a prediction depends on them."""
    rows = known_hospitals().drop(columns="scanner")
    generator = np.random.default_rng(0)
    model = TableClassifier(label="ill", environment="site").fit(rows.assign(noise=generator.normal(size=len(rows))))
    new = hospital("Denver", 300, 0.9, 20)
    found = model.check(new.assign(noise=8.0 + generator.random(300)))
    assert [check.name for check in found.columns] == ["noise"]
    assert found.columns[0].changed < 0.2


def test_predict_warns_of_what_does_not_fit(plain):
    """The cheap part of the check is made by every prediction; a few rows are not judged."""
    odd = new_site().assign(ward="south")
    with pytest.warns(NewSiteWarning, match="In 100% of the rows .* that no known site has: 'south'.*holdfast check"):
        plain.predict(odd)
    assert len(plain.predict(odd[:5])) == 5


def test_moved_columns_come_with_what_they_change(plain):
    """A median two standard deviations up is inside the range, and changes predictions."""
    found = plain.check(new_site().assign(marker=lambda r: r["marker"] * 0.5 + 1.5))
    assert found.moved[0].name == "marker"
    assert found.moved[0].changed > 0.1


def test_a_turned_column_is_named_and_adapting_is_advised(model):
    """The unstable column is right in about 10 % of the rows, and in 80 to 98 % at the known sites."""
    found = model.check(hospital("Denver", 300, 0.1, 7).drop(columns="ill"))
    assert found.turned == ("scanner",)
    assert found.advice == "adapt"
    assert "`scanner` agrees with the label in 1" in str(found)


def test_labels_that_are_there_are_ignored_and_said(model):
    """The answer is the same with and without them."""
    new = hospital("Denver", 300, 0.1, 7)
    with_labels, without = model.check(new), model.check(new.drop(columns="ill"))
    assert with_labels.to_dict()["forecast"] == without.to_dict()["forecast"]
    assert with_labels.notes == ("The label column 'ill' is ignored.",)


def test_the_profile_is_saved_and_has_no_rows(plain, tmp_path):
    """A loaded model checks the same; values of single rows are not in the file."""
    plain.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    assert loaded.check(new_site()).to_dict() == plain.check(new_site()).to_dict()
    smallest = repr(float(known_hospitals()["age"].min()))
    assert smallest not in (tmp_path / "model" / "manifest.json").read_text()


def test_models_of_before_say_that_they_have_no_profile(plain):
    """They check without it."""
    plain_profile, plain.profile_ = plain.profile_, None
    try:
        found = plain.check(new_site().assign(ward="south"))
    finally:
        plain.profile_ = plain_profile
    assert not found.columns
    assert "saved without a profile" in str(found)


@pytest.mark.parametrize("change", [lambda r: r[:1], lambda r: r.iloc[[0] * 50], lambda r: r.assign(marker=1.0)])
def test_odd_tables_are_checked(plain, change):
    """One row, all rows alike, a constant column: an answer, and no error."""
    assert plain.check(change(new_site())).advice in ("use", "label", "adapt", "do_not_use")


def test_what_cannot_be_checked_is_refused(plain):
    """A missing column, and no rows."""
    with pytest.raises(TableError, match="Column 'ward' is missing"):
        plain.check(new_site().drop(columns="ward"))
    with pytest.raises(TableError, match="no rows"):
        plain.check(new_site()[:0])


def test_a_damaged_profile_is_refused():
    """Other keys are an error that says what to do."""
    with pytest.raises(SavedModelError, match="Fit again"):
        TrainingProfile.from_dict({"columns": [{"title": "x"}], "sites": {}})


def test_profiles_come_back_as_they_were():
    """From the file too."""
    frame = pd.DataFrame({"age": np.arange(40.0), "sex": ["f", "m"] * 20})
    profile = profile_training(frame, ["A", "B"] * 20)
    assert TrainingProfile.from_dict(profile.to_dict()) == profile


def right_and_wrong(n_right, n_wrong, confidence):
    """Return the summary of a site where a classifier with one confidence is right in so many rows."""
    probabilities = np.tile([1 - confidence, confidence], (n_right + n_wrong, 1))
    return summarize(probabilities, np.r_[np.ones(n_right, dtype=np.intp), np.zeros(n_wrong, dtype=np.intp)])


def test_the_forecast_of_equal_sites_is_their_accuracy():
    """80 of 100 right everywhere, and the same confidence at the new site."""
    site = right_and_wrong(80, 20, 0.8)
    found = forecast_accuracy(ForecastBasis({"A": site, "B": site}, site), right_and_wrong(80, 20, 0.8))
    assert found.value == pytest.approx(0.8, abs=1e-9)
    assert found.low < 0.7
    assert found.high > 0.9


def test_sites_of_like_confidence_count_more():
    """B's rows are as unsure as the new ones, and half of A's are sure: B counts 11 times as much as A."""
    sure = right_and_wrong(900, 100, 0.98)
    unsure = {site: right_and_wrong(right, 1000 - right, 0.62) for site, right in (("A", 600), ("B", 800))}
    half = replace(
        unsure["A"], n_rows=2000, counts=unsure["A"].counts + sure.counts, right=unsure["A"].right + sure.right
    )
    found = forecast_accuracy(ForecastBasis({"A": half, "B": unsure["B"]}, unsure["B"]), right_and_wrong(1, 0, 0.62))
    assert found.value == pytest.approx((0.8 + (0.6 + 11 * 0.8) / 12) / 2, abs=2e-4)


def test_sites_that_were_hard_to_forecast_widen_the_interval():
    """Accuracies of 0.6 and 1.0 at the same confidence are no ground for a narrow forecast."""
    same = forecast_accuracy(
        ForecastBasis(dict.fromkeys("ABC", right_and_wrong(80, 20, 0.8)), right_and_wrong(80, 20, 0.8)),
        right_and_wrong(80, 20, 0.8),
    )
    apart = {"A": right_and_wrong(60, 40, 0.8), "B": right_and_wrong(100, 0, 0.8), "C": right_and_wrong(80, 20, 0.8)}
    wide = forecast_accuracy(ForecastBasis(apart, right_and_wrong(80, 20, 0.8)), right_and_wrong(80, 20, 0.8))
    assert wide.high - wide.low > 1.5 * (same.high - same.low)


def test_the_auroc_of_right_probabilities_is_known():
    """p = 0.25 and 0.75, half each: the expected AUROC is 0.75."""
    probabilities = np.array([[0.75, 0.25], [0.25, 0.75]] * 50)
    assert summarize(probabilities).expected_auroc == pytest.approx(0.75, abs=1e-9)
    site = summarize(probabilities, np.array([0, 1] * 50))
    found = forecast_auroc(ForecastBasis({"A": site}, site), summarize(probabilities))
    assert found.value == pytest.approx(1.0)  # it was 1 at the known site, where 0.75 was promised
    assert forecast_auroc(ForecastBasis({"A": site}, site), summarize(np.full((10, 3), 1 / 3))) is None


def test_the_aurocs_interval_is_wider_where_sites_disagree():
    """Where one site's AUROC was 1 and the other's 0 at the same probabilities, nothing is known."""
    probabilities = np.array([[0.75, 0.25], [0.25, 0.75]] * 50)
    as_said, turned = (summarize(probabilities, np.array(labels * 50)) for labels in ([0, 1], [1, 0]))
    widths = []
    for other in (as_said, turned):
        found = forecast_auroc(ForecastBasis({"A": as_said, "B": other}, as_said), summarize(probabilities))
        widths.append(found.high - found.low)
    assert widths[0] < 0.3
    assert widths[1] == 1.0


def test_nothing_known_gives_no_forecast():
    """Methods without fits on other sites."""
    assert forecast_accuracy(ForecastBasis(), right_and_wrong(80, 20, 0.8)) is None


@pytest.mark.parametrize(("right", "error", "named"), [(0.1, 0.03, True), (0.88, 0.03, False), (0.6, 0.2, False)])
def test_a_column_differs_if_it_surely_does(right, error, named):
    """Beyond its error, and by more than a tenth of the rows."""
    relation = Relation("x", Coding((0,)), np.zeros((1, 2)), 0.9, right, error, {"A": 0.95, "B": 0.85})
    assert relation.differs is named


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_matrix_is_checked_like_a_table(as_frame):
    """A StableClassifier without a table: units, unstable columns and the forecast; names are x0, x1, ... or given."""
    names = ["age", "marker", "scanner"]
    known, new = known_hospitals(), hospital("Denver", 300, 0.1, 7)
    X, rows = (frame[names] if as_frame else frame[names].to_numpy() for frame in (known, new))
    model = StableClassifier().fit(X, known["ill"], environments=known["site"])
    found = model.check(rows)
    scanner, age = ("scanner", "age") if as_frame else ("x2", "x0")
    assert found.advice == "adapt"
    assert found.turned == (scanner,)
    assert found.forecast.low < np.mean(model.adapt(rows).predict(rows) == new["ill"]) < found.forecast.high
    months = rows.assign(age=12 * rows["age"]) if as_frame else rows * [12, 1, 1]
    misfit = model.check(months)
    assert [check.name for check in misfit.columns] == [age]
    assert misfit.advice == "do_not_use"
    assert misfit.forecast is None
    assert "No accuracy is forecast" in str(misfit)


def test_a_matrix_is_checked_after_loading(tmp_path):
    """The profile is saved with the classifier; a sparse matrix has none, and says so."""
    known, new = known_hospitals(), hospital("Denver", 300, 0.1, 7)
    names = ["age", "marker", "scanner"]
    model = StableClassifier().fit(known[names].to_numpy(), known["ill"], environments=known["site"])
    save(model, tmp_path / "model")
    rows = new[names].to_numpy()
    assert load(tmp_path / "model").check(rows).to_dict() == model.check(rows).to_dict()
    sparse = StableClassifier(LogisticRegression()).fit(
        sp.csr_array(known[["marker", "scanner"]]), known["ill"], environments=known["site"]
    )
    found = sparse.check(sp.csr_array(new[["marker", "scanner"]]))
    assert "without a profile" in str(found)


def test_an_adapted_model_is_followed(model):
    """At the site that it was adapted to all is well; where the scanner turns back, adapting again is advised."""
    adapted = model.adapt(hospital("Denver", 500, 0.1, 7))
    same, back = (adapted.check(hospital("Denver", 500, share, 30)) for share in (0.1, 0.9))
    assert same.advice == "use"
    assert same.turned == ()
    assert back.advice == "adapt"
    assert back.turned == ("scanner",)
    assert "in the rows that it was adapted to" in str(back)
    again = adapted.adapt(hospital("Denver", 500, 0.9, 30))
    new = hospital("Denver", 1000, 0.9, 31)
    assert np.mean(again.predict(new) == new["ill"]) > np.mean(adapted.predict(new) == new["ill"]) + 0.3


def test_a_measurement_that_is_constant_there_is_an_error(plain):
    """Zero for every patient, as where cholesterol was not measured; a code with one value may be natural."""
    found = plain.check(new_site().assign(marker=0.0))
    assert [(check.problem, check.share) for check in found.columns] == [("constant", 1.0)]
    assert found.advice == "do_not_use"
    assert "`marker` is 0 in all rows that have it. At the known sites it varies between" in str(found)
    assert plain.check(new_site().assign(ward="east")).columns == ()


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.NewSiteWarning")
@pytest.mark.parametrize("n_rows", [1, 29])
def test_a_few_rows_are_checked_without_a_word_about_columns(model, n_rows):
    """One row is enough for an answer; neither are columns judged nor is anything adapted."""
    found = model.check(hospital("Denver", n_rows, 0.1, 7).drop(columns="ill"))
    assert found.n_rows == n_rows
    assert found.columns == ()
    assert found.adaptation.reason == "few_rows"
    assert found.forecast.low <= found.forecast.value <= found.forecast.high


def test_adapting_is_advised_where_it_brings_something(model):
    """An unstable column that says nothing there: the classifier, which ignores it, is as good as an adapted one."""
    turned, vanished = (model.check(hospital("Denver", 500, share, 7).drop(columns="ill")) for share in (0.1, 0.5))
    assert (turned.advice, vanished.advice) == ("adapt", "use")
    assert turned.gain > 0.05
    assert vanished.adaptation.adapted
    assert abs(vanished.gain) < 0.005


def test_rows_that_are_all_alike(model):
    """Copies of one row: nothing can be learned, the measurements are constant, and it is said."""
    one = hospital("Denver", 1, 0.1, 7).drop(columns="ill")
    found = model.check(pd.concat([one] * 200, ignore_index=True))
    assert found.advice == "do_not_use"
    assert {check.problem for check in found.columns} == {"constant"}
    assert found.adaptation.reason == "says_nothing"


def test_copies_of_one_row_are_no_site():
    """Where no measurement is needed, so that a constant one does not forbid, labels are asked for all the same."""
    known = with_ward(known_hospitals()).drop(columns=["marker", "scanner"])
    model, new = TableClassifier(label="ill", environment="site").fit(known), new_site().drop(columns="marker")
    found = model.check(new.iloc[[0] * 100])
    assert found.advice == "label"
    assert found.notes[-1] == "All 100 rows are equal, so they say as little about the site as one row."
    assert found.forecast is found.auroc is None
    assert not model.check(new.iloc[[0] * 99 + [1]]).alike


def test_a_method_without_forecast_is_not_called_safe():
    """Its columns fit, and that is all that is known: labels are asked for to make sure."""
    known = known_hospitals().drop(columns="scanner")
    found = TableClassifier(label="ill", environment="site", method="erm").fit(known).check(new_site())
    assert found.advice == "use"
    assert found.is_unsure
    assert found.notes[-1] == "No accuracy is forecast: only a StableClassifier stores what that needs."


def test_quantiles_are_those_of_numpy():
    """Gaps and infinities are left out, and a column of gaps has none."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(101, 4))
    values[generator.random(values.shape) < 0.2] = np.nan
    values[3, 0], values[:, 3] = np.inf, np.nan
    found = profile_training(pd.DataFrame(values), ["A"] * 50 + ["B"] * 51).columns
    for column, own in zip(found[:3], values.T, strict=False):
        np.testing.assert_allclose(column.quantiles, np.quantile(own[np.isfinite(own)], GRID), rtol=1e-12)
    assert found[3].medians == {}


def test_a_code_that_became_frequent_moved_by_about_two_standard_deviations():
    """From 20 % of the rows to 80 %: the median goes from 0 to 1, and the standard deviation is 0.4."""
    frame = pd.DataFrame({"code": (np.arange(600) % 5 == 0).astype(float)})
    profile = profile_training(frame, ["A"] * 300 + ["B"] * 300)
    (found,) = profile.moved(1 - frame)
    assert found.share == pytest.approx(1 / 0.4, rel=0.1)


def test_a_column_that_is_only_in_doubt_is_not_talked_about():
    """It is used in full, and these rows do not tell its effect: neither is it named, nor is adapting refused aloud."""
    known = known_hospitals().assign(scanner=0.0)
    model = StableClassifier().fit(known[["marker", "scanner"]].to_numpy(), known["ill"], environments=known["site"])
    column = UnstableColumn("scanner", (1,), mechanism=-1.0, sides={"0.0": 0}, right={"Boston": 0.9}, change=0.1)
    trials = {"known": {"Boston": SiteTrial(100, 0.1, 0.01, 0.1, 0.8, 0.7)}}
    calibration = Calibration(1.0, np.zeros(2))
    given_up, in_doubt = (
        Relearning((replace(column, in_doubt=doubt),), calibration, 1.0, trials, model.ordinary_, Removal())
        for doubt in (False, True)
    )
    rows = hospital("Denver", 100, 0.9, 7).assign(scanner=0.0)[["marker", "scanner"]].to_numpy()
    model.relearning_ = given_up
    assert "The effect of `scanner` cannot be estimated from these rows." in " ".join(
        sentence for relation in model.check(rows).relations for sentence in [relation.sentence]
    )
    model.relearning_ = in_doubt
    found = model.check(rows)
    assert found.adaptation.reason == "says_nothing"
    assert found.relations == ()
    assert "scanner" not in str(found)


def test_columns_that_are_absent_or_renamed(model):
    """An error names the column, the unstable one too, and guesses which was meant."""
    rows = hospital("Denver", 100, 0.1, 7).drop(columns="ill")
    for action in (model.check, model.adapt, model.predict):
        with pytest.raises(TableError, match="Column 'scanner' is missing"):
            action(rows.drop(columns="scanner"))
        with pytest.raises(TableError, match="Column 'marker' is missing"):
            action(rows.rename(columns={"marker": "Marker"}))


def test_labels_that_are_there_by_accident(model):
    """They change nothing, and it is said."""
    rows = hospital("Denver", 300, 0.1, 7)
    with_labels, without = model.check(rows), model.check(rows.drop(columns="ill"))
    assert with_labels.notes == ("The label column 'ill' is ignored.",)
    assert with_labels.to_dict() | {"notes": []} == without.to_dict() | {"notes": []}


@pytest.mark.parametrize(("low", "unsure"), [(0.7, False), (0.5, True)])
def test_a_wide_forecast_asks_to_make_sure(low, unsure):
    """The model may be used, and the first sentence says that its accuracy may be much lower there."""
    forecast = Interval(0.78, low, 0.95)
    found = SiteCheck(300, "use", (), (), None, forecast, None, 0.8, 0.75, {"no": 0.5, "yes": 0.5})
    assert found.answer.startswith("Use the model at this site")
    assert ("label about 50 rows to be sure" in found.answer) is unsure
    assert check_page(found).answer.signal == ("caution" if unsure else "good")
    assert next_command(found, Path("model"), "new.csv").split()[1] == ("evaluate" if unsure else "predict")


def test_a_code_that_was_rare_is_no_misfit():
    """A gap that 1 known row in 300 has, and a quarter of the new ones: the code 1 was seen."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"gap": (np.arange(600) % 300 == 0).astype(float), "never": np.zeros(600)})
    profile = profile_training(frame, ["A"] * 300 + ["B"] * 300)
    new = pd.DataFrame({name: (generator.random(200) < 0.25).astype(float) for name in ("gap", "never")})
    (found,) = profile.check(new)
    assert found.name == "never"
    assert "outside the range of the known sites (0 only)" in found.sentence


def test_an_unstable_column_that_is_constant_there(model):
    """It cannot be learned from; the model stays as it was."""
    rows = hospital("Denver", 300, 0.1, 7).drop(columns="ill").assign(scanner=1.0)
    adapted = model.adapt(rows)
    assert not adapted.adaptation_.adapted
    assert "the effect of `scanner` cannot be estimated from these rows" in str(adapted.adaptation_)
    np.testing.assert_array_equal(adapted.predict_proba(rows), model.predict_proba(rows))
