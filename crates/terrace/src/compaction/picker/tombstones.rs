//! Tombstone compactions: they reclaim the space of tombstones and of the entries that they hide.
//!
//! A tombstone and the entries that it hides take space until a compaction joins them. Compactions
//! of full levels do so. In a database with few writes, no level becomes full. So when no level is
//! full, this picker moves the table with the most profitable tombstones down one level, again and
//! again, until the tombstones reach the bottom and vanish.
//!
//! ```text
//!                 freed bytes        the tombstones, and as many entries of the lower levels
//!   benefit  =  ---------------
//!               rewritten bytes      the table, and all overlapping tables of the lower levels
//! ```
//!
//! The tombstones of the overlapping tables count too: they reach the bottom together. Without
//! them, runs that each hide a little could together hide much.
//!
//! The picker chooses a table if its benefit is at least 1 / [`LEVEL_SIZE_MULTIPLIER`]. A
//! compaction of a full level costs about the same per byte. So deleted entries take at most a
//! quarter of the space of the live ones, as far as the table properties show. A tombstone causes
//! no more writing than a put.
//!
//! The process ends: each compaction moves tombstones to a deeper level, and on the last level it
//! rewrites the tables without them. It counts only tombstones that every reader sees, because it
//! must keep the others. So the database asks the picker again when it releases a snapshot that
//! blocked tombstones ([`blocked_by_snapshot`]). It also asks when it opens a table with many
//! tombstones ([`is_candidate`]), because it learns the counts of older tables only then.

use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::NUM_LEVELS;

use super::level_targets::{LEVEL_SIZE_MULTIPLIER, LevelTargets};
use super::leveled::{setup_other_inputs, start_level_inputs};
use crate::compaction::compaction_plan::{Compaction, CompactionLimits};
use crate::event::CompactionReason;
use crate::sync::Arc;
use crate::version::{FileMeta, Version};

/// Minimum number of tombstones of a table for this picker.
///
/// Fewer tombstones hide little. The limit is above the some hundred tombstones of the tables that
/// LevelDB's own tests inspect. Tests that explore thread schedules have tiny tables.
const MIN_TOMBSTONES: u64 = if cfg!(feature = "shuttle") { 1 } else { 1_000 };

/// Assumed entry size, in bytes, on a level without known table properties.
///
/// The value is rather too large: an unneeded compaction reveals the true size, and a missing one
/// does not.
const UNKNOWN_ENTRY_SIZE: f64 = 1024.0;

/// Returns the compaction with the greatest benefit, if one is worth its cost. No reader reads at a
/// smaller sequence number than `smallest_snapshot`.
pub(crate) fn pick(
    version: &Version,
    smallest_snapshot: SequenceNumber,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let (level, file) = best_candidate(version, smallest_snapshot)?;
    let output_level = match level {
        0 => LevelTargets::new(version).base_level(),
        _ if version.is_bottommost_level(level) => level,
        _ => level + 1,
    };
    Some(setup_other_inputs(
        version,
        CompactionReason::Tombstones,
        level,
        output_level,
        start_level_inputs(version, level, file),
        limits,
    ))
}

/// Returns true if [`pick`] would return a compaction.
pub(crate) fn needs_compaction(version: &Version, smallest_snapshot: SequenceNumber) -> bool {
    best_candidate(version, smallest_snapshot).is_some()
}

/// Returns the sequence number that the smallest snapshot must reach before [`pick`] can find
/// further candidates.
pub(crate) fn blocked_by_snapshot(
    version: &Version,
    smallest_snapshot: SequenceNumber,
) -> Option<SequenceNumber> {
    let stats = version.levels.iter().flatten().filter_map(|file| file.stats());
    let candidates = stats.filter(|stats| is_candidate(stats.properties.num_deletions));
    candidates.map(|stats| stats.newest_tombstone).filter(|newest| *newest > smallest_snapshot).min()
}

/// Returns true if a table with `num_deletions` tombstones is a candidate.
pub(crate) fn is_candidate(num_deletions: u64) -> bool {
    num_deletions >= MIN_TOMBSTONES
}

/// Returns the table with the greatest benefit and its level, if it is worth its cost.
fn best_candidate(version: &Version, smallest_snapshot: SequenceNumber) -> Option<(usize, &Arc<FileMeta>)> {
    let levels = version.levels.iter().enumerate();
    let files = levels.flat_map(|(level, files)| files.iter().map(move |file| (level, file)));
    let mut candidates =
        files.filter(|(_, file)| is_candidate(droppable_tombstones(file, smallest_snapshot))).peekable();
    candidates.peek()?;
    let entry_sizes = version.levels.each_ref().map(|files| mean_entry_size(files));
    let benefits = candidates
        .map(|(level, file)| (benefit(version, level, file, smallest_snapshot, &entry_sizes), level, file));
    let (benefit, level, file) = benefits.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (benefit * LEVEL_SIZE_MULTIPLIER as f64 >= 1.0).then_some((level, file))
}

