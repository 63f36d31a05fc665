//! Charges of seeks: each sorted run that a seek merges costs time, which a compaction would spare.
//!
//! ```text
//!   seek ──┬─> table of level 0     the oldest of these tables pays for all of level 0, because
//!          ├─> table of level 0     one compaction replaces it
//!          ├─> level 1              its table pays
//!          └─> level 2              the last run is always read: no charge
//! ```

use terrace_format::version_edit::NUM_LEVELS;

use super::point_lookup::ReadCompactionHint;
use super::{FileMeta, KeyRange, Version};
use crate::sync::Arc;

impl Version {
    /// Charges `seeks` seeks of `user_key` to the files of the runs that they merged. Returns a
    /// file whose allowed seeks are used up, if there is one.
    pub(crate) fn charge_merged_seeks(&self, user_key: &[u8], seeks: i64) -> Option<ReadCompactionHint> {
        let range = KeyRange { begin: Some(user_key), end: Some(user_key) };
        let overlaps = |file: &&Arc<FileMeta>| self.file_overlaps(file, range);
        let mut sorted_runs = (1..NUM_LEVELS).filter_map(|level| {
            let file = self.overlapping_slice(level, user_key, user_key).first()?;
            Some((level, file, 1))
        });
        let level_0_files = self.levels[0].iter().filter(overlaps).count() as i64;
        let oldest = self.levels[0].iter().rfind(overlaps).map(|file| (0, file, level_0_files));
        let mut run = oldest.or_else(|| sorted_runs.next())?;
        let mut exhausted = None;
        loop {
            let next = sorted_runs.next();
            let (level, file, runs) = run;
            if next.is_some() || runs > 1 {
                let is_exhausted = file.allowed_merged_seeks.charge(seeks * runs);
                exhausted = exhausted.or_else(|| is_exhausted.then(|| (level, Arc::clone(file))));
            }
            match next {
                Some(next) => run = next,
                None => return exhausted,
            }
        }
    }
}
