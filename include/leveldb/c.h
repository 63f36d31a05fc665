/* Copyright (c) 2011 The LevelDB Authors. All rights reserved.
 * Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* LevelDB's C interface, as Terrace implements it.
 *
 * Errors. A function that can fail takes `errptr` as its last argument. Set `*errptr` to NULL
 * before the first call. A failure stores a text there and frees the previous one; a success does
 * not touch it. Free the last text with leveldb_free. The text begins with its kind: "NotFound: ",
 * "Corruption: ", "Not implemented: ", "Invalid argument: " or "IO error: ". `errptr` itself may be
 * NULL.
 *
 * Memory. Keys and values are bytes with a length, without a terminating NUL. Copies for the caller
 * come from malloc; for borrowed memory the function states how long it is valid.
 *
 * Threads. Any number of threads may use a database at once, as well as snapshots, caches,
 * comparators, filter policies and environments. One thread at a time may use an iterator, a batch
 * or an options object.
 *
 * Lifetimes. Options copy their values, and a database shares the objects that its options name:
 * caches, comparators, filter policies and environments may be destroyed while a database uses
 * them. Their destructors run when their last user is destroyed. An iterator that outlives
 * leveldb_close keeps its state of the database.
 *
 * NULL. Destroying NULL does nothing. NULL options mean the defaults. A NULL database is an error,
 * not a crash.
 *
 * No function of this file throws, and callbacks must not throw either. */

#ifndef STORAGE_LEVELDB_INCLUDE_C_H_
#define STORAGE_LEVELDB_INCLUDE_C_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "leveldb/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- Databases ---- */

/* Opens the database in directory `name`; returns NULL on an error. Only one opener of all
 * processes can have a database open. */
LEVELDB_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Waits for running background work and closes the database. */
LEVELDB_EXPORT void leveldb_close(leveldb_t* db);

/* Sets the value of a key. When it returns, the write survives a crash of the process, and with the
 * option sync also a power cut. */
LEVELDB_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                                size_t keylen, const char* val, size_t vallen, char** errptr);

/* Removes a key. A missing key is not an error. */
LEVELDB_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                                   size_t keylen, char** errptr);

/* Applies a batch, all of it or, on an error, none. NULL instead of a batch flushes the memtable.
 */
LEVELDB_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                                  leveldb_writebatch_t* batch, char** errptr);

/* Returns a copy of the value, and its length in `*vallen`; NULL and 0 if there is no such key,
 * which is not an error. An empty value is not NULL. Free the copy with leveldb_free. */
LEVELDB_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                                 size_t keylen, size_t* vallen, char** errptr);

/* Creates an iterator over the current state. It is not valid yet: seek first. */
LEVELDB_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db,
                                                           const leveldb_readoptions_t* options);

/* Creates a snapshot of the current state, for later reads. */
LEVELDB_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

LEVELDB_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* Returns a property as a string; NULL if there is no such property. Free it with leveldb_free.
 *   leveldb.num-files-at-level<N>    number of tables on level N, 0 to 6
 *   leveldb.stats                    levels and compaction statistics
 *   leveldb.sstables                 every table with its key range
 *   leveldb.approximate-memory-usage bytes in memory */
LEVELDB_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);

/* Estimates the number of file bytes of the keys from each start, included, to its limit, excluded.
 * Memtables do not count. */
LEVELDB_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges,
                                              const char* const* range_start_key,
                                              const size_t* range_start_key_len,
                                              const char* const* range_limit_key,
                                              const size_t* range_limit_key_len, uint64_t* sizes);

/* Compacts all tables with keys in a range, which reclaims the space of deleted and overwritten
 * values. A NULL key means no bound. */
LEVELDB_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                                          const char* limit_key, size_t limit_key_len);

/* ---- Databases that are not open ---- */

/* Removes the database in directory `name`, and the directory if it is then empty. */
LEVELDB_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Repairs a damaged database and keeps all readable entries. Does not change a healthy one. */
LEVELDB_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

LEVELDB_EXPORT void leveldb_iter_destroy(leveldb_iterator_t*);

/* Returns 1 if the iterator is at an entry. */
LEVELDB_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t*);

/* Moves to the first key that is not less than `k`. */
LEVELDB_EXPORT void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);

/* These two do nothing if the iterator is not valid. */
LEVELDB_EXPORT void leveldb_iter_next(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_prev(leveldb_iterator_t*);

/* Borrowed until the iterator moves or is destroyed. Empty if the iterator is not valid. */
LEVELDB_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
LEVELDB_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);

/* First corruption or I/O error so far. A loop that must not miss entries checks it at the end. */
LEVELDB_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* ---- Batches ---- */

LEVELDB_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
LEVELDB_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t*);
LEVELDB_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t*);

