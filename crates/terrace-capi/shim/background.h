// Threads for a program's functions. The library's own background work does not run here.

#ifndef TERRACE_SHIM_BACKGROUND_H_
#define TERRACE_SHIM_BACKGROUND_H_

namespace terrace {

// Has function(arg) called on the one background thread of the process, behind all that was queued before.
void RunOnBackgroundThread(void (*function)(void*), void* arg);

// Has function(arg) called on a thread of its own.
void RunOnNewThread(void (*function)(void*), void* arg);

}  // namespace terrace

#endif  // TERRACE_SHIM_BACKGROUND_H_
