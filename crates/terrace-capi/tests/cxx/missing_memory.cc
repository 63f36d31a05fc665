// Calls that copy a large value for which there is no memory. Each prints the error that it returns.

#include <sys/resource.h>

#include <new>

#include "leveldb/write_batch.h"
#include "print.h"
#include "terrace/terrace.h"

using namespace leveldb;

namespace {

constexpr size_t kLarge = 64 << 20;
constexpr size_t kFree = 24 << 20;

// Allows this process kFree more bytes than it has.
void LimitMemory() {
  size_t pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu", &pages) != 1) std::exit(1);
  std::fclose(file);
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * 4096 + kFree;
  setrlimit(RLIMIT_AS, &limit);
}

void LiftLimit() {
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_AS, &limit);
}

void PrintError(const std::string& call, char*& error) {
  const std::string text = error == nullptr ? "no error" : error;
  const size_t begin = text.find("no memory");
  Print(call, begin == std::string::npos ? text : text.substr(begin));
  leveldb_free(error);
  error = nullptr;
}

void InC(const std::string& value) {
  std::printf("-- C\n");
  char* error = nullptr;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, "c", &error);
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_put(db, write, "a", 1, "1", 1, &error);
  leveldb_put(db, write, "b", 1, value.data(), value.size(), &error);
  leveldb_put(db, write, "c", 1, "3", 1, &error);
  terrace_txn_options_t* large = terrace_txn_options_create();
  terrace_txn_options_set_memory(large, 4 * kLarge);
  terrace_txn_t* txn = terrace_begin(db, large, &error);
  terrace_txn_put(txn, "own", 3, value.data(), value.size(), &error);
  PrintError("writes", error);
  leveldb_iterator_t* iterator = leveldb_create_iterator(db, read);
  LimitMemory();

  size_t len = 0;
  if (leveldb_get(db, read, "b", 1, &len, &error) != nullptr) std::printf("found\n");
  PrintError("leveldb_get", error);
  const char* key = "b";
  const size_t key_len = 1;
  char* found = nullptr;
  terrace_multi_get(db, read, 1, &key, &key_len, &found, &len, &error);
  PrintError("terrace_multi_get", error);
  if (terrace_txn_get(txn, "b", 1, &len, &error) != nullptr) std::printf("found\n");
  PrintError("terrace_txn_get", error);
  if (terrace_txn_get(txn, "own", 3, &len, &error) != nullptr) std::printf("found\n");
  PrintError("terrace_txn_get of an own write", error);

  leveldb_iter_seek_to_first(iterator);
  leveldb_iter_next(iterator);
  leveldb_iter_value(iterator, &len);
  Print("leveldb_iter_value", std::to_string(len));
  leveldb_iter_seek_to_first(iterator);
  terrace_entry entries[3];
  for (int i = 0; i < 3; i++) {
    const size_t count = terrace_iter_next_entries(iterator, 3, entries);
    leveldb_iter_get_error(iterator, &error);
    PrintError("terrace_iter_next_entries: " + std::to_string(count), error);
    if (i == 1) LiftLimit();
  }
  leveldb_iter_destroy(iterator);
  terrace_txn_destroy(txn);
  terrace_txn_options_destroy(large);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

void InCxx(const std::string& value) {
  std::printf("-- C++\n");
  const std::unique_ptr<DB> db = Open(Options(), "cxx");
  Put(db.get(), "a", value);
  WriteBatch batch;
  batch.Put("b", value);
  LimitMemory();
  std::string found;
  const Status got = db->Get(ReadOptions(), "a", &found);
  const Status written = db->Write(WriteOptions(), &batch);
  LiftLimit();
  PrintKind("get", got);
  PrintKind("write", written);
  PrintGet(db.get(), "b");
}

}  // namespace

int main() {
  const std::string value(kLarge, 'v');
  InC(value);
  InCxx(value);
}
