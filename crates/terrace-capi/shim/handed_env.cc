// A program's environment, its files and its logger, as calls for Rust.

#include "border.h"
#include "handed.h"

namespace terrace {
namespace {

using leveldb::Slice;
using leveldb::Status;

leveldb::SequentialFile* SequentialOf(void* object) {
  return static_cast<leveldb::SequentialFile*>(object);
}

const SequentialCalls kSequential = {
    [](void* file, size_t n, char* scratch, Bytes* found, Report* report) {
      Slice result;
      const Status status = SequentialOf(file)->Read(n, &result, scratch);
      *found = Flat(result);
      return Tell(status, report);
    },
    [](void* file, uint64_t n, Report* report) { return Tell(SequentialOf(file)->Skip(n), report); },
    [](void* file) { delete SequentialOf(file); },
};

const RandomCalls kRandom = {
    [](void* file, uint64_t offset, size_t n, char* scratch, Bytes* found, Report* report) {
      Slice result;
      const auto* of = static_cast<leveldb::RandomAccessFile*>(file);
      const Status status = of->Read(offset, n, &result, scratch);
      *found = Flat(result);
      return Tell(status, report);
    },
    [](void* file) { delete static_cast<leveldb::RandomAccessFile*>(file); },
};

leveldb::WritableFile* WritableOf(void* object) { return static_cast<leveldb::WritableFile*>(object); }

const WritableCalls kWritable = {
    [](void* file, Bytes data, Report* report) {
      return Tell(WritableOf(file)->Append(Sliced(data)), report);
    },
    [](void* file, Report* report) { return Tell(WritableOf(file)->Flush(), report); },
    [](void* file, Report* report) { return Tell(WritableOf(file)->Sync(), report); },
    [](void* file, Report* report) { return Tell(WritableOf(file)->Close(), report); },
    [](void* file) { delete WritableOf(file); },
};

const LoggerCalls kLogger = {
    [](void* logger, Bytes line) {
      leveldb::Log(static_cast<leveldb::Logger*>(logger), "%.*s", static_cast<int>(line.len), line.start);
    },
    [](void* logger) { delete static_cast<leveldb::Logger*>(logger); },
};

leveldb::Env* Of(void* object) { return static_cast<leveldb::Env*>(object); }

// Opens a file by one of the methods for that.
template <typename File, typename Calls, Status (leveldb::Env::*open)(const std::string&, File**)>
Code Open(void* env, Bytes path, Handed<Calls>* made, Report* report) {
  File* file = nullptr;
  const Status status = (Of(env)->*open)(String(path), &file);
  if (status.ok()) *made = Hand(file);
  return Tell(status, report);
}

Code List(void* env, Bytes dir, Names* into, Report* report) {
  std::vector<std::string> names;
  const Status status = Of(env)->GetChildren(String(dir), &names);
  for (const std::string& name : names) terrace_cxx_add_name(into, Flat(name));
  return Tell(status, report);
}

Handed<LoggerCalls> NewLogger(void* env, Bytes path) {
  leveldb::Logger* logger = nullptr;
  const Status status = Of(env)->NewLogger(String(path), &logger);
  return Hand(status.ok() ? logger : nullptr);
}

const EnvCalls kEnv = {
    Open<leveldb::SequentialFile, SequentialCalls, &leveldb::Env::NewSequentialFile>,
    Open<leveldb::RandomAccessFile, RandomCalls, &leveldb::Env::NewRandomAccessFile>,
    Open<leveldb::WritableFile, WritableCalls, &leveldb::Env::NewWritableFile>,
    Open<leveldb::WritableFile, WritableCalls, &leveldb::Env::NewAppendableFile>,
    [](void* env, Bytes path) { return Of(env)->FileExists(String(path)); },
    List,
    [](void* env, Bytes path, Report* report) { return Tell(Of(env)->RemoveFile(String(path)), report); },
    [](void* env, Bytes dir, Report* report) { return Tell(Of(env)->CreateDir(String(dir)), report); },
    [](void* env, Bytes dir, Report* report) { return Tell(Of(env)->RemoveDir(String(dir)), report); },
    [](void* env, Bytes path, uint64_t* len, Report* report) {
      return Tell(Of(env)->GetFileSize(String(path), len), report);
    },
    [](void* env, Bytes from, Bytes to, Report* report) {
      return Tell(Of(env)->RenameFile(String(from), String(to)), report);
    },
    [](void* env, Bytes path, void** lock, Report* report) {
      leveldb::FileLock* locked = nullptr;
      const Status status = Of(env)->LockFile(String(path), &locked);
      *lock = locked;
      return Tell(status, report);
    },
    [](void* env, void* lock) { Of(env)->UnlockFile(static_cast<leveldb::FileLock*>(lock)); },
    [](void* env, void (*function)(void*), void* arg) { Of(env)->Schedule(function, arg); },
    NewLogger,
    [](void* env) { return Of(env)->NowMicros(); },
    [](void* env, int micros) { Of(env)->SleepForMicroseconds(micros); },
};

}  // namespace

Handed<SequentialCalls> Hand(leveldb::SequentialFile* file) {
  return {file == nullptr ? nullptr : &kSequential, file};
}

Handed<RandomCalls> Hand(leveldb::RandomAccessFile* file) {
  return {file == nullptr ? nullptr : &kRandom, file};
}

Handed<WritableCalls> Hand(leveldb::WritableFile* file) {
  return {file == nullptr ? nullptr : &kWritable, file};
}

Handed<LoggerCalls> Hand(leveldb::Logger* logger) {
  return {logger == nullptr ? nullptr : &kLogger, logger};
}

Handed<EnvCalls> Hand(leveldb::Env* env) {
  if (env == nullptr || IsSystem(env)) return {nullptr, nullptr};
  return {&kEnv, env};
}

}  // namespace terrace
