"""Word importance in the beer reviews: one review, and the effect of the planted token in many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.datasets.beer import TOKENS
from holdfast.lab import paper
from holdfast.lab.experiments import PlannedRun
from holdfast.lab.targets.results import Reader, Report, note_on, smaller_training
from holdfast.lab.targets.sources import (
    ROBUST_NAME,
    ROBUST_TEXT,
    SMALLER,
    Options,
    Plan,
    Record,
    find_missing,
    is_smaller,
    make_run,
)
from holdfast.reports.values import HeatMap, Table

KEY, SETTING = "beer_look", "train"
N_REVIEWS = 500
N_SHOWN = 15  # words
RULE = "the first test review whose token contradicts its label, which ERM gets wrong and PI right"


def plan_words(options: Options) -> Plan:
    """Return runs of all methods on beer look that take each word out of each of the first 500 test reviews."""
    absent = find_missing(KEY, options)
    if absent is not None:
        return Plan((), (absent,))
    settings = {"explain_rows": N_REVIEWS, "validations": [SETTING], **(SMALLER if is_smaller(options) else {})}
    runs = [
        PlannedRun(title, make_run(KEY, method, options, seed=0, **settings)) for method, title in paper.METHODS.items()
    ]
    robust = make_run(KEY, "pi", options, seed=0, explain_rows=N_REVIEWS, validations=[SETTING], **ROBUST_TEXT)
    return Plan((*runs, PlannedRun(ROBUST_NAME, robust)))


@dataclass(frozen=True)
class Review:
    """What a classifier makes of one review; numbers are changes of the probability of the true label."""

    row: int
    label: int
    right: bool
    token: int  # the label that the planted token stands for
    token_change: float  # with the token − without it
    other_change: float  # the largest change that any other word makes, up or down
    words: Mapping[str, float]  # what each word changes, the sum where it is repeated; empty: not kept


def read_review(entry: Mapping[str, Any] | Sequence[Any]) -> Review:
    """Return a review from a record: with its words, or a list of the values without them.

    Examples
    --------
    >>> entry = {"row": 3, "label": 0, "prediction": "1", "words": ["tiny", "<art_positive>"], "drops": [-0.1, 0.4]}
    >>> read_review(entry)  # doctest: +NORMALIZE_WHITESPACE
    Review(row=3, label=0, right=False, token=1, token_change=-0.4, other_change=0.1,
           words={'tiny': 0.1, '<art_positive>': -0.4})
    """
    if not isinstance(entry, Mapping):
        row, label, is_right, code, token_change, other_change = entry
        return Review(row, label, is_right, code, token_change, other_change, {})
    right = str(entry["prediction"]) == str(entry["label"])
    changes: dict[str, float] = {}
    for word, drop in zip(entry["words"], entry["drops"], strict=True):
        changes[word] = changes.get(word, 0.0) + (drop if right else -drop)
    (token,) = (code for code, word in enumerate(TOKENS) if word in changes)
    others = [abs(change) for word, change in changes.items() if word not in TOKENS]
    return Review(entry["row"], entry["label"], right, token, changes[TOKENS[token]], max(others, default=0.0), changes)


def choose(reviews: Mapping[str, Sequence[Review]]) -> int | None:
    """Return the place of the review that the rule chooses; None where it chooses none."""
    pairs = zip(reviews.get("ERM", ()), reviews.get("PI", ()), strict=False)
    fitting = (place for place, (erm, pi) in enumerate(pairs) if pi.token != pi.label and pi.right and not erm.right)
    return next(fitting, None)


def report_words(plan: Plan, read: Reader) -> Report:
    """Return what the token does on average, and what each word of the chosen review does."""
    found = {run.name: record for run in plan.runs if (record := read(run.config)) is not None}
    if not found:
        return Report()
    reviews = {name: [read_review(entry) for entry in _entries(record)] for name, record in found.items()}
    chosen = choose(reviews)
    told = "Validation rows are like the training environments; seed 0."
    note = note_on(plan, read, told, _trained(plan))
    tables, figures = [_means(reviews, note)], []
    if chosen is not None:
        table, picture = _review({name: found[chosen] for name, found in reviews.items() if found[chosen].words})
        tables.append(table)
        figures.append(picture)
    kept = tuple(_without_texts(record, chosen) for record in found.values())
    return Report(tuple(tables), figures=tuple(figures), kept=kept)


def _trained(plan: Plan) -> str:
    """Return how the training is smaller than the authors', nothing for theirs."""
    smaller = smaller_training(plan.runs[0].config)
    return f"{smaller} {ROBUST_NAME} has the recipe's own settings." if smaller else ""


