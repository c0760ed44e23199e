import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import ERMClassifier, PIClassifier, PIRegressor, StableClassifier, StableRegressor
from holdfast.auditing import Audit
from holdfast.auditing.results import Finding
from holdfast.datasets import load_dataset
from holdfast.datasets.values import Split
from holdfast.exceptions import CollapseWarning, EmptyPartitionWarning, InputError
from holdfast.neural import NeuralClassifier
from holdfast.reports.chapters import Evidence, estimator_page, judges_section, risk_curves
from holdfast.reports.comparisons import compare_on_rows, comparison_dots, seeds_interval
from holdfast.reports.findings import (
    audit_page,
    audit_table,
    changes_section,
    effects_figure,
    reliance_section,
    reliance_table,
    verdict_answer,
)
from holdfast.reports.html import render_report
from holdfast.reports.values import Curves, HeatMap, Sentences, Shares, Table, figure_table
from holdfast.tables.comparison import Comparison
from holdfast.tables.method_scores import MethodScore


@pytest.fixture(scope="module")
def toy():
    """Return two environments whose unstable feature differs from the label in 10 and 20 of 100 rows."""
    return load_dataset("toy", etas=(0.1, 0.2), n_rows=500)


def fit(classifier, data):
    """Return the classifier fitted on the training rows."""
    return classifier.set_params(random_state=0).fit(data.train.X, data.train.y, environments=data.train.environments)


@pytest.fixture(scope="module")
def fitted(toy):
    """Return PI on the toy data."""
    return fit(PIClassifier(halves="hard", random_state=0), toy)


def section(content, title):
    """Return the section whose title begins so."""
    return next(section for section in content.sections if section.title.startswith(title))


def finding(feature="x2", **values):
    """Return a named feature whose effect differs between two environments."""
    effects = {"effects": {"E1": 1.0, "E2": -0.5}, "errors": {"E1": 0.1, "E2": 0.2}}
    facts = {"label": "1", "mean": 0.25, "spread": 0.75, "low": -0.8, "high": 1.3, **effects, **values}
    return Finding(feature, 0.9, 0.001, **facts)


AUDIT = Audit((finding(), Finding("x1", 0.1, 0.5)), ("E1", "E2"), 0.05, 2)


def reliance(features=("x2", "x1")):
    """Return what two classifiers rely on."""
    frame = pd.DataFrame({"feature": list(features), "n_rows": 10, "PI: fall": 0.25})
    changed = np.array([[0.25, 0.5], [0.5, 0.75]][: len(features)])
    return SimpleNamespace(features=features, estimators=("ERM", "PI"), changed=changed, to_frame=lambda: frame)


def test_the_reader_comes_first(toy, fitted):
    """Warnings, what classifiers rely on, accuracy, changes and data are open; the stages and all else is folded."""
    methods = {"ERM": fit(ERMClassifier(), toy), "PI": fitted}
    content = estimator_page(
        fitted,
        Evidence(
            training=toy.train,
            test=toy.test,
            methods=methods,
            audit=AUDIT,
            reliance=reliance(),
            seeds=[0],
            warnings=["Beware.", "Beware."],
        ),
    )
    assert [part.title for part in content.sections if not part.folded] == [
        "Warnings",
        "What each classifier relies on",
        "Accuracy by environment",
        "What changes between environments",
        "The data by environment",
    ]
    assert [part.title for part in content.sections if part.folded] == [
        "Every feature",
        "Stage 1: judges",
        "Stage 2: halves",
        "Stage 3: risks",
        "How this was made",
    ]
    assert (content.title, content.subtitle) == ("PIClassifier", "1,000 rows of 2 environments: E1, E2.")
    assert section(content, "Warnings").blocks == (Sentences(("Beware.",), "warning"),)
    assert (content.answer.sentence, content.answer.signal) == (AUDIT.answer, "caution")


