/* Steps of a conformance case. Each function calls what a C program would call. The functions have
 * their terrace_ names, so that the driver links with libterrace.a and with the drop-in library. */

#include "steps.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static int is_word(const char* word, const char* expected) {
  return word != NULL && strcmp(word, expected) == 0;
}

/* Takes the error, and returns the result of a step without a value. */
static result_t done(char* error) {
  result_t result = {error == NULL ? DONE : FAILED, error, NULL, 0};
  return result;
}

/* Slot of a name; a new one if there is none. */
static named_t* named(session_t* session, const char* name) {
  for (size_t i = 0; i < MAX_NAMES; i++) {
    named_t* slot = &session->names[i];
    if (slot->name == NULL) {
      slot->name = strdup(name);
    }
    if (strcmp(slot->name, name) == 0) {
      return slot;
    }
  }
  fprintf(stderr, "a case has more than %d names\n", MAX_NAMES);
  exit(1);
}

static void release(session_t* session, named_t* slot) {
  terrace_iter_destroy(slot->iterator);
  terrace_release_snapshot(session->db, slot->snapshot);
  slot->iterator = NULL;
  slot->snapshot = NULL;
}

/* Options of a read at the snapshot after the word "at", if there is one. */
static leveldb_readoptions_t* read_options(session_t* session, char** words) {
  leveldb_readoptions_t* options = terrace_readoptions_create();
  for (; *words != NULL; words++) {
    if (is_word(*words, "at")) {
      terrace_readoptions_set_snapshot(options, named(session, words[1])->snapshot);
    }
  }
  return options;
}

static leveldb_writeoptions_t* write_options(const char* word) {
  leveldb_writeoptions_t* options = terrace_writeoptions_create();
  terrace_writeoptions_set_sync(options, is_word(word, "sync"));
  return options;
}

/* The second opener of a case must fail, so the handle of the first one stays. */
static result_t open_database(session_t* session, const char* how) {
  char* error = NULL;
  leveldb_options_t* options = terrace_options_create();
  terrace_options_set_create_if_missing(options, !is_word(how, "existing"));
  terrace_options_set_error_if_exists(options, is_word(how, "new"));
  leveldb_t* db = is_word(how, "read-only") ? terrace_open_read_only(options, session->path, &error)
                                            : terrace_open(options, session->path, &error);
  terrace_options_destroy(options);
  if (db != NULL) {
    session->db = db;
  }
  return done(error);
}

static result_t close_database(session_t* session) {
  char* error = NULL;
  if (session->db != NULL) {
    terrace_close(session->db, &error);
    session->db = NULL;
  }
  return done(error);
}

static result_t put(session_t* session, char** words) {
  char* error = NULL;
  bytes_t key = decode_word(words[1]);
  bytes_t value = decode_word(words[2]);
  leveldb_writeoptions_t* options = write_options(words[3]);
  terrace_put(session->db, options, key.data, key.len, value.data, value.len, &error);
  terrace_writeoptions_destroy(options);
  free(key.data);
  free(value.data);
  return done(error);
}

static result_t delete_key(session_t* session, char** words) {
  char* error = NULL;
  bytes_t key = decode_word(words[1]);
  leveldb_writeoptions_t* options = write_options(words[2]);
  terrace_delete(session->db, options, key.data, key.len, &error);
  terrace_writeoptions_destroy(options);
  free(key.data);
  return done(error);
}

static result_t write_batch(session_t* session, char** words) {
  char* error = NULL;
  leveldb_writebatch_t* batch = terrace_writebatch_create();
  for (words++; *words != NULL; words++) {
    entry_t entry = decode_entry(*words + 1);
    if (**words == '+') {
      terrace_writebatch_put(batch, entry.key.data, entry.key.len, entry.value.data, entry.value.len);
    } else {
      terrace_writebatch_delete(batch, entry.key.data, entry.key.len);
    }
    free_entry(entry);
  }
  terrace_write(session->db, NULL, batch, &error);
  terrace_writebatch_destroy(batch);
  return done(error);
}

static result_t fill(session_t* session, char** words) {
  char* error = NULL;
  size_t count = strtoul(words[1], NULL, 10);
  size_t size = strtoul(words[2], NULL, 10);
  char* value = malloc(size + 1);
  memset(value, 'v', size);
  for (size_t i = 0; i < count && error == NULL; i++) {
    char key[32];
    int len = snprintf(key, sizeof(key), "k%08zu", i);
    terrace_put(session->db, NULL, key, (size_t)len, value, size, &error);
  }
  free(value);
  return done(error);
}

static result_t delete_range(session_t* session, char** words) {
  char* error = NULL;
  bytes_t from = decode_word(words[1]);
  bytes_t to = decode_word(words[2]);
  terrace_delete_range(session->db, from.data, from.len, to.data, to.len, &error);
  free(from.data);
  free(to.data);
  return done(error);
}

