// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// A group of writes that take effect together or not at all.
//
//    0            8          12
//    +------------+----------+----------------------------------------
//    | sequence   | count    | 1 key value | 0 key | ...
//    +------------+----------+----------------------------------------
//     8 bytes      4 bytes    a tag, then varint32 lengths and bytes
//
// Writes take effect in order: the later of two writes to one key wins. Several threads may call
// const methods of one batch at once; all other calls require exclusive access.

#ifndef STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
#define STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_

#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  // Receives the writes of a batch, one call per write.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  // Creates an empty batch.
  WriteBatch();

  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;

  ~WriteBatch();

  // Adds a put of key.
  void Put(const Slice& key, const Slice& value);

  // Adds a removal of key, which need not exist.
  void Delete(const Slice& key);

  // Removes all writes.
  void Clear();

  // Returns the size of the batch in the log in bytes.
  size_t ApproximateSize() const;

  // Appends the writes of source, which may be this batch.
  void Append(const WriteBatch& source);

  // Passes the writes to handler, in order. Fails if the bytes are not a valid batch; handler has
  // then received the writes before the corruption.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  std::string rep_; // layout as above
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
