// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/comparator.h"

#include "convert.h"
#include "user_objects.h"

namespace leveldb {

Comparator::~Comparator() = default;

namespace {

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    terrace::terrace_cxx_bytewise_separator(terrace::ToCxxSlice(*start), terrace::ToCxxSlice(limit),
                                            terrace::AssignTo(start));
  }
  void FindShortSuccessor(std::string* key) const override {
    terrace::terrace_cxx_bytewise_successor(terrace::ToCxxSlice(*key), terrace::AssignTo(key));
  }
};

}  // namespace

const Comparator* BytewiseComparator() {
  // Never destroyed, because other static objects may still use it.
  static const Comparator* const bytewise = new Bytewise;
  return bytewise;
}

}  // namespace leveldb

namespace terrace {
namespace {

const leveldb::Comparator* AsComparator(void* object) { return static_cast<leveldb::Comparator*>(object); }

const ComparatorCallbacks kCallbacks = {
    [](void* object) { return ToCxxSlice(AsComparator(object)->Name()); },
    [](void* object, CxxSlice a, CxxSlice b) { return AsComparator(object)->Compare(ToSlice(a), ToSlice(b)); },
    [](void* object, CxxSlice start, CxxSlice limit, ByteBuffer* into) {
      std::string key = ToString(start);
      AsComparator(object)->FindShortestSeparator(&key, ToSlice(limit));
      terrace_cxx_put_bytes(into, ToCxxSlice(key));
    },
    [](void* object, CxxSlice from, ByteBuffer* into) {
      std::string key = ToString(from);
      AsComparator(object)->FindShortSuccessor(&key);
      terrace_cxx_put_bytes(into, ToCxxSlice(key));
    },
};

}  // namespace

NullableUserObject<ComparatorCallbacks> ToUserObject(const leveldb::Comparator* comparator) {
  if (comparator == nullptr || comparator == leveldb::BytewiseComparator()) return {nullptr, nullptr};
  return {&kCallbacks, const_cast<leveldb::Comparator*>(comparator)};
}

}  // namespace terrace
