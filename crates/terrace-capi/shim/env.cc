// SPDX-License-Identifier: MIT OR Apache-2.0

// Base classes of the environment, and functions built on their public methods.

#include "leveldb/env.h"

#include "leveldb/slice.h"

namespace leveldb {

Env::Env() = default;
Env::~Env() = default;

Status Env::NewAppendableFile(const std::string& fname, WritableFile** result) {
  *result = nullptr;
  return Status::NotSupported("NewAppendableFile", fname);
}

Status Env::RemoveFile(const std::string& fname) { return DeleteFile(fname); }
Status Env::DeleteFile(const std::string& fname) { return RemoveFile(fname); }

Status Env::RemoveDir(const std::string& dirname) { return DeleteDir(dirname); }
Status Env::DeleteDir(const std::string& dirname) { return RemoveDir(dirname); }

SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;
EnvWrapper::~EnvWrapper() = default;

void Log(Logger* info_log, const char* format, ...) {
  if (info_log == nullptr) return;
  std::va_list ap;
  va_start(ap, format);
  info_log->Logv(format, ap);
  va_end(ap);
}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname) {
  WritableFile* file;
  Status status = env->NewWritableFile(fname, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(fname);
  return status;
}

Status ReadFileToString(Env* env, const std::string& fname, std::string* data) {
  data->clear();
  SequentialFile* file;
  Status status = env->NewSequentialFile(fname, &file);
  if (!status.ok()) return status;
  std::string buffer(8192, '\0');
  Slice read;
  do {
    status = file->Read(buffer.size(), &read, &buffer[0]);
    if (status.ok()) data->append(read.data(), read.size());
  } while (status.ok() && !read.empty());
  delete file;
  return status;
}

}  // namespace leveldb
