//! Attempts of a command on a shared store. After a conflict with another front end, the command
//! runs again: nothing was written, and its reply was discarded.

use std::time::Duration;

use crate::failure::Failure;
use crate::shared::Shared;
use crate::threads;

/// Maximum number of attempts. A client that loses all of them gets the error `TRYAGAIN`.
const MAX_ATTEMPTS: u32 = 100;
/// Longest pause after the first conflict. Each further conflict doubles it.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
/// Maximum number of times that the pause doubles.
const MAX_DOUBLINGS: u32 = 7;

/// Attempts of one command.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    conflicts: u32,
}

impl Attempts {
    /// True if the command has to run again after `failure`. Waits for a random time before, so
    /// that two front ends do not meet again.
    pub(super) fn has_another(&mut self, shared: &Shared, failure: &Failure) -> bool {
        self.conflicts += 1;
        if !failure.is_conflict() || self.conflicts == MAX_ATTEMPTS {
            return false;
        }
        let longest = FIRST_PAUSE * 2u32.pow((self.conflicts - 1).min(MAX_DOUBLINGS));
        threads::pause(Duration::from_nanos(shared.random.uniform(longest.as_nanos() as u64)));
        true
    }
}
