//! Compactions after a load: they leave few sorted runs, for the reads that follow.
//!
//! ```text
//!   level 0   flushes ────┐
//!   level 2   newer run ──┤
//!   level 4   older run   │
//!   level 5   bottom    <─┘   at most five times as large as all runs above it together
//! ```
//!
//! 1. The newer runs are compacted into an older one if their tables that overlap it have at least
//!    a fifth of the size of the tables that they overlap. So a compaction reads at most six bytes
//!    for each byte of the newer runs, and tables of ascending keys stay as they are. Newer tables
//!    of less than 10 MiB together, LevelDB's size of level 1, are left to leveled compaction. So
//!    are those of less than two memtables, if their size is fixed.
//! 2. Otherwise, two or more runs of level 0 become one. The bottom level and the older runs first
//!    move down to make room for it, without a rewrite.
//! 3. Up to 1 GiB is one compaction. More is compacted in slices from the smallest keys to the
//!    largest, so that a new load has to wait for one slice only, and little space is used twice.
//!
//! During a load, [lazy leveling](super::lazy_leveled) leaves runs that are larger than their
//! targets. Leveled compaction would move them down level by level: after 75,000,000 random puts,
//! it rewrote more bytes than a compaction of the whole database, and left more runs.

use std::ops::Range;

use super::lazy_leveled::Tree;
use super::level_targets::LEVEL_SIZE_MULTIPLIER;
use crate::compaction::compaction_plan::{Compaction, CompactionLimits};
use crate::event::CompactionReason;
use crate::sync::Arc;
use crate::version::{FileMeta, KeyRange, Version, total_size};

/// Number of slices whose bytes are compacted at once.
const SLICES_AT_ONCE: u64 = 4;
/// Bytes of newer tables that always settle: 10 MiB.
const MAX_LEFT_BYTES: u64 = 10 << 20;
/// Size of a slice, relative to that of two memtables of a fixed size.
const SLICE_TO_MEMTABLES_RATIO: u64 = 8;

/// Level of the run that all newer runs are compacted into, if the tree is not settled. It is 0 if
/// level 0 becomes a run of its own.
pub(crate) type Settling = Option<usize>;

/// Begins, continues or ends the compactions after a load of `version`.
pub(crate) fn continue_settling(
    version: &Version,
    settling: Settling,
    limits: &CompactionLimits,
) -> Settling {
    if let Some(output_level) = settling
        && (1..output_level).any(|level| overlaps_older(version, level, output_level))
    {
        return settling;
    }
    let deepest = (1..version.levels.len()).rev().find(|&level| is_small_run(version, level, limits));
    deepest.or_else(|| has_several_runs(version, limits).then_some(0))
}

/// Returns the next compaction. `settling` is the result of [`continue_settling`].
pub(crate) fn pick(version: &Version, settling: Settling, limits: &CompactionLimits) -> Option<Compaction> {
    let output_level = settling?;
    let tree = Tree::new(version);
    let bytes = (0..=output_level).fold(0u64, |sum, level| sum.saturating_add(tree.size(level)));
    let is_small = bytes <= limits.slice_bytes.saturating_mul(SLICES_AT_ONCE);
    let first = if is_small { 0 } else { 1 };
    let newest = (first..output_level).find(|&level| overlaps_older(version, level, output_level));
    let Some(newest) = newest.filter(|_| is_small || !has_several_runs(version, limits)) else {
        return Some(tree.compact_flushes(None, limits));
    };
    let files: Vec<_> = overlapping_files(version, newest, newest + 1..output_level + 1).cloned().collect();
    if is_small {
        // Tables of level 0 may overlap each other.
        let files = if newest == 0 { version.levels[0].clone() } else { files };
        return Some(tree.compact(CompactionReason::SortedRuns, newest, output_level, files, limits));
    }
    Some(tree.slice(limits, newest, &files, output_level))
}

/// Returns the tables of `level` that overlap a table of `others`.
fn overlapping_files(
    version: &Version,
    level: usize,
    others: Range<usize>,
) -> impl Iterator<Item = &Arc<FileMeta>> {
    let files = version.levels[level].iter();
    files.filter(move |file| others.clone().any(|other| overlaps(version, file, other)))
}

/// Returns true if `file` overlaps a table of `level`.
fn overlaps(version: &Version, file: &FileMeta, level: usize) -> bool {
    let low = file.smallest.user_key();
    let high = file.largest.user_key();
    match level {
        0 => version.overlaps_level(0, KeyRange { begin: Some(low), end: Some(high) }),
        _ => !version.overlapping_slice(level, low, high).is_empty(),
    }
}

/// Returns true if a table of `level` overlaps a table of an older level down to `output_level`.
fn overlaps_older(version: &Version, level: usize, output_level: usize) -> bool {
    overlapping_files(version, level, level + 1..output_level + 1).next().is_some()
}

