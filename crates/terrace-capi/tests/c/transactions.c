/* Transactions and conditional writes of terrace/terrace.h, with every rule of misuse. */

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terrace/terrace.h"
#include "print.h"

enum { THREADS = 4, INCREMENTS = 500, HUGE_LEN = 100 << 20 };

static char* error;

static leveldb_t* open_database(const char* name) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, name, &error);
  leveldb_options_destroy(options);
  if (error != NULL) {
    print_result("open", &error);
  }
  return db;
}

static terrace_txn_t* begin(leveldb_t* db, const terrace_txn_options_t* options) {
  terrace_txn_t* txn = terrace_begin(db, options, &error);
  if (error != NULL) {
    print_result("begin", &error);
  }
  return txn;
}

static void txn_put(terrace_txn_t* txn, const char* key, const char* value) {
  terrace_txn_put(txn, key, strlen(key), value, strlen(value), &error);
  if (error != NULL) {
    print_result("  put", &error);
  }
}

typedef char* read_function(terrace_txn_t*, const char*, size_t, size_t*, char**);

static void txn_read(const char* what, read_function* read, terrace_txn_t* txn, const char* key) {
  size_t len = 77;
  char* value = read(txn, key, strlen(key), &len, &error);
  printf("  %s %s: ", what, key);
  print_bytes(value, len);
  printf(" of %zu bytes\n", len);
  leveldb_free(value);
  if (error != NULL) {
    print_result("  error", &error);
  }
}

static void txn_get(terrace_txn_t* txn, const char* key) { txn_read("get", terrace_txn_get, txn, key); }

/* Commits, prints the result and the recorded error, and destroys the transaction. */
static void finish(const char* what, terrace_txn_t* txn) {
  uint64_t sequence = 77;
  const char* message = "unset";
  uint8_t committed = terrace_txn_commit(txn, &sequence, &error);
  printf("%s: %d, sequence: %s\n", what, committed, sequence > 0 ? "some" : "none");
  if (error != NULL) {
    print_result("  error", &error);
  }
  int code = terrace_txn_error(txn, &message);
  printf("  code %d, retry %d, %s\n", code, terrace_txn_should_retry(txn), message ? message : "no error");
  terrace_txn_destroy(txn);
}

/* ---- Results ---- */

static void own_writes(leveldb_t* db) {
  const char* keys[] = {"b", "a", "nothing"};
  const size_t key_lens[] = {1, 1, 7};
  char* values[3];
  size_t value_lens[3];
  put(db, "a", "1");
  put(db, "b", "2");
  put(db, "c", "3");
  terrace_txn_t* txn = begin(db, NULL);
  txn_put(txn, "bb", "own");
  txn_put(txn, "c", "");
  terrace_txn_delete(txn, "a", 1, &error);
  print_result("delete", &error);
  txn_get(txn, "a");
  txn_get(txn, "b");
  txn_get(txn, "c");
  txn_read("get for update", terrace_txn_get_for_update, txn, "bb");
  txn_read("get untracked", terrace_txn_get_untracked, txn, "nothing");
  terrace_txn_multi_get(txn, 3, keys, key_lens, values, value_lens, &error);
  print_result("multi-get", &error);
  for (int i = 0; i < 3; i++) {
    printf("  %s: ", keys[i]);
    print_bytes(values[i], value_lens[i]);
    putchar('\n');
    leveldb_free(values[i]);
  }
  print_get(db, NULL, "bb");
  finish("commit of own writes", txn);
  print_all(db, NULL);
}

static void iterators(leveldb_t* db) {
  terrace_entry entries[4];
  terrace_txn_t* txn = begin(db, NULL);
  txn_put(txn, "aa", "own");
  terrace_txn_delete(txn, "bb", 2, &error);
  leveldb_iterator_t* iter = terrace_txn_iterator(txn, NULL, &error);
  print_result("iterator", &error);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    print_position("  next", iter);
  }
  for (leveldb_iter_seek_to_last(iter); leveldb_iter_valid(iter); leveldb_iter_prev(iter)) {
    print_position("  prev", iter);
  }
  leveldb_iter_seek(iter, "b", 1);
  print_position("  seek", iter);
  leveldb_iter_prev(iter);
  print_position("  turn", iter);
  printf("  entries: %zu\n", terrace_iter_next_entries(iter, 4, entries));
  leveldb_iter_get_error(iter, &error);
  print_result("  status", &error);

  leveldb_readoptions_t* bounds = leveldb_readoptions_create();
  terrace_readoptions_set_lower_bound(bounds, "aaa", 3);
  leveldb_iterator_t* bounded = terrace_txn_iterator(txn, bounds, &error);
  leveldb_iter_seek_to_first(bounded);
  print_position("  bounded", bounded);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_set_snapshot(bounds, snapshot);
  printf("  with a snapshot: %d\n", terrace_txn_iterator(txn, bounds, &error) == NULL);
  print_result("  error", &error);
  leveldb_release_snapshot(db, snapshot);
  leveldb_readoptions_destroy(bounds);

  put(db, "phantom", "");
  finish("commit after a phantom", txn);
  leveldb_iter_seek_to_first(iter);
  print_position("iterator after its transaction", iter);
  leveldb_iter_destroy(iter);
  leveldb_iter_destroy(bounded);
}

