"""Which correlations not to trust: what changes sides between the rows that judges get right and wrong.

`audit_data` takes rows, labels and environments and returns an `Audit`: a ranking of columns, words or attributes with
p values, plain sentences, and a statement of how much the data can tell. `relied_on` says what fitted classifiers use.
"""

from __future__ import annotations

from holdfast.audit.columns import Columns, encode_table, encode_texts
from holdfast.audit.importance import Reliance, WordImportance, relied_on, word_importance
from holdfast.audit.judges import Judges, fit_judges, given_judges
from holdfast.audit.pictures import AveragePicture, average_pictures
from holdfast.audit.results import Audit, Finding, PartitionEvidence
from holdfast.audit.run import audit_data, audit_partitions

__all__ = [
    "Audit",
    "AveragePicture",
    "Columns",
    "Finding",
    "Judges",
    "PartitionEvidence",
    "Reliance",
    "WordImportance",
    "audit_data",
    "audit_partitions",
    "average_pictures",
    "encode_table",
    "encode_texts",
    "fit_judges",
    "given_judges",
    "relied_on",
    "word_importance",
]
