//! Load state: it tells a load from normal use, by the time in which memtables fill.
//!
//! ```text
//!   switches to a new memtable    | | | | | | | | | | |
//!   checks                            |       |       |       |
//!   a load is running             [  yes                      ] no: the tree settles
//! ```
//!
//! A load begins with a memtable that fills within a second. It ends with a slower one, or with a
//! check that finds no new memtable since the check before.

use std::time::Duration;

use crate::compaction::picker::MaxLevelSizes;
use crate::sync::Mutex;

/// Time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Load of a database. The lock of its state protects it.
#[derive(Debug, Default)]
pub(crate) struct LoadState {
    is_load_running: bool,
    /// True if a check is scheduled.
    is_check_scheduled: bool,
    has_switched_since_check: bool,
    /// True from the begin of a load until the levels have their target sizes.
    is_unsettled: bool,
}

impl LoadState {
    /// Returns true while a load is running.
    pub(crate) fn is_load_running(&self) -> bool {
        self.is_load_running
    }

    /// Records a switch to a new memtable. Returns true if the caller has to schedule a check.
    pub(crate) fn record_switch(&mut self, fills_fast: bool) -> bool {
        self.is_load_running = fills_fast;
        self.has_switched_since_check = true;
        self.is_unsettled |= fills_fast;
        fills_fast && !std::mem::replace(&mut self.is_check_scheduled, true)
    }

    /// Sizes to which compactions bring the levels.
    pub(crate) fn max_level_sizes(&self) -> MaxLevelSizes {
        if self.is_unsettled { MaxLevelSizes::Smaller } else { MaxLevelSizes::Larger }
    }

    /// Returns true once after each load. The caller has found the tree settled.
    pub(crate) fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.is_unsettled)
    }

    /// Executes a check. Returns true if the caller has to schedule another one.
    pub(crate) fn check(&mut self) -> bool {
        let has_switched = std::mem::take(&mut self.has_switched_since_check);
        self.is_load_running &= has_switched;
        self.is_check_scheduled = self.is_load_running;
        self.is_check_scheduled
    }
}

/// Reference to a database for its delayed checks. It keeps no database open.
pub(crate) struct LoadCheck<T> {
    /// None after the close of the database.
    database: Mutex<Option<T>>,
}

impl<T> LoadCheck<T> {
    pub(crate) fn new(database: T) -> LoadCheck<T> {
        LoadCheck { database: Mutex::new(Some(database)) }
    }

    /// Calls `check` with the reference, unless it was withdrawn.
    pub(crate) fn run(&self, check: impl FnOnce(&T)) {
        if let Some(database) = &*self.database.lock() {
            check(database);
        }
    }

    /// Withdraws the reference, and waits for the check that uses it.
    pub(crate) fn cancel(&self) {
        *self.database.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_check_uses_a_withdrawn_reference() {
        let check = LoadCheck::new(7);
        let mut seen = Vec::new();
        check.run(|database| seen.push(*database));
        check.cancel();
        check.run(|database| seen.push(*database));
        assert_eq!(seen, [7]);
    }

    #[test]
    fn load_ends_without_new_memtables() {
        let mut state = LoadState::default();
        assert!(!state.record_switch(false) && !state.is_load_running());
        assert!(state.record_switch(true) && state.is_load_running());
        assert!(!state.record_switch(true), "one check at a time");
        assert!(state.check() && state.is_load_running());
        assert!(!state.check() && !state.is_load_running());
        assert!(state.record_switch(true), "a second load");
    }

    #[test]
    fn slow_memtable_ends_the_load() {
        let mut state = LoadState::default();
        state.record_switch(true);
        state.record_switch(false);
        assert!(!state.is_load_running());
        assert!(!state.check(), "the check finds no load");
        assert!(state.record_switch(true));
    }
}
