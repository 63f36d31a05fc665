// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Borrowed bytes: a pointer and a length.
//
//    0        8
//    +--------+--------+
//    | data   | size   |   passed and returned in two registers
//    +--------+--------+
//
// A Slice owns nothing: its creator must keep the bytes alive as long as it is used. Any number of
// threads may read one.

#ifndef STORAGE_LEVELDB_INCLUDE_SLICE_H_
#define STORAGE_LEVELDB_INCLUDE_SLICE_H_

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

class LEVELDB_EXPORT Slice {
 public:
  // Creates an empty slice.
  Slice() : data_(""), size_(0) {}

  // Refers to the n bytes at d.
  Slice(const char* d, size_t n) : data_(d), size_(n) {}

  // Refers to the contents of s, until s changes.
  Slice(const std::string& s) : data_(s.data()), size_(s.size()) {}

  // Refers to the NUL-terminated string s.
  Slice(const char* s) : data_(s), size_(strlen(s)) {}

  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }

  size_t size() const { return size_; }

  bool empty() const { return size_ == 0; }

  // Returns byte n, which must be less than size().
  char operator[](size_t n) const {
    assert(n < size());
    return data_[n];
  }

  // Makes the slice empty.
  void clear() {
    data_ = "";
    size_ = 0;
  }

  // Drops the first n bytes, of which there must be as many.
  void remove_prefix(size_t n) {
    assert(n <= size());
    data_ += n;
    size_ -= n;
  }

  // Returns a copy of the bytes.
  std::string ToString() const { return std::string(data_, size_); }

  // Returns a value below 0, 0 or above 0 if these bytes are less than, equal to or greater than
  // those of b. A prefix is less than the longer bytes.
  int compare(const Slice& b) const;

  // Returns true if x is a prefix of these bytes.
  bool starts_with(const Slice& x) const {
    return size_ >= x.size_ && memcmp(data_, x.data_, x.size_) == 0;
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& x, const Slice& y) {
  return x.size() == y.size() && memcmp(x.data(), y.data(), x.size()) == 0;
}

inline bool operator!=(const Slice& x, const Slice& y) { return !(x == y); }

inline int Slice::compare(const Slice& b) const {
  const size_t both = size_ < b.size_ ? size_ : b.size_;
  const int differs = memcmp(data_, b.data_, both);
  if (differs != 0 || size_ == b.size_) return differs;
  return size_ < b.size_ ? -1 : +1;
}

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_SLICE_H_
