/* Shared functions of these programs: they print their results, and the test compares the output.
 */

#ifndef PRINT_H_
#define PRINT_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

/* Prints bytes as text, non-printable ones as \xx. */
static inline void print_bytes(const char* bytes, size_t len) {
  if (bytes == NULL) {
    printf("NULL");
    return;
  }
  putchar('\'');
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= ' ' && byte <= '~') {
      putchar(byte);
    } else {
      printf("\\%02x", byte);
    }
  }
  putchar('\'');
}

/* Prints an operation and its error, if any. Frees the error. */
static inline void print_result(const char* what, char** error) {
  printf("%s: %s\n", what, *error == NULL ? "ok" : *error);
  leveldb_free(*error);
  *error = NULL;
}

/* As print_result, but only the first part of the error, which programs search for. */
static inline void print_kind(const char* what, char** error) {
  if (*error != NULL && strchr(*error, ':') != NULL) {
    *strchr(*error, ':') = '\0';
  }
  print_result(what, error);
}

static inline void put(leveldb_t* db, const char* key, const char* value) {
  char* error = NULL;
  leveldb_writeoptions_t* options = leveldb_writeoptions_create();
  leveldb_put(db, options, key, strlen(key), value, strlen(value), &error);
  if (error != NULL) {
    print_result("put", &error);
  }
  leveldb_writeoptions_destroy(options);
}

static inline void print_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key) {
  char* error = NULL;
  size_t len = 77;
  char* value = leveldb_get(db, options, key, strlen(key), &len, &error);
  printf("get %s: ", key);
  print_bytes(value, len);
  printf(" of %zu bytes, error %s\n", len, error == NULL ? "none" : error);
  leveldb_free(value);
  leveldb_free(error);
}

/* Prints the current entry of the iterator. */
static inline void print_position(const char* what, const leveldb_iterator_t* iter) {
  printf("%s: ", what);
  if (leveldb_iter_valid(iter)) {
    size_t key_len, value_len;
    const char* key = leveldb_iter_key(iter, &key_len);
    const char* value = leveldb_iter_value(iter, &value_len);
    print_bytes(key, key_len);
    printf(" = ");
    print_bytes(value, value_len);
    putchar('\n');
  } else {
    printf("nowhere\n");
  }
}

/* Prints all entries of the database. */
static inline void print_all(leveldb_t* db, const leveldb_readoptions_t* options) {
  char* error = NULL;
  leveldb_iterator_t* iter = leveldb_create_iterator(db, options);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    print_position("  entry", iter);
  }
  leveldb_iter_get_error(iter, &error);
  print_result("  end", &error);
  leveldb_iter_destroy(iter);
}

#endif
