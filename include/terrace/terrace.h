/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Extensions of Terrace to LevelDB's C interface.
 *
 * All functions work on the objects of leveldb/c.h and follow its rules for errors, memory, threads
 * and NULL. A program that also runs with LevelDB's own library looks these names up at run time:
 * dlsym(RTLD_DEFAULT, "terrace_version") is NULL there.
 *
 * The message of an error begins with its kind, as in LevelDB: "NotFound: ", "Corruption: ",
 * "Not implemented: ", "Invalid argument: ", "IO error: ". Functions of transactions have one kind
 * more, for an interfering writer or transaction: "Busy: ". */

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
 * Default: 0: all such databases share half of the memory that the process may use. This limit is
 * read once, when the process opens its first database. */
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

/* ---- Followers ---- */

/* Opens a database for reads beside its writer, which may be another process, with Terrace, LevelDB
 * or goleveldb. Takes no lock and writes nothing. A read that begins more than `max_age_us`
 * microseconds after the last catch-up catches up first; with 0, each read does. Reads show states
 * that the writer had, and never an earlier state than before. Snapshots and iterators hold the data
 * that they show. Writes are errors. After the database was repaired, restored or replaced, all reads
 * are errors. */
leveldb_t* terrace_open_follower(const leveldb_options_t* options, const char* name, uint64_t max_age_us,
                                 char** errptr);

/* Reads everything that the writer has stored. Later reads of this follower see each write that had
 * returned before this call began. Returns the sequence number of the state, or 0 after an error. For
 * a database that is not a follower, returns the sequence number of the last write. */
uint64_t terrace_catch_up(leveldb_t* db, char** errptr);

/* ---- Range deletion ---- */

/* Removes every key from `start_key`, included, to `limit_key`, excluded; NULL means no bound.
 * Removes tables inside the range as whole files. Durable when it returns, with every earlier
 * write. Keys that other threads write into the range meanwhile may be removed or not. After an
 * error or a crash some of the keys may be removed; the others are unchanged. */
void terrace_delete_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                          size_t limit_key_len, char** errptr);

/* ---- Transactions ---- */

/* A transaction reads one state of the database, and its writes take effect together at the commit.
 * The commit fails if another writer or transaction has changed anything that it read; plain writers
 * need not know of transactions. The program then repeats the whole transaction:
 *
 *   for (;;) {
 *     terrace_txn_t* txn = terrace_begin(db, NULL, &err);
 *     char* value = terrace_txn_get(txn, key, key_len, &value_len, &err);
 *     ...
 *     terrace_txn_put(txn, key, key_len, next, next_len, &err);
 *     int done = err == NULL && terrace_txn_commit(txn, NULL, &err);
 *     int again = terrace_txn_should_retry(txn);
 *     terrace_txn_destroy(txn);
 *     if (done || !again) break;
 *     leveldb_free(err);
 *     err = NULL;
 *   }
 *
 * Every function accepts a NULL transaction, with an error, so a program may check once, at the end.
 *
 * A transaction keeps old versions on disk from its first read to its end, so it should be short. One
 * thread at a time uses it; a call beside one of another thread returns an error at once, and the
 * transaction continues. After its commit or rollback, all calls but terrace_txn_error,
 * terrace_txn_should_retry, terrace_txn_rollback and terrace_txn_destroy return an error. It may
 * outlive its database, but cannot commit then. A forked child may read with a transaction of its
 * parent, but cannot lock keys or commit. */
typedef struct terrace_txn_t terrace_txn_t;
typedef struct terrace_txn_options_t terrace_txn_options_t;

/* Isolation levels. The default excludes all anomalies: the result is that of running the transaction
 * alone, at the moment of its commit. Snapshot isolation checks only the keys that the transaction
 * writes, or reads for update, so two transactions may each read a key that the other one writes. */
enum {
  terrace_serializable = 0,
  terrace_snapshot_isolation = 1
};

terrace_txn_options_t* terrace_txn_options_create(void);
void terrace_txn_options_destroy(terrace_txn_options_t*);

/* Returns 0, and changes nothing, if there is no such level. */
uint8_t terrace_txn_options_set_isolation(terrace_txn_options_t*, int level);

/* Locks each key at its first read or write until the end of the transaction. Other locking
 * transactions wait, at most for the timeout, so hot keys cause fewer conflicts. A read then returns
 * the newest value. Default: 0, and a timeout of 1,000 ms. */
void terrace_txn_options_set_locking(terrace_txn_options_t*, uint8_t);
void terrace_txn_options_set_lock_timeout_ms(terrace_txn_options_t*, uint64_t);

/* Maximum size of the reads and writes in memory, in bytes. A call beyond it fails with
 * terrace_txn_too_large and changes nothing. Default: 64 MiB. */