/* The later of two writes to one key wins. Keys and values are copied. */
LEVELDB_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen,
                                           const char* val, size_t vlen);
LEVELDB_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);

/* Calls `put` and `deleted` with `state` for every write, in order. */
LEVELDB_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                               void (*put)(void*, const char* k, size_t klen,
                                                           const char* v, size_t vlen),
                                               void (*deleted)(void*, const char* k, size_t klen));

/* Appends the writes of `source` to `destination`. */
LEVELDB_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                                              const leveldb_writebatch_t* source);

/* ---- Options for opening ---- */

LEVELDB_EXPORT leveldb_options_t* leveldb_options_create(void);
LEVELDB_EXPORT void leveldb_options_destroy(leveldb_options_t*);

/* Comparator, which must be the one that the database was created with. Default: bytewise. */
LEVELDB_EXPORT void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);

/* Filter policy, which lets gets skip tables without the key. leveldb_filterpolicy_create_bloom(0)
 * disables filters. Default: a Bloom filter of 10 bits per key, like NULL; no filter if a
 * comparator is set. */
LEVELDB_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);

/* Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
/* Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);
/* Fails an open at the first corrupt log record, instead of skipping it. Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);

/* Default: the environment of the operating system, like NULL. */
LEVELDB_EXPORT void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);
/* Default: the file LOG of the database, like NULL. */
LEVELDB_EXPORT void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);

/* Bytes of a memtable before its flush: 64 KiB to 1 GiB. Default: 4 MiB, and up to 64 MiB while
 * writes come fast into a large database. */
LEVELDB_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);
/* Maximum number of open files: 74 to 50,000, default 1,000. */
LEVELDB_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t*, int);
/* Cache of decompressed blocks. Default: up to 128 MiB in a cache that the databases of the process
 * share, like NULL. */
LEVELDB_EXPORT void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
/* Bytes of a block before compression: 1 KiB to 4 MiB, default 4 KiB. */
LEVELDB_EXPORT void leveldb_options_set_block_size(leveldb_options_t*, size_t);
/* Number of keys between restart points: default 16. */
LEVELDB_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);
/* Bytes at which a compaction starts a new table: 1 MiB to 1 GiB. Default: 2 MiB, and up to 64 MiB
 * on a large level. */
LEVELDB_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
/* Default: snappy, which keeps the codec of an existing database, also if it is set explicitly. */
LEVELDB_EXPORT void leveldb_options_set_compression(leveldb_options_t*, int);

/* ---- Comparators ---- */

/* `compare` returns a value below 0, 0 or above 0, always the same for the same keys. The database
 * stores `name`, which must change if the order changes. Any thread may call both at any time. */
LEVELDB_EXPORT leveldb_comparator_t* leveldb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t*);

/* ---- Filter policies ---- */

/* `create_filter` returns bytes from malloc, and their length. `key_may_match` returns 0 only if
 * the key is certainly not in the filter. Tables store `name`, which must change if the filter
 * format changes. Any thread may call all of them at any time. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array,
                           int num_keys, size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter,
                             size_t filter_length),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);

/* Bloom filters. 10 bits per key give a false positive rate of about 1%. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options for reading ---- */

LEVELDB_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
LEVELDB_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t*);
/* Verifies uncompressed blocks of mapped tables at every read, not only at the first one since the
   open of the table. The checksum of every other block is verified when it is read from its file. */
LEVELDB_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);
/* Whether the blocks of this read are cached. Default: 1. */
LEVELDB_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);
/* Reads the state of a snapshot, which these options share until they are destroyed or get another.
 * Default: the state at the time of the read, like NULL. */
LEVELDB_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* ---- Options for writing ---- */

LEVELDB_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
LEVELDB_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);
/* Whether the write is durable when it returns. Default: 0. */
LEVELDB_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* ---- Caches ---- */

/* Creates a block cache of `capacity` bytes, which databases may share. */
LEVELDB_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
LEVELDB_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

/* Files, clock and threads of the operating system. */
LEVELDB_EXPORT leveldb_env_t* leveldb_create_default_env(void);
LEVELDB_EXPORT void leveldb_env_destroy(leveldb_env_t*);

/* Returns a directory for tests, created if missing: $TEST_TMPDIR, or one of this user's. Free the
 * name with leveldb_free. */
LEVELDB_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t*);

/* ---- The library ---- */

/* Frees a copy that a function of this file returned. `free` does the same. */
LEVELDB_EXPORT void leveldb_free(void* ptr);

/* Version of the LevelDB interface: 1 and 23. */
LEVELDB_EXPORT int leveldb_major_version(void);
LEVELDB_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STORAGE_LEVELDB_INCLUDE_C_H_ */
