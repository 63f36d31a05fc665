// A database: a directory of files that maps keys to values, in the order of the keys.

#ifndef STORAGE_LEVELDB_INCLUDE_DB_H_
#define STORAGE_LEVELDB_INCLUDE_DB_H_

#include <cstdint>
#include <cstdio>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

// The LevelDB whose interface and files these are.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

struct Options;
struct ReadOptions;
struct WriteOptions;
class WriteBatch;

// The state of a database at one moment. Made and released by the database; any number of threads may use it.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// The keys from start on, up to limit but without it.
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& s, const Slice& l) : start(s), limit(l) {}

  Slice start;
  Slice limit;
};

// An open database. Any number of threads may call any method at any time.
class LEVELDB_EXPORT DB {
 public:
  // Opens the database in directory name. On success *dbptr is a new object for the caller to delete; on an error it is
  // null. One database is open once, in one process.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;

  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;

  // Closes it. Iterators are deleted and snapshots released before.
  virtual ~DB();

  // Gives key this value.
  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;

  // Removes key. It need not be there.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;

  // Applies all writes of the batch, or none. A null batch writes nothing, and turns what is in memory into a table.
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;

  // Puts the value of key into *value. NotFound if it has none; *value is left alone then.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // An iterator over the state of this moment, or of the options' snapshot; seek first. The caller deletes it, before
  // the database.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  // The state of this moment, for ReadOptions. The caller gives it to ReleaseSnapshot.
  virtual const Snapshot* GetSnapshot() = 0;

  // Gives up a snapshot of this database.
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // Puts what the database says of itself into *value; false if it knows nothing of that name:
  //   leveldb.num-files-at-level<N>      tables on level N
  //   leveldb.stats                      what merges have done, level by level
  //   leveldb.sstables                   every table with its keys
  //   leveldb.approximate-memory-usage   bytes in memory
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // Puts into sizes[i] about how many bytes of files the keys of range[i] take, for i below n. Recent writes, which are
  // only in memory and the log, do not count.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;

  // Merges what is stored of the keys from *begin to *end, both included: what was deleted or overwritten gives its
  // space back. Null is before, or behind, all keys.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Removes the database in directory name with all it holds. Files that are not a database's stay.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Makes a database that can't be opened one that can, with all that is still readable. It must not be open.
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_DB_H_
