// SPDX-License-Identifier: MIT OR Apache-2.0

// Conversion of options for Rust.

#ifndef TERRACE_SHIM_CXX_OPTIONS_H_
#define TERRACE_SHIM_CXX_OPTIONS_H_

#include "user_objects.h"
#include "leveldb/options.h"

namespace terrace {

// The result refers to the objects in options. They must live through the call, and as long as an
// object that the call opens.
CxxOptions ToCxxOptions(const leveldb::Options& options);

}  // namespace terrace

#endif  // TERRACE_SHIM_CXX_OPTIONS_H_
