/* One program with Terrace, from libterrace.a, and stock LevelDB, which take turns at one database. */

#include <stdio.h>
#include <string.h>

#include "terrace/terrace.h"

static char* error = NULL;

static void print_error(const char* call) {
  printf("%s: %s\n", call, error == NULL ? "ok" : "refused");
  terrace_free(error);
  error = NULL;
}

int main(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_t* terrace_options = terrace_options_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* terrace_write_options = terrace_writeoptions_create();
  leveldb_readoptions_t* terrace_read_options = terrace_readoptions_create();

  leveldb_t* stock = leveldb_open(options, "db", &error);
  print_error("leveldb_open");
  leveldb_put(stock, write, "stock", 5, "1", 1, &error);
  leveldb_t* second = terrace_open(terrace_options, "db", &error);
  print_error("terrace_open beside it");
  if (second != NULL) return 1;
  leveldb_close(stock);

  leveldb_t* terrace = terrace_open(terrace_options, "db", &error);
  print_error("terrace_open");
  terrace_put(terrace, terrace_write_options, "terrace", 7, "2", 1, &error);
  print_error("terrace_put");
  terrace_close(terrace, &error);
  print_error("terrace_close");

  stock = leveldb_open(options, "db", &error);
  print_error("leveldb_open");
  size_t len = 0;
  char* value = leveldb_get(stock, read, "terrace", 7, &len, &error);
  printf("LevelDB: terrace = %.*s\n", (int)len, value);
  leveldb_free(value);
  leveldb_close(stock);

  terrace = terrace_open(terrace_options, "db", &error);
  value = terrace_get(terrace, terrace_read_options, "stock", 5, &len, &error);
  printf("Terrace: stock = %.*s\n", (int)len, value);
  terrace_free(value);
  leveldb_iterator_t* it = terrace_create_iterator(terrace, terrace_read_options);
  for (terrace_iter_seek_to_first(it); terrace_iter_valid(it); terrace_iter_next(it)) {
    const char* key = terrace_iter_key(it, &len);
    printf("entry %.*s\n", (int)len, key);
  }
  terrace_iter_destroy(it);
  terrace_close(terrace, &error);
  printf("LevelDB %d.%d, Terrace as LevelDB %d.%d\n", leveldb_major_version(), leveldb_minor_version(),
         terrace_major_version(), terrace_minor_version());

  leveldb_options_destroy(options);
  terrace_options_destroy(terrace_options);
  leveldb_writeoptions_destroy(write);
  leveldb_readoptions_destroy(read);
  terrace_writeoptions_destroy(terrace_write_options);
  terrace_readoptions_destroy(terrace_read_options);
  return 0;
}
