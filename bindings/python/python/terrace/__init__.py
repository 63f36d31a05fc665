"""Terrace: an embedded, ordered key-value store that reads and writes LevelDB's files."""

import atexit as _atexit
import sys as _sys

from ._errors import (
    ClosedError,
    ConflictError,
    CorruptionError,
    Error,
    InvalidArgumentError,
    IOError,
    IteratorInvalidError,
    LockedError,
    NotSupportedError,
    _begin_exit,
)
from ._terrace import (
    DB,
    Iterator,
    PrefixedDB,
    RawIterator,
    Snapshot,
    Transaction,
    WriteBatch,
    __version__,
    _close_all,
    destroy_db,
    repair_db,
    verify_db,
)
from ._view import View


def _exit() -> None:
    # Background threads may call a comparator in Python, so they end before the interpreter does.
    _begin_exit()
    _close_all(_sys.is_finalizing())


_atexit.register(_exit)

__all__ = [
    "DB",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "Error",
    "IOError",
    "InvalidArgumentError",
    "Iterator",
    "IteratorInvalidError",
    "LockedError",
    "NotSupportedError",
    "PrefixedDB",
    "RawIterator",
    "Snapshot",
    "Transaction",
    "View",
    "WriteBatch",
    "__version__",
    "destroy_db",
    "repair_db",
    "verify_db",
]
