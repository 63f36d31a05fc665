// Copyright (c) 2011 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// The environment of a database: files, locks, threads, clock.
//
// A program may implement its own environment: the databases that are opened with it access all
// files through it. Any thread may call any method at any time, and methods must not throw. Callers
// delete the objects that a method creates, except locks, which they unlock. An environment must
// outlive every database that was opened with it.

#ifndef STORAGE_LEVELDB_INCLUDE_ENV_H_
#define STORAGE_LEVELDB_INCLUDE_ENV_H_

#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/status.h"

// Windows defines a macro with the name of a method here. Without it, callers that were compiled
// before find the method.
#if defined(_WIN32) && defined(DeleteFile)
#undef DeleteFile
#define LEVELDB_DELETEFILE_UNDEFINED
#endif

namespace leveldb {

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class Slice;
class WritableFile;

class LEVELDB_EXPORT Env {
 public:
  Env();

  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  virtual ~Env();

  // Returns the environment of the operating system. The library owns it and never destroys it.
  static Env* Default();

  // ---- Files. On an error *result is null. A missing file gives NotFound.

  // Opens a file for sequential reads.
  virtual Status NewSequentialFile(const std::string& fname, SequentialFile** result) = 0;

  // Opens a file for reads at any offset.
  virtual Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) = 0;

  // Creates a file for writing, or truncates an existing one.
  virtual Status NewWritableFile(const std::string& fname, WritableFile** result) = 0;

  // Opens a file for appending, and creates it if it is missing. The default implementation fails,
  // which only disables Options::reuse_logs.
  virtual Status NewAppendableFile(const std::string& fname, WritableFile** result);

  // Returns true if a file or directory has this name.
  virtual bool FileExists(const std::string& fname) = 0;

  // Replaces *result by the names in directory dir, without dir itself, in any order.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* result) = 0;

  // Removes a file. Override this method; the default calls DeleteFile, for environments that
  // predate the name.
  virtual Status RemoveFile(const std::string& fname);

  // Old name of RemoveFile, which the default calls.
  virtual Status DeleteFile(const std::string& fname);

  // Creates a directory.
  virtual Status CreateDir(const std::string& dirname) = 0;

  // Removes an empty directory. Override this method; the default calls DeleteDir, for environments
  // that predate the name.
  virtual Status RemoveDir(const std::string& dirname);

  // Old name of RemoveDir, which the default calls.
  virtual Status DeleteDir(const std::string& dirname);

  // Stores the size of a file in bytes.
  virtual Status GetFileSize(const std::string& fname, uint64_t* file_size) = 0;

  // Renames a file and atomically replaces an existing target.
  virtual Status RenameFile(const std::string& src, const std::string& target) = 0;

  // Locks a file, created if missing, against all other openers of the database in all processes.
  // Fails at once if it is already locked.
  virtual Status LockFile(const std::string& fname, FileLock** lock) = 0;

  // Releases and destroys a lock.
  virtual Status UnlockFile(FileLock* lock) = 0;

  // ---- Threads.

  // Calls function(arg) once, on a background thread, not within this call. The environment may run
  // one call at a time.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;

  // Calls function(arg) on a new thread, which ends with the call.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;

  // ---- Other services.

  // Stores the name of a directory for tests, which is created if missing.
  virtual Status GetTestDirectory(std::string* path) = 0;

  // Creates a log file for messages.
  virtual Status NewLogger(const std::string& fname, Logger** result) = 0;

  // Returns microseconds since an unspecified time; only differences are meaningful.
  virtual uint64_t NowMicros() = 0;

  // Pauses the calling thread.
  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file for sequential reads, used by one thread at a time.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;

  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;

  virtual ~SequentialFile();

  // Reads up to n bytes. *result refers to them, in scratch, which has n bytes, or in other memory.
  // It is empty at the end of the file.
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;

  // Skips n bytes, or fewer at the end of the file.
  virtual Status Skip(uint64_t n) = 0;
};

// A file for reads at any offset, used by many threads at once.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;

  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  virtual ~RandomAccessFile();

  // Reads up to n bytes at offset. *result refers to them, in scratch, which has n bytes, or in
  // other memory.
  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file for sequential writes, used by one thread at a time.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;

  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  virtual ~WritableFile();

  // Appends data, which may stay in a buffer of this object.
  virtual Status Append(const Slice& data) = 0;

  // Flushes and closes the file. Only the destructor may follow.
  virtual Status Close() = 0;

  // Passes all appended data to the operating system, which keeps it if the process crashes.
  virtual Status Flush() = 0;

  // Flushes, and makes all appended data survive a power cut.
  virtual Status Sync() = 0;
};

// A receiver of log messages.
class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;

  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  virtual ~Logger();

  // Logs a message, with arguments as for vprintf.
  virtual void Logv(const char* format, std::va_list ap) = 0;
};

// A held lock, from Env::LockFile.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  virtual ~FileLock();
};

// Logs a message, with arguments as for printf; does nothing if info_log is null.
void Log(Logger* info_log, const char* format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((__format__(__printf__, 2, 3)))
#endif
    ;

// Replaces the contents of file fname by data. Removes the file on an error.
LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname);

// Stores the contents of file fname in *data.
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& fname, std::string* data);

// Forwards every call to another environment. Derive from it to change a few methods.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  // Forwards to t, which is not owned.
  explicit EnvWrapper(Env* t) : target_(t) {}
  virtual ~EnvWrapper();

  // Returns the environment that receives the calls.
  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return target_->NewSequentialFile(f, r);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return target_->NewRandomAccessFile(f, r);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return target_->NewWritableFile(f, r);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override {
    return target_->NewAppendableFile(f, r);
  }
  bool FileExists(const std::string& f) override { return target_->FileExists(f); }
  Status GetChildren(const std::string& dir, std::vector<std::string>* r) override {
    return target_->GetChildren(dir, r);
  }
  Status RemoveFile(const std::string& f) override { return target_->RemoveFile(f); }
  Status CreateDir(const std::string& d) override { return target_->CreateDir(d); }
  Status RemoveDir(const std::string& d) override { return target_->RemoveDir(d); }
  Status GetFileSize(const std::string& f, uint64_t* s) override {
    return target_->GetFileSize(f, s);
  }
  Status RenameFile(const std::string& s, const std::string& t) override {
    return target_->RenameFile(s, t);
  }
  Status LockFile(const std::string& f, FileLock** l) override { return target_->LockFile(f, l); }
  Status UnlockFile(FileLock* l) override { return target_->UnlockFile(l); }
  void Schedule(void (*f)(void*), void* a) override { return target_->Schedule(f, a); }
  void StartThread(void (*f)(void*), void* a) override { return target_->StartThread(f, a); }
  Status GetTestDirectory(std::string* path) override { return target_->GetTestDirectory(path); }
  Status NewLogger(const std::string& fname, Logger** result) override {
    return target_->NewLogger(fname, result);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(micros); }

 private:
  Env* target_;
};

}  // namespace leveldb

#if defined(_WIN32) && defined(LEVELDB_DELETEFILE_UNDEFINED)
#if defined(UNICODE)
#define DeleteFile DeleteFileW
#else
#define DeleteFile DeleteFileA
#endif
#endif

#endif  // STORAGE_LEVELDB_INCLUDE_ENV_H_
