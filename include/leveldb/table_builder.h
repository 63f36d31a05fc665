// Makes a table file.

#ifndef STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_
#define STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/options.h"
#include "leveldb/status.h"

namespace leveldb {

class BlockBuilder;
class BlockHandle;
class WritableFile;

// A table on its way to a file: Add in rising order, then Finish, or Abandon. Several threads may call const methods of
// one builder at once; with any other call it belongs to one thread.
class LEVELDB_EXPORT TableBuilder {
 public:
  // Appends the table to file, which is not owned and not closed.
  TableBuilder(const Options& options, WritableFile* file);

  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  // After Finish or Abandon.
  ~TableBuilder();

  // Goes on with other options. The comparator must stay the same; others count from the next block on.
  Status ChangeOptions(const Options& options);

  // Adds an entry whose key is behind all keys so far. Does nothing after an error.
  void Add(const Slice& key, const Slice& value);

  // Ends the block here, so that the next entry begins one. Rarely of use.
  void Flush();

  // The first error so far, or OK.
  Status status() const;

  // Writes the rest of the table. Nothing may be added afterwards.
  Status Finish();

  // Leaves the table unfinished; the file is of no use. Nothing may be added afterwards.
  void Abandon();

  // How many entries were added.
  uint64_t NumEntries() const;

  // The bytes given to the file so far; after Finish, the size of the table.
  uint64_t FileSize() const;

 private:
  bool ok() const { return status().ok(); }

  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_TABLE_BUILDER_H_
