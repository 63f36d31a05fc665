// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// A table file: sorted keys and values, written once.

#ifndef STORAGE_LEVELDB_INCLUDE_TABLE_H_
#define STORAGE_LEVELDB_INCLUDE_TABLE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/iterator.h"

namespace leveldb {

class Block;
class BlockHandle;
class Footer;
struct Options;
class RandomAccessFile;
struct ReadOptions;
class TableCache;

// An open table without a database: its keys are those passed to TableBuilder::Add. Any number of
// threads may use it at once.
class LEVELDB_EXPORT Table {
 public:
  // Opens the table in the first file_size bytes of file, which is not owned. On success *table is
  // a new object for the caller to delete, before file and the objects of options; on an error it
  // is null. Uses the comparator, filter policy and block cache of the options.
  static Status Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                     Table** table);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  ~Table();

  // Returns an iterator over the entries, not yet valid. The caller deletes it, before the table.
  Iterator* NewIterator(const ReadOptions&) const;

  // Returns the approximate file offset of the entry of key, or of its place, in compressed bytes.
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  friend class TableCache;
  struct Rep;

  explicit Table(Rep* rep) : rep_(rep) {}

  Rep* const rep_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_TABLE_H_
