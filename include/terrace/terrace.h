/* What Terrace's library can beyond LevelDB's C interface.
 *
 * Everything here works on the objects of leveldb/c.h, and what is said there about errors, memory, threads and NULL
 * holds here. A program that also runs with LevelDB's own library looks these names up when it runs: dlsym(RTLD_DEFAULT,
 * "terrace_version") is NULL there. */

#ifndef TERRACE_TERRACE_H_
#define TERRACE_TERRACE_H_

#include "leveldb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of Terrace, such as "0.1.0". */
const char* terrace_version(void);

/* ---- Options that LevelDB's C interface can't set ---- */

/* Go on with the log and the manifest of the last run where they end in good order, which makes opening faster.
 * Default: 0. */
void terrace_options_set_reuse_logs(leveldb_options_t*, uint8_t);

/* About the memory that the database may take, in bytes, 2 MiB or more: memtables, cached blocks, and what open tables hold.
 * The property "terrace.memory" is what it takes. Pages of mapped files are not counted, nor is a cache that is set. A write
 * buffer that is set to another size than LevelDB's default stays as it is. Default: 0, no budget; but where the process may have
 * less than 512 MiB, half of that. What it may have is looked up once, when it opens its first database. */
void terrace_options_set_memory_budget(leveldb_options_t*, size_t bytes);

/* How blocks are compressed, by name: "none", "snappy" or "zstd". 0 if there is no such codec. With zstd the database
 * can't be opened by LevelDB any more, which then says so and changes nothing. */
uint8_t terrace_options_set_codec(leveldb_options_t*, const char* name);

/* A receiver of the lines of the info log, for leveldb_options_set_info_log. `log` may be called by any thread, must
 * not call back into the database, and gets a line without its newline or a zero behind it. */
leveldb_logger_t* terrace_logger_create(void* state, void (*destructor)(void*),
                                        void (*log)(void*, const char* line, size_t len));
void terrace_logger_destroy(leveldb_logger_t*);

/* Files in memory, empty at first, gone with the last user. For tests. */
leveldb_env_t* terrace_create_memory_env(void);

/* Bytes in the cache now. */
size_t terrace_cache_usage(const leveldb_cache_t*);

/* ---- Opening and closing ---- */

/* Opens for reading only. Writes nothing, not even LOG; any number of readers may have it open at once, and no writer
 * meanwhile. */
leveldb_t* terrace_open_read_only(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes, and says whether all that was written is on the medium. The handle is gone either way. */
void terrace_close(leveldb_t* db, char** errptr);

/* ---- Removing much at once ---- */

/* Removes every key from `start_key` up to, but without, `limit_key`; NULL is an open end. Tables with no other keys are
 * removed whole. Durable when this returns, with every write before it. Keys that others write into the range meanwhile
 * may stay or go. If it fails, or the process dies meanwhile, some of the keys may be gone and the others are as they were. */
void terrace_delete_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                          size_t limit_key_len, char** errptr);

/* ---- Reading much at once ---- */

/* The values of `count` keys, all of one moment: copies in `values`, to be freed each with leveldb_free, and their
 * lengths. NULL and 0 where there is no such key. After an error all are NULL. */
void terrace_multi_get(leveldb_t* db, const leveldb_readoptions_t* options, size_t count,
                       const char* const* keys, const size_t* key_lens, char** values, size_t* value_lens,
                       char** errptr);

/* Iterators made with these options show no key below the lower bound, none at or above the upper bound, and only keys
 * that begin with the prefix (which needs the order of bytes). The key is copied; NULL takes the bound away. */
void terrace_readoptions_set_lower_bound(leveldb_readoptions_t*, const char* key, size_t len);
void terrace_readoptions_set_upper_bound(leveldb_readoptions_t*, const char* key, size_t len);
void terrace_readoptions_set_prefix(leveldb_readoptions_t*, const char* prefix, size_t len);

typedef struct terrace_entry {
  const char* key;
  size_t key_len;
  const char* value;
  size_t value_len;
} terrace_entry;

/* Fills `entries`, which has room for `count`, with the entry where the iterator stands and those behind it (next) or
 * before it (prev), and says how many there were. The iterator then stands behind (before) the last of them. Keys and
 * values are copies that the iterator lends until the next call of either function, or until it goes. */
size_t terrace_iter_next_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);
size_t terrace_iter_prev_entries(leveldb_iterator_t*, size_t count, terrace_entry* entries);

/* ---- Statistics ---- */

/* A property that is a number: 1, and the number in `*value`; or 0 if there is none of that name. */
uint8_t terrace_property_number(leveldb_t* db, const char* name, uint64_t* value);

typedef struct terrace_level {
  uint64_t files;
  uint64_t bytes;
} terrace_level;

/* Tables and their bytes, level by level: fills `levels`, which has room for `count`, and says how many levels there
 * are. */
size_t terrace_levels(leveldb_t* db, terrace_level* levels, size_t count);

/* ---- Upkeep ---- */

/* Turns what is in memory into a table, and returns when that is durable. */
void terrace_flush(leveldb_t* db, char** errptr);

/* leveldb_compact_range, which says whether it succeeded. */
void terrace_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len, char** errptr);

/* Reads every file of a database that nobody has open for writing, and changes nothing. The report is a line for every
 * problem and one that sums up; free it with leveldb_free. NULL if nothing could be checked. */
char* terrace_verify(const leveldb_options_t* options, const char* name, size_t* problems, char** errptr);

/* leveldb_repair_db, with a report of what was done, or with `dry_run` would be: then nothing is written. Free it with
 * leveldb_free. NULL on an error. */
char* terrace_repair(const leveldb_options_t* options, const char* name, uint8_t dry_run, char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TERRACE_TERRACE_H_ */
