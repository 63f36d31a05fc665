/* Cases that LevelDB leaves undefined: unusual destruction orders, use after close, null handles.
 */

#include "print.h"

static char* error;

static int bytewise(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
  (void)state;
  size_t len = a_len < b_len ? a_len : b_len;
  int order = memcmp(a, b, len);
  return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static const char* name(void* state) { return state; }

static void gone(void* state) { printf("%s gone\n", (const char*)state); }

static char* no_filter(void* state, const char* const* keys, const size_t* lens, int count, size_t* len) {
  (void)state, (void)keys, (void)lens, (void)count;
  *len = 0;
  return NULL;
}

static uint8_t perhaps(void* state, const char* key, size_t len, const char* filter, size_t filter_len) {
  (void)state, (void)key, (void)len, (void)filter, (void)filter_len;
  return 1;
}

/* All objects that a database uses are destroyed before it. */
static void destroyed_first(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_comparator_t* order = leveldb_comparator_create("order", gone, bytewise, name);
  leveldb_filterpolicy_t* filter = leveldb_filterpolicy_create("filter", gone, no_filter, perhaps, name);
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_options_set_comparator(options, order);
  leveldb_options_set_filter_policy(options, filter);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_env(options, env);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, "ordered", &error);
  print_result("open", &error);
  leveldb_comparator_destroy(order);
  leveldb_filterpolicy_destroy(filter);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_options_destroy(options);
  put(db, "key", "value");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print_get(db, NULL, "key");
  printf("closing\n");
  leveldb_close(db);
  printf("closed\n");
}

static leveldb_t* open_db(leveldb_options_t* options) {
  leveldb_t* db = leveldb_open(options, "db", &error);
  print_kind("open", &error);
  return db;
}

/* Iterators and snapshots outlive their database. */
static void outlived(leveldb_options_t* options) {
  leveldb_t* db = open_db(options);
  put(db, "a", "1");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "b", "2");
  leveldb_iterator_t* iter = leveldb_create_iterator(db, NULL);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_close(db);
  leveldb_iter_seek_to_first(iter);
  print_position("still there", iter);
  leveldb_iter_next(iter);
  print_position("and there", iter);
  leveldb_t* again = open_db(options);
  put(again, "b", "changed");
  leveldb_iter_seek(iter, "b", 1);
  print_position("as it was", iter);
  leveldb_iter_destroy(iter);
  leveldb_release_snapshot(db, snapshot);
  print_get(again, NULL, "b");
  leveldb_close(again);
}

/* A snapshot is read after its release, through options that still name it. */
static void released(leveldb_options_t* options) {
  leveldb_t* db = open_db(options);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_set_snapshot(reading, snapshot);
  leveldb_release_snapshot(db, snapshot);
  put(db, "a", "changed");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print_get(db, reading, "a");
  leveldb_readoptions_destroy(reading);
  print_get(db, NULL, "a");
  leveldb_close(db);
}

/* A snapshot of one database is used with another. */
static void of_another(leveldb_options_t* options) {
  leveldb_t* db = open_db(options);
  leveldb_t* other = leveldb_open(options, "other", &error);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(other);
  leveldb_readoptions_set_snapshot(reading, snapshot);
  print_get(db, reading, "a");
  print_all(db, reading);
  leveldb_release_snapshot(other, snapshot);
  leveldb_readoptions_destroy(reading);
  leveldb_close(db);
  leveldb_close(other);
}

static void nothing(leveldb_options_t* options) {
  size_t len = 7;
  leveldb_open(NULL, "db", &error);
  print_result("open without options", &error);
  leveldb_open(options, NULL, &error);
  print_kind("open without a name", &error);
  leveldb_open(NULL, NULL, NULL);
  leveldb_put(NULL, NULL, "k", 1, "v", 1, &error);
  print_result("put", &error);
  leveldb_delete(NULL, NULL, "k", 1, &error);
  print_result("delete", &error);
  leveldb_write(NULL, NULL, NULL, &error);
  print_result("write", &error);
  printf("get: %d", leveldb_get(NULL, NULL, "k", 1, &len, &error) == NULL);
  printf(" %zu\n", len);
  print_result("get", &error);
  printf("iterator: %d\n", leveldb_create_iterator(NULL, NULL) == NULL);
  printf("snapshot: %d\n", leveldb_create_snapshot(NULL) == NULL);
  printf("property: %d\n", leveldb_property_value(NULL, "leveldb.stats") == NULL);
  leveldb_compact_range(NULL, NULL, 0, NULL, 0);
  leveldb_iter_seek_to_first(NULL);
  leveldb_iter_next(NULL);
  printf("valid: %d\n", leveldb_iter_valid(NULL));
  leveldb_iter_key(NULL, &len);
  printf("key: %zu bytes\n", len);
  leveldb_iter_get_error(NULL, &error);
  print_result("status", &error);
  leveldb_writebatch_put(NULL, "k", 1, "v", 1);
  leveldb_writebatch_append(NULL, NULL);
  leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
  printf("comparator: %d\n", leveldb_comparator_create("half a comparator", gone, NULL, name) == NULL);
  leveldb_options_set_comparator(options, NULL);
  leveldb_open(options, "db", &error);
  print_result("open without an order", &error);
  printf("test directory: %d\n", leveldb_env_get_test_directory(NULL) == NULL);
  leveldb_close(NULL);
  leveldb_release_snapshot(NULL, NULL);
  leveldb_iter_destroy(NULL);
  leveldb_writebatch_destroy(NULL);
  leveldb_options_destroy(NULL);
  leveldb_readoptions_destroy(NULL);
  leveldb_writeoptions_destroy(NULL);
  leveldb_comparator_destroy(NULL);
  leveldb_filterpolicy_destroy(NULL);
  leveldb_cache_destroy(NULL);
  leveldb_env_destroy(NULL);
}

/* Key and value of an iterator without a current entry. */
static void at_nothing(leveldb_options_t* options) {
  size_t len = 7;
  leveldb_t* db = open_db(options);
  leveldb_iterator_t* iter = leveldb_create_iterator(db, NULL);
  leveldb_iter_key(iter, &len);
  printf("key: %zu bytes\n", len);
  leveldb_iter_value(iter, &len);
  printf("value: %zu bytes\n", len);
  leveldb_iter_next(iter);
  leveldb_iter_prev(iter);
  print_position("moved", iter);
  leveldb_iter_destroy(iter);
  leveldb_close(db);
}

int main(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  destroyed_first();
  outlived(options);
  released(options);
  of_another(options);
  at_nothing(options);
  nothing(options);
  leveldb_options_destroy(options);
  return 0;
}
