"""The story of `holdfast demo`: four methods on colored digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.reports.comparison import compare_on_rows, seeds_interval
from holdfast.reports.story import Dot, Dots, Story
from holdfast.reports.telling import tell_story

if TYPE_CHECKING:
    from holdfast.audit import Audit, Reliance


def audit_demo() -> tuple[Audit, Reliance]:
    """Return the audit of seed 0's training rows, and what ERM and PI rely on in its test rows.

    Pixels and color are two features, and the judges are the demo's own estimator.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    from holdfast.audit import audit_data, relied_on
    from holdfast.datasets import load_dataset
    from holdfast.experiments.demo import DATA, C, fit_method

    data = load_dataset("colored_digits", seed=0, **DATA)
    names = column_names(data)
    groups = {"pixels": [name for name in names if name.startswith("pixel")]}
    groups["color"] = [name for name in names if name not in groups["pixels"]]
    train, test = data.train, data.test
    judge = LogisticRegression(C=C, max_iter=1000)
    with threadpool_limits(limits=1):
        found = audit_data(train.X, train.y, train.environments, names=names, groups=groups, judge=judge)
    fitted = {"ERM": fit_method("erm", data, 0), "PI": fit_method("pi", data, 0)}
    numbered = {name: [f"x{names.index(member)}" for member in members] for name, members in groups.items()}
    return found, relied_on(fitted, test.X, test.y, groups=numbered)


def column_names(data: Any) -> list[str]:
    """Return the names of the digits' columns: pixels, then colors."""
    n_pixels = data.train.X.shape[1] - len(data.classes)
    return [f"pixel {n // 8},{n % 8}" for n in range(n_pixels)] + [f"color {name}" for name in data.classes]


def demo_story(result: dict[str, Any], classifier: Any, *, audit: Any = None, reliance: Any = None) -> Story:
    """Tell what the demo found: accuracies over all seeds, and the stages of seed 0.

    The other methods of seed 0 are fitted again, which takes a few seconds.

    Parameters
    ----------
    result, classifier : what `holdfast.experiments.demo.run_demo` returned
    audit, reliance : optional
        What `audit_demo` returned.

    Returns
    -------
    Story
    """
    from holdfast.datasets import load_dataset
    from holdfast.experiments.demo import DATA, METHODS, fit_method

    data = load_dataset("colored_digits", seed=0, **DATA)
    titles = {name: title.partition(":")[0] for name, title in METHODS.items()}
    fitted = {title: classifier if name == "pi" else fit_method(name, data, 0) for name, title in titles.items()}
    one_seed = compare_on_rows(
        fitted, data.test, known=[str(e) for e in classifier.environments_], attributes=data.attribute_names
    )
    n_seeds = len(result["seeds"])
    place = f"test environment, mean of {n_seeds} seed{'s' * (n_seeds > 1)}"
    means = []
    for name, title in titles.items():
        interval = seeds_interval(result["methods"][name]["test_accuracies"])
        means.append(Dot(place, title, interval.value, interval.low, interval.high))
    later = [Dot(f"seed 0, {dot.place}", dot.series, dot.value, dot.low, dot.high) for dot in one_seed.dots]
    return tell_story(
        classifier,
        title="Colored digits: four methods where the color misleads",
        training=data.train,
        comparison=Dots(
            "Accuracy by method",
            "accuracy",
            (*means, *later),
            f"First line: Student's 95 % interval over the seeds. {one_seed.note}",
        ),
        audit=audit,
        reliance=reliance,
        attributes=data.attribute_names,
        feature_names=column_names(data),
        settings=result["data"] | {"estimator of every method": result["estimator"]},
        seeds=result["seeds"],
    )
