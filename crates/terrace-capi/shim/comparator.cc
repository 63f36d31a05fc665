#include "leveldb/comparator.h"

#include "border.h"
#include "handed.h"

namespace leveldb {

Comparator::~Comparator() = default;

namespace {

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    terrace::terrace_cxx_bytewise_separator(terrace::Flat(*start), terrace::Flat(limit),
                                            terrace::Fill(start));
  }
  void FindShortSuccessor(std::string* key) const override {
    terrace::terrace_cxx_bytewise_successor(terrace::Flat(*key), terrace::Fill(key));
  }
};

}  // namespace

const Comparator* BytewiseComparator() {
  // Never destroyed: other objects that are may still use it.
  static const Comparator* const bytewise = new Bytewise;
  return bytewise;
}

}  // namespace leveldb

namespace terrace {
namespace {

const leveldb::Comparator* Of(void* object) { return static_cast<leveldb::Comparator*>(object); }

const ComparatorCalls kCalls = {
    [](void* object) { return Flat(Of(object)->Name()); },
    [](void* object, Bytes a, Bytes b) { return Of(object)->Compare(Sliced(a), Sliced(b)); },
    [](void* object, Bytes start, Bytes limit, Bin* into) {
      std::string key = String(start);
      Of(object)->FindShortestSeparator(&key, Sliced(limit));
      terrace_cxx_put_bytes(into, Flat(key));
    },
    [](void* object, Bytes from, Bin* into) {
      std::string key = String(from);
      Of(object)->FindShortSuccessor(&key);
      terrace_cxx_put_bytes(into, Flat(key));
    },
};

}  // namespace

Handed<ComparatorCalls> Hand(const leveldb::Comparator* comparator) {
  if (comparator == nullptr || comparator == leveldb::BytewiseComparator()) return {nullptr, nullptr};
  return {&kCalls, const_cast<leveldb::Comparator*>(comparator)};
}

}  // namespace terrace
