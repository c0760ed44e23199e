"""Fits of networks that were cut: kept beside the folder they save to, and continued by the same command."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.tables.inputs import TrainingTable


@contextmanager
def resumable(
    out: Path, training: TrainingTable, settings: Mapping[str, Any], note: Callable[[str], None]
) -> Iterator[None]:
    """Write a checkpoint after each epoch to ``OUT.unfinished``, go on from those of the same fit, and remove them."""
    from holdfast.neural.monitors import watch
    from holdfast.saving.monitors import CheckpointMonitor

    place = out.with_name(f"{out.name}.unfinished")
    folder = place / _digest(training, settings)
    if folder.is_dir():
        note(f"going on where an earlier fit was cut ({folder})")
    with watch(CheckpointMonitor(folder)):
        yield
    shutil.rmtree(place, ignore_errors=True)


def _digest(training: TrainingTable, settings: Mapping[str, Any]) -> str:
    """Return what the same fit has in common: settings, columns and every value."""
    import pandas as pd

    from holdfast.saving.json_files import canonical_json

    digest = hashlib.sha256(canonical_json({"settings": dict(settings), "table": training.roles.to_dict()}))
    digest.update(pd.util.hash_pandas_object(training.features, index=False).to_numpy().tobytes())
    for values in (training.y, training.environments):
        digest.update(pd.util.hash_pandas_object(pd.Series(values), index=False).to_numpy().tobytes())
    return digest.hexdigest()[:20]
