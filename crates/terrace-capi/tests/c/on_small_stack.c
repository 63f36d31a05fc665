/* Runs another program of this directory in a thread with a stack of STACK_SIZE bytes, or the smallest
 * one of the system. The compiler renames the main function of that program. */

#undef main

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

int program_main(void);

static void* run(void* result) {
  *(int*)result = program_main();
  return NULL;
}

int main(void) {
  int result = 1;
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  size_t size = STACK_SIZE < PTHREAD_STACK_MIN ? PTHREAD_STACK_MIN : STACK_SIZE;
  if (pthread_attr_setstacksize(&attributes, size) != 0) puts("the system refuses the stack size");
  if (pthread_create(&thread, &attributes, run, &result) != 0) puts("the system refuses the thread");
  pthread_join(thread, NULL);
  return result;
}
