// SPDX-License-Identifier: MIT OR Apache-2.0

// The database as plain functions, over which the C++ classes are built. src/cxx_abi defines them
// in Rust; the two must change together.
//
// Any thread may call every function, and none throws. A function that returns a StatusCode other
// than 0 stores a malloc'ed text in its ErrorReport. Objects are destroyed by the function whose
// name ends in drop, close or release. Callback tables belong to objects of the program. Rust calls
// them from any thread, and they must not throw either.

#ifndef TERRACE_SHIM_CXX_ABI_H_
#define TERRACE_SHIM_CXX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace terrace {

// Has the layout of leveldb::Slice.
struct CxxSlice {
  const char* start;
  size_t len;
};

// A status code as in leveldb::Status; 0 means success.
using StatusCode = uint8_t;

struct ErrorReport {
  char* text;
  size_t len;
};

// A std::string for output, and the callback that assigns it. The callback returns false without memory.
struct CxxString {
  void* string;
  bool (*assign)(void* string, CxxSlice bytes);
};

// An object of the program with the callbacks of its kind; null callbacks mean no object.
template <typename Callbacks>
struct NullableUserObject {
  const Callbacks* callbacks;
  void* object;
};

// Rust types, used by pointer only.
struct Db;
struct CxxIterator;
struct Snapshot;
struct SstFileReader;
struct TableBuilderHandle;
struct BlockCache;
struct CachedBlock;
struct SequentialFileHandle;
struct RandomAccessFileHandle;
struct WritableFileHandle;
struct FileLockHandle;
struct LoggerHandle;
struct ByteBuffer; // receives bytes through terrace_cxx_put_bytes
struct Names; // receives names through terrace_cxx_add_name

struct ComparatorCallbacks {
  CxxSlice (*name)(void*);
  int (*compare)(void*, CxxSlice, CxxSlice);
  void (*separator)(void*, CxxSlice start, CxxSlice limit, ByteBuffer* into);
  void (*successor)(void*, CxxSlice key, ByteBuffer* into);
};

struct FilterCallbacks {
  CxxSlice (*name)(void*);
  void (*create)(void*, const CxxSlice* keys, int count, ByteBuffer* into);
  bool (*may_match)(void*, CxxSlice key, CxxSlice filter);
};

struct CacheCallbacks {
  void (*insert)(void*, CxxSlice key, CachedBlock* block, size_t charge);
  CachedBlock* (*lookup)(void*, CxxSlice key);
  size_t (*charge)(void*);
};

struct LoggerCallbacks {
  void (*log)(void*, CxxSlice line);
  void (*remove)(void*);
};

struct SequentialFileCallbacks {
  StatusCode (*read)(void*, size_t n, char* scratch, CxxSlice* found, ErrorReport*);
  StatusCode (*skip)(void*, uint64_t n, ErrorReport*);
  void (*remove)(void*);
};

struct RandomAccessFileCallbacks {
  StatusCode (*read)(void*, uint64_t offset, size_t n, char* scratch, CxxSlice* found, ErrorReport*);
  void (*remove)(void*);
};

struct WritableFileCallbacks {
  StatusCode (*append)(void*, CxxSlice, ErrorReport*);
  StatusCode (*flush)(void*, ErrorReport*);
  StatusCode (*sync)(void*, ErrorReport*);
  StatusCode (*close)(void*, ErrorReport*);
  void (*remove)(void*);
};

struct EnvCallbacks {
  StatusCode (*open_sequential)(void*, CxxSlice path, NullableUserObject<SequentialFileCallbacks>*, ErrorReport*);
  StatusCode (*open_random)(void*, CxxSlice path, NullableUserObject<RandomAccessFileCallbacks>*, ErrorReport*);
  StatusCode (*create)(void*, CxxSlice path, NullableUserObject<WritableFileCallbacks>*, ErrorReport*);
  StatusCode (*append)(void*, CxxSlice path, NullableUserObject<WritableFileCallbacks>*, ErrorReport*);
  bool (*exists)(void*, CxxSlice path);
  StatusCode (*list)(void*, CxxSlice dir, Names* into, ErrorReport*);
  StatusCode (*remove)(void*, CxxSlice path, ErrorReport*);
  StatusCode (*create_dir)(void*, CxxSlice dir, ErrorReport*);
  StatusCode (*remove_dir)(void*, CxxSlice dir, ErrorReport*);
  StatusCode (*len)(void*, CxxSlice path, uint64_t* len, ErrorReport*);
  StatusCode (*rename)(void*, CxxSlice from, CxxSlice to, ErrorReport*);
  StatusCode (*lock)(void*, CxxSlice path, void** lock, ErrorReport*);
  void (*unlock)(void*, void* lock);
  void (*schedule)(void*, void (*function)(void*), void* arg);
  NullableUserObject<LoggerCallbacks> (*new_logger)(void*, CxxSlice path);
  uint64_t (*now_us)(void*);
  void (*sleep_us)(void*, int micros);
};

