// The ABI of the headers: sizes, offsets of members, virtual table slots, defaults. The output must
// be the same for our headers and the system's.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <typeinfo>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

// Returns the offset in bytes of a virtual method's slot in the virtual table, plus one. On ARM, the one is in the
// second word.
template <typename Method>
static size_t Slot(Method method) {
  size_t representation[2];
  static_assert(sizeof(representation) == sizeof(method), "of the Itanium ABI");
  std::memcpy(representation, &method, sizeof(method));
  return representation[0] + (representation[1] & 1);
}

#define TYPE(type) std::printf("%s: %zu bytes, aligned to %zu, %s\n", #type, sizeof(type), alignof(type), typeid(type).name())
#define MEMBER(type, member) std::printf("  %s at %zu\n", #member, offsetof(type, member))
#define METHOD(type, method) std::printf("  %s in slot %zu\n", #method, Slot(&type::method))

struct Keys : Comparator {};

int main() {
  std::printf("version %d.%d\n", kMajorVersion, kMinorVersion);

  TYPE(Slice);
  TYPE(Status);
  TYPE(WriteBatch);
  TYPE(Iterator);
  TYPE(Table);
  TYPE(TableBuilder);
  TYPE(EnvWrapper);
  TYPE(Keys);

  TYPE(Range);
  MEMBER(Range, start);
  MEMBER(Range, limit);

  TYPE(Options);
  MEMBER(Options, comparator);
  MEMBER(Options, create_if_missing);
  MEMBER(Options, error_if_exists);
  MEMBER(Options, paranoid_checks);
  MEMBER(Options, env);
  MEMBER(Options, info_log);
  MEMBER(Options, write_buffer_size);
  MEMBER(Options, max_open_files);
  MEMBER(Options, block_cache);
  MEMBER(Options, block_size);
  MEMBER(Options, block_restart_interval);
  MEMBER(Options, max_file_size);
  MEMBER(Options, compression);
  MEMBER(Options, reuse_logs);
  MEMBER(Options, filter_policy);
  std::printf("  compression %zu bytes: %d %d\n", sizeof(CompressionType), kNoCompression, kSnappyCompression);
  Options o;
  std::printf("  %s %d %d %d %d %p %zu %d %p %zu %d %zu %d %d %p\n", o.comparator->Name(), o.create_if_missing,
              o.error_if_exists, o.paranoid_checks, o.env == Env::Default(), static_cast<void*>(o.info_log),
              o.write_buffer_size, o.max_open_files, static_cast<void*>(o.block_cache), o.block_size,
              o.block_restart_interval, o.max_file_size, o.compression, o.reuse_logs,
              static_cast<const void*>(o.filter_policy));

  TYPE(ReadOptions);
  MEMBER(ReadOptions, verify_checksums);
  MEMBER(ReadOptions, fill_cache);
  MEMBER(ReadOptions, snapshot);
  ReadOptions r;
  std::printf("  %d %d %p\n", r.verify_checksums, r.fill_cache, static_cast<const void*>(r.snapshot));

  TYPE(WriteOptions);
  MEMBER(WriteOptions, sync);
  std::printf("  %d\n", WriteOptions().sync);

  TYPE(DB);
  METHOD(DB, Put);
  METHOD(DB, Delete);
  METHOD(DB, Write);
  METHOD(DB, Get);
  METHOD(DB, NewIterator);
  METHOD(DB, GetSnapshot);
  METHOD(DB, ReleaseSnapshot);
  METHOD(DB, GetProperty);
  METHOD(DB, GetApproximateSizes);
  METHOD(DB, CompactRange);

  METHOD(Iterator, Valid);
  METHOD(Iterator, SeekToFirst);
  METHOD(Iterator, SeekToLast);
  METHOD(Iterator, Seek);
  METHOD(Iterator, Next);
  METHOD(Iterator, Prev);
  METHOD(Iterator, key);
  METHOD(Iterator, value);
  METHOD(Iterator, status);

  TYPE(Comparator);
  METHOD(Comparator, Compare);
  METHOD(Comparator, Name);
  METHOD(Comparator, FindShortestSeparator);
  METHOD(Comparator, FindShortSuccessor);

  TYPE(FilterPolicy);
  METHOD(FilterPolicy, Name);
  METHOD(FilterPolicy, CreateFilter);
  METHOD(FilterPolicy, KeyMayMatch);

  TYPE(Cache);
  METHOD(Cache, Insert);
  METHOD(Cache, Lookup);
  METHOD(Cache, Release);
  METHOD(Cache, Value);
  METHOD(Cache, Erase);
  METHOD(Cache, NewId);
  METHOD(Cache, Prune);
  METHOD(Cache, TotalCharge);

  TYPE(Env);
  METHOD(Env, NewSequentialFile);
  METHOD(Env, NewRandomAccessFile);
  METHOD(Env, NewWritableFile);
  METHOD(Env, NewAppendableFile);
  METHOD(Env, FileExists);
  METHOD(Env, GetChildren);
  METHOD(Env, RemoveFile);
  METHOD(Env, DeleteFile);
  METHOD(Env, CreateDir);
  METHOD(Env, RemoveDir);
  METHOD(Env, DeleteDir);
  METHOD(Env, GetFileSize);
  METHOD(Env, RenameFile);
  METHOD(Env, LockFile);
  METHOD(Env, UnlockFile);
  METHOD(Env, Schedule);
  METHOD(Env, StartThread);
  METHOD(Env, GetTestDirectory);
  METHOD(Env, NewLogger);
  METHOD(Env, NowMicros);
  METHOD(Env, SleepForMicroseconds);

  TYPE(SequentialFile);
  METHOD(SequentialFile, Read);
  METHOD(SequentialFile, Skip);
  TYPE(RandomAccessFile);
  METHOD(RandomAccessFile, Read);
  TYPE(WritableFile);
  METHOD(WritableFile, Append);
  METHOD(WritableFile, Close);
  METHOD(WritableFile, Flush);
  METHOD(WritableFile, Sync);
  TYPE(Logger);
  METHOD(Logger, Logv);
  TYPE(FileLock);
  TYPE(Snapshot);
  TYPE(WriteBatch::Handler);
  METHOD(WriteBatch::Handler, Put);
  METHOD(WriteBatch::Handler, Delete);

  const Status status = Status::IOError("one", "two");
  const char* state;
  std::memcpy(&state, &status, sizeof(state));
  uint32_t len;
  std::memcpy(&len, state, sizeof(len));
  std::printf("%s: %u bytes, code %d\n", status.ToString().c_str(), len, state[4]);
}
