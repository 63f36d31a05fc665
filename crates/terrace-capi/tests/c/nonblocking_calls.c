/* Calls that never wait, and calls with memory of the caller. */

#include "print.h"
#include "terrace/terrace.h"

static char* error;

static void print_into(leveldb_t* db, const char* key, size_t capacity) {
  char buffer[16];
  size_t len = 77;
  uint8_t found = terrace_get_into(db, NULL, key, strlen(key), buffer, capacity, &len, &error);
  printf("get %s into %zu bytes: %d, %zu bytes ", key, capacity, found, len);
  print_bytes(buffer, len <= capacity ? len : 0);
  putchar('\n');
  print_kind("  error", &error);
}

static uint8_t try_get(leveldb_t* db, const char* key) {
  char buffer[16];
  size_t len = 77;
  uint8_t found = terrace_try_get(db, NULL, key, strlen(key), buffer, sizeof buffer, &len, &error);
  printf("try to get %s: %d, %zu bytes\n", key, found, len);
  print_kind("  error", &error);
  return found;
}

static void try_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch) {
  printf("try to write: %d\n", terrace_try_write(db, options, batch, &error));
  print_kind("  error", &error);
}

static void write_bytes(leveldb_t* db, const char* what, const char* bytes, size_t len) {
  terrace_write_bytes(db, NULL, bytes, len, &error);
  print_kind(what, &error);
}

static uint32_t number(const char* bytes) {
  const unsigned char* b = (const unsigned char*)bytes;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void take(leveldb_iterator_t* iter, uint8_t forward, size_t count, size_t capacity) {
  char buffer[64];
  size_t entries = 77;
  size_t used = terrace_iter_take(iter, forward, count, buffer, capacity, &entries);
  printf("take %zu within %zu bytes: %zu entries, %zu bytes:", count, capacity, entries, used);
  for (const char* at = buffer; at < buffer + used;) {
    uint32_t key_len = number(at), value_len = number(at + 4);
    putchar(' ');
    print_bytes(at + 8, key_len);
    putchar('=');
    print_bytes(at + 8 + key_len, value_len);
    at += 8 + key_len + value_len;
  }
  printf("; valid: %d\n", iter != NULL && leveldb_iter_valid(iter));
}

int main(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_env_t* env = terrace_create_memory_env();
  leveldb_options_set_env(options, env);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, "db", &error);
  print_result("open", &error);

  put(db, "key", "value");
  put(db, "empty", "");
  print_into(db, "key", 16);
  print_into(db, "key", 4);
  print_into(db, "empty", 0);
  print_into(db, "missing", 16);
  print_into(NULL, "key", 16);

  try_get(db, "key");
  try_get(db, "missing");
  terrace_flush(db, &error);
  print_result("flush", &error);
  try_get(db, "key");
  print_into(db, "key", 16);
  try_get(db, "key");
  try_get(NULL, "key");

  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "a", 1, "1", 1);
  leveldb_writebatch_delete(batch, "empty", 5);
  leveldb_writeoptions_t* sync = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(sync, 1);
  try_write(db, sync, batch);
  print_into(db, "a", 16);
  try_write(db, NULL, batch);
  print_into(db, "a", 16);
  try_write(NULL, NULL, batch);
  try_write(db, NULL, NULL);
  printf("a write would wait: %d %d\n", terrace_would_wait(db), terrace_would_wait(NULL));
  terrace_sync(db, &error);
  print_result("sync", &error);
  terrace_sync(NULL, &error);
  print_kind("sync of nothing", &error);

  static const char stored[] = "########\2\0\0\0\1\1b\0012\0\1a";
  write_bytes(db, "write bytes", stored, sizeof stored - 1);
  write_bytes(db, "write cut bytes", stored, sizeof stored - 2);
  write_bytes(db, "write more bytes", stored, sizeof stored);
  write_bytes(db, "write no bytes", NULL, 0);
  write_bytes(NULL, "write to nothing", stored, sizeof stored - 1);
  print_all(db, NULL);

  put(db, "c", "3");
  put(db, "d", "");
  leveldb_iterator_t* iter = leveldb_create_iterator(db, NULL);
  leveldb_iter_seek_to_first(iter);
  take(iter, 1, 2, 64);
  take(iter, 1, 9, 9);
  take(iter, 1, 9, 8);
  take(iter, 1, 9, 64);
  take(iter, 1, 9, 64);
  leveldb_iter_seek_to_last(iter);
  take(iter, 0, 3, 64);
  take(iter, 0, 0, 64);
  take(NULL, 1, 9, 64);
  leveldb_iter_destroy(iter);

  leveldb_writeoptions_destroy(sync);
  leveldb_writebatch_destroy(batch);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_env_destroy(env);
  return 0;
}
