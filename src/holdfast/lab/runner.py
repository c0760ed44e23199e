"""Execute one run: data set, method, hyper-parameters and seed in, a record out."""

from __future__ import annotations

import contextlib
import inspect
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.auditing.importance import word_importance
from holdfast.datasets import DATASETS, Dataset, Split
from holdfast.environments import Partition, Rows, split_environments
from holdfast.estimators.base import MethodClassifier
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import ConfigError, suggest
from holdfast.judging.judgements import judge_environments
from holdfast.judging.judges import JudgeSettings
from holdfast.lab.experiments import HALVES, RunConfig
from holdfast.lab.inputs import Prepared, prepare
from holdfast.metrics import accuracy_by_group, correlation, label_attribute_groups, score_groups
from holdfast.partition import partition_by_correctness
from holdfast.rows.training import TrainingRows
from holdfast.saving.checkpoints import runtime_facts
from holdfast.seeding import Seeding

if TYPE_CHECKING:
    from holdfast.lab.validation import Setting, SettingsMonitor


NETWORK_SETTINGS = {  # of a run, and what `NeuralClassifier` calls them
    **{name: name for name in ("max_epochs", "steps_per_epoch", "batch_size", "learning_rate", "weight_decay")},
    **{"loss": "loss", "patience": "patience", "schedule": "scheduler", "dropout": "network__dropout"},
    **{name: f"training__{name}" for name in ("weight_averaging", "precision")},
}


def make_estimator(config: RunConfig, prepared: Prepared) -> Any:
    """Return the estimator inside the method."""
    if not config.is_network:
        return ESTIMATORS[config.estimator].make(**config.estimator_options)
    from holdfast.neural.estimator import NeuralClassifier  # with torch, which only networks need

    # With a recipe, what the run does not set is the recipe's.
    given = config.as_dict() if "recipe" in config.method_options else NETWORK_SETTINGS
    settings = {called: getattr(config, name) for name, called in NETWORK_SETTINGS.items() if name in given}
    if settings.get("scheduler") == "constant":
        del settings["scheduler"]
    options = {**prepared.network_options, **config.estimator_options}
    # Selection "last": it never stops by itself. The monitor of the run selects, once for each validation setting.
    return NeuralClassifier(
        config.estimator,
        training__selection="last",
        training__selection_rows=5_000,  # 100 batches of 50, as in the authors' experiments
        data__vocabulary=prepared.vocabulary,
        **settings,
        **{f"network__{name}": value for name, value in options.items()},
    )


# The paper's settings, where a method's own defaults differ.
PAPER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "erm": {"weighting": "environments"},  # the mean of the environments' risks
    "pi": {"halves": "hard", "objective": "max"},
}


def make_classifier(config: RunConfig, prepared: Prepared) -> MethodClassifier:
    """Return the method's classifier, as the paper's experiments use it, with the run's options on top."""
    method = METHODS[config.method]
    known = inspect.signature(method).parameters
    settings: dict[str, Any] = {"random_state": config.seed, **PAPER_SETTINGS.get(config.method, {})}
    settings |= {
        name: getattr(config, name) for name in ("penalty_weight", "warm_up") if getattr(config, name) is not None
    }
    if config.is_network:
        settings["n_folds"] = 0  # a judge's accuracy at home is not needed, and would double stage 1
    given = {name: value for name, value in settings.items() if name in known}
    return method(make_estimator(config, prepared), **{**given, **config.method_options})


MOST_GROUPS = 40  # label × attribute cells beyond this are too small to speak of a worst one


def score_split(split: Split, predictions: NDArray[Any], attributes: Sequence[str]) -> dict[str, Any]:
    """Return the accuracy of all rows and of each environment, and the worst and average one for each attribute."""
    right = np.asarray(predictions) == split.y
    scores: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "n_rows": len(right),
        "environments": {
            e.name: float(right[e.rows].mean()) for e in split_environments(split.environments, len(split))
        },
    }
    by_attribute = {}
    for name in attributes:
        groups = label_attribute_groups(split.y, split.attributes[name], name)
        if len(groups) > MOST_GROUPS:
            continue
        found = score_groups(split.y, predictions, groups)
        by_attribute[name] = {
            "worst": found.worst.value,
            "worst_low": found.worst.low,
            "worst_high": found.worst.high,
            "worst_group": found.worst.name,
            "worst_rows": found.worst.n_rows,
            "average": found.average.value,
        }
    if by_attribute:
        scores["attributes"] = by_attribute
        scores["worst"] = float(np.mean([entry["worst"] for entry in by_attribute.values()]))
        scores["average"] = float(np.mean([entry["average"] for entry in by_attribute.values()]))
    return scores


