"""Settings of a training, and the choice of device and precision."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch

from holdfast.exceptions import ParameterError

Precision = Literal["auto", "fp32", "bf16"]
OptimizerFactory: TypeAlias = Callable[..., torch.optim.Optimizer]
SchedulerFactory: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Everything that decides how long and how a network is trained."""

    max_epochs: int = 100
    steps_per_epoch: int = 100  # batches between two evaluations
    batch_size: int = 50  # rows of each group
    learning_rate: float = 1e-3
    weight_decay: float = 0.0  # Adam's coupled L2, not AdamW
    patience: int | None = 20  # evaluations without improvement; None: never stop early
    selection_rows: int | None = 1_000  # of each other environment, scored after every epoch; None: all
    weight_averaging: float | None = None  # decay of the exponential average whose weights are kept
    precision: Precision = "auto"
    device: str = "auto"
    optimizer: OptimizerFactory | None = None  # an Optimizer class, or a function of parameters or network; None: Adam
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    scheduler: SchedulerFactory | Literal["cosine"] | None = None  # a function of the optimizer; None: a constant rate
    scheduler_options: Mapping[str, Any] = field(default_factory=dict)
    scheduler_interval: Literal["epoch", "step"] = "epoch"  # after which the scheduler takes its step
    gradient_clipping: float | None = None  # largest norm of the gradient

    def __post_init__(self) -> None:
        for name, (expected, fits) in _CHECKS.items():
            if not fits(getattr(self, name)):
                shown = f"training__{name}" if name in PREFIXED else name
                raise ParameterError(
                    f"The {shown!r} parameter must be {expected}. Got {getattr(self, name)!r} instead."
                )


# What users write with the prefix ``training__``.
PREFIXED = ("precision", "selection_rows", "weight_averaging", "gradient_clipping", "scheduler_interval")


def is_count(value: Any) -> bool:
    """Return whether the value is a positive integer (numpy's included, booleans not)."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and value >= 1


def is_number(value: Any) -> bool:
    """Return whether the value is a real number (numpy's included, booleans not)."""
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


# Name -> what the value must be, and whether it is.
_CHECKS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("max_epochs", "steps_per_epoch", "batch_size"), ("a positive integer", is_count)),
    "patience": ("a positive integer or None", lambda value: value is None or is_count(value)),
    "selection_rows": ("a positive integer or None", lambda value: value is None or is_count(value)),
    "learning_rate": ("a positive number", lambda value: is_number(value) and value > 0),
    "weight_decay": ("a number of at least 0", lambda value: is_number(value) and value >= 0),
    "gradient_clipping": ("a positive number or None", lambda value: value is None or is_number(value) and value > 0),
    "optimizer": ("a callable such as torch.optim.SGD, or None", lambda value: value is None or callable(value)),
    "scheduler": (
        "'cosine', a callable such as torch.optim.lr_scheduler.StepLR, or None",
        lambda value: value in (None, "cosine") or callable(value),
    ),
    "scheduler_interval": ("'epoch' or 'step'", lambda value: value in ("epoch", "step")),
    "weight_averaging": (
        "a decay between 0 and 1, or None",
        lambda value: value is None or is_number(value) and 0 < value < 1,
    ),
    "precision": (f"one of {list(get_args(Precision))}", lambda value: value in get_args(Precision)),
}


def make_optimizer(network: torch.nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimizer of the parameters that learn: Adam, whose weight decay is coupled L2, or the user's."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if not parameters:
        raise ParameterError("The network has no parameters that learn. Unfreeze at least its last layer.")
    rates: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    factory, options = settings.optimizer, settings.optimizer_options
    if factory is None:
        return torch.optim.Adam(parameters, **{**rates, "fused": True, **options})
    if isinstance(factory, type):  # a class takes our learning rate; all else knows its own
        made: Any = _make("optimizer", factory, parameters, {**rates, **options})
    else:
        of_network = "network" in inspect.signature(factory).parameters
        made = factory(network if of_network else parameters, **options)
    if not isinstance(made, torch.optim.Optimizer):
        raise ParameterError(f"The 'optimizer' must return a torch.optim.Optimizer. It returned {made!r:.60}.")
    return made


def make_scheduler(optimizer: torch.optim.Optimizer, settings: TrainingSettings) -> Any:
    """Return the user's scheduler of the learning rate; None where the rate is constant or the loop's own cosine."""
    if settings.scheduler is None or settings.scheduler == "cosine":
        return None
    if isinstance(settings.scheduler, type):
        return _make("scheduler", settings.scheduler, optimizer, settings.scheduler_options)
    return settings.scheduler(optimizer, **settings.scheduler_options)


def _make(part: str, cls: Callable[..., Any], first: Any, options: Mapping[str, Any]) -> Any:
    """Return an instance of a class of the user's choice; say how its options are given where it refuses them."""
    try:
        return cls(first, **options)
    except (TypeError, ValueError) as problem:
        raise ParameterError(
            f"The {part} cannot be made: {problem}. Its options are the parameters {part}__…, for example "
            f"{'scheduler__step_size=10' if part == 'scheduler' else 'optimizer__momentum=0.9'}."
        ) from problem


def resolve_device(device: str) -> torch.device:
    """Return the device: "auto" is CUDA where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as problem:
        raise ParameterError(
            "The 'device' parameter must be 'auto' or a torch device such as 'cpu' or 'cuda:0'. "
            f"Got {device!r} instead."
        ) from problem
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(f"device={device!r} was requested, but torch finds no CUDA device. Use device='auto'.")
    return resolved


def has_bf16_hardware(device: torch.device) -> bool:
    """Return whether the device multiplies bfloat16 in hardware; emulation is far slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    # No public name for these in torch 2.x; an absent one reads as "no".
    checks = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)


def resolve_precision(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """Return what to compute in: "auto" is bfloat16 where the hardware has it, else float32."""
    if precision == "auto":
        return "bf16" if has_bf16_hardware(device) else "fp32"
    return precision


def autocast(precision: Literal["fp32", "bf16"], device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes the context in which networks run."""
    if precision == "fp32":
        return contextlib.nullcontext
    # Weights are cast once for each outermost context, so that a step over several groups casts them once.
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


_forked = False  # in a forked process the threads of its parent are gone, and waiting for them would never end
_IN_THREAD = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@contextlib.contextmanager
def without_denormals(*, all_threads: bool = False) -> Iterator[None]:
    """Take numbers below 1e-38 for zero inside the block: in the calling thread, or in all of torch's threads.

    Other threads are reached through their library (OpenMP), where it is found.
    """
    was_on = torch.tensor(1e-39).item() == 0.0
    _flush(True, all_threads)
    try:
        yield
    finally:
        _flush(was_on, all_threads)


def _flush(on: bool, all_threads: bool) -> None:
    """Set the mode: it belongs to a thread, and torch sets the calling one's."""
    torch.set_flush_denormal(on)
    n_threads = torch.get_num_threads()
    run = _parallel() if all_threads and n_threads > 1 and not _forked else None
    if run is not None:

        def in_thread(_: Any) -> None:
            torch.set_flush_denormal(on)

        run(_IN_THREAD(in_thread), None, n_threads, 0)


@cache
def _parallel() -> Callable[..., None] | None:
    """Return OpenMP's call that runs a function in every thread of torch's pool; None where it is not there."""
    libraries = Path(torch.__file__).parent / "lib"
    for path in sorted(libraries.glob("libgomp*")):
        with contextlib.suppress(OSError, AttributeError):
            run = ctypes.CDLL(str(path)).GOMP_parallel
            run.argtypes, run.restype = [_IN_THREAD, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return run
    return None


def _note_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
