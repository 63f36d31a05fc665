// A few bits a key that tell most absent keys without reading their block.

#ifndef STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
#define STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A way to make filters and to ask them, which a program may bring along. Every method may be called by any thread at
// any time and must not throw. It outlives every database that was opened with it.
class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // The name that is stored beside the filters: change it when the bits change their meaning, or old filters hide keys.
  virtual const char* Name() const = 0;

  // Appends to *dst the filter of keys[0] to keys[n - 1], which are in order and may repeat. What *dst holds stays.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;

  // True if key was among the keys of filter. Of another key it may be true, and had better be false.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// Bloom filters of about bits_per_key bits for each key. 10 let one of a hundred absent keys through. The caller deletes
// it, after every database that has it.
//
// With a comparator that takes different bytes for the same key it hides keys: such an order wants a policy of its own.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
