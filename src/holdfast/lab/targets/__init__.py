"""The tables and figures of the paper by name: which runs each needs, and what it shows of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast.lab.targets.correlations import plan_correlations, report_correlations
from holdfast.lab.targets.natural import plan_table3, plan_table4, report_table3, report_table4
from holdfast.lab.targets.studies import plan_ablation, plan_irm, plan_words, report_ablation, report_irm, report_words
from holdfast.lab.targets.synthetic import (
    plan_table1,
    plan_table2,
    plan_time,
    report_table1,
    report_table2,
    report_time,
)
from holdfast.lab.targets.toy import plan_toy, report_toy
from holdfast.lab.targets.values import Missing, Options, Plan, Reader, Record, Report

__all__ = [
    "TARGETS",
    "Missing",
    "Options",
    "Plan",
    "Reader",
    "Record",
    "Report",
    "Target",
]


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper."""

    title: str
    plan: Callable[[Options], Plan]
    report: Callable[[Options, Plan, Reader], Report]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "toy": Target("Figure 1: the toy example", plan_toy, report_toy),
        "table1": Target("Table 1: planted unstable features", plan_table1, report_table1),
        "table2": Target("Table 2: correlations in the halves", plan_table2, report_table2),
        "table3": Target("Table 3 and its full version: ASK2ME", plan_table3, report_table3),
        "table4": Target("Table 4 and its full version: CelebA", plan_table4, report_table4),
        "ablation": Target("Figure 2: pairs of training environments", plan_ablation, report_ablation),
        "correlations": Target("Figures 3 and 4: attributes in the halves", plan_correlations, report_correlations),
        "words": Target("Word importance on beer look", plan_words, report_words),
        "irm": Target("IRM as its penalty weight grows", plan_irm, report_irm),
        "time": Target("Running times", plan_time, report_time),
    }
)
