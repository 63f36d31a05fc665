//! How often this process was forked off, counted by the child.
#![allow(unsafe_code)] // asks the system to call us

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Relaxed: changed while the process has one thread, by that one.
static FORK_COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn fork_count() -> usize {
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Has them counted from now on.
pub(crate) fn start_counting_forks() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: what is called changes an atomic and nothing else, which is allowed in a child. Should there be no memory to take
        // note of it, forks go uncounted.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork_in_child)) };
    });
}

unsafe extern "C" fn count_fork_in_child() {
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
}
