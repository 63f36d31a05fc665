//! Lazy leveling: fewer rewrites while a load is running, at the price of more sorted runs.
//!
//! ```text
//!   level 0   flushes ───12 or more───┐
//!   level 1   (for runs during a sliced compaction)
//!   level 2   newest run            <─┘   the deepest free level above the older runs
//!   level 3   older run
//!   level 4   bottom level                the runs above are compacted into it
//! ```
//!
//! 1. Twelve flushes, or six small ones, become one sorted run, which is one level. If no level is
//!    free, or the next run has at most four fifths of their size, they are compacted together
//!    with it.
//! 2. When the oldest run has three quarters of the size of the bottom level, a sliced compaction
//!    moves it into the bottom level: one compaction for each slice, from the smallest keys to the
//!    largest. Newer runs stay above it. Between two slices, twenty flushes (or eight small ones)
//!    become a run, so that runs do not hold up the slices. Sixteen (or seven) are enough for a
//!    long compaction with older runs.
//! 3. The bottom level moves down when it is larger than a fiftieth of LevelDB's maximum for its
//!    level, or when a run on level 1 could not become part of it in slices. So there are more runs
//!    in a larger database, and LevelDB has less to do when it opens it.
//!
//! The policy is Dostoevsky's lazy leveling (Dayan and Idreos, SIGMOD 2018). When the load ends,
//! the tree [settles](super::settling), and [leveled compaction](super::leveled) continues with it.

use terrace_format::version_edit::NUM_LEVELS;

use super::level_targets::{LevelTargets, leveldb_max_bytes};
use super::leveled::setup_other_inputs;
use crate::compaction::compaction_plan::{Compaction, CompactionLimits, Level0Limits};
use crate::event::CompactionReason;
use crate::sync::Arc;
use crate::version::{FileMeta, Version, total_size};

/// Size of the oldest run, relative to the bottom level, at which it is compacted into it: three
/// quarters. A smaller part rewrites more, a larger one leaves more hidden versions on disk.
const RUNS_RATIO: (u64, u64) = (3, 4);
/// Maximum size of a slice, in bytes. Flushes wait on level 0 while a slice is compacted, so it
/// has to end before writers are delayed.
const MAX_SLICE_BYTES: u64 = 256 << 20;
/// Maximum size of a slice, relative to memtables of a fixed size: small memtables fill sooner.
const MEMTABLES_PER_SLICE: u64 = 16;
/// Maximum size of a run that is compacted together with newer entries although a level is free,
/// relative to these entries: four fifths.
const SIMILAR_RUN_RATIO: (u64, u64) = (4, 5);
/// Maximum size of the bottom level, relative to LevelDB's maximum for its level: a fiftieth. Above
/// it, the flushes during a sliced compaction would need more levels for their runs.
const MAX_BOTTOM_RATIO: f64 = 0.02;
/// Bytes of runs from which on their compaction with flushes takes long: 1 GiB. It begins with
/// fewer flushes, so that level 0 has room for those that come meanwhile.
const LONG_RUNS_BYTES: u64 = 1 << 30;
/// Level that stays free until a sliced compaction begins, if the bottom level is below it.
const RESERVED_LEVEL: usize = 1;

/// Level of the run that a sliced compaction moves into the bottom level. The levels above it hold
/// newer runs.
pub(crate) type SlicedCompaction = Option<usize>;

/// Returns the size of a slice in bytes. `write_buffer_size` is the fixed size of memtables, if
/// they have one.
pub(crate) fn slice_bytes(write_buffer_size: Option<usize>) -> u64 {
    let fixed = write_buffer_size.map(|size| size as u64 * MEMTABLES_PER_SLICE);
    fixed.map_or(MAX_SLICE_BYTES, |bytes| bytes.min(MAX_SLICE_BYTES))
}

/// Begins, continues or ends a sliced compaction of `version`. It ends when its run is in the
/// bottom level.
pub(crate) fn continue_sliced(
    version: &Version,
    sliced: SlicedCompaction,
    limits: &CompactionLimits,
) -> SlicedCompaction {
    let tree = Tree::new(version);
    if let Some(first) = sliced
        && tree.runs().any(|level| level >= first)
    {
        return sliced;
    }
    let oldest = tree.runs().next_back().filter(|&level| level > RESERVED_LEVEL)?;
    (tree.total() > limits.slice_bytes && tree.is_large(tree.size(oldest))).then_some(oldest)
}