static void conflicts(leveldb_t* db) {
  terrace_txn_t* txn = begin(db, NULL);
  txn_get(txn, "b");
  put(db, "b", "other");
  txn_put(txn, "target", "1");
  finish("serializable commit after a read", txn);

  terrace_txn_options_t* options = terrace_txn_options_create();
  printf("levels: %d", terrace_txn_options_set_isolation(options, terrace_snapshot_isolation));
  printf(" %d", terrace_txn_options_set_isolation(options, 2));
  printf(" %d\n", terrace_txn_options_set_isolation(options, -1));
  txn = begin(db, options);
  txn_get(txn, "b");
  put(db, "b", "again");
  txn_put(txn, "target", "2");
  finish("commit under snapshot isolation", txn);
  txn = begin(db, options);
  txn_get(txn, "a");
  put(db, "target", "other");
  txn_put(txn, "target", "3");
  finish("lost update under snapshot isolation", txn);
  txn = begin(db, options);
  txn_read("get for update", terrace_txn_get_for_update, txn, "b");
  put(db, "b", "once more");
  txn_put(txn, "target", "4");
  finish("get for update under snapshot isolation", txn);
  terrace_txn_options_destroy(options);

  txn = begin(db, NULL);
  txn_read("get untracked", terrace_txn_get_untracked, txn, "b");
  put(db, "b", "not checked");
  txn_put(txn, "target", "5");
  finish("commit after an untracked read", txn);
  print_get(db, NULL, "target");
}

static void savepoints(leveldb_t* db) {
  terrace_txn_t* txn = begin(db, NULL);
  terrace_txn_t* other = begin(db, NULL);
  txn_put(txn, "kept", "1");
  uint64_t first = terrace_txn_savepoint(txn, &error);
  txn_put(txn, "undone", "1");
  uint64_t second = terrace_txn_savepoint(txn, &error);
  uint64_t foreign = terrace_txn_savepoint(other, &error);
  print_result("savepoints", &error);
  printf("  distinct: %d\n", first != second && second != foreign && first != 0);
  terrace_txn_rollback_to(txn, foreign, &error);
  print_result("  of another transaction", &error);
  terrace_txn_rollback_to(txn, 0, &error);
  print_result("  zero", &error);
  txn_get(txn, "undone");
  terrace_txn_rollback_to(txn, first, &error);
  print_result("  first", &error);
  txn_get(txn, "undone");
  terrace_txn_rollback_to(txn, second, &error);
  print_result("  removed", &error);
  terrace_txn_rollback_to(txn, first, &error);
  print_result("  first again", &error);
  finish("commit after rollbacks", txn);
  print_get(db, NULL, "kept");
  print_get(db, NULL, "undone");
  terrace_txn_destroy(other);
}

