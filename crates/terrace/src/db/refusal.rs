//! Why writes are refused, if they are.

use crate::error::{Error, Result};
use crate::sync::{Arc, ArcSwapOption};

/// Set once, by the failure after which what is on disk is unknown.
pub(crate) struct Refusal {
    cause: ArcSwapOption<Error>,
}

impl Refusal {
    pub(crate) fn none() -> Refusal {
        Refusal { cause: ArcSwapOption::empty() }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.cause.load().is_some()
    }

    /// The error that refuses writes, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.cause.load() {
            Some(cause) => Err(Error::Refused(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Refuses writes from now on. The first cause stays.
    pub(crate) fn set(&self, cause: &Error) {
        let cause = Arc::new(cause.clone());
        self.cause.rcu(|old| old.clone().or_else(|| Some(Arc::clone(&cause))));
    }
}
