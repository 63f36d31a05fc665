//! Compaction of a key range that a caller requested.

use terrace_format::version_edit::NUM_LEVELS;

use crate::compaction::{Compaction, CompactionReason};
use crate::db::inner::{DbInner, DbState, FlushTarget, ManualCompaction};
use crate::error::Result;
use crate::sync::Arc;
use crate::version::KeyRange;

impl DbInner {
    pub(in crate::db) fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let range = KeyRange { begin, end };
        // What has nothing to do with the range goes where any flush would put it.
        let touched = self.read_state.current().memtable.overlaps(begin, end);
        self.flush(if touched { FlushTarget::Level0 } else { FlushTarget::AnyLevel })?;
        let version = Arc::clone(&self.read_state.current().version);
        // Level 0 is merged in any case; the last level has nowhere to go.
        let deepest = (1..NUM_LEVELS).rev().find(|&level| version.overlaps_level(level, range)).unwrap_or(1);
        drop(version);
        (0..deepest).try_for_each(|level| self.compact_level(level, range))
    }

    fn compact_level(&self, level: usize, range: KeyRange<'_>) -> Result<()> {
        let id = {
            let mut state = self.state.lock();
            state.last_manual_compaction_id += 1;
            let id = state.last_manual_compaction_id;
            let (begin, end) = (range.begin.map(<[u8]>::to_vec), range.end.map(<[u8]>::to_vec));
            state.manual_compactions.push_back(ManualCompaction { id, level, begin, end });
            id
        };
        let done = self.wait_until(|state| state.manual_compactions.iter().all(|manual| manual.id != id));
        if done.is_err() {
            self.state.lock().manual_compactions.retain(|manual| manual.id != id);
        }
        done
    }
}

/// What a job does of the merge that somebody waits for.
pub(super) struct ManualCompactionStep {
    id: u64,
    /// Where the rest begins, unless this is all.
    remaining_begin: Option<Vec<u8>>,
}

impl ManualCompactionStep {
    pub(super) fn from_compaction(job: &Compaction) -> Option<ManualCompactionStep> {
        let CompactionReason::Manual(id) = job.reason else { return None };
        // All of level 0 that was in the range goes at once; what comes meanwhile was not asked for.
        let rest = job.compact_pointer.as_ref().filter(|_| job.level() > 0);
        Some(ManualCompactionStep { id, remaining_begin: rest.map(|pointer| pointer.user_key().to_vec()) })
    }

    /// Notes that the job is done.
    pub(super) fn record_done(self, state: &mut DbState) {
        // Gone if who asked has given up.
        let Some(manual) = state.manual_compactions.iter_mut().find(|manual| manual.id == self.id) else {
            return;
        };
        match self.remaining_begin {
            Some(rest) => manual.begin = Some(rest),
            None => state.manual_compactions.retain(|manual| manual.id != self.id),
        }
    }
}
