/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Extensions of Terrace to LevelDB's C interface.
 *
 * All functions work on the objects of leveldb/c.h and follow its rules for errors, memory, threads
 * and NULL. A program that also runs with LevelDB's own library looks these names up at run time:
 * dlsym(RTLD_DEFAULT, "terrace_version") is NULL there. */

#ifndef TERRACE_TERRACE_H_
#define TERRACE_TERRACE_H_

#include "leveldb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of Terrace, such as "0.1.0". */
const char* terrace_version(void);

/* ---- Options without a setter in LevelDB's C interface ---- */

/* Reuses the log and the manifest of a cleanly closed database, which makes opening faster.
 * Default: 0. */
void terrace_options_set_reuse_logs(leveldb_options_t*, uint8_t);

/* Total memory budget in bytes, at least 2 MiB, for memtables, cached blocks and open tables. The
 * property "terrace.memory" is the current use. Pages of mapped files do not count, nor does a
 * cache that the program set. A write buffer size other than LevelDB's default is not changed.
 * Default: 0, no budget; if the process may use less than 512 MiB, half of that. This limit is read
 * once, when the process opens its first database. */
void terrace_options_set_memory_budget(leveldb_options_t*, size_t bytes);

/* Sets the compression of new blocks by name: "none", "snappy", "zstd", "zlib" or "deflate", also for a
 * database whose tables have another codec. Returns 0 if there is no such codec. LevelDB refuses to
 * open a database with zstd and does not change it. The LevelDB of games reads zlib and deflate. */
uint8_t terrace_options_set_codec(leveldb_options_t*, const char* name);

/* Creates a logger for leveldb_options_set_info_log. Any thread may call `log`, which must not call
 * back into the database. A line has no newline and no terminating NUL. */
leveldb_logger_t* terrace_logger_create(void* state, void (*destructor)(void*),
                                        void (*log)(void*, const char* line, size_t len));
void terrace_logger_destroy(leveldb_logger_t*);

/* Creates an environment with files in memory, which are freed with their last user. For tests. */
leveldb_env_t* terrace_create_memory_env(void);

/* Current number of bytes in the cache. */
size_t terrace_cache_usage(const leveldb_cache_t*);

/* ---- Opening and closing ---- */

/* Opens a database read-only. Writes nothing, not even LOG. Any number of readers may have the
 * database open at once, but no writer. */
leveldb_t* terrace_open_read_only(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes a database, and reports whether all writes are durable. Frees the handle in either case.
 */
void terrace_close(leveldb_t* db, char** errptr);

/* ---- Range deletion ---- */

/* Removes every key from `start_key`, included, to `limit_key`, excluded; NULL means no bound.
 * Removes tables inside the range as whole files. Durable when it returns, with every earlier
 * write. Keys that other threads write into the range meanwhile may be removed or not. After an
 * error or a crash some of the keys may be removed; the others are unchanged. */
void terrace_delete_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                          size_t limit_key_len, char** errptr);

/* ---- Multiple reads ---- */

/* Reads the values of `count` keys from one state of the database. Stores copies in `values`, to be
 * freed each with leveldb_free, and their lengths; NULL and 0 for a missing key. After an error all
 * values are NULL. */
void terrace_multi_get(leveldb_t* db, const leveldb_readoptions_t* options, size_t count,
                       const char* const* keys, const size_t* key_lens, char** values, size_t* value_lens,
                       char** errptr);

/* Bounds of iterators that are created with these options: the lower bound is included, the upper
 * bound is not, and all keys begin with the prefix. A prefix needs the bytewise comparator. The key
 * is copied; NULL removes the bound. */
void terrace_readoptions_set_lower_bound(leveldb_readoptions_t*, const char* key, size_t len);
void terrace_readoptions_set_upper_bound(leveldb_readoptions_t*, const char* key, size_t len);
void terrace_readoptions_set_prefix(leveldb_readoptions_t*, const char* prefix, size_t len);

typedef struct terrace_entry {
  const char* key;
  size_t key_len;
  const char* value;
  size_t value_len;
} terrace_entry;

/* Fills up to `count` items of `entries` with the current entry of the iterator and those after it
 * (next) or before it (prev). Returns their number. The iterator then is at the entry after
 * (before) the last of them. The copies of keys and values are valid until the next call of either
 * function or until the iterator is destroyed. */
size_t terrace_iter_next_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);
size_t terrace_iter_prev_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);

/* ---- Statistics ---- */

/* Stores a numeric property in `*value` and returns 1; returns 0 if there is no such property. */
uint8_t terrace_property_number(leveldb_t* db, const char* name, uint64_t* value);

typedef struct terrace_level {
  uint64_t files;
  uint64_t bytes;
} terrace_level;

/* Stores the number of tables and bytes of each level in `levels`, up to `count` items. Returns the
 * number of levels. */
size_t terrace_levels(leveldb_t* db, terrace_level* levels, size_t count);

/* ---- Maintenance ---- */

/* Flushes the memtable to a table, and returns when the table is durable. */
void terrace_flush(leveldb_t* db, char** errptr);

/* Like leveldb_compact_range, but reports errors. */
void terrace_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len, char** errptr);

/* Checks every file of a database that is not open for writing, and changes nothing. Returns a
 * report with one line per problem and a summary line, to be freed with leveldb_free; NULL if the
 * check was impossible. */
char* terrace_verify(const leveldb_options_t* options, const char* name, size_t* problems, char** errptr);

/* Like leveldb_repair_db, but returns a report of the actions, to be freed with leveldb_free; NULL
 * on an error. With `dry_run` it only reports the planned actions and writes nothing. */
char* terrace_repair(const leveldb_options_t* options, const char* name, uint8_t dry_run, char** errptr);

/* ---- Checkpoints and backups ---- */

/* Creates a copy of an open database in the new directory `name`: a plain LevelDB directory with the
 * state of one moment. Writers continue meanwhile. On the same file system the copy links the tables,
 * otherwise it copies them. The copy is complete and durable on return; after an error, `name` does
 * not exist. Returns the sequence number of the last write in the copy; 0 after an error. */
uint64_t terrace_checkpoint(leveldb_t* db, const char* name, char** errptr);

/* Adds a backup of an open database to the directory `backups`, which is created if it is missing.
 * Only tables that no earlier backup has are stored. Of the options only the environment matters,
 * which is that of the database. Returns the number of the backup; 0 after an error. The backup is the
 * plain LevelDB directory backups/000001 for number 1. */
uint64_t terrace_backup_create(const leveldb_options_t* options, leveldb_t* db, const char* backups,
                               char** errptr);

/* Creates the new database directory `name` from backup `id`, or from the newest one if `id` is 0.
 * Compares every file with its hash first. After an error, `name` does not exist. */
void terrace_backup_restore(const leveldb_options_t* options, const char* backups, uint64_t id,
                            const char* name, char** errptr);

/* Compares every file of backup `id`, or of the newest one if `id` is 0, with its hash. Returns a
 * report with one line per problem and a summary line, to be freed with leveldb_free; NULL if the
 * check was impossible. */
char* terrace_backup_verify(const leveldb_options_t* options, const char* backups, uint64_t id,
                            size_t* problems, char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TERRACE_TERRACE_H_ */