def test_what_changes_is_a_forest_plot():
    """Effects have 95 % intervals, the next environment a band; sentences and all features stand with them."""
    sentences, figure = changes_section(None, AUDIT).blocks
    assert (sentences.tone, sentences.lines) == ("finding", (AUDIT.findings[0].sentence,))
    first, second, following = figure.dots
    assert (first.place, first.series, first.value) == ("x2", "E1", 1.0)
    assert (first.low, first.high) == pytest.approx((1 - 0.196, 1 + 0.196))
    assert second.series == "E2"
    assert (following.forecast, following.value, following.low, following.high) == (True, 0.25, -0.8, 1.3)
    assert figure.reference == 0.0
    assert "log-odds of 1 " in figure.value_title
    table = audit_table(AUDIT)
    assert table.columns == (
        "feature", "changes", "probability", "p", "label", "effect in E1", "effect in E2", "next environment (80%)",
    )  # fmt: skip
    assert table.rows == (
        ("x2", True, 0.9, 0.001, "1", 1.0, -0.5, "-0.80 to +1.30"),
        ("x1", False, 0.1, 0.5, "", None, None, None),
    )
    assert table.marked == ((0, 0),)


def test_effects_of_several_labels_name_them():
    """With several labels each place says which one it is about."""
    figure = effects_figure([finding(), finding("x3", label="2")])
    assert figure.places == ("x2 → 1", "x3 → 2")
    assert effects_figure([]) is None
    many = {f"site {number:02}": float(number) for number in range(30)}
    figure = effects_figure([replace(finding(), effects=many)])
    assert [dot.value for dot in figure.dots[:-1]] == [0, 1, 2, 3, 4, 5, 24, 25, 26, 27, 28, 29]
    assert "Of 30 environments, those with extreme effects are shown." in figure.note


def test_nothing_found_is_said():
    """Without findings the sentence alone is there, without a plot; without an audit there is no section."""
    quiet = Audit((Finding("x1", 0.1, 0.5),), ("E1", "E2"), 0.05, 1)
    (sentences,) = changes_section(None, quiet).blocks
    assert (sentences.tone, sentences.lines) == ("plain", (quiet.answer,))
    assert changes_section(None, None) is None
    assert audit_page(quiet).answer.signal == "good"
    assert audit_page(AUDIT).answer.signal == "caution"


def test_long_rankings_say_what_is_left_out():
    """300 features are shown, the rest is counted."""
    many = Audit(tuple(Finding(f"x{n}", 0.1, 0.5) for n in range(1000)), ("E1",), 0.05, 1000)
    table = audit_table(many)
    assert len(table.rows) == 300
    assert table.note.endswith("700 more features are left out.")


def test_reliance_is_a_bar_chart():
    """The feature that matters most comes first; all numbers are in a table."""
    (figure,) = reliance_section(reliance()).blocks
    assert figure.bars and figure.percent
    assert [(dot.place, dot.series, dot.value) for dot in figure.dots] == [
        ("x1", "ERM", 0.5), ("x1", "PI", 0.75), ("x2", "ERM", 0.25), ("x2", "PI", 0.5),
    ]  # fmt: skip
    assert reliance_table(reliance()).columns == ("feature", "rows", "PI: fall")
    assert reliance_section(None) is None


@pytest.fixture(scope="module")
def stable():
    """Return a stable classifier that does without the unstable column, and its data."""
    toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    return StableClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments), toy


def test_the_verdict_is_the_answer(stable):
    """The page begins with the verdict's sentence, a signal in words and the three accuracies of both classifiers."""
    model, toy = stable
    verdict = model.verdict_
    content = estimator_page(model, Evidence(training=toy.train, feature_names=["x1", "x2"]), advice=["Run it."])
    assert content.answer.sentence == verdict.answer
    assert (content.answer.signal, content.answer.advice[-1]) == ("protected", "Run it.")
    places = [dot.place for dot in content.answer.figure.dots]
    assert places[-1] == "a new environment (95%)"
    assert set(places[:-1]) == set(verdict.by_environment)
    assert content.answer.numbers.columns == ("accuracy", "ordinary", "stable")
    assert content.answer.numbers.rows[:3] == (
        ("at known environments", verdict.known.ordinary, verdict.known.fitted),
        ("if the named effects vanish", verdict.vanished.ordinary, verdict.vanished.fitted),
        ("if they reverse", verdict.reversed.ordinary, verdict.reversed.fitted),
    )
    assert [part.title for part in content.sections] == [
        "What each classifier relies on",
        "Accuracy by environment",
        "What changes between environments",
        "The data by environment",
        "Price and gain",
        "Every feature",
        "How this was made",
    ]
    (bars,) = section(content, "What each").blocks
    relied = {(dot.place, dot.series): dot.value for dot in bars.dots}
    assert relied["x1", "stable"] > relied["x1", "ordinary"]
    assert relied["x1", "ordinary"] == 0.0  # it follows x2
    (accuracies,) = section(content, "Accuracy").blocks
    assert accuracies.places == ("E1", "E2")
    assert all(dot.low < dot.value < dot.high for dot in accuracies.dots)
    (path,) = section(content, "Price").blocks
    assert path.lines[0].y[0] == verdict.known.ordinary


