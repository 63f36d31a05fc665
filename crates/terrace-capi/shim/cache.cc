// The cache that NewLRUCache makes: as a block cache it is Rust's, and what a program itself keeps in it is here.

#include "leveldb/cache.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "border.h"
#include "handed.h"

namespace leveldb {

Cache::~Cache() = default;

namespace {

// An entry is in the map until it is erased, replaced or pushed out, and in the line of those to be pushed out while it is
// in the map and nobody else uses it. It goes with its last user, of which the map is one.
class LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  ~LruCache() override {
    for (auto& named : map_) {
      assert(named.second->users == 1);  // no handle is out
      Drop(named.second);
    }
    if (blocks_ != nullptr) terrace::terrace_cxx_cache_drop(blocks_);
  }

  // The blocks of databases; made when the first asks.
  const terrace::BlockCache* blocks() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (blocks_ == nullptr) blocks_ = terrace::terrace_cxx_cache(capacity_);
    return blocks_;
  }

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    auto* entry = new Entry{{}, key.ToString(), value, charge, deleter, 1, false, {}};
    Dropping dropped;
    std::lock_guard<std::mutex> guard(mutex_);
    if (capacity_ > 0) {
      Leave(key, &dropped);
      entry->users++;
      entry->mapped = true;
      map_[entry->key] = entry;
      charge_ += charge;
      while (charge_ > capacity_ && !line_.empty()) Leave(line_.front()->key, &dropped);
    }
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = map_.find(key.ToString());
    if (found == map_.end()) return nullptr;
    Entry* entry = found->second;
    if (entry->users++ == 1) line_.erase(entry->place);
    return entry;
  }

  void Release(Handle* handle) override {
    Dropping dropped;
    std::lock_guard<std::mutex> guard(mutex_);
    auto* entry = static_cast<Entry*>(handle);
    GiveUp(entry, &dropped);
    while (charge_ > capacity_ && !line_.empty()) Leave(line_.front()->key, &dropped);
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    Dropping dropped;
    std::lock_guard<std::mutex> guard(mutex_);
    Leave(key, &dropped);
  }

  uint64_t NewId() override {
    std::lock_guard<std::mutex> guard(mutex_);
    return ++last_id_;
  }

  void Prune() override {
    Dropping dropped;
    std::lock_guard<std::mutex> guard(mutex_);
    while (!line_.empty()) Leave(line_.front()->key, &dropped);
    if (blocks_ != nullptr) terrace::terrace_cxx_cache_clear(blocks_);
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> guard(mutex_);
    return charge_ + (blocks_ == nullptr ? 0 : terrace::terrace_cxx_cache_usage(blocks_));
  }

 private:
  struct Entry : Handle {
    Entry(const Handle& handle, std::string k, void* v, size_t c,
          void (*d)(const Slice&, void*), size_t u, bool m, std::list<Entry*>::iterator p)
        : Handle(handle), key(std::move(k)), value(v), charge(c), deleter(d), users(u), mapped(m), place(p) {}
    const std::string key;
    void* const value;
    const size_t charge;
    void (*const deleter)(const Slice& key, void* value);
    size_t users;  // the map, and handles
    bool mapped;
    std::list<Entry*>::iterator place;  // in the line, if the map is the only user
  };

  // Entries without users. Destroyed after the lock is given back: a deleter may use the cache.
  class Dropping {
   public:
    ~Dropping() {
      for (Entry* entry : entries_) Drop(entry);
    }
    void Add(Entry* entry) { entries_.push_back(entry); }

   private:
    std::list<Entry*> entries_;
  };

  static void Drop(Entry* entry) {
    entry->deleter(entry->key, entry->value);
    delete entry;
  }

  // One user less.
  void GiveUp(Entry* entry, Dropping* dropped) {
    entry->users--;
    if (entry->users == 0) {
      dropped->Add(entry);
    } else if (entry->users == 1 && entry->mapped) {
      entry->place = line_.insert(line_.end(), entry);
    }
  }

  // Takes the entry of key out of the map.
  void Leave(const Slice& key, Dropping* dropped) {
    const auto found = map_.find(key.ToString());
    if (found == map_.end()) return;
    Entry* entry = found->second;
    map_.erase(found);
    charge_ -= entry->charge;
    if (entry->users == 1) line_.erase(entry->place);
    entry->mapped = false;
    GiveUp(entry, dropped);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry*> map_;
  std::list<Entry*> line_;  // the first was not used for longest
  size_t charge_ = 0;       // of the entries in the map
  uint64_t last_id_ = 0;
  const terrace::BlockCache* blocks_ = nullptr;
};

}  // namespace

Cache* NewLRUCache(size_t capacity) { return new LruCache(capacity); }

}  // namespace leveldb

namespace terrace {
namespace {

leveldb::Cache* Of(void* object) { return static_cast<leveldb::Cache*>(object); }

const CacheCalls kCalls = {
    [](void* object, Bytes key, CachedBlock* block, size_t charge) {
      const auto drop = [](const leveldb::Slice&, void* value) {
        terrace_cxx_block_drop(static_cast<CachedBlock*>(value));
      };
      Of(object)->Release(Of(object)->Insert(Sliced(key), block, charge, drop));
    },
    [](void* object, Bytes key) -> CachedBlock* {
      leveldb::Cache::Handle* handle = Of(object)->Lookup(Sliced(key));
      if (handle == nullptr) return nullptr;
      CachedBlock* block = terrace_cxx_block_share(static_cast<CachedBlock*>(Of(object)->Value(handle)));
      Of(object)->Release(handle);
      return block;
    },
    [](void* object) -> size_t { return Of(object)->TotalCharge(); },
};

bool IsOwn(const leveldb::Cache* cache) {
  static const leveldb::LruCache known(0);
  return OfClass(cache, &known);
}

}  // namespace

Handed<CacheCalls> Hand(leveldb::Cache* cache) {
  if (cache == nullptr || IsOwn(cache)) return {nullptr, nullptr};
  return {&kCalls, cache};
}

const BlockCache* Blocks(leveldb::Cache* cache) {
  if (cache == nullptr || !IsOwn(cache)) return nullptr;
  return static_cast<leveldb::LruCache*>(cache)->blocks();
}

}  // namespace terrace
