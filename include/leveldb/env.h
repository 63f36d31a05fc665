// The world of a database: files, locks, threads, clock.
//
// A program may bring its own: all that a database opened with it does with files goes through it. Every method may be
// called by any thread at any time, and must not throw. Objects that a method makes are deleted by who asked for them,
// but for locks, which are unlocked. An environment outlives every database that was opened with it.

#ifndef STORAGE_LEVELDB_INCLUDE_ENV_H_
#define STORAGE_LEVELDB_INCLUDE_ENV_H_

#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/status.h"

// A macro of Windows has the name of a method here, which callers compiled before it are to find.
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

  // The machine's own files, threads and clock. Owned by the library, never destroyed.
  static Env* Default();

  // ---- Files. On an error *result is null; a file that does not exist is NotFound.

  // Opens a file for reading from its start.
  virtual Status NewSequentialFile(const std::string& fname, SequentialFile** result) = 0;

  // Opens a file for reading anywhere.
  virtual Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) = 0;

  // Creates a file, or empties the one that has the name, for writing.
  virtual Status NewWritableFile(const std::string& fname, WritableFile** result) = 0;

  // Opens a file for writing at its end, creating it if there is none. The default can't, which makes
  // Options::reuse_logs useless and is no other harm.
  virtual Status NewAppendableFile(const std::string& fname, WritableFile** result);

  // True if there is something of that name.
  virtual bool FileExists(const std::string& fname) = 0;

  // The names in directory dir, without dir itself, in no order. What *result held is dropped.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* result) = 0;

  // Removes a file. Override this one; the default calls DeleteFile, for environments older than the name.
  virtual Status RemoveFile(const std::string& fname);

  // The old name of RemoveFile. The default calls RemoveFile.
  virtual Status DeleteFile(const std::string& fname);

  // Creates a directory.
  virtual Status CreateDir(const std::string& dirname) = 0;

  // Removes an empty directory. Override this one; the default calls DeleteDir, for environments older than the name.
  virtual Status RemoveDir(const std::string& dirname);

  // The old name of RemoveDir. The default calls RemoveDir.
  virtual Status DeleteDir(const std::string& dirname);

  // The length of a file in bytes.
  virtual Status GetFileSize(const std::string& fname, uint64_t* file_size) = 0;

  // Renames a file; one that has the name target is replaced, at once.
  virtual Status RenameFile(const std::string& src, const std::string& target) = 0;

  // Locks a file, creating it if need be, against all other openers of the database, in this process or another. Does
  // not wait: an error if it is locked already.
  virtual Status LockFile(const std::string& fname, FileLock** lock) = 0;

  // Gives up a lock, which is destroyed.
  virtual Status UnlockFile(FileLock* lock) = 0;

  // ---- Threads.

  // Has function(arg) called once, on a background thread, not within this call. Calls may run one after the other.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;

  // Has function(arg) called on a thread of its own, which ends with it.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;

  // ---- The rest.

  // A directory for tests, which exists afterwards.
  virtual Status GetTestDirectory(std::string* path) = 0;

  // Creates a file for messages to people.
  virtual Status NewLogger(const std::string& fname, Logger** result) = 0;

  // Microseconds since some moment; differences are what counts.
  virtual uint64_t NowMicros() = 0;

  // Pauses the calling thread.
  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file read from front to back, by one thread at a time.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;

  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;

  virtual ~SequentialFile();

  // Reads up to n bytes: *result refers to them, in scratch, which has room for n, or elsewhere. None at the end.
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;

  // Passes over n bytes, or to the end if there are fewer.
  virtual Status Skip(uint64_t n) = 0;
};

// A file read anywhere, by many threads at once.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;

  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  virtual ~RandomAccessFile();

  // Reads up to n bytes from offset on: *result refers to them, in scratch, which has room for n, or elsewhere.
  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file written from front to back, by one thread at a time.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;

  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  virtual ~WritableFile();

  // Adds data at the end. It may stay in a buffer of this object.
  virtual Status Append(const Slice& data) = 0;

  // Flushes and closes. Only the destructor may follow.
  virtual Status Close() = 0;

  // Hands what was appended to the system: it survives the death of the process.
  virtual Status Flush() = 0;

  // Flushes, and makes what was appended survive that of the machine.
  virtual Status Sync() = 0;
};

// Receives messages to people.
class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;

  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  virtual ~Logger();

  // Takes a message, as vprintf would.
  virtual void Logv(const char* format, std::va_list ap) = 0;
};

// A lock that is held, of Env::LockFile.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  virtual ~FileLock();
};

// Gives a message to info_log, as printf would; nothing happens if that is null.
void Log(Logger* info_log, const char* format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((__format__(__printf__, 2, 3)))
#endif
    ;

// Makes data the contents of file fname. On an error there is no such file.
LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname);

// Makes the contents of file fname those of *data.
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& fname, std::string* data);

// Passes every call on to another environment: derive from it to change a few.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  // On t, which is not owned.
  explicit EnvWrapper(Env* t) : target_(t) {}
  virtual ~EnvWrapper();

  // The environment that the calls go to.
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