void terrace_txn_options_set_memory(terrace_txn_options_t*, size_t bytes);

/* Makes the commit return only when the writes are durable. Default: 0. */
void terrace_txn_options_set_sync(terrace_txn_options_t*, uint8_t);

/* Begins a transaction. NULL options are the defaults, and are copied. Returns NULL after an error.
 * The first read, not this call, determines the state that the transaction reads. */
terrace_txn_t* terrace_begin(leveldb_t* db, const terrace_txn_options_t* options, char** errptr);

/* Frees the transaction, and rolls it back if it has not ended. */
void terrace_txn_destroy(terrace_txn_t*);

/* Reads of one key, like leveldb_get. They see the transaction's own writes, and otherwise its state
 * of the database.
 *   get              the commit fails if another writer writes the key; not checked by snapshot isolation
 *   get_for_update   the commit fails if another writer writes the key, at each level; with locking,
 *                    locks the key exclusively
 *   get_untracked    the commit does not check the key */
char* terrace_txn_get(terrace_txn_t*, const char* key, size_t key_len, size_t* value_len, char** errptr);
char* terrace_txn_get_for_update(terrace_txn_t*, const char* key, size_t key_len, size_t* value_len,
                                 char** errptr);
char* terrace_txn_get_untracked(terrace_txn_t*, const char* key, size_t key_len, size_t* value_len,
                                char** errptr);

/* Like terrace_txn_get for each key, with the arrays of terrace_multi_get. */
void terrace_txn_multi_get(terrace_txn_t*, size_t count, const char* const* keys, const size_t* key_lens,
                           char** values, size_t* value_lens, char** errptr);

/* Writes, which other readers see after the commit. */
void terrace_txn_put(terrace_txn_t*, const char* key, size_t key_len, const char* value, size_t value_len,
                     char** errptr);
void terrace_txn_delete(terrace_txn_t*, const char* key, size_t key_len, char** errptr);

/* Creates an iterator over the transaction's state with its own writes until now, for leveldb_iter_*
 * and terrace_iter_*. The commit of a serializable transaction checks the range that the iterator
 * reads, and so notices new keys, too. Bounds and prefix of the options apply; a snapshot in them is an
 * error. The iterator may outlive its transaction. Returns NULL after an error. */
leveldb_iterator_t* terrace_txn_iterator(terrace_txn_t*, const leveldb_readoptions_t* options, char** errptr);

/* Marks the current moment, and returns its identifier, which no other savepoint of the process has; 0
 * after an error. rollback_to removes the writes since then, and later savepoints. The savepoint stays
 * valid, and the commit still checks the reads. Nothing is to be freed. */
uint64_t terrace_txn_savepoint(terrace_txn_t*, char** errptr);
void terrace_txn_rollback_to(terrace_txn_t*, uint64_t savepoint, char** errptr);

/* Writes everything and returns 1, or writes nothing and returns 0. After 0, an unchanged `*errptr`
 * means that another writer or transaction interfered: try again. Stores the sequence number of the
 * last write in `*sequence`, or that of the state that a transaction without writes has read; 0 after
 * a failure. `sequence` may be NULL. Ends the transaction in either case. */
uint8_t terrace_txn_commit(terrace_txn_t*, uint64_t* sequence, char** errptr);

/* Ends the transaction without a write. */
void terrace_txn_rollback(terrace_txn_t*, char** errptr);

/* Codes of the last failed call of a transaction. */
enum {
  terrace_txn_ok = 0,           /* No call has failed. */
  terrace_txn_conflict = 1,     /* Another writer changed a key on which the transaction depends. */
  terrace_txn_deadlock = 2,     /* Transactions waited for each other; this one has lost its locks. */
  terrace_txn_lock_timeout = 3, /* A lock was not released in time; this one has lost its locks. */
  terrace_txn_too_large = 4,    /* The memory limit; without this call, the transaction may commit. */
  terrace_txn_other_error = 5
};

/* Returns the code of the last failed call. Stores its message, which names the key of a conflict, in
 * `*message`, unless that is NULL: valid until the next call for the transaction; NULL for
 * terrace_txn_ok. NULL arguments and calls beside those of another thread are not recorded. */
int terrace_txn_error(const terrace_txn_t*, const char** message);

/* Returns 1 if the code is a conflict, a deadlock or a lock timeout: a new transaction may succeed. */
uint8_t terrace_txn_should_retry(const terrace_txn_t*);

/* ---- Conditional writes ---- */

/* Condition that no other writer wrote certain keys and ranges since a snapshot. A put, a deletion and
 * terrace_delete_range are writes, even if the value stays the same. Keys are copied. The snapshot may
 * be released. Returns NULL without a snapshot. */