def test_columns_that_do_not_fit_are_in_the_advice(stable):
    """The answer sends the reader to the data where a column does not fit at some site."""
    model, toy = stable
    broken = toy.train.X.copy()
    broken[toy.train.environments == "E1", 0] = 7.0
    content = estimator_page(model, Evidence(training=replace(toy.train, X=broken), feature_names=["x1", "x2"]))
    assert content.answer.advice == ("Check the data first: `x1` is always 7 in E1, but varies elsewhere.",)


def test_a_pipeline_is_compared_with_its_ordinary_classifier(stable):
    """What stands before the classifier also stands before the ordinary one."""
    model, toy = stable
    pipeline = make_pipeline(StandardScaler(with_mean=False).fit(np.ones((2, 2))), model)
    (bars,) = section(estimator_page(pipeline, Evidence(training=toy.train)), "What each").blocks
    (same,) = section(estimator_page(model, Evidence(training=toy.train)), "What each").blocks
    assert bars.dots == same.dots


@pytest.mark.parametrize(
    ("fitted", "columns", "signal", "uncertain"),
    [
        ("ordinary", (), "good", False),
        ("ordinary", (), "caution", True),
        ("ordinary", (1,), "caution", False),
        ("partly", (1,), "protected", False),
        ("stable", (1,), "protected", False),
    ],
)
def test_signals(fitted, columns, signal, uncertain):
    """Green where nothing changes and accuracy hardly differs, a shield where the classifier was just protected."""
    score = SimpleNamespace(ordinary=0.75, fitted=0.5)
    interval = SimpleNamespace(value=0.5, low=0.25, high=0.75)
    verdict = SimpleNamespace(
        fitted=fitted, columns=columns, known=score, vanished=score, reversed=score, price=interval, forecast=interval,
        answer="Answer.", is_uncertain=uncertain, auroc={"known": score, "vanished": score, "reversed": score},
        by_environment={"A": score}, network=None, measure="accuracy", what="classifier",
        remarks=("more", "forecast") if fitted == "ordinary" else ("a", "b", "more", "forecast"),
    )  # fmt: skip
    answer = verdict_answer(verdict, ["Next."])
    assert (answer.signal, len(answer.signal_text) > 10) == (signal, True)
    assert answer.advice[:2] == ("more", "Next.")
    assert any("holdfast diagnose" in line for line in answer.advice) is uncertain
    assert (("AUROC if they reverse", "0.750", "0.500") in answer.numbers.rows) is (fitted != "ordinary")


def test_numbers_are_the_estimators(toy, fitted):
    """Label balance, accuracies, halves and risks are those that were fitted."""
    content = estimator_page(
        fitted, Evidence(training=toy.train, class_names=["well", "ill"], feature_names=["x1", "x2"])
    )
    balance = section(content, "The data").blocks[0]
    assert balance == Shares("Label balance", ("E1", "E2"), ("well", "ill"), ((0.5, 0.5), (0.5, 0.5)), (500, 500))
    (matrix,) = section(content, "Stage 1").blocks
    assert isinstance(matrix, HeatMap)
    assert np.array(matrix.values) == pytest.approx(fitted.accuracies_, nan_ok=True)
    attributes, features, partitions = section(content, "Stage 2").blocks
    assert np.array(features.values)[[0, 3]][:, features.columns.index("x2")] == pytest.approx([0.8, 0.6])
    assert attributes.values == features.values
    assert partitions.rows[0][:3] == ("E1", "E2", pytest.approx(0.8))
    table = section(content, "Stage 3").blocks[-1]
    assert table.rows[0][2] == pytest.approx(fitted.worst_case_risk_)
    assert sum(row[3] for row in table.rows) == pytest.approx(1.0)


