// Objects of the program, and objects of the library: everything except files.

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"
#include "print.h"

using namespace leveldb;

namespace {

class Printer : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    seen += "+" + key.ToString() + "=" + value.ToString() + " ";
  }
  void Delete(const Slice& key) override { seen += "-" + key.ToString() + " "; }
  std::string seen;
};

std::string Shown(const WriteBatch& batch) {
  Printer printer;
  const Status status = batch.Iterate(&printer);
  return printer.seen + status.ToString() + " " + std::to_string(batch.ApproximateSize());
}

void Batches() {
  std::printf("-- batches\n");
  WriteBatch batch;
  Print("empty", Shown(batch));
  batch.Put("a", "1");
  batch.Delete(std::string(200, 'd'));
  batch.Put("", std::string("\0\xff", 2));
  Print("three", Shown(batch));
  WriteBatch copy(batch);
  copy.Put("more", std::string(300, 'v'));
  copy.Append(batch);
  Print("copied and appended", Shown(copy));
  copy.Append(copy);
  Print("appended to itself", Shown(copy).substr(0, 20));
  copy = batch;
  Print("assigned", Shown(copy));
  batch.Clear();
  Print("cleared", Shown(batch));
  const std::unique_ptr<DB> db = Open(Options(), "batches");
  PrintKind("written", db->Write(WriteOptions(), &copy));
  PrintKind("nothing written", db->Write(WriteOptions(), &batch));
  PrintKind("null written", db->Write(WriteOptions(), nullptr));
  PrintGet(db.get(), "a");
  PrintGet(db.get(), "b");
  PrintGet(db.get(), "");
  // Implementations that a subclass may call.
  PrintKind("put", db->DB::Put(WriteOptions(), "b", "2"));
  PrintKind("delete", db->DB::Delete(WriteOptions(), "a"));
  PrintGet(db.get(), "a");
  PrintGet(db.get(), "b");
}

// Orders keys by length, then in reverse.
class Odd : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -7 : 9;
    return b.compare(a);
  }
  const char* Name() const override { return "odd"; }
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    calls++;
    if (Compare(*start, limit) >= 0) std::abort();
  }
  void FindShortSuccessor(std::string* key) const override {
    calls++;
    key->append("longer");
  }
  mutable std::atomic<int> calls{0};
};

void Orders() {
  std::printf("-- orders\n");
  Odd odd;
  Options options;
  options.comparator = &odd;
  std::unique_ptr<DB> db = Open(options, "orders");
  for (const char* key : {"a", "b", "aa", "ab", "aaa", "c"}) Put(db.get(), key, "1");
  PrintAll(db.get());
  db->CompactRange(nullptr, nullptr);
  Put(db.get(), "bb", "2");
  PrintAll(db.get());
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->Seek("b");
  Print("behind b", iterator->key().ToString());
  iterator.reset();
  Print("separators asked for", odd.calls > 0);
  db.reset();
  DB* other = reinterpret_cast<DB*>(1);
  PrintKind("opened in another order", DB::Open(Options(), "orders", &other));
  Print("null", other == nullptr);
  std::string key = "abc1";
  BytewiseComparator()->FindShortestSeparator(&key, "abc9");
  Print("separator", key);
  key = "\xff\xff" "b";
  BytewiseComparator()->FindShortSuccessor(&key);
  Print("successor", key == "\xff\xff" "c");
}

// A filter of the first byte of each key.
class FirstBytes : public FilterPolicy {
 public:
  const char* Name() const override { return "first bytes"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    for (int i = 0; i < n; i++) dst->push_back(keys[i][0]);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    asked++;
    return filter.ToString().find(key[0]) != std::string::npos;
  }
  mutable std::atomic<int> asked{0};
};

void Filters() {
  std::printf("-- filters\n");
  FirstBytes own;
  Options options;
  options.filter_policy = &own;
  std::unique_ptr<DB> db = Open(options, "filters");
  for (const char* key : {"apple", "cherry", "melon"}) Put(db.get(), key, "fruit");
  db->CompactRange(nullptr, nullptr);
  PrintGet(db.get(), "cherry");
  PrintGet(db.get(), "banana");
  Print("asked", own.asked > 0);
  const std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(10));
  Print("name", bloom->Name());
  const Slice keys[] = {"hello", "world"};
  std::string filter = "before";
  bloom->CreateFilter(keys, 2, &filter);
  Print("made", filter.size() == 6 + 8 + 1 && filter.compare(0, 6, "before") == 0);
  const Slice made(filter.data() + 6, filter.size() - 6);
  Print("hello", bloom->KeyMayMatch("hello", made));
  Print("x", bloom->KeyMayMatch("x", made));
}

// Counts calls and forwards them to another cache.
class Counting : public Cache {
 public:
  Handle* Insert(const Slice& key, void* value, size_t charge, void (*deleter)(const Slice&, void*)) override {
    inserted++;
    return cache->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const Slice& key) override {
    Handle* const handle = cache->Lookup(key);
    if (handle != nullptr) found++;
    return handle;
  }
  void Release(Handle* handle) override { cache->Release(handle); }
  void* Value(Handle* handle) override { return cache->Value(handle); }
  void Erase(const Slice& key) override { cache->Erase(key); }
  uint64_t NewId() override { return cache->NewId(); }
  size_t TotalCharge() const override { return cache->TotalCharge(); }
  const std::unique_ptr<Cache> cache{NewLRUCache(1 << 20)};
  std::atomic<int> inserted{0};
  std::atomic<int> found{0};
};

