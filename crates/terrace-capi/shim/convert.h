// SPDX-License-Identifier: MIT OR Apache-2.0

// Conversions between LevelDB's types and those of cxx_abi.h.

#ifndef TERRACE_SHIM_CONVERT_H_
#define TERRACE_SHIM_CONVERT_H_

#include <cstdlib>
#include <new>
#include <string>

#include "cxx_abi.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace terrace {

inline CxxSlice ToCxxSlice(const leveldb::Slice& slice) { return CxxSlice{slice.data(), slice.size()}; }

inline leveldb::Slice ToSlice(CxxSlice bytes) { return leveldb::Slice(bytes.start, bytes.len); }

inline std::string ToString(CxxSlice bytes) { return std::string(bytes.start, bytes.len); }

// Assigns the bytes to string.
inline CxxString AssignTo(std::string* string) {
  return CxxString{string, [](void* target, CxxSlice bytes) {
                // An exception must not reach Rust.
                try {
                  static_cast<std::string*>(target)->assign(bytes.start, bytes.len);
                } catch (const std::bad_alloc&) {
                  return false;
                }
                return true;
              }};
}

// Appends the bytes to string.
inline CxxString AppendTo(std::string* string) {
  return CxxString{string, [](void* target, CxxSlice bytes) {
                static_cast<std::string*>(target)->append(bytes.start, bytes.len);
                return true;
              }};
}

// Converts the result of a plain function to a status: `StatusResult error; return
// error.ToStatus(terrace_cxx_..(.., error.report()));`
class StatusResult {
 public:
  ErrorReport* report() { return &report_; }

  leveldb::Status ToStatus(StatusCode code) {
    if (code == 0) return leveldb::Status::OK();
    return MakeError(code);
  }

 private:
  leveldb::Status MakeError(StatusCode code);

  ErrorReport report_ = {nullptr, 0};
};

// Returns the code of status and stores its message in *report.
StatusCode FillReport(const leveldb::Status& status, ErrorReport* report);

}  // namespace terrace

#endif  // TERRACE_SHIM_CONVERT_H_
