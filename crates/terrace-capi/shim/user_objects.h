// SPDX-License-Identifier: MIT OR Apache-2.0

// Objects of the program with their callbacks, for Rust. Null and objects of the library's own
// classes have no callbacks.

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

// Returns true if object has the final class of known. Compares the virtual tables: a dynamic_cast
// would need type information, which programs may compile without.
inline bool HasSameVtable(const void* object, const void* known) {
  return *static_cast<const void* const*>(object) == *static_cast<const void* const*>(known);
}

// Returns the bits per key of the built-in filter policy; -1 for any other policy and for null.
int BloomBits(const leveldb::FilterPolicy* policy);

// Returns the block cache of the built-in cache; null for any other cache and for null.
const BlockCache* BuiltinBlockCache(leveldb::Cache* cache);

// Returns true for the result of Env::Default().
bool IsDefaultEnv(const leveldb::Env* env);

}  // namespace terrace

#endif  // TERRACE_SHIM_USER_OBJECTS_H_
