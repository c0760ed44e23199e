"""The audit: columns, words and attributes whose relation with the label changes between environments.

`audit_data` takes rows, labels and environments and returns an `Audit`: for each column, word or attribute whether its
effect changes, its effect in each environment, and what to expect at the next one. `relied_on` says what fitted
classifiers use.
"""

from __future__ import annotations

from holdfast.auditing.importance import (
    AveragePicture,
    Reliance,
    WordImportance,
    average_pictures,
    relied_on,
    word_importance,
)
from holdfast.auditing.results import Audit
from holdfast.auditing.run import AuditSettings, audit_columns, audit_data
from holdfast.stable.columns import Columns, encode_table, encode_texts
from holdfast.stable.findings import Finding

__all__ = [
    "Audit",
    "AuditSettings",
    "AveragePicture",
    "Columns",
    "Finding",
    "Reliance",
    "WordImportance",
    "audit_columns",
    "audit_data",
    "average_pictures",
    "encode_table",
    "encode_texts",
    "relied_on",
    "word_importance",
]
