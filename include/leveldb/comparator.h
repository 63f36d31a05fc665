// An order of keys.

#ifndef STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
#define STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A total order over keys, which a program may bring along. Every method may be called by any thread at any time, always
// with the same answers, and must not throw. It outlives every database and table that was opened with it.
class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Below 0, 0 or above 0, as a comes before b, is the same key, or comes behind.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // The name that a database stores at its creation, and that every later opening must come with: change it when the
  // order changes. Names that begin with "leveldb." are taken.
  virtual const char* Name() const = 0;

  // The two calls below keep the index of a table small. Doing nothing is right, too.

  // May make *start a shorter key that is not below it and is below limit, which is above *start.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // May make *key a shorter key that is not below it.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// The order of the bytes, as of unsigned numbers: what a database has that was given no order. The library owns it; it
// is never destroyed.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
