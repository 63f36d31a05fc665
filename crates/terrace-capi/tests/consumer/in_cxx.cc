#include <iostream>

#include "leveldb/db.h"
#include "leveldb/write_batch.h"

int main() {
  leveldb::DB* db;
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::Status status = leveldb::DB::Open(options, "db", &db);
  leveldb::WriteBatch batch;
  batch.Put("key", "value");
  status = db->Write(leveldb::WriteOptions(), &batch);
  std::string value;
  status = db->Get(leveldb::ReadOptions(), "key", &value);
  std::cout << status.ToString() << ' ' << value << '\n';
  delete db;
}
