"""What the paper prints (paper.toml) and claims, and hyper-parameters.

Those that its authors published are in authors.toml, ours where validation rows are like the test in like_test.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

METHODS: Mapping[str, str] = MappingProxyType(
    {"erm": "ERM", "group_dro": "DRO", "irm": "IRM", "rgm": "RGM", "pi": "PI", "oracle": "oracle"}
)
NATURAL_METHODS = ("erm", "group_dro", "irm", "rgm", "pi")  # of Tables 3 and 4, in the paper's order
DATASETS: Mapping[str, str] = MappingProxyType(
    {
        "mnist": "MNIST",
        "beer_look": "Beer Look",
        "beer_aroma": "Beer Aroma",
        "beer_palate": "Beer Palate",
        "ask2me": "ASK2ME",
        "celeba": "CelebA",
    }
)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("holdfast.lab").joinpath(name).read_text(encoding="utf-8"))


def _attributes(text: str) -> dict[str, dict[str, list[float]]]:
    """Return attribute -> method -> [worst, average]."""
    table = {}
    for line in text.strip().splitlines():
        attribute, _, numbers = line.partition(": ")
        values = [float(number) for number in numbers.split()]
        pairs = (values[i : i + 2] for i in range(0, len(values), 2))
        table[attribute] = dict(zip(NATURAL_METHODS, pairs, strict=True))
    return table


_PRINTED = _read("paper.toml")
TABLE1: dict[str, dict[str, list[float]]] = _PRINTED["table1"]  # data set -> method -> validation as test, as training
TABLE2: dict[str, dict[str, float]] = _PRINTED["table2"]  # data set -> E1, E2, correct, mistaken
TIMES: dict[str, dict[str, list[float]]] = _PRINTED["times"]  # data set -> method -> seconds and three accuracies
NATURAL = {key: _attributes(text) for key, text in _PRINTED["natural"].items()}  # Tables 3 and 4, with "Average"
AUTHORS: dict[str, dict[str, dict[str, Any]]] = _read("authors.toml")  # data set -> method -> settings
LIKE_TEST: dict[str, dict[str, dict[str, Any]]] = _read("like_test.toml")  # the same, where they differ in that column


@dataclass(frozen=True)
class Claim:
    """A number of the paper's text."""

    text: str
    value: float


# Table 1: means over the data sets.
GAINS = {
    "test": Claim("PI over the best baseline, validation as test", 12.97),
    "train": Claim("PI over the best baseline, validation as training", 20.06),
}
GAIN_OVER_IRM = Claim("PI over IRM, validation as training", 23.85)
GAP_TO_ORACLE = Claim("oracle minus PI, mean of data sets and settings", 2.0)
# Tables 3 and 4: worst accuracy, mean over the attributes.
GAINS_OVER_DRO = {
    "ask2me": Claim("PI over DRO, mean worst accuracy", 6.81),
    "celeba": Claim("PI over DRO, mean worst accuracy", 2.79),
}
NATURAL_GAIN_OVER_IRM = Claim("PI over IRM, mean of ASK2ME and CelebA", 12.41)
OPPOSITE = {  # attributes whose correlation has opposite signs in the two halves, and of how many
    "ask2me": (13, 15),
    "celeba": (22, 38),
}
