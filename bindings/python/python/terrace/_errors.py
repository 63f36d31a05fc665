"""Exceptions of Terrace: those of plyvel, and kinds that plyvel does not distinguish."""

import builtins


class Error(Exception):
    """Base of all errors of the engine."""


class IOError(Error, builtins.IOError):
    """The operating system returned an error."""


class LockedError(IOError):
    """The database is open in another process, or by another object of this process."""


class CorruptionError(Error):
    """Stored bytes are damaged. The message names the file."""


class InvalidArgumentError(Error):
    """An argument or an option is wrong, the database is missing, or it exists."""


class NotSupportedError(Error):
    """The files, the options or the way to open do not allow this call."""


class ConflictError(Error):
    """Another writer interfered with a transaction, which may be tried again."""


class IteratorInvalidError(Error):
    """A raw iterator stands at no entry."""


class ClosedError(RuntimeError):
    """The database, iterator, snapshot or transaction is closed."""


for _error in (
    Error,
    IOError,
    LockedError,
    CorruptionError,
    InvalidArgumentError,
    NotSupportedError,
    ConflictError,
    IteratorInvalidError,
    ClosedError,
):
    _error.__module__ = "terrace"
