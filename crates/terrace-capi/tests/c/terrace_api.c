/* Every function of terrace/terrace.h, with its results. */

#include "terrace/terrace.h"
#include "print.h"

static char* error;

static void count_line(void* state, const char* line, size_t len) {
  *(int*)state += line != NULL && len > 0 && line[len - 1] != '\n';
}

static void logger_gone(void* state) {
  printf("logger gone, had lines: %s\n", *(int*)state > 0 ? "yes" : "no");
}

static void print_entries(const char* what, const terrace_entry* entries, size_t count) {
  printf("%s: %zu", what, count);
  for (size_t i = 0; i < count; i++) {
    putchar(' ');
    print_bytes(entries[i].key, entries[i].key_len);
    putchar('=');
    print_bytes(entries[i].value, entries[i].value_len);
  }
  putchar('\n');
}

static void print_bounds(leveldb_t* db, const char* lower, const char* upper, const char* prefix) {
  terrace_entry entries[8];
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  terrace_readoptions_set_lower_bound(reading, lower, lower == NULL ? 0 : strlen(lower));
  terrace_readoptions_set_upper_bound(reading, upper, upper == NULL ? 0 : strlen(upper));
  terrace_readoptions_set_prefix(reading, prefix, prefix == NULL ? 0 : strlen(prefix));
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  leveldb_iter_seek_to_first(iter);
  printf("[%s, %s) %s* ", lower ? lower : "", upper ? upper : "", prefix ? prefix : "");
  print_entries("forward", entries, terrace_iter_next_entries(iter, 8, entries));
  leveldb_iter_destroy(iter);
  leveldb_readoptions_destroy(reading);
}

static void arrays(leveldb_t* db) {
  terrace_entry entries[3];
  leveldb_iterator_t* iter = leveldb_create_iterator(db, NULL);
  print_entries("from nowhere", entries, terrace_iter_next_entries(iter, 3, entries));
  leveldb_iter_seek_to_first(iter);
  print_entries("next", entries, terrace_iter_next_entries(iter, 3, entries));
  print_position("then", iter);
  print_entries("next", entries, terrace_iter_next_entries(iter, 3, entries));
  print_position("then", iter);
  print_entries("next", entries, terrace_iter_next_entries(iter, 3, entries));
  leveldb_iter_seek_to_last(iter);
  print_entries("prev", entries, terrace_iter_prev_entries(iter, 2, entries));
  print_position("then", iter);
  print_entries("no room", entries, terrace_iter_prev_entries(iter, 0, NULL));
  print_position("then", iter);
  leveldb_iter_destroy(iter);
}

static void multi_get(leveldb_t* db) {
  const char* keys[] = {"b", "nothing", "e", "empty"};
  const size_t key_lens[] = {1, 7, 1, 5};
  char* values[4];
  size_t value_lens[4];
  put(db, "empty", "");
  terrace_multi_get(db, NULL, 4, keys, key_lens, values, value_lens, &error);
  print_result("multi-get", &error);
  for (int i = 0; i < 4; i++) {
    printf("  %s: ", keys[i]);
    print_bytes(values[i], value_lens[i]);
    printf(" of %zu bytes\n", value_lens[i]);
    leveldb_free(values[i]);
  }
  terrace_multi_get(db, NULL, 0, NULL, NULL, NULL, NULL, &error);
  print_result("multi-get of nothing", &error);
  terrace_multi_get(NULL, NULL, 4, keys, key_lens, values, value_lens, &error);
  print_result("multi-get without a database", &error);
  printf("  %d %zu\n", values[3] == NULL, value_lens[3]);
}

static void statistics(leveldb_t* db) {
  terrace_level levels[7];
  uint64_t number = 7;
  terrace_flush(db, &error);
  print_result("flush", &error);
  terrace_compact_range(db, NULL, 0, NULL, 0, &error);
  print_result("merge all", &error);
  size_t count = terrace_levels(db, levels, 7);
  uint64_t files = 0, bytes = 0;
  for (size_t i = 0; i < count; i++) {
    files += levels[i].files;
    bytes += levels[i].bytes;
  }
  printf("%zu levels, %d file, bytes: %s\n", count, (int)files, bytes > 0 ? "some" : "none");
  printf("levels without room: %zu\n", terrace_levels(db, NULL, 0));
  printf("number: %d", terrace_property_number(db, "leveldb.num-files-at-level0", &number));
  printf(" %d\n", (int)number);
  number = 7;
  printf("text: %d", terrace_property_number(db, "leveldb.stats", &number));
  printf(" %d\n", (int)number);
  printf("unknown: %d\n", terrace_property_number(db, "leveldb.unknown", &number));
  printf("memory: %d", terrace_property_number(db, "terrace.memory", &number));
  printf(" %s\n", number > 7 && number <= 8 << 20 ? "within the budget" : "not within the budget");
}

static void ranges(leveldb_t* db) {
  terrace_delete_range(db, "b", 1, "bb", 2, &error);
  print_result("delete a range", &error);
  print_bounds(db, NULL, NULL, NULL);
  terrace_delete_range(db, "z", 1, NULL, 0, &error);
  print_result("delete what is not there", &error);
  terrace_delete_range(NULL, NULL, 0, NULL, 0, &error);
  print_result("delete a range without a database", &error);
  put(db, "b", "bb");
}

