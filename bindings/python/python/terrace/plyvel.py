"""The names of plyvel: `import terrace.plyvel as plyvel` replaces `import plyvel`."""

from . import (
    DB,
    CorruptionError,
    Error,
    IOError,
    IteratorInvalidError,
    destroy_db,
    repair_db,
)

# The version of plyvel whose API this module has.
__api__ = "1.5.1"
__version__ = __api__
# The version of LevelDB whose files Terrace reads and writes.
__leveldb_version__ = "1.23"

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "__api__",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]