def test_page_without_rows(fitted):
    """A saved model alone has its sizes, judges, halves and risks."""
    content = estimator_page(fitted)
    assert [part.title for part in content.sections] == [
        "The data by environment", "Stage 1: judges", "Stage 2: halves", "Stage 3: risks", "How this was made",
    ]  # fmt: skip
    assert section(content, "The data").blocks[0].rows == (("E1", 500), ("E2", 500))
    assert "There were no warnings" not in section(content, "How").intro  # nobody said
    assert "There were no warnings" in section(estimator_page(fitted, Evidence(warnings=())), "How").intro


def test_the_last_step_of_a_pipeline_is_reported(toy, fitted):
    """What comes before the classifier is not on the page, but it predicts."""
    pipeline = make_pipeline(StandardScaler().fit(toy.train.X), fitted)
    assert estimator_page(pipeline, Evidence(test=toy.test)).sections[2].title == "Stage 1: judges"


def test_page_of_erm(toy):
    """A method without judges has no stages to tell."""
    content = estimator_page(fit(ERMClassifier(), toy), Evidence(training=toy.train, test=toy.test))
    assert [part.title for part in content.sections] == [
        "Accuracy by environment",
        "The data by environment",
        "How this was made",
    ]


def test_page_of_a_regressor(toy):
    """Numbers have no label balance, but means; the stages are told."""
    y = toy.train.y + 0.1 * np.arange(len(toy.train)) / len(toy.train)
    model = PIRegressor().fit(toy.train.X, y, environments=toy.train.environments)
    content = estimator_page(model, Evidence(training=Split(toy.train.X, y, toy.train.environments)))
    table = section(content, "The data").blocks[0]
    assert isinstance(table, Table)
    assert table.columns[2] == "mean of the target"
    assert table.rows[0][2] == pytest.approx(y[:500].mean())


def test_soft_halves_are_named_as_such(toy):
    """With soft halves every row is in both, and the page says so."""
    with pytest.warns(CollapseWarning, match="learned almost nothing"):
        model = fit(PIClassifier(halves="soft", random_state=0), toy)
    content = estimator_page(model, Evidence(training=toy.train))
    part = section(content, "Stage 2")
    assert "These are soft halves" in part.intro
    assert part.blocks[-1].columns == ("judge", "judged", "accuracy α", "rows")


def test_empty_halves_are_a_line_of_the_report():
    """Nobody mistaken is a result that the report tells."""
    toy = load_dataset("toy", etas=(0.0, 0.1), n_rows=500)
    with pytest.warns(EmptyPartitionWarning, match="No row is mistaken"):
        model = fit(PIClassifier(halves="hard"), toy)
    remarks = section(estimator_page(model), "Stage 2").blocks[-1]
    assert remarks == Sentences(("Nobody is mistaken (α = 1): E1 by E2. The empty halves are dropped.",), "warning")


def test_unlike_label_shares_are_warned_of(toy, fitted):
    """Environments whose labels are distributed otherwise are named."""
    y = np.where(np.arange(1000) < 450, 1, toy.train.y)
    balance, warning, _ = (
        estimator_page(fitted, Evidence(training=Split(toy.train.X, y, toy.train.environments))).sections[0].blocks
    )
    assert isinstance(balance, Shares)
    assert warning.lines == ("Labels are more or less frequent in E1, E2, so compare accuracies with care.",)


