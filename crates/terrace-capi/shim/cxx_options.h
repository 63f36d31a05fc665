// Options for Rust.

#ifndef TERRACE_SHIM_CXX_OPTIONS_H_
#define TERRACE_SHIM_CXX_OPTIONS_H_

#include "user_objects.h"
#include "leveldb/options.h"

namespace terrace {

// Refers to the objects in options, which live through the call it is made for and whatever that opens.
CxxOptions ToCxxOptions(const leveldb::Options& options);

}  // namespace terrace

#endif  // TERRACE_SHIM_CXX_OPTIONS_H_
