// Bytes of somebody else: a pointer and a length.
//
//    0        8
//    +--------+--------+
//    | data   | size   |   passed and returned in two registers
//    +--------+--------+
//
// A Slice owns nothing: whoever makes one sees to it that the bytes live as long as it is used. Any number of threads
// may read one.

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
  // No bytes.
  Slice() : data_(""), size_(0) {}

  // The n bytes from d on.
  Slice(const char* d, size_t n) : data_(d), size_(n) {}

  // The contents of s, while s stays as it is.
  Slice(const std::string& s) : data_(s.data()), size_(s.size()) {}

  // What stands before the zero that ends s.
  Slice(const char* s) : data_(s), size_(strlen(s)) {}

  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }

  size_t size() const { return size_; }

  bool empty() const { return size_ == 0; }

  // Byte number n, which is below size().
  char operator[](size_t n) const {
    assert(n < size());
    return data_[n];
  }

  // Refers to no bytes from now on.
  void clear() {
    data_ = "";
    size_ = 0;
  }

  // Gives up the first n bytes; there are that many.
  void remove_prefix(size_t n) {
    assert(n <= size());
    data_ += n;
    size_ -= n;
  }

  // A copy of the bytes.
  std::string ToString() const { return std::string(data_, size_); }

  // Below 0, 0 or above 0, as these bytes come before b's, are the same, or come behind. A prefix comes first.
  int compare(const Slice& b) const;

  // True if x is how these bytes begin.
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
