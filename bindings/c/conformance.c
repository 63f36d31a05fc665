/* Driver of the conformance cases in C. bindings/conformance/README.md describes the grammar.
 *
 *   line --words--> step, or result of the step before --> session, which has one database
 *
 * Usage: conformance DIRECTORY FILE.txt ..., with a directory for the databases of the cases. */

#include <stdio.h>

#include "steps.h"

#define MAX_WORDS 64

/* C lacks use-after-close: a program may not use a closed handle, and an iterator outlives its
 * database. */
static const char* const MISSING_FEATURE = "use-after-close";

/* Kinds of errors by the beginning of their messages, the longer beginnings first. A closed database
 * is NULL in this driver, as in a careful program. */
static const char* const KINDS[][2] = {
    {"closed", "Invalid argument: null pointer"},
    {"locked", "IO error: lock "},
    {"io", "IO error: "},
    {"corruption", "Corruption: "},
    {"invalid", "Invalid argument: "},
    {"unsupported", "Not implemented: "},
};

static const char* kind_of(const char* error) {
  for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
    if (strncmp(error, KINDS[i][1], strlen(KINDS[i][1])) == 0) {
      return KINDS[i][0];
    }
  }
  return "unknown";
}

/* A case that runs now, with counts over all cases. */
typedef struct {
  const char* directory;
  const char* file;
  int line;
  char* name;
  int has_failed;
  int is_skipped;
  session_t session;
  result_t found;
  char* step; /* Text of the last step, or NULL if its result was checked. */
  int cases, skipped, failed;
} driver_t;

static int has_error(const result_t* found, char** words) {
  if (found->outcome != FAILED || strcmp(kind_of(found->error), words[1]) != 0) {
    return 0;
  }
  for (words += 2; *words != NULL; words++) {
    if (strstr(found->error, *words) == NULL) {
      return 0;
    }
  }
  return 1;
}

static int has_entries(const result_t* found, char** words) {
  size_t i = 0;
  for (; *words != NULL; words++, i++) {
    entry_t expected = decode_entry(*words);
    int is_equal = i < found->count && is_same_entry(found->entries[i], expected);
    free_entry(expected);
    if (!is_equal) {
      return 0;
    }
  }
  return i == found->count;
}

static int has_value(const result_t* found, const char* word) {
  bytes_t expected = decode_word(word);
  int is_equal = is_same(found->entries[0].value, expected);
  free(expected.data);
  return is_equal;
}

/* Whether a result is the one that the words of the case state. */
static int is_expected(const result_t* found, char** words) {
  if (strcmp(words[0], "error") == 0) {
    return has_error(found, words);
  }
  if (strcmp(words[0], "missing") == 0) {
    return found->outcome == MISSING;
  }
  if (strcmp(words[0], "count") == 0) {
    return found->outcome == ENTRIES && found->count == strtoul(words[1], NULL, 10);
  }
  return found->outcome == VALUE ? words[1] != NULL && has_value(found, words[1])
                                 : found->outcome == ENTRIES && has_entries(found, words + 1);
}

static void print_bytes(bytes_t bytes) {
  for (size_t i = 0; i < bytes.len && i < 100; i++) {
    unsigned char byte = (unsigned char)bytes.data[i];
    printf(byte > ' ' && byte <= '~' ? "%c" : "\\x%02x", byte);
  }
}

static void fail(driver_t* driver, const char* expected) {
  static const char* const OUTCOMES[] = {"success", "", "entries", "missing", "error"};
  printf("%s:%d: %s: %s: expected %s, found %s", driver->file, driver->line, driver->name, driver->step,
         expected, OUTCOMES[driver->found.outcome]);
  for (size_t i = 0; i < driver->found.count && i < 10; i++) {
    putchar(' ');
    print_bytes(driver->found.entries[i].key);
    putchar('=');
    print_bytes(driver->found.entries[i].value);
  }
  printf(" %s\n", driver->found.error == NULL ? "" : driver->found.error);
  driver->has_failed = 1;
}

/* Forgets the last step. A step without a result must succeed. */
static void end_step(driver_t* driver) {
  if (driver->step != NULL && driver->found.outcome == FAILED) {
    fail(driver, "success");
  }
  free_result(&driver->found);
  memset(&driver->found, 0, sizeof(driver->found));
  free(driver->step);
  driver->step = NULL;
}

static void end_case(driver_t* driver) {
  if (driver->name == NULL) {
    return;
  }
  end_step(driver);
  end_session(&driver->session);
  driver->failed += driver->has_failed;
  free(driver->name);
  driver->name = NULL;
}

static void begin_case(driver_t* driver, const char* name) {
  end_case(driver);
  driver->cases++;
  driver->name = strdup(name);
  driver->has_failed = driver->is_skipped = 0;
  memset(&driver->session, 0, sizeof(driver->session));
  snprintf(driver->session.path, sizeof(driver->session.path), "%s/%s", driver->directory, name);
}

/* Skips the case if a feature is missing, or moves its directory to the small disk. */
static void require(driver_t* driver, char** features) {
  for (; *features != NULL && !driver->is_skipped; features++) {
    const char* disk = getenv("TERRACE_SMALL_DISK");
    if (strcmp(*features, MISSING_FEATURE) == 0) {
      driver->is_skipped = 1;
    } else if (strcmp(*features, "small-disk") == 0 && disk == NULL) {
      printf("NOT TESTED: %s: no small disk\n", driver->name);
      driver->is_skipped = 1;
    } else if (strcmp(*features, "small-disk") == 0) {
      snprintf(driver->session.path, sizeof(driver->session.path), "%s/%s", disk, driver->name);
    }
  }
  driver->skipped += driver->is_skipped;
}

static int is_result(const char* word) {
  return strcmp(word, "expect") == 0 || strcmp(word, "count") == 0 || strcmp(word, "missing") == 0 ||
         strcmp(word, "error") == 0;
}

static void run_line(driver_t* driver, const char* text, char** words) {
  if (strcmp(words[0], "case") == 0) {
    begin_case(driver, words[1]);
  } else if (strcmp(words[0], "requires") == 0) {
    require(driver, words + 1);
  } else if (driver->is_skipped || driver->has_failed) {
    return;
  } else if (is_result(words[0])) {
    if (!is_expected(&driver->found, words)) {
      fail(driver, text);
    }
    free(driver->step);
    driver->step = NULL;
  } else {
    end_step(driver);
    driver->step = strdup(text);
    driver->found = run_step(&driver->session, words);
  }
}

static void run_file(driver_t* driver, const char* path) {
  char* line = NULL;
  size_t capacity = 0;
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  driver->file = path;
  for (driver->line = 1; getline(&line, &capacity, file) >= 0; driver->line++) {
    line[strcspn(line, "\n")] = 0;
    char* text = strdup(line);
    char* words[MAX_WORDS + 1] = {NULL};
    size_t count = 0;
    for (char* word = strtok(line, " "); word != NULL && count < MAX_WORDS; word = strtok(NULL, " ")) {
      words[count++] = word;
    }
    if (count > 0 && words[0][0] != '#') {
      run_line(driver, text, words);
    }
    free(text);
  }
  end_case(driver);
  free(line);
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: conformance DIRECTORY FILE.txt ...\n");
    return 2;
  }
  driver_t driver = {.directory = argv[1]};
  for (int i = 2; i < argc; i++) {
    run_file(&driver, argv[i]);
  }
  printf("%d cases, %d skipped\n", driver.cases, driver.skipped);
  return driver.failed > 0;
}
