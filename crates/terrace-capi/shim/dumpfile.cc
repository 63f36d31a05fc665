// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/dumpfile.h"

#include "convert.h"
#include "user_objects.h"

namespace leveldb {

Status DumpFile(Env* env, const std::string& fname, WritableFile* dst) {
  terrace::StatusResult error;
  return error.ToStatus(terrace::terrace_cxx_dump(terrace::ToUserObject(env), terrace::ToCxxSlice(fname),
                                          terrace::ToUserObject(dst), error.report()));
}

}  // namespace leveldb
