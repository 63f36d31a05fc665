#include "leveldb/db.h"

#include "flat_options.h"
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

// The one class that may see the bytes of a batch, in any LevelDB.
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

FlatRead Reading(const ReadOptions& options) {
  const auto* snapshot = static_cast<const RustSnapshot*>(options.snapshot);
  return FlatRead{snapshot == nullptr ? nullptr : snapshot->get(), options.verify_checksums,
                  options.fill_cache};
}

class RustDB final : public leveldb::DB {
 public:
  explicit RustDB(Db* db) : db_(db) {}
  ~RustDB() override { terrace_cxx_close(db_); }

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    Outcome end;
    return end.Of(terrace_cxx_put(db_, Flat(key), Flat(value), options.sync, end.report()));
  }

  Status Delete(const WriteOptions& options, const Slice& key) override {
    Outcome end;
    return end.Of(terrace_cxx_delete(db_, Flat(key), options.sync, end.report()));
  }

  Status Write(const WriteOptions& options, leveldb::WriteBatch* batch) override {
    Outcome end;
    if (batch == nullptr) return end.Of(terrace_cxx_flush(db_, end.report()));
    const Slice bytes = leveldb::WriteBatchInternal::Contents(batch);
    return end.Of(terrace_cxx_write(db_, Flat(bytes), options.sync, end.report()));
  }

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override {
    Outcome end;
    bool found = false;
    const Code code = terrace_cxx_get(db_, Flat(key), Reading(options), Fill(value), &found, end.report());
    return code == 0 && !found ? Status::NotFound(Slice()) : end.Of(code);
  }

  leveldb::Iterator* NewIterator(const ReadOptions& options) override {
    return NewRustIterator(terrace_cxx_iterate(db_, Reading(options)));
  }

  const leveldb::Snapshot* GetSnapshot() override {
    return new RustSnapshot(terrace_cxx_snapshot(db_));
  }

  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override {
    delete static_cast<const RustSnapshot*>(snapshot);
  }

  bool GetProperty(const Slice& property, std::string* value) override {
    value->clear();
    return terrace_cxx_property(db_, Flat(property), Fill(value));
  }

  void GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) override {
    static_assert(sizeof(leveldb::Range) == sizeof(Span), "a range is its span");
    terrace_cxx_sizes(db_, reinterpret_cast<const Span*>(range), n, sizes);
  }

  void CompactRange(const Slice* begin, const Slice* end) override {
    terrace_cxx_compact(db_, reinterpret_cast<const Bytes*>(begin),
                        reinterpret_cast<const Bytes*>(end));
  }

 private:
  Db* const db_;
};

}  // namespace
}  // namespace terrace

namespace leveldb {

using terrace::Outcome;

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  *dbptr = nullptr;
  Outcome end;
  terrace::Db* db = nullptr;
  const terrace::FlatOptions flat = terrace::Flat(options);
  const Status status =
      end.Of(terrace::terrace_cxx_open(&flat, terrace::Flat(name), &db, end.report()));
  if (status.ok()) *dbptr = new terrace::RustDB(db);
  return status;
}

Status DestroyDB(const std::string& name, const Options& options) {
  Outcome end;
  const terrace::FlatOptions flat = terrace::Flat(options);
  return end.Of(terrace::terrace_cxx_destroy(&flat, terrace::Flat(name), end.report()));
}

Status RepairDB(const std::string& dbname, const Options& options) {
  Outcome end;
  const terrace::FlatOptions flat = terrace::Flat(options);
  return end.Of(terrace::terrace_cxx_repair(&flat, terrace::Flat(dbname), end.report()));
}

}  // namespace leveldb