/// Returns true if a compaction is due while a load is running.
pub(crate) fn is_due(version: &Version, sliced: SlicedCompaction, limits: &CompactionLimits) -> bool {
    version.level_0_runs() >= limits.level_0.run || continue_sliced(version, sliced, limits).is_some()
}

/// Returns the number of runs on level 0 that become a run of a deeper level.
pub(crate) fn run_trigger(version: &Version, sliced: SlicedCompaction, limits: &CompactionLimits) -> usize {
    if sliced.is_none() {
        return limits.level_0.run;
    }
    let tree = Tree::new(version);
    let bytes_of_runs = tree.targets.size_of_levels(1..=tree.output_level_of_flushes(sliced));
    let Level0Limits { run, run_during_slices, .. } = limits.level_0;
    if bytes_of_runs > LONG_RUNS_BYTES { run.midpoint(run_during_slices) } else { run_during_slices }
}

/// Returns the next compaction, if one is due. `sliced` is the result of [`continue_sliced`].
pub(crate) fn pick(
    version: &Version,
    sliced: SlicedCompaction,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let tree = Tree::new(version);
    if version.level_0_runs() < run_trigger(version, sliced, limits) {
        return sliced.map(|first| tree.slice_of_run(limits, first));
    }
    Some(tree.compact_flushes(sliced, limits))
}

/// Estimates the bytes that compactions must read before writers find more headroom.
pub(crate) fn pending_bytes(version: &Version, limits: &CompactionLimits) -> u64 {
    let level_0 = &version.levels[0];
    if version.level_0_runs() >= limits.level_0.run { total_size(level_0) } else { 0 }
}

/// Runs and bottom level of a version.
pub(super) struct Tree<'v> {
    version: &'v Version,
    targets: LevelTargets,
}

