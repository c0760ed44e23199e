"""The training loop."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.environments import Group, Weights
from holdfast.exceptions import CollapseWarning, DivergedError, ParameterError, warn
from holdfast.neural.batches import GroupBatches, RowSource
from holdfast.neural.distributed import Ranks, current_ranks
from holdfast.neural.evaluation import Examiner, HeldOut, Score, evenly, union_of
from holdfast.neural.monitors import EpochReport, Monitor, current_monitor
from holdfast.neural.networks import check_outputs
from holdfast.neural.objectives import Objective, Problem, StepReport
from holdfast.neural.randomness import RandomStream, draw_from_stream
from holdfast.neural.risks import Loss
from holdfast.neural.selection import EpochScores, Selected, choose_rule
from holdfast.neural.settings import (
    TrainingSettings,
    autocast,
    make_optimizer,
    make_scheduler,
    resolve_device,
    resolve_precision,
    without_denormals,
)
from holdfast.neural.sources import moved
from holdfast.neural.state import TrainingState
from holdfast.seeding import Seeding

log = logging.getLogger(__name__)

# Signs of a cause where a network predicts one class.
VANISHED, EXPLODED = 1e-2, 30.0  # largest weight
HIGHER = 1.5  # last epoch's risk as a multiple of the first one's
FLAT, MOVED = 0.01, 0.1  # change of the risk, and learning rate × steps, that are too small to have learned anything
MAX_LISTED = 64  # groups whose risks the history has; of more it has the worst one's


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network and its history."""

    network: nn.Module  # in evaluation mode, with the selected weights
    selected: Selected
    history: list[dict[str, Any]]  # an entry for each epoch
    mixture: Weights  # (n_groups,) the groups' weights in the training
    device: torch.device
    precision: str  # "fp32" or "bf16"


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingTask:
    """What a network is trained on, for what, and by what its epochs are judged."""

    source: RowSource
    targets: NDArray[Any]  # (n_rows,) class codes or numbers
    groups: Sequence[Group]  # environments for ERM, IRM, V-REx and RGM, halves or label groups for the others
    objective: Objective
    loss: Loss  # of each row
    score: Score  # of each row, for selection
    selection: str | None = None  # name of the rule; None: validation_accuracy where there is validation, else last
    validation: HeldOut | None = None
    others: HeldOut | None = None  # the training environments that are not trained on
    stage: str = "training"  # what monitors call it
    n_outputs: int | None = None  # that the network must have; None: whatever it has
    notify: Callable[[str, TrainingState], None] | None = None  # told of the loop's hooks, by skorch's names


def train(
    build: Callable[[], nn.Module],
    task: TrainingTask,
    settings: TrainingSettings,
    seeding: Seeding,
    monitor: Monitor | None = None,
) -> Trained:
    """Train a network on groups of rows; a risk that is NaN or infinite is a `DivergedError`.

    `build` makes the network and is called with torch's random state seeded. `monitor` sees every epoch; by default it
    is the one of ``with watch(…)``.
    """
    if not task.groups:
        raise ParameterError("There are no groups to train on. Pass at least one group of rows.")
    ranks = current_ranks()
    if ranks.n > 1 and not task.objective.adds_up:
        raise ParameterError(
            f"The objective {task.objective.name!r} needs all rows of a batch in one process, but {ranks.n} ranks "
            "train together. Start one process, or choose an objective over groups' risks, such as 'max' or 'online'."
        )
    seeding = Seeding(ranks.from_first(lambda: seeding.seed)) if ranks.n > 1 else seeding
    monitor = (current_monitor() if monitor is None else monitor) if ranks.number == 0 else Monitor()
    device = resolve_device(settings.device)
    stream = RandomStream(device)
    held_out = task.source if task.validation is None else task.validation.source
    with (
        without_denormals(all_threads=True),
        stream.active(),
        task.source.reading(),
        held_out.reading() if held_out is not task.source else contextlib.nullcontext(),
    ):
        stream.seed(seeding.integer("initialization"))
        with stream.borrowing():
            network = ranks.prepare(draw_from_stream(build()).to(device))
            if task.n_outputs is not None:
                check_outputs(network, moved(task.source.take(slice(0, 2)), device), task.n_outputs)
        if holds_images(task.source.row_shape):
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        stream.seed(seeding.integer("dropout"))
        with stream.guarding(network) as after_step:
            return _run(network, task, settings, seeding, monitor, stream, after_step)


