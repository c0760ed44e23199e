"""The tables and figures of the paper by name: which runs each needs, and what it shows of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from holdfast.lab import paper
from holdfast.lab.targets.natural import report_correlations, report_natural
from holdfast.lab.targets.planted import plan_table1, report_table1, report_table2, report_time
from holdfast.lab.targets.results import Reader, Report
from holdfast.lab.targets.sources import Missing, Options, Plan, Record, plan_halves, plan_methods
from holdfast.lab.targets.studies import (
    plan_ablation,
    plan_irm,
    plan_toy,
    plan_words,
    report_ablation,
    report_irm,
    report_toy,
    report_words,
)

__all__ = ["TARGETS", "Missing", "Options", "Plan", "Reader", "Record", "Report", "Target"]


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper."""

    title: str
    plan: Callable[[Options], Plan]
    report: Callable[[Plan, Reader], Report]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "toy": Target("Figure 1: the toy example", plan_toy, report_toy),
        "table1": Target("Table 1: planted unstable features", plan_table1, report_table1),
        "table2": Target("Table 2: correlations in the halves", partial(plan_halves, paper.TABLE2), report_table2),
        "table3": Target(
            "Table 3 and its full version: ASK2ME", partial(plan_methods, ["ask2me"]), partial(report_natural, "ask2me")
        ),
        "table4": Target(
            "Table 4 and its full version: CelebA", partial(plan_methods, ["celeba"]), partial(report_natural, "celeba")
        ),
        "ablation": Target("Figure 2: pairs of training environments", plan_ablation, report_ablation),
        "correlations": Target(
            "Figures 3 and 4: attributes in the halves", partial(plan_halves, paper.OPPOSITE), report_correlations
        ),
        "words": Target("Word importance on beer look", plan_words, report_words),
        "irm": Target("IRM as its penalty weight grows", plan_irm, report_irm),
        "time": Target("Running times", partial(plan_methods, paper.TIMES), report_time),
    }
)