static void write_if(leveldb_t* db) {
  uint64_t sequence = 77, last = 77;
  leveldb_t* elsewhere = open_database("elsewhere");
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  const leveldb_snapshot_t* foreign = leveldb_create_snapshot(elsewhere);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "if", 2, "1", 1);
  terrace_unchanged_t* key = terrace_unchanged_create(snapshot);
  terrace_unchanged_t* range = terrace_unchanged_create(snapshot);
  terrace_unchanged_t* wrong = terrace_unchanged_create(foreign);
  terrace_unchanged_add_key(key, "if", 2, 0);
  terrace_unchanged_add_range(range, "x", 1, NULL, 0);
  leveldb_release_snapshot(db, snapshot);
  leveldb_release_snapshot(elsewhere, foreign);

  printf("write if a key is unchanged: %d", terrace_write_if(db, NULL, batch, key, &sequence, &error));
  printf(" %d", terrace_last_change(db, "if", 2, &last, &error));
  printf(" %d\n", sequence == last && sequence > 0);
  printf("again: %d", terrace_write_if(db, NULL, batch, key, &sequence, &error));
  printf(" %d\n", (int)sequence);
  printf("range: %d\n", terrace_write_if(db, NULL, batch, range, NULL, &error));
  put(db, "xyz", "");
  printf("changed range: %d\n", terrace_write_if(db, NULL, batch, range, NULL, &error));
  terrace_last_change(db, "if", 2, &last, &error);
  terrace_unchanged_t* later = terrace_unchanged_create(leveldb_create_snapshot(NULL));
  printf("without a snapshot: %d\n", later == NULL);
  printf("never written: %d", terrace_last_change(db, "never", 5, &last, &error));
  printf(" %d\n", (int)last);
  print_result("no error", &error);
  terrace_write_if(db, NULL, batch, wrong, &sequence, &error);
  print_result("snapshot of another database", &error);
  terrace_write_if(db, NULL, batch, NULL, &sequence, &error);
  print_result("without a condition", &error);
  terrace_write_if(NULL, NULL, NULL, NULL, NULL, &error);
  print_result("nothing", &error);
  terrace_unchanged_add_key(NULL, "k", 1, 0);
  terrace_unchanged_add_range(NULL, NULL, 0, NULL, 0);
  terrace_unchanged_destroy(NULL);
  printf("sequence of no snapshot: %d\n", (int)terrace_snapshot_sequence(NULL));
  terrace_unchanged_destroy(key);
  terrace_unchanged_destroy(range);
  terrace_unchanged_destroy(wrong);

  /* A later sequence number for one key: its own writes since the snapshot do not count. */
  snapshot = leveldb_create_snapshot(db);
  put(db, "if", "2");
  terrace_last_change(db, "if", 2, &last, &error);
  printf("newer than the snapshot: %d\n", last > terrace_snapshot_sequence(snapshot));
  key = terrace_unchanged_create(snapshot);
  terrace_unchanged_add_key(key, "if", 2, last);
  leveldb_release_snapshot(db, snapshot);
  printf("unchanged since its read: %d\n", terrace_write_if(db, NULL, batch, key, NULL, &error));
  terrace_unchanged_destroy(key);
  leveldb_writebatch_destroy(batch);
  leveldb_close(elsewhere);
}

/* ---- Locks ---- */

static terrace_txn_options_t* locking(uint64_t timeout_ms) {
  terrace_txn_options_t* options = terrace_txn_options_create();
  terrace_txn_options_set_locking(options, 1);
  terrace_txn_options_set_lock_timeout_ms(options, timeout_ms);
  return options;
}

static void lock_timeout(leveldb_t* db) {
  terrace_txn_options_t* options = locking(10);
  terrace_txn_t* holder = begin(db, options);
  terrace_txn_t* waiter = begin(db, options);
  txn_put(holder, "hot", "1");
  txn_get(waiter, "hot");
  txn_put(waiter, "hot", "2");
  finish("commit after a lock timeout", waiter);
  finish("commit of the holder", holder);
  terrace_txn_options_destroy(options);
}

/* Puts `hot` in a transaction, for another thread. The main thread may use the transaction at this
 * moment, so the mistake may be reported here: then it is repeated. */
static void* put_hot(void* txn) {
  for (;;) {
    char* own_error = NULL;
    terrace_txn_put(txn, "hot", 3, "later", 5, &own_error);
    if (own_error == NULL || strstr(own_error, "another thread is using") == NULL) return own_error;
    leveldb_free(own_error);
  }
}

/* A thread waits for a lock; the main thread uses the same transaction, which is a mistake, and one
 * that closes the cycle of a deadlock, which is reported at once. */
static void two_threads(leveldb_t* db) {
  void* thread_error;
  pthread_t thread;
  terrace_txn_options_t* options = locking(60000);
  terrace_txn_t* holder = begin(db, options);
  terrace_txn_t* waiter = begin(db, options);
  txn_put(holder, "hot", "1");
  txn_put(waiter, "cold", "2");
  pthread_create(&thread, NULL, put_hot, waiter);
  while (error == NULL) {
    terrace_txn_put(waiter, "cold", 4, "3", 1, &error);
    usleep(1000);
  }
  print_result("two threads", &error);
  terrace_txn_commit(waiter, NULL, &error);
  print_result("  commit", &error);
  printf("  code %d\n", terrace_txn_error(waiter, NULL));
  /* The thread has begun to use its transaction. It has to wait for the lock before this one. */
  usleep(200000);
  txn_put(holder, "cold", "deadlock");
  finish("commit after a deadlock", holder);
  pthread_join(thread, &thread_error);
  error = thread_error;
  print_result("the other one", &error);
  finish("commit of the other one", waiter);
  print_get(db, NULL, "hot");
  terrace_txn_options_destroy(options);
}

