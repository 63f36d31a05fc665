// How to open, to read and to write.

#ifndef STORAGE_LEVELDB_INCLUDE_OPTIONS_H_
#define STORAGE_LEVELDB_INCLUDE_OPTIONS_H_

#include <cstddef>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

// How the blocks of a table are stored. The numbers stand in the files.
enum CompressionType { kNoCompression = 0x0, kSnappyCompression = 0x1 };

// How to open a database, 96 bytes. What it points to is not owned and outlives the database. Sizes are moved to the
// nearer bound where they exceed what is allowed.
struct LEVELDB_EXPORT Options {
  // The defaults below, BytewiseComparator() and Env::Default().
  Options();

  // ---- What the database is.

  // The order of keys. Its name, and its order, must be those that the database was created with.
  const Comparator* comparator;

  // Create the database if it does not exist.
  bool create_if_missing = false;

  // Fail if the database exists.
  bool error_if_exists = false;

  // Fail at open on the first damaged log record, instead of reporting it to the info log and going on. Checksums are
  // verified either way.
  bool paranoid_checks = false;

  // Files, threads and clock.
  Env* env;

  // Receives what the database did. Null: the file LOG in its directory does.
  Logger* info_log = nullptr;

  // ---- What it costs.

  // Bytes of writes that are kept in memory, and in the log, before they become a table. 64 KiB to 1 GiB. More makes
  // writing faster and opening after a crash slower. Up to two such buffers live at a time.
  size_t write_buffer_size = 4 * 1024 * 1024;

  // Open files that the database may keep. 74 to 50,000.
  int max_open_files = 1000;

  // Keeps unpacked blocks at hand. Null: the database makes one for itself, of 8 MiB.
  Cache* block_cache = nullptr;

  // Bytes of keys and values in a block, before compression. 1 KiB to 4 MiB.
  size_t block_size = 4 * 1024;

  // So many keys of a block share prefixes before one is stored whole.
  int block_restart_interval = 16;

  // Bytes at which a merge begins a new table. 1 MiB to 1 GiB.
  size_t max_file_size = 2 * 1024 * 1024;

  // How blocks are stored. A block that compression hardly shrinks is stored as it is.
  CompressionType compression = kSnappyCompression;

  // Go on with the log and the manifest of the last run instead of writing new ones: opens faster.
  bool reuse_logs = false;

  // Lets look-ups skip tables that lack a key. NewBloomFilterPolicy() makes one.
  const FilterPolicy* filter_policy = nullptr;
};

// How to read.
struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  // Kept for its name: what is read from a file is always checked.
  bool verify_checksums = false;

  // Keep fetched blocks in the cache. Turn it off for a walk over much that is read once.
  bool fill_cache = true;

  // Read the state of that moment. Null: of the moment of the call. It must be of the same database, and not released.
  const Snapshot* snapshot = nullptr;
};

// How to write.
struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Return only when the write, and every write before it, is on the medium. Without it a write survives the death of
  // the process, but perhaps not that of the machine.
  bool sync = false;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_OPTIONS_H_