static result_t get(session_t* session, char** words) {
  result_t result = {VALUE, NULL, NULL, 0};
  entry_t entry = {decode_word(words[1]), {NULL, 0}, 1};
  leveldb_readoptions_t* options = read_options(session, words + 2);
  entry.value.data =
      terrace_get(session->db, options, entry.key.data, entry.key.len, &entry.value.len, &result.error);
  terrace_readoptions_destroy(options);
  if (result.error != NULL) {
    result.outcome = FAILED;
  } else if (entry.value.data == NULL) {
    result.outcome = MISSING;
  }
  add_entry(&result, entry);
  return result;
}

static result_t get_many(session_t* session, char** words) {
  enum { MAX_KEYS = 16 };
  result_t result = {ENTRIES, NULL, NULL, 0};
  const char* keys[MAX_KEYS];
  size_t key_lens[MAX_KEYS];
  char* values[MAX_KEYS];
  size_t value_lens[MAX_KEYS];
  for (words++; *words != NULL && result.count < MAX_KEYS; words++) {
    entry_t entry = {decode_word(*words), {NULL, 0}, 0};
    keys[result.count] = entry.key.data;
    key_lens[result.count] = entry.key.len;
    add_entry(&result, entry);
  }
  terrace_multi_get(session->db, NULL, result.count, keys, key_lens, values, value_lens, &result.error);
  for (size_t i = 0; i < result.count; i++) {
    bytes_t value = {values[i], value_lens[i]};
    result.entries[i].value = value;
    result.entries[i].has_value = values[i] != NULL;
  }
  result.outcome = result.error == NULL ? ENTRIES : FAILED;
  return result;
}

static void add_current(result_t* result, const leveldb_iterator_t* iterator) {
  size_t key_len, value_len;
  const char* key = terrace_iter_key(iterator, &key_len);
  const char* value = terrace_iter_value(iterator, &value_len);
  entry_t entry = {copy_of(key, key_len), copy_of(value, value_len), 1};
  add_entry(result, entry);
}

/* Sets the bounds of a scan. Returns its limit, and whether it is reverse. */
static size_t read_range(leveldb_readoptions_t* options, char** words, int* reverse) {
  size_t limit = SIZE_MAX;
  for (; *words != NULL; words++) {
    if (is_word(*words, "reverse")) {
      *reverse = 1;
      continue;
    }
    char* verb = *words++;
    bytes_t argument = decode_word(*words);
    if (is_word(verb, "from")) {
      terrace_readoptions_set_lower_bound(options, argument.data, argument.len);
    } else if (is_word(verb, "to")) {
      terrace_readoptions_set_upper_bound(options, argument.data, argument.len);
    } else if (is_word(verb, "prefix")) {
      terrace_readoptions_set_prefix(options, argument.data, argument.len);
    } else if (is_word(verb, "limit")) {
      limit = strtoul(*words, NULL, 10);
    }
    free(argument.data);
  }
  return limit;
}

static result_t scan(session_t* session, char** words) {
  result_t result = {ENTRIES, NULL, NULL, 0};
  int reverse = 0;
  leveldb_readoptions_t* options = read_options(session, words + 1);
  size_t limit = read_range(options, words + 1, &reverse);
  leveldb_iterator_t* iterator = terrace_create_iterator(session->db, options);
  terrace_readoptions_destroy(options);
  (reverse ? terrace_iter_seek_to_last : terrace_iter_seek_to_first)(iterator);
  while (result.count < limit && terrace_iter_valid(iterator)) {
    add_current(&result, iterator);
    (reverse ? terrace_iter_prev : terrace_iter_next)(iterator);
  }
  terrace_iter_get_error(iterator, &result.error);
  terrace_iter_destroy(iterator);
  result.outcome = result.error == NULL ? ENTRIES : FAILED;
  return result;
}

static result_t create_iterator(session_t* session, char** words) {
  leveldb_readoptions_t* options = read_options(session, words + 2);
  named(session, words[1])->iterator = terrace_create_iterator(session->db, options);
  terrace_readoptions_destroy(options);
  return done(NULL);
}

static result_t move_iterator(session_t* session, char** words) {
  result_t result = {ENTRIES, NULL, NULL, 0};
  leveldb_iterator_t* iterator = named(session, words[1])->iterator;
  if (is_word(*words, "first")) {
    terrace_iter_seek_to_first(iterator);
  } else if (is_word(*words, "last")) {
    terrace_iter_seek_to_last(iterator);
  } else if (is_word(*words, "next")) {
    terrace_iter_next(iterator);
  } else if (is_word(*words, "prev")) {
    terrace_iter_prev(iterator);
  } else {
    bytes_t key = decode_word(words[2]);
    terrace_iter_seek(iterator, key.data, key.len);
    free(key.data);
  }
  terrace_iter_get_error(iterator, &result.error);
  if (result.error != NULL) {
    result.outcome = FAILED;
  } else if (!terrace_iter_valid(iterator)) {
    result.outcome = MISSING;
  } else {
    add_current(&result, iterator);
  }
  return result;
}