/* ---- Misuse ---- */

static void after_the_end(leveldb_t* db) {
  terrace_txn_t* txn = begin(db, NULL);
  txn_put(txn, "ended", "1");
  uint64_t savepoint = terrace_txn_savepoint(txn, &error);
  printf("commit: %d\n", terrace_txn_commit(txn, NULL, &error));
  txn_put(txn, "ended", "2");
  txn_get(txn, "ended");
  terrace_txn_delete(txn, "ended", 5, &error);
  print_result("  delete", &error);
  terrace_txn_multi_get(txn, 0, NULL, NULL, NULL, NULL, &error);
  print_result("  multi-get", &error);
  printf("  iterator: %d\n", terrace_txn_iterator(txn, NULL, &error) == NULL);
  print_result("  iterator", &error);
  printf("  savepoint: %d\n", (int)terrace_txn_savepoint(txn, &error));
  print_result("  savepoint", &error);
  terrace_txn_rollback_to(txn, savepoint, &error);
  print_result("  rollback to", &error);
  terrace_txn_rollback(txn, &error);
  print_result("  rollback", &error);
  finish("second commit", txn);
  txn = begin(db, NULL);
  txn_put(txn, "ended", "3");
  terrace_txn_rollback(txn, &error);
  terrace_txn_rollback(txn, &error);
  print_result("two rollbacks", &error);
  finish("commit after a rollback", txn);
  print_get(db, NULL, "ended");
}

static void nothing(leveldb_t* db) {
  size_t len = 77;
  uint64_t sequence = 77;
  char* values[1] = {"unset"};
  size_t value_lens[1] = {77};
  const char* keys[] = {"k"};
  const size_t key_lens[] = {1};
  printf("begin: %d\n", terrace_begin(NULL, NULL, &error) == NULL);
  print_result("begin", &error);
  printf("get: %d", terrace_txn_get(NULL, "k", 1, &len, &error) == NULL);
  printf(" %zu\n", len);
  print_result("get", &error);
  terrace_txn_multi_get(NULL, 1, keys, key_lens, values, value_lens, &error);
  printf("multi-get: %d %zu\n", values[0] == NULL, value_lens[0]);
  print_result("multi-get", &error);
  terrace_txn_put(NULL, NULL, 0, NULL, 0, NULL);
  printf("iterator: %d\n", terrace_txn_iterator(NULL, NULL, &error) == NULL);
  print_result("iterator", &error);
  printf("commit: %d", terrace_txn_commit(NULL, &sequence, &error));
  printf(" %d\n", (int)sequence);
  print_result("commit", &error);
  terrace_txn_rollback(NULL, &error);
  print_result("rollback", &error);
  printf("error: %d, retry %d\n", terrace_txn_error(NULL, NULL), terrace_txn_should_retry(NULL));
  terrace_txn_destroy(NULL);
  terrace_txn_options_destroy(NULL);
  terrace_txn_options_set_locking(NULL, 1);
  terrace_txn_options_set_isolation(NULL, 0);
  terrace_txn_t* txn = begin(db, NULL);
  leveldb_free(terrace_txn_get(txn, NULL, 0, NULL, NULL));
  terrace_txn_put(txn, NULL, 0, NULL, 0, &error);
  print_result("put of an empty key", &error);
  printf("commit without outputs: %d\n", terrace_txn_commit(txn, NULL, NULL));
  terrace_txn_destroy(txn);
}

