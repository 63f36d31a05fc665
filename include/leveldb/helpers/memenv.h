// Files in memory.

#ifndef STORAGE_LEVELDB_HELPERS_MEMENV_MEMENV_H_
#define STORAGE_LEVELDB_HELPERS_MEMENV_MEMENV_H_

#include "leveldb/export.h"

namespace leveldb {

class Env;

// An environment whose files are in memory and go with it. Threads, clock and the name of a test directory are those of
// base_env, which lives on while it is used. There are no directories: every name is a file's whole path, and whatever
// stands before its last slash counts as there. The caller deletes it, after every database in it.
LEVELDB_EXPORT Env* NewMemEnv(Env* base_env);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_HELPERS_MEMENV_MEMENV_H_
