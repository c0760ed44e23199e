"""The model card: a Markdown page that is saved beside a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.metrics import Interval
from holdfast.stable.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from holdfast.tables.classifier import TableClassifier

MOST_SITES = 50
LIMITS = (
    "It cannot detect a relation that is spurious and equally strong at all known sites.",
    "The forecast assumes that the next site differs from the known ones as they differ from each other.",
    "Before it is used at a new site, run `holdfast check` with rows of that site; labels are not needed.",
)


def model_card(model: TableClassifier) -> str:
    """Return the card of a fitted classifier: what it predicts, the verdict, sites, price, forecast and limits."""
    return "\n".join(_lines(model)) + "\n"


def _lines(model: TableClassifier) -> Iterator[str]:
    """Yield the lines of the card."""
    roles, names = model.roles_, model.names
    verdict = verdict_of(model.method_)
    kinds = [column.kind for column in roles.schema.columns]
    counts = listed([f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)])
    yield f"# Model card: {_plain(roles.label)}"
    yield ""
    yield f"- Predicts `{_plain(roles.label)}`: {_plain(listed(list(map(str, model.classes_)), most=10))}."
    yield f"- Method `{names['method']}` with `{names['estimator']}`; features: {counts}."
    yield f"- Site column: {_plain(listed([f'`{name}`' for name in roles.environments]))}."
    if model.recalibration_ is not None:
        yield f"- {model.recalibration_}"
    if model.adaptation_ is not None:
        yield f"- {_plain(str(model.adaptation_))}"
    if verdict is not None:
        yield from ("", "## Verdict", "", _plain(str(verdict)))
    yield from _sites(model, verdict)
    if verdict is not None and verdict.by_environment:
        yield from _figures(verdict)
    yield from ("", "## Limits", "")
    limits = (*LIMITS, *model.notes_, *(model.warnings_ or ()))
    yield from (
        f"- {_plain(text)}" for text in (limits if verdict is not None else (LIMITS[2], *limits[len(LIMITS) :]))
    )


def _sites(model: TableClassifier, verdict: Verdict | None) -> Iterator[str]:
    """Yield the table of known sites."""
    sizes = {} if model.profile_ is None else dict(model.profile_.sites)
    known = {} if verdict is None else dict(verdict.by_environment)
    names = list(dict.fromkeys([*sizes, *known]))
    if not names:
        return
    yield from ("", "## Known sites", "", "Accuracy on rows that it was not fitted on.", "")
    yield from ("| site | rows | ordinary classifier | this one |", "|---|--:|--:|--:|")
    for name in names[:MOST_SITES]:
        accuracy = known.get(name)
        shares = ("–", "–") if accuracy is None else (f"{accuracy.ordinary:.3f}", f"{accuracy.fitted:.3f}")
        yield f"| {_plain(name)} | {sizes.get(name, '–')} | {shares[0]} | {shares[1]} |"
    if len(names) > MOST_SITES:
        yield f"| {len(names) - MOST_SITES} more | | | |"


def _figures(verdict: Verdict) -> Iterator[str]:
    """Yield the tables of price and forecast."""
    yield from ("", "## Price and forecast", "", "| accuracy | ordinary classifier | this one |", "|---|--:|--:|")
    for what, found in (
        ("at the known sites", verdict.known),
        ("if the unstable effects vanish", verdict.vanished),
        ("if they reverse", verdict.reversed),
    ):
        yield f"| {what} | {found.ordinary:.3f} | {found.fitted:.3f} |"
    yield ""
    yield f"- Price, the accuracy lost at sites like the known ones: {_interval(verdict.price)}."
    yield f"- Accuracy to expect at the next site (95 %): {_interval(verdict.forecast)}."


def _interval(value: Interval) -> str:
    return f"{value.value:.3f}, between {value.low:.3f} and {value.high:.3f}"


def _plain(text: Any) -> str:
    """Return text in one line that does not end a cell of a table, or start HTML."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
