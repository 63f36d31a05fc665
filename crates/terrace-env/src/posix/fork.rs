//! Handlers of the C library for `fork`, and a count of the forks between the first process and
//! this one.
//!
//! ```text
//!   before   take the locks that a child may need (`terrace_sync::prepare_fork`)
//!   parent   release them
//!   child    count the fork, release them
//! ```
#![allow(unsafe_code)] // Registers callbacks of the C library.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use terrace_sync::{finish_fork_in_child, finish_fork_in_parent, prepare_fork};

/// Number of forks between the first process and this one. Relaxed: only the child changes it,
/// while it has a single thread.
static FORK_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Maximum time that a fork waits for the writers of all databases together. A writer holds its
/// locks for microseconds, unless it waits for the disk or for a callback of the caller.
const MAX_FORK_WAIT: Duration = Duration::from_secs(1);

/// Number of attempts to take a lock between two sleeps: about 50 us. Busy writers release the lock
/// for short moments only, which a thread that sleeps or yields after each attempt would miss.
const SPINS_PER_SLEEP: u32 = 1000;

/// Sleep after [`SPINS_PER_SLEEP`] attempts: the holder of the lock may need the processor.
const LOCK_RETRY_PAUSE: Duration = Duration::from_micros(50);

pub(crate) fn fork_count() -> usize {
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Registers the handlers. Later calls do nothing, and do not wait for the first one.
pub(crate) fn watch_forks() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // The load spares concurrent callers a write to a shared cache line.
    if IS_REGISTERED.load(Ordering::Relaxed) || IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the three functions have the required signature, and live as long as the program or
    // the shared library that contains them: the C library removes the handlers of a library that
    // it unloads. If the registration fails for lack of memory, children of this process are not
    // protected, and are not recognised as such.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

unsafe extern "C" fn before_fork() {
    prepare_fork(pauses_between_attempts(), |locks| locks.lock_static(&super::lock::PROCESS_LOCKS));
}

/// Returns a function that pauses before the next attempt to take a lock, and returns false when
/// the time is over.
fn pauses_between_attempts() -> impl FnMut() -> bool {
    let mut deadline = None;
    let mut attempts = 0;
    move || {
        attempts += 1;
        if attempts % SPINS_PER_SLEEP != 0 {
            std::hint::spin_loop();
            return true;
        }
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + MAX_FORK_WAIT);
        thread::sleep(LOCK_RETRY_PAUSE);
        Instant::now() < deadline
    }
}

unsafe extern "C" fn in_parent() {
    finish_fork_in_parent();
}

unsafe extern "C" fn in_child() {
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
    finish_fork_in_child();
}
