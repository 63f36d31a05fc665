// Environments of the program: all file accesses go through them, and a closed database holds none
// of their objects.

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "leveldb/dumpfile.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/write_batch.h"
#include "print.h"

using namespace leveldb;

namespace {

// Counts open objects and records the kinds of calls.
struct CallRecorder {
  void Record(const std::string& call) {
    const std::lock_guard<std::mutex> guard(mutex);
    calls.insert(call);
  }
  std::string Calls() {
    std::string all;
    for (const std::string& call : calls) all += call + " ";
    return all;
  }
  // A job may still run for a moment after the database is closed.
  void AwaitJobs() const {
    while (jobs > 0) Env::Default()->SleepForMicroseconds(1000);
  }
  std::atomic<int> open{0};
  std::atomic<int> locks{0};
  std::atomic<int> jobs{0};
  std::atomic<bool> broken{false};
  std::mutex mutex;
  std::set<std::string> calls;
};

// A file of another environment, counted while it exists.
template <typename Base>
class CountedFile : public Base {
 public:
  CountedFile(Base* file, CallRecorder* recorder) : file_(file), recorder_(recorder) { recorder_->open++; }
  ~CountedFile() override { recorder_->open--; }

 protected:
  const std::unique_ptr<Base> file_;
  CallRecorder* const recorder_;
};

class CountedSequentialFile : public CountedFile<SequentialFile> {
 public:
  using CountedFile::CountedFile;
  Status Read(size_t n, Slice* result, char* scratch) override { return file_->Read(n, result, scratch); }
  Status Skip(uint64_t n) override { return file_->Skip(n); }
};

// Returns bytes of its own instead of scratch.
class CountedRandomAccessFile : public CountedFile<RandomAccessFile> {
 public:
  using CountedFile::CountedFile;
  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    const Status status = file_->Read(offset, n, result, scratch);
    thread_local std::string own;
    own = result->ToString();
    *result = own;
    return status;
  }
};

class CountedWritableFile : public CountedFile<WritableFile> {
 public:
  using CountedFile::CountedFile;
  Status Append(const Slice& data) override {
    return recorder_->broken ? Status::IOError("the end", "is broken") : file_->Append(data);
  }
  Status Close() override { return file_->Close(); }
  Status Flush() override { return file_->Flush(); }
  Status Sync() override {
    recorder_->Record("sync");
    return file_->Sync();
  }
};

class RecordingEnv : public EnvWrapper {
 public:
  RecordingEnv() : EnvWrapper(Env::Default()) {}

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return WrapFile("sequential", EnvWrapper::NewSequentialFile(f, r), r, &RecordingEnv::Wrap<CountedSequentialFile, SequentialFile>);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return WrapFile("random", EnvWrapper::NewRandomAccessFile(f, r), r, &RecordingEnv::Wrap<CountedRandomAccessFile, RandomAccessFile>);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return WrapFile("writable", EnvWrapper::NewWritableFile(f, r), r, &RecordingEnv::Wrap<CountedWritableFile, WritableFile>);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override { return Env::NewAppendableFile(f, r); }
  Status RenameFile(const std::string& s, const std::string& t) override {
    recorder.Record("rename");
    return EnvWrapper::RenameFile(s, t);
  }
  Status RemoveFile(const std::string& f) override {
    recorder.Record("remove");
    return EnvWrapper::RemoveFile(f);
  }
  Status CreateDir(const std::string& d) override {
    recorder.Record("directory");
    return EnvWrapper::CreateDir(d);
  }
  Status GetChildren(const std::string& d, std::vector<std::string>* r) override {
    recorder.Record("children");
    return EnvWrapper::GetChildren(d, r);
  }
  Status LockFile(const std::string& f, FileLock** l) override {
    const Status status = EnvWrapper::LockFile(f, l);
    if (status.ok()) recorder.locks++;
    return status;
  }
  Status UnlockFile(FileLock* l) override {
    recorder.locks--;
    return EnvWrapper::UnlockFile(l);
  }
  void Schedule(void (*function)(void*), void* arg) override {
    recorder.Record("schedule");
    recorder.jobs++;
    auto* call = new Call{function, arg, &recorder};
    EnvWrapper::Schedule(
        [](void* arg) {
          const std::unique_ptr<Call> call(static_cast<Call*>(arg));
          call->function(call->arg);
          call->recorder->jobs--;
        },
        call);
  }
  Status NewLogger(const std::string& f, Logger** r) override {
    recorder.Record("logger");
    return EnvWrapper::NewLogger(f, r);
  }

  CallRecorder recorder;

 private:
  struct Call {
    void (*function)(void*);
    void* arg;
    CallRecorder* recorder;
  };

