"""From a fitted estimator, and whatever else is known, to the story of its three stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.datasets.values import Split
from holdfast.exceptions import InputError
from holdfast.reports.chapters import (
    audit_section,
    environments_section,
    judges_section,
    partitions_section,
    risks_section,
    settings_section,
)
from holdfast.reports.comparison import compare_on_rows, comparison_section
from holdfast.reports.correlations import correlation_maps
from holdfast.reports.values import Dots, Highlight, Story


def tell_story(
    classifier: Any,
    *,
    title: str = "",
    training: Split | None = None,
    test: Split | None = None,
    methods: Mapping[str, Any] | None = None,
    comparison: Dots | None = None,
    audit: Any = None,
    reliance: Any = None,
    attributes: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (),
    warnings: Sequence[str] | None = None,
) -> Story:
    """Tell what the stages found, in their order.

    Parameters
    ----------
    classifier : fitted PIClassifier, or another of holdfast's estimators
        What it does not have is left out: the story of ERM has no halves. A pipeline is told by its last step.
    title : str
        Of the page; by default the class and its number of environments.
    training : Split, optional
        The rows it was fitted on, in the same order: label balance, and correlations in the halves.
    test : Split, optional
        Rows to compare `methods` on, by environment and by attribute.
    methods : mapping of name to fitted classifier, optional
        What to compare, in this order; each predicts `test.X`. By default the classifier alone.
    comparison : Dots, optional
        Instead of `test` and `methods`: a comparison made elsewhere, for example of several seeds, or by
        `comparison_dots`.
    audit : optional
        What `holdfast.audit.audit_data` returned: anything with `sentences()`, `evidence` and `to_frame()`.
    reliance : optional
        What `holdfast.audit.relied_on` returned: anything with `to_frame()`.
    attributes : sequence of str, optional
        Which attributes of the rows to show and to evaluate by; all by default.
    feature_names : sequence of str, optional
        Names of the columns of `training.X` where it is an array.
    class_names : sequence of str, optional
        Names of the classes, in the order of `classes_`; by default the classes themselves.
    settings : mapping, optional
        More settings to show, such as the data set's options.
    seeds : sequence of int
        Seeds behind the numbers.
    warnings : sequence of str
        What was warned of while fitting.

    Returns
    -------
    Story
        For `write_report` and `write_assets`.

    Examples
    --------
    >>> from holdfast import PIClassifier
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", etas=(0.1, 0.2))
    >>> model = PIClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> story = tell_story(model, training=toy.train, test=toy.test, feature_names=["x1", "x2"])
    >>> [section.title for section in story.sections][:3]
    ['Environments', 'Stage 1: judges', 'Stage 2: halves']
    """
    from holdfast.learners import last_step

    fitted = last_step(classifier)
    if not hasattr(fitted, "environments_"):
        raise InputError(
            f"{type(fitted).__name__} has no environments_: it is not fitted, or not one of holdfast's estimators. "
            "Fit it with environments= first."
        )
    names = _class_names(fitted, class_names)
    if comparison is None and test is not None:
        compared = dict(methods or {type(fitted).__name__: classifier})
        known = [str(label) for label in fitted.environments_]
        comparison = compare_on_rows(compared, test, known=known, attributes=attributes)
    maps = () if training is None else correlation_maps(fitted, training, names, feature_names, audit, attributes)
    sections = [
        environments_section(fitted, training, names),
        judges_section(fitted),
        partitions_section(fitted, maps),
        risks_section(fitted),
        comparison_section(comparison),
        audit_section(audit, reliance),
        settings_section(fitted, settings or {}, seeds, warnings),
    ]
    return Story(
        title or f"{type(fitted).__name__} on {len(fitted.environments_)} environments",
        "Which correlations hold in every environment, which do not, and what follows for the classifier.",
        tuple(section for section in sections if section is not None),
        _highlights(fitted, training, comparison, audit),
    )


def _class_names(fitted: Any, class_names: Sequence[str] | None) -> dict[Any, str]:
    """Return the name of each class; no classes for a regressor."""
    classes = list(getattr(fitted, "classes_", []))
    names = [str(label) for label in classes] if class_names is None else list(class_names)
    if len(names) != len(classes):
        raise InputError(f"class_names has {len(names)} names for {len(classes)} classes. Pass one for each.")
    return dict(zip(classes, names, strict=True))


def _highlights(fitted: Any, training: Split | None, comparison: Dots | None, audit: Any) -> tuple[Highlight, ...]:
    """Return the numbers that a reader looks for first."""
    found = [Highlight(str(len(fitted.environments_)), "environments")]
    if training is not None:
        found.insert(0, Highlight(f"{len(training):,}", "training rows"))
    risk = getattr(fitted, "worst_case_risk_", float("nan"))
    if risk == risk:
        found.append(Highlight(f"{risk:.3f}", "risk in the worst group"))
    if comparison is not None:
        first = comparison.places[0]
        found += [
            Highlight(f"{dot.value:.1%}", f"{dot.series}, {first}") for dot in comparison.dots if dot.place == first
        ][:4]
    named = tuple(getattr(audit, "named", ()))
    if named:
        found.append(Highlight(str(len(named)), "unstable: " + ", ".join(named[:3]) + (" …" if len(named) > 3 else "")))
    return tuple(found)
