// Objects that a program brings, for Rust: each with the calls for its kind. Null, and objects of the library's own
// classes, have none.

#ifndef TERRACE_SHIM_HANDED_H_
#define TERRACE_SHIM_HANDED_H_

#include "flat.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"

namespace terrace {

Handed<ComparatorCalls> Hand(const leveldb::Comparator* comparator);
Handed<FilterCalls> Hand(const leveldb::FilterPolicy* policy);
Handed<CacheCalls> Hand(leveldb::Cache* cache);
Handed<EnvCalls> Hand(leveldb::Env* env);
Handed<LoggerCalls> Hand(leveldb::Logger* logger);
Handed<SequentialCalls> Hand(leveldb::SequentialFile* file);
Handed<RandomCalls> Hand(leveldb::RandomAccessFile* file);
Handed<WritableCalls> Hand(leveldb::WritableFile* file);

// True if object is of the class of known, which is final. Not a dynamic_cast: the classes of a program that was compiled
// without type information have none to look at, but every object begins with its table.
inline bool OfClass(const void* object, const void* known) {
  return *static_cast<const void* const*>(object) == *static_cast<const void* const*>(known);
}

// The bits a key of the library's own policy; -1 for any other and for none.
int BloomBits(const leveldb::FilterPolicy* policy);

// The blocks of the library's own cache; null for any other and for none.
const BlockCache* Blocks(leveldb::Cache* cache);

// True for what Env::Default() returns.
bool IsSystem(const leveldb::Env* env);

}  // namespace terrace

#endif  // TERRACE_SHIM_HANDED_H_
