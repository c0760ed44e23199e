"""Save and load models, training checkpoints and records. Files are checksummed, and nothing is unpickled."""

from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.codec import allow
from holdfast.saving.json_files import read_record, write_record
from holdfast.saving.models import load, read_manifest, save

__all__ = [
    "allow",
    "load",
    "read_checkpoint",
    "read_manifest",
    "read_record",
    "save",
    "write_checkpoint",
    "write_record",
]
