/* Every function of leveldb/c.h, with its results. */

#include "print.h"

static int reversed(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
  size_t len = a_len < b_len ? a_len : b_len;
  int order = memcmp(a, b, len);
  ++*(int*)state;
  if (order == 0) {
    order = (a_len > b_len) - (a_len < b_len);
  }
  return -order;
}

static const char* reversed_name(void* state) {
  (void)state;
  return "the.other.way.round";
}

static void reversed_gone(void* state) {
  printf("comparator gone, was used: %s\n", *(int*)state > 0 ? "yes" : "no");
}

/* A filter that consists of the first bytes of the keys. */
static char* first_bytes(void* state, const char* const* keys, const size_t* lens, int count, size_t* filter_len) {
  (void)state;
  char* filter = malloc((size_t)count + 1);
  for (int i = 0; i < count; i++) {
    filter[i] = lens[i] > 0 ? keys[i][0] : '\0';
  }
  *filter_len = (size_t)count;
  return filter;
}

static uint8_t may_match(void* state, const char* key, size_t len, const char* filter, size_t filter_len) {
  ++*(int*)state;
  return len == 0 || memchr(filter, key[0], filter_len) != NULL;
}

static const char* first_bytes_name(void* state) {
  (void)state;
  return "first.bytes";
}

static void first_bytes_gone(void* state) {
  printf("filter gone, was asked: %s\n", *(int*)state > 0 ? "yes" : "no");
}

static void on_put(void* state, const char* key, size_t key_len, const char* value, size_t value_len) {
  printf("  %s put ", (const char*)state);
  print_bytes(key, key_len);
  printf(" = ");
  print_bytes(value, value_len);
  putchar('\n');
}

static void on_delete(void* state, const char* key, size_t key_len) {
  printf("  %s delete ", (const char*)state);
  print_bytes(key, key_len);
  putchar('\n');
}

static char* error;

static void opening(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_t* db = leveldb_open(options, "db", &error);
  printf("opened: %s\n", db == NULL ? "no" : "yes");
  print_result("open what is not there", &error);
  leveldb_options_set_create_if_missing(options, 1);
  db = leveldb_open(options, "db", &error);
  print_result("create", &error);
  leveldb_t* second = leveldb_open(options, "db", &error);
  printf("opened: %s\n", second == NULL ? "no" : "yes");
  print_result("open twice", &error);
  leveldb_destroy_db(options, "db", &error);
  print_result("destroy what is open", &error);
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_open(options, "db", &error);
  print_result("open what may not be there", &error);
  /* A failure frees and replaces an old error; a success does not touch it. */
  error = strdup("an old error");
  leveldb_open(options, "db", &error);
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_close(leveldb_open(options, "db", &error));
  print_result("still", &error);
  leveldb_destroy_db(options, "db", &error);
  print_result("destroy", &error);
  leveldb_destroy_db(options, "db", &error);
  print_result("destroy what is not there", &error);
  leveldb_open(options, "no/such/parent", &error);
  print_kind("open below nothing", &error);
  leveldb_options_destroy(options);
}

