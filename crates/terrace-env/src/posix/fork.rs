//! Count of the forks between the first process and this one. The child increments it.
#![allow(unsafe_code)] // Registers a callback of the C library.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Relaxed: only the child changes it, while it has a single thread.
static FORK_COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn fork_count() -> usize {
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Starts to count forks. Later calls do nothing.
pub(crate) fn start_counting_forks() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: `count_fork_in_child` has the required signature and lives as long as the
        // program. It only changes an atomic, which is async-signal-safe and so permitted in a
        // forked child. If the registration fails for lack of memory, forks are not counted.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork_in_child)) };
    });
}

unsafe extern "C" fn count_fork_in_child() {
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
}