/// Returns the known number of tombstones of `file` if every reader sees all of them, otherwise 0.
fn droppable_tombstones(file: &FileMeta, smallest_snapshot: SequenceNumber) -> u64 {
    file.stats()
        .filter(|stats| stats.newest_tombstone <= smallest_snapshot)
        .map_or(0, |stats| stats.properties.num_deletions)
}

/// Returns the mean entry size, in bytes, of those `files` whose properties are known.
fn mean_entry_size(files: &[Arc<FileMeta>]) -> f64 {
    let known = files.iter().filter_map(|file| Some((file.size, file.stats()?.properties.num_entries)));
    let (bytes, entries) = known
        .fold((0.0, 0.0), |(bytes, entries), (size, count)| (bytes + size as f64, entries + count as f64));
    if entries > 0.0 { bytes / entries } else { UNKNOWN_ENTRY_SIZE }
}

/// Returns the benefit of the compactions that move `file` down to the bottom. `entry_sizes` are
/// the mean entry sizes of the levels.
fn benefit(
    version: &Version,
    level: usize,
    file: &Arc<FileMeta>,
    smallest_snapshot: SequenceNumber,
    entry_sizes: &[f64; NUM_LEVELS],
) -> f64 {
    let inputs = start_level_inputs(version, level, file);
    let range = version.key_range(&inputs);
    let lower_levels = (level + 1..NUM_LEVELS).map(|lower| {
        let files = range.map_or(&[][..], |(low, high)| version.overlapping_slice(lower, low, high));
        (lower, files)
    });
    // From the bottom up: the tombstones of a level hide entries of the levels below it.
    let mut below = EntryCounts::default();
    let mut freed_bytes = 0.0;
    let mut rewritten_bytes = 0.0;
    for (level, files) in std::iter::once((level, &inputs[..])).chain(lower_levels).rev() {
        let mut puts = EntryCounts::default();
        let mut tombstones = EntryCounts::default();
        for file in files {
            let entries = file
                .stats()
                .map_or(file.size as f64 / entry_sizes[level], |stats| stats.properties.num_entries as f64);
            let droppable = (droppable_tombstones(file, smallest_snapshot) as f64).min(entries);
            let bytes = file.size as f64 * droppable / entries.max(1.0);
            tombstones.add(droppable, bytes);
            puts.add(entries - droppable, file.size as f64 - bytes);
        }
        rewritten_bytes += puts.bytes + tombstones.bytes;
        // They hide at most all of these entries.
        let hidden = (tombstones.entries / below.entries.max(1.0)).min(1.0);
        freed_bytes += tombstones.bytes + below.bytes * hidden;
        below.add(puts.entries, puts.bytes);
    }
    freed_bytes / rewritten_bytes.max(1.0)
}

/// Number of entries, and their bytes.
#[derive(Default)]
struct EntryCounts {
    entries: f64,
    bytes: f64,
}

