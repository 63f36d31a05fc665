//! Load state: it tells a load from normal use, by the time in which memtables fill and by the rate
//! of writes.
//!
//! ```text
//!   switches to a new memtable    | | | | | | | | | | |
//!   checks                            |       |       |       |
//!   a load is running             [  yes                      ] no: the tree settles
//! ```
//!
//! A load begins with a memtable that fills within a second. It ends with a check that finds no
//! new bytes, or with two consecutive checks that find few. Delayed writers alone do not end it:
//! large memtables take longer than a second while compactions lag, and leveled compaction would
//! then make them lag more.

use std::time::Duration;

use crate::sync::Mutex;

/// Time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Number of consecutive checks with few new bytes that end a load. One may be a pause of the
/// machine.
const CHECKS_TO_END: u32 = 2;
/// A load continues while at least this part of a memtable fills in a second: half of it, or an
/// eighth while writers are delayed. A whole memtable is necessary to begin.
const MIN_PART_PER_SECOND: usize = 2;
const MIN_PART_PER_SECOND_DELAYED: usize = 8;

/// Load of a database. The lock of its state protects it.
#[derive(Debug, Default)]
pub(crate) struct LoadState {
    is_load_running: bool,
    /// True if a check is scheduled.
    is_check_scheduled: bool,
    /// Bytes of the memtables that became immutable since the last check.
    immutable_bytes: usize,
    /// Bytes of the memtable at the last check.
    memtable_bytes: usize,
    /// Number of consecutive checks that found few new bytes.
    slow_checks: u32,
    /// True from the begin of a load until the tree is settled.
    is_unsettled: bool,
}

impl LoadState {
    /// Returns true while a load is running.
    pub(crate) fn is_load_running(&self) -> bool {
        self.is_load_running
    }

    /// Records that a memtable of `bytes` bytes became immutable. Returns true if the caller has to
    /// schedule a check.
    pub(crate) fn record_switch(&mut self, bytes: usize, fills_fast: bool) -> bool {
        self.immutable_bytes = self.immutable_bytes.saturating_add(bytes);
        if fills_fast && !self.is_load_running {
            self.is_load_running = true;
            self.slow_checks = 0;
        }
        self.is_unsettled |= fills_fast;
        fills_fast && !std::mem::replace(&mut self.is_check_scheduled, true)
    }

    /// Returns true from the begin of a load until the tree is settled.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Returns true once after each load. The caller has found the tree settled.
    pub(crate) fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.is_unsettled)
    }

    /// Executes a check, [`CHECK_INTERVAL`] after the one before. The memtable holds
    /// `memtable_bytes`, and is full at `memtable_size`. Returns true if the caller has to schedule
    /// another check.
    pub(crate) fn check(&mut self, memtable_bytes: usize, memtable_size: usize, is_delaying: bool) -> bool {
        let filled = std::mem::take(&mut self.immutable_bytes).saturating_add(memtable_bytes);
        let new_bytes = filled.saturating_sub(std::mem::replace(&mut self.memtable_bytes, memtable_bytes));
        let part = if is_delaying { MIN_PART_PER_SECOND_DELAYED } else { MIN_PART_PER_SECOND };
        let is_slow = (new_bytes as u128) * Duration::from_secs(1).as_nanos()
            < (memtable_size / part) as u128 * CHECK_INTERVAL.as_nanos();
        self.slow_checks = if is_slow { self.slow_checks + 1 } else { 0 };
        self.is_load_running &= new_bytes > 0 && self.slow_checks < CHECKS_TO_END;
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

    const MB: usize = 1 << 20;

    #[test]
    fn load_ends_without_new_entries() {
        let mut state = LoadState::default();
        assert!(!state.record_switch(4 * MB, false) && !state.is_load_running());
        assert!(state.record_switch(4 * MB, true) && state.is_load_running());
        assert!(!state.record_switch(4 * MB, true), "one check at a time");
        assert!(state.check(0, 4 * MB, false) && state.is_load_running());
        assert!(!state.check(0, 4 * MB, true) && !state.is_load_running());
        assert!(state.record_switch(4 * MB, true), "a second load");
    }

    #[test]
    fn load_ends_with_slow_writes() {
        let mut state = LoadState::default();
        assert!(state.record_switch(64 * MB, true));
        assert!(state.check(16 * MB, 64 * MB, false), "the memtable before");
        assert!(state.check(31 * MB, 64 * MB, false), "a slow check, perhaps a pause of the machine");
        assert!(state.check(47 * MB, 64 * MB, false));
        assert!(state.check(62 * MB, 64 * MB, false));
        assert!(!state.record_switch(64 * MB, false) && state.is_load_running());
        assert!(!state.check(13 * MB, 64 * MB, false) && !state.is_load_running());
    }

    /// Delayed writers fill a memtable of 64 MiB in more than a second. The load counted as ended,
    /// and leveled compaction rewrote 4 GB for each 14 flushes.
    #[test]
    fn delays_do_not_end_the_load() {
        let mut state = LoadState::default();
        assert!(state.record_switch(64 * MB, true));
        for filled in [4, 8, 12, 16, 20, 24] {
            assert!(state.check(filled * MB, 64 * MB, true) && state.is_load_running());
        }
        assert!(state.check(27 * MB, 64 * MB, true));
        assert!(!state.check(30 * MB, 64 * MB, true), "few writes after a load, with its last delay");
    }
}