def half_correlations(dataset: Dataset, partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    """Return each half's size and its correlations of label and attributes."""
    return [
        {"judge": p.judge, "judged": p.judged, "half": half, **_correlations(dataset, rows)}
        for p in partitions
        for half, rows in (("correct", p.correct), ("mistaken", p.mistaken))
    ]


def _correlations(dataset: Dataset, rows: Rows) -> dict[str, Any]:
    """Return Pearson's correlation of the integer codes of label and attribute; NaN where one of them is constant."""
    y = dataset.train.y[rows]
    attributes = {name: dataset.train.attributes[name] for name in dataset.attribute_names}
    found = {name: correlation(x[rows], y) for name, x in attributes.items() if x.dtype.kind in "iufb"}
    return {"n_rows": len(rows), "correlations": found}


FORMAT = 1


def run(
    config: RunConfig, *, folder: Path | None = None, cache: Path, checkpoints: Path | None = None
) -> dict[str, Any]:
    """Make one run with data sets from `folder`; return its record.

    Synthetic files and computed features are kept in `cache`, the state of the trainings in `checkpoints`: run again,
    it continues from there, with the same result.
    """
    started, clock, work = datetime.now(UTC), time.perf_counter(), time.process_time()
    with _collecting_warnings() as messages:
        prepared = prepare(config, folder, cache)
        watching: contextlib.AbstractContextManager[SettingsMonitor | None] = contextlib.nullcontext()
        if config.is_network:
            from holdfast.lab.validation import selecting

            watching = selecting(config, prepared, _validations(config, prepared), checkpoints)
        with watching as monitor:
            halves = config.method == HALVES
            results = _run_halves(config, prepared) if halves else _run_method(config, prepared, monitor)
        results["stages"] = monitor.stages if monitor else {}
        before, work_before = monitor.spent_before if monitor else (0.0, 0.0)
    train = prepared.dataset.train
    return {
        "format": FORMAT,
        "identity": config.identity,
        "config": config.as_dict(),
        "seed": config.seed,
        "selection": config.selection,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(before + time.perf_counter() - clock, 2),  # of all parts, if it was interrupted
        "cpu_seconds": round(work_before + time.process_time() - work, 2),
        "runtime": runtime_facts(results.pop("precision", None)),
        "data": {
            "edition": DATASETS[config.dataset].edition,
            "n_train": len(train),
            "notes": list(prepared.dataset.notes),
            "environments": [
                {"environment": e.name, **_correlations(prepared.dataset, e.rows)}
                for e in split_environments(train.environments, len(train))
            ],
            **prepared.facts,
        },
        **results,
        "warnings": messages,
    }


def _run_halves(config: RunConfig, prepared: Prepared) -> dict[str, Any]:
    """Run stages 1 and 2: the same judges and the same halves that PI has with this seed."""
    data = prepared.dataset
    environments = split_environments(data.train.environments, len(data.train))
    judgements = judge_environments(
        make_estimator(config, prepared),
        TrainingRows(data.train.X, data.train.y, environments),
        JudgeSettings(selection="other_environments"),
        Seeding(config.seed),
        classes=np.array(data.classes),
    )
    partitions = partition_by_correctness(judgements.predictions, data.train.y, environments)
    return {
        "halves": half_correlations(data, partitions),
        "precision": getattr(judgements.judges[0].estimator, "precision_", "float64"),
    }


def _run_method(config: RunConfig, prepared: Prepared, monitor: SettingsMonitor | None) -> dict[str, Any]:
    """Fit a method, and score what each validation setting selects."""
    data = prepared.dataset
    classifier = make_classifier(config, prepared)
    extra = {}
    if config.method == "oracle":
        if data.unstable_attribute is None:
            raise ConfigError(f"Data set {config.dataset!r} has no planted attribute that an oracle could know.")
        extra["attribute"] = data.train.attributes[data.unstable_attribute]
    if config.known_attribute is not None:
        extra["group_labels"] = _known_groups(config, data)
    classifier.fit(data.train.X, data.train.y, environments=data.train.environments, **extra)
    settings = {}
    for name, split in _validations(config, prepared).items():
        setting = monitor.settings[name] if monitor else None
        settings[name] = _score_setting(config, prepared, classifier, split, setting)
    results: dict[str, Any] = {
        "settings": settings,
        "precision": getattr(classifier.estimator_, "precision_", "float64"),
    }
    forecast = getattr(getattr(classifier, "verdict_", None), "forecast", None)
    if forecast is not None:
        results["forecast"] = [forecast.low, forecast.high]
    partitions = getattr(classifier, "partitions_", ())
    if partitions:
        results["halves"] = half_correlations(data, partitions)
    return results


def _known_groups(config: RunConfig, data: Dataset) -> NDArray[Any]:
    """Return the groups that a known attribute makes: its values × labels."""
    name = str(config.known_attribute)
    if name not in data.train.attributes:
        known = suggest(name, list(data.train.attributes))
        raise ConfigError(f"Data set {config.dataset!r} has no attribute {name!r} that could be known. {known}")
    if "group_labels" not in inspect.signature(METHODS[config.method].fit).parameters:
        raise ConfigError(f"Method {config.method!r} has no groups that known_attribute could refine. Leave it out.")
    pairs = zip(data.train.attributes[name], data.train.y, strict=True)
    return np.array([f"{value} {label}" for value, label in pairs])


def _score_setting(
    config: RunConfig, prepared: Prepared, classifier: MethodClassifier, split: Split, setting: Setting | None
) -> dict[str, Any]:
    """Return the scores of the epoch that one setting selected, or of the one fit if there are no epochs."""
    data = prepared.dataset
    found: dict[str, Any] = {"selection": "one fit", "epoch": None, "epochs": None, "history": []}
    if setting is not None and setting.best is not None:
        classifier.estimator_.network_.load_state_dict(setting.best.weights)
        scores = setting.best.scores
        found = {
            "selection": setting.best.rule,
            "epoch": setting.best.epoch,
            "epochs": setting.n_epochs,  # until this setting's own stop, where its history ends
            "seconds": round(setting.seconds, 2),
            "training_score": scores.training_score,
            "history": [_compact(entry) for entry in setting.history],
        }
        if setting.best.rule != "last":  # whose value is the number of the epoch, which says nothing of its worth
            found["value"] = setting.best.value
    predictions = classifier.predict(split.X)
    found["validation"] = score_split(split, predictions, ())
    if "value" not in found:
        found["value"] = found["validation"]["accuracy"]
        if config.selection == "worst_group_validation":
            groups = label_attribute_groups(split.y, split.environments, "environment")
            found["value"] = float(min(accuracy_by_group(split.y, predictions, groups)))
    found["test"] = score_split(data.test, classifier.predict(data.test.X), data.attribute_names)
    if config.method == "irm":
        found["penalty"] = _irm_penalty(classifier, data.train)
    if config.explain is not None:
        rows = range(config.explain, min(config.explain + config.explain_rows, len(data.test)))
        explained = [_words(classifier, data.test, row) for row in rows or [config.explain]]
        found |= {"words": explained[0]} if config.explain_rows == 1 else {"reviews": explained}
    return found


def _validations(config: RunConfig, prepared: Prepared) -> dict[str, Split]:
    """Return the validation settings that the run asks for and the data set has."""
    found = {name: split for name, split in prepared.dataset.validation.items() if name in config.validations}
    if not found:
        raise ConfigError(
            f"Data set {config.dataset!r} has the validation settings {sorted(prepared.dataset.validation)}, none of "
            f"{list(config.validations)}. Change validations."
        )
    return found


def _compact(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an epoch's scores with five digits; group scores stay out."""
    kept = {key: value for key, value in entry.items() if key not in ("validation_group_scores", "predicts_one_class")}
    return {key: round(value, 5) if isinstance(value, float) else value for key, value in kept.items()}


def _irm_penalty(classifier: MethodClassifier, train: Split) -> dict[str, float]:
    """Return IRM's penalty and the risk on all training rows, the mean over environments."""
    import torch

    from holdfast.neural.risks import irm_penalty

    network, loss = classifier.estimator_, classifier.estimator_.row_loss()
    outputs, targets = network.outputs(train.X), torch.from_numpy(train.y.astype(np.int64))
    rows = [torch.from_numpy(e.rows) for e in split_environments(train.environments, len(train))]
    penalties = [irm_penalty(outputs[part].requires_grad_(), targets[part], loss=loss) for part in rows]
    risks = [loss(outputs[part], targets[part]).mean() for part in rows]
    return {"penalty": float(torch.stack(penalties).detach().mean()), "risk": float(torch.stack(risks).mean())}


def _words(classifier: MethodClassifier, test: Split, row: int) -> dict[str, Any]:
    """Return how much each word of one test text carries the prediction."""
    if not isinstance(test.X, list) or row >= len(test.X):
        raise ConfigError(f"explain = {row} asks for a test text that is not there.")
    found = word_importance({"classifier": classifier}, test.X[row])
    return {
        "row": row,
        "label": int(test.y[row]),
        "prediction": found.predictions[0],
        "words": list(found.words),
        "drops": found.drops[:, 0].tolist(),
    }


@contextlib.contextmanager
def _collecting_warnings() -> Iterator[list[str]]:
    """Keep warnings for the record instead of showing them."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
