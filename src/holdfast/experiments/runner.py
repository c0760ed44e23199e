"""One run: data set × method × hyper-parameters × seed in, one record out."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.audit.importance import word_importance
from holdfast.checkpoints.monitor import CheckpointMonitor
from holdfast.checkpoints.resuming import runtime_facts
from holdfast.datasets import Split
from holdfast.environments import split_environments
from holdfast.exceptions import ConfigError
from holdfast.experiments.building import is_network, make_classifier, make_estimator
from holdfast.experiments.config import HALVES, RunConfig
from holdfast.experiments.preparing import Prepared, prepare
from holdfast.experiments.scoring import environment_correlations, half_correlations, score_split
from holdfast.experiments.watching import CHECKPOINT_EVERY, Setting, SettingsMonitor
from holdfast.metrics import accuracy_by_group, label_attribute_groups
from holdfast.seeding import Seeding
from holdfast.stages.partition import partition_by_correctness
from holdfast.stages.predict import cross_predict, fit_environment_classifiers
from holdfast.training import watch

FORMAT = 1


def run(
    config: RunConfig, *, folder: Path | None = None, cache: Path, checkpoints: Path | None = None
) -> dict[str, Any]:
    """Make one run.

    Parameters
    ----------
    config : RunConfig
    folder : Path, optional
        Where the files of data sets are.
    cache : Path
        Where made files and computed features are kept.
    checkpoints : Path, optional
        Where trainings keep their state, for this run alone: run again, it goes on from there, to the same last bit.

    Returns
    -------
    dict
        The record: settings, versions, threads, precision, history, all scores, correlations, times, warnings.
    """
    started, clock, work = datetime.now(UTC), time.perf_counter(), time.process_time()
    with _collecting_warnings() as messages:
        prepared = prepare(config, folder, cache)
        monitor = _monitor(config, prepared, checkpoints)
        with _watching(monitor, checkpoints):
            halves = config.method == HALVES
            results = _run_halves(config, prepared) if halves else _run_method(config, prepared, monitor)
        results["stages"] = monitor.stages if monitor else {}
    return {
        "format": FORMAT,
        "identity": config.identity,
        "config": config.as_dict(),
        "seed": config.seed,
        "selection": config.selection,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 2),
        "cpu_seconds": round(time.process_time() - work, 2),
        "runtime": runtime_facts(results.pop("precision", None)),
        "data": {
            "n_train": len(prepared.dataset.train),
            "notes": list(prepared.dataset.notes),
            "environments": environment_correlations(prepared.dataset),
            **prepared.facts,
        },
        **results,
        "warnings": messages,
    }


def _run_halves(config: RunConfig, prepared: Prepared) -> dict[str, Any]:
    """Run stages 1 and 2 alone: the same judges and the same halves that PI has with this seed."""
    data = prepared.dataset
    environments = split_environments(data.train.environments, len(data.train))
    judges = fit_environment_classifiers(
        make_estimator(config, prepared),
        data.train.X,
        data.train.y,
        environments,
        classes=np.array(data.classes),
        seeding=Seeding(config.seed),
        selection="other_environments",
    )
    predictions = cross_predict(judges, data.train.X, data.train.y)
    partitions = partition_by_correctness(predictions, data.train.y, environments)
    return {
        "halves": half_correlations(data, partitions),
        "precision": getattr(judges[0].estimator, "precision_", "float64"),
    }


def _run_method(config: RunConfig, prepared: Prepared, monitor: SettingsMonitor | None) -> dict[str, Any]:
    """Fit a method, and score what each validation setting selects."""
    data = prepared.dataset
    classifier: Any = make_classifier(config, prepared)
    extra = {}
    if config.method == "oracle":
        if data.unstable_attribute is None:
            raise ConfigError(f"Data set {config.dataset!r} has no planted attribute that an oracle could know.")
        extra["attribute"] = data.train.attributes[data.unstable_attribute]
    classifier.fit(data.train.X, data.train.y, environments=data.train.environments, **extra)
    settings = {}
    for name, split in _validations(config, prepared).items():
        setting = monitor.settings[name] if monitor else None
        settings[name] = _score_setting(config, prepared, classifier, split, setting)
    results: dict[str, Any] = {
        "settings": settings,
        "precision": getattr(classifier.estimator_, "precision_", "float64"),
    }
    partitions = getattr(classifier, "partitions_", ())
    if partitions:
        results["halves"] = half_correlations(data, partitions)
    return results


def _score_setting(
    config: RunConfig, prepared: Prepared, classifier: Any, split: Split, setting: Setting | None
) -> dict[str, Any]:
    """Return the scores of the epoch that one setting selected; of the one fit where there are no epochs."""
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
        found["words"] = _words(classifier, data.test, config.explain)
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


def _monitor(config: RunConfig, prepared: Prepared, checkpoints: Path | None) -> SettingsMonitor | None:
    """Return what selects the epochs of a network."""
    if not is_network(config):
        return None
    return SettingsMonitor(
        _validations(config, prepared),
        rule=config.selection,
        patience=config.patience if config.selection != "last" else config.max_epochs,
        classes=np.unique(prepared.dataset.train.y),
        vocabulary=prepared.vocabulary,
        precision=config.precision,
        folder=None if checkpoints is None else checkpoints / "selection",
        every=CHECKPOINT_EVERY,
    )


@contextlib.contextmanager
def _watching(monitor: SettingsMonitor | None, checkpoints: Path | None) -> Iterator[None]:
    """Let the monitor see every training, and keep checkpoints beside it."""
    if monitor is None:
        yield
    elif checkpoints is None:
        with watch(monitor):
            yield
    else:
        with watch(CheckpointMonitor(checkpoints, every=CHECKPOINT_EVERY, inside=monitor)):
            yield


def _compact(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an epoch's scores with five digits; group scores stay out."""
    kept = {key: value for key, value in entry.items() if key not in ("validation_group_scores", "predicts_one_class")}
    return {key: round(value, 5) if isinstance(value, float) else value for key, value in kept.items()}


def _irm_penalty(classifier: Any, train: Split) -> dict[str, float]:
    """Return IRM's penalty and the risk on all training rows, the mean over environments."""
    import torch

    from holdfast.risks import irm_penalty, make_loss

    network, loss = classifier.estimator_, make_loss(classifier.estimator_.loss)
    outputs, targets = network.outputs(train.X), torch.from_numpy(train.y.astype(np.int64))
    rows = [torch.from_numpy(e.rows) for e in split_environments(train.environments, len(train))]
    penalties = [irm_penalty(outputs[part].requires_grad_(), targets[part], loss=loss) for part in rows]
    risks = [loss(outputs[part], targets[part]).mean() for part in rows]
    return {"penalty": float(torch.stack(penalties).detach().mean()), "risk": float(torch.stack(risks).mean())}


def _words(classifier: Any, test: Split, row: int) -> dict[str, Any]:
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
