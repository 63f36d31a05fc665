// Tables without a database.

#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "print.h"

using namespace leveldb;

namespace {

class Sink : public WritableFile {
 public:
  Status Append(const Slice& data) override {
    if (broken) return Status::IOError("no", "more");
    bytes += data.ToString();
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }
  std::string bytes;
  bool broken = false;
};

class Source : public RandomAccessFile {
 public:
  explicit Source(const std::string& bytes) : bytes_(bytes) {}
  Status Read(uint64_t offset, size_t n, Slice* result, char*) const override {
    if (offset > bytes_.size()) return Status::InvalidArgument("behind", "the end");
    *result = Slice(bytes_.data() + offset, std::min(n, bytes_.size() - static_cast<size_t>(offset)));
    return Status::OK();
  }

 private:
  const std::string bytes_;
};

std::string Key(int i) {
  char key[20];
  std::snprintf(key, sizeof(key), "key%06d", i);
  return key;
}

std::string BuildTable(const Options& options, int count) {
  Sink sink;
  TableBuilder builder(options, &sink);
  for (int i = 0; i < count; i++) builder.Add(Key(2 * i), std::string(100, 'v') + Key(i));
  Print("entries", std::to_string(builder.NumEntries()));
  PrintKind("finished", builder.Finish());
  Print("size is told", builder.FileSize() == sink.bytes.size());
  PrintKind("status", builder.status());
  return sink.bytes;
}

void ReadTable(const Options& options, const std::string& bytes, int count) {
  const Source source(bytes);
  Table* opened = nullptr;
  PrintKind("opened", Table::Open(options, const_cast<Source*>(&source), bytes.size(), &opened));
  const std::unique_ptr<Table> table(opened);
  if (table == nullptr) return;
  const std::unique_ptr<Iterator> iterator(table->NewIterator(ReadOptions()));
  Print("valid at once", iterator->Valid());
  int forward = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (iterator->key() != Slice(Key(2 * forward++))) Print("wrong", iterator->key().ToString());
  }
  int backward = 0;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) backward++;
  Print("forward and backward", std::to_string(forward) + " " + std::to_string(backward));
  iterator->Seek(Key(1));
  Print("behind 1", iterator->Valid() ? iterator->key().ToString() : "nothing");
  iterator->Seek(Key(2 * count));
  Print("behind all", iterator->Valid());
  PrintKind("status", iterator->status());
  const uint64_t middle = table->ApproximateOffsetOf(Key(count));
  Print("offsets rise", table->ApproximateOffsetOf("a") <= middle && middle <= table->ApproximateOffsetOf("z"));
  Print("offset of the end", table->ApproximateOffsetOf("z") <= bytes.size());
}

void BuildAndRead() {
  const std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(10));
  const std::unique_ptr<Cache> cache(NewLRUCache(1 << 20));
  Options options;
  for (int count : {0, 1, 3000}) {
    std::printf("-- a table of %d\n", count);
    ReadTable(options, BuildTable(options, count), count);
  }
  std::printf("-- with everything\n");
  options.filter_policy = bloom.get();
  options.block_cache = cache.get();
  options.compression = kNoCompression;
  options.block_size = 1024;
  options.block_restart_interval = 1;
  ReadTable(options, BuildTable(options, 3000), 3000);
}

void ChangeOptions() {
  std::printf("-- changed\n");
  Sink sink;
  Options options;
  TableBuilder builder(options, &sink);
  for (int i = 0; i < 500; i++) builder.Add(Key(2 * i), std::string(100, 'v') + Key(i));
  options.compression = kNoCompression;
  options.block_size = 64 << 10;
  PrintKind("changed", builder.ChangeOptions(options));
  const uint64_t before = builder.FileSize();
  for (int i = 500; i < 1000; i++) builder.Add(Key(2 * i), std::string(100, 'v') + Key(i));
  builder.Flush();
  Print("larger blocks", builder.FileSize() > before + 50 * 1000);
  PrintKind("finished", builder.Finish());
  ReadTable(options, sink.bytes, 1000);
}

void Abandon() {
  std::printf("-- given up\n");
  Sink sink;
  {
    TableBuilder builder(Options(), &sink);
    builder.Add("a", "1");
    builder.Abandon();
  }
  Print("nothing written", sink.bytes.empty());
  TableBuilder builder(Options(), &sink);
  builder.Add("a", "1");
  sink.broken = true;
  builder.Flush();
  Print("broken", builder.status());
  builder.Add("b", "2");
  Print("finished", builder.Finish());
}

void DamagedTables() {
  std::printf("-- damaged\n");
  Options options;
  options.compression = kNoCompression;
  std::string bytes = BuildTable(options, 3000);
  ReadTable(options, bytes.substr(0, 47), 0);
  ReadTable(options, bytes.substr(0, bytes.size() - 1), 0);
  ReadTable(options, std::string(100, 'x'), 0);
  // LevelDB verifies checksums only on request.
  bytes[5000] ^= 1;
  const Source source(bytes);
  Table* opened = nullptr;
  PrintKind("opened", Table::Open(options, const_cast<Source*>(&source), bytes.size(), &opened));
  const std::unique_ptr<Table> table(opened);
  ReadOptions checked;
  checked.verify_checksums = true;
  const std::unique_ptr<Iterator> iterator(table->NewIterator(checked));
  int found = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) found++;
  Print("one block is missing", found < 3000 && found > 2900);
  PrintKind("status", iterator->status());
}

}  // namespace

int main() {
  BuildAndRead();
  ChangeOptions();
  Abandon();
  DamagedTables();
}
