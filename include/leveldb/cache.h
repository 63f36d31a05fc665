// What was fetched and may be wanted again: values by key, up to a sum of charges.

#ifndef STORAGE_LEVELDB_INCLUDE_CACHE_H_
#define STORAGE_LEVELDB_INCLUDE_CACHE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// A cache that gives up what was not used for longest when the charges exceed capacity. As Options::block_cache it
// holds about capacity bytes of blocks, and may serve any number of databases. The caller deletes it, after all of them.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

// A cache, which a program may bring along. Every method may be called by any thread at any time.
class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;

  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Calls the deleter of everything that is left. No handle is out any more.
  virtual ~Cache();

  // An entry that somebody uses; it stays until he is done, be it erased or pushed out meanwhile.
  struct Handle {};

  // Keeps value under key, in place of what was there, and returns a handle on it for the caller to Release. When the
  // entry is in nobody's use any more, deleter is called, once, with its key and value.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;

  // A handle on the entry of key for the caller to Release; null if there is none.
  virtual Handle* Lookup(const Slice& key) = 0;

  // Gives back a handle of this cache, which came from Insert or Lookup and was not given back.
  virtual void Release(Handle* handle) = 0;

  // The value behind a handle that is out.
  virtual void* Value(Handle* handle) = 0;

  // Forgets the entry of key, if there is one. Who uses it goes on.
  virtual void Erase(const Slice& key) = 0;

  // A number that this cache gives to nobody else: those who share it put it into their keys, and never meet.
  virtual uint64_t NewId() = 0;

  // Forgets every entry that nobody uses. The default keeps them all.
  virtual void Prune() {}

  // About the sum of the charges of all entries.
  virtual size_t TotalCharge() const = 0;

 private:
  void LRU_Remove(Handle* e);
  void LRU_Append(Handle* e);
  void Unref(Handle* e);

  struct Rep;
  Rep* rep_;  // never used, but every object is so much larger
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_CACHE_H_
