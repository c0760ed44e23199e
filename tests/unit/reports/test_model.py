import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import ERMClassifier, NeuralClassifier, PIClassifier, PIRegressor
from holdfast.datasets import load_dataset
from holdfast.datasets.values import Split
from holdfast.exceptions import EmptyPartitionWarning, InputError
from holdfast.reports.chapters import risk_curves
from holdfast.reports.html import render_report
from holdfast.reports.model import tell_story
from holdfast.reports.values import Curves, HeatMap, Sentences, Shares, Table


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


def section(story, title):
    """Return the section whose title begins so."""
    return next(section for section in story.sections if section.title.startswith(title))


def test_story_follows_the_stages(toy, fitted):
    """Environments, judges, halves, risks, comparison, audit, settings: in this order."""
    audit = SimpleNamespace(
        evidence=("1 of the features changes.",),
        named=("x2",),
        sentences=lambda: ("`x2` flips.", "1 of the features changes."),
        to_frame=lambda: __import__("pandas").DataFrame({"feature": ["x2", "x1"], "q_value": [0.01, np.nan]}),
    )
    methods = {"ERM": fit(ERMClassifier(), toy), "PI": fitted}
    story = tell_story(
        fitted, training=toy.train, test=toy.test, methods=methods, audit=audit, seeds=[0], warnings=["Beware."]
    )
    assert [part.title for part in story.sections] == [
        "Environments",
        "Stage 1: judges",
        "Stage 2: halves",
        "Stage 3: risks",
        "Comparison",
        "Audit: what not to trust",
        "How this was made",
    ]
    assert story.title == "PIClassifier on 2 environments"
    assert [(item.label, item.value) for item in story.highlights][:2] == [
        ("training rows", "1,000"),
        ("environments", "2"),
    ]
    assert story.highlights[-1].label == "unstable: x2"
    findings, evidence, table = section(story, "Audit").blocks
    assert (findings.tone, findings.lines, evidence.lines) == (
        "finding",
        ("`x2` flips.",),
        ("1 of the features changes.",),
    )
    assert table.rows == (("x2", 0.01), ("x1", None))
    assert section(story, "How").blocks[0] == Sentences(("Beware.",), "warning")


def test_numbers_are_the_estimators(toy, fitted):
    """Label balance, accuracies, halves and risks are those that were fitted."""
    story = tell_story(fitted, training=toy.train, class_names=["well", "ill"], feature_names=["x1", "x2"])
    (balance,) = section(story, "Environments").blocks
    assert balance == Shares("Label balance", ("E1", "E2"), ("well", "ill"), ((0.5, 0.5), (0.5, 0.5)), (500, 500))
    (matrix,) = section(story, "Stage 1").blocks
    assert isinstance(matrix, HeatMap)
    assert np.array(matrix.values) == pytest.approx(fitted.accuracies_, nan_ok=True)
    attributes, features, partitions = section(story, "Stage 2").blocks
    assert np.array(features.values)[[0, 3]][:, features.columns.index("x2")] == pytest.approx([0.8, 0.6])
    assert attributes.values == features.values
    assert partitions.rows[0][:3] == ("E1", "E2", pytest.approx(0.8))
    table = section(story, "Stage 3").blocks[-1]
    assert table.rows[0][2] == pytest.approx(fitted.worst_case_risk_)
    assert sum(row[3] for row in table.rows) == pytest.approx(1.0)


def test_story_without_rows(fitted):
    """A saved model alone tells its sizes, judges, halves and risks."""
    story = tell_story(fitted)
    assert [part.title for part in story.sections] == [
        "Environments", "Stage 1: judges", "Stage 2: halves", "Stage 3: risks", "How this was made",
    ]  # fmt: skip
    assert section(story, "Environments").blocks[0].rows == (("E1", 500), ("E2", 500))
    assert "There were no warnings" not in section(story, "How").intro  # nobody said
    assert "There were no warnings" in section(tell_story(fitted, warnings=()), "How").intro


def test_pipelines_are_told_by_their_last_step(toy):
    """What comes before the classifier is no part of the story, but predicts."""
    inner = fit(PIClassifier(LogisticRegression()), toy)
    pipeline = make_pipeline(StandardScaler().fit(toy.train.X), inner)
    assert tell_story(pipeline, test=toy.test).sections[1].title == "Stage 1: judges"


def test_story_of_erm(toy):
    """A method without judges has no stages to tell."""
    story = tell_story(fit(ERMClassifier(), toy), training=toy.train, test=toy.test)
    assert [part.title for part in story.sections] == ["Environments", "Comparison", "How this was made"]


