/* A program that loads the library, uses it in a thread, unloads it and then forks. The handlers of
 * fork must not stay behind. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pointer of a function in the library; POSIX permits the conversion from an object pointer. */
#define FUNCTION(result, name, parameters) \
  result(*name) parameters = (result(*) parameters)(size_t)dlsym(library, "leveldb_" #name)

/* A thread that has used the library keeps it loaded until it ends. */
static void* use(void* library) {
  FUNCTION(void*, options_create, (void));
  FUNCTION(void, options_set_create_if_missing, (void*, unsigned char));
  FUNCTION(void*, open, (void*, const char*, char**));
  FUNCTION(void, close, (void*));
  FUNCTION(void, options_destroy, (void*));
  char* error = NULL;
  void* options = options_create();
  options_set_create_if_missing(options, 1);
  void* db = open(options, "db", &error);
  printf("open: %s\n", error == NULL ? "ok" : error);
  close(db);
  options_destroy(options);
  return NULL;
}

int main(void) {
  for (int round = 0; round < 3; round++) {
    void* library = dlopen("libleveldb.so.1d", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, library) != 0 || pthread_join(thread, NULL) != 0) {
      return 1;
    }
    printf("dlclose: %d\n", dlclose(library));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("status of the child: %d\n", status);
  }
  return 0;
}
