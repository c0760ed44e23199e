"""Parameters of networks with prefixes, such as `network__dropout`: their names, types and checks.

`NeuralClassifier` has few parameters of its own. The others begin with the part that they are for and two
underscores, as in skorch: ``network__dropout=0.5`` is the `dropout` of the network, ``optimizer__momentum=0.9`` the
`momentum` of the optimizer. A search over parameters reaches them like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from holdfast.exceptions import ParameterError, suggest
from holdfast.neural.settings import PREFIXED, Precision, TrainingSettings, is_count

if TYPE_CHECKING:
    from holdfast.neural.sources import Vocabulary

Part = Literal["network", "optimizer", "scheduler", "training", "data"]
PARTS: tuple[Part, ...] = ("network", "optimizer", "scheduler", "training", "data")


class Options(TypedDict, total=False):
    """What type checkers know of the parameters with a prefix: the options of our networks, and torch's usual ones.

    A network, optimizer or scheduler may have others. They are checked when `fit` begins, by its signature.
    """

    network__dropout: float | None
    network__hidden: int | Sequence[int]
    network__channel_dropout: float
    network__shift: int
    network__n_filters: int
    network__widths: Sequence[int]
    network__dimension: int
    network__vectors: Any
    network__weights: Path | str | None

    optimizer__betas: tuple[float, float]
    optimizer__eps: float
    optimizer__amsgrad: bool
    optimizer__momentum: float
    optimizer__nesterov: bool

    scheduler__gamma: float
    scheduler__step_size: int
    scheduler__milestones: Iterable[int]
    scheduler__T_max: int
    scheduler__eta_min: float
    scheduler__factor: float
    scheduler__patience: int
    scheduler__max_lr: float
    scheduler__total_steps: int

    training__precision: Precision
    training__selection: str | None
    training__selection_rows: int | None
    training__weight_averaging: float | None
    training__gradient_clipping: float | None
    training__scheduler_interval: Literal["epoch", "step"]

    data__row_transform: Callable[[Any], Any] | None
    data__collate_fn: Callable[[list[Any]], Any] | None
    data__n_workers: int
    data__vocabulary: Vocabulary | None
    data__min_count: int


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """How rows are read: what the prefix ``data__`` stands for."""

    row_transform: Callable[[Any], Any] | None = None  # of each row, as it is read
    collate_fn: Callable[[list[Any]], Any] | None = None  # from a list of items to a batch
    n_workers: int = 0  # processes that read items
    vocabulary: Vocabulary | None = None  # texts: the words, if not those of the training rows
    min_count: int = 1  # texts: words that occur less often are unknown

    def __post_init__(self) -> None:
        for name in ("row_transform", "collate_fn"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ParameterError(f"The 'data__{name}' parameter must be a function or None. Got {value!r} instead.")
        if self.n_workers != 0 and not is_count(self.n_workers):
            raise ParameterError(f"The 'data__n_workers' parameter must be 0 or more. Got {self.n_workers!r} instead.")
        if not is_count(self.min_count):
            raise ParameterError(
                f"The 'data__min_count' parameter must be a positive integer. Got {self.min_count!r} instead."
            )


_CLOSED: Mapping[str, frozenset[str]] = {  # the parts whose options are ours, and so are known at once
    "training": frozenset(("selection", *PREFIXED)),
    "data": frozenset(field.name for field in fields(DataSettings)),
}
# Names by which parameters went before they had a prefix; saved models of that time have them.
FORMER: Mapping[str, str] = {
    "dropout": "network__dropout",
    **{name: f"{part}__{name}" for part, names in _CLOSED.items() for name in names},
}
# What other libraries call our parameters.
_ELSEWHERE: Mapping[str, str] = {
    **{"lr": "learning_rate", "learning_rate_init": "learning_rate", "eta": "learning_rate"},
    **{"optimizer__lr": "learning_rate", "optimizer__weight_decay": "weight_decay"},
    **{"epochs": "max_epochs", "n_epochs": "max_epochs", "max_iter": "max_epochs"},
    **{"module": "network", "model": "network", "criterion": "loss", "num_workers": "data__n_workers"},
    **{"seed": "random_state", "early_stopping": "patience"},
    **{"l2": "weight_decay", "alpha": "weight_decay", "wd": "weight_decay"},
}
KNOWN = tuple(Options.__annotations__)


def part_of(name: str) -> Part | None:
    """Return the part of a training that a parameter is for; None for one without a prefix.

    Examples
    --------
    >>> part_of("network__dropout"), part_of("max_epochs")
    ('network', None)
    """
    prefix, found, _ = name.partition("__")
    return next((part for part in PARTS if found and part == prefix), None)


def check_name(owner: str, name: str, own: Sequence[str], network: Any = None) -> None:
    """Refuse a parameter that there is not, with the name that was probably meant.

    `own` are those without a prefix; the `network` may take it as an option.
    """
    part, option = part_of(name), name.partition("__")[2]
    if name in own or (part and name not in _ELSEWHERE and option and option in _CLOSED.get(part, (option,))):
        return
    if name == "network_options":
        now = "Its entries are parameters now: network_options={'hidden': 8} is network__hidden=8."
    elif name == "schedule":
        now = "Use scheduler='cosine', or leave it out."
    elif callable(network) and name in (options_of(network) or ()):
        now = f"Did you mean 'network__{name}'?"
    elif name in FORMER:
        now = f"It is {FORMER[name]!r} now."
    else:
        now = _nearest(name, own)
    raise ParameterError(f"{owner} has no parameter {name!r}. {now}")


def _nearest(name: str, own: Sequence[str]) -> str:
    """Return the sentence that names what was probably meant: by what is right of a prefix, which may be wrong."""
    option = name.partition("__")[2] or name
    known = {known.partition("__")[2]: known for known in KNOWN} | {known: known for known in own} | dict(_ELSEWHERE)
    near = known.get(name) or known.get(option) or next((known[n] for n in get_close_matches(option, known, n=1)), None)
    return suggest(name, [*own, *KNOWN]) if near is None else f"Did you mean {near!r}?"


def check_options(what: str, part: Part, factory: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuse options that a class or function does not take, and name those that it does; `what` is it in words."""
    taken = options_of(factory)
    if taken is None:
        return
    for name in sorted(set(options) - set(taken)):
        known = {known: f"{part}__{known}" for known in taken if known not in _GIVEN[part]}
        near = get_close_matches(name, known, n=1)
        advice = f"Did you mean {known[near[0]]!r}?" if near else f"It has {', '.join(known.values()) or 'none'}."
        raise ParameterError(f"{what} has no option {name!r}. {advice}")