impl EntryCounts {
    fn add(&mut self, entries: f64, bytes: f64) {
        self.entries += entries;
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::table::TableProperties;

    use super::super::leveled::tests::{LIMITS, set, text};
    use super::*;
    use crate::table::TableStats;

    /// Checks the pick from `files` with the smallest snapshot 9. `known` lists the file number,
    /// the entries, the tombstones and the newest tombstone of the tables with known properties.
    #[track_caller]
    fn check(files: &str, known: &[(u64, u64, u64, SequenceNumber)], expect: &str) {
        let set = set(files);
        for &(number, num_entries, num_deletions, newest_tombstone) in known {
            let file = set.version.levels.iter().flatten().find(|file| file.number == number).unwrap();
            file.table_handle.set_stats(TableStats {
                properties: TableProperties { num_entries, num_deletions },
                newest_tombstone,
            });
        }
        assert_eq!(text(pick(&set.version, 9, &LIMITS)), expect);
    }

    /// A table of tombstones above a table of 10 MiB.
    const TOMBSTONES_ABOVE_DATA: &str = "1 1 1 c@5 d@5\n 2 2 10 a@1 z@1";
    /// Counts of the lower table: its entries have 100 bytes.
    const HUNDRED_BYTE_ENTRIES: (u64, u64, u64, SequenceNumber) = (2, 100_000, 0, 0);

    #[test]
    fn picks_table_that_frees_a_fifth_of_rewritten_bytes() {
        check(
            TOMBSTONES_ABOVE_DATA,
            &[HUNDRED_BYTE_ENTRIES, (1, 30_000, 30_000, 5)],
            "1 to 2: 1 + 2, above ",
        );
        check(
            TOMBSTONES_ABOVE_DATA,
            &[HUNDRED_BYTE_ENTRIES, (1, 13_000, 13_000, 5)],
            "1 to 2: 1 + 2, above ",
        );
        check(TOMBSTONES_ABOVE_DATA, &[HUNDRED_BYTE_ENTRIES, (1, 80_000, 7_000, 5)], "nothing");
    }

    #[test]
    fn ignores_few_or_unknown_tombstones() {
        check(TOMBSTONES_ABOVE_DATA, &[HUNDRED_BYTE_ENTRIES, (1, 999, 999, 5)], "nothing");
        check(TOMBSTONES_ABOVE_DATA, &[HUNDRED_BYTE_ENTRIES], "nothing");
        check("", &[], "nothing");
    }

    #[test]
    fn tombstone_newer_than_a_snapshot_is_not_droppable() {
        check(
            TOMBSTONES_ABOVE_DATA,
            &[HUNDRED_BYTE_ENTRIES, (1, 30_000, 30_000, 9)],
            "1 to 2: 1 + 2, above ",
        );
        check(TOMBSTONES_ABOVE_DATA, &[HUNDRED_BYTE_ENTRIES, (1, 30_000, 30_000, 10)], "nothing");
    }

    #[test]
    fn blocked_by_snapshot_returns_next_sequence() {
        let set = set("1 1 1 c@5 d@5\n 1 2 1 e@5 f@5\n 1 3 1 g@5 h@5\n 2 4 10 a@1 z@1");
        let stats = [(1_000, 30), (1_000, 20), (999, 10)];
        for (file, (num_deletions, newest_tombstone)) in set.version.levels[1].iter().zip(stats) {
            file.table_handle.set_stats(TableStats {
                properties: TableProperties { num_entries: 1_000, num_deletions },
                newest_tombstone,
            });
        }
        let blocked = [9, 19, 20, 29, 30].map(|snapshot| blocked_by_snapshot(&set.version, snapshot));
        assert_eq!(blocked, [Some(20), Some(20), Some(30), Some(30), None]);
    }

    #[test]
    fn benefit_counts_all_lower_levels() {
        let files = format!("{TOMBSTONES_ABOVE_DATA}\n 3 3 100 a@0 z@0");
        let level_3 = (3, 1_000_000, 0, 0);
        check(&files, &[HUNDRED_BYTE_ENTRIES, level_3, (1, 30_000, 30_000, 5)], "nothing");
        check(&files, &[HUNDRED_BYTE_ENTRIES, level_3, (1, 250_000, 250_000, 5)], "1 to 2: 1 + 2, above 3");
    }

    /// Several flushes of deletions, each on a level of its own.
    #[test]
    fn benefit_counts_tombstones_of_all_lower_levels() {
        let files = "1 1 1 c@7 d@7\n 2 2 1 c@5 d@5\n 3 3 10 a@1 z@1";
        let level_3 = (3, 100_000, 0, 0);
        check(files, &[level_3, (1, 8_000, 8_000, 7), (2, 4_000, 0, 5)], "nothing");
        check(files, &[level_3, (1, 8_000, 8_000, 7), (2, 7_000, 7_000, 5)], "1 to 2: 1 + 2, above 3");
    }

    #[test]
    fn benefit_counts_only_overlapping_tables() {
        let files = format!("{TOMBSTONES_ABOVE_DATA}\n 3 3 100 e@0 z@0");
        check(&files, &[HUNDRED_BYTE_ENTRIES, (1, 30_000, 30_000, 5)], "1 to 2: 1 + 2, above 3");
    }

    #[test]
    fn unknown_entry_size_is_assumed_large() {
        check(TOMBSTONES_ABOVE_DATA, &[(1, 3_000, 3_000, 5)], "1 to 2: 1 + 2, above ");
        check(TOMBSTONES_ABOVE_DATA, &[(1, 1_300, 1_300, 5)], "1 to 2: 1 + 2, above ");
        check("1 1 1 c@5 d@5\n 2 2 99 a@1 z@1", &[(1, 1_000, 1_000, 5)], "nothing");
    }

    #[test]
    fn level_0_goes_to_base_level_with_overlapping_inputs() {
        let files = "0 1 1 c@5 d@5\n 0 2 1 a@6 z@6\n 2 3 9 a@1 z@1";
        check(files, &[(3, 100_000, 0, 0), (1, 30_000, 30_000, 5)], "0 to 2: 2 1 +  + 3, above ");
    }

    #[test]
    fn bottommost_table_is_rewritten_in_place() {
        check("2 1 1 c@5 d@5\n 2 2 1 e@1 f@1", &[(1, 5_000, 1_000, 5)], "2 to 2: 1, above ");
        check("2 1 1 c@5 d@5\n 2 2 1 e@1 f@1", &[(1, 5_100, 1_000, 5)], "nothing");
        check("6 1 1 c@5 d@5", &[(1, 6_000, 6_000, 5)], "6 to 6: 1, above ");
    }

    #[test]
    fn highest_benefit_goes_first() {
        let files = "1 1 1 c@5 d@5\n 1 2 1 e@5 f@5\n 2 3 10 a@1 d@1\n 2 4 10 e@1 z@1";
        let known = [(3, 100_000, 0, 0), (4, 100_000, 0, 0), (1, 20_000, 20_000, 5), (2, 30_000, 30_000, 5)];
        check(files, &known, "1 to 2: 2 + 4, above ");
    }
}
