/* Steps of a conformance case, on the functions of terrace.h. */

#ifndef TERRACE_CONFORMANCE_STEPS_H_
#define TERRACE_CONFORMANCE_STEPS_H_

#include "terrace/terrace.h"
#include "words.h"

#define MAX_NAMES 8

/* Snapshot or iterator of a case, or both. */
typedef struct {
  char* name;
  const leveldb_snapshot_t* snapshot;
  leveldb_iterator_t* iterator;
} named_t;

/* State of a running case. */
typedef struct {
  char path[4096];
  leveldb_t* db; /* NULL if the case has closed it. */
  named_t names[MAX_NAMES];
} session_t;

/* Runs a step. `words` ends with NULL. */
result_t run_step(session_t* session, char** words);

/* Frees everything, and removes the directory. */
void end_session(session_t* session);

#endif
