// From LevelDB's types to flat ones and back.

#ifndef TERRACE_SHIM_BORDER_H_
#define TERRACE_SHIM_BORDER_H_

#include <cstdlib>
#include <string>

#include "flat.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace terrace {

inline Bytes Flat(const leveldb::Slice& slice) { return Bytes{slice.data(), slice.size()}; }

inline leveldb::Slice Sliced(Bytes bytes) { return leveldb::Slice(bytes.start, bytes.len); }

inline std::string String(Bytes bytes) { return std::string(bytes.start, bytes.len); }

// The bytes in place of what string holds.
inline Text Fill(std::string* string) {
  return Text{string, [](void* to, Bytes bytes) {
                static_cast<std::string*>(to)->assign(bytes.start, bytes.len);
              }};
}

// The bytes behind what string holds.
inline Text Append(std::string* string) {
  return Text{string, [](void* to, Bytes bytes) {
                static_cast<std::string*>(to)->append(bytes.start, bytes.len);
              }};
}

// The status of a flat call: `Outcome end; return end.Of(terrace_cxx_..(.., end.report()));`
class Outcome {
 public:
  Report* report() { return &report_; }

  leveldb::Status Of(Code code) {
    if (code == 0) return leveldb::Status::OK();
    return Failed(code);
  }

 private:
  leveldb::Status Failed(Code code);

  Report report_ = {nullptr, 0};
};

// The other way: the code of what a program's object answered, its message left in *report.
Code Tell(const leveldb::Status& status, Report* report);

}  // namespace terrace

#endif  // TERRACE_SHIM_BORDER_H_
