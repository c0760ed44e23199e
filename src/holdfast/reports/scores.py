"""The page of `holdfast diagnose` about an existing model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from holdfast.diagnosis.scores import ScoreDiagnosis
from holdfast.environments import listed
from holdfast.reports.clinical import clinical_section, measure_dots
from holdfast.reports.sections import made_section, profile_blocks, run_next
from holdfast.reports.values import Answer, Cell, Page, Section, Table

SIGNALS: Mapping[str, tuple[Literal["good", "caution", "bad", "unknown"], str]] = {
    "breaks": ("bad", "The model does not hold at every site"),
    "miscalibrated": ("caution", "The predicted risks are wrong at some sites"),
    "holds": ("good", "The model holds at every site"),
    "unclear": ("unknown", "Too few rows to tell"),
}


def score_page(
    found: ScoreDiagnosis, *, title: str = "Diagnosis", following: str = "", settings: Mapping[str, Any] | None = None
) -> Page:
    """Return a report about what `holdfast.diagnose_scores` returned; parameters as for `diagnosis_page`."""
    sites = [site.name for site in found.clinical.sites]
    n_rows = sum(site.n_rows for site in found.clinical.sites)
    intro = "Nothing was fitted: the predicted risks were compared with the outcomes at each site."
    return Page(
        title,
        f"{n_rows:,} rows of {len(sites)} sites: {listed(sites)}. The model is given: {found.name}.",
        (
            clinical_section(
                found.clinical, "What clinical studies report", where="at every site", shown=_shown(found)
            ),
            *_data_sections(found),
            made_section({"score": found.name}, settings, intro),
        ),
        answer=_answer(found, following),
    )


def _answer(found: ScoreDiagnosis, following: str) -> Answer:
    signal, text = SIGNALS[found.state]
    if found.problems:
        signal, text = "bad", "Correct the data first"
    report = found.clinical
    rows: list[tuple[Cell, ...]] = []
    for measure, name in (
        ("auroc", "AUROC"),
        ("oe", "observed for each expected event"),
        ("slope", "calibration slope"),
    ):
        pooled = report.pooled_of(measure)
        if pooled is not None:
            mean = f"{pooled.mean.value:.2f} [{pooled.mean.low:.2f}, {pooled.mean.high:.2f}]"
            rows.append((name, mean, f"{pooled.next_site.low:.2f} to {pooled.next_site.high:.2f}"))
    numbers = Table("Pooled over sites", ("measure", "mean over sites", "the next site"), tuple(rows), "95% intervals.")
    lines = (
        *found.explanation,
        *run_next(following),
        *([found.recommendation.how] if found.recommendation.how else []),
    )
    sentence = f"{found.finding} *{found.recommendation.sentence}*"
    figure = measure_dots(report, _shown(found))
    return Answer(sentence, signal, text, numbers if rows else None, lines, figure)


def _shown(found: ScoreDiagnosis) -> str:
    """Return the measure that the picture of the answer shows."""
    return "oe" if found.state == "miscalibrated" else "auroc"


def _data_sections(found: ScoreDiagnosis) -> list[Section]:
    if found.profile is None:
        return []
    intro = "Look at this before anything else." if found.profile.problems else "Nothing stands out."
    return [Section("Is the data sound?", intro, tuple(profile_blocks(found.profile, "site")))]
