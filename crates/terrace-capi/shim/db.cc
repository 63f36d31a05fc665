// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/db.h"

#include "cxx_options.h"
#include "leveldb/write_batch.h"
#include "rust_iterator.h"

namespace leveldb {

Snapshot::~Snapshot() = default;

DB::~DB() = default;

Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

// The only class with access to the representation of a batch, in every LevelDB.
class WriteBatchInternal {
 public:
  static Slice Contents(const WriteBatch* batch) { return Slice(batch->rep_); }
};

}  // namespace leveldb

namespace terrace {
namespace {

using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::Status;
using leveldb::WriteOptions;

class RustSnapshot final : public leveldb::Snapshot {
 public:
  explicit RustSnapshot(terrace::Snapshot* snapshot) : snapshot_(snapshot) {}
  ~RustSnapshot() override { terrace_cxx_snapshot_release(snapshot_); }

  const terrace::Snapshot* get() const { return snapshot_; }

 private:
  terrace::Snapshot* const snapshot_;
};

CxxReadOptions ToCxxReadOptions(const ReadOptions& options) {
  const auto* snapshot = static_cast<const RustSnapshot*>(options.snapshot);
  return CxxReadOptions{snapshot == nullptr ? nullptr : snapshot->get(), options.verify_checksums,
                  options.fill_cache};
}

class RustDB final : public leveldb::DB {
 public:
  explicit RustDB(Db* db) : db_(db) {}
  ~RustDB() override { terrace_cxx_close(db_); }

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_put(db_, ToCxxSlice(key), ToCxxSlice(value), options.sync, error.report()));
  }

  Status Delete(const WriteOptions& options, const Slice& key) override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_delete(db_, ToCxxSlice(key), options.sync, error.report()));
  }

  Status Write(const WriteOptions& options, leveldb::WriteBatch* batch) override {
    StatusResult error;
    if (batch == nullptr) return error.ToStatus(terrace_cxx_flush(db_, error.report()));
    const Slice bytes = leveldb::WriteBatchInternal::Contents(batch);
    return error.ToStatus(terrace_cxx_write(db_, ToCxxSlice(bytes), options.sync, error.report()));
  }

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override {
    StatusResult error;
    bool found = false;
    const StatusCode code = terrace_cxx_get(db_, ToCxxSlice(key), ToCxxReadOptions(options), AssignTo(value), &found, error.report());
    return code == 0 && !found ? Status::NotFound(Slice()) : error.ToStatus(code);
  }

  leveldb::Iterator* NewIterator(const ReadOptions& options) override {
    return NewRustIterator(terrace_cxx_iterate(db_, ToCxxReadOptions(options)));
  }

  const leveldb::Snapshot* GetSnapshot() override {
    return new RustSnapshot(terrace_cxx_snapshot(db_));
  }

  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override {
    delete static_cast<const RustSnapshot*>(snapshot);
  }

  bool GetProperty(const Slice& property, std::string* value) override {
    value->clear();
    return terrace_cxx_property(db_, ToCxxSlice(property), AssignTo(value));
  }

  void GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) override {
    static_assert(sizeof(leveldb::Range) == sizeof(CxxRange), "a range is its span");
    terrace_cxx_sizes(db_, reinterpret_cast<const CxxRange*>(range), n, sizes);
  }

  void CompactRange(const Slice* begin, const Slice* end) override {
    terrace_cxx_compact(db_, reinterpret_cast<const CxxSlice*>(begin),
                        reinterpret_cast<const CxxSlice*>(end));
  }

 private:
  Db* const db_;
};

}  // namespace
}  // namespace terrace

namespace leveldb {

using terrace::StatusResult;

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  *dbptr = nullptr;
  StatusResult error;
  terrace::Db* db = nullptr;
  const terrace::CxxOptions cxx_options = terrace::ToCxxOptions(options);
  const Status status =
      error.ToStatus(terrace::terrace_cxx_open(&cxx_options, terrace::ToCxxSlice(name), &db, error.report()));
  if (status.ok()) *dbptr = new terrace::RustDB(db);
  return status;
}

Status DestroyDB(const std::string& name, const Options& options) {
  StatusResult error;
  const terrace::CxxOptions cxx_options = terrace::ToCxxOptions(options);
  return error.ToStatus(terrace::terrace_cxx_destroy(&cxx_options, terrace::ToCxxSlice(name), error.report()));
}

Status RepairDB(const std::string& dbname, const Options& options) {
  StatusResult error;
  const terrace::CxxOptions cxx_options = terrace::ToCxxOptions(options);
  return error.ToStatus(terrace::terrace_cxx_repair(&cxx_options, terrace::ToCxxSlice(dbname), error.report()));
}

}  // namespace leveldb
