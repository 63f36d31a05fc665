//! Checks whether a load is still running. When it has ended, compactions bring the levels to the
//! sizes that LevelDB allows.

use std::time::Duration;

use terrace_env::Priority;

use crate::db::components::load_detector::CHECK_INTERVAL;
use crate::db::inner::{DbInner, DbState};
use crate::options::CompactionStyle;
use crate::sync::Arc;

impl DbInner {
    /// Records a switch to a new memtable.
    pub(in crate::db) fn detect_load(&self, state: &mut DbState) {
        if self.options.compaction_style == CompactionStyle::LazyLeveled
            && state.load_detector.record_switch(self.memtable_sizer.fills_fast())
        {
            self.schedule_load_check(CHECK_INTERVAL);
        }
    }

    /// Schedules a check that does not keep the database open.
    fn schedule_load_check(&self, delay: Duration) {
        let database = Arc::clone(&self.load_check);
        self.options.env.scheduler.schedule_after(
            Priority::Compaction,
            delay,
            Box::new(move || {
                database.run(|inner| {
                    if let Some(inner) = inner.upgrade() {
                        inner.check_load();
                    }
                });
            }),
        );
    }

    fn check_load(&self) {
        let mut state = self.state.lock();
        if state.load_detector.check() {
            self.schedule_load_check(CHECK_INTERVAL);
        } else {
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
    }
}
