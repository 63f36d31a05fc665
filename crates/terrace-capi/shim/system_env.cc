// Env::Default(): the machine's files through Rust, and threads of C++.

#include <cstdio>
#include <vector>

#include "background.h"
#include "border.h"
#include "handed.h"

namespace terrace {
namespace {

using leveldb::Slice;
using leveldb::Status;

class SystemSequential final : public leveldb::SequentialFile {
 public:
  explicit SystemSequential(Sequential* file) : file_(file) {}
  ~SystemSequential() override { terrace_cxx_sequential_drop(file_); }

  Status Read(size_t n, Slice* result, char* scratch) override {
    Outcome end;
    size_t read = 0;
    const Code code = terrace_cxx_sequential_read(file_, n, scratch, &read, end.report());
    *result = Slice(scratch, read);
    return end.Of(code);
  }

  Status Skip(uint64_t n) override {
    Outcome end;
    return end.Of(terrace_cxx_sequential_skip(file_, n, end.report()));
  }

 private:
  Sequential* const file_;
};

class SystemRandom final : public leveldb::RandomAccessFile {
 public:
  explicit SystemRandom(Random* file) : file_(file) {}
  ~SystemRandom() override { terrace_cxx_random_drop(file_); }

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    Outcome end;
    size_t read = 0;
    const Code code = terrace_cxx_random_read(file_, offset, n, scratch, &read, end.report());
    *result = Slice(scratch, read);
    return end.Of(code);
  }

 private:
  Random* const file_;
};

class SystemWritable final : public leveldb::WritableFile {
 public:
  explicit SystemWritable(Writable* file) : file_(file) {}
  ~SystemWritable() override { terrace_cxx_writable_drop(file_); }

  Status Append(const Slice& data) override {
    Outcome end;
    return end.Of(terrace_cxx_writable_append(file_, Flat(data), end.report()));
  }
  Status Close() override {
    Outcome end;
    return end.Of(terrace_cxx_writable_close(file_, end.report()));
  }
  Status Flush() override {
    Outcome end;
    return end.Of(terrace_cxx_writable_flush(file_, end.report()));
  }
  Status Sync() override {
    Outcome end;
    return end.Of(terrace_cxx_writable_sync(file_, end.report()));
  }

 private:
  Writable* const file_;
};

class SystemLock final : public leveldb::FileLock {
 public:
  explicit SystemLock(Lock* lock) : lock_(lock) {}
  ~SystemLock() override { terrace_cxx_lock_drop(lock_); }

 private:
  Lock* const lock_;
};

class SystemLogger final : public leveldb::Logger {
 public:
  explicit SystemLogger(LogFile* log) : log_(log) {}
  ~SystemLogger() override { terrace_cxx_log_drop(log_); }

  void Logv(const char* format, std::va_list ap) override {
    std::va_list again;
    va_copy(again, ap);
    std::vector<char> line(512);
    int len = std::vsnprintf(line.data(), line.size(), format, ap);
    if (len >= static_cast<int>(line.size())) {
      line.resize(static_cast<size_t>(len) + 1);
      len = std::vsnprintf(line.data(), line.size(), format, again);
    }
    va_end(again);
    if (len < 0) return;
    // The file ends each line itself.
    if (len > 0 && line[static_cast<size_t>(len) - 1] == '\n') len--;
    terrace_cxx_log_line(log_, Bytes{line.data(), static_cast<size_t>(len)});
  }

 private:
  LogFile* const log_;
};

class SystemEnv final : public leveldb::Env {
 public:
  Status NewSequentialFile(const std::string& fname, leveldb::SequentialFile** result) override {
    return Make<SystemSequential, Sequential>(terrace_cxx_file_sequential, fname, result);
  }
  Status NewRandomAccessFile(const std::string& fname, leveldb::RandomAccessFile** result) override {
    return Make<SystemRandom, Random>(terrace_cxx_file_random, fname, result);
  }
  Status NewWritableFile(const std::string& fname, leveldb::WritableFile** result) override {
    return Make<SystemWritable, Writable>(terrace_cxx_file_create, fname, result);
  }
  Status NewAppendableFile(const std::string& fname, leveldb::WritableFile** result) override {
    return Make<SystemWritable, Writable>(terrace_cxx_file_append, fname, result);
  }
  Status LockFile(const std::string& fname, leveldb::FileLock** lock) override {
    return Make<SystemLock, Lock>(terrace_cxx_file_lock, fname, lock);
  }
  Status NewLogger(const std::string& fname, leveldb::Logger** result) override {
    return Make<SystemLogger, LogFile>(terrace_cxx_log_create, fname, result);
  }

  Status UnlockFile(leveldb::FileLock* lock) override {
    delete lock;
    return Status::OK();
  }

  bool FileExists(const std::string& fname) override { return terrace_cxx_file_exists(Flat(fname)); }

  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    const auto take = [](void* names, Bytes name) {
      static_cast<std::vector<std::string>*>(names)->push_back(String(name));
    };
    Outcome end;
    const Status status = end.Of(terrace_cxx_file_list(Flat(dir), result, take, end.report()));
    // Programs count on them: LevelDB passes on what the system tells.
    if (status.ok()) result->insert(result->begin(), {".", ".."});
    return status;
  }

  Status RemoveFile(const std::string& fname) override {
    Outcome end;
    return end.Of(terrace_cxx_file_remove(Flat(fname), end.report()));
  }

  Status CreateDir(const std::string& dirname) override {
    Outcome end;
    return end.Of(terrace_cxx_dir_create(Flat(dirname), end.report()));
  }

  Status RemoveDir(const std::string& dirname) override {
    Outcome end;
    return end.Of(terrace_cxx_dir_remove(Flat(dirname), end.report()));
  }

  Status GetFileSize(const std::string& fname, uint64_t* size) override {
    *size = 0;
    Outcome end;
    return end.Of(terrace_cxx_file_size(Flat(fname), size, end.report()));
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    Outcome end;
    return end.Of(terrace_cxx_file_rename(Flat(src), Flat(target), end.report()));
  }

  void Schedule(void (*function)(void*), void* arg) override { RunInTurn(function, arg); }
  void StartThread(void (*function)(void*), void* arg) override { RunAlone(function, arg); }

  Status GetTestDirectory(std::string* path) override {
    terrace_cxx_test_directory(Fill(path));
    return Status::OK();
  }

  uint64_t NowMicros() override { return terrace_cxx_now_us(); }
  void SleepForMicroseconds(int micros) override { terrace_cxx_sleep_us(micros); }

 private:
  // Opens something of Rust's and puts its class around it.
  template <typename Class, typename Inside, typename Base>
  static Status Make(Code (*open)(Bytes, Inside**, Report*) noexcept, const std::string& fname,
                     Base** result) {
    *result = nullptr;
    Outcome end;
    Inside* inside = nullptr;
    const Status status = end.Of(open(Flat(fname), &inside, end.report()));
    if (status.ok()) *result = new Class(inside);
    return status;
  }
};

}  // namespace

bool IsSystem(const leveldb::Env* env) { return env == leveldb::Env::Default(); }

}  // namespace terrace

namespace leveldb {

Env* Env::Default() {
  // Never destroyed: databases of static storage may still use it.
  static Env* const env = new terrace::SystemEnv;
  return env;
}

}  // namespace leveldb
