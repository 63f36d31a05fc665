/* Forks of a process with an open database: a child beside its parent reads and has a database of its
 * own; a process that calls daemon() continues to write, also after a second daemon().
 *
 * Background threads flush and compact during these forks. AddressSanitizer does not support that: its
 * allocator has no handlers of fork before LLVM 17, so a child inherits a lock that another thread of the
 * parent held, for ever. With ONE_THREAD, the program therefore forks before it has background threads,
 * and becomes a daemon only once: an adoption may start a background thread. */

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terrace/terrace.h"
#include "print.h"

#ifdef ONE_THREAD
enum { FORKS_BESIDE_THREADS = 0 };
#else
enum { FORKS_BESIDE_THREADS = 1 };
#endif

enum { VALUE_LEN = 1000, VALUES = 8000 };

/* A forked process cannot free the memory of its parent's threads. */
const char* __asan_default_options(void) { return "detect_leaks=0"; }

static char path[PATH_MAX];
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;

static leveldb_t* open_database(const char* name) {
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, name, &error);
  if (error != NULL) {
    print_result("open", &error);
  }
  return db;
}

/* Writes more than a memtable holds, so that background threads must flush. */
static void fill(leveldb_t* db, const char* prefix) {
  static char value[VALUE_LEN + 1];
  memset(value, 'x', VALUE_LEN);
  for (int i = 0; i < VALUES; i++) {
    char key[64];
    snprintf(key, sizeof key, "%s %05d", prefix, i);
    put(db, key, value);
  }
}

static int count(leveldb_t* db) {
  int entries = 0;
  char* error = NULL;
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    entries++;
  }
  leveldb_iter_get_error(iter, &error);
  if (error != NULL) {
    print_result("count", &error);
  }
  leveldb_iter_destroy(iter);
  return entries;
}

/* Returns the number of threads of this process. */
static int count_threads(void) {
  int threads = 0;
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    sscanf(line, "Threads: %d", &threads);
  }
  if (status != NULL) {
    fclose(status);
  }
  return threads;
}

/* Checks the number of threads, and empties the buffer of the output, which the child would copy. */
static void prepare_fork(void) {
  if (!FORKS_BESIDE_THREADS && count_threads() != 1) {
    printf("threads before a fork: %d\n", count_threads());
  }
  fflush(stdout);
}

/* The parent waits, so it lives. */
static void child_beside_parent(leveldb_t* db) {
  prepare_fork();
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    print_get(db, reading, "before");
    put(db, "child", "refused");
    leveldb_t* own = open_database("own");
    fill(own, "child");
    leveldb_compact_range(own, NULL, 0, NULL, 0);
    printf("entries of the child: %d\n", count(own));
    leveldb_close(own);
    leveldb_close(db);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("status of the child: %d\n", status);
  put(db, "parent", "1");
}

/* Locks a key in a transaction. Returns the transaction, which holds the lock. */
static terrace_txn_t* begin_locked(leveldb_t* db) {
  char* error = NULL;
  terrace_txn_options_t* locking = terrace_txn_options_create();
  terrace_txn_options_set_locking(locking, 1);
  terrace_txn_t* txn = terrace_begin(db, locking, &error);
  terrace_txn_put(txn, "locked", 6, "by a transaction", 16, &error);
  print_result("lock", &error);
  terrace_txn_options_destroy(locking);
  return txn;
}

static void become_daemon(void) {
  prepare_fork();
  if (daemon(0, 1) != 0) {
    printf("daemon failed\n");
  }
  alarm(60);
}

int main(void) {
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  leveldb_t* db = open_database("db");
  if (realpath("db", path) == NULL) {
    return 1;
  }
  put(db, "before", "0");
  child_beside_parent(db);
  terrace_txn_t* of_parent = begin_locked(db);
  if (FORKS_BESIDE_THREADS) {
    fill(db, "parent");
    become_daemon();
  }
  put(db, "daemon", "1");
  if (FORKS_BESIDE_THREADS) {
    fill(db, "daemon");
  }
  print_get(db, reading, "before");
  print_get(db, reading, "daemon");

  /* As a daemon that forks twice. */
  become_daemon();
  become_daemon();
  /* A lock of the first process does not exist in this one, and its transaction cannot lock here. */
  char* error = NULL;
  terrace_txn_put(of_parent, "another", 7, "", 0, &error);
  print_result("transaction of the first process", &error);
  terrace_txn_destroy(of_parent);
  terrace_txn_t* own = begin_locked(db);
  printf("commit: %d\n", terrace_txn_commit(own, NULL, &error));
  print_result("commit", &error);
  terrace_txn_destroy(own);
  put(db, "second daemon", "2");
  if (!FORKS_BESIDE_THREADS) {
    fill(db, "parent");
    fill(db, "daemon");
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  printf("entries of the daemon: %d\n", count(db));
  leveldb_close(db);

  db = open_database(path);
  printf("entries after the close: %d\n", count(db));
  print_get(db, reading, "child");
  print_get(db, reading, "parent");
  print_get(db, reading, "second daemon");
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(options);
  return 0;
}
