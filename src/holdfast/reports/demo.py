"""The story of `holdfast demo`: four methods on colored digits."""

from __future__ import annotations

from typing import Any

from holdfast.reports.comparison import compare_on_rows, seeds_interval
from holdfast.reports.story import Dot, Dots, Story
from holdfast.reports.telling import tell_story


def demo_story(result: dict[str, Any], classifier: Any, *, audit: Any = None) -> Story:
    """Tell what the demo found: accuracies over all seeds, and the stages of seed 0.

    The other methods of seed 0 are fitted again, which takes a few seconds.

    Parameters
    ----------
    result, classifier : what `holdfast.experiments.demo.run_demo` returned
    audit : optional
        Of the training rows.

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
    n_pixels = data.train.X.shape[1] - len(data.classes)
    names = [f"pixel {n // 8},{n % 8}" for n in range(n_pixels)] + [f"color {name}" for name in data.classes]
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
        attributes=data.attribute_names,
        feature_names=names,
        settings=result["data"] | {"estimator of every method": result["estimator"]},
        seeds=result["seeds"],
    )
