import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, final, overload, type_check_only
from typing_extensions import Buffer

from ._view import View

_Default = TypeVar("_Default")
_Result = TypeVar("_Result")
_Name = str | bytes | os.PathLike[str]
_Comparator = Callable[[bytes, bytes], int]
_Codec = Literal["none", "snappy", "zstd", "zlib", "deflate"]
_Entry_co = TypeVar("_Entry_co", covariant=True)

__version__: str

class _VerifyReport(TypedDict):
    is_clean: bool
    files: int
    bytes: int
    keys: int | None
    versions: int
    problems: list[str]
    notes: list[str]

class _RepairReport(TypedDict):
    changed: bool
    tables_kept: int
    tables_salvaged: int
    tables_missing: int
    tables_unreadable: int
    blocks_lost: int
    logs_kept: int
    logs_salvaged: int
    problems: list[str]
    actions: list[str]

class _TimerStats(TypedDict):
    count: int
    sum_micros: int
    max_micros: int

class _LevelStats(TypedDict):
    files: int
    bytes: int
    bytes_read: int
    bytes_written: int

class _MemoryStats(TypedDict):
    memtables: int
    block_cache: int
    tables: int
    total: int
    limit: int | None

class _Stats(TypedDict):
    tickers: dict[str, int]
    timers: dict[str, _TimerStats]
    levels: list[_LevelStats]
    memory: _MemoryStats
    immutable_memtables: int
    last_sequence: int
    writes_refused: str | None

def _close_all(is_finalizing: bool) -> None: ...
def destroy_db(name: _Name) -> None: ...
def repair_db(
    name: _Name,
    *,
    dry_run: bool = False,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: _Codec | None = "snappy",
    bloom_filter_bits: int = 0,
    comparator: _Comparator | None = None,
    comparator_name: bytes | None = None,
) -> _RepairReport: ...
def verify_db(
    name: _Name, *, comparator: _Comparator | None = None, comparator_name: bytes | None = None
) -> _VerifyReport: ...

# Stubs share these signatures. The classes do not exist at runtime.
@type_check_only
class _Scope:
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
        /,
    ) -> Literal[False] | None: ...

@type_check_only
class _RawReadable:
    def raw_iterator(
        self, *, verify_checksums: bool | None = None, fill_cache: bool | None = None
    ) -> RawIterator: ...

@final
class Iterator(_Scope, Generic[_Entry_co]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> _Entry_co: ...
    def prev(self) -> _Entry_co: ...
    def take(self, count: int) -> list[_Entry_co]: ...
    def seek(self, target: bytes) -> None: ...
    def seek_to_start(self) -> None: ...
    def seek_to_stop(self) -> None: ...
    def close(self) -> None: ...

@final
class RawIterator(_Scope):
    def valid(self) -> bool: ...
    def seek_to_first(self) -> None: ...
    def seek_to_last(self) -> None: ...
    def seek(self, target: bytes) -> None: ...
    def next(self) -> None: ...
    def prev(self) -> None: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def item(self) -> tuple[bytes, bytes]: ...
    def close(self) -> None: ...

@type_check_only
class _Readable:
    @overload
    def get(
        self,
        key: bytes,
        default: None = None,
        *,
        verify_checksums: bool | None = None,
        fill_cache: bool | None = None,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: bytes,
        default: _Default,
        *,
        verify_checksums: bool | None = None,
        fill_cache: bool | None = None,
    ) -> bytes | _Default: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: Literal[True] = True,
        include_value: Literal[True] = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: Literal[True] = True,
        include_value: Literal[False],
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: Literal[False],
        include_value: Literal[True] = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: Literal[False],
        include_value: Literal[False],
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[None]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[Any]: ...

@type_check_only
class _Writable(_Readable):
    def put(self, key: bytes, value: Buffer, *, sync: bool | None = None) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = None) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = None, sync: bool | None = None
    ) -> WriteBatch: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: bytes) -> PrefixedDB: ...

@final
class Snapshot(_Readable, _RawReadable, _Scope):
    def close(self) -> None: ...
    def release(self) -> None: ...

@final
class WriteBatch(_Scope):
    def put(self, key: bytes, value: Buffer) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def clear(self) -> None: ...
    def append(self, source: WriteBatch) -> None: ...
    def write(self) -> None: ...
    def approximate_size(self) -> int: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Transaction(_Scope):
    @overload
    def get(self, key: bytes, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: bytes, default: _Default) -> bytes | _Default: ...
    @overload
    def get_for_update(self, key: bytes, default: None = None) -> bytes | None: ...
    @overload
    def get_for_update(self, key: bytes, default: _Default) -> bytes | _Default: ...
    def put(self, key: bytes, value: Buffer) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def entries(
        self,
        *,
        start: bytes | None = None,
        stop: bytes | None = None,
        prefix: bytes | None = None,
        limit: int | None = None,
    ) -> list[tuple[bytes, bytes]]: ...
    def commit(self) -> int: ...
    def rollback(self) -> None: ...

@final
class PrefixedDB(_Writable):
    @property
    def db(self) -> DB: ...
    @property
    def prefix(self) -> bytes: ...

@final
class DB(_Writable, _RawReadable, _Scope):
    def __new__(
        cls,
        name: _Name,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: _Codec | None = "snappy",
        bloom_filter_bits: int = 0,
        comparator: _Comparator | None = None,
        comparator_name: bytes | None = None,
        read_only: bool = False,
        follow: bool = False,
        follow_every: float | None = None,
        memory_budget: int | None = None,
    ) -> Self: ...
    @property
    def name(self) -> _Name: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    @overload
    def get_many(self, keys: Iterable[bytes], default: None = None) -> list[bytes | None]: ...
    @overload
    def get_many(self, keys: Iterable[bytes], default: _Default) -> list[bytes | _Default]: ...
    def delete_range(self, start: bytes | None = None, stop: bytes | None = None) -> None: ...
    def get_property(self, name: bytes) -> bytes | None: ...
    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None: ...
    def approximate_size(self, start: bytes, stop: bytes) -> int: ...
    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]: ...
    def view(self) -> View: ...
    def begin(
        self,
        *,
        locking: bool = False,
        snapshot_isolation: bool = False,
        lock_timeout: float | None = None,
        sync: bool = False,
    ) -> Transaction: ...
    def transact(
        self, function: Callable[[Transaction], _Result], *, attempts: int = 100, sync: bool = False
    ) -> _Result: ...
    def sync(self) -> None: ...
    def flush(self) -> None: ...
    def checkpoint(self, path: _Name) -> int: ...
    def catch_up(self) -> int: ...
    def stats(self) -> _Stats: ...