typedef struct terrace_unchanged_t terrace_unchanged_t;
terrace_unchanged_t* terrace_unchanged_create(const leveldb_snapshot_t* since);
void terrace_unchanged_destroy(terrace_unchanged_t*);

/* Adds a key, which need not exist. `since` is 0, or a later sequence number than the snapshot's from
 * which on this key must be unchanged. */
void terrace_unchanged_add_key(terrace_unchanged_t*, const char* key, size_t key_len, uint64_t since);

/* Adds all keys, present or not, from `start_key`, included, to `limit_key`, excluded; NULL means no
 * bound. */
void terrace_unchanged_add_range(terrace_unchanged_t*, const char* start_key, size_t start_key_len,
                                 const char* limit_key, size_t limit_key_len);

/* Writes the batch if the condition holds at this moment. Check and write are one step: no other
 * write happens in between. Results are those of terrace_txn_commit. An empty batch only checks. */
uint8_t terrace_write_if(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                         const terrace_unchanged_t* unchanged, uint64_t* sequence, char** errptr);

/* Stores the sequence number of the last write of a key, a put or a deletion, and returns 1. Returns 0,
 * and stores 0, if no write is known: the key never existed, or compactions have dropped its tombstone.
 */
uint8_t terrace_last_change(leveldb_t* db, const char* key, size_t key_len, uint64_t* sequence,
                            char** errptr);

/* Sequence number of the last write that a snapshot contains; 0 for NULL. */
uint64_t terrace_snapshot_sequence(const leveldb_snapshot_t*);

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
 * function or until the iterator is destroyed. The result is smaller if there is no memory for an
 * entry. If that is the current one, the result is 0, and leveldb_iter_get_error returns the error
 * until the next call of either function. */
size_t terrace_iter_next_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);
size_t terrace_iter_prev_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);

/* ---- Calls for event loops and for bindings of other languages ---- */

/* Result of a call that never waits: it would wait for a file, a sync, another writer or background
 * work. It had no effect and set no error. The program makes the call that waits, on a thread that may
 * wait. */
#define TERRACE_WOULD_WAIT 2

/* Copies the value of a key into `buffer` and stores its length in `*value_len`. Returns 1 if the key
 * exists; 0, with length 0, if it does not exist or after an error. A value longer than `capacity` is
 * not copied: the program calls again with a buffer of that length. */
uint8_t terrace_get_into(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t key_len,
                         char* buffer, size_t capacity, size_t* value_len, char** errptr);

/* Same as terrace_get_into if memory holds the answer; otherwise returns TERRACE_WOULD_WAIT, and
 * terrace_get_into reads the file. */
uint8_t terrace_try_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t key_len,
                        char* buffer, size_t capacity, size_t* value_len, char** errptr);

/* Same as leveldb_write if that needs no wait. Returns 1 if the batch was written; TERRACE_WOULD_WAIT,
 * and writes nothing, if the options ask for a sync, the memtable is full, writes are delayed, or other
 * threads write at the same time; 0 after an error. */
uint8_t terrace_try_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                          char** errptr);

/* Returns 1 if a write would probably be delayed or stalled now. */
uint8_t terrace_would_wait(leveldb_t* db);

/* Makes all writes that have returned durable. Concurrent calls share one sync. */
void terrace_sync(leveldb_t* db, char** errptr);

/* Writes a batch in LevelDB's stored form, which the program has encoded: 8 bytes that are ignored, the
 * number of operations as a little-endian number of 32 bits, and for each operation the byte 1, key and
 * value for a put, or the byte 0 and the key for a deletion. A key or value is its length as a varint
 * of 32 bits, and its bytes. Bytes that are no batch are an error, and nothing is written. */
void terrace_write_bytes(leveldb_t* db, const leveldb_writeoptions_t* options, const char* batch, size_t len,
                         char** errptr);

/* Copies up to `count` entries, the current one first, into `buffer`, and moves the iterator beyond
 * them: forward, or backward if `forward` is 0. Stores their number in `*entries` and returns the number
 * of bytes. Each entry is the lengths of key and value as little-endian numbers of 32 bits, the key, and
 * the value. Copies no entry after damage, which other calls skip: the next call copies none, and
 * terrace_iter_get_error has the error. Otherwise, no entry although the iterator is valid means that
 * `capacity` is too small for the current one. */
size_t terrace_iter_take(leveldb_iterator_t*, uint8_t forward, size_t count, char* buffer, size_t capacity,
                         size_t* entries);

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
 * Only tables that no earlier backup has are stored. A damaged table is an error, and no backup is
 * added. Of the options only the environment matters, which is that of the database. Returns the number
 * of the backup; 0 after an error. The backup is the plain LevelDB directory backups/000001 for
 * number 1. */
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