static void copies(leveldb_options_t* options, leveldb_t* db) {
  size_t problems = 7;
  printf("checkpoint at %d\n", (int)terrace_checkpoint(db, "copy", &error));
  print_result("checkpoint", &error);
  printf("checkpoint again at %d\n", (int)terrace_checkpoint(db, "copy", &error));
  print_result("checkpoint again", &error);
  terrace_checkpoint(NULL, "copy", &error);
  print_result("checkpoint without a database", &error);
  for (int i = 0; i < 2; i++) {
    printf("backup %d\n", (int)terrace_backup_create(options, db, "backups", &error));
    print_result("create a backup", &error);
    put(db, "after", "backup");
  }
  char* report = terrace_backup_verify(options, "backups", 0, &problems, &error);
  print_result("verify the newest backup", &error);
  printf("problems %zu, report: %s\n", problems, strstr(report, "no problem") ? "no problem" : report);
  leveldb_free(report);
  report = terrace_backup_verify(options, "backups", 7, &problems, &error);
  print_result("verify no backup", &error);
  printf("report: %s\n", report == NULL ? "NULL" : report);
  terrace_backup_restore(options, "backups", 1, "restored", &error);
  print_result("restore", &error);
  terrace_backup_restore(options, "backups", 0, "restored", &error);
  print_result("restore again", &error);
  terrace_backup_restore(options, "nowhere", 0, "other", &error);
  print_result("restore from nowhere", &error);
  const char* names[] = {"copy", "restored"};
  for (int i = 0; i < 2; i++) {
    leveldb_t* copy = terrace_open_read_only(options, names[i], &error);
    print_result(names[i], &error);
    print_get(copy, NULL, "b");
    print_get(copy, NULL, "after");
    leveldb_close(copy);
  }
}

static void upkeep(leveldb_options_t* options) {
  size_t problems = 7;
  char* report = terrace_verify(options, "db", &problems, &error);
  print_result("verify", &error);
  printf("problems %zu, report: %s\n", problems, strstr(report, "no problem") ? "no problem" : report);
  leveldb_free(report);
  report = terrace_verify(options, "nowhere", &problems, &error);
  print_kind("verify nothing", &error);
  printf("problems %zu, report: %s\n", problems, report == NULL ? "NULL" : report);
  report = terrace_repair(options, "db", 1, &error);
  print_result("repair, dry", &error);
  printf("report: %s\n", report == NULL ? "NULL" : "some");
  leveldb_free(report);

  leveldb_t* one = terrace_open_read_only(options, "db", &error);
  leveldb_t* two = terrace_open_read_only(options, "db", &error);
  print_result("open twice to read", &error);
  print_get(one, NULL, "b");
  leveldb_put(two, NULL, "k", 1, "v", 1, &error);
  print_kind("write to what is read only", &error);
  leveldb_close(one);
  terrace_close(two, &error);
  print_result("close", &error);
  terrace_close(NULL, &error);
  print_result("close nothing", &error);
}

int main(void) {
  int lines = 0;
  printf("version: %s\n", strchr(terrace_version(), '.') != NULL ? "some" : terrace_version());
  leveldb_options_t* options = leveldb_options_create();
  leveldb_env_t* env = terrace_create_memory_env();
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_logger_t* logger = terrace_logger_create(&lines, logger_gone, count_line);
  leveldb_options_set_env(options, env);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_info_log(options, logger);
  leveldb_options_set_create_if_missing(options, 1);
  terrace_options_set_reuse_logs(options, 1);
  terrace_options_set_memory_budget(options, 8 << 20);
  const char* codecs[] = {"none", "snappy", "zlib", "lz4", NULL, "zstd"};
  for (int i = 0; i < 6; i++) {
    printf("codec %s: %d\n", codecs[i] ? codecs[i] : "NULL", terrace_options_set_codec(options, codecs[i]));
  }
  leveldb_t* db = leveldb_open(options, "db", &error);
  print_result("open", &error);
  const char* keys[] = {"a", "b", "ba", "bb", "e"};
  for (int i = 0; i < 5; i++) {
    put(db, keys[i], keys[4 - i]);
  }
  print_bounds(db, NULL, NULL, NULL);
  print_bounds(db, "b", NULL, NULL);
  print_bounds(db, NULL, "bb", NULL);
  print_bounds(db, "b", "bb", NULL);
  print_bounds(db, "ba", NULL, "b");
  print_bounds(db, "e", "b", NULL);
  arrays(db);
  multi_get(db);
  statistics(db);
  ranges(db);
  print_get(db, NULL, "b");
  copies(options, db);
  printf("cache in use: %d\n", terrace_cache_usage(cache) > 0);
  leveldb_close(db);
  upkeep(options);
  leveldb_options_destroy(options);
  leveldb_env_destroy(env);
  leveldb_cache_destroy(cache);
  terrace_logger_destroy(logger);
  return 0;
}
