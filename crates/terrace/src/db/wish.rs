//! Flushes and merges that reads ask for, and what they may cost.
//!
//! A look-up that searched a block of a file in vain, on its way to another, had been spared that if the two were merged. So a
//! file through which many pass in vain is merged into the next level, or level 0 into its base. It has a price, in look-ups:
//!
//! - at first as LevelDB reckons: one for each 16 KiB of the file, and a hundred;
//! - when they are spent, one for each [`READ_PER_LOOK_UP`] that its merge would read now: a small file above a large level
//!   waits for as many as are worth that. To move a file costs nothing;
//! - and such merges take one part in eleven of the time: each is followed by a rest of [`REST`] times as long as it took.
//!
//! Reads alone so bring everything together and then nothing more: each merge takes a file a level down, and in a level that is
//! asked last no file is in the way. In between they rewrite no more than that for each look-up in vain.
//!
//! A walk has to pass over deletes, and over what they hide. Who takes from one end of a database and puts at the other, as queues
//! do, comes by all deletes each time, and most of them are in the memtable: of that a table is made as soon as walks have passed
//! over so much in it that it would have been cheaper. From tables deletes are merged away.

use super::{Engine, Target};
use crate::compaction::policy::leveled;
use crate::memtable::Memtable;
use crate::version::{FileMeta, Version, WornFile, total_size};

/// A merge for the sake of reads may read so many bytes for each look-up in vain. LevelDB takes a file for worn by its own
/// size, and expects its merge to read twelve times as much.
const READ_PER_LOOK_UP: u64 = 12 * FileMeta::BYTES_PER_SEEK;

/// They rest this many times as long as they take: one long scan would else have everything rewritten that it passes.
pub(super) const REST: u32 = 10;

/// Look-ups in vain until a file is named again that came at a bad time. Each time takes a lock.
pub(super) const LATER: i64 = 64;

/// A scan names it again when it comes by: so the first on its way is merged first, and what it read beyond what it wanted
/// only after that.
pub(super) const NEXT_TIME: i64 = 1;

impl Engine {
    /// Takes note that reads wore a file out. If it came at a bad time, it is named again after so many more.
    #[cold]
    pub(super) fn wish(&self, worn: WornFile, again: i64) {
        let mut state = self.state.lock();
        let resting = || self.options.env.clock.monotonic() < state.rest_of_reads;
        if self.read_only || state.merging || resting() {
            worn.1.allowed_seeks.put_off(again);
        } else if !worn.1.allowed_seeks.grant(self.price(&state.set.version, &worn)) {
            state.worn.get_or_insert(worn);
            self.schedule(&mut state);
        }
    }

    /// Freezes `memtable`, in which walks have passed over much, if it still takes writes. If there is something in the way, a walk
    /// asks again.
    #[cold]
    pub(super) fn wish_for_flush(&self, memtable: &Memtable) {
        // Not waited for: who closes the database has it locked until nothing runs any more.
        let frozen = self.commit.try_lock().is_some_and(|mut commit| {
            let Some(tail) = commit.as_mut().filter(|tail| std::ptr::eq(&*tail.memtable, memtable)) else {
                return true; // is on its way already
            };
            let may_write = self.check_process().and_then(|()| self.refusal.check()).is_ok();
            let has_room = || self.lack(&self.state.lock()).is_none();
            may_write && has_room() && self.switch(tail, Target::AnyLevel).is_ok()
        });
        if !frozen {
            memtable.pass_over_more();
        }
    }

    /// The look-ups in vain that a merge of a worn file is worth.
    fn price(&self, version: &Version, worn: &WornFile) -> i64 {
        let job = leveled::wished(version, worn, &self.limits).filter(|job| !job.is_move());
        let read: u64 = job.iter().flat_map(|job| &job.inputs).map(|(_, files)| total_size(files)).sum();
        (read / READ_PER_LOOK_UP) as i64
    }
}
