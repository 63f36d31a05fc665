// One turn of stock LevelDB, for the attack `alternate` of terrace-torture. The C interface has no
// setter for `reuse_logs`, so this is a C++ program.
//
//   terrace-leveldb-turns DIR REUSE_LOGS WRITE_BUFFER_SIZE
//
// harness/alternate/engine_process.rs describes the commands on the standard input and the answers
// on the standard output. At the end of the input, the program ends without a close.
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

namespace {

// Bits per key of the Bloom filters, as in Terrace's defaults.
constexpr int kBloomBits = 10;

void Answer(const leveldb::Status& status) {
  if (status.ok()) {
    std::puts("ok");
  } else {
    std::string text = status.ToString();
    for (char& c : text) {
      if (c == '\n') c = ' ';
    }
    std::printf("error %s\n", text.c_str());
  }
  std::fflush(stdout);
}

// FNV-1a with 64 bits.
uint64_t Hash(const leveldb::Slice& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes.size(); i++) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
  }
  return hash;
}

leveldb::Status ReadAll(leveldb::DB* db) {
  std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator(leveldb::ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const leveldb::Slice value = iterator->value();
    std::printf("%s %zu %" PRIx64 "\n", iterator->key().ToString().c_str(), value.size(), Hash(value));
  }
  return iterator->status();
}

// Returns the first `length` bytes of the repeated pattern.
std::string Value(size_t length, const std::string& pattern) {
  std::string value;
  while (value.size() < length) value += pattern;
  value.resize(length);
  return value;
}

leveldb::Status Write(leveldb::DB* db, std::istringstream& words) {
  leveldb::WriteOptions options;
  leveldb::WriteBatch batch;
  std::string word, key, pattern;
  words >> word;
  options.sync = word == "sync";
  while (words >> word >> key) {
    size_t length = 0;
    if (word == "put" && words >> length >> pattern) {
      batch.Put(key, Value(length, pattern));
    } else {
      batch.Delete(key);
    }
  }
  return db->Write(options, &batch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // A write beyond the limit on the size of files must fail instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  leveldb::Options options;
  options.create_if_missing = true;
  options.reuse_logs = std::string(argv[2]) == "true";
  options.write_buffer_size = std::strtoul(argv[3], nullptr, 10);
  options.filter_policy = leveldb::NewBloomFilterPolicy(kBloomBits);
  leveldb::DB* db = nullptr;
  const leveldb::Status opened = leveldb::DB::Open(options, argv[1], &db);
  Answer(opened);
  if (!opened.ok()) return 1;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "read") {
      Answer(ReadAll(db));
    } else if (command == "write") {
      Answer(Write(db, words));
    } else if (command == "compact") {
      db->CompactRange(nullptr, nullptr);
      Answer(leveldb::Status::OK());
    } else {
      delete db;
      Answer(leveldb::Status::OK());
      return 0;
    }
  }
  std::_Exit(1);
}
