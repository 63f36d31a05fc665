//! Compactions and flushes that reads trigger, and the limits of their cost.
//!
//! A get that searches a block of a table without success, on its way to a table further down,
//! would not do so if the two tables were one. A table with many such wasted probes is compacted
//! into the next level; for a table of level 0, level 0 is compacted into its base level. The cost
//! in wasted probes:
//!
//! - At first the same as in LevelDB: one per 16 KiB of the table, and at least 100.
//! - When these are used up, one per [`COMPACTION_BYTES_PER_SEEK`] that the compaction would read
//!   now. A small table above a large level waits for more of them. A trivial move costs nothing.
//! - The compactions that gets and scans trigger take at most one eleventh of the time: each of
//!   them is followed by a pause of [`READ_COMPACTION_PAUSE_FACTOR`] times its own length.
//!
//! A seek of an iterator merges all sorted runs. It charges the table of each run but the last. A
//! compaction is due when the seeks have lost as much time as it takes: [`SEEK_TIME_PER_RUN`] for
//! each run. These compactions pause only for their own length, because they have paid for
//! themselves. A long scan is one seek, so it never pays for one.
//!
//! A database that is only read reaches a state without further compactions. Each compaction moves
//! a table one level down, and no table wastes probes on the level that gets search last.
//!
//! A scan has to skip tombstones and the entries that they hide. A queue (push at one end, pop at
//! the other) skips all tombstones on each scan, and most of them are in the memtable. When scans
//! have skipped so many entries of a memtable that a flush would have been cheaper, they trigger a
//! flush. Compactions remove the tombstones from the tables.

use std::time::Duration;

use crate::compaction::Compaction;
use crate::compaction::picker::leveled;
use crate::db::inner::{DbInner, FlushTarget};
use crate::memtable::Memtable;
use crate::version::{FileMeta, ReadCompactionHint, Version, total_size};

/// Input bytes that a read-triggered compaction may have per wasted probe. LevelDB counts only the
/// size of the table itself, and expects the compaction to read twelve times as much.
const COMPACTION_BYTES_PER_SEEK: u64 = 12 * FileMeta::BYTES_PER_SEEK;

/// Length of the pause after a read-triggered compaction, as a multiple of its time. Without it,
/// one long scan would rewrite all tables that it reads.
pub(super) const READ_COMPACTION_PAUSE_FACTOR: u32 = 10;

/// Time that a short scan, of about ten entries, loses to each sorted run that it merges. An
/// estimate: less than 1 µs if the block of the run is cached, several µs if it is not.
const SEEK_TIME_PER_RUN: Duration = Duration::from_micros(2);

/// Minimum time of a compaction per byte of its input: the default of the write controller. A
/// measured time may be too short, because a fast compaction has dropped most of its input.
const MIN_COMPACTION_NANOS_PER_BYTE: u64 = 10;

/// Merged seeks after which a table is named again whose request came at a bad time.
const SEEKS_UNTIL_RETRY_MERGED: i64 = 1 << 12;

impl DbInner {
    /// Requests a compaction of a table whose allowed merged seeks are used up, if they have lost
    /// the time that the compaction takes.
    #[cold]
    pub(in crate::db) fn request_seek_compaction(&self, hint: ReadCompactionHint) {
        let mut state = self.state.lock();
        if self.is_read_only
            || state.is_compaction_scheduled
            || self.options.env.clock.monotonic() < state.seek_compactions_paused_until
        {
            hint.1.allowed_merged_seeks.reset(SEEKS_UNTIL_RETRY_MERGED);
            return;
        }
        let bytes = self.input_bytes(&state.version_set.version, &hint);
        let min_time = Duration::from_nanos(bytes.saturating_mul(MIN_COMPACTION_NANOS_PER_BYTE));
        let time = state.compaction_rate.time_for(bytes).max(min_time);
        let cost = i64::try_from(time.as_nanos() / SEEK_TIME_PER_RUN.as_nanos()).unwrap_or(i64::MAX);
        if !hint.1.allowed_merged_seeks.raise_to(cost) {
            hint.1.allowed_merged_seeks.reset(SEEKS_UNTIL_RETRY_MERGED);
            state.read_compaction.get_or_insert(hint);
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
    }

    /// Requests a compaction of a table whose allowed seeks are used up. If none can start now, the
    /// table is named again after `retry_seeks` more wasted probes.
    #[cold]
    pub(in crate::db) fn request_read_compaction(&self, hint: ReadCompactionHint, retry_seeks: i64) {
        let mut state = self.state.lock();
        if self.is_read_only
            || state.is_compaction_scheduled
            || self.options.env.clock.monotonic() < state.read_compactions_paused_until
        {
            hint.1.allowed_seeks.reset(retry_seeks);
            return;
        }
        let cost = (self.input_bytes(&state.version_set.version, &hint) / COMPACTION_BYTES_PER_SEEK) as i64;
        if !hint.1.allowed_seeks.raise_to(cost) {
            state.read_compaction.get_or_insert(hint);
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
    }

    /// Requests a flush of `memtable`, because scans skipped many entries of it. If the switch is
    /// not possible now, a later scan requests it again.
    #[cold]
    pub(in crate::db) fn request_flush(&self, memtable: &Memtable) {
        if !self.try_switch_memtable(memtable) {
            memtable.rearm_skip_trigger();
        }
    }

    /// Switches to a new memtable if `memtable` is the current one. Returns false if that is not
    /// possible now.
    pub(super) fn try_switch_memtable(&self, memtable: &Memtable) -> bool {
        // Does not wait: a thread that closes the database holds `commit` until all jobs have
        // ended.
        let Some(mut commit) = self.commit.try_lock() else { return false };
        let Some(writer) = commit.as_mut().filter(|writer| std::ptr::eq(&*writer.memtable, memtable)) else {
            return true; // already immutable
        };
        let may_write = self.check_owner_process().and_then(|()| self.background_error.check()).is_ok();
        may_write
            && self.stall_cause(&self.state.lock()).is_none()
            && self.switch_memtable(writer, FlushTarget::AnyLevel).is_ok()
    }

    /// Number of bytes that the compaction of a table would read. A trivial move reads none.
    fn input_bytes(&self, version: &Version, hint: &ReadCompactionHint) -> u64 {
        let compaction = leveled::pick_read_triggered(version, hint, &self.compaction_limits);
        let rewrite = compaction.filter(|compaction| !compaction.is_trivial_move());
        total_size(rewrite.iter().flat_map(Compaction::input_files))
    }
}