void Caches() {
  std::printf("-- caches\n");
  Counting counting;
  counting.Prune();
  Options options;
  options.block_cache = &counting;
  std::unique_ptr<DB> db = Open(options, "caches");
  for (int i = 0; i < 1000; i++) Put(db.get(), std::to_string(i), std::string(100, 'v'));
  db->CompactRange(nullptr, nullptr);
  std::string used;
  for (int round = 0; round < 3; round++) PrintKind("read", db->Get(ReadOptions(), "500", &used));
  Print("inserted", counting.inserted > 0);
  Print("found", counting.found > 0);
  Print("charged", counting.TotalCharge() >= 4096);
  ReadOptions passing;
  passing.fill_cache = false;
  const int inserted = counting.inserted;
  const std::unique_ptr<Iterator> iterator(db->NewIterator(passing));
  Keys(iterator.get());
  Print("not filled", counting.inserted == inserted);
  Print("property", db->GetProperty("leveldb.approximate-memory-usage", &used) && std::stoul(used) >= 4096);
}

class Lines : public Logger {
 public:
  void Logv(const char* format, va_list ap) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, ap);
    const std::lock_guard<std::mutex> guard(mutex);
    lines.push_back(line);
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

void Loggers() {
  std::printf("-- loggers\n");
  Lines lines;
  Options options;
  options.info_log = &lines;
  std::unique_ptr<DB> db = Open(options, "loggers");
  Put(db.get(), "key", "100% %s %n value");
  db->CompactRange(nullptr, nullptr);
  db.reset();
  Print("told", !lines.lines.empty());
  Print("no file", !Env::Default()->FileExists("loggers/LOG"));
}

void Cleanups() {
  std::printf("-- cleanups\n");
  std::string order;
  const auto note = [](void* to, void* what) {
    *static_cast<std::string*>(to) += static_cast<const char*>(what);
  };
  const std::unique_ptr<DB> db = Open(Options(), "cleanups");
  for (Iterator* iterator : {NewEmptyIterator(), db->NewIterator(ReadOptions())}) {
    for (const char* what : {"first ", "second ", "third "}) {
      iterator->RegisterCleanup(note, &order, const_cast<char*>(what));
    }
    iterator->Seek("x");
    Print("valid", iterator->Valid());
    delete iterator;
    Print("cleaned", order);
  }
  const std::unique_ptr<Iterator> failed(NewErrorIterator(Status::Corruption("here", "there")));
  failed->SeekToFirst();
  Print("failed", failed->status());
}

void Moments() {
  std::printf("-- moments\n");
  const std::unique_ptr<DB> db = Open(Options(), "moments");
  Put(db.get(), "a", "1");
  ReadOptions then;
  then.snapshot = db->GetSnapshot();
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  Put(db.get(), "a", "2");
  Put(db.get(), "b", "2");
  PrintGet(db.get(), "a", then);
  PrintGet(db.get(), "b", then);
  PrintAll(db.get(), then);
  Print("before", Keys(iterator.get()));
  db->ReleaseSnapshot(then.snapshot);
  PrintAll(db.get());
  std::string text = "what was there";
  Print("known", db->GetProperty("leveldb.num-files-at-level0", &text));
  Print("unknown", db->GetProperty("leveldb.nothing", &text));
  const Range ranges[] = {Range("a", "b"), Range("x", "y")};
  uint64_t sizes[] = {7, 7};
  db->GetApproximateSizes(ranges, 2, sizes);
  Print("nothing in files", sizes[0] == 0 && sizes[1] == 0);
}

void Statuses() {
  std::printf("-- statuses\n");
  Status one = Status::NotFound("one");
  Status two = one;
  one = Status::InvalidArgument("two", "three");
  Print("assigned", one);
  Print("copied", two);
  const Status& same = one;
  one = same;
  Print("to itself", one);
  two = std::move(one);
  Print("moved", two);
  two = Status::OK();
  Print("well", two);
  Print("long", Status::NotSupported(std::string(3000, 'x')).ToString().size() == 3017);
}

void Threads() {
  std::printf("-- threads\n");
  Odd odd;
  FirstBytes filter;
  Counting cache;
  Lines lines;
  Options options;
  options.comparator = &odd;
  options.filter_policy = &filter;
  options.block_cache = &cache;
  options.info_log = &lines;
  options.write_buffer_size = 64 << 10;
  const std::unique_ptr<DB> db = Open(options, "threads");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&db, t] {
      for (int i = 0; i < 2000; i++) {
        const std::string key = std::to_string(t) + "-" + std::to_string(i);
        Put(db.get(), key, std::string(100, 'v'));
        std::string value;
        if (!db->Get(ReadOptions(), key, &value).ok() || value.size() != 100) Print("lost", key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int found = 0;
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) found++;
  Print("found", std::to_string(found));
}

}  // namespace

int main() {
  Batches();
  Orders();
  Filters();
  Caches();
  Loggers();
  Cleanups();
  Moments();
  Statuses();
  Threads();
}
