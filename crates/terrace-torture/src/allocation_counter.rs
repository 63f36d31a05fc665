//! Counts the memory that each thread holds, so that an input which makes a decoder hoard is found.
//!
//! The counter stands around the system's allocator for the whole program. Memory that one thread takes and another
//! gives back shifts between their counts: what is watched must run on one thread. Memory that C code takes (zstd's
//! tables) is not seen.
#![allow(unsafe_code, reason = "an allocator is called through unsafe methods")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static GLOBAL_ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

thread_local! {
    /// Bytes that this thread holds, and the most that it held since somebody asked.
    static ALLOCATED_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
    /// Says on a refused allocation what asked for it: the program ends there.
    static MEASURED_TARGET: Cell<&'static str> = const { Cell::new("") };
}

/// Runs `work`; returns the most bytes that it held at any moment. `name` is printed if the system refuses to give
/// what it asks for, which ends the program.
pub fn measure_peak<T>(name: &'static str, work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED_BYTES.get();
    PEAK_BYTES.set(before);
    MEASURED_TARGET.set(name);
    let result = work();
    MEASURED_TARGET.set("");
    (result, usize::try_from(PEAK_BYTES.get() - before).unwrap_or(0))
}

/// Layouts are below `isize::MAX` bytes.
fn add_allocated(more: isize) {
    let held = ALLOCATED_BYTES.get() + more;
    ALLOCATED_BYTES.set(held);
    PEAK_BYTES.set(PEAK_BYTES.get().max(held));
}

/// Passes on what the system gave for `layout`.
fn check_allocated(pointer: *mut u8, size: usize, more: isize) -> *mut u8 {
    if pointer.is_null() {
        eprintln!("the system refused {size} bytes to {:?}", MEASURED_TARGET.get());
    } else {
        add_allocated(more);
    }
    pointer
}

// SAFETY: every method is the system allocator's; the counters beside it need no memory and can't panic.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        let pointer = unsafe { System.alloc(layout) };
        check_allocated(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        check_allocated(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        check_allocated(moved, size, size as isize - layout.size() as isize)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
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
        assert!(peak < 1000, "{peak} beside {}", before.len());
    }
}
