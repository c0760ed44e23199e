"""The page of `holdfast check`: the advice, then its reasons; and the course over several periods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from holdfast.newsite.check import SiteCheck
from holdfast.newsite.monitor import WORDS, Course
from holdfast.reports.findings import range_text
from holdfast.reports.sections import run_next
from holdfast.reports.values import Answer, Block, Cell, Dot, Dots, Page, Section, Sentences, Table

SIGNALS: Mapping[str, tuple[Literal["good", "caution", "bad", "unknown"], str]] = {
    "use": ("good", "The model can be used at this site"),
    "unsure": ("caution", "The model can be used at this site, but check its accuracy"),
    "adapt": ("caution", "The model should be adapted first"),
    "label": ("caution", "Some labels are needed first"),
    "do_not_use": ("bad", "The model cannot be used at this site yet"),
}


def check_page(found: SiteCheck, *, title: str = "Check", following: str = "") -> Page:
    """Return a report about what `TableClassifier.check` returned, and the command to run next (`following`)."""
    sections = (_columns_section(found), _unstable_section(found), _predictions_section(found))
    return Page(
        title, f"{found.n_rows:,} rows of the new site, without labels.", sections, answer=_answer(found, following)
    )


def _answer(found: SiteCheck, following: str) -> Answer:
    signal, text = SIGNALS["unsure" if found.is_unsure else found.advice]
    rows: list[tuple[Cell, ...]] = [("at the known sites, out of fold", found.known_accuracy)]
    if found.forecast is not None:
        if found.as_it_is is not None:
            rows.append(("to expect at this site as it is", found.as_it_is))
        rows.append(("to expect at this site" + ", adapted" * (found.as_it_is is not None), found.forecast.value))
        rows.append(("between (95%)", range_text(found.forecast)))
    note = "" if found.forecast is None else "The forecast uses no labels of the site."
    numbers = Table("Accuracy", ("accuracy", "value"), tuple(rows), note)
    return Answer(found.answer, signal, text, numbers, (*found.remarks, *run_next(following)))


def _columns_section(found: SiteCheck) -> Section:
    blocks: list[Block] = [Sentences(tuple(check.sentence for check in found.columns) or ("All columns fit.",))]
    if found.moved:
        rows = tuple((check.name, check.share, check.changed) for check in found.moved)
        note = (
            "By how many standard deviations the median lies outside of the known sites' medians (of a category: which "
            "share of the rows has another level), and the share of predictions that this changes."
        )
        header = ("column", "moved by", "predictions it changes")
        blocks.append(Table("Columns that are distributed differently", header, rows, note, n_keys=1))
    return Section("Does the data fit?", "Each column against the profile of the training rows.", tuple(blocks))


def _unstable_section(found: SiteCheck) -> Section:
    if found.adaptation is None:
        return Section(
            "Unstable columns",
            "",
            (Sentences(("Not checked: the model is not a stable classifier, or was recalibrated for a site.",)),),
        )
    can = "The classifier can be adapted to these rows."  # nothing was changed yet
    blocks: list[Block] = [Sentences((can if found.adaptation.adapted else found.adaptation.answer,))]
    if found.relations:
        sites = tuple(found.relations[0].known)[:10]
        rows = tuple(
            (r.name, r.weight, r.right, r.error, *(r.known.get(site) for site in sites)) for r in found.relations
        )
        note = "Share of rows in which a column agrees with the label as at the known sites, estimated without labels."
        header = ("column", "weight", "right here", "standard error", *sites)
        blocks.append(Table("Unstable columns at this site", header, rows, note, n_keys=1))
    return Section("Effects of unstable columns there", "Learned from these rows without labels.", tuple(blocks))


def _predictions_section(found: SiteCheck) -> Section:
    rows = tuple(found.predicted.items())
    return Section(
        "Predictions",
        "The model's predictions for these rows.",
        (Table("Share of each predicted class", ("class", "share"), rows, n_keys=1),),
    )


def course_page(course: Course, *, title: str = "Course", following: str = "") -> Page:
    """Return a report about the checks of several periods, and the command to run next (`following`)."""
    last = course.periods[-1]
    signal, text = SIGNALS["unsure" if last.check.is_unsure else last.check.advice]
    advice = (*last.check.remarks, *run_next(following))
    answer = Answer(course.answer, signal, f"{last.name}: {text[0].lower()}{text[1:]}", None, advice)
    rows = tuple(
        (p.name, p.check.n_rows, WORDS[p.check.advice] + " (changed)" * p.changed, p.check.forecast)
        for p in reversed(course.periods)
    )
    blocks: list[Block] = [
        Table("Periods, the latest first", ("period", "rows", "advice", "accuracy to expect"), rows, n_keys=1)
    ]
    dots = tuple(
        Dot(p.name, "forecast", p.check.forecast.value, p.check.forecast.low, p.check.forecast.high, forecast=True)
        for p in course.periods
        if p.check.forecast is not None
    )
    if dots:
        note = "The line is the accuracy at the known sites."
        figure = Dots("Accuracy to expect", "accuracy", dots, note, "period", reference=last.check.known_accuracy)
        blocks.insert(0, figure)
    sections = [Section("The course over time", "Forecasts from rows without labels (95%).", tuple(blocks))]
    found = tuple(f"{p.name}: {line}" for p in course.periods for line in _sentences(p.check))
    sections.append(Section("What does not fit, or has another effect", "", (Sentences(found or ("Nothing.",)),)))
    sections += [_columns_section(last.check), _unstable_section(last.check), _predictions_section(last.check)]
    n_rows = sum(period.check.n_rows for period in course.periods)
    subtitle = (
        f"{len(course.periods)} periods, {n_rows:,} rows without labels. The last sections are about {last.name}."
    )
    return Page(title, subtitle, tuple(sections), answer=answer)


def _sentences(found: SiteCheck) -> tuple[str, ...]:
    """Return what does not fit, and which effects of unstable columns differ, in a sentence each."""
    turned = [relation.sentence for relation in found.relations if relation.name in found.turned]
    return (*(check.sentence for check in found.columns), *turned)
