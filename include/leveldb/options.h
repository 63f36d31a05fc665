// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Options for opening, reading and writing.

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

// Compression of the blocks of a table. The files store these numbers.
enum CompressionType { kNoCompression = 0x0, kSnappyCompression = 0x1 };

// Options of a database, 96 bytes. Pointed-to objects are not owned and must outlive the database.
// Sizes outside their bounds are clipped.
struct LEVELDB_EXPORT Options {
  // Sets the defaults below, BytewiseComparator() and Env::Default().
  Options();

  // ---- Behaviour.

  // Comparator. Its name and order must be those that the database was created with.
  const Comparator* comparator;

  // Creates the database if it does not exist.
  bool create_if_missing = false;

  // Fails if the database exists.
  bool error_if_exists = false;

  // Fails an open at the first corrupt log record, instead of logging and skipping it. Checksums
  // are verified in either case.
  bool paranoid_checks = false;

  // Environment: files, threads and clock.
  Env* env;

  // Receives the info log. Null means the file LOG of the database.
  Logger* info_log = nullptr;

  // ---- Performance.

  // Bytes of a memtable before its flush, 64 KiB to 1 GiB. More makes writes faster and opening
  // after a crash slower. A full memtable and the next one coexist. The default value lets Terrace
  // choose: 4 MiB, and up to 64 MiB while writes come fast into a large database.
  size_t write_buffer_size = 4 * 1024 * 1024;

  // Maximum number of open files, 74 to 50,000.
  int max_open_files = 1000;

  // Cache of decompressed blocks. Null means up to 128 MiB in a cache that the databases of the
  // process share.
  Cache* block_cache = nullptr;

  // Bytes of keys and values in a block before compression, 1 KiB to 4 MiB.
  size_t block_size = 4 * 1024;

  // Number of keys between restart points.
  int block_restart_interval = 16;

  // Bytes at which a compaction starts a new table, 1 MiB to 1 GiB. The default value lets Terrace
  // choose: 2 MiB, and up to 64 MiB on a large level.
  size_t max_file_size = 2 * 1024 * 1024;

  // Compression of blocks. A block that hardly shrinks is stored uncompressed. Snappy keeps the codec
  // of an existing database.
  CompressionType compression = kSnappyCompression;

  // Reuses the log and the manifest of the last run, which makes opening faster.
  bool reuse_logs = false;

  // Filter policy, which lets gets skip tables without the key. NewBloomFilterPolicy(0) disables
  // filters. Null means a Bloom filter of 10 bits per key for BytewiseComparator(), and no filter
  // for another comparator.
  const FilterPolicy* filter_policy = nullptr;
};

// Options of reads.
struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  // Verifies uncompressed blocks of mapped tables at every read, not only at the first one since the
  // open of the table. Every other block is verified when it is read from its file.
  bool verify_checksums = false;

  // Caches the blocks of this read. Turn it off for large scans.
  bool fill_cache = true;

  // Reads the state of this snapshot of the same database, which must not be released. Null means
  // the state at the time of the call.
  const Snapshot* snapshot = nullptr;
};

// Options of writes.
struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Returns only when this write and every earlier one are durable. Without it a write survives a
  // crash of the process, but perhaps not a power cut.
  bool sync = false;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_OPTIONS_H_
