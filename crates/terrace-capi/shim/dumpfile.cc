#include "leveldb/dumpfile.h"

#include "border.h"
#include "handed.h"

namespace leveldb {

Status DumpFile(Env* env, const std::string& fname, WritableFile* dst) {
  terrace::Outcome end;
  return end.Of(terrace::terrace_cxx_dump(terrace::Hand(env), terrace::Flat(fname),
                                          terrace::Hand(dst), end.report()));
}

}  // namespace leveldb
