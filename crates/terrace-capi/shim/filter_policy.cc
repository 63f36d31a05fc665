#include "leveldb/filter_policy.h"

#include "border.h"
#include "handed.h"

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

namespace {

class Bloom final : public FilterPolicy {
 public:
  explicit Bloom(int bits) : bits_(bits < 0 ? 0 : bits) {}

  int bits() const { return bits_; }

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    static_assert(sizeof(Slice) == sizeof(terrace::Bytes), "a slice is its bytes");
    terrace::terrace_cxx_bloom_create(bits_, reinterpret_cast<const terrace::Bytes*>(keys), n,
                                      terrace::Append(dst));
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return terrace::terrace_cxx_bloom_match(terrace::Flat(key), terrace::Flat(filter));
  }

 private:
  const int bits_;
};

}  // namespace

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) { return new Bloom(bits_per_key); }

}  // namespace leveldb

namespace terrace {
namespace {

const leveldb::FilterPolicy* Of(void* object) { return static_cast<leveldb::FilterPolicy*>(object); }

const FilterCalls kCalls = {
    [](void* object) { return Flat(Of(object)->Name()); },
    [](void* object, const Bytes* keys, int count, Bin* into) {
      std::string filter;
      Of(object)->CreateFilter(reinterpret_cast<const leveldb::Slice*>(keys), count, &filter);
      terrace_cxx_put_bytes(into, Flat(filter));
    },
    [](void* object, Bytes key, Bytes filter) {
      return Of(object)->KeyMayMatch(Sliced(key), Sliced(filter));
    },
};

}  // namespace

Handed<FilterCalls> Hand(const leveldb::FilterPolicy* policy) {
  if (policy == nullptr || BloomBits(policy) >= 0) return {nullptr, nullptr};
  return {&kCalls, const_cast<leveldb::FilterPolicy*>(policy)};
}

int BloomBits(const leveldb::FilterPolicy* policy) {
  static const leveldb::Bloom known(0);
  if (policy == nullptr || !OfClass(policy, &known)) return -1;
  return static_cast<const leveldb::Bloom*>(policy)->bits();
}

}  // namespace terrace
