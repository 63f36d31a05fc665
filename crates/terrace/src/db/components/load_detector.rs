//! Load detector: it tells a load from normal use, by the time in which memtables fill.
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

/// Time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// State of the detector. The lock of the database protects it.
#[derive(Debug, Default)]
pub(crate) struct LoadDetector {
    is_load_running: bool,
    /// True if a check is scheduled.
    is_check_scheduled: bool,
    has_switched_since_check: bool,
}

impl LoadDetector {
    /// Returns true while a load is running.
    pub(crate) fn is_load_running(&self) -> bool {
        self.is_load_running
    }

    /// Records a switch to a new memtable. Returns true if the caller has to schedule a check.
    pub(crate) fn record_switch(&mut self, fills_fast: bool) -> bool {
        self.is_load_running = fills_fast;
        self.has_switched_since_check = true;
        fills_fast && !std::mem::replace(&mut self.is_check_scheduled, true)
    }

    /// Executes a check. Returns true if the caller has to schedule another one.
    pub(crate) fn check(&mut self) -> bool {
        let has_switched = std::mem::take(&mut self.has_switched_since_check);
        self.is_load_running &= has_switched;
        self.is_check_scheduled = self.is_load_running;
        self.is_check_scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_ends_without_new_memtables() {
        let mut detector = LoadDetector::default();
        assert!(!detector.record_switch(false) && !detector.is_load_running());
        assert!(detector.record_switch(true) && detector.is_load_running());
        assert!(!detector.record_switch(true), "one check at a time");
        assert!(detector.check() && detector.is_load_running());
        assert!(!detector.check() && !detector.is_load_running());
        assert!(detector.record_switch(true), "a second load");
    }

    #[test]
    fn slow_memtable_ends_the_load() {
        let mut detector = LoadDetector::default();
        detector.record_switch(true);
        detector.record_switch(false);
        assert!(!detector.is_load_running());
        assert!(!detector.check(), "the check finds no load");
        assert!(detector.record_switch(true));
    }
}
