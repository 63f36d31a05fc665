// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/filter_policy.h"

#include "convert.h"
#include "user_objects.h"

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

namespace {

class Bloom final : public FilterPolicy {
 public:
  explicit Bloom(int bits) : bits_(bits < 0 ? 0 : bits) {}

  int bits() const { return bits_; }

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    static_assert(sizeof(Slice) == sizeof(terrace::CxxSlice), "a slice is its bytes");
    terrace::terrace_cxx_bloom_create(bits_, reinterpret_cast<const terrace::CxxSlice*>(keys), n,
                                      terrace::AppendTo(dst));
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return terrace::terrace_cxx_bloom_match(terrace::ToCxxSlice(key), terrace::ToCxxSlice(filter));
  }

 private:
  const int bits_;
};

}  // namespace

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) { return new Bloom(bits_per_key); }

}  // namespace leveldb

namespace terrace {
namespace {

const leveldb::FilterPolicy* AsFilterPolicy(void* object) { return static_cast<leveldb::FilterPolicy*>(object); }

const FilterCallbacks kCallbacks = {
    [](void* object) { return ToCxxSlice(AsFilterPolicy(object)->Name()); },
    [](void* object, const CxxSlice* keys, int count, ByteBuffer* into) {
      std::string filter;
      AsFilterPolicy(object)->CreateFilter(reinterpret_cast<const leveldb::Slice*>(keys), count, &filter);
      terrace_cxx_put_bytes(into, ToCxxSlice(filter));
    },
    [](void* object, CxxSlice key, CxxSlice filter) {
      return AsFilterPolicy(object)->KeyMayMatch(ToSlice(key), ToSlice(filter));
    },
};

}  // namespace

NullableUserObject<FilterCallbacks> ToUserObject(const leveldb::FilterPolicy* policy) {
  if (policy == nullptr || BloomBits(policy) >= 0) return {nullptr, nullptr};
  return {&kCallbacks, const_cast<leveldb::FilterPolicy*>(policy)};
}

int BloomBits(const leveldb::FilterPolicy* policy) {
  static const leveldb::Bloom known(0);
  if (policy == nullptr || !HasSameVtable(policy, &known)) return -1;
  return static_cast<const leveldb::Bloom*>(policy)->bits();
}

}  // namespace terrace
