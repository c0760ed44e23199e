"""What is chosen among the points of a method, and what stands beside it."""

import pytest

from holdfast.lab.targets.rivals import DOMAINS, LINEAR, NETWORKS, PUBLISHED, plan_rivals, report_rivals
from holdfast.lab.targets.sources import Options, Plan

QUICK = plan_rivals(Options(quick=True, n_seeds=2))
RECORDED = Options(n_seeds=2, recorded=())


def record(run, train, test, accuracy):
    """Return a record with accuracies on both kinds of validation rows and in the test."""
    places = {"shuffled": accuracy, "new": accuracy}
    scored = {"accuracy": accuracy, "environments": places}
    settings = {
        name: {"validation": {"accuracy": value}, "test": scored} for name, value in (("train", train), ("test", test))
    }
    facts = {"data": {"notes": []}, "cpu_seconds": 2.0}
    return {"seed": run.config.seed, "settings": settings, "config": run.config.as_dict(), **facts}


def report(scores):
    """Return the tables of a plan whose runs have the scores that their names begin with."""
    plan = plan_rivals(RECORDED)
    found = {}
    for run in plan.runs:
        for name, values in scores.items():
            if run.name.startswith(name):
                found[run.config.identity] = record(run, *values)
    return {table.title: table for table in report_rivals(plan, lambda c: found.get(c.identity)).tables}


def test_every_method_has_as_many_points():
    """No method is searched longer than another."""
    assert {len(rival.points) for rival in NETWORKS} == {3}
    assert {rival.settings["method"] for rival in NETWORKS} == {"erm", "irm", "vrex", "group_dro", "pi"}
    batches = {rival.title: rival.settings.get("batch_size") for rival in NETWORKS}
    assert batches == {"ERM": 256, "IRM": 256, "V-REx": 256, "group DRO": 128, "PI": 128, "PI, robust": None}


def test_the_point_is_chosen_by_the_rows_that_the_rule_names():
    """Training validation takes the first point, the test environment the second; the test accuracies follow."""
    tables = report({"irm IRM 0": (0.9, 0.2, 0.15), "irm IRM 1": (0.6, 0.7, 0.65), "irm IRM 2": (0.5, 0.6, 0.99)})
    row = next(row for row in tables["IRM's two-class colored MNIST"].rows if row[:2] == ("IRM", "this run"))
    assert (row[2].value, row[3].value) == pytest.approx((15.0, 65.0))
    assert row[4:] == (2, 2.0)


def test_leaving_a_domain_out_asks_the_other_training_domain():
    """ERM's second point is better from one training domain to the other, and so it is kept for PI too."""
    scores = {
        f"domainbed {test} {rival.title} {point}": (0.5, 0.5, 0.3 + 0.2 * point)
        for test in DOMAINS
        for rival in NETWORKS
        for point in (0, 1)
    }
    scores |= {
        f"alone {first} to {second} ERM {point}": (0.5, 0.5, 0.4 + 0.1 * point)
        for first in DOMAINS
        for second in DOMAINS
        if first != second
        for point in (0, 1)
    }
    table = report(scores)["DomainBed's ColoredMNIST"]
    place = table.columns.index("leave one out, +90 %")
    kept = {row[0]: row[place] for row in table.rows if row[1] == "this run"}
    assert kept == pytest.approx({"ERM": 50, "group DRO": 50, "PI": 50, "IRM": 30, "V-REx": 30, "PI, robust": 30})
    published = {row[0]: row[place : place + 3] for row in table.rows if row[1] == "published"}
    assert published["IRM"] == (46.7, 51.2, 23.1)
    assert "This run: 2 seeds (standard deviation at most 0.0)" in table.note


def test_unit_tests_show_errors_and_published_cells():
    """The error is one minus the accuracy with shuffled columns; cells that were not published stay empty."""
    table = report({"units 2s 3 PI": (0.9, 0.9, 0.75)})["Linear unit tests of invariance"]
    rows = {row[:2]: row[2:] for row in table.rows}
    place = table.columns.index("2s, 3 env.") - 2
    assert rows["PI", "this run"][place].value == pytest.approx(0.25)
    assert rows["IRMv1", "published"][place] == 0.449
    assert rows["IRMv1", "published"][table.columns.index("2, 3 env.") - 2] is None


def test_without_records_there_is_no_table():
    """Published numbers alone are no comparison."""
    assert report({}) == {}


def test_a_short_form_has_every_method():
    """The quick plan has one point of each method in each comparison, on synthetic digits."""
    names = {run.name for run in QUICK.runs}
    assert {f"irm {rival.title} 0" for rival in NETWORKS} <= names
    assert {f"units 3s 3 {rival.title} 0" for rival in LINEAR} <= names
    assert all(run.config.synthetic for run in QUICK.runs)
    assert isinstance(QUICK, Plan)


def test_every_published_block_says_its_protocol():
    """No number of others stands without how it came about."""
    assert all(block["protocol"].startswith("Published rows: ") for block in PUBLISHED.values())
