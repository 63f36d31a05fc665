// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// A comparator: a total order of keys.

#ifndef STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
#define STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A total order of keys, which a program may implement. Any thread may call any method at any time.
// The methods must always give the same results and must not throw. The object must outlive every
// database and table that was opened with it.
class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Returns a value below 0, 0 or above 0 if a is less than, equal to or greater than b.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // Returns the name that the database stores at its creation and that every later open must match.
  // Change it when the order changes. Names that begin with "leveldb." are reserved.
  virtual const char* Name() const = 0;

  // The two methods below keep table indexes small. An empty implementation is correct.

  // May replace *start by a shorter key that is at least *start and less than limit, where *start
  // is less than limit.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // May replace *key by a shorter key that is at least *key.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Returns the bytewise comparator, which compares bytes as unsigned numbers and is the default. The
// library owns it and never destroys it.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