def test_story_of_a_regressor(toy):
    """Numbers have no label balance, but means; the stages are told."""
    y = toy.train.y + 0.1 * np.arange(len(toy.train)) / len(toy.train)
    model = PIRegressor().fit(toy.train.X, y, environments=toy.train.environments)
    story = tell_story(model, training=Split(toy.train.X, y, toy.train.environments))
    (table,) = section(story, "Environments").blocks
    assert isinstance(table, Table)
    assert table.columns[2] == "mean of the target"
    assert table.rows[0][2] == pytest.approx(y[:500].mean())


def test_soft_halves_are_named_as_such(toy):
    """With soft halves every row is in both, and the page says so."""
    story = tell_story(fit(PIClassifier(halves="soft", random_state=0), toy), training=toy.train)
    part = section(story, "Stage 2")
    assert "These are soft halves" in part.intro
    assert part.blocks[-1].columns == ("judge", "judged", "accuracy α", "rows")


def test_empty_halves_are_a_line_of_the_report():
    """Nobody mistaken is a result that the report tells."""
    toy = load_dataset("toy", etas=(0.0, 0.1), n_rows=500)
    with pytest.warns(EmptyPartitionWarning, match="nobody is mistaken"):
        model = fit(PIClassifier(halves="hard"), toy)
    remarks = section(tell_story(model), "Stage 2").blocks[-1]
    assert remarks == Sentences(("Nobody is mistaken (α = 1): E1 by E2. The empty halves are dropped.",), "warning")


def test_unlike_label_shares_are_warned_of(toy, fitted):
    """Environments whose labels are distributed otherwise are named."""
    y = np.where(np.arange(1000) < 450, 1, toy.train.y)
    balance, warning = tell_story(fitted, training=Split(toy.train.X, y, toy.train.environments)).sections[0].blocks
    assert isinstance(balance, Shares)
    assert warning.lines == ("Class shares differ much in E1, E2; the theory assumes them equal.",)


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


def test_the_invariant_interpolation_is_told_as_such():
    """Its risks are the environments', at every step tried, and nothing is said of a worst case."""
    toy = load_dataset("toy", exact=True)
    model = fit(PIClassifier(random_state=0), toy)
    told = section(tell_story(model), "Stage 3")
    assert "its risk is the same in every environment" in told.intro
    assert f"The risks differ by {model.gap_:.4f}." in told.intro
    (risks,) = risk_curves(model)
    assert (risks.x_title, [line.name for line in risks.lines]) == ("step", ["E2", "E1"])


def test_the_invariant_interpolations_curves_end_at_the_step_that_was_chosen():
    """A search tries larger steps too; the curves begin with ERM and end with the final risks."""
    history = [{"step": step, "group_risks": [0.1 + step, 0.3]} for step in (0.0, 0.1, 0.15, 0.4)]
    groups = [SimpleNamespace(name="E1"), SimpleNamespace(name="E2")]
    model = SimpleNamespace(history_=history, groups_=groups, solver_="invariant", group_risks_=np.array([0.25, 0.3]))
    (risks,) = risk_curves(model)
    assert risks.lines[0].x == (0.0, 0.1, 0.15)
    assert {line.name: line.y[-1] for line in risks.lines} == pytest.approx({"E1": 0.25, "E2": 0.3})
    assert risks.note == "Step 0 is plain ERM; the last step shown is the one that was chosen."


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
    from holdfast.reports.chapters import judges_section

    names = [f"e{n:02d}" for n in range(40)]
    accuracies = np.full((40, 40), 0.9)
    accuracies[3, 30:] = 0.2
    (picture,) = judges_section(SimpleNamespace(environments_=names, accuracies_=accuracies)).blocks
    assert len(picture.rows) == 24
    assert set(names[30:]) <= set(picture.columns)
    assert "The 24 of 40 environments are shown" in picture.note


def test_story_of_an_unfitted_estimator_is_refused():
    """What was not fitted has no story."""
    with pytest.raises(InputError, match=r"LogisticRegression has no environments_: it is not fitted"):
        tell_story(LogisticRegression())


def test_class_names_must_fit(fitted):
    """One name for each class."""
    with pytest.raises(InputError, match=r"class_names has 3 names for 2 classes"):
        tell_story(fitted, class_names=["a", "b", "c"])


def test_the_page_of_a_real_story(toy, fitted):
    """A whole story becomes a page of a few tens of kilobytes."""
    page = render_report(tell_story(fitted, training=toy.train, test=toy.test))
    assert 20_000 < len(page) < 120_000
    assert "Stage 2: halves" in page