def _run(
    network: nn.Module,
    task: TrainingTask,
    settings: TrainingSettings,
    seeding: Seeding,
    monitor: Monitor,
    stream: RandomStream,
    after_step: Callable[[], None],
) -> Trained:
    """Train a network that is built, epoch by epoch."""
    validation, others, objective = task.validation, task.others, task.objective
    rule = choose_rule(
        task.selection,
        validation=validation is not None,
        validation_groups=validation is not None and len(validation.groups) > 0,
        other_environments=others is not None and len(others.groups) > 0,
    )
    device = resolve_device(settings.device)
    precision = resolve_precision(settings.precision, device)
    context = autocast(precision, device)
    log.info("%s: computing in %s on %s (precision=%r)", task.stage, precision, device, settings.precision)
    examiner = Examiner(
        device,
        context,
        task.score,
        validation,
        others if rule.needs == "other_environments" else None,
        settings.selection_rows,
        task.n_outputs,
    )
    batches = GroupBatches(
        task.source, task.targets, task.groups, batch_size=settings.batch_size, seeding=seeding, device=device
    )
    problem = Problem(
        network,
        batches,
        task.loss,
        seeding,
        task.score,
        context,
        settings.learning_rate,
        settings.weight_decay,
        task.n_outputs,
    )
    optimizer = make_optimizer(network, settings)
    notify = task.notify if task.notify is not None and current_ranks().number == 0 else (lambda hook, state: None)
    state = TrainingState(
        network,
        None if settings.weight_averaging is None else copy.deepcopy(network),
        optimizer,
        objective.start(problem),
        batches,
        device,
        stream,
        _fingerprint(task, settings, rule.name, seeding, precision),
        make_scheduler(optimizer, settings),
    )
    ranks = current_ranks()
    saved = ranks.from_first(lambda: monitor.start(task.stage))
    if saved is not None:
        state.restore(saved)
    notify("on_train_begin", state)
    begin, n_before = time.monotonic(), state.epoch
    while not state.finished:
        notify("on_epoch_begin", state)
        network.train()
        if ranks.n > 1:  # each rank drops other units; by the epoch, so that a checkpoint need not know about ranks
            stream.seed(seeding.integer("dropout", state.epoch, ranks.number))
        reports = []
        for _ in range(settings.steps_per_epoch):
            reports.append(_step(state, settings, ranks))
            after_step()
            notify("on_batch_end", state)
        state.epoch += 1
        scores = _evaluate(state, reports, objective, examiner)
        improved = rule.improves(scores, state.best)
        if improved:
            state.best = rule.select(scores, state.evaluated)
        state.n_stale = 0 if improved else state.n_stale + 1
        state.history.append(scores.as_dict())
        state.finished = state.epoch >= settings.max_epochs or state.n_stale == settings.patience
        if state.scheduler is not None and settings.scheduler_interval == "epoch":
            _step_scheduler(state.scheduler, scores)
        notify("on_epoch_end", state)
        state.finished = ranks.from_first(lambda: state.finished)
        monitor.epoch(EpochReport(task.stage, state.epoch, settings.max_epochs, scores, improved, state))
        left = (time.monotonic() - begin) / (state.epoch - n_before) * (settings.max_epochs - state.epoch)
        said = "%s: epoch %d of at most %d, at most %.0f s left, risk %.4f, worst group %s"
        facts = (task.stage, state.epoch, settings.max_epochs, left, scores.risk, scores.worst_group)
        log.debug(said, *facts, extra={"epoch": state.epoch})  # the command line shows these more often than others
    return _finish(state, examiner, task, settings, precision)