static result_t maintain(session_t* session, const char* verb) {
  char* error = NULL;
  leveldb_options_t* options = terrace_options_create();
  if (is_word(verb, "compact")) {
    terrace_flush(session->db, &error);
    terrace_compact_range(session->db, NULL, 0, NULL, 0, &error);
  } else if (is_word(verb, "repair")) {
    terrace_repair_db(options, session->path, &error);
  } else {
    terrace_destroy_db(options, session->path, &error);
  }
  terrace_options_destroy(options);
  return done(error);
}

/* Inverts the byte at `offset`. A negative offset counts from the end. */
static int damage(const char* path, long offset) {
  FILE* file = fopen(path, "r+b");
  if (file == NULL) {
    return 0;
  }
  int from = offset < 0 ? SEEK_END : SEEK_SET;
  fseek(file, offset, from);
  int byte = fgetc(file);
  fseek(file, offset, from);
  fputc(byte ^ 0xff, file);
  return fclose(file) == 0 && byte != EOF;
}

static int ends_with(const char* text, const char* suffix) {
  size_t len = strlen(text), suffix_len = strlen(suffix);
  return len >= suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

/* Changes each file whose name ends in the suffix; at least one. */
static result_t change_files(session_t* session, char** words) {
  int changed = 0, succeeded = 1;
  DIR* directory = opendir(session->path);
  for (struct dirent* file; directory != NULL && (file = readdir(directory)) != NULL;) {
    if (!ends_with(file->d_name, words[1])) {
      continue;
    }
    char path[sizeof(session->path) + sizeof(file->d_name) + 1];
    snprintf(path, sizeof(path), "%s/%s", session->path, file->d_name);
    if (is_word(*words, "damage")) {
      succeeded &= damage(path, strtol(words[2], NULL, 10));
    } else if (is_word(*words, "truncate")) {
      succeeded &= truncate(path, strtol(words[2], NULL, 10)) == 0;
    } else {
      succeeded &= unlink(path) == 0;
    }
    changed++;
  }
  if (directory != NULL) {
    closedir(directory);
  }
  return done(changed > 0 && succeeded ? NULL : strdup("no file was changed"));
}

static result_t remount(const char* verb) {
  int status = is_word(verb, "protect") ? system("mount -o remount,ro \"$TERRACE_SMALL_DISK\"")
                                        : system("mount -o remount,rw \"$TERRACE_SMALL_DISK\"");
  return done(status == 0 ? NULL : strdup("mount failed"));
}

result_t run_step(session_t* session, char** words) {
  char* verb = words[0];
  if (is_word(verb, "open")) return open_database(session, words[1]);
  if (is_word(verb, "close")) return close_database(session);
  if (is_word(verb, "put")) return put(session, words);
  if (is_word(verb, "delete")) return delete_key(session, words);
  if (is_word(verb, "batch")) return write_batch(session, words);
  if (is_word(verb, "fill")) return fill(session, words);
  if (is_word(verb, "delete-range")) return delete_range(session, words);
  if (is_word(verb, "get")) return get(session, words);
  if (is_word(verb, "get-many")) return get_many(session, words);
  if (is_word(verb, "scan")) return scan(session, words);
  if (is_word(verb, "iterator")) return create_iterator(session, words);
  if (is_word(verb, "snapshot")) {
    named(session, words[1])->snapshot = terrace_create_snapshot(session->db);
    return done(NULL);
  }
  if (is_word(verb, "release")) {
    release(session, named(session, words[1]));
    return done(NULL);
  }
  for (const char** move = (const char*[]){"first", "last", "seek", "next", "prev", NULL}; *move; move++) {
    if (is_word(verb, *move)) return move_iterator(session, words);
  }
  for (const char** change = (const char*[]){"damage", "truncate", "remove", NULL}; *change; change++) {
    if (is_word(verb, *change)) return change_files(session, words);
  }
  if (is_word(verb, "protect") || is_word(verb, "unprotect")) return remount(verb);
  return maintain(session, verb);
}

static int remove_entry(const char* path, const struct stat* status, int kind, struct FTW* place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

void end_session(session_t* session) {
  for (size_t i = 0; i < MAX_NAMES; i++) {
    release(session, &session->names[i]);
    free(session->names[i].name);
  }
  result_t closed = close_database(session);
  free_result(&closed);
  nftw(session->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
