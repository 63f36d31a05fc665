/* Every operation on an open database runs in a thread with the smallest stack that the system's threads
 * can have: 16 KiB on x86-64. Programs with thousands of threads use such stacks. */

#include <limits.h>
#include <pthread.h>

#include "print.h"

enum { KEYS = 6000, VALUE_LEN = 1000 };

static leveldb_t* db;
static char value[VALUE_LEN];

static void* work(void* count) {
  char key[32], *error = NULL;
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  for (int n = 0; n < KEYS; n++) {
    sprintf(key, "key%05d", n * 7919 % KEYS);
    leveldb_writeoptions_set_sync(writing, n % 1000 == 0);
    leveldb_put(db, writing, key, strlen(key), value, VALUE_LEN, &error);
  }
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  for (int n = 0; n < KEYS; n++) {
    sprintf(key, "batch%05d", n);
    leveldb_writebatch_put(batch, key, strlen(key), value, 100);
  }
  leveldb_write(db, writing, batch, &error);
  leveldb_writebatch_destroy(batch);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_delete(db, writing, "key00007", 8, &error);

  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_set_snapshot(reading, snapshot);
  int* found = count;
  for (int n = 0; n < KEYS; n += 7) {
    size_t len;
    sprintf(key, "key%05d", n);
    char* got = leveldb_get(db, reading, key, strlen(key), &len, &error);
    found[0] += got != NULL;
    leveldb_free(got);
  }
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) found[1]++;
  for (leveldb_iter_seek_to_last(iter); leveldb_iter_valid(iter); leveldb_iter_prev(iter)) found[2]++;
  for (leveldb_iter_seek(iter, "key", 3); leveldb_iter_valid(iter); leveldb_iter_next(iter)) found[3]++;
  leveldb_iter_destroy(iter);
  leveldb_release_snapshot(db, snapshot);
  leveldb_free(leveldb_property_value(db, "leveldb.stats"));
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  if (error != NULL) puts(error);
  return NULL;
}

int main(void) {
  char* error = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 1 << 20);
  for (int n = 0; n < VALUE_LEN; n++) value[n] = (char)(n * n);
  db = leveldb_open(options, "db", &error);
  if (error != NULL) puts(error);

  int found[4] = {0};
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  printf("stack size: %d\n", pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN));
  printf("thread: %d\n", pthread_create(&thread, &attributes, work, found));
  pthread_join(thread, NULL);
  printf("gets: %d\nforward: %d\nbackward: %d\nfrom a key: %d\n", found[0], found[1], found[2], found[3]);
  leveldb_close(db);
  leveldb_options_destroy(options);
}
