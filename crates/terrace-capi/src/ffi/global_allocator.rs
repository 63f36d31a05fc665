//! The library's own memory is `malloc`'s.
//!
//! Rust's default is so too on this platform, but does not promise it. With the promise, a value that the engine
//! allocated goes to a C program as it is, which calls `free` on it: no second block, no copy.

use std::alloc::{GlobalAlloc, Layout};

struct Malloc;

#[global_allocator]
static MALLOC: Malloc = Malloc;

/// What every block of `malloc` is aligned to.
const MALLOC_ALIGN: usize = 16;

// SAFETY: each method is the C function that does what is asked; what they can't align goes to one that can, and `free`
// takes blocks of both.
unsafe impl GlobalAlloc for Malloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: malloc takes every size.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        let mut block = std::ptr::null_mut();
        // SAFETY: room for the block; a power of two, and a multiple of a pointer's size.
        let failed = unsafe { libc::posix_memalign(&mut block, layout.align(), layout.size()) };
        if failed == 0 { block.cast() } else { std::ptr::null_mut() }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: by the trait, a block from above.
        unsafe { libc::free(block.cast()) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: calloc takes every size.
            return unsafe { libc::calloc(1, layout.size()) }.cast();
        }
        // SAFETY: the caller's promise is that of `alloc`.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: a fresh block of that size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: by the trait, a block from above, and a size that is not 0.
            return unsafe { libc::realloc(block.cast(), size) }.cast();
        }
        let wanted = Layout::from_size_align(size, layout.align());
        let Ok(wanted) = wanted else { return std::ptr::null_mut() };
        // SAFETY: a size that is not 0, by the trait.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: two blocks, each as large as what is copied.
            unsafe { moved.copy_from_nonoverlapping(block, layout.size().min(size)) };
            // SAFETY: by the trait, a block from above.
            unsafe { libc::free(block.cast()) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(align: usize) {
        let layout = Layout::from_size_align(100, align).unwrap();
        // SAFETY: a size that is not 0.
        let block = unsafe { MALLOC.alloc_zeroed(layout) };
        assert!(block.addr().is_multiple_of(align));
        // SAFETY: the block's bytes.
        assert!(unsafe { std::slice::from_raw_parts(block, 100) }.iter().all(|byte| *byte == 0));
        // SAFETY: the block's bytes.
        unsafe { block.write_bytes(7, 100) };
        // SAFETY: the block, as it was allocated.
        let larger = unsafe { MALLOC.realloc(block, layout, 5000) };
        assert!(larger.addr().is_multiple_of(align));
        // SAFETY: the first bytes of the block.
        assert!(unsafe { std::slice::from_raw_parts(larger, 100) }.iter().all(|byte| *byte == 7));
        // SAFETY: the block, as it is now.
        unsafe { MALLOC.dealloc(larger, Layout::from_size_align(5000, align).unwrap()) };
    }

    #[test]
    fn every_alignment() {
        [1, 8, 16, 32, 64, 4096].into_iter().for_each(check);
    }
}
