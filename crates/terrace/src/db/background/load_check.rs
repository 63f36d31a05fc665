//! Checks whether a load is still running. When it has ended, the tree settles: a flush and
//! compactions leave few sorted runs for the reads that follow.

use std::time::Duration;

use terrace_env::Priority;

use crate::db::components::load_state::CHECK_INTERVAL;
use crate::db::inner::{DbInner, DbState};
use crate::db::panic_guard::PoisonOnPanic;
use crate::event::Event;
use crate::options::CompactionStyle;
use crate::sync::Arc;

/// Minimum size, in bytes, of a memtable that is flushed at the end of a load: 4 MiB, LevelDB's
/// size of a memtable. Each get would search a large one for longer than the table, and its memory
/// would stay in use.
const MIN_FLUSHED_BYTES: usize = 4 << 20;

impl DbInner {
    /// Records that a memtable of `bytes` bytes became immutable.
    pub(in crate::db) fn detect_load(&self, state: &mut DbState, bytes: usize) {
        if self.options.compaction_style == CompactionStyle::LazyLeveled
            && state.load_state.record_switch(bytes, self.memtable_sizer.fills_fast())
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

    /// Returns true if no flush and no compaction is due, and no load is running.
    pub(in crate::db) fn is_settled(&self) -> bool {
        self.is_tree_settled(&self.state.lock())
    }

    fn is_tree_settled(&self, state: &DbState) -> bool {
        !state.load_state.is_load_running()
            && !state.is_compaction_scheduled
            && state.immutable_memtables.is_empty()
            && !self.is_picker_due(state)
    }

    /// Reports the end of the compactions after a load.
    pub(super) fn report_settled(&self, state: &mut DbState) {
        if self.is_tree_settled(state) && state.load_state.take_unsettled() {
            state.settling = None;
            self.report(&Event::Settled);
        }
    }

    fn check_load(&self) {
        // The listener or the logger of the program may panic.
        let _guard = PoisonOnPanic::new(self, |_| ());
        let mut state = self.state.lock();
        let memtable_bytes = state.memtable.memory_usage();
        let is_delaying = self.write_controller.is_delaying();
        if state.load_state.check(memtable_bytes, self.memtable_sizer.size(), is_delaying) {
            self.schedule_load_check(CHECK_INTERVAL);
            return;
        }
        let memtable = Arc::clone(&state.memtable);
        drop(state);
        if memtable_bytes >= MIN_FLUSHED_BYTES {
            // Without success, there are new writes, and the memtable will become full.
            self.try_switch_memtable(&memtable);
        }
        let mut state = self.state.lock();
        self.maybe_schedule_flush_or_compaction(&mut state);
        self.report_settled(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Env, Options};

    /// The target of the compactions after one load stayed for the next one. A small load then
    /// rewrote the whole database.
    #[test]
    fn settled_tree_has_no_target() {
        let options = Options { create_if_missing: true, env: Env::in_memory(), ..Options::default() };
        let db = Db::open("load", &options.write_buffer_size(64 << 10).max_file_size(64 << 10)).unwrap();
        for n in 0..100_000_u64 {
            db.put(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [0; 16]).unwrap();
        }
        while db.inner().state.lock().load_state.is_unsettled() {
            db.inner().wait_for_background_job();
            std::thread::yield_now();
        }
        assert_eq!(db.inner().state.lock().settling, None);
        assert!(db.levels()[0].files.len() <= 1, "{:?}", db.property("leveldb.stats"));
    }
}