/// Returns true if the tables of `level` that overlap newer ones are small enough for a compaction
/// with them.
fn is_small_run(version: &Version, level: usize, limits: &CompactionLimits) -> bool {
    let newer_files = (0..level).flat_map(|newer| overlapping_files(version, newer, level..level + 1));
    let newer_bytes = total_size(newer_files);
    newer_bytes >= min_newer_bytes(limits)
        && total_size(overlapping_files(version, level, 0..level))
            <= newer_bytes.saturating_mul(LEVEL_SIZE_MULTIPLIER)
}

/// Returns the minimum size, in bytes, of newer tables that are compacted with older ones.
fn min_newer_bytes(limits: &CompactionLimits) -> u64 {
    MAX_LEFT_BYTES.min(limits.slice_bytes / SLICE_TO_MEMTABLES_RATIO)
}

/// Returns true if level 0 has tables that overlap each other, and is not small.
fn has_several_runs(version: &Version, limits: &CompactionLimits) -> bool {
    let level_0 = &version.levels[0];
    total_size(level_0) >= min_newer_bytes(limits)
        && level_0.iter().any(|file| {
            let begin = Some(file.smallest.user_key());
            let end = Some(file.largest.user_key());
            version.overlapping_inputs(0, KeyRange { begin, end }).len() > 1
        })
}

#[cfg(test)]
mod tests {
    use terrace_testkit::rng::Rng;

    use super::super::lazy_leveled;
    use super::super::leveled::tests::{LIMITS, set, text};
    use super::*;
    use crate::compaction::tree_simulation::SimulatedTree;

    const MB: u64 = 1 << 20;

    #[track_caller]
    fn check(files: &str, settling: Settling, expect: &str) {
        let version = set(files).version;
        assert_eq!(text(pick(&version, continue_settling(&version, settling, &LIMITS), &LIMITS)), expect);
    }

    #[test]
    fn runs_are_compacted_into_a_run_of_up_to_five_times_their_size() {
        check("4 1 90 a@1 z@1\n 5 2 450 a@0 z@0", None, "4 to 5: 1 + 2, above ");
        check("4 1 90 a@1 z@1\n 5 2 451 a@0 z@0", None, "nothing");
        check(
            "0 3 20 a@3 z@3\n 4 1 80 a@1 z@1\n 5 2 400 a@0 z@0",
            None,
            "0 to 5: 3 +  +  +  + 1 + 2, above ",
        );
        check("0 3 20 a@3 z@3\n 4 1 80 a@1 z@1\n 5 2 501 a@0 z@0", None, "0 to 4: 3 +  +  +  + 1, above 2");
    }

    /// A run that is too large for the newest ones may be small enough for these and older ones.
    #[test]
    fn deepest_run_counts() {
        check(
            "0 3 10 a@3 z@3\n 4 1 80 a@1 z@1\n 5 2 400 a@0 z@0",
            None,
            "0 to 5: 3 +  +  +  + 1 + 2, above ",
        );
    }

    #[test]
    fn level_0_has_one_run_at_most() {
        let two = "0 4 6 a@4 z@4\n 0 3 5 a@3 z@3\n";
        check("0 3 5 a@3 z@3\n 5 2 800 a@0 z@0", None, "nothing");
        check("0 3 5 a@3 z@3", None, "nothing");
        check(&format!("{two} 5 2 800 a@0 z@0"), None, "0 to 4: 4 3 +  +  +  + , above 2");
        check(&format!("{two} 1 2 800 a@0 z@0"), None, "1 to 2: 2 + , above ");
        check(two, None, "0 to 2: 4 3 +  + , above ");
    }

    #[test]
    fn large_trees_settle_in_slices() {
        let run = |level: usize, megabytes: u64| -> String {
            (0..10).map(|n| format!("{level} {level}{n} {megabytes} {n}a@{level} {n}z@{level}\n")).collect()
        };
        let runs = format!("{} {} {}", run(3, 20), run(4, 50), run(5, 100));
        let sliced = "3 to 5: 30 31 + 40 41 + 50 51, above ";
        check(&runs, None, sliced);
        check(&format!("0 90 5 0a@9 9z@9\n {runs}"), None, sliced);
        let two = "0 91 6 0a@9 9z@9\n 0 90 5 0a@9 9z@9\n";
        check(&format!("{two}{runs}"), None, "0 to 2: 91 90 +  + , above 30 31 32 33 34 35 36 37 38 39");
        let older = format!("3 39 5 9a@3 9z@3\n 4 49 60 9a@4 9z@4\n {}", run(5, 150));
        let rest = format!("0 90 5 0a@9 9z@9\n {older}");
        check(&rest, None, "nothing");
        check(&rest, Some(5), "3 to 5: 39 + 49 + 59, above ");
        check(&run(5, 150), Some(5), "nothing");
    }

