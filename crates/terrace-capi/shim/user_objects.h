// Objects that a program brings, for Rust: each with the calls for its kind. Null, and objects of the library's own
// classes, have none.

#ifndef TERRACE_SHIM_USER_OBJECTS_H_
#define TERRACE_SHIM_USER_OBJECTS_H_

#include "cxx_abi.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"

namespace terrace {

NullableUserObject<ComparatorCallbacks> ToUserObject(const leveldb::Comparator* comparator);
NullableUserObject<FilterCallbacks> ToUserObject(const leveldb::FilterPolicy* policy);
NullableUserObject<CacheCallbacks> ToUserObject(leveldb::Cache* cache);
NullableUserObject<EnvCallbacks> ToUserObject(leveldb::Env* env);
NullableUserObject<LoggerCallbacks> ToUserObject(leveldb::Logger* logger);
NullableUserObject<SequentialFileCallbacks> ToUserObject(leveldb::SequentialFile* file);
NullableUserObject<RandomAccessFileCallbacks> ToUserObject(leveldb::RandomAccessFile* file);
NullableUserObject<WritableFileCallbacks> ToUserObject(leveldb::WritableFile* file);

// True if object is of the class of known, which is final. Not a dynamic_cast: the classes of a program that was compiled
// without type information have none to look at, but every object begins with its table.
inline bool HasSameVtable(const void* object, const void* known) {
  return *static_cast<const void* const*>(object) == *static_cast<const void* const*>(known);
}

// The bits a key of the library's own policy; -1 for any other and for none.
int BloomBits(const leveldb::FilterPolicy* policy);

// The blocks of the library's own cache; null for any other and for none.
const BlockCache* BuiltinBlockCache(leveldb::Cache* cache);

// True for what Env::Default() returns.
bool IsDefaultEnv(const leveldb::Env* env);

}  // namespace terrace

#endif  // TERRACE_SHIM_USER_OBJECTS_H_
