// From LevelDB's types to flat ones and back.

#ifndef TERRACE_SHIM_CONVERT_H_
#define TERRACE_SHIM_CONVERT_H_

#include <cstdlib>
#include <string>

#include "cxx_abi.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace terrace {

inline CxxSlice ToCxxSlice(const leveldb::Slice& slice) { return CxxSlice{slice.data(), slice.size()}; }

inline leveldb::Slice ToSlice(CxxSlice bytes) { return leveldb::Slice(bytes.start, bytes.len); }

inline std::string ToString(CxxSlice bytes) { return std::string(bytes.start, bytes.len); }

// The bytes in place of what string holds.
inline CxxString AssignTo(std::string* string) {
  return CxxString{string, [](void* target, CxxSlice bytes) {
                static_cast<std::string*>(target)->assign(bytes.start, bytes.len);
              }};
}

// The bytes behind what string holds.
inline CxxString AppendTo(std::string* string) {
  return CxxString{string, [](void* target, CxxSlice bytes) {
                static_cast<std::string*>(target)->append(bytes.start, bytes.len);
              }};
}

// The status of a flat call: `StatusResult error; return error.ToStatus(terrace_cxx_..(.., error.report()));`
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

// The other way: the code of what a program's object answered, its message left in *report.
StatusCode FillReport(const leveldb::Status& status, ErrorReport* report);

}  // namespace terrace

#endif  // TERRACE_SHIM_CONVERT_H_