impl<'v> Tree<'v> {
    pub(super) fn new(version: &'v Version) -> Tree<'v> {
        Tree { version, targets: LevelTargets::new(version) }
    }

    fn bottom(&self) -> usize {
        self.targets.bottom_level()
    }

    pub(super) fn size(&self, level: usize) -> u64 {
        self.targets.level_size(level)
    }

    fn total(&self) -> u64 {
        self.targets.size_of_levels(0..=NUM_LEVELS - 1)
    }

    /// Levels above the bottom level that hold a run, the newest first.
    fn runs(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, 'v> {
        (1..self.bottom()).filter(|&level| !self.version.levels[level].is_empty())
    }

    /// Level of the newest run, or the bottom level if there is no other run.
    fn newest_run(&self) -> usize {
        self.runs().next().unwrap_or(self.bottom())
    }

    /// Returns true if `bytes` of newer entries are enough for a rewrite of the bottom level.
    fn is_large(&self, bytes: u64) -> bool {
        bytes > 0
            && bytes.saturating_mul(RUNS_RATIO.1) >= self.size(self.bottom()).saturating_mul(RUNS_RATIO.0)
    }

    /// Returns true if the bottom level has to move down: it is large, or its only large run is on
    /// the reserved level, where no sliced compaction begins.
    fn needs_deeper_bottom(&self) -> bool {
        let bottom = self.bottom();
        let is_too_large = self.size(bottom) as f64 > leveldb_max_bytes(bottom) * MAX_BOTTOM_RATIO;
        let has_no_room = bottom == RESERVED_LEVEL + 1 && self.is_large(self.size(RESERVED_LEVEL));
        bottom + 1 < NUM_LEVELS && (is_too_large || has_no_room)
    }

    /// First level for runs outside of a sliced compaction.
    fn first_run_level(&self) -> usize {
        if self.bottom() > RESERVED_LEVEL + 1 { RESERVED_LEVEL + 1 } else { RESERVED_LEVEL }
    }

    /// Returns the oldest run with a free level directly below it, and the deepest such level.
    fn run_above_free_level(&self) -> Option<(usize, usize)> {
        self.runs().rev().find_map(|level| {
            let free_level =
                (level + 1..self.bottom()).take_while(|&below| self.version.levels[below].is_empty()).last();
            free_level.map(|free_level| (level, free_level))
        })
    }

    /// Returns the compaction of level 0, or one that makes room for its output.
    pub(super) fn compact_flushes(&self, sliced: SlicedCompaction, limits: &CompactionLimits) -> Compaction {
        let flushes = self.version.levels[0].clone();
        let bottom = self.bottom();
        let above_bottom = self.total() - self.size(bottom);
        if sliced.is_none() && self.is_large(above_bottom) && self.total() <= limits.slice_bytes {
            return self.compact(CompactionReason::SortedRuns, 0, bottom, flushes, limits);
        }
        if sliced.is_none() && self.needs_deeper_bottom() {
            return self.move_level(bottom, bottom + 1, limits);
        }
        if sliced.is_none()
            && let Some((level, free_level)) = self.run_above_free_level()
        {
            return self.move_level(level, free_level, limits);
        }
        let output_level = self.output_level_of_flushes(sliced);
        self.compact(CompactionReason::LevelSize, 0, output_level, flushes, limits)
    }

    /// Returns the level that the flushes of level 0 are compacted into.
    fn output_level_of_flushes(&self, sliced: SlicedCompaction) -> usize {
        let (first, end) = match sliced {
            Some(end) => (RESERVED_LEVEL, end),
            None => (self.first_run_level(), self.bottom()),
        };
        let newest = self.newest_run();
        let mut bytes = self.size(0);
        let mut output_level = newest.min(end) - 1;
        for level in self.runs().take_while(|&level| level < end) {
            if output_level >= first && !is_similar(self.size(level), bytes) {
                break;
            }
            bytes = bytes.saturating_add(self.size(level));
            output_level = level;
        }
        output_level.max(RESERVED_LEVEL)
    }

    /// Returns the next slice of the run of level `first` or, if it is empty, of the next run.
    fn slice_of_run(&self, limits: &CompactionLimits, first: usize) -> Compaction {
        let level = self.runs().find(|&level| level >= first).unwrap_or(first);
        self.slice(limits, level, &self.version.levels[level], self.bottom())
    }

    /// Returns the next slice: those of the `files` of `level` with the smallest keys, and all
    /// tables down to `output_level` that they overlap.
    pub(super) fn slice(
        &self,
        limits: &CompactionLimits,
        level: usize,
        files: &[Arc<FileMeta>],
        output_level: usize,
    ) -> Compaction {
        let total = self.targets.size_of_levels(level..=output_level);
        let share =
            (u128::from(self.size(level)) * u128::from(limits.slice_bytes) / u128::from(total.max(1))) as u64;
        let mut bytes = 0;
        let files = files.iter().take_while(|file| {
            let is_within_share = bytes <= share;
            bytes = file.size.saturating_add(bytes);
            is_within_share
        });
        let files = files.cloned().collect();
        self.compact(CompactionReason::SortedRuns, level, output_level, files, limits)
    }

    fn move_level(&self, level: usize, output_level: usize, limits: &CompactionLimits) -> Compaction {
        let files = self.version.levels[level].clone();
        self.compact(CompactionReason::AddLevel, level, output_level, files, limits)
    }

    pub(super) fn compact(
        &self,
        reason: CompactionReason,
        level: usize,
        output_level: usize,
        files: Vec<Arc<FileMeta>>,
        limits: &CompactionLimits,
    ) -> Compaction {
        setup_other_inputs(self.version, reason, level, output_level, files, limits)
    }
}

/// Returns true if a run of `size` bytes is small enough for a compaction with `newer` bytes.
fn is_similar(size: u64, newer: u64) -> bool {
    size.saturating_mul(SIMILAR_RUN_RATIO.1) <= newer.saturating_mul(SIMILAR_RUN_RATIO.0)
}

#[cfg(test)]
mod tests {
    use super::super::leveled::tests::{LIMITS, set, text};
    use super::*;
    use crate::compaction::tree_simulation::SimulatedTree;

    const MB: u64 = 1 << 20;
    /// Numbers of the flushes in the texts of compactions.
    const FLUSHES: &str = "99 98 97 96 95 94 93 92 91 90 89 88";
    /// Bottom level that is not too large for level 5.
    const BOTTOM: &str = "5 1 1900 a@1 z@1";

    /// Twelve flushes of 6 MiB.
    fn flushes() -> String {
        (88..100).map(|number| format!("0 {number} 6 a@{number} z@{number}\n")).collect()
    }

