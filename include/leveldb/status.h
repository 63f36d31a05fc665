// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Result of a call: success, or an error of one of five kinds with a message.
//
//    0        8                  0          4      5
//    +--------+                  +----------+------+-----------+
//    | state  | --- null or ---> | u32 size | code | message   |   one array of new char[]
//    +--------+                  +----------+------+-----------+
//
// A success needs no allocation. Any number of threads may read one Status; changing it requires
// exclusive access.

#ifndef STORAGE_LEVELDB_INCLUDE_STATUS_H_
#define STORAGE_LEVELDB_INCLUDE_STATUS_H_

#include <algorithm>
#include <string>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  // Creates a success.
  Status() noexcept : state_(nullptr) {}
  ~Status() { delete[] state_; }

  Status(const Status& rhs);
  Status& operator=(const Status& rhs);

  Status(Status&& rhs) noexcept : state_(rhs.state_) { rhs.state_ = nullptr; }
  Status& operator=(Status&& rhs) noexcept;

  static Status OK() { return Status(); }

  // Create errors. The message is msg, or "msg: msg2" if there is a second part.
  static Status NotFound(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kNotFound, msg, msg2);
  }
  static Status Corruption(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kCorruption, msg, msg2);
  }
  static Status NotSupported(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kNotSupported, msg, msg2);
  }
  static Status InvalidArgument(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kInvalidArgument, msg, msg2);
  }
  static Status IOError(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kIOError, msg, msg2);
  }

  // Returns true for success.
  bool ok() const { return state_ == nullptr; }

  // The requested item does not exist.
  bool IsNotFound() const { return code() == kNotFound; }

  // Stored bytes are corrupt or inconsistent.
  bool IsCorruption() const { return code() == kCorruption; }

  // The operating system returned an error.
  bool IsIOError() const { return code() == kIOError; }

  // The object does not support the operation.
  bool IsNotSupportedError() const { return code() == kNotSupported; }

  // An argument or an option is invalid.
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // Returns "OK", or the kind and the message, as in "IO error: lock a/LOCK: already held".
  std::string ToString() const;

 private:
  enum Code {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5
  };

  Code code() const { return state_ == nullptr ? kOk : static_cast<Code>(state_[4]); }

  Status(Code code, const Slice& msg, const Slice& msg2);
  static const char* CopyState(const char* s);

  const char* state_;
};

inline Status::Status(const Status& rhs) {
  state_ = rhs.state_ == nullptr ? nullptr : CopyState(rhs.state_);
}

inline Status& Status::operator=(const Status& rhs) {
  // Also prevents that a self-assignment frees the state before the copy.
  if (state_ != rhs.state_) {
    delete[] state_;
    state_ = rhs.state_ == nullptr ? nullptr : CopyState(rhs.state_);
  }
  return *this;
}

inline Status& Status::operator=(Status&& rhs) noexcept {
  std::swap(state_, rhs.state_);
  return *this;
}

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_STATUS_H_
