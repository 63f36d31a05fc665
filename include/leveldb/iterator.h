// A walk over keys and values in their order.

#ifndef STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
#define STORAGE_LEVELDB_INCLUDE_ITERATOR_H_

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

// Stands at an entry, or is not valid. Several threads may call const methods of one iterator at once; with any other
// call it belongs to one thread.
class LEVELDB_EXPORT Iterator {
 public:
  Iterator();

  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // Runs the registered cleanups.
  virtual ~Iterator();

  // True at an entry. A new iterator is not valid: seek first.
  virtual bool Valid() const = 0;

  // To the first entry; not valid afterwards if there is none.
  virtual void SeekToFirst() = 0;

  // To the last entry; not valid afterwards if there is none.
  virtual void SeekToLast() = 0;

  // To the first entry whose key is target or behind it; not valid afterwards if there is none.
  virtual void Seek(const Slice& target) = 0;

  // To the next entry; not valid behind the last one. Only at an entry.
  virtual void Next() = 0;

  // To the entry before; not valid before the first one. Only at an entry.
  virtual void Prev() = 0;

  // The key here, which stays until the iterator moves or goes. Only at an entry.
  virtual Slice key() const = 0;

  // The value here, which stays until the iterator moves or goes. Only at an entry.
  virtual Slice value() const = 0;

  // The first damage or failure that was met, or OK. An iterator goes on behind damage, so look here at the end.
  virtual Status status() const = 0;

  // Has function(arg1, arg2) called when this iterator is destroyed. May be called more than once: each registration
  // runs once.
  using CleanupFunction = void (*)(void* arg1, void* arg2);
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  // A list whose first node lies in the iterator, as nearly all have one cleanup at most.
  struct CleanupNode {
    bool IsEmpty() const { return function == nullptr; }
    void Run() {
      assert(function != nullptr);
      (*function)(arg1, arg2);
    }

    CleanupFunction function;
    void* arg1;
    void* arg2;
    CleanupNode* next;
  };
  CleanupNode cleanup_head_;
};

// An iterator over nothing, without error. The caller deletes it.
LEVELDB_EXPORT Iterator* NewEmptyIterator();

// An iterator over nothing that has this status. The caller deletes it.
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
