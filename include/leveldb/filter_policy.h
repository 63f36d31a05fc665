// Copyright (c) 2012 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Filters: a few bits per key that prove the absence of most absent keys without a block read.

#ifndef STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
#define STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A kind of filter, which a program may implement. Any thread may call any method at any time, and
// methods must not throw. The object must outlive every database that was opened with it.
class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // Returns the name that tables store with their filters. Change it when the filter format
  // changes; otherwise old filters would hide keys.
  virtual const char* Name() const = 0;

  // Appends to *dst the filter of keys[0] to keys[n - 1], which are in order and may repeat.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;

  // Returns true if key is one of the keys of filter. For other keys it may return true, but should
  // return false.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// Creates a policy of Bloom filters with about bits_per_key bits per key. 10 bits give a false
// positive rate of about 1%. The caller deletes it, after every database that uses it.
//
// With a comparator that treats different bytes as the same key, Bloom filters hide keys. Such a
// comparator needs a filter policy of its own.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