    /// Level 0 has to leave its level before the slices, also if it is the only newer run.
    #[test]
    fn one_large_flush_settles_in_slices() {
        let bottom: String = (0..11).map(|n| format!("5 {n} 100 {}a@1 {}z@1\n", n + 10, n + 10)).collect();
        check(
            &format!("0 90 300 10a@9 20z@9\n {bottom}"),
            None,
            "0 to 4: 90 +  +  +  + , above 0 1 2 3 4 5 6 7 8 9 10",
        );
        check(
            &format!("4 90 300 10a@9 20z@9\n {bottom}"),
            Some(5),
            "4 to 5: 90 + 0 1 2 3 4 5 6 7 8 9 10, above ",
        );
    }

    /// Threads and prefixes with ascending keys of their own: no get probes two of these tables.
    #[test]
    fn tables_apart_from_each_other_stay() {
        let lower = "2 1 40 a@1 b@1\n 2 2 40 k@1 l@1\n";
        check(&format!("0 4 40 n@1 o@1\n 0 3 40 c@1 d@1\n {lower}"), None, "nothing");
        check(&format!("1 4 40 n@1 o@1\n 1 3 40 c@1 d@1\n {lower}"), None, "nothing");
        check(&format!("1 3 40 c@1 d@1\n 1 4 40 l@2 o@1\n {lower}"), None, "1 to 2: 4 + 2, above ");
    }

    #[test]
    fn small_runs_stay() {
        check("0 3 5 a@3 z@3\n 0 2 4 a@2 z@2\n 2 1 30 a@1 z@1", None, "nothing");
        check("0 3 5 a@3 z@3\n 0 2 5 a@2 z@2\n 2 1 30 a@1 z@1", None, "0 to 2: 3 2 +  + 1, above ");
    }

    /// Loads that end at any time, and flushes between the compactions after them. Each state has a
    /// next compaction or is settled, and a few compactions settle it.
    #[test]
    fn every_tree_settles() {
        let mut rng = Rng::new(29);
        for _ in 0..20 {
            let limits = CompactionLimits {
                scales_with_level: true,
                slice_bytes: (16 * MB) << rng.below(5),
                ..LIMITS
            };
            let mut tree = SimulatedTree::new([1e6, 1e7, f64::INFINITY][rng.below(3) as usize]);
            for _ in 0..rng.below(8) {
                let mut sliced = None;
                for _ in 0..rng.below(200) {
                    tree.flush((1 + rng.below(1_000_000)) as f64);
                    for _ in 0..rng.below(4) {
                        let version = &tree.set.version;
                        sliced = lazy_leveled::continue_sliced(version, sliced, &limits);
                        let Some(compaction) = lazy_leveled::pick(version, sliced, &limits) else { break };
                        tree.compact(&compaction);
                    }
                }
                let mut settling = continue_settling(&tree.set.version, None, &limits);
                let mut steps = 0;
                while settling.is_some() {
                    let compaction = pick(&tree.set.version, settling, &limits).expect("a compaction is due");
                    tree.compact(&compaction);
                    steps += 1;
                    assert!(steps < 2000, "{settling:?}");
                    if steps < 50 && rng.below(20) == 0 {
                        tree.flush(1e6);
                    }
                    settling = continue_settling(&tree.set.version, settling, &limits);
                }
            }
        }
    }

    /// Loads of one to sixteen flushes, each followed by the compactions. The tree has few runs,
    /// and each byte is rewritten a few times.
    #[test]
    fn repeated_loads_leave_few_runs() {
        const FLUSH: u64 = 18 * MB;
        for (loads, flushes, max_compacted, max_runs) in
            [(200, 1, 10.0, 4), (60, 4, 9.0, 3), (30, 16, 8.0, 2)]
        {
            let limits = CompactionLimits { scales_with_level: true, ..LIMITS };
            let mut tree = SimulatedTree::new(f64::INFINITY);
            let mut compacted = 0;
            for _ in 0..loads {
                for _ in 0..flushes {
                    tree.flush(FLUSH as f64 / SimulatedTree::BYTES_PER_ENTRY);
                }
                let mut settling = continue_settling(&tree.set.version, None, &limits);
                while let Some(compaction) = pick(&tree.set.version, settling, &limits) {
                    compacted += tree.compact(&compaction).bytes_read;
                    settling = continue_settling(&tree.set.version, settling, &limits);
                }
                let runs = tree.sorted_runs();
                assert!(runs <= max_runs, "{loads} loads of {flushes}: {runs} runs");
            }
            let compacted = compacted as f64 / (loads * flushes * FLUSH) as f64;
            println!("{loads} loads of {flushes} flushes: {compacted:.2} bytes compacted");
            assert!(compacted <= max_compacted, "{loads} loads of {flushes}: {compacted:.2}");
        }
    }
}
