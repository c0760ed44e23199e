"""What one run is: every setting that decides its result, checked, frozen, and hashed into the run's identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.datasets import DATASETS
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import ConfigError, suggest
from holdfast.saving.json_files import canonical_json

FORMAT = 1  # raise it when the same settings come to mean another run
HALVES = "halves"  # stages 1 and 2 without stage 3, next to the methods by name


class RunConfig(BaseModel):
    """Data set × method × hyper-parameters × seed.

    `method` is a name in `holdfast.estimators.methods.METHODS`, or "halves": stages 1 and 2 without stage 3.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    dataset: str
    method: str
    seed: int = Field(0, ge=0)  # of the data set and of the training
    dataset_options: Mapping[str, Any] = Field(default_factory=dict)
    synthetic: bool = False  # small synthetic files instead of the real ones
    estimator: str = "mlp"  # a name in `holdfast.estimators.named.ESTIMATORS`, or a network by name
    estimator_options: Mapping[str, Any] = Field(default_factory=dict)
    method_options: Mapping[str, Any] = Field(default_factory=dict)
    vectors: str | None = None  # texts: file of word vectors, in the data folder
    min_count: int = Field(5, ge=1)  # texts: words that occur less often, over all splits, are unknown
    backbone: str | None = None  # images: network whose frozen features are the rows
    weights: str | None = None  # its weights, in the data folder
    learning_rate: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    penalty_weight: float | None = Field(None, ge=0)  # irm, vrex, rgm
    warm_up: int | None = Field(None, ge=0)  # irm, vrex, rgm: steps at a penalty weight of 1
    loss: str = "cross_entropy"
    weight_averaging: float | None = Field(None, gt=0, lt=1)
    schedule: Literal["constant", "cosine"] = "constant"
    batch_size: int = Field(50, ge=1)  # rows of each group
    steps_per_epoch: int = Field(100, ge=1)
    max_epochs: int = Field(1000, ge=1)
    patience: int = Field(20, ge=1)
    selection: Literal["validation_accuracy", "worst_group_validation", "min_train_validation", "last"] = (
        "min_train_validation"
    )
    validations: tuple[str, ...] = ("train", "test")  # settings that are scored; data sets without one leave it out
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    explain: int | None = Field(None, ge=0)  # texts: test row whose words are taken out one by one

    @field_validator("dataset")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        return _check_name("dataset", value, DATASETS)

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: str) -> str:
        return _check_name("method", value, (HALVES, *METHODS))

    @field_validator("validations")
    @classmethod
    def _some_validation(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= {"train", "test"}:
            raise ValueError(f"validations must name 'train', 'test' or both. Got {list(value)}")
        return value

    @model_validator(mode="after")
    def _features_of_known_weights(self) -> RunConfig:
        if (self.backbone is None) != (self.weights is None):
            raise ValueError(
                "backbone and weights belong together: features of an untrained network mean nothing. "
                "Give both, or neither"
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, as plain values."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def is_network(self) -> bool:
        """Whether the estimator is a network, which is trained epoch by epoch."""
        return self.estimator not in ESTIMATORS or ESTIMATORS[self.estimator].is_network

    @property
    def identity(self) -> str:
        """The run's name: a hash of its settings, which are the same run however they are written."""
        return hashlib.sha256(canonical_json({"format": FORMAT, **self.as_dict()})).hexdigest()[:20]

    def changed(self, **settings: Any) -> RunConfig:
        """Return the run with other settings, checked."""
        return parse_run({**self.as_dict(), **settings})


def parse_run(values: Mapping[str, Any], where: str = "The run") -> RunConfig:
    """Check the settings of a run; `where` is what errors name.

    Examples
    --------
    >>> parse_run({"dataset": "toy", "method": "erm", "learnin_rate": 0.1})
    Traceback (most recent call last):
        ...
    holdfast.exceptions.ConfigError: The run has an unknown key 'learnin_rate'. Did you mean 'learning_rate'?
    """
    try:
        return RunConfig(**values)
    except ValidationError as problem:
        raise ConfigError(f"{where} {_first_error(problem, RunConfig.model_fields)}") from problem
    except TypeError as problem:
        raise ConfigError(f"{where} cannot be used: {problem}.") from problem


def refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse the first key that is not known."""
    known = list(known)
    for key in values:
        if key not in known:
            raise ConfigError(f"{where} has an unknown key {key!r}. {suggest(key, known)}")


def _first_error(problem: ValidationError, known: Iterable[str]) -> str:
    """Return what is wrong, in one sentence."""
    error = problem.errors()[0]
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"has an unknown key {key!r}. {suggest(key, list(known))}"
    if error["type"] == "missing":
        return f"lacks the key {key!r}. Add it."
    message = error["msg"].removeprefix("Value error, ")
    if not key:  # of several keys together
        return f"cannot be used: {message}."
    text = f"has a value of {key!r} that cannot be used: {message}"
    return text if message.endswith((".", "?")) else f"{text}. Got {error['input']!r:.100}."


def _check_name(what: str, value: str, known: Iterable[str]) -> str:
    if value not in (names := list(known)):
        raise ValueError(f"there is no {what} {value!r}. {suggest(value, names)}")
    return value
