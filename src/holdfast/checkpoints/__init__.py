"""Saved models, training checkpoints and records: written in one step, checked byte by byte, never unpickled."""

from holdfast.checkpoints.classes import allow
from holdfast.checkpoints.folders import read_manifest
from holdfast.checkpoints.models import load, save
from holdfast.checkpoints.records import read_record, write_record
from holdfast.checkpoints.resuming import read_checkpoint, write_checkpoint

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
