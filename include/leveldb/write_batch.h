// Writes that take effect together, or not at all.
//
//    0            8          12
//    +------------+----------+----------------------------------------
//    | sequence   | count    | 1 key value | 0 key | ...
//    +------------+----------+----------------------------------------
//     8 bytes      4 bytes    a tag, then lengths as varint32 and bytes
//
// They take effect in their order: of two writes of one key, the later counts. Several threads may call const methods of
// one batch at once; with any other call it belongs to one thread.

#ifndef STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
#define STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_

#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  // Receives the writes of a batch, one call each.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  // Without writes.
  WriteBatch();

  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;

  ~WriteBatch();

  // Gives key this value.
  void Put(const Slice& key, const Slice& value);

  // Removes key, be it there or not.
  void Delete(const Slice& key);

  // Forgets all writes.
  void Clear();

  // The bytes that the batch takes in the log.
  size_t ApproximateSize() const;

  // Adds the writes of source behind these; source may be this batch.
  void Append(const WriteBatch& source);

  // Shows the writes to handler, in order. An error if the bytes are not those of a batch; handler has then seen what
  // stands before the damage.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  std::string rep_;  // the picture above
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
