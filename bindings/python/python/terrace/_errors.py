"""Exceptions of Terrace: those of plyvel, and kinds that plyvel does not distinguish."""

import _thread
import builtins

_exiting_thread: int | None = None


def _begin_exit() -> None:
    """Lets other threads wait for the end of the process when they find a closed object."""
    global _exiting_thread
    _exiting_thread = _thread.get_ident()


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

    def __init__(self, *args: object) -> None:
        # A daemon thread would print the exception, and Python before 3.12 aborts the process if
        # that meets the exit of the interpreter.
        if _exiting_thread not in (None, _thread.get_ident()):
            lock = _thread.allocate_lock()
            lock.acquire()
            lock.acquire()
        super().__init__(*args)


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
