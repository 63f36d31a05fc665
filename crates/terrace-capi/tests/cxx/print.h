// Shared functions of these programs: they print their results, and the test compares the output.

#ifndef PRINT_H_
#define PRINT_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/env.h"

// Prints non-printable bytes as \xx.
inline void Print(const std::string& what, const std::string& found) {
  std::printf("%s: ", what.c_str());
  for (const char c : found) {
    c >= ' ' && c <= '~' ? std::putchar(c) : std::printf("\\%02x", static_cast<unsigned char>(c));
  }
  std::putchar('\n');
}

// Keeps string literals from converting to bool.
inline void Print(const std::string& what, const char* found) { Print(what, std::string(found)); }

inline void Print(const std::string& what, bool found) { Print(what, found ? "yes" : "no"); }

// The whole text, where it is LevelDB's.
inline void Print(const std::string& what, const leveldb::Status& status) { Print(what, status.ToString()); }

// The kind only, where our message has more details.
inline void PrintKind(const std::string& what, const leveldb::Status& status) {
  const std::string text = status.ToString();
  Print(what, text.substr(0, text.find(':')));
}

inline void PrintGet(leveldb::DB* db, const std::string& key, const leveldb::ReadOptions& options = {}) {
  std::string value = "untouched";
  const leveldb::Status status = db->Get(options, key, &value);
  Print("get " + key, status.ok() ? "'" + value + "'" : status.ToString() + value);
}

// Returns all entries, forward or backward.
inline std::string Keys(leveldb::Iterator* iterator, bool backward = false) {
  std::string keys;
  backward ? iterator->SeekToLast() : iterator->SeekToFirst();
  while (iterator->Valid()) {
    keys += iterator->key().ToString() + "=" + iterator->value().ToString() + " ";
    backward ? iterator->Prev() : iterator->Next();
  }
  return keys + iterator->status().ToString();
}

inline void PrintAll(leveldb::DB* db, const leveldb::ReadOptions& options = {}) {
  const std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator(options));
  Print("forward", Keys(iterator.get()));
  Print("backward", Keys(iterator.get(), true));
}

inline std::unique_ptr<leveldb::DB> Open(leveldb::Options options, const std::string& name) {
  options.create_if_missing = true;
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, name, &db);
  if (!status.ok()) {
    Print("open", status);
    std::exit(1);
  }
  return std::unique_ptr<leveldb::DB>(db);
}

inline void Put(leveldb::DB* db, const std::string& key, const std::string& value) {
  const leveldb::Status status = db->Put(leveldb::WriteOptions(), key, value);
  if (!status.ok()) Print("put " + key, status);
}

#endif  // PRINT_H_
