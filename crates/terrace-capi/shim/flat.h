// The database as plain functions: what the classes here are made of. Defined in src/flat, in Rust; the two change
// together.
//
// Every function may be called from any thread, and none throws. One that returns a Code leaves a malloc'ed text in its
// Report if that is not 0. Objects made by a function are given back to the one whose name ends in drop, close or
// release. Tables of calls are for objects that a program brings: Rust calls them, from any thread, and they must not
// throw either.

#ifndef TERRACE_SHIM_FLAT_H_
#define TERRACE_SHIM_FLAT_H_

#include <cstddef>
#include <cstdint>

namespace terrace {

// The layout of leveldb::Slice.
struct Bytes {
  const char* start;
  size_t len;
};

// The number of a kind of error, as in leveldb::Status; 0 is success.
using Code = uint8_t;

struct Report {
  char* text;
  size_t len;
};

// A std::string to fill, and how.
struct Text {
  void* string;
  void (*take)(void* string, Bytes bytes);
};

// An object that a program brings, and the calls for its kind; null calls if there is none.
template <typename Calls>
struct Handed {
  const Calls* calls;
  void* object;
};

// Of Rust; known by pointer only.
struct Db;
struct Cursor;
struct Snapshot;
struct TableFile;
struct Builder;
struct BlockCache;
struct CachedBlock;
struct Sequential;
struct Random;
struct Writable;
struct Lock;
struct LogFile;
struct Bin;    // receives bytes: terrace_cxx_put_bytes
struct Names;  // receives names: terrace_cxx_add_name

struct ComparatorCalls {
  Bytes (*name)(void*);
  int (*compare)(void*, Bytes, Bytes);
  void (*separator)(void*, Bytes start, Bytes limit, Bin* into);
  void (*successor)(void*, Bytes key, Bin* into);
};

struct FilterCalls {
  Bytes (*name)(void*);
  void (*create)(void*, const Bytes* keys, int count, Bin* into);
  bool (*may_match)(void*, Bytes key, Bytes filter);
};

struct CacheCalls {
  void (*insert)(void*, Bytes key, CachedBlock* block, size_t charge);
  CachedBlock* (*lookup)(void*, Bytes key);
  size_t (*charge)(void*);
};

struct LoggerCalls {
  void (*log)(void*, Bytes line);
  void (*remove)(void*);
};

struct SequentialCalls {
  Code (*read)(void*, size_t n, char* scratch, Bytes* found, Report*);
  Code (*skip)(void*, uint64_t n, Report*);
  void (*remove)(void*);
};

struct RandomCalls {
  Code (*read)(void*, uint64_t offset, size_t n, char* scratch, Bytes* found, Report*);
  void (*remove)(void*);
};

struct WritableCalls {
  Code (*append)(void*, Bytes, Report*);
  Code (*flush)(void*, Report*);
  Code (*sync)(void*, Report*);
  Code (*close)(void*, Report*);
  void (*remove)(void*);
};

struct EnvCalls {
  Code (*open_sequential)(void*, Bytes path, Handed<SequentialCalls>*, Report*);
  Code (*open_random)(void*, Bytes path, Handed<RandomCalls>*, Report*);
  Code (*create)(void*, Bytes path, Handed<WritableCalls>*, Report*);
  Code (*append)(void*, Bytes path, Handed<WritableCalls>*, Report*);
  bool (*exists)(void*, Bytes path);
  Code (*list)(void*, Bytes dir, Names* into, Report*);
  Code (*remove)(void*, Bytes path, Report*);
  Code (*create_dir)(void*, Bytes dir, Report*);
  Code (*remove_dir)(void*, Bytes dir, Report*);
  Code (*len)(void*, Bytes path, uint64_t* len, Report*);
  Code (*rename)(void*, Bytes from, Bytes to, Report*);
  Code (*lock)(void*, Bytes path, void** lock, Report*);
  void (*unlock)(void*, void* lock);
  void (*schedule)(void*, void (*function)(void*), void* arg);
  Handed<LoggerCalls> (*new_logger)(void*, Bytes path);
  uint64_t (*now_us)(void*);
  void (*sleep_us)(void*, int micros);
};

// leveldb::Options, with the library's own classes as what they are: an absent comparator is the bytewise one, an absent
// environment the machine's.
struct FlatOptions {
  Handed<ComparatorCalls> comparator;
  Handed<EnvCalls> env;
  Handed<LoggerCalls> logger;
  Handed<FilterCalls> filter;
  Handed<CacheCalls> cache;
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

struct FlatRead {
  const Snapshot* snapshot;
  bool verify_checksums;
  bool fill_cache;
};

struct Entry {
  Bytes key;
  Bytes value;
  bool valid;
};

// The layout of leveldb::Range.
struct Span {
  Bytes start;
  Bytes limit;
};

extern "C" {

// Dbs.
Code terrace_cxx_open(const FlatOptions*, Bytes path, Db**, Report*) noexcept;
void terrace_cxx_close(Db*) noexcept;
Code terrace_cxx_put(const Db*, Bytes key, Bytes value, bool sync, Report*) noexcept;
Code terrace_cxx_delete(const Db*, Bytes key, bool sync, Report*) noexcept;
Code terrace_cxx_write(const Db*, Bytes batch, bool sync, Report*) noexcept;
Code terrace_cxx_flush(const Db*, Report*) noexcept;
Code terrace_cxx_get(const Db*, Bytes key, FlatRead, Text value, bool* found, Report*) noexcept;
Cursor* terrace_cxx_iterate(const Db*, FlatRead) noexcept;
Snapshot* terrace_cxx_snapshot(const Db*) noexcept;
void terrace_cxx_snapshot_release(Snapshot*) noexcept;
bool terrace_cxx_property(const Db*, Bytes name, Text value) noexcept;
void terrace_cxx_sizes(const Db*, const Span*, int n, uint64_t* sizes) noexcept;
void terrace_cxx_compact(const Db*, const Bytes* begin, const Bytes* end) noexcept;
Code terrace_cxx_destroy(const FlatOptions*, Bytes path, Report*) noexcept;
Code terrace_cxx_repair(const FlatOptions*, Bytes path, Report*) noexcept;

// Iterators: each move answers with the new place.
Entry terrace_cxx_first(Cursor*) noexcept;
Entry terrace_cxx_last(Cursor*) noexcept;
Entry terrace_cxx_seek(Cursor*, Bytes target) noexcept;
Entry terrace_cxx_next(Cursor*) noexcept;
Entry terrace_cxx_prev(Cursor*) noexcept;
Code terrace_cxx_status(const Cursor*, Report*) noexcept;
void terrace_cxx_cursor_drop(Cursor*) noexcept;

// Tables without a database.
Code terrace_cxx_table_open(const FlatOptions*, Handed<RandomCalls>, uint64_t len, TableFile**, Report*) noexcept;
Cursor* terrace_cxx_table_iterate(const TableFile*, bool fill_cache) noexcept;
uint64_t terrace_cxx_table_offset(const TableFile*, Bytes key) noexcept;
void terrace_cxx_table_drop(TableFile*) noexcept;
Builder* terrace_cxx_builder(const FlatOptions*, Handed<WritableCalls>) noexcept;
Code terrace_cxx_builder_change(Builder*, const FlatOptions*, Report*) noexcept;
void terrace_cxx_builder_add(Builder*, Bytes key, Bytes value) noexcept;
void terrace_cxx_builder_flush(Builder*) noexcept;
Code terrace_cxx_builder_status(const Builder*, Report*) noexcept;
Code terrace_cxx_builder_finish(Builder*, Report*) noexcept;
void terrace_cxx_builder_abandon(Builder*) noexcept;
uint64_t terrace_cxx_builder_entries(const Builder*) noexcept;
uint64_t terrace_cxx_builder_size(const Builder*) noexcept;
void terrace_cxx_builder_drop(Builder*) noexcept;

// What the library's own classes do.
void terrace_cxx_bytewise_separator(Bytes start, Bytes limit, Text) noexcept;
void terrace_cxx_bytewise_successor(Bytes key, Text) noexcept;
void terrace_cxx_bloom_create(int bits, const Bytes* keys, int count, Text) noexcept;
bool terrace_cxx_bloom_match(Bytes key, Bytes filter) noexcept;
const BlockCache* terrace_cxx_cache(size_t capacity) noexcept;
void terrace_cxx_cache_clear(const BlockCache*) noexcept;
size_t terrace_cxx_cache_usage(const BlockCache*) noexcept;
void terrace_cxx_cache_drop(const BlockCache*) noexcept;

// The machine's files, clock and directory for tests.
Code terrace_cxx_file_sequential(Bytes path, Sequential**, Report*) noexcept;
Code terrace_cxx_sequential_read(Sequential*, size_t n, char* into, size_t* read, Report*) noexcept;
Code terrace_cxx_sequential_skip(Sequential*, uint64_t n, Report*) noexcept;
void terrace_cxx_sequential_drop(Sequential*) noexcept;
Code terrace_cxx_file_random(Bytes path, Random**, Report*) noexcept;
Code terrace_cxx_random_read(const Random*, uint64_t offset, size_t n, char* into, size_t* read, Report*) noexcept;
void terrace_cxx_random_drop(Random*) noexcept;
Code terrace_cxx_file_create(Bytes path, Writable**, Report*) noexcept;
Code terrace_cxx_file_append(Bytes path, Writable**, Report*) noexcept;
Code terrace_cxx_writable_append(Writable*, Bytes, Report*) noexcept;
Code terrace_cxx_writable_flush(Writable*, Report*) noexcept;
Code terrace_cxx_writable_sync(Writable*, Report*) noexcept;
Code terrace_cxx_writable_close(Writable*, Report*) noexcept;
void terrace_cxx_writable_drop(Writable*) noexcept;
bool terrace_cxx_file_exists(Bytes path) noexcept;
Code terrace_cxx_file_list(Bytes dir, void* names, void (*take)(void* names, Bytes name), Report*) noexcept;
Code terrace_cxx_file_remove(Bytes path, Report*) noexcept;
Code terrace_cxx_dir_create(Bytes path, Report*) noexcept;
Code terrace_cxx_dir_remove(Bytes path, Report*) noexcept;
Code terrace_cxx_file_size(Bytes path, uint64_t* size, Report*) noexcept;
Code terrace_cxx_file_rename(Bytes from, Bytes to, Report*) noexcept;
Code terrace_cxx_file_lock(Bytes path, Lock**, Report*) noexcept;
void terrace_cxx_lock_drop(Lock*) noexcept;
Code terrace_cxx_log_create(Bytes path, LogFile**, Report*) noexcept;
void terrace_cxx_log_line(const LogFile*, Bytes line) noexcept;
void terrace_cxx_log_drop(LogFile*) noexcept;
void terrace_cxx_test_directory(Text) noexcept;
uint64_t terrace_cxx_now_us() noexcept;
void terrace_cxx_sleep_us(int micros) noexcept;

// A file of a database as text.
Code terrace_cxx_dump(Handed<EnvCalls>, Bytes path, Handed<WritableCalls> to, Report*) noexcept;

// For calls of a program's objects.
void terrace_cxx_put_bytes(Bin*, Bytes) noexcept;
void terrace_cxx_add_name(Names*, Bytes) noexcept;
CachedBlock* terrace_cxx_block_share(const CachedBlock*) noexcept;
void terrace_cxx_block_drop(CachedBlock*) noexcept;

}  // extern "C"

}  // namespace terrace

#endif  // TERRACE_SHIM_FLAT_H_
