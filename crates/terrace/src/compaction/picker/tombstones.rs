//! Merges for the sake of deletes: space comes back by itself.
//!
//! A delete and what it hides take space until they meet. Where a level is full its merges bring them together; where
//! little is written they would rest for ever. So when no level is full, the table whose deletes are most worth it goes
//! down a level, and so on until they are at the bottom and vanish.
//!
//! ```text
//!   worth  =     what comes free    the deletes, and as many entries of the levels below, of the size that is usual there
//!             -------------------
//!              what is rewritten    the table, and all that it overlaps on the levels below
//! ```
//!
//! It goes if that is at least one in [`LEVEL_SIZE_MULTIPLIER`], which is about what a merge of a full level pays for its bytes. So what is
//! deleted takes a quarter of the space of the rest at most, as far as tables know of it, and a delete causes no more
//! writing than a put does.
//!
//! That comes to an end: each such merge brings deletes to a deeper level, and on the last level, where nothing is below, it
//! writes the tables anew without any. Both only if every reader sees the deletes, since nothing is free before that; a
//! merge would keep them. So the background looks again when a snapshot goes that did not see some ([`waiting_for`]), and when a
//! table is opened that has many ([`are_many`]): until then nobody knows of those that were there before.

use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::NUM_LEVELS;

use super::level_targets::LEVEL_SIZE_MULTIPLIER;
use super::leveled::{setup_other_inputs, start_level_inputs};
use super::{CompactionLimits, LevelTargets};
use crate::compaction::{Compaction, CompactionReason};
use crate::sync::Arc;
use crate::version::{FileMeta, Version, total_size};

/// A table with fewer is left to the other merges: it is small, and so is what it hides. LevelDB's own tests look at
/// tables with some hundred. Where schedules are explored tables are tiny.
const MIN_TOMBSTONES: u64 = if cfg!(feature = "shuttle") { 1 } else { 1_000 };

/// The size of an entry, in bytes, on a level of which no table is known. Too large rather than too small: a merge that
/// this brings about tells the right one, and none does not.
const UNKNOWN_ENTRY_SIZE: f64 = 1024.0;

/// The merge that frees the most for what it rewrites, if one is worth it. All `readers` read at that number or a later one.
pub(crate) fn pick(
    version: &Version,
    readers: SequenceNumber,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let (level, file) = best_candidate(version, readers)?;
    let output = match level {
        0 => LevelTargets::new(version).base_level(),
        _ if version.is_bottommost_level(level) => level,
        _ => level + 1,
    };
    Some(setup_other_inputs(
        version,
        CompactionReason::Tombstones,
        level,
        output,
        start_level_inputs(version, level, file),
        limits,
    ))
}

/// True if there is a merge to pick.
pub(crate) fn needs_compaction(version: &Version, readers: SequenceNumber) -> bool {
    best_candidate(version, readers).is_some()
}

/// The number up to which readers must have come before there may be more to pick.
pub(crate) fn blocked_by_snapshot(version: &Version, readers: SequenceNumber) -> Option<SequenceNumber> {
    let known = version.levels.iter().flatten().filter_map(|file| file.stats());
    let many = known.filter(|tally| is_candidate(tally.properties.num_deletions));
    many.map(|tally| tally.newest_tombstone).filter(|newest| *newest > readers).min()
}

/// True if a table with so many deletes may be picked.
pub(crate) fn is_candidate(deletes: u64) -> bool {
    deletes >= MIN_TOMBSTONES
}

fn best_candidate(version: &Version, readers: SequenceNumber) -> Option<(usize, &Arc<FileMeta>)> {
    let levels = version.levels.iter().enumerate();
    let files = levels.flat_map(|(level, files)| files.iter().map(move |file| (level, file)));
    let mut ripe = files.filter(|(_, file)| is_candidate(droppable_tombstones(file, readers))).peekable();
    ripe.peek()?;
    let usual = version.levels.each_ref().map(|files| mean_entry_size(files));
    let worths = ripe.map(|(level, file)| (benefit(version, level, file, readers, &usual), level, file));
    let (worth, level, file) = worths.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (worth * LEVEL_SIZE_MULTIPLIER as f64 >= 1.0).then_some((level, file))
}

/// The deletes that `file` is known to have, if all `readers` see them.
fn droppable_tombstones(file: &FileMeta, readers: SequenceNumber) -> u64 {
    file.stats()
        .filter(|tally| tally.newest_tombstone <= readers)
        .map_or(0, |tally| tally.properties.num_deletions)
}