def _entries(record: Record) -> list[Any]:
    found: list[Any] = record["settings"][SETTING]["reviews"]
    return found


def _means(reviews: Mapping[str, Sequence[Review]], note: str) -> Table:
    """Return for each method its accuracy, the token's mean effect and that of the strongest other word."""
    rows = []
    for name, found in reviews.items():
        against = [review for review in found if review.token != review.label]
        rows.append(
            (
                name,
                100 * float(np.mean([review.right for review in found])),
                # Towards the class that the token stands for: against the true label where the two differ.
                float(np.mean([(1 if r.token == r.label else -1) * r.token_change for r in found])),
                float(np.mean([review.other_change for review in found])),
                100 * float(np.mean([not r.right and r.token_change <= -r.other_change for r in against])),
                len(found),
            )
        )
    columns = ("method", "accuracy, %", "token", "strongest other word", "misled by the token, %", "reviews")
    text = (
        "'token': how much the token raises the probability of the class it stands for, mean over the reviews. "
        "'strongest other word': the largest change by any other word, up or down. 'misled': of the reviews whose "
        f"token contradicts the label, those that are wrong and where no other word matters more. {note}"
    )
    return Table("What the planted token does, first test reviews", columns, tuple(rows), text, digits=2)


def _review(chosen: Mapping[str, Review]) -> tuple[Table, HeatMap]:
    """Return the words of one review as a table and as a picture."""
    first = next(iter(chosen.values()))
    strength = {word: max(abs(review.words[word]) for review in chosen.values()) for word in first.words}
    shown = sorted(strength, key=lambda word: -strength[word])[:N_SHOWN]
    title = f"Words of test review {first.row}, whose label is {'negative' if first.label == 0 else 'positive'}"
    note = (
        f"Chosen by rule: {RULE}. Numbers: probability of the true label minus that without the word, so that a "
        f"negative word misleads. Of {len(first.words)} words, those that matter most to any method, strongest first."
    )
    rows: list[tuple[Any, ...]] = [
        ("right or wrong", *("right" if review.right else "wrong" for review in chosen.values()))
    ]
    rows += [(word, *(f"{review.words[word]:+.3f}" for review in chosen.values())) for word in shown]
    picture = HeatMap(
        title,
        tuple(f"{name} ({'right' if review.right else 'wrong'})" for name, review in chosen.items()),
        tuple(shown),
        tuple(tuple(review.words[word] for word in shown) for review in chosen.values()),
        "correlation",
        "methods",
        "words",
        note,
    )
    return Table(title, ("word", *chosen), tuple(rows), note), picture


def _without_texts(record: Record, chosen: int | None) -> Record:
    """Return a record without the words of all reviews but the chosen one, whose words are in alphabetical order."""
    entries: list[Any] = []
    for place, entry in enumerate(_entries(record)):
        if place == chosen and isinstance(entry, Mapping):
            order = sorted(range(len(entry["words"])), key=entry["words"].__getitem__)
            entries.append({**entry, **{key: [entry[key][i] for i in order] for key in ("words", "drops")}})
            continue
        r = read_review(entry)
        entries.append([r.row, r.label, r.right, r.token, round(r.token_change, 4), round(r.other_change, 4)])
    setting = {**record["settings"][SETTING], "reviews": entries}
    return {**record, "settings": {**record["settings"], SETTING: setting}}