// leveldb::Options. The library's own objects have no callbacks: no comparator means the bytewise
// one, no environment the default one.
struct CxxOptions {
  NullableUserObject<ComparatorCallbacks> comparator;
  NullableUserObject<EnvCallbacks> env;
  NullableUserObject<LoggerCallbacks> logger;
  NullableUserObject<FilterCallbacks> filter;
  NullableUserObject<CacheCallbacks> cache;
  const BlockCache* block_cache;
  int bloom_bits;
  int compression;
  size_t write_buffer_size;
  size_t block_size;
  size_t max_file_size;
  int max_open_files;
  int block_restart_interval;
  bool create_if_missing;
  bool error_if_exists;
  bool paranoid_checks;
  bool reuse_logs;
};

struct CxxReadOptions {
  const Snapshot* snapshot;
  bool verify_checksums;
  bool fill_cache;
};

struct CurrentEntry {
  CxxSlice key;
  CxxSlice value;
  bool valid;
};

// Has the layout of leveldb::Range.
struct CxxRange {
  CxxSlice start;
  CxxSlice limit;
};

extern "C" {

// Databases.
StatusCode terrace_cxx_open(const CxxOptions*, CxxSlice path, Db**, ErrorReport*) noexcept;
void terrace_cxx_close(Db*) noexcept;
StatusCode terrace_cxx_put(const Db*, CxxSlice key, CxxSlice value, bool sync, ErrorReport*) noexcept;
StatusCode terrace_cxx_delete(const Db*, CxxSlice key, bool sync, ErrorReport*) noexcept;
StatusCode terrace_cxx_write(const Db*, CxxSlice batch, bool sync, ErrorReport*) noexcept;
StatusCode terrace_cxx_flush(const Db*, ErrorReport*) noexcept;
StatusCode terrace_cxx_get(const Db*, CxxSlice key, CxxReadOptions, CxxString value, bool* found, ErrorReport*) noexcept;
CxxIterator* terrace_cxx_iterate(const Db*, CxxReadOptions) noexcept;
Snapshot* terrace_cxx_snapshot(const Db*) noexcept;
void terrace_cxx_snapshot_release(Snapshot*) noexcept;
bool terrace_cxx_property(const Db*, CxxSlice name, CxxString value) noexcept;
void terrace_cxx_sizes(const Db*, const CxxRange*, int n, uint64_t* sizes) noexcept;
void terrace_cxx_compact(const Db*, const CxxSlice* begin, const CxxSlice* end) noexcept;
StatusCode terrace_cxx_destroy(const CxxOptions*, CxxSlice path, ErrorReport*) noexcept;
StatusCode terrace_cxx_repair(const CxxOptions*, CxxSlice path, ErrorReport*) noexcept;

// Iterators: each move returns the new position.
CurrentEntry terrace_cxx_first(CxxIterator*) noexcept;
CurrentEntry terrace_cxx_last(CxxIterator*) noexcept;
CurrentEntry terrace_cxx_seek(CxxIterator*, CxxSlice target) noexcept;
CurrentEntry terrace_cxx_next(CxxIterator*) noexcept;
CurrentEntry terrace_cxx_prev(CxxIterator*) noexcept;
StatusCode terrace_cxx_status(const CxxIterator*, ErrorReport*) noexcept;
void terrace_cxx_cursor_drop(CxxIterator*) noexcept;

// Tables without a database.
StatusCode terrace_cxx_table_open(const CxxOptions*, NullableUserObject<RandomAccessFileCallbacks>, uint64_t len, SstFileReader**, ErrorReport*) noexcept;
CxxIterator* terrace_cxx_table_iterate(const SstFileReader*, bool fill_cache) noexcept;
uint64_t terrace_cxx_table_offset(const SstFileReader*, CxxSlice key) noexcept;
void terrace_cxx_table_drop(SstFileReader*) noexcept;
TableBuilderHandle* terrace_cxx_builder(const CxxOptions*, NullableUserObject<WritableFileCallbacks>) noexcept;
StatusCode terrace_cxx_builder_change(TableBuilderHandle*, const CxxOptions*, ErrorReport*) noexcept;
void terrace_cxx_builder_add(TableBuilderHandle*, CxxSlice key, CxxSlice value) noexcept;
void terrace_cxx_builder_flush(TableBuilderHandle*) noexcept;
StatusCode terrace_cxx_builder_status(const TableBuilderHandle*, ErrorReport*) noexcept;
StatusCode terrace_cxx_builder_finish(TableBuilderHandle*, ErrorReport*) noexcept;
void terrace_cxx_builder_abandon(TableBuilderHandle*) noexcept;
uint64_t terrace_cxx_builder_entries(const TableBuilderHandle*) noexcept;
uint64_t terrace_cxx_builder_size(const TableBuilderHandle*) noexcept;
void terrace_cxx_builder_drop(TableBuilderHandle*) noexcept;

// Built-in comparator, filter policy and block cache.
void terrace_cxx_bytewise_separator(CxxSlice start, CxxSlice limit, CxxString) noexcept;
void terrace_cxx_bytewise_successor(CxxSlice key, CxxString) noexcept;
void terrace_cxx_bloom_create(int bits, const CxxSlice* keys, int count, CxxString) noexcept;
bool terrace_cxx_bloom_match(CxxSlice key, CxxSlice filter) noexcept;
const BlockCache* terrace_cxx_cache(size_t capacity) noexcept;
void terrace_cxx_cache_clear(const BlockCache*) noexcept;
size_t terrace_cxx_cache_usage(const BlockCache*) noexcept;
void terrace_cxx_cache_drop(const BlockCache*) noexcept;

// Files and clock of the operating system, and the directory for tests.
StatusCode terrace_cxx_file_sequential(CxxSlice path, SequentialFileHandle**, ErrorReport*) noexcept;
StatusCode terrace_cxx_sequential_read(SequentialFileHandle*, size_t n, char* into, size_t* read, ErrorReport*) noexcept;
StatusCode terrace_cxx_sequential_skip(SequentialFileHandle*, uint64_t n, ErrorReport*) noexcept;
void terrace_cxx_sequential_drop(SequentialFileHandle*) noexcept;
StatusCode terrace_cxx_file_random(CxxSlice path, RandomAccessFileHandle**, ErrorReport*) noexcept;
StatusCode terrace_cxx_random_read(const RandomAccessFileHandle*, uint64_t offset, size_t n, char* into, size_t* read, ErrorReport*) noexcept;
void terrace_cxx_random_drop(RandomAccessFileHandle*) noexcept;
StatusCode terrace_cxx_file_create(CxxSlice path, WritableFileHandle**, ErrorReport*) noexcept;
StatusCode terrace_cxx_file_append(CxxSlice path, WritableFileHandle**, ErrorReport*) noexcept;
StatusCode terrace_cxx_writable_append(WritableFileHandle*, CxxSlice, ErrorReport*) noexcept;
StatusCode terrace_cxx_writable_flush(WritableFileHandle*, ErrorReport*) noexcept;
StatusCode terrace_cxx_writable_sync(WritableFileHandle*, ErrorReport*) noexcept;
StatusCode terrace_cxx_writable_close(WritableFileHandle*, ErrorReport*) noexcept;
void terrace_cxx_writable_drop(WritableFileHandle*) noexcept;
bool terrace_cxx_file_exists(CxxSlice path) noexcept;
StatusCode terrace_cxx_file_list(CxxSlice dir, void* names, void (*add)(void* names, CxxSlice name), ErrorReport*) noexcept;
StatusCode terrace_cxx_file_remove(CxxSlice path, ErrorReport*) noexcept;
StatusCode terrace_cxx_dir_create(CxxSlice path, ErrorReport*) noexcept;
StatusCode terrace_cxx_dir_remove(CxxSlice path, ErrorReport*) noexcept;
StatusCode terrace_cxx_file_size(CxxSlice path, uint64_t* size, ErrorReport*) noexcept;
StatusCode terrace_cxx_file_rename(CxxSlice from, CxxSlice to, ErrorReport*) noexcept;
StatusCode terrace_cxx_file_lock(CxxSlice path, FileLockHandle**, ErrorReport*) noexcept;
void terrace_cxx_lock_drop(FileLockHandle*) noexcept;
StatusCode terrace_cxx_log_create(CxxSlice path, LoggerHandle**, ErrorReport*) noexcept;
void terrace_cxx_log_line(const LoggerHandle*, CxxSlice line) noexcept;
void terrace_cxx_log_drop(LoggerHandle*) noexcept;
void terrace_cxx_test_directory(CxxString) noexcept;
uint64_t terrace_cxx_now_us() noexcept;
void terrace_cxx_sleep_us(int micros) noexcept;

// Dump of a database file as text.
StatusCode terrace_cxx_dump(NullableUserObject<EnvCallbacks>, CxxSlice path, NullableUserObject<WritableFileCallbacks> to, ErrorReport*) noexcept;

// For callbacks of the program's objects.
void terrace_cxx_put_bytes(ByteBuffer*, CxxSlice) noexcept;
void terrace_cxx_add_name(Names*, CxxSlice) noexcept;
CachedBlock* terrace_cxx_block_share(const CachedBlock*) noexcept;
void terrace_cxx_block_drop(CachedBlock*) noexcept;

}  // extern "C"

}  // namespace terrace

#endif  // TERRACE_SHIM_CXX_ABI_H_
