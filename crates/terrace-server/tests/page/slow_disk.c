// Slow disk for one kind of threads, for LD_PRELOAD. The file that TERRACE_SLOW_DISK names holds the
// begin of the names of the threads and their bytes per second, for example "terrace-flush 1048576".
// Without the file, the disk is fast.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(size_t bytes) {
  char name[16] = "", threads[32];
  double rate;
  prctl(PR_GET_NAME, name);
  if (strncmp(name, "terrace-", 8) != 0) return 0;
  const char *path = getenv("TERRACE_SLOW_DISK");
  FILE *plan = path ? fopen(path, "r") : NULL;
  if (!plan) return 0;
  int found = fscanf(plan, "%31s %lf", threads, &rate);
  fclose(plan);
  return found == 2 && strncmp(name, threads, strlen(threads)) == 0 ? bytes / rate : 0;
}

ssize_t write(int file, const void *data, size_t bytes) {
  ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
  double wait = seconds_of(bytes);
  if (wait > 0) {
    struct timespec time = {(time_t)wait, (long)((wait - (time_t)wait) * 1e9)};
    nanosleep(&time, NULL);
  }
  return next(file, data, bytes);
}