  template <typename Class, typename Base>
  void Wrap(Base** file) {
    *file = new Class(*file, &recorder);
  }

  template <typename Base>
  Status WrapFile(const char* what, const Status& status, Base** file, void (RecordingEnv::*wrap)(Base**)) {
    recorder.Record(what);
    if (status.ok()) (this->*wrap)(file);
    return status;
  }
};

void Fill(DB* db) {
  WriteOptions synced;
  synced.sync = true;
  for (int i = 0; i < 5000; i++) Put(db, std::to_string(i % 1000), std::string(100, 'v') + std::to_string(i));
  PrintKind("synced", db->Put(synced, "last", "one"));
}

void UserEnv() {
  std::printf("-- watched\n");
  std::unique_ptr<RecordingEnv> env(new RecordingEnv);
  Options options;
  options.env = env.get();
  options.write_buffer_size = 64 << 10;
  options.reuse_logs = true; // not supported by this environment
  for (int round = 0; round < 2; round++) {
    std::unique_ptr<DB> db = Open(options, "watched");
    Fill(db.get());
    db->CompactRange(nullptr, nullptr);
    PrintGet(db.get(), "last");
    Print("locked", env->recorder.locks == 1);
  }
  Print("open files", std::to_string(env->recorder.open));
  Print("locks", std::to_string(env->recorder.locks));
  Print("asked for", env->recorder.Calls());
  Print("info log", Env::Default()->FileExists("watched/LOG"));
  // Closed during background work, after which the environment may be deleted at once. Its queue
  // runs jobs in order, so all jobs are done when this one is.
  std::unique_ptr<DB> db = Open(options, "watched");
  Fill(db.get());
  db.reset();
  Print("open files", std::to_string(env->recorder.open));
  PrintKind("repaired", RepairDB("watched", options));
  PrintKind("destroyed", DestroyDB("watched", options));
  Print("open files", std::to_string(env->recorder.open));
  env->recorder.AwaitJobs();
}

void BrokenFiles() {
  std::printf("-- broken\n");
  RecordingEnv env;
  Options options;
  options.env = &env;
  std::unique_ptr<DB> db = Open(options, "broken");
  Put(db.get(), "before", "1");
  env.recorder.broken = true;
  Print("while broken", db->Put(WriteOptions(), "while", "2"));
  env.recorder.broken = false;
  PrintGet(db.get(), "before");
  PrintGet(db.get(), "while");
  db.reset();
  env.recorder.broken = true;
  DB* none = nullptr;
  options.create_if_missing = true;
  Print("opened while broken", DB::Open(options, "broken", &none));
  Print("locks", std::to_string(env.recorder.locks));
  Print("open files", std::to_string(env.recorder.open));
  env.recorder.broken = false;
  db = Open(options, "broken");
  PrintGet(db.get(), "before");
  db.reset();
  env.recorder.AwaitJobs();
}

// Overrides only the old methods DeleteFile and DeleteDir.
class Old : public EnvWrapper {
 public:
  Old() : EnvWrapper(Env::Default()) {}
  Status RemoveFile(const std::string& f) override { return Env::RemoveFile(f); }
  Status RemoveDir(const std::string& d) override { return Env::RemoveDir(d); }
  Status DeleteFile(const std::string& f) override {
    deleted = true;
    return target()->RemoveFile(f);
  }
  Status DeleteDir(const std::string& d) override { return target()->RemoveDir(d); }
  std::atomic<bool> deleted{false};
};

void OldMethodNames() {
  std::printf("-- dated\n");
  Old env;
  Options options;
  options.env = &env;
  Put(Open(options, "dated").get(), "key", "value");
  PrintGet(Open(options, "dated").get(), "key");
  PrintKind("destroyed", DestroyDB("dated", options));
  Print("deleted", env.deleted);
  Print("there", env.FileExists("dated"));
}

void MemoryEnv() {
  std::printf("-- memory\n");
  const std::unique_ptr<Env> env(NewMemEnv(Env::Default()));
  Options options;
  options.env = env.get();
  options.write_buffer_size = 64 << 10;
  std::unique_ptr<DB> db = Open(options, "/nowhere/memory");
  Fill(db.get());
  db.reset();
  db = Open(options, "/nowhere/memory");
  PrintGet(db.get(), "last");
  Print("on disk", Env::Default()->FileExists("/nowhere"));
  db.reset();
  PrintKind("written", WriteStringToFile(env.get(), "text", "/a/file"));
  std::string text;
  PrintKind("read", ReadFileToString(env.get(), "/a/file", &text));
  Print("text", text);
  PrintKind("missing", ReadFileToString(env.get(), "/another", &text));
  std::vector<std::string> names;
  PrintKind("listed", env->GetChildren("/a", &names));
  Print("names", std::to_string(names.size()) + names[0]);
}

