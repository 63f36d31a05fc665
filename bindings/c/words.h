/* Words of a conformance case: bytes, entries, and the results of steps. */

#ifndef TERRACE_CONFORMANCE_WORDS_H_
#define TERRACE_CONFORMANCE_WORDS_H_

#include <stdlib.h>
#include <string.h>

typedef struct {
  char* data;
  size_t len;
} bytes_t;

typedef struct {
  bytes_t key;
  bytes_t value;
  int has_value;
} entry_t;

typedef enum { DONE, VALUE, ENTRIES, MISSING, FAILED } outcome_t;

/* Result of a step. VALUE has one entry, and only its value counts. */
typedef struct {
  outcome_t outcome;
  char* error;
  entry_t* entries;
  size_t count;
} result_t;

static inline bytes_t copy_of(const char* data, size_t len) {
  bytes_t copy = {malloc(len + 1), len};
  if (len > 0) {
    memcpy(copy.data, data, len);
  }
  return copy;
}

/* Bytes of the text before `end`: \xHH is a byte, TEXT*N repeats, "" is empty. */
static inline bytes_t decode(const char* text, const char* end) {
  const char* star = memchr(text, '*', (size_t)(end - text));
  size_t times = star == NULL ? 1 : strtoul(star + 1, NULL, 10);
  const char* part_end = star == NULL ? end : star;
  bytes_t part = {malloc((size_t)(part_end - text) + 1), 0};
  if (strncmp(text, "\"\"", 2) == 0) {
    return part;
  }
  while (text < part_end) {
    if (strncmp(text, "\\x", 2) == 0) {
      char digits[3] = {text[2], text[3], 0};
      part.data[part.len++] = (char)strtoul(digits, NULL, 16);
      text += 4;
    } else {
      part.data[part.len++] = *text++;
    }
  }
  bytes_t whole = {malloc(part.len * times + 1), part.len * times};
  for (size_t i = 0; i < times; i++) {
    memcpy(whole.data + i * part.len, part.data, part.len);
  }
  free(part.data);
  return whole;
}

static inline bytes_t decode_word(const char* word) { return decode(word, word + strlen(word)); }

/* Entry of the word KEY=VALUE, or a key without a value. */
static inline entry_t decode_entry(const char* word) {
  const char* sign = strchr(word, '=');
  entry_t entry = {decode(word, sign == NULL ? word + strlen(word) : sign), {NULL, 0}, sign != NULL};
  if (entry.has_value) {
    entry.value = decode_word(sign + 1);
  }
  return entry;
}

static inline int is_same(bytes_t a, bytes_t b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline int is_same_entry(entry_t a, entry_t b) {
  return is_same(a.key, b.key) && a.has_value == b.has_value && is_same(a.value, b.value);
}

static inline void free_entry(entry_t entry) {
  free(entry.key.data);
  free(entry.value.data);
}

static inline void add_entry(result_t* result, entry_t entry) {
  result->entries = realloc(result->entries, (result->count + 1) * sizeof(entry_t));
  result->entries[result->count++] = entry;
}

static inline void free_result(result_t* result) {
  for (size_t i = 0; i < result->count; i++) {
    free_entry(result->entries[i]);
  }
  free(result->entries);
  free(result->error);
}

#endif
