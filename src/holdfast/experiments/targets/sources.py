"""The paper's data sets: how they are loaded, what their networks are, and the authors' settings."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Source:
    """A data set of the paper: how it is loaded, and what its networks are."""

    dataset: str
    options: Mapping[str, Any]
    run: Mapping[str, Any]  # settings of all its runs
    quick: Mapping[str, Any]  # those of a quick run on made data
    natural: bool = False

    @property
    def needs_vectors(self) -> bool:
        """Whether its network reads words."""
        return self.run.get("estimator") == "text_cnn"

    @property
    def needs_weights(self) -> bool:
        """Whether its rows are the features of a pretrained network."""
        return self.dataset == "celeba"


_SHORT = {"max_epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "patience": 2, "made": True}
_TEXT = {"estimator": "text_cnn"}
_EXPLAINED = {**_TEXT, "explain": 0}  # the first test review tells the words that each classifier relies on
_NATURAL = {"selection": "worst_group_validation", "validations": ["train"]}
_QUICK_TEXT = {**_SHORT, "learning_rate": 0.01, "estimator_options": {"n_filters": 4}, "vectors": "vectors.npz"}
_QUICK_IMAGES = {**_SHORT, "estimator": "mlp", "estimator_options": {"hidden": [16]}}

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "mnist": Source("colored_mnist", {"test_colorings": 10}, {"estimator": "cnn"}, _QUICK_IMAGES),
        **{
            f"beer_{aspect}": Source("beer", {"aspect": aspect}, _EXPLAINED, _QUICK_TEXT)
            for aspect in ("look", "aroma", "palate")
        },
        "ask2me": Source(
            "ask2me",
            {},
            {**_TEXT, **_NATURAL},
            {**_SHORT, "estimator_options": {"n_filters": 4, "dimension": 8}},
            natural=True,
        ),
        "celeba": Source("celeba", {}, _NATURAL, _QUICK_IMAGES, natural=True),
    }
)


@functools.cache
def authors() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the authors' hyper-parameters: data set -> method -> settings."""
    text = resources.files("holdfast.experiments").joinpath("authors.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def is_of(key: str, config: Mapping[str, Any]) -> bool:
    """Return whether a run's settings are those of a run on this data set."""
    source = SOURCES[key]
    options = config.get("dataset_options", {})
    return bool(config["dataset"] == source.dataset and options.get("aspect") == source.options.get("aspect"))
