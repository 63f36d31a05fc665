//! Turn of a transaction that others have prevented from committing again and again.
//!
//! Key locks do not help a transaction that reads a large range: others on single keys of the range
//! always commit first. So after several conflicts, [`Db::transact`] takes the turn, and later runs
//! of other transactions wait for its end. Plain writers and [`Db::begin`] do not wait. Every wait
//! has a limit, so a transaction within the body of another one cannot block it for ever.
//!
//! [`Db::transact`]: crate::Db::transact
//! [`Db::begin`]: crate::Db::begin

use std::time::Duration;

use terrace_env::{Clock, ProcessToken};

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// Turn of at most one transaction of a database.
pub(super) struct TransactionTurn {
    /// Process of the database. In a forked child, the holder may be a thread that the child does
    /// not have.
    process: ProcessToken,
    /// Copy of the value under the lock, for a check without the lock. Relaxed: a run that misses
    /// the turn only causes another conflict.
    is_taken: AtomicBool,
    holder: Mutex<bool>,
    released: Condvar,
}

impl TransactionTurn {
    pub(super) fn new() -> TransactionTurn {
        TransactionTurn {
            process: ProcessToken::current(),
            is_taken: AtomicBool::new(false),
            holder: Mutex::new(false),
            released: Condvar::new(),
        }
    }

    /// Waits while another transaction has the turn, at most for `timeout`.
    #[inline]
    pub(super) fn wait(&self, timeout: Duration, clock: &dyn Clock) {
        if self.is_taken.load(Ordering::Relaxed) && self.process.is_current() {
            self.wait_or_take(false, timeout, clock);
        }
    }

    /// Waits for the turn and takes it. Returns None after `timeout`.
    pub(super) fn take(&self, timeout: Duration, clock: &dyn Clock) -> Option<TurnGuard<'_>> {
        (self.process.is_current() && self.wait_or_take(true, timeout, clock)).then(|| TurnGuard(self))
    }

    /// Returns true if the turn is free before the timeout.
    fn wait_or_take(&self, takes: bool, timeout: Duration, clock: &dyn Clock) -> bool {
        let deadline = clock.monotonic().saturating_add(timeout);
        let mut holder = self.holder.lock();
        while *holder {
            let now = clock.monotonic();
            if now >= deadline {
                return false;
            }
            self.released.wait_for(&mut holder, deadline - now);
        }
        *holder = takes;
        self.is_taken.store(takes, Ordering::Relaxed);
        true
    }
}

/// Releases the turn when it is dropped.
pub(super) struct TurnGuard<'a>(&'a TransactionTurn);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let mut holder = self.0.holder.lock();
        *holder = false;
        self.0.is_taken.store(false, Ordering::Relaxed);
        drop(holder);
        self.0.released.notify_all();
    }
}
