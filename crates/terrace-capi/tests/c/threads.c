/* Eight threads on one database with a comparator of the program: each thread reads its own writes,
 * and reads through a snapshot are consistent. */

#include <pthread.h>

#include "print.h"

enum { THREADS = 8, ROUNDS = 300 };

static leveldb_t* db;

/* Writes pairs of keys together, so both values must always be equal. */
static void* work(void* which) {
  int thread = *(int*)which, wrong = 0;
  char* error = NULL;
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  for (int round = 0; round < ROUNDS; round++) {
    char key[2][32], value[32];
    int len = snprintf(value, sizeof value, "%d/%d", thread, round);
    snprintf(key[0], sizeof key[0], "left %d", round % 50);
    snprintf(key[1], sizeof key[1], "right %d", round % 50);
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    for (int i = 0; i < 2; i++) {
      leveldb_writebatch_put(batch, key[i], strlen(key[i]), value, (size_t)len);
    }
    leveldb_write(db, writing, batch, &error);
    leveldb_writebatch_destroy(batch);

    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(reading, snapshot);
    size_t lens[2] = {0, 0};
    char* pair[2];
    for (int i = 0; i < 2; i++) {
      pair[i] = leveldb_get(db, reading, key[i], strlen(key[i]), &lens[i], &error);
    }
    wrong += pair[0] == NULL || lens[0] != lens[1] || memcmp(pair[0], pair[1], lens[0]) != 0;
    leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
    leveldb_iter_seek(iter, key[1], strlen(key[1]));
    size_t value_len = 0;
    const char* seen = leveldb_iter_valid(iter) ? leveldb_iter_value(iter, &value_len) : NULL;
    wrong += seen == NULL || value_len != lens[0] || memcmp(seen, pair[0], value_len) != 0;
    leveldb_iter_destroy(iter);
    leveldb_free(pair[0]);
    leveldb_free(pair[1]);
    leveldb_release_snapshot(db, snapshot);
    wrong += error != NULL;
    if (round == ROUNDS / 2) {
      leveldb_compact_range(db, NULL, 0, NULL, 0);
    }
  }
  leveldb_writeoptions_destroy(writing);
  leveldb_readoptions_destroy(reading);
  *(int*)which = wrong;
  return NULL;
}

static int backward(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
  (void)state;
  size_t len = a_len < b_len ? a_len : b_len;
  int order = memcmp(b, a, len);
  return order != 0 ? order : (b_len > a_len) - (b_len < a_len);
}

static const char* name(void* state) { return state; }

static void gone(void* state) { (void)state; }

int main(void) {
  char* error = NULL;
  pthread_t threads[THREADS];
  int which[THREADS];
  leveldb_options_t* options = leveldb_options_create();
  leveldb_comparator_t* order = leveldb_comparator_create("backward", gone, backward, name);
  leveldb_options_set_comparator(options, order);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 64 << 10);
  db = leveldb_open(options, "db", &error);
  print_result("open", &error);
  for (int i = 0; i < THREADS; i++) {
    which[i] = i;
    pthread_create(&threads[i], NULL, work, &which[i]);
  }
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    wrong += which[i];
  }
  printf("wrong: %d\n", wrong);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  int keys = 0;
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    keys++;
  }
  printf("keys: %d\n", keys);
  leveldb_iter_destroy(iter);
  leveldb_readoptions_destroy(reading);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(order);
  return 0;
}