static void points(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_readoptions_set_verify_checksums(reading, 1);
  leveldb_readoptions_set_fill_cache(reading, 0);
  put(db, "box", "c");
  print_get(db, reading, "box");
  print_get(db, reading, "foo");
  leveldb_writeoptions_set_sync(writing, 1);
  leveldb_put(db, writing, "empty", 5, NULL, 0, &error);
  print_result("put nothing", &error);
  print_get(db, reading, "empty");
  leveldb_put(db, writing, NULL, 0, "for the empty key", 17, &error);
  print_result("put under nothing", &error);
  print_get(db, reading, "");
  leveldb_put(db, writing, "\0\xff\n", 3, "\0", 1, &error);
  print_result("put zeros", &error);
  print_all(db, reading);
  leveldb_delete(db, writing, "box", 3, &error);
  print_result("delete", &error);
  leveldb_delete(db, writing, "never there", 11, &error);
  print_result("delete what is not there", &error);
  print_get(db, reading, "box");
  leveldb_delete(db, writing, "", 0, &error);
  leveldb_delete(db, writing, "\0\xff\n", 3, &error);
  leveldb_delete(db, writing, "empty", 5, &error);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

static void batches(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_write(db, writing, batch, &error);
  print_result("write nothing", &error);
  leveldb_writebatch_put(batch, "foo", 3, "a", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "bar", 3, "b", 1);
  leveldb_writebatch_put(batch, "box", 3, "c", 1);
  leveldb_writebatch_t* more = leveldb_writebatch_create();
  leveldb_writebatch_delete(more, "bar", 3);
  leveldb_writebatch_put(more, "", 0, "", 0);
  leveldb_writebatch_append(batch, more);
  leveldb_writebatch_append(more, more);
  printf("a batch\n");
  leveldb_writebatch_iterate(batch, "one", on_put, on_delete);
  printf("a batch twice\n");
  leveldb_writebatch_iterate(more, "two", on_put, on_delete);
  leveldb_write(db, writing, batch, &error);
  print_result("write", &error);
  print_all(db, reading);
  leveldb_delete(db, writing, "", 0, &error);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

static void iterators(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  put(db, "foo", "hello");
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  print_position("begins", iter);
  leveldb_iter_seek_to_first(iter);
  print_position("first", iter);
  put(db, "cat", "written later");
  leveldb_iter_next(iter);
  print_position("next", iter);
  leveldb_iter_prev(iter);
  print_position("prev", iter);
  leveldb_iter_prev(iter);
  print_position("before the first", iter);
  leveldb_iter_seek_to_last(iter);
  print_position("last", iter);
  leveldb_iter_next(iter);
  print_position("behind the last", iter);
  leveldb_iter_seek(iter, "b", 1);
  print_position("seek b", iter);
  leveldb_iter_seek(iter, "box", 3);
  print_position("seek box", iter);
  leveldb_iter_seek(iter, "zebra", 5);
  print_position("seek zebra", iter);
  leveldb_iter_get_error(iter, &error);
  print_result("status", &error);
  leveldb_iter_destroy(iter);
  leveldb_readoptions_destroy(reading);
}

static void snapshots(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  put(db, "foo", "changed");
  leveldb_delete(db, writing, "box", 3, &error);
  leveldb_readoptions_set_snapshot(reading, snapshot);
  print_get(db, reading, "foo");
  print_all(db, reading);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print_all(db, reading);
  leveldb_readoptions_set_snapshot(reading, NULL);
  print_all(db, reading);
  leveldb_release_snapshot(db, snapshot);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

static void print_property(leveldb_t* db, const char* name) {
  char* value = leveldb_property_value(db, name);
  printf("%s: %s\n", name, value == NULL ? "NULL" : value);
  leveldb_free(value);
}

static void sizes_and_properties(leveldb_t* db) {
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  unsigned random = 1;
  for (int i = 0; i < 20000; i++) {
    char key[32], value[100];
    snprintf(key, sizeof key, "k%020d", i);
    for (size_t j = 0; j < sizeof value; j++) {
      random = random * 1103515245u + 12345u;
      value[j] = (char)(random >> 16);
    }
    leveldb_put(db, writing, key, strlen(key), value, sizeof value, &error);
  }
  leveldb_writeoptions_destroy(writing);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  const char* starts[] = {"a", "k00000000000000010000", "z"};
  const char* limits[] = {"k00000000000000010000", "k00000000000000020000", "zz"};
  size_t start_lens[] = {1, 21, 1}, limit_lens[] = {21, 21, 2};
  uint64_t sizes[3] = {7, 7, 7};
  leveldb_approximate_sizes(db, 3, starts, start_lens, limits, limit_lens, sizes);
  for (int i = 0; i < 3; i++) {
    /* In units of 100,000 bytes, in which both libraries agree. */
    printf("size %d: %d hundred thousands\n", i, (int)((sizes[i] + 50000) / 100000));
  }
  leveldb_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
  print_property(db, "leveldb.num-files-at-level0");
  print_property(db, "leveldb.num-files-at-level7");
  print_property(db, "leveldb.num-files-at-level");
  print_property(db, "leveldb.num-files-at-levelx");
  print_property(db, "leveldb.nosuchprop");
  print_property(db, "nosuchprop");
  print_property(db, "");
  char* stats = leveldb_property_value(db, "leveldb.stats");
  printf("leveldb.stats begins:\n%.*s\n", 131, stats);
  leveldb_free(stats);
  char* tables = leveldb_property_value(db, "leveldb.sstables");
  printf("leveldb.sstables begins: %.15s\n", tables);
  leveldb_free(tables);
  char* memory = leveldb_property_value(db, "leveldb.approximate-memory-usage");
  printf("leveldb.approximate-memory-usage: %s\n", atol(memory) > 0 ? "a number" : memory);
  leveldb_free(memory);
}

static void repairing(leveldb_options_t* options, leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_close(db);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_repair_db(options, "db", &error);
  print_result("repair", &error);
  db = leveldb_open(options, "db", &error);
  print_result("open what was repaired", &error);
  print_get(db, reading, "foo");
  print_get(db, reading, "bar");
  print_get(db, reading, "k00000000000000012345x");
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
}

static void own_filter(leveldb_options_t* options, leveldb_filterpolicy_t* policy) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_options_set_filter_policy(options, policy);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, "filtered", &error);
  print_result("open with a filter", &error);
  put(db, "foo", "foovalue");
  put(db, "bar", "barvalue");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print_get(db, reading, "foo");
  print_get(db, reading, "bar");
  print_get(db, reading, "baz");
  print_get(db, reading, "other");
  leveldb_close(db);
  leveldb_options_set_filter_policy(options, NULL);
  leveldb_destroy_db(options, "filtered", &error);
  print_result("destroy", &error);
  leveldb_readoptions_destroy(reading);
}

static void own_order(void) {
  int calls = 0;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_comparator_t* order = leveldb_comparator_create(&calls, reversed_gone, reversed, reversed_name);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, order);
  leveldb_t* db = leveldb_open(options, "reversed", &error);
  print_result("open in another order", &error);
  put(db, "a", "1");
  put(db, "b", "2");
  put(db, "bb", "3");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "c", "4");
  print_all(db, reading);
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  leveldb_iter_seek(iter, "bc", 2);
  print_position("seek bc", iter);
  leveldb_iter_destroy(iter);
  leveldb_close(db);
  leveldb_options_t* plain = leveldb_options_create();
  leveldb_open(plain, "reversed", &error);
  print_result("open in the wrong order", &error);
  leveldb_options_destroy(plain);
  leveldb_destroy_db(options, "reversed", &error);
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(order);
  leveldb_readoptions_destroy(reading);
}

int main(void) {
  printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());
  opening();

  leveldb_options_t* options = leveldb_options_create();
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);
  leveldb_options_set_env(options, env);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_max_open_files(options, 10);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  leveldb_options_set_create_if_missing(options, 1);
  char* directory = leveldb_env_get_test_directory(env);
  printf("test directory: %s\n", directory);
  leveldb_free(directory);

  leveldb_t* db = leveldb_open(options, "db", &error);
  print_result("open", &error);
  points(db);
  batches(db);
  iterators(db);
  snapshots(db);
  sizes_and_properties(db);
  repairing(options, db);

  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  own_filter(options, bloom);
  leveldb_filterpolicy_destroy(bloom);
  int asked = 0;
  leveldb_filterpolicy_t* own =
      leveldb_filterpolicy_create(&asked, first_bytes_gone, first_bytes, may_match, first_bytes_name);
  own_filter(options, own);
  leveldb_filterpolicy_destroy(own);
  own_order();

  leveldb_destroy_db(options, "db", &error);
  print_result("destroy", &error);
  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_options_destroy(NULL);
  leveldb_free(NULL);
  return 0;
}