def test_reweighting_shows_every_group(toy):
    """The history of reweighting has every group's risk; the one that is worst in the end is marked."""
    tree = DecisionTreeClassifier(max_depth=2, min_samples_leaf=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(PIClassifier(tree, halves="hard", reweight_rounds=3, random_state=0), toy)
    risks = risk_curves(model)[0]
    assert (risks.title, risks.x_title) == ("Risk of every group", "round")
    assert {line.name for line in risks.lines} == {group.name for group in model.groups_}
    last = {line.name: line.y[-1] for line in risks.lines}
    assert risks.marked == max(last, key=last.get)


def test_the_exact_solver_shows_every_group(fitted):
    """The history of the convex solver has every group's risk, which ends where the group's risk does."""
    risks, gap = risk_curves(fitted)
    last = {line.name: line.y[-1] for line in risks.lines}
    assert last == pytest.approx(dict(zip([group.name for group in fitted.groups_], fitted.group_risks_, strict=True)))
    assert (gap.title, gap.log) == ("Distance to the optimum", True)


def test_ridge_shows_risks_in_the_units_of_its_target(toy):
    """Squared errors are told as they are, not of the scaled target that the solver works with."""
    y = 10.0 * toy.train.y
    model = PIRegressor().fit(toy.train.X, y, environments=toy.train.environments)
    risks = risk_curves(model)[0]
    assert max(line.y[-1] for line in risks.lines) == pytest.approx(model.worst_case_risk_)


def test_networks_show_every_group(toy):
    """The history of a network has every group's mean risk in each epoch."""
    network = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=3, device="cpu", random_state=0)
    model = fit(PIClassifier(network, random_state=0), toy)
    risks = risk_curves(model)[0]
    assert (risks.title, risks.x_title, risks.lines[0].x) == ("Risk of every group", "epoch", (1.0, 2.0))
    assert {line.name for line in risks.lines} == {group.name for group in model.groups_}


@pytest.mark.parametrize(
    ("history", "names", "marked"),
    [
        ([{"iteration": 1, "worst_case_risk": 0.5, "gap": 0.1}], ["worst-case risk"], "worst-case risk"),
        ([{"epoch": 1, "group_risks": {"a": 0.2, "b": 0.4}}], ["b", "a"], "b"),
        (
            [{"epoch": 1, "risk": 0.5, "worst_group_risk": 0.6}],
            ["risk of the worst group", "what is minimized"],
            "risk of the worst group",
        ),
    ],
    ids=["convex", "network with all groups", "network"],
)
def test_histories_of_every_solver(history, names, marked):
    """Whatever a solver writes down is drawn, the worst marked."""
    curves = risk_curves(SimpleNamespace(history_=history, groups_=()))
    assert isinstance(curves[0], Curves)
    assert ([line.name for line in curves[0].lines], curves[0].marked) == (names, marked)


def test_no_history_is_no_curve():
    """An estimator without a history has no curves."""
    assert risk_curves(SimpleNamespace(history_=[])) == ()


def test_many_environments_are_cut_to_the_worst():
    """The accuracy matrix shows 24 environments, those in which some judge does worst."""
    names = [f"e{n:02d}" for n in range(40)]
    accuracies = np.full((40, 40), 0.9)
    accuracies[3, 30:] = 0.2
    (picture,) = judges_section(SimpleNamespace(environments_=names, accuracies_=accuracies)).blocks
    assert len(picture.rows) == 24
    assert set(names[30:]) <= set(picture.columns)
    assert "The 24 of 40 environments are shown" in picture.note


def test_page_of_an_unfitted_estimator_is_refused():
    """What was not fitted has no page."""
    with pytest.raises(InputError, match=r"LogisticRegression has no environments_: it is not fitted"):
        estimator_page(LogisticRegression())


def test_class_names_must_fit(fitted):
    """One name for each class."""
    with pytest.raises(InputError, match=r"class_names has 3 names for 2 classes"):
        estimator_page(fitted, Evidence(class_names=["a", "b", "c"]))


def test_the_page_of_a_real_fit(toy, fitted):
    """The page of a fitted classifier has a few tens of kilobytes."""
    page = render_report(estimator_page(fitted, Evidence(training=toy.train, test=toy.test)))
    assert 20_000 < len(page) < 120_000
    assert "Stage 2: halves" in page


TEST = Split(
    np.zeros((8, 1)), np.array([0, 1] * 4), np.repeat(["known", "fresh"], 4), {"color": np.array(list("rrggrrgg"))}
)


def answering(*answers: int) -> SimpleNamespace:
    """Return a classifier with these answers."""
    return SimpleNamespace(predict=lambda X: np.array(answers))


