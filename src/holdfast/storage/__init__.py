"""Files and folders that are the old ones or the new ones, whole, whatever happens in between.

Everything is written under a temporary name in the same folder, flushed to the disk (fsync), renamed, and the folder
flushed too. A process that is killed leaves at most a name that starts with `.holdfast-tmp-`, which nobody reads and
which a later writer sweeps away. Errors of the system become one `StorageError` of one line.
"""

from holdfast.storage.checked_json import canonical_json, checked_json, parse_checked_json, read_json, write_json
from holdfast.storage.faults import inject_faults, storage_errors
from holdfast.storage.files import TEMPORARY, read_regular, sync_folder, write_bytes, write_new
from holdfast.storage.folders import new_folder, recover_folder, remove_leftovers
from holdfast.storage.locks import FileLock

__all__ = [
    "TEMPORARY",
    "FileLock",
    "canonical_json",
    "checked_json",
    "inject_faults",
    "new_folder",
    "parse_checked_json",
    "read_json",
    "read_regular",
    "recover_folder",
    "remove_leftovers",
    "storage_errors",
    "sync_folder",
    "write_bytes",
    "write_json",
    "write_new",
]