def holds_images(row_shape: Any) -> bool:
    """Return whether rows are images, (channels, height, width)."""
    return isinstance(row_shape, tuple) and len(row_shape) == 3


def _step_scheduler(scheduler: Any, scores: EpochScores) -> None:
    """Let the learning rate follow its schedule; one that waits for a plateau sees what should become small."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        scheduler.step(scores.risk if scores.validation_score is None else -scores.validation_score)
    else:
        scheduler.step()


def _step(state: TrainingState, settings: TrainingSettings, ranks: Ranks) -> StepReport:
    """Take one step: objective's gradient, divergence guard, optimizer, average."""
    if settings.scheduler == "cosine":
        share = state.step / (settings.max_epochs * settings.steps_per_epoch)
        for group in state.optimizer.param_groups:
            group["lr"] = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
    state.optimizer.zero_grad()
    report = state.run.backward(state.step)
    _refuse_divergence(report, state, settings)
    ranks.add_up([parameter for group in state.optimizer.param_groups for parameter in group["params"]])
    if settings.gradient_clipping is not None:
        nn.utils.clip_grad_norm_(state.network.parameters(), settings.gradient_clipping)
    state.optimizer.step()
    if state.scheduler is not None and settings.scheduler_interval == "step":
        state.scheduler.step()
    state.step += 1
    if state.average is not None and settings.weight_averaging is not None:
        _average(state.average, state.network, settings.weight_averaging, state.step)
    return report


def _refuse_divergence(report: StepReport, state: TrainingState, settings: TrainingSettings) -> None:
    """Raise an error where a risk is not finite, with the step, the group and advice."""
    for group, risk in zip(report.groups, report.risks, strict=True):
        if not math.isfinite(risk):
            raise DivergedError(
                f"The risk of group {state.batches.groups[group].name!r} became {risk} at step {state.step} "
                f"(epoch {state.epoch + 1}). Lower learning_rate (now {settings.learning_rate:g}), or scale the "
                "features to mean 0 and variance 1."
            )
    if not math.isfinite(report.loss):
        raise DivergedError(
            f"The objective became {report.loss} at step {state.step} (epoch {state.epoch + 1}) although every risk "
            f"is finite. Lower the penalty weight or learning_rate (now {settings.learning_rate:g})."
        )


@torch.no_grad()
def _average(average: nn.Module, network: nn.Module, decay: float, step: int) -> None:
    """Move the average towards the network; during the first steps faster, so that it forgets the initialization."""
    decay = min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - decay)
    for kept, current in zip(average.buffers(), network.buffers(), strict=True):
        kept.copy_(current)


def _evaluate(
    state: TrainingState, reports: Sequence[StepReport], objective: Objective, examiner: Examiner
) -> EpochScores:
    """Sum up an epoch's steps and evaluate the network."""
    worst = [report.worst for report in reports]
    most_often = max(set(worst), key=lambda group: (worst.count(group), -group))
    risks = [
        risk
        for report in reports
        for group, risk in zip(report.groups, report.risks, strict=True)
        if group == most_often and report.worst == most_often
    ]
    of_worst = objective.training_score == "worst"
    validated, others = examiner.validate(state.evaluated), examiner.score_others(state.evaluated)
    seen = others if validated is None else validated
    return EpochScores(
        epoch=state.epoch,
        step=state.step,
        risk=float(np.mean([report.loss for report in reports])),
        training_score=float(
            np.mean([report.worst_score if of_worst else np.mean(report.scores) for report in reports])
        ),
        worst_group=state.batches.groups[most_often].name,
        worst_group_risk=float(np.mean(risks)) if risks else float("nan"),
        group_risks=_group_risks(state.batches.groups, reports),
        validation_score=None if validated is None else validated.score,
        validation_group_scores=None if validated is None or not validated.group_scores else validated.group_scores,
        other_environments_score=None if others is None else others.score,
        predicts_one_class=None if seen is None else seen.predicts_one_class,
    )


