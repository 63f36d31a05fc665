//! Background error: the reason why the database refuses writes.

use crate::error::{Error, Result};
use crate::sync::{Arc, ArcSwapOption, AtomicBool, Ordering};

/// First error after which the content of the disk is unknown. It is set once.
pub(crate) struct BackgroundError {
    cause: ArcSwapOption<Error>,
    /// True after `cause` was set. `set` stores it with Release; pairs with the Acquire load in
    /// `is_set`. Each write loads only this flag.
    is_set: AtomicBool,
}

impl BackgroundError {
    pub(crate) fn new() -> BackgroundError {
        BackgroundError { cause: ArcSwapOption::empty(), is_set: AtomicBool::new(false) }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Returns the background error, if one is set.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_set() {
            return Ok(());
        }
        match &*self.cause.load() {
            Some(cause) => Err(Error::BackgroundError(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Sets the background error. A later call does not replace the first cause.
    pub(crate) fn set(&self, cause: &Error) {
        let cause = Arc::new(cause.clone());
        self.cause.rcu(|old| old.clone().or_else(|| Some(Arc::clone(&cause))));
        self.is_set.store(true, Ordering::Release);
    }
}

/// Error for the callers that wait for work that panicked.
pub(crate) fn panic_error() -> Error {
    Error::InvalidArgument("a comparator, filter policy or logger panicked".into())
}

/// Error for a write in a child process that was forked after the database was opened.
#[cold]
pub(crate) fn forked_process_error() -> Error {
    Error::NotSupported("database was opened by the parent process, before fork".into())
}

/// Error for a use of a database in a child that was forked while a thread of the parent held the
/// database for too long.
#[cold]
pub(crate) fn lost_in_fork_error() -> Error {
    Error::NotSupported("database was busy in another thread of the parent process during fork".into())
}
