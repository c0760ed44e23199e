from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from holdfast import diagnose
from holdfast.diagnosis.soundness import Problem
from holdfast.reports import diagnosis_page, render_report
from holdfast.reports.values import Dots, Sentences, Table

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found():
    """Return the diagnosis of three sites: one has a scanner that lies, another a column that is always 0."""
    generator = np.random.default_rng(0)
    sites, y = np.repeat(["Boston", SCRIPT, "Denver"], 150), generator.integers(2, size=450)
    agreement = np.where(sites == "Boston", 0.95, np.where(sites == "Denver", 0.1, 0.8))
    X = pd.DataFrame(
        {
            "marker": generator.normal(size=450) + 1.5 * y,
            "scanner": np.where(generator.random(450) < agreement, y, 1 - y),
            "chol": np.where(sites == "Denver", 0.0, generator.normal(200, 45, size=450)),
        }
    )
    return diagnose(X, np.where(y, "ill", "well"), sites)


def test_the_answer_comes_first_and_the_questions_in_order(found):
    """The sentence, a signal, three accuracies, the reason and the command; then the five questions."""
    page = diagnosis_page(found, title="rows.csv", following="holdfast fit rows.csv")
    assert page.answer.signal == "bad"
    assert page.answer.sentence == f"{found.finding} *{found.recommendation.sentence}*"
    assert [row[0] for row in page.answer.numbers.rows][:2] == ["at a site it has seen", "at a site it has not seen"]
    assert "Run next: `holdfast fit rows.csv`" in page.answer.advice
    assert [section.title for section in page.sections] == [
        "1. Does the model break at a new site?",
        "2. Why?",
        "3. Which columns?",
        "4. Is the data sound?",
        "5. What should I do?",
        "What clinical studies report",
        "How this was made",
    ]


def test_every_question_has_its_picture(found):
    """Accuracy by site, parts of the loss, the forest plot, the class shares and the gains; odd columns are named."""
    page = diagnosis_page(found)
    titles = [block.title for block in page.blocks() if isinstance(block, Dots)]
    assert titles == [
        "Accuracy at each site when it is left out",
        "Accuracy at every site, by whether the model has seen it",
        "Where the log loss at a new site comes from",
        "Effect of each unstable column, by environment",
        "Gain of each change at the left-out sites",
        "AUROC by site",
        "O:E by site",
    ]
    parts = next(block for block in page.blocks() if isinstance(block, Dots) and "comes from" in block.title)
    assert parts.series == ("covariate shift", "label shift", "concept shift")
    assert parts.places == ("all sites", *sorted(["Boston", SCRIPT, "Denver"]))
    said = [line for block in page.blocks() if isinstance(block, Sentences) for line in block.lines]
    odd = "`chol` is 0 in all rows in Denver and hardly anywhere else: does 0 mean missing? If so, empty these cells."
    assert odd in said
    assert any(line.startswith(f"Check the data first: {odd}") for line in page.answer.advice)


def test_names_are_text(found):
    """A site called like a script is shown, not run."""
    html = render_report(diagnosis_page(found, following=f"holdfast fit '{SCRIPT}'"))
    assert SCRIPT not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_of_many_sites_figures_show_the_worst(found):
    """Tables have all sites, figures those with the largest loss, and they say so."""
    sites = tuple(replace(site, name=f"{site.name} {n}") for n in range(7) for site in found.sites)
    page = diagnosis_page(replace(found, sites=sites))
    top, *figures = [block for block in page.blocks() if isinstance(block, Dots)][:3]
    assert len(top.dots) == 8
    assert top.note == "The 8 worst of 21 sites."
    assert [len(figure.places) for figure in figures] == [12, 13]  # all sites together, and twelve
    assert all(figure.note.endswith("The 12 of 21 sites with the largest log loss.") for figure in figures)
    areas = next(block for block in page.blocks() if isinstance(block, Table) and block.title == "AUROC at every site")
    assert len(areas.rows) == 21


def test_a_table_that_was_misread_gets_no_verdict(found):
    """Where numbers were read as categories, the first line says so, and nothing about the model."""
    words = Problem("words_among_numbers", "stop", "marker", (), {"words": ["?"]}, ("--missing", "?"))
    misread = replace(found, profile=replace(found.profile, problems=(words, *found.problems)))
    answer = diagnosis_page(misread).answer
    assert answer.sentence.startswith("`marker` contains numbers, but '?' turns them into categories")
    assert (answer.signal, answer.signal_text) == ("bad", "Correct the data first")


def test_rare_labels_have_their_auroc_at_the_top(found):
    """Accuracy is that of the most frequent label, whatever happens."""
    rare = replace(found, sites=tuple(replace(site, shares={"no": 0.95, "yes": 0.05}) for site in found.sites))
    numbers = diagnosis_page(rare, title="t").answer.numbers
    new, known = found.areas
    assert numbers.columns == ("AUROC", "ordinary model")
    assert [row[1] for row in numbers.rows[:3]] == [f"{known:.3f}", f"{new:.3f}", f"{rare.worst.new.auroc.value:.3f}"]
    assert numbers.rows[3][0].startswith("accuracy to expect at the next site")
    assert diagnosis_page(found, title="t").answer.numbers.columns == ("accuracy", "ordinary model")


def test_a_model_that_holds_so_far_is_no_green_light():
    """Two known sites agree, and the effect of a column differs between them: sentence and signal say the same."""
    generator = np.random.default_rng(0)
    sites, y = np.repeat(["Boston", "Chicago"], 1000), generator.integers(2, size=2000)
    agreement = np.where(sites == "Boston", 0.95, 0.85)
    X = pd.DataFrame(
        {name: np.where(generator.random(2000) < p, y, 1 - y) for name, p in (("marker", 0.75), ("scanner", agreement))}
    )
    found = diagnose(X, y, sites)
    assert found.recommendation.rule == "unstable"
    assert str(found).startswith("So far an ordinary model holds at a site it has not seen: its accuracy is 89% there")
    answer = diagnosis_page(found, title="rows.csv").answer
    assert (answer.signal, answer.signal_text) == (
        "caution",
        "The model holds so far, but uses columns whose effects differ",
    )
