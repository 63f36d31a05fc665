// SPDX-License-Identifier: MIT OR Apache-2.0

// NewMemEnv: files in memory, with their full paths as names.

#include "leveldb/helpers/memenv.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "leveldb/env.h"
#include "leveldb/slice.h"

namespace leveldb {
namespace {

// The bytes of a file, shared by its name and its open handles.
class Contents {
 public:
  size_t size() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return bytes_.size();
  }

  void Truncate() {
    std::lock_guard<std::mutex> guard(mutex_);
    bytes_.clear();
  }

  void Append(const Slice& data) {
    std::lock_guard<std::mutex> guard(mutex_);
    bytes_.append(data.data(), data.size());
  }

  // Copies up to n bytes from offset to scratch: the bytes of a Slice must not move when the file
  // grows.
  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
    std::lock_guard<std::mutex> guard(mutex_);
    *result = Slice();
    if (offset > bytes_.size()) return Status::IOError("read past the end of the file");
    n = std::min(n, bytes_.size() - static_cast<size_t>(offset));
    if (n > 0) std::memcpy(scratch, bytes_.data() + offset, n);
    *result = Slice(scratch, n);
    return Status::OK();
  }

 private:
  mutable std::mutex mutex_;
  std::string bytes_;
};

using SharedContents = std::shared_ptr<Contents>;

class MemSequentialFile final : public SequentialFile {
 public:
  explicit MemSequentialFile(SharedContents contents) : contents_(std::move(contents)) {}

  Status Read(size_t n, Slice* result, char* scratch) override {
    // The file may have been truncated meanwhile.
    offset_ = std::min<uint64_t>(offset_, contents_->size());
    const Status status = contents_->Read(offset_, n, result, scratch);
    if (status.ok()) offset_ += result->size();
    return status;
  }

  Status Skip(uint64_t n) override {
    const uint64_t size = contents_->size();
    offset_ += std::min(n, size - std::min(offset_, size));
    return Status::OK();
  }

 private:
  const SharedContents contents_;
  uint64_t offset_ = 0;
};

class MemRandomAccessFile final : public RandomAccessFile {
 public:
  explicit MemRandomAccessFile(SharedContents contents) : contents_(std::move(contents)) {}

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    return contents_->Read(offset, n, result, scratch);
  }

 private:
  const SharedContents contents_;
};

class MemWritableFile final : public WritableFile {
 public:
  explicit MemWritableFile(SharedContents contents) : contents_(std::move(contents)) {}

  Status Append(const Slice& data) override {
    contents_->Append(data);
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const SharedContents contents_;
};

class MemFileLock final : public FileLock {
 public:
  explicit MemFileLock(const std::string& fname) : fname_(fname) {}
  const std::string& fname() const { return fname_; }

 private:
  const std::string fname_;
};

class NoLogger final : public Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class MemEnv final : public EnvWrapper {
 public:
  explicit MemEnv(Env* base) : EnvWrapper(base) {}

  Status NewSequentialFile(const std::string& fname, SequentialFile** result) override {
    return Open<MemSequentialFile>(fname, result);
  }
  Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) override {
    return Open<MemRandomAccessFile>(fname, result);
  }

  Status NewWritableFile(const std::string& fname, WritableFile** result) override {
    SharedContents contents = FindOrCreate(fname);
    contents->Truncate();
    *result = new MemWritableFile(contents);
    return Status::OK();
  }

  Status NewAppendableFile(const std::string& fname, WritableFile** result) override {
    *result = new MemWritableFile(FindOrCreate(fname));
    return Status::OK();
  }

  bool FileExists(const std::string& fname) override {
    std::lock_guard<std::mutex> guard(mutex_);
    return files_.count(fname) > 0;
  }

  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    const std::string prefix = dir + "/";
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto file = files_.lower_bound(prefix); file != files_.end(); ++file) {
      if (!Slice(file->first).starts_with(prefix)) break;
      result->push_back(file->first.substr(prefix.size()));
    }
    return Status::OK();
  }

  Status RemoveFile(const std::string& fname) override {
    std::lock_guard<std::mutex> guard(mutex_);
    return files_.erase(fname) > 0 ? Status::OK() : NoFile(fname);
  }

  Status CreateDir(const std::string&) override { return Status::OK(); }
  Status RemoveDir(const std::string&) override { return Status::OK(); }

  Status GetFileSize(const std::string& fname, uint64_t* size) override {
    const SharedContents contents = Find(fname);
    if (contents == nullptr) return NoFile(fname);
    *size = contents->size();
    return Status::OK();
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto file = files_.find(src);
    if (file == files_.end()) return NoFile(src);
    const SharedContents contents = file->second;
    files_.erase(file);
    files_[target] = contents;
    return Status::OK();
  }

  Status LockFile(const std::string& fname, FileLock** lock) override {
    *lock = nullptr;
    std::lock_guard<std::mutex> guard(mutex_);
    if (!locked_.insert(fname).second) return Status::IOError("lock " + fname, "already mem_lock");
    *lock = new MemFileLock(fname);
    return Status::OK();
  }

  Status UnlockFile(FileLock* lock) override {
    const std::unique_ptr<MemFileLock> mem_lock(static_cast<MemFileLock*>(lock));
    std::lock_guard<std::mutex> guard(mutex_);
    locked_.erase(mem_lock->fname());
    return Status::OK();
  }

  Status NewLogger(const std::string&, Logger** result) override {
    *result = new NoLogger;
    return Status::OK();
  }

 private:
  static Status NoFile(const std::string& fname) { return Status::IOError(fname, "File not found"); }

  SharedContents Find(const std::string& fname) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto file = files_.find(fname);
    return file == files_.end() ? nullptr : file->second;
  }

  SharedContents FindOrCreate(const std::string& fname) {
    std::lock_guard<std::mutex> guard(mutex_);
    SharedContents& contents = files_[fname];
    if (contents == nullptr) contents = std::make_shared<Contents>();
    return contents;
  }

  template <typename File, typename Base>
  Status Open(const std::string& fname, Base** result) {
    SharedContents contents = Find(fname);
    *result = contents == nullptr ? nullptr : new File(contents);
    return contents == nullptr ? NoFile(fname) : Status::OK();
  }

  std::mutex mutex_;
  std::map<std::string, SharedContents> files_;
  std::set<std::string> locked_;
};

}  // namespace

Env* NewMemEnv(Env* base_env) { return new MemEnv(base_env); }

}  // namespace leveldb
