"""The sentences of a diagnosis: what was found, why, what to do, and how certain that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.diagnosis.advice import (
    BREAKS,
    MATTERS,
    WORTH,
    Recommendation,
    best_remedy,
    decide,
    facts_of,
    mending_options,
    surely_lost,
)
from holdfast.diagnosis.words import check_line, headline
from holdfast.environments import listed
from holdfast.metrics import Interval

if TYPE_CHECKING:
    from holdfast.diagnosis.soundness import Problem
    from holdfast.diagnosis.values import Diagnosis, Later, OddSite, Remedy, SiteDiagnosis
    from holdfast.stable.verdict import Verdict


REASONS = {  # parts of the loss in words
    "covariate_shift": "the features are distributed differently there (covariate shift)",
    "label_shift": "classes are more or less frequent there (label shift)",
    "concept_shift": "effects of columns differ there (concept shift)",
}
RECALIBRATE = (
    "With the fitted model, at the new site (labeled rows in LABELED.csv, the others in NEW.csv): "
    "`holdfast predict model NEW.csv --recalibrate LABELED.csv --out predictions.csv`"
)
ADD_ROWS = "First add labeled rows of the new site to the table."
RATES_DIFFER = 0.1  # difference of a class's frequency between sites that is mentioned


def find(found: Diagnosis) -> str:
    """Whether the model breaks, where and why."""
    numbers, as_good = _numbers(found)
    if found.odd_sites and found.recommendation.rule in ("odd_labels", "odd_rates"):
        return _say_odd(found)
    if found.recommendation.rule == "tells_nothing":
        (new, known), (label, share) = found.areas, found.usual
        right = f"accuracy {found.mean('new'):.0%}, always predicting {label}: {share:.0%}"
        return (
            f"The columns do not predict `{found.label}`: the AUROC of an ordinary model is {new:.2f} at a site it "
            f"has not seen, and {known:.2f} at a site it has seen ({right})."
        )
    if found.state in ("holds", "miscalibrated") and found.recommendation.rule == "unstable":
        return f"So far an ordinary model holds at a site it has not seen: {numbers}. The next site may differ more."
    if found.state == "holds":
        return f"An ordinary model holds at a site it has not seen: {numbers}."
    if found.state == "unclear":
        return f"There are too few rows to say whether an ordinary model breaks at a new site: {numbers}."
    if found.later is not None and found.later.breaks:
        return f"An ordinary model breaks as time goes on: {found.later.sentence}."
    why = f", mostly because {REASONS[found.cause]}" if found.cause else ""
    if found.state == "miscalibrated":
        return (
            f"At a site it has not seen, an ordinary model {as_good} if the site was in the training data), but its "
            f"probabilities are wrong{why}."
        )
    return f"An ordinary model breaks at a site it has not seen{why}: {numbers}. {_say_worst(found)}."


def _numbers(found: Diagnosis) -> tuple[str, str]:
    """Return how good the model is at new and at known sites, as a sentence and within one."""
    label, share = found.usual
    if found.by_rank:
        new, known = found.areas
        well = "about as well" if known - new < WORTH else "perhaps worse"
        right = f"accuracy {found.mean('new'):.0%}; always predicting {label}: {share:.0%}"
        return (
            f"its AUROC is {new:.2f} there, against {known:.2f} if the site was in the training data ({right})",
            f"ranks rows {well} (AUROC {new:.2f}, against {known:.2f}",
        )
    new, known = found.mean("new"), found.mean("known")
    level = "about the same" if known - new < WORTH else "perhaps a lower"
    return (
        f"its accuracy is {new:.0%} there, against {known:.0%} if the site was in the training data (always predicting "
        f"{label}: {share:.0%})",
        f"has {level} accuracy ({new:.0%}, against {known:.0%}",
    )


def _say_worst(found: Diagnosis) -> str:
    """Name the sites at which accuracy is surely lost, and say where nothing is."""
    broken = [site for site in found.large if surely_lost(site) > BREAKS]
    n_fine = sum(site not in broken and not _ranks_worse(site) for site in found.large)
    worst = max(found.large, key=lambda site: site.lost.value)
    there = f"{worst.new.accuracy.value:.0%} instead of {worst.known.accuracy.value:.0%}"
    if found.by_rank and found.ranked:
        worst = max(found.ranked, key=lambda site: site.known.auroc.value - site.new.auroc.value)
        there = f"{worst.new.auroc.value:.2f} instead of {worst.known.auroc.value:.2f}"
        broken = []
    most = f"The largest loss is in {worst.name}: {there}"
    if not broken or n_fine < len(found.large) - len(broken):
        return most
    fine = "the other one is fine" if n_fine == 1 else f"the other {_count(n_fine)} are fine"
    return f"{most}; {fine}"


def _ranks_worse(site: SiteDiagnosis) -> bool:
    """Return whether rows of a site that was left out are ranked clearly worse, so that it is not fine."""
    return bool(site.known.auroc.value - site.new.auroc.value > WORTH)


def _say_odd(found: Diagnosis) -> str:
    """Name the site that stands apart, and say that the others are fine."""
    odd = found.odd_sites[0]
    n_others = len(found.large) - len(found.odd_sites)
    if odd.kind == "labels":
        return (
            f"In {odd.name} an ordinary model ranks rows much worse than at the other {_count(n_others)} sites (AUROC "
            f"{odd.here:.2f} instead of {odd.elsewhere:.2f}), even if the site was in the training data. Are labels "
            "wrong there?"
        )
    event = list(found.sites[0].shares)[1]
    fine = f"the other {_count(n_others)} sites are fine" if found.state == "holds" else "no other site is as far off"
    return (
        f"In {odd.name} a model fitted on the other sites predicts `{found.label}` = {event} for "
        f"{100 * odd.elsewhere:.0f} of 100 rows, and the observed number is {100 * odd.here:.0f}; {fine}."
    )


def _count(number: int) -> str:
    """Return a small number as a word.

    Examples
    --------
    >>> _count(5), _count(40)
    ('five', '40')
    """
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return words[number] if number < len(words) else str(number)


def explain(found: Diagnosis) -> tuple[str, ...]:
    """Why this is advised, how sure that is, and what to check first; a line each."""
    advice = found.recommendation
    notes = [problem for problem in found.problems if not problem.is_headline and problem.column not in advice.columns]
    check = check_line(notes, found.label)
    dropped = [remedy for remedy in found.remedies if remedy.is_sure and remedy.action == "repair"]
    if check and dropped:
        enough = 0.5 * max(remedy.gain.value for remedy in dropped)
        best = min(dropped, key=lambda remedy: (remedy.gain.value < enough, len(remedy.columns)))
        check += f" Without {_quoted(best.columns)}, the model is better at sites it has not seen."
    lines = f"Why: {advice.reason}", advice.sure, check
    return tuple(line for line in lines if line)


def say_later(later: Later) -> str:
    """Say how a model of the past does in the future."""
    new, known = later.new.accuracy.value, later.known.accuracy.value
    return (
        f"fitted on rows before {later.first}, its accuracy on later rows is {new:.0%}, against {known:.0%} if such "
        "rows were in the training data"
    )


def recommend(found: Diagnosis) -> Recommendation:
    """Return the advice of the first rule that applies, in words."""
    rule = decide(facts_of(found))
    return replace(_WORDED[rule.key](found), command=rule.command, rule=rule.key)


def _advise_recent(found: Diagnosis) -> Recommendation:
    later = found.later
    assert later is not None
    return Recommendation(
        "collect",
        "Fit it again with recent rows before you use it, and check it regularly.",
        f"A model fitted on rows before {later.first} loses {in_points(later.lost)} of accuracy afterwards.",
        "Confidence: fair, if the change continues in the same way.",
        site=later.first,
        how="First add recent rows to the table.",
    )


def _advise_more_rows(found: Diagnosis) -> Recommendation:
    smallest, score = min(found.sites, key=lambda site: site.n_rows), found.new_score
    within = f"known only to within {50 * (score.high - score.low):.0f} points"
    reason = f"The accuracy lost at a new site is {in_points(found.lost)}, and the accuracy there is {within}."
    if found.by_rank:
        reason = f"The AUROC at a new site is {score.value:.2f}, {within}."
    return Recommendation(
        "collect",
        f"Collect more rows, first in {smallest.name}.",
        f"{reason} {smallest.name} has {smallest.n_rows:,} rows.",
        "Confidence: low, because there are few rows.",
        site=smallest.name,
        how="First add the new rows to the table.",
    )


def _advise_other_columns(found: Diagnosis) -> Recommendation:
    known = found.known_area
    assert known is not None
    return Recommendation(
        "collect",
        "Check that labels and columns belong to the same rows, or collect other columns.",
        f"Even at sites that it has seen, the AUROC is {known.value:.2f} [{known.low:.2f} to {known.high:.2f}]; chance "
        "is 0.50.",
        "Quite sure for this estimator; another one may find more.",
    )


def _advise_new_rows(found: Diagnosis) -> Recommendation:
    worst = max(found.large, key=lambda site: site.lost.value)
    lower = f"Accuracy at a new site is {in_points(found.lost)}"
    if found.by_rank:
        new, known = found.areas
        lower = f"The AUROC at a new site is {known - new:.2f}"
    return Recommendation(
        "collect",
        f"Collect rows at the new site before using a model there, as many as in {worst.name} or more.",
        f"{lower} lower, and none of the remedies that were tried clearly helps.",
        "Confidence: fair that the model breaks, low that more rows will help.",
        site=worst.name,
        how=ADD_ROWS,
    )


def _advise_keep(found: Diagnosis) -> Recommendation:
    names = [finding.feature for finding in found.findings]
    unstable = f" The effect of {_quoted(names)} differs between sites, without harm so far."
    if len(names) > 1:
        unstable = f" The effects of {_quoted(names)} differ between sites, without harm so far."
    kept, at_most = f"The accuracy lost at a site it has not seen is {in_points(found.lost)}", found.lost.high
    if found.by_rank:
        new, known = found.areas
        kept = f"The AUROC at a site it has not seen is {new:.2f}, against {known:.2f} at a site it has seen"
        at_most = known - new
    return Recommendation(
        "keep",
        "Keep the ordinary model.",
        f"{kept}, and none of the changes that were tried is clearly better.{unstable * bool(names)}",
        f"Confidence: {'high' if at_most <= MATTERS / 2 else 'fair'}, for sites that differ from these as much as "
        "these differ from one another.",
    )


def _advise_repair(found: Diagnosis) -> Recommendation:
    return advise_repair(found.problems, found.label)


def advise_repair(problems: Sequence[Problem], label: str) -> Recommendation:
    """Recommend to mend the data first."""
    wrong = [problem for problem in problems if problem.is_headline]
    return Recommendation(
        "repair",
        headline(wrong, label)[1],
        "The figures below include this error and may change once it is corrected.",
        "",
        tuple(dict.fromkeys(problem.column for problem in wrong if problem.column)),
        options=mending_options(wrong),
    )


def _advise_labels(found: Diagnosis) -> Recommendation:
    odd = found.odd_sites[0]
    return Recommendation(
        "repair",
        f"Check how `{found.label}` was recorded in {odd.name} before you use its rows.",
        f"The AUROC there is lower than expected, by more than the other sites differ ({_by_chance(odd)}).",
        "Confidence: fair that the site differs. Wrong labels are one possible reason, harder rows another.",
        site=odd.name,
    )


def _advise_rates(found: Diagnosis) -> Recommendation:
    odd = found.odd_sites[0]
    return Recommendation(
        "recalibrate",
        f"Before you use it at a site like {odd.name}, label rows there and recalibrate its probabilities.",
        f"The share of events in {odd.name} differs from the predicted one by more than at the other sites "
        f"({_by_chance(odd)}).",
        "Confidence: fair that the site differs. The next one may be like it or like the others.",
        site=odd.name,
        how=RECALIBRATE,
    )


def _by_chance(odd: OddSite) -> str:
    return f"p {'<' if odd.chance < 0.001 else '='} {max(odd.chance, 0.001):.3f}"


def _sureness(found: Diagnosis, remedy: Remedy) -> str:
    """Say at how many sites left out a change was better."""
    n_sites = len(found.sites)
    level = "fair" if 2 * remedy.n_better >= n_sites else "low"
    level = "high" if remedy.n_better == n_sites else level
    return f"Confidence: {level}. It is better at {remedy.n_better} of {n_sites} left-out sites."


def _advise(found: Diagnosis) -> Recommendation:
    """Recommend the remedy that gained at sites left out."""
    remedy = best_remedy(found)
    assert remedy is not None
    sure, gained = _sureness(found, remedy), _gained(found, remedy)
    if remedy.action == "repair":
        it = _verb(remedy.columns, "it", "them")
        odd = () if found.profile is None else found.profile.about(remedy.columns)
        sites = {site: None for problem in found.problems if problem.column in remedy.columns for site in problem.sites}
        where = f" in {listed(list(sites), most=4)}" if sites else ""
        return Recommendation(
            "repair",
            f"Repair {_quoted(remedy.columns)}{where}, or fit without {it}.",
            f"{' '.join(odd)} Without {it}, the model is better at sites it has not seen. {gained}",
            sure,
            remedy.columns,
            options=tuple(word for name in remedy.columns for word in ("--drop", name)),
        )
    if remedy.action == "recalibrate":
        sizes = [site.n_rows // 2 for site in found.sites]
        several = f"{min(sizes):,} to {max(sizes):,}" if min(sizes) < max(sizes) else f"about {min(sizes):,}"
        labels = f"about {remedy.n_labels}" if remedy.n_labels else several
        return Recommendation(
            "recalibrate",
            f"Before you use it at a new site, label {labels} rows there and recalibrate its probabilities with them.",
            f"{_ranking(found)}{_rates(found)}. {gained}",
            sure,
            how=RECALIBRATE,
        )
    worst = max(found.large, key=lambda site: site.new.loss.value - site.known.loss.value)
    return Recommendation(
        "collect",
        "Collect labeled rows at the new site and fit with them before using the model there.",
        f"Training with rows of the site helps more than all else that was tried, most in {worst.name}. {gained}",
        sure,
        site=worst.name,
        how=ADD_ROWS,
    )


def _ranking(found: Diagnosis) -> str:
    """Say what of the model's scores carries over."""
    new, known = found.areas
    off = "are wrong everywhere" if found.state == "holds" else "are wrong there"
    areas = f"AUROC {new:.2f}, against {known:.2f} at a site it has seen"
    return f"At a new site the model ranks rows well ({areas}), but its probabilities {off}"


