// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// An iterator over keys and values in key order.

#ifndef STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
#define STORAGE_LEVELDB_INCLUDE_ITERATOR_H_

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

// Is at an entry, or not valid. Several threads may call const methods of one iterator at once; all
// other calls require exclusive access.
class LEVELDB_EXPORT Iterator {
 public:
  Iterator();

  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // Runs the registered cleanups.
  virtual ~Iterator();

  // Returns true if the iterator is at an entry. A new iterator is not valid: seek first.
  virtual bool Valid() const = 0;

  // Moves to the first entry; not valid afterwards if there is none.
  virtual void SeekToFirst() = 0;

  // Moves to the last entry; not valid afterwards if there is none.
  virtual void SeekToLast() = 0;

  // Moves to the first entry with a key of at least target; not valid afterwards if there is none.
  virtual void Seek(const Slice& target) = 0;

  // Moves to the next entry; not valid after the last one. Requires Valid().
  virtual void Next() = 0;

  // Moves to the previous entry; not valid before the first one. Requires Valid().
  virtual void Prev() = 0;

  // Returns the current key, borrowed until the iterator moves or is destroyed. Requires Valid().
  virtual Slice key() const = 0;

  // Returns the current value, borrowed until the iterator moves or is destroyed. Requires Valid().
  virtual Slice value() const = 0;

  // Returns the first corruption or I/O error, or OK. An iterator continues after corruption, so
  // check the status at the end.
  virtual Status status() const = 0;

  // Registers a call of function(arg1, arg2) for the destruction of this iterator. Each
  // registration runs once.
  using CleanupFunction = void (*)(void* arg1, void* arg2);
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  // A list whose first node is part of the iterator, because most iterators have at most one
  // cleanup.
  struct CleanupNode {
    bool IsEmpty() const { return function == nullptr; }
    void Run() {
      assert(function != nullptr);
      (*function)(arg1, arg2);
    }

    CleanupFunction function;
    void* arg1;
    void* arg2;
    CleanupNode* next;
  };
  CleanupNode cleanup_head_;
};

// Returns an empty iterator without an error. The caller deletes it.
LEVELDB_EXPORT Iterator* NewEmptyIterator();

// Returns an empty iterator with this status. The caller deletes it.
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
