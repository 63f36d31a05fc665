// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/status.h"

#include <cstdint>
#include <cstring>

namespace leveldb {

// Size of the header before the message: four bytes of length and one of code.
static const size_t kHeader = 5;

const char* Status::CopyState(const char* s) {
  uint32_t len;
  std::memcpy(&len, s, sizeof(len));
  char* copy = new char[kHeader + len];
  std::memcpy(copy, s, kHeader + len);
  return copy;
}

Status::Status(Code code, const Slice& msg, const Slice& msg2) {
  assert(code != kOk);
  static const char kBetween[] = {':', ' '};
  const size_t between = msg2.empty() ? 0 : sizeof(kBetween);
  const uint32_t len = static_cast<uint32_t>(msg.size() + between + msg2.size());
  char* state = new char[kHeader + len];
  std::memcpy(state, &len, sizeof(len));
  state[4] = static_cast<char>(code);
  char* message = state + kHeader;
  std::memcpy(message, msg.data(), msg.size());
  std::memcpy(message + msg.size(), kBetween, between);
  std::memcpy(message + msg.size() + between, msg2.data(), msg2.size());
  state_ = state;
}

std::string Status::ToString() const {
  if (state_ == nullptr) return "OK";
  std::string text;
  switch (code()) {
    case kOk: text = "OK"; break;
    case kNotFound: text = "NotFound: "; break;
    case kCorruption: text = "Corruption: "; break;
    case kNotSupported: text = "Not implemented: "; break;
    case kInvalidArgument: text = "Invalid argument: "; break;
    case kIOError: text = "IO error: "; break;
    default: text = "Unknown code(" + std::to_string(static_cast<int>(code())) + "): "; break;
  }
  uint32_t len;
  std::memcpy(&len, state_, sizeof(len));
  return text.append(state_ + kHeader, len);
}

}  // namespace leveldb
