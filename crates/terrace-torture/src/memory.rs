//! Counts the memory that each thread holds, so that an input which makes a decoder hoard is found.
//!
//! The counter stands around the system's allocator for the whole program. Memory that one thread takes and another
//! gives back shifts between their counts: what is watched must run on one thread. Memory that C code takes (zstd's
//! tables) is not seen.
#![allow(unsafe_code, reason = "an allocator is called through unsafe methods")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    /// Bytes that this thread holds, and the most that it held since somebody asked.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// Says on a refused allocation what asked for it: the program ends there.
    static NAME: Cell<&'static str> = const { Cell::new("") };
}

/// Runs `work`; returns the most bytes that it held at any moment. `name` is printed if the system refuses to give
/// what it asks for, which ends the program.
pub fn peak_of<T>(name: &'static str, work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    NAME.set(name);
    let result = work();
    NAME.set("");
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// Layouts are below `isize::MAX` bytes.
fn count(more: isize) {
    let held = HELD.get() + more;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

/// Passes on what the system gave for `layout`.
fn given(pointer: *mut u8, size: usize, more: isize) -> *mut u8 {
    if pointer.is_null() {
        eprintln!("the system refused {size} bytes to {:?}", NAME.get());
    } else {
        count(more);
    }
    pointer
}

// SAFETY: every method is the system allocator's; the counters beside it need no memory and can't panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        let pointer = unsafe { System.alloc(layout) };
        given(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        given(pointer, layout.size(), layout.size() as isize)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        given(moved, size, size as isize - layout.size() as isize)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(pointer, layout) };
        count(-(layout.size() as isize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_held_at_once() {
        let ((), peak) = peak_of("two halves", || {
            drop(std::hint::black_box(vec![1u8; 1 << 20]));
            drop(std::hint::black_box(vec![1u8; 1 << 20]));
        });
        assert!((1 << 20..3 << 19).contains(&peak), "{peak}");
    }

    #[test]
    fn what_grows_is_counted_once() {
        let (grown, peak) = peak_of("growth", || {
            let mut bytes: Vec<u8> = Vec::with_capacity(1000);
            bytes.resize(1000, 1);
            bytes.reserve_exact(99_000);
            std::hint::black_box(bytes)
        });
        assert_eq!((grown.capacity(), peak), (100_000, 100_000));
    }

    #[test]
    fn what_was_held_before_does_not_count() {
        let before = std::hint::black_box(vec![1u8; 1 << 20]);
        let ((), peak) = peak_of("little", || drop(std::hint::black_box(vec![1u8; 100])));
        assert!(peak < 1000, "{peak} beside {}", before.len());
    }
}