def _rates(found: Diagnosis) -> str:
    """Say how far the frequency of a class goes apart, if it does."""
    shares = {label: [site.shares[label] for site in found.sites] for label in found.sites[0].shares}
    label = max(reversed(shares), key=lambda name: round(max(shares[name]) - min(shares[name]), 9))
    low, high = (pick(found.sites, key=lambda site: site.shares[label]) for pick in (min, max))
    if high.shares[label] - low.shares[label] < RATES_DIFFER:
        return ""
    few, many = (f"{site.shares[label]:.0%}" for site in (low, high))
    return f": `{found.label}` is {label} in {few} of rows in {low.name}, but in {many} in {high.name}"


def _gained(found: Diagnosis, remedy: Remedy) -> str:
    """Say what a change brought at the sites left out."""
    gain = remedy.gain
    return (
        f"At the left-out sites this changes the accuracy by {in_points(remedy.accuracy)} and lowers the "
        f"{found.loss_name} by {gain.value:.3f} [{gain.low:.3f} to {gain.high:.3f}]."
    )


def _advise_stable(found: Diagnosis) -> Recommendation:
    """Recommend the stable classifier, with what it costs and saves, and what it gained where it was tried."""
    verdict = found.verdict
    assert verdict is not None
    names = tuple(finding.feature for finding in verdict.acted_on)
    effects = _verb(names, "a column whose effect differs", "columns whose effects differ")
    tried = next((remedy for remedy in found.remedies if remedy.action == "stable"), None)
    gained = _gained(found, tried) if tried is not None and tried.is_sure else ""
    later = found.later
    if later is not None and later.breaks and later.stable is not None and later.stable.low > 0:
        sure = f"Confidence: fair. On the later rows its accuracy is higher by {in_points(later.stable)}."
    elif tried is None:
        sure = "Confidence: low, because with two sites the stable classifier cannot be tried at a left-out site."
    elif tried.is_sure:
        sure = _sureness(found, tried)
    elif verdict.price.value > max(verdict.gain):
        sure = "Confidence: low, because it costs more than it saves. With `--caution 0` the ordinary model is kept."
    else:
        sure = "Confidence: low, because there was no gain at left-out sites. It protects against larger changes."
    return Recommendation(
        "stable",
        f"Use the stable classifier, which relies less on {_quoted(names)}, {effects} between sites.",
        f"The stable classifier {say_price(verdict)}. {gained}".rstrip(),
        sure,
        names,
    )


