// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// A database: a directory of files that maps keys to values, in key order.

#ifndef STORAGE_LEVELDB_INCLUDE_DB_H_
#define STORAGE_LEVELDB_INCLUDE_DB_H_

#include <cstdint>
#include <cstdio>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

// Version of LevelDB's interface and files.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

struct Options;
struct ReadOptions;
struct WriteOptions;
class WriteBatch;

// The state of a database at one moment. The database creates and releases it; any number of
// threads may use it.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// A range of keys from start, included, to limit, excluded.
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& s, const Slice& l) : start(s), limit(l) {}

  Slice start;
  Slice limit;
};

// An open database. Any number of threads may call any method at any time.
class LEVELDB_EXPORT DB {
 public:
  // Opens the database in directory name. On success *dbptr is a new object for the caller to
  // delete; on an error it is null. Only one process can have a database open, and only once.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;

  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;

  // Closes the database. All iterators must be deleted and all snapshots released before.
  virtual ~DB();

  // Sets the value of key.
  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;

  // Removes key. A missing key is not an error.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;

  // Applies all writes of the batch, or none. A null batch flushes the memtable.
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;

  // Stores the value of key in *value. Returns NotFound, and does not touch *value, if there is no
  // such key.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // Returns an iterator over the current state, or over the options' snapshot; it is not valid
  // before a seek. The caller deletes it, before the database.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  // Returns a snapshot of the current state, for ReadOptions. The caller releases it with
  // ReleaseSnapshot.
  virtual const Snapshot* GetSnapshot() = 0;

  // Releases a snapshot of this database.
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // Stores a property of the database in *value; returns false if there is no such property:
  //   leveldb.num-files-at-level<N>      number of tables on level N
  //   leveldb.stats                      compaction statistics, level by level
  //   leveldb.sstables                   every table with its key range
  //   leveldb.approximate-memory-usage   bytes in memory
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // Stores in sizes[i] an estimate of the file bytes of the keys in range[i], for i below n. Recent
  // writes, which are only in memory and the log, do not count.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;

  // Compacts the keys from *begin to *end, both included, which reclaims the space of deleted and
  // overwritten values. Null means no bound.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Removes all files of the database in directory name. Other files stay.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Repairs a database that cannot be opened, and keeps all readable entries. It must not be open.
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_DB_H_
