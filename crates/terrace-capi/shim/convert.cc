// SPDX-License-Identifier: MIT OR Apache-2.0

#include "convert.h"

#include <cstring>

namespace terrace {

leveldb::Status StatusResult::MakeError(StatusCode code) {
  const leveldb::Slice text(report_.text == nullptr ? "" : report_.text, report_.len);
  leveldb::Status status;
  switch (code) {
    case 1: status = leveldb::Status::NotFound(text); break;
    case 2: status = leveldb::Status::Corruption(text); break;
    case 3: status = leveldb::Status::NotSupported(text); break;
    case 4: status = leveldb::Status::InvalidArgument(text); break;
    default: status = leveldb::Status::IOError(text); break;
  }
  std::free(report_.text);
  report_ = ErrorReport{nullptr, 0};
  return status;
}

// Reads the representation that status.h documents: there are no methods for code and message.
StatusCode FillReport(const leveldb::Status& status, ErrorReport* report) {
  static_assert(sizeof(status) == sizeof(const char*), "a status is its state");
  if (status.ok()) return 0;
  const char* state;
  std::memcpy(&state, &status, sizeof(state));
  uint32_t len;
  std::memcpy(&len, state, sizeof(len));
  report->text = static_cast<char*>(std::malloc(len + 1));
  report->len = report->text == nullptr ? 0 : len;
  if (report->text != nullptr) std::memcpy(report->text, state + 5, len);
  return static_cast<StatusCode>(state[4]);
}

}  // namespace terrace
