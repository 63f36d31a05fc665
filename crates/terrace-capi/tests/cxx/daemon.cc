// A daemon: root opens the database and the info log, and then the process changes its user.

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <fstream>
#include <sstream>

#include "leveldb/cache.h"
#include "print.h"

using namespace leveldb;

namespace {

const int kNobody = 65534;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

// Prints the messages, which follow the time and maybe a thread.
void PrintMessages(const std::string& path) {
  std::istringstream lines(Contents(path));
  std::string line, all;
  while (std::getline(lines, line)) all += line.substr(line.rfind(' ') + 1) + "|";
  Print(path, all);
}

// The library does not export LevelDB's own function.
void Message(Logger* logger, const char* format, ...) {
  va_list ap;
  va_start(ap, format);
  logger->Logv(format, ap);
  va_end(ap);
}

void KeepNothing(const Slice&, void*) {}

}  // namespace

int main() {
  chmod(".", 0755);
  mkdir("db", 0755);
  if (chown("db", kNobody, kNobody) != 0) return 1;
  std::ofstream("messages") << "old\n";
  Logger* logger = nullptr;
  Print("logger", Env::Default()->NewLogger("messages", &logger));
  Message(logger, "first");
  Message(logger, "bytes:%s", "\xe9\xff");
  std::rename("messages", "messages.1");
  Message(logger, "renamed");

  const std::unique_ptr<DB> db = Open(Options(), "db");
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) return 2;
  Message(logger, "nobody");
  PrintMessages("messages.1");
  Status status;
  for (int i = 0; status.ok() && i < 30000; i++) {
    status = db->Put(WriteOptions(), std::to_string(i), std::string(1000, 'v'));
  }
  Print("puts", status);
  db->CompactRange(nullptr, nullptr);
  Print("put", db->Put(WriteOptions(), "last", "1"));
  PrintGet(db.get(), "last");
  struct stat info;
  Print("LOG", stat("db/LOG", &info) == 0);
  delete logger;

  const std::unique_ptr<Cache> cache(NewLRUCache(100));
  cache->Release(cache->Insert("large", nullptr, 1000, KeepNothing));
  Cache::Handle* handle = cache->Lookup("large");
  Print("large entry", handle != nullptr);
  if (handle != nullptr) cache->Release(handle);
}
