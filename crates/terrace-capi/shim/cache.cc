// SPDX-License-Identifier: MIT OR Apache-2.0

// The cache of NewLRUCache. Blocks of databases are in a Rust block cache; entries of the program
// are in an LRU list here.

#include "leveldb/cache.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "convert.h"
#include "user_objects.h"

namespace leveldb {

Cache::~Cache() = default;

namespace {

// An entry is in the map until it is erased, replaced or evicted. While the map holds its only
// reference, it is also in the LRU list. It is deleted with its last reference.
class LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  ~LruCache() override {
    for (auto& item : map_) {
      assert(item.second->refs == 1); // the program has released all handles
      Delete(item.second);
    }
    if (block_cache_ != nullptr) terrace::terrace_cxx_cache_drop(block_cache_);
  }

  // Returns the block cache for databases, created at the first call.
  const terrace::BlockCache* block_cache() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (block_cache_ == nullptr) block_cache_ = terrace::terrace_cxx_cache(capacity_);
    return block_cache_;
  }

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    auto* entry = new Entry{{}, key.ToString(), value, charge, deleter, 1, false, {}};
    DeferredDeletes deferred;
    std::lock_guard<std::mutex> guard(mutex_);
    if (capacity_ > 0) {
      RemoveFromMap(key, &deferred);
      entry->refs++;
      entry->in_cache = true;
      map_[entry->key] = entry;
      charge_ += charge;
      while (charge_ > capacity_ && !lru_.empty()) RemoveFromMap(lru_.front()->key, &deferred);
    }
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = map_.find(key.ToString());
    if (found == map_.end()) return nullptr;
    Entry* entry = found->second;
    if (entry->refs++ == 1) lru_.erase(entry->lru_position);
    return entry;
  }

  void Release(Handle* handle) override {
    DeferredDeletes deferred;
    std::lock_guard<std::mutex> guard(mutex_);
    auto* entry = static_cast<Entry*>(handle);
    Unref(entry, &deferred);
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    DeferredDeletes deferred;
    std::lock_guard<std::mutex> guard(mutex_);
    RemoveFromMap(key, &deferred);
  }

  uint64_t NewId() override {
    std::lock_guard<std::mutex> guard(mutex_);
    return ++last_id_;
  }

  void Prune() override {
    DeferredDeletes deferred;
    std::lock_guard<std::mutex> guard(mutex_);
    while (!lru_.empty()) RemoveFromMap(lru_.front()->key, &deferred);
    if (block_cache_ != nullptr) terrace::terrace_cxx_cache_clear(block_cache_);
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> guard(mutex_);
    return charge_ + (block_cache_ == nullptr ? 0 : terrace::terrace_cxx_cache_usage(block_cache_));
  }

 private:
  struct Entry : Handle {
    Entry(const Handle& handle, std::string k, void* v, size_t c,
          void (*d)(const Slice&, void*), size_t u, bool m, std::list<Entry*>::iterator p)
        : Handle(handle), key(std::move(k)), value(v), charge(c), deleter(d), refs(u), in_cache(m), lru_position(p) {}
    const std::string key;
    void* const value;
    const size_t charge;
    void (*const deleter)(const Slice& key, void* value);
    size_t refs; // references of the map and of handles
    bool in_cache;
    std::list<Entry*>::iterator lru_position; // position in lru_, if the map has the only reference
  };

  // Entries without references. Deletes them after the lock is released, because a deleter may use
  // the cache.
  class DeferredDeletes {
   public:
    ~DeferredDeletes() {
      for (Entry* entry : entries_) Delete(entry);
    }
    void Add(Entry* entry) { entries_.push_back(entry); }

   private:
    std::list<Entry*> entries_;
  };

  static void Delete(Entry* entry) {
    entry->deleter(entry->key, entry->value);
    delete entry;
  }

  // Drops one reference.
  void Unref(Entry* entry, DeferredDeletes* deferred) {
    entry->refs--;
    if (entry->refs == 0) {
      deferred->Add(entry);
    } else if (entry->refs == 1 && entry->in_cache) {
      entry->lru_position = lru_.insert(lru_.end(), entry);
    }
  }

  // Removes the entry of key from the map.
  void RemoveFromMap(const Slice& key, DeferredDeletes* deferred) {
    const auto found = map_.find(key.ToString());
    if (found == map_.end()) return;
    Entry* entry = found->second;
    map_.erase(found);
    charge_ -= entry->charge;
    if (entry->refs == 1) lru_.erase(entry->lru_position);
    entry->in_cache = false;
    Unref(entry, deferred);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry*> map_;
  std::list<Entry*> lru_; // least recently used entry first
  size_t charge_ = 0; // total charge of the entries in the map
  uint64_t last_id_ = 0;
  const terrace::BlockCache* block_cache_ = nullptr;
};

}  // namespace

Cache* NewLRUCache(size_t capacity) { return new LruCache(capacity); }

}  // namespace leveldb

namespace terrace {
namespace {

leveldb::Cache* AsCache(void* object) { return static_cast<leveldb::Cache*>(object); }

const CacheCallbacks kCallbacks = {
    [](void* object, CxxSlice key, CachedBlock* block, size_t charge) {
      const auto drop = [](const leveldb::Slice&, void* value) {
        terrace_cxx_block_drop(static_cast<CachedBlock*>(value));
      };
      AsCache(object)->Release(AsCache(object)->Insert(ToSlice(key), block, charge, drop));
    },
    [](void* object, CxxSlice key) -> CachedBlock* {
      leveldb::Cache::Handle* handle = AsCache(object)->Lookup(ToSlice(key));
      if (handle == nullptr) return nullptr;
      CachedBlock* block = terrace_cxx_block_share(static_cast<CachedBlock*>(AsCache(object)->Value(handle)));
      AsCache(object)->Release(handle);
      return block;
    },
    [](void* object) -> size_t { return AsCache(object)->TotalCharge(); },
};

bool IsLruCache(const leveldb::Cache* cache) {
  static const leveldb::LruCache known(0);
  return HasSameVtable(cache, &known);
}

}  // namespace

NullableUserObject<CacheCallbacks> ToUserObject(leveldb::Cache* cache) {
  if (cache == nullptr || IsLruCache(cache)) return {nullptr, nullptr};
  return {&kCallbacks, cache};
}

const BlockCache* BuiltinBlockCache(leveldb::Cache* cache) {
  if (cache == nullptr || !IsLruCache(cache)) return nullptr;
  return static_cast<leveldb::LruCache*>(cache)->block_cache();
}

}  // namespace terrace
