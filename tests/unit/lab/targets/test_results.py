"""What differs from the paper, in words."""

import pytest

from holdfast.lab.experiments import PlannedRun
from holdfast.lab.targets.results import QUICK, merge_notes, warn_quick, what_differs
from holdfast.lab.targets.sources import Options, Plan, make_run
from holdfast.reports.values import Table


def told(runs, facts):
    """Return the note about runs that all have records with these facts about their data."""
    plan = Plan(tuple(PlannedRun("run", run) for run in runs))
    return what_differs(plan, lambda config: {"data": {"notes": [], **facts}})


def test_notes_that_vary_in_a_number_are_one_with_the_range():
    """What is the same stays; several notes of one record are never merged, nor are names with digits."""
    notes = [
        ["E1: 5 rows", "E2: 5 rows", "1,944 words, the paper has 10,218", "a: 7 rows", "b=0: 3 rows"],
        ["E1: 5 rows", "E2: 6 rows", "2,051 words, the paper has 10,218", "a: 7 rows", "b=1: 3 rows"],
    ]
    assert merge_notes(notes) == [
        "E1: 5 rows", "E2: 5–6 rows", "1,944–2,051 words, the paper has 10,218", "a: 7 rows", "b=0: 3 rows",
        "b=1: 3 rows",
    ]  # fmt: skip
    assert merge_notes([["3 rows", "4 rows"], ["3 rows", "5 rows"]]) == ["3 rows", "4–5 rows"]


def test_vectors_are_named_beside_the_papers(tmp_path):
    """The file, the dimension and how much of the text it covers; records without these facts name the file."""
    (tmp_path / "wiki.en.vec").touch()
    run = make_run("beer_look", "erm", Options(tmp_path))
    assert told([run], {"vector_dimension": 50, "coverage": 0.96884}) == (
        "Word vectors: wiki.en.vec, 50-d, with a vector for 96.9 % of the training tokens; "
        "the paper has 300-d FastText."
    )
    assert told([run], {}) == "Word vectors: wiki.en.vec; the paper has 300-d FastText."


def test_frozen_features_are_said_to_be_no_whole_network(tmp_path):
    """Network, weights and learning rate are named."""
    (tmp_path / "mobilenet_v2-b0353104.pth").touch()
    assert told([make_run("celeba", "pi", Options(tmp_path, small=True))], {}) == (
        "Features of a frozen MobileNetV2 (mobilenet_v2-b0353104.pth) and a linear layer at a learning rate of 0.001; "
        "the paper trains ResNet-50 as a whole."
    )
    assert told([make_run("celeba", "pi", Options(tmp_path))], {}) == (
        "MobileNetV2 (mobilenet_v2-b0353104.pth) trained as a whole; the paper has ResNet-50."
    )


def test_several_data_sets_are_told_apart(tmp_path):
    """The data set stands before its notes, and one without notes is not mentioned."""
    (tmp_path / "wiki.en.vec").touch()
    runs = [make_run(key, "erm", Options(tmp_path)) for key in ("mnist", "beer_look")]
    plan = Plan(tuple(PlannedRun("run", run) for run in runs))
    notes = {"colored_mnist": [], "beer": ["fewer reviews"]}
    found = what_differs(plan, lambda config: {"data": {"notes": notes[config.dataset]}})
    assert found.startswith("Beer Look: fewer reviews. Word vectors: wiki.en.vec")


@pytest.mark.parametrize(("quick", "note"), [(True, f"{QUICK} Worst."), (False, "Worst.")])
def test_tables_of_synthetic_data_warn(quick, note):
    """Every table of a quick target says that its numbers mean nothing; synthetic data have no other notes."""
    plan = Plan((PlannedRun("run", make_run("mnist", "erm", Options(quick=quick))),))
    (table,) = warn_quick([Table("", (), (), "Worst.")], plan, lambda config: {"data": {"notes": ["few rows"]}})
    assert table.note == note
    assert what_differs(plan, lambda config: {"data": {"notes": ["few rows"]}}) == ("" if quick else "few rows.")
