// A table file: sorted keys and values, written once.

#ifndef STORAGE_LEVELDB_INCLUDE_TABLE_H_
#define STORAGE_LEVELDB_INCLUDE_TABLE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/iterator.h"

namespace leveldb {

class Block;
class BlockHandle;
class Footer;
struct Options;
class RandomAccessFile;
struct ReadOptions;
class TableCache;

// An open table, without a database around it: keys are what TableBuilder::Add was given. Any number of threads may use
// one at once.
class LEVELDB_EXPORT Table {
 public:
  // Opens the table in the first file_size bytes of file. On success *table is a new object for the caller to delete,
  // before file and what options point to; on an error it is null. Uses comparator, filter policy and block cache of
  // the options. file is not owned.
  static Status Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                     Table** table);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  ~Table();

  // An iterator over the entries, not yet valid. The caller deletes it, before the table.
  Iterator* NewIterator(const ReadOptions&) const;

  // About where in the file the entry of key is, or would be. Counts bytes as stored, so compressed ones.
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  friend class TableCache;
  struct Rep;

  explicit Table(Rep* rep) : rep_(rep) {}

  Rep* const rep_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_TABLE_H_
