// Comparators whose names are not UTF-8, in both languages. Each run opens the two databases of the
// runs before, and adds an entry to them.

#include <cstring>

#include "leveldb/c.h"
#include "leveldb/comparator.h"
#include "print.h"

using namespace leveldb;

namespace {

int CompareBytes(void*, const char* a, size_t a_len, const char* b, size_t b_len) {
  return Slice(a, a_len).compare(Slice(b, b_len));
}

void NoDestructor(void*) {}

void InC(const char* name) {
  leveldb_comparator_t* comparator = leveldb_comparator_create(
      const_cast<char*>(name), NoDestructor, CompareBytes, [](void* state) { return static_cast<const char*>(state); });
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, comparator);
  char* error = nullptr;
  leveldb_t* db = leveldb_open(options, "c", &error);
  if (error != nullptr) Print("C", std::string(error).substr(0, std::strlen("Invalid argument")));
  leveldb_free(error);
  error = nullptr;
  if (db != nullptr) {
    leveldb_readoptions_t* read = leveldb_readoptions_create();
    leveldb_writeoptions_t* write = leveldb_writeoptions_create();
    size_t len = 0;
    char* value = leveldb_get(db, read, "runs", 4, &len, &error);
    const std::string runs = std::string(value == nullptr ? "" : value, len) + "|";
    leveldb_put(db, write, "runs", 4, runs.data(), runs.size(), &error);
    Print("C", runs);
    leveldb_free(value);
    leveldb_readoptions_destroy(read);
    leveldb_writeoptions_destroy(write);
    leveldb_close(db);
  }
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(comparator);
}

class Named : public Comparator {
 public:
  explicit Named(const char* name) : name_(name) {}
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return name_; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  const char* name_;
};

void InCxx(const char* name) {
  const Named comparator(name);
  Options options;
  options.comparator = &comparator;
  options.create_if_missing = true;
  DB* opened = nullptr;
  const Status status = DB::Open(options, "cxx", &opened);
  const std::unique_ptr<DB> db(opened);
  if (!status.ok()) return PrintKind("C++", status);
  std::string runs;
  db->Get(ReadOptions(), "runs", &runs);
  runs += "|";
  Put(db.get(), "runs", runs);
  Print("C++", runs);
}

}  // namespace

int main() {
  // The second name differs from the first one in a byte that is not UTF-8 in either.
  for (const char* name : {"caf\xe9", "caf\xe8"}) {
    InC(name);
    InCxx(name);
  }
}
