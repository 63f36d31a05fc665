//! Flushes and merges that reads ask for, and what they may cost.
//!
//! A look-up that searched a block of a file in vain, on its way to another, had been spared that if the two were merged. So a
//! file through which many pass in vain is merged into the next level, or level 0 into its base. It has a price, in look-ups:
//!
//! - at first as LevelDB reckons: one for each 16 KiB of the file, and a hundred;
//! - when they are spent, one for each [`COMPACTION_BYTES_PER_SEEK`] that its merge would read now: a small file above a large level
//!   waits for as many as are worth that. To move a file costs nothing;
//! - and such merges take one part in eleven of the time: each is followed by a rest of [`REST`] times as long as it took.
//!
//! Reads alone so bring everything together and then nothing more: each merge takes a file a level down, and in a level that is
//! asked last no file is in the way. In between they rewrite no more than that for each look-up in vain.
//!
//! A walk has to pass over deletes, and over what they hide. Who takes from one end of a database and puts at the other, as queues
//! do, comes by all deletes each time, and most of them are in the memtable: of that a table is made as soon as walks have passed
//! over so much in it that it would have been cheaper. From tables deletes are merged away.

use crate::compaction::picker::leveled;
use crate::db::inner::{DbInner, FlushTarget};
use crate::memtable::Memtable;
use crate::version::{FileMeta, ReadCompactionHint, Version, total_size};

/// A merge for the sake of reads may read so many bytes for each look-up in vain. LevelDB takes a file for worn by its own
/// size, and expects its merge to read twelve times as much.
const COMPACTION_BYTES_PER_SEEK: u64 = 12 * FileMeta::BYTES_PER_SEEK;

/// They rest this many times as long as they take: one long scan would else have everything rewritten that it passes.
pub(super) const READ_COMPACTION_PAUSE_FACTOR: u32 = 10;

impl DbInner {
    /// Takes note that reads wore a file out. If it came at a bad time, it is named again after so many more.
    #[cold]
    pub(in crate::db) fn request_read_compaction(&self, worn: ReadCompactionHint, again: i64) {
        let mut state = self.state.lock();
        let resting = || self.options.env.clock.monotonic() < state.read_compactions_paused_until;
        if self.is_read_only || state.is_compaction_scheduled || resting() {
            worn.1.allowed_seeks.reset(again);
        } else if !worn.1.allowed_seeks.raise_to(self.cost_in_seeks(&state.version_set.version, &worn)) {
            state.read_compaction.get_or_insert(worn);
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
    }

    /// Freezes `memtable`, in which walks have passed over much, if it still takes writes. If there is something in the way, a walk
    /// asks again.
    #[cold]
    pub(in crate::db) fn request_flush(&self, memtable: &Memtable) {
        // Not waited for: who closes the database has it locked until nothing runs any more.
        let frozen = self.commit.try_lock().is_some_and(|mut commit| {
            let Some(tail) = commit.as_mut().filter(|tail| std::ptr::eq(&*tail.memtable, memtable)) else {
                return true; // is on its way already
            };
            let may_write = self.check_owner_process().and_then(|()| self.background_error.check()).is_ok();
            let has_room = || self.stall_cause(&self.state.lock()).is_none();
            may_write && has_room() && self.switch_memtable(tail, FlushTarget::AnyLevel).is_ok()
        });
        if !frozen {
            memtable.rearm_skip_trigger();
        }
    }

    /// The look-ups in vain that a merge of a worn file is worth.
    fn cost_in_seeks(&self, version: &Version, worn: &ReadCompactionHint) -> i64 {
        let job = leveled::pick_read_triggered(version, worn, &self.compaction_limits)
            .filter(|job| !job.is_trivial_move());
        let read: u64 = job.iter().flat_map(|job| &job.inputs).map(|(_, files)| total_size(files)).sum();
        (read / COMPACTION_BYTES_PER_SEEK) as i64
    }
}