/* ---- LevelDB's functions under names of Terrace ---- */

/* Each function is the one of leveldb/c.h whose name ends in the same way. A program that also links
 * LevelDB, such as a comparison of both, uses these names and libterrace.a: no other symbol of that
 * archive is visible. terrace_close and terrace_compact_range, which return errors, are above. */
leveldb_t* terrace_open(const leveldb_options_t* options, const char* name, char** errptr);
void terrace_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
    const char* val, size_t vallen, char** errptr);
void terrace_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
    char** errptr);
void terrace_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
    char** errptr);
char* terrace_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
    size_t* vallen, char** errptr);
leveldb_iterator_t* terrace_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);
const leveldb_snapshot_t* terrace_create_snapshot(leveldb_t* db);
void terrace_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);
char* terrace_property_value(leveldb_t* db, const char* propname);
void terrace_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key, const size_t* range_limit_key_len,
    uint64_t* sizes);
void terrace_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);
void terrace_repair_db(const leveldb_options_t* options, const char* name, char** errptr);
void terrace_iter_destroy(leveldb_iterator_t*);
uint8_t terrace_iter_valid(const leveldb_iterator_t*);
void terrace_iter_seek_to_first(leveldb_iterator_t*);
void terrace_iter_seek_to_last(leveldb_iterator_t*);
void terrace_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);
void terrace_iter_next(leveldb_iterator_t*);
void terrace_iter_prev(leveldb_iterator_t*);
const char* terrace_iter_key(const leveldb_iterator_t*, size_t* klen);
const char* terrace_iter_value(const leveldb_iterator_t*, size_t* vlen);
void terrace_iter_get_error(const leveldb_iterator_t*, char** errptr);
leveldb_writebatch_t* terrace_writebatch_create(void);
void terrace_writebatch_destroy(leveldb_writebatch_t*);
void terrace_writebatch_clear(leveldb_writebatch_t*);
void terrace_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen, const char* val,
    size_t vlen);
void terrace_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);
void terrace_writebatch_iterate(const leveldb_writebatch_t*, void* state, void (*put)(void*, const char* k,
    size_t klen, const char* v, size_t vlen), void (*deleted)(void*, const char* k, size_t klen));
void terrace_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);
leveldb_options_t* terrace_options_create(void);
void terrace_options_destroy(leveldb_options_t*);
void terrace_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);
void terrace_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);
void terrace_options_set_create_if_missing(leveldb_options_t*, uint8_t);
void terrace_options_set_error_if_exists(leveldb_options_t*, uint8_t);
void terrace_options_set_paranoid_checks(leveldb_options_t*, uint8_t);
void terrace_options_set_env(leveldb_options_t*, leveldb_env_t*);
void terrace_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);
void terrace_options_set_write_buffer_size(leveldb_options_t*, size_t);
void terrace_options_set_max_open_files(leveldb_options_t*, int);
void terrace_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
void terrace_options_set_block_size(leveldb_options_t*, size_t);
void terrace_options_set_block_restart_interval(leveldb_options_t*, int);
void terrace_options_set_max_file_size(leveldb_options_t*, size_t);
void terrace_options_set_compression(leveldb_options_t*, int);
leveldb_comparator_t* terrace_comparator_create( void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));
void terrace_comparator_destroy(leveldb_comparator_t*);
leveldb_filterpolicy_t* terrace_filterpolicy_create( void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
    size_t* filter_length), uint8_t (*key_may_match)(void*, const char* key, size_t length,
    const char* filter, size_t filter_length), const char* (*name)(void*));
void terrace_filterpolicy_destroy(leveldb_filterpolicy_t*);
leveldb_filterpolicy_t* terrace_filterpolicy_create_bloom(int bits_per_key);
leveldb_readoptions_t* terrace_readoptions_create(void);
void terrace_readoptions_destroy(leveldb_readoptions_t*);
void terrace_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);
void terrace_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);
void terrace_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);
leveldb_writeoptions_t* terrace_writeoptions_create(void);
void terrace_writeoptions_destroy(leveldb_writeoptions_t*);
void terrace_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);
leveldb_cache_t* terrace_cache_create_lru(size_t capacity);
void terrace_cache_destroy(leveldb_cache_t* cache);
leveldb_env_t* terrace_create_default_env(void);
void terrace_env_destroy(leveldb_env_t*);
char* terrace_env_get_test_directory(leveldb_env_t*);
void terrace_free(void* ptr);
int terrace_major_version(void);
int terrace_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TERRACE_TERRACE_H_ */
