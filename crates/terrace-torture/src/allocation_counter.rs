//! Counts the memory that each thread allocates, to find inputs that make a decoder exhaust memory.
//!
//! The counter wraps the system allocator of the whole program. Memory that one thread allocates
//! and another frees shifts between their counts, so measured work must stay on one thread.
//! Allocations of C code, such as zstd's tables, are not counted.
#![allow(unsafe_code, reason = "the methods of an allocator are unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static GLOBAL_ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

thread_local! {
    /// Bytes that this thread holds.
    static ALLOCATED_BYTES: Cell<isize> = const { Cell::new(0) };
    /// Maximum of `ALLOCATED_BYTES` since the last call of `measure_peak`.
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
    /// Name of the measured work, for the message of a failed allocation, which ends the program.
    static MEASURED_TARGET: Cell<&'static str> = const { Cell::new("") };
}

/// Runs `work` and returns its result with the peak of its allocated bytes.
///
/// If an allocation fails, the program prints `name` and ends.
pub fn measure_peak<T>(name: &'static str, work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED_BYTES.get();
    PEAK_BYTES.set(before);
    MEASURED_TARGET.set(name);
    let result = work();
    MEASURED_TARGET.set("");
    (result, usize::try_from(PEAK_BYTES.get() - before).unwrap_or(0))
}

/// Adds `change` bytes to the count of this thread. Layouts are smaller than `isize::MAX`, so the
/// casts of callers fit.
fn add_allocated(change: isize) {
    let allocated = ALLOCATED_BYTES.get() + change;
    ALLOCATED_BYTES.set(allocated);
    PEAK_BYTES.set(PEAK_BYTES.get().max(allocated));
}

/// Counts `change` bytes if the allocation of `size` bytes succeeded, and returns its pointer.
fn check_allocated(pointer: *mut u8, size: usize, change: isize) -> *mut u8 {
    if pointer.is_null() {
        eprintln!("allocation of {size} bytes failed in {:?}", MEASURED_TARGET.get());
    } else {
        add_allocated(change);
    }
    pointer
}

// SAFETY: every method forwards to the system allocator. The counters don't allocate and can't
// panic.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees a layout of nonzero size, as `System.alloc` requires.
        let pointer = unsafe { System.alloc(layout) };
        check_allocated(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees a layout of nonzero size, as `System.alloc_zeroed`
        // requires.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        check_allocated(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `pointer` came from this allocator, and thus from
        // `System`, with `layout`, and that `size` is valid for its alignment.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        check_allocated(moved, size, size as isize - layout.size() as isize)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `pointer` came from this allocator, and thus from
        // `System`, with `layout`.
        unsafe { System.dealloc(pointer, layout) };
        add_allocated(-(layout.size() as isize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_maximum_held_at_once() {
        let ((), peak) = measure_peak("two halves", || {
            drop(std::hint::black_box(vec![1u8; 1 << 20]));
            drop(std::hint::black_box(vec![1u8; 1 << 20]));
        });
        assert!((1 << 20..3 << 19).contains(&peak), "{peak}");
    }

    #[test]
    fn reallocation_is_counted_once() {
        let (grown, peak) = measure_peak("growth", || {
            let mut bytes: Vec<u8> = Vec::with_capacity(1000);
            bytes.resize(1000, 1);
            bytes.reserve_exact(99_000);
            std::hint::black_box(bytes)
        });
        assert_eq!((grown.capacity(), peak), (100_000, 100_000));
    }

    #[test]
    fn earlier_allocations_are_not_counted() {
        let before = std::hint::black_box(vec![1u8; 1 << 20]);
        let ((), peak) = measure_peak("little", || drop(std::hint::black_box(vec![1u8; 100])));
        assert!(peak < 1000, "{peak} bytes, besides {} earlier ones", before.len());
    }
}