class TextFile : public WritableFile {
 public:
  Status Append(const Slice& data) override {
    text += data.ToString();
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }
  std::string text;
};

// Returns the parts of a text from each occurrence of begin to the end of the line.
std::string Lines(const std::string& text, const std::string& begin) {
  std::string found;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    found += text.substr(at, text.find('\n', at) - at) + ";";
  }
  return found;
}

void DumpFiles() {
  std::printf("-- dumped\n");
  const std::unique_ptr<Env> env(NewMemEnv(Env::Default()));
  Options options;
  options.env = env.get();
  std::unique_ptr<DB> db = Open(options, "/dumped");
  Put(db.get(), "key\n", "\x80value");
  db->CompactRange(nullptr, nullptr);
  WriteBatch batch;
  batch.Put("in", "log");
  batch.Delete("key\n");
  PrintKind("written", db->Write(WriteOptions(), &batch));
  std::vector<std::string> names;
  env->GetChildren("/dumped", &names);
  TextFile text;
  for (const std::string& name : names) {
    const Status status = DumpFile(env.get(), "/dumped/" + name, &text);
    const bool known = name.find(".log") != std::string::npos || name.find(".ldb") != std::string::npos ||
                       name.find("MANIFEST") != std::string::npos;
    if (status.ok() != known) Print(name, status);
  }
  Print("table", Lines(text.text, "'key\\x0a' @ 1 : val => '\\x80value'"));
  Print("log", Lines(text.text, "  put ") + Lines(text.text, "  del "));
  Print("manifest", Lines(text.text, "  Comparator:"));
  PrintKind("unknown", DumpFile(env.get(), "/dumped/what", &text));
  PrintKind("missing", DumpFile(env.get(), "/dumped/000099.log", &text));
}

// Locks without a file.
class LocklessEnv : public EnvWrapper {
 public:
  LocklessEnv() : EnvWrapper(Env::Default()) {}
  Status LockFile(const std::string&, FileLock** lock) override {
    *lock = new FileLock;
    return Status::OK();
  }
  Status UnlockFile(FileLock* lock) override {
    delete lock;
    return Status::OK();
  }
};

void EnvWithoutLockFile() {
  std::printf("-- no lock file\n");
  LocklessEnv env;
  Options options;
  options.env = &env;
  Put(Open(options, "lockless").get(), "key", "value");
  Print("lock file", env.FileExists("lockless/LOCK"));
  PrintKind("destroyed", DestroyDB("lockless", options));
  Print("still there", env.FileExists("lockless"));
}

void SystemEnv() {
  std::printf("-- the machine\n");
  Env* const env = Env::Default();
  std::string directory;
  PrintKind("directory", env->GetTestDirectory(&directory));
  Print("there", env->FileExists(directory));
  Logger* logger = nullptr;
  PrintKind("logger", env->NewLogger("messages", &logger));
  const std::string longer(5000, 'x');
  for (const char* format : {"%s", "%s\n"}) {
    // Calls Logv from a variadic function, as programs do.
    struct Caller {
      static void Log(Logger* to, const char* format, ...) {
        va_list ap;
        va_start(ap, format);
        to->Logv(format, ap);
        va_end(ap);
      }
    };
    Caller::Log(logger, format, longer.c_str());
  }
  delete logger;
  std::string text;
  ReadFileToString(env, "messages", &text);
  Print("lines", std::to_string(std::count(text.begin(), text.end(), '\n')));
  Print("whole", text.find(longer) != std::string::npos);
  FileLock* lock = nullptr;
  FileLock* second = nullptr;
  PrintKind("locked", env->LockFile("LOCK", &lock));
  PrintKind("again", env->LockFile("LOCK", &second));
  Print("refused", env->LockFile("LOCK", &second));
  Print("lock in no directory", env->LockFile("no/directory/LOCK", &second));
  PrintKind("unlocked", env->UnlockFile(lock));
  WritableFile* file = nullptr;
  PrintKind("in no directory", env->NewWritableFile("no/directory/file", &file));
  Print("null", file == nullptr);
  SequentialFile* sequential = nullptr;
  PrintKind("no file", env->NewSequentialFile("no file", &sequential));
  PrintKind("no file", env->RemoveFile("no file"));
  uint64_t size = 7;
  PrintKind("no file", env->GetFileSize("no file", &size));
  const uint64_t now = env->NowMicros();
  env->SleepForMicroseconds(1000);
  Print("time passes", env->NowMicros() >= now + 1000);
}

}  // namespace

int main() {
  UserEnv();
  BrokenFiles();
  OldMethodNames();
  MemoryEnv();
  DumpFiles();
  EnvWithoutLockFile();
  SystemEnv();
}