def test_places_and_values():
    """Worst and average lead, each environment says whether it is new, each attribute has a worst and an average."""
    methods = {"good": answering(*TEST.y), "half": answering(0, 1, 0, 1, 1, 0, 1, 0)}
    found = compare_on_rows(methods, TEST, known=["known"])
    assert found.places == (
        "worst environment",
        "average over environments",
        "environment fresh (new)",
        "environment known",
        "attribute color: worst group",
        "attribute color: average over groups",
    )
    values = {(dot.place, dot.series): dot.value for dot in found.dots}
    assert [values[place, "good"] for place in found.places] == [1.0] * 6
    assert [values[place, "half"] for place in found.places] == [0.0, 0.5, 0.0, 1.0, 0.5, 0.5]
    assert all(dot.low <= dot.value <= dot.high for dot in found.dots)


def test_one_environment_needs_no_average():
    """With one environment there is no worst of several; attributes can be chosen."""
    one = TEST.take(np.arange(4))
    assert compare_on_rows({"m": answering(0, 0, 0, 0)}, one, attributes=[]).places == ("environment known",)


def test_table_marks_the_best():
    """The best method of each place is emphasized, unless all are alike."""
    methods = {"erm": answering(0, 0, 0, 0, 0, 0, 0, 0), "pi": answering(0, 1, 0, 1, 1, 1, 1, 1)}
    table = figure_table(compare_on_rows(methods, TEST, attributes=[]))
    assert table.columns == ("where", "erm", "pi")
    assert [(row[0], row[1].value, row[2].value) for row in table.rows] == [
        ("worst environment", 0.5, 0.5),
        ("average over environments", 0.5, 0.75),
        ("environment fresh", 0.5, 0.5),
        ("environment known", 0.5, 1.0),
    ]
    assert table.marked == ((1, 2), (3, 2))


def test_interval_over_seeds():
    """Student's interval: 0.6 ± 12.706 · 0.1414 / √2 for two seeds; unknown for one."""
    found = seeds_interval([0.5, 0.7])
    assert (found.low, found.high) == pytest.approx((0.6 - 1.2706, 0.6 + 1.2706), abs=1e-4)
    assert math.isnan(seeds_interval([0.5]).low)
    with pytest.raises(InputError, match=r"there are no values to average"):
        seeds_interval([])


def test_dots_of_a_comparison_by_left_out_environments():
    """Means, worst and parts become places; a method that failed is left out; the recommendation is the note."""
    nan = float("nan")
    scores = (
        MethodScore("pi", 0.75, 0.5, {"a": 1.0, "b": 0.5}, 0, 0, 0, 0),
        MethodScore("irm", nan, nan, {}, nan, nan, nan, nan, problem="needs a network"),
    )
    found = comparison_dots(Comparison("each left out", "mean", scores, "pi", "Use pi."))
    assert [(dot.place, dot.series, dot.value) for dot in found.dots] == [
        ("mean", "pi", 0.75),
        ("worst", "pi", 0.5),
        ("a", "pi", 1.0),
        ("b", "pi", 0.5),
    ]
    assert found.note == "each left out. Use pi."


def test_nothing_to_compare():
    """No method is refused."""
    with pytest.raises(InputError, match=r"methods is empty"):
        compare_on_rows({}, TEST)


def test_a_page_about_a_model_of_numbers_says_r2_and_rmse():
    """R² is no accuracy, and the forecast of the RMSE has the unit of the label."""
    generator = np.random.default_rng(0)
    site, age = np.repeat(["Boston", "Chicago", "Denver"], 300), generator.normal(size=900)
    cost = age + generator.normal(size=900)
    device = np.where(site == "Denver", -1, 1) * cost + generator.normal(size=900)
    X = np.column_stack([age, device])
    model = StableRegressor().fit(X, cost, environments=site)
    page = estimator_page(model, Evidence(training=Split(X, cost, site)))
    assert page.answer.numbers.title == "R² of the ordinary and of the fitted model"
    forecast = model.verdict_.forecast
    expected = ("RMSE to expect at a new environment", None, f"{forecast.low:.3g} to {forecast.high:.3g}")
    assert expected in page.answer.numbers.rows
    assert [dot.place for dot in page.answer.figure.dots] == ["Denver", "Chicago", "Boston"]
    text = render_report(page)
    assert "how much larger the label is for one standard deviation more of the column" in text
    assert "accuracy" not in text.partition("How this was made")[0].lower()
