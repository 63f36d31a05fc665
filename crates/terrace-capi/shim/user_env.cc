// SPDX-License-Identifier: MIT OR Apache-2.0

// Callbacks for an environment of the program, its files and its loggers.

#include "convert.h"
#include "user_objects.h"

namespace terrace {
namespace {

using leveldb::Slice;
using leveldb::Status;

leveldb::SequentialFile* AsSequentialFile(void* object) {
  return static_cast<leveldb::SequentialFile*>(object);
}

const SequentialFileCallbacks kSequentialFileCallbacks = {
    [](void* file, size_t n, char* scratch, CxxSlice* found, ErrorReport* report) {
      Slice result;
      const Status status = AsSequentialFile(file)->Read(n, &result, scratch);
      *found = ToCxxSlice(result);
      return FillReport(status, report);
    },
    [](void* file, uint64_t n, ErrorReport* report) { return FillReport(AsSequentialFile(file)->Skip(n), report); },
    [](void* file) { delete AsSequentialFile(file); },
};

const RandomAccessFileCallbacks kRandomAccessFileCallbacks = {
    [](void* file, uint64_t offset, size_t n, char* scratch, CxxSlice* found, ErrorReport* report) {
      Slice result;
      const auto* random_access = static_cast<leveldb::RandomAccessFile*>(file);
      const Status status = random_access->Read(offset, n, &result, scratch);
      *found = ToCxxSlice(result);
      return FillReport(status, report);
    },
    [](void* file) { delete static_cast<leveldb::RandomAccessFile*>(file); },
};

leveldb::WritableFile* AsWritableFile(void* object) { return static_cast<leveldb::WritableFile*>(object); }

const WritableFileCallbacks kWritableFileCallbacks = {
    [](void* file, CxxSlice data, ErrorReport* report) {
      return FillReport(AsWritableFile(file)->Append(ToSlice(data)), report);
    },
    [](void* file, ErrorReport* report) { return FillReport(AsWritableFile(file)->Flush(), report); },
    [](void* file, ErrorReport* report) { return FillReport(AsWritableFile(file)->Sync(), report); },
    [](void* file, ErrorReport* report) { return FillReport(AsWritableFile(file)->Close(), report); },
    [](void* file) { delete AsWritableFile(file); },
};

const LoggerCallbacks kLoggerCallbacks = {
    [](void* logger, CxxSlice line) {
      leveldb::Log(static_cast<leveldb::Logger*>(logger), "%.*s", static_cast<int>(line.len), line.start);
    },
    [](void* logger) { delete static_cast<leveldb::Logger*>(logger); },
};

leveldb::Env* AsEnv(void* object) { return static_cast<leveldb::Env*>(object); }

// Opens a file with one of the environment's methods.
template <typename File, typename Callbacks, Status (leveldb::Env::*open)(const std::string&, File**)>
StatusCode Open(void* env, CxxSlice path, NullableUserObject<Callbacks>* opened, ErrorReport* report) {
  File* file = nullptr;
  const Status status = (AsEnv(env)->*open)(ToString(path), &file);
  if (status.ok()) *opened = ToUserObject(file);
  return FillReport(status, report);
}

StatusCode List(void* env, CxxSlice dir, Names* into, ErrorReport* report) {
  std::vector<std::string> names;
  const Status status = AsEnv(env)->GetChildren(ToString(dir), &names);
  for (const std::string& name : names) terrace_cxx_add_name(into, ToCxxSlice(name));
  return FillReport(status, report);
}

NullableUserObject<LoggerCallbacks> NewLogger(void* env, CxxSlice path) {
  leveldb::Logger* logger = nullptr;
  const Status status = AsEnv(env)->NewLogger(ToString(path), &logger);
  return ToUserObject(status.ok() ? logger : nullptr);
}

const EnvCallbacks kEnvCallbacks = {
    Open<leveldb::SequentialFile, SequentialFileCallbacks, &leveldb::Env::NewSequentialFile>,
    Open<leveldb::RandomAccessFile, RandomAccessFileCallbacks, &leveldb::Env::NewRandomAccessFile>,
    Open<leveldb::WritableFile, WritableFileCallbacks, &leveldb::Env::NewWritableFile>,
    Open<leveldb::WritableFile, WritableFileCallbacks, &leveldb::Env::NewAppendableFile>,
    [](void* env, CxxSlice path) { return AsEnv(env)->FileExists(ToString(path)); },
    List,
    [](void* env, CxxSlice path, ErrorReport* report) { return FillReport(AsEnv(env)->RemoveFile(ToString(path)), report); },
    [](void* env, CxxSlice dir, ErrorReport* report) { return FillReport(AsEnv(env)->CreateDir(ToString(dir)), report); },
    [](void* env, CxxSlice dir, ErrorReport* report) { return FillReport(AsEnv(env)->RemoveDir(ToString(dir)), report); },
    [](void* env, CxxSlice path, uint64_t* len, ErrorReport* report) {
      return FillReport(AsEnv(env)->GetFileSize(ToString(path), len), report);
    },
    [](void* env, CxxSlice from, CxxSlice to, ErrorReport* report) {
      return FillReport(AsEnv(env)->RenameFile(ToString(from), ToString(to)), report);
    },
    [](void* env, CxxSlice path, void** lock, ErrorReport* report) {
      leveldb::FileLock* locked = nullptr;
      const Status status = AsEnv(env)->LockFile(ToString(path), &locked);
      *lock = locked;
      return FillReport(status, report);
    },
    [](void* env, void* lock) { AsEnv(env)->UnlockFile(static_cast<leveldb::FileLock*>(lock)); },
    [](void* env, void (*function)(void*), void* arg) { AsEnv(env)->Schedule(function, arg); },
    NewLogger,
    [](void* env) { return AsEnv(env)->NowMicros(); },
    [](void* env, int micros) { AsEnv(env)->SleepForMicroseconds(micros); },
};

}  // namespace

NullableUserObject<SequentialFileCallbacks> ToUserObject(leveldb::SequentialFile* file) {
  return {file == nullptr ? nullptr : &kSequentialFileCallbacks, file};
}

NullableUserObject<RandomAccessFileCallbacks> ToUserObject(leveldb::RandomAccessFile* file) {
  return {file == nullptr ? nullptr : &kRandomAccessFileCallbacks, file};
}

NullableUserObject<WritableFileCallbacks> ToUserObject(leveldb::WritableFile* file) {
  return {file == nullptr ? nullptr : &kWritableFileCallbacks, file};
}

NullableUserObject<LoggerCallbacks> ToUserObject(leveldb::Logger* logger) {
  return {logger == nullptr ? nullptr : &kLoggerCallbacks, logger};
}

NullableUserObject<EnvCallbacks> ToUserObject(leveldb::Env* env) {
  if (env == nullptr || IsDefaultEnv(env)) return {nullptr, nullptr};
  return {&kEnvCallbacks, env};
}

}  // namespace terrace
