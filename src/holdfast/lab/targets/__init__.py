"""The tables and figures of the paper by name: which runs each needs, and what it shows of their records."""

from holdfast.lab.targets.reports import TARGETS, Target
from holdfast.lab.targets.results import Reader, Report
from holdfast.lab.targets.sources import Missing, Options, Plan, Record

__all__ = ["TARGETS", "Missing", "Options", "Plan", "Reader", "Record", "Report", "Target"]
