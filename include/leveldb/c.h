/* LevelDB's C interface, as Terrace's library answers it.
 *
 * Errors. A function that can fail takes `errptr` last. Let `*errptr` be NULL before the first call. A failure puts a
 * text there, and frees the one that was there; success leaves it alone. Free the last text with leveldb_free. The text
 * begins with its kind: "NotFound: ", "Corruption: ", "Not implemented: ", "Invalid argument: " or "IO error: ".
 * `errptr` itself may be NULL.
 *
 * Memory. Keys and values are bytes with a length, without a zero behind them. What a function copies for its caller is
 * from malloc; what it lends says until when.
 *
 * Threads. A database may be used by all threads at once, and so may snapshots, caches, comparators, filter policies
 * and environments. Iterators, batches and options belong to one thread at a time.
 *
 * Lifetimes. Options copy what is set in them, and a database shares what its options name: caches, comparators, filter
 * policies and environments may be destroyed while a database uses them, and their destructors run when the last user
 * is gone. An iterator that outlives leveldb_close goes on with the state that it has.
 *
 * NULL. Destroying NULL does nothing. NULL options are the defaults. A NULL database is an error, not a crash.
 *
 * No function of this file throws, and callbacks must not. */

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

/* Opens the database in directory `name`; NULL on an error. One opener at a time, of all processes. */
LEVELDB_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Waits for work in the background, and closes. */
LEVELDB_EXPORT void leveldb_close(leveldb_t* db);

/* Gives a key a value. Survives the death of the process when it returns, and a power cut too if the options say
 * sync. */
LEVELDB_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                                size_t keylen, const char* val, size_t vallen, char** errptr);

/* Removes a key. One that is not there is no error. */
LEVELDB_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                                   size_t keylen, char** errptr);

/* Applies a batch: all of it, or on an error none. NULL instead of a batch turns what is in memory into a table. */
LEVELDB_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                                  leveldb_writebatch_t* batch, char** errptr);

/* A copy of the value, and its length in `*vallen`; NULL and 0 if there is no such key, which is no error. An empty
 * value is not NULL. Free it with leveldb_free. */
LEVELDB_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                                 size_t keylen, size_t* vallen, char** errptr);

/* A walk over the state of this moment. It stands nowhere yet: seek first. */
LEVELDB_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db,
                                                           const leveldb_readoptions_t* options);

/* The state of this moment, for reads later. */
LEVELDB_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

LEVELDB_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* What the database says about itself, as a string; NULL if it knows no such property. Free it with leveldb_free.
 *   leveldb.num-files-at-level<N>    tables on level N, 0 to 6
 *   leveldb.stats                    levels, and what merging has cost
 *   leveldb.sstables                 every table with its range of keys
 *   leveldb.approximate-memory-usage bytes in memory */
LEVELDB_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);

/* About how many bytes of files hold the keys from each start up to, but without, its limit. What is in memory still
 * does not count. */
LEVELDB_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges,
                                              const char* const* range_start_key,
                                              const size_t* range_start_key_len,
                                              const char* const* range_limit_key,
                                              const size_t* range_limit_key_len, uint64_t* sizes);

/* Merges all tables with keys in a range, so that deleted and replaced values give their room back. A NULL key stands
 * for no bound. */
LEVELDB_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                                          const char* limit_key, size_t limit_key_len);

/* ---- Directories of databases that nobody has open ---- */

/* Removes the database in directory `name`, and the directory if nothing else is in it. */
LEVELDB_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Makes a damaged database open again, with what can still be read of it. A healthy one is left as it is. */
LEVELDB_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

LEVELDB_EXPORT void leveldb_iter_destroy(leveldb_iterator_t*);

/* 1 if it stands at an entry. */
LEVELDB_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t*);

/* To the first key that is not below `k`. */
LEVELDB_EXPORT void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);

/* These two do nothing if it stands at no entry. */
LEVELDB_EXPORT void leveldb_iter_next(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_prev(leveldb_iterator_t*);

/* Lent until the iterator moves or goes. No bytes if it stands at no entry. */
LEVELDB_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
LEVELDB_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);

/* The first damage or failure met so far: a loop that must not miss anything asks when it has ended. */
LEVELDB_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* ---- Batches ---- */

LEVELDB_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
LEVELDB_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t*);
LEVELDB_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t*);

