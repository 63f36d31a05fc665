// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// A cache: values by key, up to a total charge.

#ifndef STORAGE_LEVELDB_INCLUDE_CACHE_H_
#define STORAGE_LEVELDB_INCLUDE_CACHE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// Creates a cache that evicts the least recently used entries when the charges exceed capacity. As
// Options::block_cache it holds about capacity bytes of blocks, and any number of databases may
// share it. The caller deletes it, after all of them.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

// Interface of a cache, which a program may implement. Any thread may call any method at any time.
class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;

  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Calls the deleter of every remaining entry. All handles must have been released.
  virtual ~Cache();

  // A referenced entry, which stays until it is released, even if it is erased or evicted
  // meanwhile.
  struct Handle {};

  // Inserts value under key, replacing an earlier entry, and returns a handle for the caller to
  // Release. deleter is called once, with key and value, when the entry has left the cache and its
  // last handle is released.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;

  // Returns a handle of the entry of key, for the caller to Release; null if there is none.
  virtual Handle* Lookup(const Slice& key) = 0;

  // Releases a handle that came from Insert or Lookup of this cache.
  virtual void Release(Handle* handle) = 0;

  // Returns the value of an unreleased handle.
  virtual void* Value(Handle* handle) = 0;

  // Removes the entry of key, if there is one. Its handles stay valid.
  virtual void Erase(const Slice& key) = 0;

  // Returns a new number. Users who share the cache put it into their keys to keep them apart.
  virtual uint64_t NewId() = 0;

  // Removes every entry without handles. The default does nothing.
  virtual void Prune() {}

  // Returns an estimate of the sum of all charges.
  virtual size_t TotalCharge() const = 0;

 private:
  void LRU_Remove(Handle* e);
  void LRU_Append(Handle* e);
  void Unref(Handle* e);

  struct Rep;
  Rep* rep_; // unused, but part of the layout
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_CACHE_H_