/// The mean size of an entry of `files`, in bytes, as far as they are known.
fn mean_entry_size(files: &[Arc<FileMeta>]) -> f64 {
    let known = files.iter().filter_map(|file| Some((file.size, file.stats()?.properties.num_entries)));
    let (bytes, entries) = known
        .fold((0.0, 0.0), |(bytes, entries), (size, count)| (bytes + size as f64, entries + count as f64));
    if entries > 0.0 { bytes / entries } else { UNKNOWN_ENTRY_SIZE }
}

fn benefit(
    version: &Version,
    level: usize,
    file: &Arc<FileMeta>,
    readers: SequenceNumber,
    usual: &[f64; NUM_LEVELS],
) -> f64 {
    let inputs = start_level_inputs(version, level, file);
    let entries = |level: usize, file: &FileMeta| match file.stats() {
        Some(tally) => tally.properties.num_entries as f64,
        None => file.size as f64 / usual[level],
    };
    let (mut count, mut freed) = (0.0, 0.0);
    for input in &inputs {
        let deletes = droppable_tombstones(input, readers) as f64;
        count += deletes;
        freed += input.size as f64 * deletes / entries(level, input).max(1.0);
    }
    let (mut below, mut below_entries) = (0.0, 0.0);
    for level in level + 1..NUM_LEVELS {
        let met = version
            .key_range(&inputs)
            .map_or(&[][..], |(low, high)| version.overlapping_slice(level, low, high));
        below += total_size(met) as f64;
        below_entries += met.iter().map(|file| entries(level, file)).sum::<f64>();
    }
    // No more is hidden than there is.
    freed += below * (count / below_entries.max(1.0)).min(1.0);
    freed / (total_size(&inputs) as f64 + below).max(1.0)
}

#[cfg(test)]
mod tests {
    use terrace_format::table::TableProperties;

    use super::super::leveled::tests::{LIMITS, set, text};
    use super::*;
    use crate::table::TableStats;

    /// What is picked of `files`, while everybody reads at 9 or later. Of some of them the `number entries deletes newest`
    /// are known.
    #[track_caller]
    fn check(files: &str, known: &[(u64, u64, u64, SequenceNumber)], expect: &str) {
        let set = set(files);
        for &(number, entries, deletes, newest_delete) in known {
            let file = set.version.levels.iter().flatten().find(|file| file.number == number).unwrap();
            file.table_handle.set_stats(TableStats {
                properties: TableProperties { num_entries: entries, num_deletions: deletes },
                newest_tombstone: newest_delete,
            });
        }
        assert_eq!(text(pick(&set.version, 9, &LIMITS)), expect);
    }

    /// A table of deletes above one of ten megabytes with entries of a hundred bytes.
    const TOMBSTONES_ABOVE_DATA: &str = "1 1 1 c@5 d@5\n 2 2 10 a@1 z@1";
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
        let tallies = [(1_000, 30), (1_000, 20), (999, 10)];
        for (file, (deletes, newest_delete)) in set.version.levels[1].iter().zip(tallies) {
            file.table_handle.set_stats(TableStats {
                properties: TableProperties { num_entries: 1_000, num_deletions: deletes },
                newest_tombstone: newest_delete,
            });
        }
        let waiting = [9, 19, 20, 29, 30].map(|readers| blocked_by_snapshot(&set.version, readers));
        assert_eq!(waiting, [Some(20), Some(20), Some(30), Some(30), None]);
    }

    #[test]
    fn benefit_counts_all_lower_levels() {
        let three = format!("{TOMBSTONES_ABOVE_DATA}\n 3 3 100 a@0 z@0");
        let below = (3, 1_000_000, 0, 0);
        check(&three, &[HUNDRED_BYTE_ENTRIES, below, (1, 30_000, 30_000, 5)], "nothing");
        check(&three, &[HUNDRED_BYTE_ENTRIES, below, (1, 250_000, 250_000, 5)], "1 to 2: 1 + 2, above 3");
    }

    #[test]
    fn benefit_counts_only_overlapping_tables() {
        let apart = format!("{TOMBSTONES_ABOVE_DATA}\n 3 3 100 e@0 z@0");
        check(&apart, &[HUNDRED_BYTE_ENTRIES, (1, 30_000, 30_000, 5)], "1 to 2: 1 + 2, above 3");
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