    #[track_caller]
    fn check(files: &str, sliced: SlicedCompaction, expect: &str) {
        let version = set(files).version;
        let sliced = continue_sliced(&version, sliced, &LIMITS);
        assert_eq!(is_due(&version, sliced, &LIMITS), expect != "nothing");
        assert_eq!(text(pick(&version, sliced, &LIMITS)), expect);
    }

    #[track_caller]
    fn check_flushes(files: &str, sliced: SlicedCompaction, expect: &str) {
        check(&format!("{}{files}", flushes()), sliced, &format!("0 to {expect}"));
    }

    #[test]
    fn eleven_flushes_wait() {
        let eleven: Vec<_> = flushes().lines().skip(1).map(str::to_owned).collect();
        check(&eleven.join("\n"), None, "nothing");
    }

    #[test]
    fn six_small_flushes_become_a_run() {
        let limits = CompactionLimits { level_0: Level0Limits::for_memtable_size(100_000), ..LIMITS };
        for (count, due) in [(5, false), (6, true)] {
            let files = (0..count).map(|number| format!("0 {number} 1 a@{number} z@{number}\n"));
            let version = set(&files.collect::<String>()).version;
            assert_eq!(is_due(&version, None, &limits), due);
            assert_eq!(pick(&version, None, &limits).is_some(), due);
            assert_eq!(pending_bytes(&version, &limits), if due { 6 * MB } else { 0 });
        }
    }

    #[test]
    fn small_database_has_one_run() {
        check_flushes("", None, &format!("2: {FLUSHES} +  + , above "));
        check_flushes("2 1 90 a@1 z@1", None, &format!("2: {FLUSHES} +  + 1, above "));
    }

    #[test]
    fn flushes_become_the_newest_run() {
        check_flushes(BOTTOM, None, &format!("4: {FLUSHES} +  +  +  + , above 1"));
        check_flushes(
            &format!("4 2 200 a@2 z@2\n{BOTTOM}"),
            None,
            &format!("3: {FLUSHES} +  +  + , above 2"),
        );
    }

    #[test]
    fn run_of_similar_size_is_compacted_with_the_flushes() {
        let check = |runs: &str, expect: &str| {
            check_flushes(&format!("{runs}\n4 2 900 a@2 z@2\n{BOTTOM}"), None, expect);
        };
        check("2 4 55 a@4 z@4\n 3 3 200 a@3 z@3", &format!("2: {FLUSHES} +  + 4, above 3"));
        check("2 4 55 a@4 z@4\n 3 3 100 a@3 z@3", &format!("3: {FLUSHES} +  + 4 + 3, above 2"));
        check("3 3 57 a@3 z@3", &format!("3: {FLUSHES} +  +  + 3, above 2"));
        check("3 3 59 a@3 z@3", &format!("2: {FLUSHES} +  + , above 3"));
        let runs = "1 5 5 a@5 z@5\n 2 4 700 a@4 z@4\n 3 3 900 a@3 z@3";
        check(runs, &format!("2: {FLUSHES} + 5 + 4, above 3"));
    }

    #[test]
    fn levels_move_down_to_make_room() {
        check(&format!("{} 2 1 400 a@1 z@1", flushes()), None, "2 to 3: 1 + , above ");
        let runs = "2 3 70 a@3 z@3\n 6 1 9000 a@1 z@1";
        check(&format!("{} {runs}", flushes()), None, "2 to 5: 3 +  +  + , above 1");
    }

    #[test]
    fn bottom_level_makes_room_for_slices() {
        let limits = CompactionLimits { slice_bytes: 16 * MB, ..LIMITS };
        let version = set(&format!("{} 1 2 2 a@2 z@2\n 2 1 2 a@1 z@1", flushes())).version;
        assert_eq!(continue_sliced(&version, None, &limits), None);
        assert_eq!(text(pick(&version, None, &limits)), "2 to 3: 1 + , above ");
        let version = set(&format!("{} 1 2 1 a@2 z@2\n 2 1 2 a@1 z@1", flushes())).version;
        assert_eq!(text(pick(&version, None, &limits)), format!("0 to 1: {FLUSHES} + 2, above 1"));
    }

