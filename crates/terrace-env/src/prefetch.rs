//! A hint to the processor.
#![allow(unsafe_code)] // an instruction that has no safe name

/// The bytes that a processor fetches at once.
const CACHE_LINE_SIZE: usize = 64;

/// Has the processor fetch about `bytes` bytes at `at`, which will be read soon: several misses at once take hardly longer than
/// one. Nothing is read, so any address does. Does nothing where there is no such instruction.
#[inline]
pub fn prefetch<T>(at: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..bytes.div_ceil(CACHE_LINE_SIZE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = at.cast::<i8>().wrapping_add(line * CACHE_LINE_SIZE);
        // SAFETY: a hint, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_address() {
        let there = [1u8; 100];
        prefetch(there.as_ptr(), 1000);
        prefetch(std::ptr::null::<u64>(), 64);
        prefetch(usize::MAX as *const u8, 200);
        assert_eq!(there, [1; 100]);
    }
}
