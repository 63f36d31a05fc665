//! A hint to the processor.
#![allow(unsafe_code)] // an instruction that has no safe name

/// The bytes that a processor fetches at once.
const LINE: usize = 64;

/// Has the processor fetch about `bytes` bytes at `at`, which will be read soon: several misses at once take hardly longer than
/// one. Nothing is read, so any address does. Does nothing where there is no such instruction.
#[inline]
pub fn fetch_ahead<T>(at: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..bytes.div_ceil(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = at.cast::<i8>().wrapping_add(line * LINE);
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
    fn any_address_will_do() {
        let there = [1u8; 100];
        fetch_ahead(there.as_ptr(), 1000);
        fetch_ahead(std::ptr::null::<u64>(), 64);
        fetch_ahead(usize::MAX as *const u8, 200);
        assert_eq!(there, [1; 100]);
    }
}
