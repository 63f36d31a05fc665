#include <stdio.h>

#include "leveldb/c.h"
#include "terrace/terrace.h"

#ifndef LEVELDB_SHARED_LIBRARY
#error "the package says that the library is shared"
#endif

int main(void) {
  printf("LevelDB %d.%d, Terrace %s\n", leveldb_major_version(), leveldb_minor_version(), terrace_version());
  return 0;
}
