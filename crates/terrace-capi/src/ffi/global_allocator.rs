//! Global allocator that uses `malloc`.
//!
//! Rust's default allocator does so on this platform too, but does not promise it. With the
//! promise, a value that the engine allocated goes to a C program without a copy, and the program
//! frees it with `free`.

use std::alloc::{GlobalAlloc, Layout};

struct Malloc;

#[global_allocator]
static MALLOC: Malloc = Malloc;

/// Alignment of every `malloc` block in bytes.
const MALLOC_ALIGN: usize = 16;

/// Blocks with an alignment above [`MALLOC_ALIGN`], and the release of all blocks.
#[cfg(unix)]
mod aligned {
    use std::alloc::Layout;

    /// Returns a block, or null if there is no memory.
    ///
    /// # Safety
    ///
    /// The alignment of `layout` is at least that of a pointer.
    pub(super) unsafe fn alloc(layout: Layout) -> *mut u8 {
        let mut block = std::ptr::null_mut();
        // SAFETY: `block` is a valid output pointer. The alignment is a power of two and a multiple
        // of the pointer size.
        let failed = unsafe { libc::posix_memalign(&mut block, layout.align(), layout.size()) };
        if failed == 0 { block.cast() } else { std::ptr::null_mut() }
    }

    /// Frees a block of any alignment.
    ///
    /// # Safety
    ///
    /// `block` comes from `malloc` or [`alloc`], and is not used again.
    #[inline]
    pub(super) unsafe fn free(block: *mut u8, _layout: Layout) {
        // SAFETY: `free` accepts blocks of both functions.
        unsafe { libc::free(block.cast()) };
    }
}

/// Blocks with an alignment above [`MALLOC_ALIGN`], and the release of all blocks.
#[cfg(windows)]
mod aligned {
    use std::alloc::Layout;

    /// Returns a block, or null if there is no memory.
    ///
    /// # Safety
    ///
    /// None beyond that of a layout: its alignment is a power of two.
    pub(super) unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: the alignment is a power of two.
        unsafe { libc::aligned_malloc(layout.size(), layout.align()) }.cast()
    }

    /// Frees a block of any alignment.
    ///
    /// # Safety
    ///
    /// `block` comes from `malloc`, or from [`alloc`] for this layout, and is not used again.
    #[inline]
    pub(super) unsafe fn free(block: *mut u8, layout: Layout) {
        if layout.align() <= super::MALLOC_ALIGN {
            // SAFETY: the caller's promise. `malloc` returned a block with this alignment.
            return unsafe { libc::free(block.cast()) };
        }
        // SAFETY: the caller's promise. `alloc` returned a block with this alignment.
        unsafe { libc::aligned_free(block.cast()) };
    }
}

// SAFETY: each method calls the C function with the required behaviour. Alignments above
// `MALLOC_ALIGN` use the functions of the module `aligned`.
unsafe impl GlobalAlloc for Malloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: `malloc` accepts every size.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        // SAFETY: the alignment is a power of two above 16.
        unsafe { aligned::alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the contract of `GlobalAlloc`, this allocator returned `block` for this layout
        // and it is not used again.
        unsafe { aligned::free(block, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: `calloc` accepts every size.
            return unsafe { libc::calloc(1, layout.size()) }.cast();
        }
        // SAFETY: `alloc` has the same requirements as `alloc_zeroed`, and the caller fulfils them.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: `block` is a new block of `layout.size()` bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: by the contract of `GlobalAlloc`, this allocator returned `block`, and `size`
            // is not 0. The block comes from `malloc`, because the alignment is small.
            return unsafe { libc::realloc(block.cast(), size) }.cast();
        }
        let new_layout = Layout::from_size_align(size, layout.align());
        let Ok(new_layout) = new_layout else { return std::ptr::null_mut() };
        // SAFETY: by the contract of `GlobalAlloc`, `size` is not 0.
        let new_block = unsafe { self.alloc(new_layout) };
        if !new_block.is_null() {
            // SAFETY: the old block has `layout.size()` bytes and the new one `size`; the copy
            // takes the smaller number. The blocks are distinct.
            unsafe { new_block.copy_from_nonoverlapping(block, layout.size().min(size)) };
            // SAFETY: by the contract of `GlobalAlloc`, this allocator returned `block` for this
            // layout and it is not used again.
            unsafe { aligned::free(block, layout) };
        }
        new_block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(align: usize) {
        let layout = Layout::from_size_align(100, align).unwrap();
        // SAFETY: the size of `layout` is 100, not 0.
        let block = unsafe { MALLOC.alloc_zeroed(layout) };
        assert!(block.addr().is_multiple_of(align));
        // SAFETY: `block` has 100 initialized bytes, and nothing else refers to it.
        assert!(unsafe { std::slice::from_raw_parts(block, 100) }.iter().all(|byte| *byte == 0));
        // SAFETY: `block` has 100 initialized bytes, and nothing else refers to it.
        unsafe { block.write_bytes(7, 100) };
        // SAFETY: `block` was allocated with `layout`, and is not used again.
        let larger = unsafe { MALLOC.realloc(block, layout, 5000) };
        assert!(larger.addr().is_multiple_of(align));
        // SAFETY: `larger` has 5000 bytes, of which `realloc` copied the first 100.
        assert!(unsafe { std::slice::from_raw_parts(larger, 100) }.iter().all(|byte| *byte == 7));
        // SAFETY: `larger` was reallocated to this layout, and is not used again.
        unsafe { MALLOC.dealloc(larger, Layout::from_size_align(5000, align).unwrap()) };
    }

    #[test]
    fn every_alignment() {
        for align in [1, 8, 16, 32, 64, 4096] {
            check(align);
        }
    }
}