def _group_risks(groups: Sequence[Group], reports: Sequence[StepReport]) -> dict[str, float] | None:
    """Return the mean risk of each group over the steps that drew it; None where there are too many to keep."""
    if len(groups) > MAX_LISTED:
        return None
    risks: dict[int, list[float]] = {}
    for report in reports:
        for group, risk in zip(report.groups, report.risks, strict=True):
            risks.setdefault(group, []).append(risk)
    return {groups[group].name: float(np.mean(found)) for group, found in sorted(risks.items())}


def _fingerprint(
    task: TrainingTask, settings: TrainingSettings, selection: str, seeding: Seeding, precision: str
) -> dict[str, Any]:
    """Return what must agree for a saved state to be of this run (checkpoints compare versions and threads)."""
    return {
        "settings": {field.name: _named(getattr(settings, field.name)) for field in dataclasses.fields(settings)},
        "objective": repr(task.objective),
        "selection": selection,
        "group sizes": [len(group) for group in task.groups],
        "seed": seeding.seed,
        "precision": precision,
    }


def _named(value: Any) -> Any:
    """Return the name of a function or class, options as texts, and all else as it is."""
    if isinstance(value, Mapping):
        return {name: str(_named(item)) for name, item in value.items()}
    return getattr(value, "__qualname__", type(value).__qualname__) if callable(value) else value


def _finish(
    state: TrainingState, examiner: Examiner, task: TrainingTask, settings: TrainingSettings, precision: str
) -> Trained:
    """Put the selected weights into the network, and warn if it has collapsed."""
    best, run = state.best, state.run
    if best is None:
        raise DivergedError(
            f"No epoch of {task.stage} could be selected: the selection rule's score was never a number."
        )
    state.network.load_state_dict(best.weights)
    state.network.eval()
    one_class = best.scores.predicts_one_class
    if one_class is None:
        rows = evenly(union_of(state.batches.groups), 1000)
        one_class = examiner.sees_one_class(state.network, task.source, task.targets, rows)
    if one_class:
        advice = _cause_of_collapse(state, settings, run.objective.name)
        message = f"{task.stage}: the trained network predicts one class for all evaluated rows. {advice}"
        warn(message, CollapseWarning)
    return Trained(state.network, best, state.history, run.mixture(), state.device, precision)


def _cause_of_collapse(state: TrainingState, settings: TrainingSettings, objective: str) -> str:
    """Return why a network predicts one class, as far as its weights and risks tell, and what to do."""
    weights = [parameter.detach() for parameter in state.network.parameters() if parameter.ndim > 1]
    largest = max((float(weight.abs().max()) for weight in weights), default=1.0)
    risks = [entry["risk"] for entry in state.history]
    rate, decay = settings.learning_rate, settings.weight_decay
    if decay > 0 and largest < VANISHED:
        return f"The cause is weight_decay={decay:g}: all weights went to zero. Use a smaller one."
    if largest > EXPLODED or risks[-1] > HIGHER * risks[0]:
        return f"The cause is learning_rate={rate:g}: the weights or the risk grew. Use a smaller one."
    if len(risks) > 1 and abs(risks[0] - risks[-1]) < FLAT * risks[0] and rate * state.step < MOVED:
        return (
            f"The risk did not change in {state.step} steps with learning_rate={rate:g}. Use a larger one, or more "
            "epochs."
        )
    if objective == "max":
        less = f", less weight_decay (now {decay:g})" if decay > 0 else ""
        return (
            "The groups contradict one another, and the hard maximum stays between them: try objective='online'"
            f"{less} or a smaller learning_rate (now {rate:g})."
        )
    less = f", with less weight_decay (now {decay:g})" if decay > 0 else ""
    return f"Train for longer{less}, or with another learning_rate (now {rate:g})."
