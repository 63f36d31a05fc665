//! Prefetch hints for the processor.
#![allow(unsafe_code)] // The prefetch instruction has no safe wrapper.

/// Size of a cache line, in bytes.
const CACHE_LINE_SIZE: usize = 64;

/// Loads about `bytes` bytes at `address` into the processor caches.
///
/// Several misses at once take hardly longer than one. Nothing is read, so any address is valid.
/// Without such an instruction, the function does nothing.
#[inline]
pub fn prefetch<T>(address: *const T, bytes: usize) {
    for line in 0..bytes.div_ceil(CACHE_LINE_SIZE) {
        prefetch_line(address.cast::<i8>().wrapping_add(line * CACHE_LINE_SIZE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(address: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: `_mm_prefetch` reads no memory and cannot fault, so every address is valid. SSE
    // is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn prefetch_line(address: *const i8) {
    // SAFETY: `prfm` is a hint. It changes no register and no memory and cannot fault, so every
    // address is valid.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn prefetch_line(_address: *const i8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_address() {
        let memory = [1u8; 100];
        prefetch(memory.as_ptr(), 1000);
        prefetch(std::ptr::null::<u64>(), 64);
        prefetch(usize::MAX as *const u8, 200);
        assert_eq!(memory, [1; 100]);
    }
}