static void huge_keys(leveldb_t* db) {
  char* key = malloc(HUGE_LEN);
  memset(key, 'k', HUGE_LEN);
  uint64_t last = 77;
  terrace_txn_t* txn = begin(db, NULL);
  txn_put(txn, "before", "1");
  terrace_txn_put(txn, key, HUGE_LEN, "", 0, &error);
  print_result("huge put", &error);
  size_t len;
  leveldb_free(terrace_txn_get(txn, key, HUGE_LEN, &len, &error));
  print_result("huge get", &error);
  leveldb_iterator_t* iter = terrace_txn_iterator(txn, NULL, &error);
  leveldb_iter_seek(iter, key, HUGE_LEN);
  leveldb_iter_get_error(iter, &error);
  print_result("huge seek", &error);
  leveldb_iter_destroy(iter);
  terrace_txn_destroy(txn);

  terrace_txn_options_t* options = terrace_txn_options_create();
  terrace_txn_options_set_memory(options, (size_t)1 << 30);
  terrace_txn_options_set_sync(options, 1);
  txn = begin(db, options);
  leveldb_free(terrace_txn_get(txn, key, HUGE_LEN, &len, &error));
  terrace_txn_put(txn, key, HUGE_LEN, "", 0, &error);
  print_result("huge put within the limit", &error);
  finish("huge commit", txn);
  printf("huge last change: %d", terrace_last_change(db, key, HUGE_LEN, &last, &error));
  printf(" %d\n", last > 0);
  leveldb_delete(db, NULL, key, HUGE_LEN, &error);
  print_result("delete", &error);
  terrace_txn_options_destroy(options);
  free(key);
}

static void forked_child(leveldb_t* db) {
  terrace_txn_options_t* options = locking(60000);
  terrace_txn_t* txn = begin(db, NULL);
  terrace_txn_t* locked = begin(db, options);
  put(db, "parent", "1");
  txn_get(txn, "parent");
  txn_put(txn, "child", "1");
  txn_get(locked, "before the fork");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    txn_get(txn, "parent");
    txn_get(txn, "child");
    txn_get(locked, "parent");
    finish("commit of the child", txn);
    terrace_txn_destroy(locked);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("status of the child: %d\n", status);
  finish("commit of the parent", txn);
  txn_get(locked, "parent");
  finish("commit with locks", locked);
  terrace_txn_options_destroy(options);
}

static void after_close(leveldb_t* db) {
  terrace_txn_t* txn = begin(db, NULL);
  terrace_txn_t* other = begin(db, NULL);
  txn_get(txn, "b");
  txn_put(txn, "closed", "1");
  txn_put(other, "closed", "1");
  leveldb_iterator_t* iter = terrace_txn_iterator(txn, NULL, &error);
  terrace_close(db, &error);
  print_result("close", &error);
  txn_get(txn, "closed");
  txn_get(txn, "b");
  leveldb_iter_seek(iter, "closed", 6);
  print_position("iterator", iter);
  leveldb_iter_destroy(iter);
  finish("commit after the close", txn);
  finish("blind commit after the close", other);
}

/* ---- The loop of the header ---- */

static leveldb_t* shared;

static void* increment(void* option) {
  const terrace_txn_options_t* options = option;
  for (int i = 0; i < INCREMENTS; i++) {
    for (;;) {
      char *err = NULL, next[32];
      size_t len;
      terrace_txn_t* txn = terrace_begin(shared, options, &err);
      char* value = terrace_txn_get_for_update(txn, "counter", 7, &len, &err);
      int number = 0;
      for (size_t digit = 0; digit < len; digit++) {
        number = 10 * number + (value[digit] - '0');
      }
      leveldb_free(value);
      size_t next_len = (size_t)snprintf(next, sizeof next, "%d", number + 1);
      terrace_txn_put(txn, "counter", 7, next, next_len, &err);
      int done = err == NULL && terrace_txn_commit(txn, NULL, &err);
      int again = terrace_txn_should_retry(txn);
      terrace_txn_destroy(txn);
      if (done) {
        break;
      }
      if (!again) {
        print_result("increment", &err);
        return NULL;
      }
      leveldb_free(err);
    }
  }
  return NULL;
}

static void count(leveldb_t* db, terrace_txn_options_t* options) {
  pthread_t threads[THREADS];
  shared = db;
  put(db, "counter", "0");
  for (int i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, increment, options);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  print_get(db, NULL, "counter");
}

int main(void) {
  terrace_txn_options_t* options = locking(60000);
  leveldb_t* db = open_database("db");
  /* First: before the process has background threads. */
  forked_child(db);
  own_writes(db);
  iterators(db);
  conflicts(db);
  savepoints(db);
  write_if(db);
  lock_timeout(db);
  two_threads(db);
  after_the_end(db);
  nothing(db);
  count(db, NULL);
  count(db, options);
  huge_keys(db);
  after_close(db);
  terrace_txn_options_destroy(options);
  return 0;
}
