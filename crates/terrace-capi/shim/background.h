// SPDX-License-Identifier: MIT OR Apache-2.0

// Threads for functions of the program. The library's own background work does not run here.

#ifndef TERRACE_SHIM_BACKGROUND_H_
#define TERRACE_SHIM_BACKGROUND_H_

namespace terrace {

// Calls function(arg) on the single background thread of the process, after all functions queued
// before.
void RunOnBackgroundThread(void (*function)(void*), void* arg);

// Calls function(arg) on a new thread.
void RunOnNewThread(void (*function)(void*), void* arg);

}  // namespace terrace

#endif  // TERRACE_SHIM_BACKGROUND_H_
