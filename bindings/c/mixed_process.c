/* Writer or follower of a database that programs of several languages share. bindings/mixed/README.md
 * describes the states of the database, and the arguments. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "terrace/terrace.h"

enum { SLOTS = 16, LIVE = 8, RECORD = 9, MAX_VALUE = 4096 };

static char* error = NULL;

static void check(int is_right, const char* what) {
  if (error != NULL || !is_right) {
    fprintf(stderr, "%s: %s\n", what, error == NULL ? "wrong" : error);
    exit(1);
  }
}

static size_t value_of(long number, char* value) {
  size_t len = 0;
  for (long i = 0; i <= number * 37 % 200; i++) {
    len += (size_t)sprintf(value + len, "%ld ", number);
  }
  return len;
}

/* Checks that the iterator is at an entry, and moves on. */
static void expect_entry(leveldb_iterator_t* it, const char* key, const char* value, size_t value_len) {
  size_t found_len, found_value_len;
  check(terrace_iter_valid(it), key);
  const char* found = terrace_iter_key(it, &found_len);
  check(found_len == strlen(key) && memcmp(found, key, found_len) == 0, key);
  found = terrace_iter_value(it, &found_value_len);
  check(found_value_len == value_len && memcmp(found, value, value_len) == 0, key);
  terrace_iter_next(it);
}

/* Number in the entry `state`, or 0. */
static long number_of(leveldb_iterator_t* it) {
  size_t len;
  terrace_iter_seek(it, "state", 5);
  const char* value = terrace_iter_valid(it) ? terrace_iter_value(it, &len) : NULL;
  char text[24] = "0";
  if (value != NULL && len < sizeof(text)) {
    memcpy(text, value, len);
    text[len] = 0;
  }
  return atol(text);
}

/* Reads all entries, and returns the number of their state. */
static long read_state(leveldb_t* db) {
  char key[8], value[MAX_VALUE];
  leveldb_iterator_t* it = terrace_create_iterator(db, NULL);
  long state = number_of(it);
  long oldest = state >= LIVE ? state - LIVE + 1 : 1;
  terrace_iter_seek_to_first(it);
  for (int slot = 0; slot < SLOTS && state > 0; slot++) {
    long number = oldest + ((slot - oldest) % SLOTS + SLOTS) % SLOTS;
    if (number <= state) {
      sprintf(key, "k%02d", slot);
      expect_entry(it, key, value, value_of(number, value));
    }
  }
  if (state > 0) {
    expect_entry(it, "state", value, (size_t)sprintf(value, "%ld", state));
  }
  check(!terrace_iter_valid(it), "more entries");
  terrace_iter_get_error(it, &error);
  terrace_iter_destroy(it);
  check(1, "scan");
  return state;
}

static void write_state(leveldb_t* db, long number) {
  char key[8], value[MAX_VALUE];
  leveldb_writebatch_t* batch = terrace_writebatch_create();
  terrace_writebatch_put(batch, "state", 5, value, (size_t)sprintf(value, "%ld", number));
  sprintf(key, "k%02ld", number % SLOTS);
  terrace_writebatch_put(batch, key, 3, value, value_of(number, value));
  sprintf(key, "k%02ld", (number + LIVE) % SLOTS);
  terrace_writebatch_delete(batch, key, 3);
  terrace_write(db, NULL, batch, &error);
  terrace_writebatch_destroy(batch);
  check(1, "write");
}

/* Last number of the ledger, or 0. */
static long last_of(const char* ledger) {
  char record[RECORD + 1] = "0";
  FILE* file = fopen(ledger, "r");
  if (file != NULL) {
    fseek(file, 0, SEEK_END);
    long end = ftell(file) / RECORD * RECORD;
    if (end > 0) {
      fseek(file, end - RECORD, SEEK_SET);
      check(fread(record, 1, RECORD, file) == RECORD, "ledger");
    }
    fclose(file);
  }
  return atol(record);
}

static void write_states(const char* directory, const char* ledger, double seconds) {
  leveldb_options_t* options = terrace_options_create();
  terrace_options_set_create_if_missing(options, 1);
  terrace_options_set_write_buffer_size(options, 65536);
  leveldb_t* db = terrace_open(options, directory, &error);
  terrace_options_destroy(options);
  check(1, "open");
  long state = read_state(db);
  check(state >= last_of(ledger), "state older than the ledger");
  FILE* file = fopen(ledger, "a");
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    write_state(db, ++state);
    fprintf(file, "%08ld\n", state);
    fflush(file);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
  fclose(file);
  terrace_close(db, &error);
  check(1, "close");
}

static void follow(const char* directory, const char* ledger, const char* stop) {
  leveldb_options_t* options = terrace_options_create();
  leveldb_t* db = terrace_open_follower(options, directory, 10000, &error);
  terrace_options_destroy(options);
  check(1, "open");
  long reads = 0, state = 0;
  for (int is_last = 0; !is_last; reads++) {
    is_last = access(stop, F_OK) == 0;
    long at_least = state;
    if (reads % 2 == 0 || is_last) {
      long acknowledged = last_of(ledger);
      at_least = acknowledged > state ? acknowledged : state;
      terrace_catch_up(db, &error);
      check(1, "catch up");
    }
    state = read_state(db);
    check(state >= at_least, "state older than the ledger or the last read");
  }
  printf("%ld %ld\n", reads, state);
  terrace_close(db, &error);
  check(1, "close");
}

int main(int argc, char** argv) {
  char ledger[4096], stop[4096];
  if (argc < 4) {
    return 2;
  }
  snprintf(ledger, sizeof(ledger), "%s.ledger", argv[3]);
  snprintf(stop, sizeof(stop), "%s.stop", argv[3]);
  if (strcmp(argv[1], "write") == 0) {
    write_states(argv[3], ledger, atof(argv[4]));
  } else {
    follow(argv[3], ledger, stop);
  }
  return 0;
}