/* Of two writes to one key the later one wins. Keys and values are copied. */
LEVELDB_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen,
                                           const char* val, size_t vlen);
LEVELDB_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);

/* Calls `put` and `deleted` with `state` for every write, in order. */
LEVELDB_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                               void (*put)(void*, const char* k, size_t klen,
                                                           const char* v, size_t vlen),
                                               void (*deleted)(void*, const char* k, size_t klen));

/* Adds the writes of `source` behind those of `destination`. */
LEVELDB_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                                              const leveldb_writebatch_t* source);

/* ---- Options for opening ---- */

LEVELDB_EXPORT leveldb_options_t* leveldb_options_create(void);
LEVELDB_EXPORT void leveldb_options_destroy(leveldb_options_t*);

/* The order of keys: the one that the database was created with. Default: that of their bytes. */
LEVELDB_EXPORT void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);

/* Lets look-ups skip tables that lack a key. Default: none, which NULL stands for. */
LEVELDB_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);

/* Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
/* Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);
/* Fail at open on the first damaged record of a log, instead of leaving it out. Default: 0. */
LEVELDB_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);

/* Default: the machine's, which NULL stands for. */
LEVELDB_EXPORT void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);
/* Default: the file LOG in the database, which NULL stands for. */
LEVELDB_EXPORT void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);

/* Bytes in memory before they become a table: 64 KiB to 1 GiB, default 4 MiB. */
LEVELDB_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);
/* Open files that the database may keep: 74 to 50,000, default 1,000. */
LEVELDB_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t*, int);
/* Default: one of 8 MiB of the database's own, which NULL stands for. */
LEVELDB_EXPORT void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
/* Bytes of a block before compression: 1 KiB to 4 MiB, default 4 KiB. */
LEVELDB_EXPORT void leveldb_options_set_block_size(leveldb_options_t*, size_t);
/* Keys between two that are stored whole: default 16. */
LEVELDB_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);
/* Bytes of a table before a merge begins the next: 1 MiB to 1 GiB, default 2 MiB. */
LEVELDB_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
/* Default: snappy. */
LEVELDB_EXPORT void leveldb_options_set_compression(leveldb_options_t*, int);

/* ---- Comparators ---- */

/* `compare` answers below 0, 0 or above 0, and always the same for the same keys. `name` is stored in the database: let
 * it change when the order does. Both may be called by any thread at any time. */
LEVELDB_EXPORT leveldb_comparator_t* leveldb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t*);

/* ---- Filter policies ---- */

/* `create_filter` returns bytes from malloc, and their length. `key_may_match` answers 0 only if the key was certainly
 * not among those of the filter. `name` is stored in tables: let it change when filters do. All may be called by any
 * thread at any time. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array,
                           int num_keys, size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter,
                             size_t filter_length),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);

/* The built-in one. 10 bits a key let 1 of 100 absent keys through. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options for reading ---- */

LEVELDB_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
LEVELDB_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t*);
/* Without effect: the checksum of every block that is read from a file is verified. */
LEVELDB_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);
/* Keep in the cache what this read fetches. Default: 1. */
LEVELDB_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);
/* Read the state of a snapshot, which stays until these options are destroyed or get another. Default: the state when
 * the read is made, which NULL stands for. */
LEVELDB_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* ---- Options for writing ---- */

LEVELDB_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
LEVELDB_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);
/* Return only when the write is on the medium. Default: 0. */
LEVELDB_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* ---- Caches ---- */

/* A cache of `capacity` bytes of blocks, that databases may share. */
LEVELDB_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
LEVELDB_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

/* The machine's files, clock and threads. */
LEVELDB_EXPORT leveldb_env_t* leveldb_create_default_env(void);
LEVELDB_EXPORT void leveldb_env_destroy(leveldb_env_t*);

/* A directory for tests, made if need be: $TEST_TMPDIR, or one of this user's. Free it with leveldb_free. */
LEVELDB_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t*);

/* ---- The library ---- */

/* Frees what a function of this file copied for its caller. `free` does the same. */
LEVELDB_EXPORT void leveldb_free(void* ptr);

/* The LevelDB whose interface this is: 1 and 23. */
LEVELDB_EXPORT int leveldb_major_version(void);
LEVELDB_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STORAGE_LEVELDB_INCLUDE_C_H_ */