def say_price(verdict: Verdict) -> str:
    """Say what the stable classifier costs and saves, as a predicate."""
    if verdict.auroc:
        known, gone, turned = verdict.auroc.values()
        return (
            f"has an AUROC of {known.fitted:.2f} instead of {known.ordinary:.2f} at sites like these, of "
            f"{gone.fitted:.2f} instead of {gone.ordinary:.2f} if the effect vanishes, and of {turned.fitted:.2f} "
            f"instead of {turned.ordinary:.2f} if it reverses"
        )
    vanished, reverses = (_points(gain) for gain in verdict.gain)
    costs = f"costs {in_points(verdict.price)} of accuracy" if verdict.price.value >= 0.0005 else "costs no accuracy"
    return f"{costs} at sites like these, and saves {vanished} if the effect vanishes and {reverses} if it reverses"


def _points(value: float) -> str:
    """Return an accuracy as whole points.

    Examples
    --------
    >>> _points(0.012), _points(0.05)
    ('1 point', '5 points')
    """
    return f"{100 * value:.0f} point{'s' * (round(100 * value) != 1)}"


_WORDED: Mapping[str, Callable[[Diagnosis], Recommendation]] = {  # the words of each rule of `advice.RULES`
    "wrong_data": _advise_repair,
    "unstable": _advise_stable,
    "drift": _advise_recent,
    "odd_labels": _advise_labels,
    "tells_nothing": _advise_other_columns,
    "few_rows": _advise_more_rows,
    "odd_rates": _advise_rates,
    "odd_column": _advise,
    "calibration": _advise,
    "site_rows": _advise,
    "breaks": _advise_new_rows,
    "holds": _advise_keep,
}


def _quoted(columns: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in columns], most=4)


def _verb(things: Sequence[Any], one: str, several: str) -> str:
    return one if len(things) == 1 else several


def in_points(value: Interval) -> str:
    """Return accuracies as points.

    Examples
    --------
    >>> in_points(Interval(0.05, 0.02, 0.08))
    '5.0 points [2.0 to 8.0]'
    """
    return f"{100 * value.value:.1f} points [{100 * value.low:.1f} to {100 * value.high:.1f}]"


def lead(problems: Sequence[Problem], label: str, answer: str) -> str:
    """Return a command's answer with what is wrong with the data before it.

    Examples
    --------
    >>> lead([], "ill", "All is well.")
    'All is well.'
    """
    return " ".join(filter(None, (*headline(problems, label), answer)))
