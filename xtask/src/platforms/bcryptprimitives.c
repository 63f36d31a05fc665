// SPDX-License-Identifier: MIT OR Apache-2.0
// The only function of Windows' bcryptprimitives.dll that Rust's standard library calls. Wine 8 lacks this library.

#include <stddef.h>

// RtlGenRandom of advapi32.dll has this name.
unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *data, size_t length) {
    while (length > 0) {
        unsigned long part = length < 1 << 20 ? (unsigned long)length : 1 << 20;
        if (!SystemFunction036(data, part)) {
            return 0;
        }
        data += part;
        length -= part;
    }
    return 1;
}
