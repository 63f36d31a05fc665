// SPDX-License-Identifier: MIT OR Apache-2.0

// Env::Default(): files of the operating system through Rust, and C++ threads.

#include <cstdio>
#include <vector>

#include "background.h"
#include "convert.h"
#include "user_objects.h"

namespace terrace {
namespace {

using leveldb::Slice;
using leveldb::Status;

class SystemSequentialFile final : public leveldb::SequentialFile {
 public:
  explicit SystemSequentialFile(SequentialFileHandle* file) : file_(file) {}
  ~SystemSequentialFile() override { terrace_cxx_sequential_drop(file_); }

  Status Read(size_t n, Slice* result, char* scratch) override {
    StatusResult error;
    size_t read = 0;
    const StatusCode code = terrace_cxx_sequential_read(file_, n, scratch, &read, error.report());
    *result = Slice(scratch, read);
    return error.ToStatus(code);
  }

  Status Skip(uint64_t n) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_sequential_skip(file_, n, error.report()));
  }

 private:
  SequentialFileHandle* const file_;
};

class SystemRandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  explicit SystemRandomAccessFile(RandomAccessFileHandle* file) : file_(file) {}
  ~SystemRandomAccessFile() override { terrace_cxx_random_drop(file_); }

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    StatusResult error;
    size_t read = 0;
    const StatusCode code = terrace_cxx_random_read(file_, offset, n, scratch, &read, error.report());
    *result = Slice(scratch, read);
    return error.ToStatus(code);
  }

 private:
  RandomAccessFileHandle* const file_;
};

class SystemWritableFile final : public leveldb::WritableFile {
 public:
  explicit SystemWritableFile(WritableFileHandle* file) : file_(file) {}
  ~SystemWritableFile() override { terrace_cxx_writable_drop(file_); }

  Status Append(const Slice& data) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_writable_append(file_, ToCxxSlice(data), error.report()));
  }
  Status Close() override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_writable_close(file_, error.report()));
  }
  Status Flush() override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_writable_flush(file_, error.report()));
  }
  Status Sync() override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_writable_sync(file_, error.report()));
  }

 private:
  WritableFileHandle* const file_;
};

class SystemFileLock final : public leveldb::FileLock {
 public:
  explicit SystemFileLock(FileLockHandle* lock) : lock_(lock) {}
  ~SystemFileLock() override { terrace_cxx_lock_drop(lock_); }

 private:
  FileLockHandle* const lock_;
};

class SystemLogger final : public leveldb::Logger {
 public:
  explicit SystemLogger(LoggerHandle* log) : log_(log) {}
  ~SystemLogger() override { terrace_cxx_log_drop(log_); }

  void Logv(const char* format, std::va_list ap) override {
    std::va_list ap_copy;
    va_copy(ap_copy, ap);
    std::vector<char> line(512);
    int len = std::vsnprintf(line.data(), line.size(), format, ap);
    if (len >= static_cast<int>(line.size())) {
      line.resize(static_cast<size_t>(len) + 1);
      len = std::vsnprintf(line.data(), line.size(), format, ap_copy);
    }
    va_end(ap_copy);
    if (len < 0) return;
    // The log file adds the line end itself.
    if (len > 0 && line[static_cast<size_t>(len) - 1] == '\n') len--;
    terrace_cxx_log_line(log_, CxxSlice{line.data(), static_cast<size_t>(len)});
  }

 private:
  LoggerHandle* const log_;
};

class SystemEnv final : public leveldb::Env {
 public:
  Status NewSequentialFile(const std::string& fname, leveldb::SequentialFile** result) override {
    return OpenHandle<SystemSequentialFile, SequentialFileHandle>(terrace_cxx_file_sequential, fname, result);
  }
  Status NewRandomAccessFile(const std::string& fname, leveldb::RandomAccessFile** result) override {
    return OpenHandle<SystemRandomAccessFile, RandomAccessFileHandle>(terrace_cxx_file_random, fname, result);
  }
  Status NewWritableFile(const std::string& fname, leveldb::WritableFile** result) override {
    return OpenHandle<SystemWritableFile, WritableFileHandle>(terrace_cxx_file_create, fname, result);
  }
  Status NewAppendableFile(const std::string& fname, leveldb::WritableFile** result) override {
    return OpenHandle<SystemWritableFile, WritableFileHandle>(terrace_cxx_file_append, fname, result);
  }
  Status LockFile(const std::string& fname, leveldb::FileLock** lock) override {
    return OpenHandle<SystemFileLock, FileLockHandle>(terrace_cxx_file_lock, fname, lock);
  }
  Status NewLogger(const std::string& fname, leveldb::Logger** result) override {
    return OpenHandle<SystemLogger, LoggerHandle>(terrace_cxx_log_create, fname, result);
  }

  Status UnlockFile(leveldb::FileLock* lock) override {
    delete lock;
    return Status::OK();
  }

  bool FileExists(const std::string& fname) override { return terrace_cxx_file_exists(ToCxxSlice(fname)); }

  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    const auto add = [](void* names, CxxSlice name) {
      static_cast<std::vector<std::string>*>(names)->push_back(ToString(name));
    };
    StatusResult error;
    const Status status = error.ToStatus(terrace_cxx_file_list(ToCxxSlice(dir), result, add, error.report()));
    // Programs expect these names: LevelDB returns all names that the system lists.
    if (status.ok()) result->insert(result->begin(), {".", ".."});
    return status;
  }

  Status RemoveFile(const std::string& fname) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_file_remove(ToCxxSlice(fname), error.report()));
  }

  Status CreateDir(const std::string& dirname) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_dir_create(ToCxxSlice(dirname), error.report()));
  }

  Status RemoveDir(const std::string& dirname) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_dir_remove(ToCxxSlice(dirname), error.report()));
  }

  Status GetFileSize(const std::string& fname, uint64_t* size) override {
    *size = 0;
    StatusResult error;
    return error.ToStatus(terrace_cxx_file_size(ToCxxSlice(fname), size, error.report()));
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_file_rename(ToCxxSlice(src), ToCxxSlice(target), error.report()));
  }

  void Schedule(void (*function)(void*), void* arg) override { RunOnBackgroundThread(function, arg); }
  void StartThread(void (*function)(void*), void* arg) override { RunOnNewThread(function, arg); }

  Status GetTestDirectory(std::string* path) override {
    terrace_cxx_test_directory(AssignTo(path));
    return Status::OK();
  }

  uint64_t NowMicros() override { return terrace_cxx_now_us(); }
  void SleepForMicroseconds(int micros) override { terrace_cxx_sleep_us(micros); }

 private:
  // Opens a Rust handle and wraps it in its class.
  template <typename Class, typename Handle, typename Base>
  static Status OpenHandle(StatusCode (*open)(CxxSlice, Handle**, ErrorReport*) noexcept, const std::string& fname,
                     Base** result) {
    *result = nullptr;
    StatusResult error;
    Handle* handle = nullptr;
    const Status status = error.ToStatus(open(ToCxxSlice(fname), &handle, error.report()));
    if (status.ok()) *result = new Class(handle);
    return status;
  }
};

}  // namespace

bool IsDefaultEnv(const leveldb::Env* env) { return env == leveldb::Env::Default(); }

}  // namespace terrace

namespace leveldb {

Env* Env::Default() {
  // Never destroyed, because databases in static storage may still use it.
  static Env* const env = new terrace::SystemEnv;
  return env;
}

}  // namespace leveldb