    #[test]
    fn large_runs_are_compacted_in_slices() {
        let bottom: String = (0..10).map(|n| format!("4 {n} 100 {n}a@1 {n}z@1\n")).collect();
        let run = |level: usize, megabytes: u64| -> String {
            (0..10).map(|n| format!("{level} {level}{n} {megabytes} {n}b@9 {n}y@9\n")).collect()
        };
        check(&format!("{bottom} {}", run(3, 74)), None, "nothing");
        let files = format!("{bottom} {}", run(3, 75));
        check(&files, None, "3 to 4: 30 31 + 0 1, above ");
        check(&format!("{bottom} {} {}", run(2, 25), run(3, 74)), None, "nothing");
        let files = format!("{bottom} {} {}", run(2, 25), run(3, 75));
        check(&files, None, "3 to 4: 30 31 + 0 1, above ");
        check(&format!("{bottom} 3 30 1 0b@9 0y@9"), Some(3), "3 to 4: 30 + 0, above ");
        check(&format!("{bottom} 2 20 1 0b@9 0y@9"), Some(3), "nothing");
    }

    #[test]
    fn flushes_go_above_a_sliced_compaction() {
        let flushes = |first| -> String {
            (first..100).map(|number| format!("0 {number} 6 a@{number} z@{number}\n")).collect()
        };
        let numbers: Vec<String> = (80..100).rev().map(|number| number.to_string()).collect();
        let numbers = numbers.join(" ");
        let runs = "2 3 300 a@3 z@3\n 3 2 900 a@2 z@2\n 4 1 1000 a@1 z@1";
        check(&format!("{}{runs}", flushes(81)), Some(3), "3 to 4: 2 + 1, above ");
        let runs_20 = format!("{}{runs}", flushes(80));
        check(&runs_20, Some(3), &format!("0 to 1: {numbers} + , above 3"));
        check(&format!("1 4 90 a@4 z@4\n{runs_20}"), Some(3), &format!("0 to 1: {numbers} + 4, above 3"));
        let long = "1 4 540 a@4 z@4\n 2 3 500 a@3 z@3\n 3 2 900 a@2 z@2\n 4 1 1000 a@1 z@1";
        check(&format!("{}{long}", flushes(85)), Some(3), "3 to 4: 2 + 1, above ");
        let numbers_of_16: Vec<String> = (84..100).rev().map(|number| number.to_string()).collect();
        let expect = format!("0 to 2: {} + 4 + 3, above 2", numbers_of_16.join(" "));
        check(&format!("{}{long}", flushes(84)), Some(3), &expect);
        let not_long = long.replace("500", "480");
        check(&format!("{}{not_long}", flushes(81)), Some(3), "3 to 4: 2 + 1, above ");
        let alone = format!("{} 3 2 900 a@2 z@2\n 4 1 1000 a@1 z@1", flushes(80));
        check(&alone, Some(3), &format!("0 to 2: {numbers} +  + , above 2"));
    }

    /// Simulates `count` flushes of 18 MiB of different keys. Returns the compacted bytes for each
    /// flushed byte, and the mean number of sorted runs.
    fn simulate(count: u64) -> (f64, f64) {
        const FLUSH: u64 = 18 * MB;
        let limits = CompactionLimits { scales_with_level: true, ..LIMITS };
        let mut tree = SimulatedTree::new(f64::INFINITY);
        let mut compacted = 0;
        let mut runs = 0;
        let mut sliced = None;
        for _ in 0..count {
            tree.flush(FLUSH as f64 / SimulatedTree::BYTES_PER_ENTRY);
            sliced = continue_sliced(&tree.set.version, sliced, &limits);
            while let Some(compaction) = pick(&tree.set.version, sliced, &limits) {
                compacted += tree.compact(&compaction).bytes_read;
                sliced = continue_sliced(&tree.set.version, sliced, &limits);
            }
            runs += tree.sorted_runs();
        }
        (compacted as f64 / (count * FLUSH) as f64, runs as f64 / count as f64)
    }

    #[test]
    fn compacted_bytes_grow_slowly_with_the_database() {
        for (flushes, max_compacted, max_runs) in [(30, 2.0, 6.5), (120, 2.8, 8.0), (500, 4.5, 9.5)] {
            let (compacted, runs) = simulate(flushes);
            println!("{flushes} flushes: {compacted:.2} bytes compacted, {runs:.1} runs");
            assert!(compacted <= max_compacted && runs <= max_runs, "{flushes}: {compacted:.2}, {runs:.1}");
        }
    }
}
