// SPDX-License-Identifier: MIT OR Apache-2.0

// C++ iterators over Rust iterators.

#ifndef TERRACE_SHIM_RUST_ITERATOR_H_
#define TERRACE_SHIM_RUST_ITERATOR_H_

#include "convert.h"
#include "leveldb/iterator.h"

namespace terrace {

// Takes ownership of iterator; null gives an iterator with an error.
leveldb::Iterator* NewRustIterator(CxxIterator* iterator);

}  // namespace terrace

#endif  // TERRACE_SHIM_RUST_ITERATOR_H_
