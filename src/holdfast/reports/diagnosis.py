"""The page of `holdfast diagnose`: the answer, then five questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.diagnosis.answer import in_points
from holdfast.diagnosis.values import Diagnosis, SiteDiagnosis
from holdfast.environments import listed
from holdfast.reports.clinical import clinical_section
from holdfast.reports.findings import effects_figure, range_text
from holdfast.reports.sections import OF_RULES, Signal, made_section, profile_blocks, run_next
from holdfast.reports.values import Answer, Block, Cell, Dot, Dots, Page, Section, Sentences, Shares, Table

SIGNALS: Mapping[str, Signal] = {
    "breaks": ("bad", "The model breaks at a new site"),
    "miscalibrated": ("caution", "At a new site, the model's probabilities are wrong"),
    "holds": ("good", "The model holds at a new site"),
    "unclear": ("unknown", "Too few rows to tell"),
}
MOST_AT_TOP = 8  # sites in the picture of the answer
MOST_SITES = 12  # that figures show; tables have all
NEW, KNOWN, ELSEWHERE = "has not seen this site", "has seen this site", "at the other sites"
LIMITS = (
    "The results are about sites that differ from these as much as these differ from one another. They do not show "
    "what happens at a site that differs more."
)
HELP = {
    "covariate_shift": "The new rows are rare among the training rows, or harder for any model. Labeled rows of "
    "the site help, to recalibrate or to fit with.",
    "label_shift": "Recalibration at the site corrects this.",
    "concept_shift": "The model uses effects that are different there: see questions 3 and 4.",
}
MEANINGS = {
    "covariate_shift": "the features are distributed differently, P(x) changes",
    "label_shift": "classes are more or less frequent than the columns explain",
    "concept_shift": "the effects of columns differ, P(y | x) changes",
}


def diagnosis_page(
    found: Diagnosis, *, title: str = "Diagnosis", following: str = "", settings: Mapping[str, Any] | None = None
) -> Page:
    """Return a report about what `holdfast.diagnose` returned.

    Parameters
    ----------
    found : Diagnosis
    title : str
    following : str
        The command to run next.
    settings : mapping, optional
        How it was made, such as the table's name.
    """
    sites = [site.name for site in found.sites]
    n_rows = sum(site.n_rows for site in found.sites)
    return Page(
        title,
        f"{n_rows:,} rows of {len(sites)} sites: {listed(sites)}. The ordinary model is {found.estimator}.",
        (
            _breaks_section(found),
            _cause_section(found),
            _columns_section(found),
            _data_section(found),
            _remedy_section(found, following),
            *([] if found.clinical is None else [clinical_section(found.clinical, "What clinical studies report")]),
            made_section({"estimator": found.estimator}, settings, LIMITS),
        ),
        answer=_answer(found, following),
    )


def _answer(found: Diagnosis, following: str) -> Answer:
    signal, text = SIGNALS[found.state]
    advice = found.recommendation
    if (rule := "wrong_data" if found.blocking else advice.rule) in OF_RULES:
        signal, text = OF_RULES[rule]
    elif advice.rule == "unstable" and found.state in ("holds", "miscalibrated"):
        signal, text = "caution", "The model holds so far, but uses columns whose effects differ"
    elif found.state == "holds" and advice.action != "keep":
        signal, text = "caution", f"{text}, but can be improved"
    score = "AUROC" if found.by_rank else "accuracy"
    worst, places = found.worst, ("at a site it has seen", "at a site it has not seen")
    values: tuple[Cell, ...] = (found.mean("known"), found.mean("new"), worst.new.accuracy.value)
    if found.by_rank:
        new, known = found.areas
        values = tuple(f"{area:.3f}" for area in (known, new, worst.new.auroc.value))
    rows: list[tuple[Cell, ...]] = list(zip((*places, f"at the worst of these, {worst.name}"), values, strict=True))
    if found.forecast is not None:
        what = "accuracy to expect" if found.by_rank else "to expect"
        rows.append((f"{what} at the next site{found.forecast_of}", range_text(found.forecast)))
    what = "means over sites" if found.by_rank else "shares of all rows"
    note = (
        f"Out of sample, {what}. `fit` uses fewer folds, so its numbers differ a little. The forecast for the next "
        "site (95%) is the same as that of `fit`."
    )
    title = f"{score[:1].upper()}{score[1:]} of the ordinary model"
    numbers = Table(title, (score, "ordinary model"), tuple(rows), note)
    sentence = f"{found.finding} *{advice.sentence}*"
    return Answer(sentence, signal, text, numbers, _advice_lines(found, following), _top_figure(found))


def _top_figure(found: Diagnosis) -> Dots:
    """Return how good the model is at each site that it has not seen: by accuracy, or AUROC where that tells more."""
    by_rank = found.by_rank
    sites = found.ranked if by_rank else found.sites
    scores = [(site.name, site.new.auroc if by_rank else site.new.accuracy) for site in sites]
    shown = sorted(scores, key=lambda pair: pair[1].value)[:MOST_AT_TOP]
    left_out = f" The {len(shown)} worst of {len(scores)} sites." if len(shown) < len(scores) else ""
    score = "AUROC" if by_rank else "Accuracy"
    return Dots(
        f"{score} at each site when it is left out",
        "with 95% intervals",
        tuple(Dot(name, score, value.value, value.low, value.high) for name, value in shown),
        left_out.strip(),
        place_title="site",
        percent=not by_rank,
    )


def _advice_lines(found: Diagnosis, following: str) -> tuple[str, ...]:
    return (*found.explanation, *run_next(following), *([found.recommendation.how] if found.recommendation.how else []))


def _shown_sites(found: Diagnosis) -> tuple[list[SiteDiagnosis], str]:
    """Return the sites that figures show, and a sentence where they are not all."""
    if len(found.sites) <= MOST_SITES + 3:
        return list(found.sites), ""
    worst = sorted(found.sites, key=lambda site: site.new.loss.value, reverse=True)[:MOST_SITES]
    return worst, f" The {MOST_SITES} of {len(found.sites)} sites with the largest {found.loss_name}."


def _breaks_section(found: Diagnosis) -> Section:
    shown, which = _shown_sites(found)
    dots = [
        Dot(site.name, series, quality.accuracy.value, quality.accuracy.low, quality.accuracy.high)
        for site in shown
        for series, quality in ((NEW, site.new), (KNOWN, site.known))
    ]
    figure = Dots(
        "Accuracy at every site, by whether the model has seen it",
        "accuracy at the site, with 95% intervals",
        tuple(dots),
        "Both dots are for the same rows. If the upper dot is left of the lower one, the model loses accuracy because "
        f"it has not seen the site.{which}",
        place_title="site",
        percent=True,
    )
    areas = Table(
        "AUROC at every site",
        ("site", "rows", NEW, KNOWN, "most frequent class"),
        tuple((s.name, s.n_rows, s.new.auroc, s.known.auroc, s.most_frequent) for s in found.sites),
        "How well the model ranks rows: 0.5 is chance. The last column is the share of the site's most frequent class, "
        "which is the accuracy of always predicting it.",
        digits=2,
        n_keys=1,
    )
    losses = Table(
        f"{found.loss_name.capitalize()} at every site",
        ("site", ELSEWHERE, NEW, KNOWN),
        tuple((site.name, site.elsewhere.loss, site.new.loss, site.known.loss) for site in found.sites),
        "How wrong the model's probabilities are: less is better. 95% intervals.",
        digits=2,
        n_keys=1,
    )
    lines = [note[:1].upper() + note[1:] for note in found.notes]
    intro = (
        "Each site is left out in turn, and a model fitted on the others predicts its rows. It is compared with a "
        "model fitted on rows of all sites, on the same rows, which neither model has seen. "
        f"Accuracy lost, mean over sites: {in_points(found.lost)}."
    )
    if found.later is not None:
        intro += f" In the order of time: {found.later.sentence}."
    blocks: list[Block] = [figure, areas, losses]
    return Section(
        "1. Does the model break at a new site?", intro, (*blocks, *([Sentences(tuple(lines))] if lines else []))
    )


def _cause_section(found: Diagnosis) -> Section:
    shown, which = _shown_sites(found)
    places = [("all sites", found.parts), *((site.name, site.split.parts) for site in shown)]
    dots = [
        Dot(place, name.replace("_", " "), part.value, part.low, part.high)
        for place, parts in places
        for name, part in parts.items()
    ]
    figure = Dots(
        f"Where the {found.loss_name} at a new site comes from",
        f"{found.loss_name} at the site minus that at the sites the model was fitted on; 0: no difference",
        tuple(dots),
        "95% intervals, for this model. A negative part makes the site easier. "
        + " ".join(f"*{name.replace('_', ' ').capitalize()}*: {text}." for name, text in MEANINGS.items())
        + which,
        place_title="site",
        reference=0.0,
    )
    by_score = [site.name for site in found.sites if site.split.by_score]
    lines = []
    if by_score:
        lines.append(
            f"Hardly any row of the other sites resembles those of {listed(by_score, most=5)} in every column. These "
            "rows were compared only by the model's score, so a column that is measured differently may count as "
            "covariate shift or as concept shift."
        )
    cause = (
        "the interval of each part includes 0."
        if found.cause is None
        else f"mostly *{found.cause.replace('_', ' ')}*. {HELP[found.cause]}"
    )
    intro = (
        f"The {found.loss_name} at a left-out site, minus that at the sites the model was fitted on, has three parts. "
        f"Over all sites: {cause}"
    )
    return Section("2. Why?", intro, (figure, *([Sentences(tuple(lines), "warning")] if lines else [])))


def _columns_section(found: Diagnosis) -> Section:
    title = "3. Which columns?"
    if not found.findings:
        tested = "any column" if found.verdict is None else f"any of {found.verdict.n_tests:,} columns"
        line = f"No evidence that the effect of {tested} differs between sites."
        return Section(title, "", (Sentences((line,)),))
    figure = effects_figure(found.findings)
    sentences = Sentences(tuple(finding.sentence for finding in found.findings), "finding")
    intro = "Columns whose effect on the label differs between sites, the strongest evidence first."
    return Section(title, intro, (sentences, figure) if figure is not None else (sentences,))


def _data_section(found: Diagnosis) -> Section:
    sites = found.sites
    classes = tuple(sites[0].shares)
    shares = Shares(
        f"How frequent each value of {found.label} is",
        tuple(site.name for site in sites),
        classes,
        tuple(tuple(site.shares.values()) for site in sites),
        tuple(site.n_rows for site in sites),
    )
    intro = "Look at this before anything else." if found.problems else "Nothing stands out."
    return Section("4. Is the data sound?", intro, (*profile_blocks(found.profile, "site"), shares))


def _remedy_section(found: Diagnosis, following: str) -> Section:
    # What to check first is said in the question before.
    said = [line for line in _advice_lines(found, following) if not line.startswith("Check the data first")]
    lines = Sentences((f"*{found.recommendation.sentence}*", *said), "finding")
    dots = tuple(Dot(r.name, "gain", r.gain.value, r.gain.low, r.gain.high) for r in found.remedies)
    figure = Dots(
        "Gain of each change at the left-out sites",
        f"{found.loss_name} of the ordinary model minus that with the change; right of 0: better",
        dots,
        "95% intervals, mean over sites. The simplest change with at least half of the largest gain is recommended; "
        "collecting rows of the new site counts as the most effort.",
        place_title="change",
        reference=0.0,
    )
    rows: Sequence[tuple[Cell, ...]] = [
        (r.name, r.gain, r.accuracy, f"{r.n_better} of {len(found.sites)}") for r in found.remedies
    ]
    table = Table(
        "Gain of each change, in numbers",
        ("change", f"gain of {found.loss_name}", "gain of accuracy", "sites better"),
        tuple(rows),
        n_keys=1,
    )
    return Section("5. What should I do?", "", (lines, figure, table))


def _clinical_sections(found: Diagnosis) -> list[Section]:
    """Return what clinical studies report; nothing where there are no probabilities of two classes."""
    return [] if found.clinical is None else [clinical_section(found.clinical, "What clinical studies report")]