def options_of(factory: Callable[..., Any]) -> list[str] | None:
    """Return the arguments that a class or function takes by name; None: any, or nobody knows."""
    try:
        parameters = signature(factory).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return None
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [p.name for p in parameters if p.kind not in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)]


# Arguments that are no options: we give them.
_GIVEN: Mapping[str, tuple[str, ...]] = {
    "network": ("input_shape", "n_classes"),
    "optimizer": ("params", "parameters", "network", "lr", "weight_decay"),
    "scheduler": ("optimizer",),
}


def current_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as they are called now: a saved model may have those of an older version.

    Examples
    --------
    >>> current_names({"max_epochs": 5, "dropout": None, "schedule": "cosine", "precision": "auto", "min_count": 2})
    {'max_epochs': 5, 'scheduler': 'cosine', 'data__min_count': 2}
    """
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "network_options":
            found |= {f"network__{option}": item for option, item in (value or {}).items()}
        elif name == "schedule":
            found |= {"scheduler": value} if value == "cosine" else {}
        elif name in FORMER:  # all of them, also those that nobody had set
            default = getattr(DataSettings, name, getattr(TrainingSettings, name, None))
            found |= {} if value is None or value == default else {FORMER[name]: value}
        else:
            found.setdefault(name, value)  # of an older model both are there: schedule="cosine", and no scheduler
    return found
