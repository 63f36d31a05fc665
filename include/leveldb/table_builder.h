// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Builder of a table file.

#ifndef STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_
#define STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/options.h"
#include "leveldb/status.h"

namespace leveldb {

class BlockBuilder;
class BlockHandle;
class WritableFile;

// Writes a table: Add entries in increasing key order, then Finish, or Abandon. Several threads may
// call const methods of one builder at once; all other calls require exclusive access.
class LEVELDB_EXPORT TableBuilder {
 public:
  // Appends the table to file, which is neither owned nor closed.
  TableBuilder(const Options& options, WritableFile* file);

  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  // Requires Finish or Abandon.
  ~TableBuilder();

  // Changes the options. The comparator must stay the same; others take effect with the next block.
  Status ChangeOptions(const Options& options);

  // Adds an entry whose key is greater than all previous ones. Does nothing after an error.
  void Add(const Slice& key, const Slice& value);

  // Ends the current block, so the next entry starts a new one. Rarely useful.
  void Flush();

  // Returns the first error, or OK.
  Status status() const;

  // Writes the rest of the table. No entry may be added afterwards.
  Status Finish();

  // Abandons the table, whose file is then unusable. No entry may be added afterwards.
  void Abandon();

  // Returns the number of entries.
  uint64_t NumEntries() const;

  // Returns the number of bytes written so far; after Finish, the size of the table.
  uint64_t FileSize() const;

 private:
  bool ok() const { return status().ok(); }

  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_
