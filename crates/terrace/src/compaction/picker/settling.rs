//! Compactions after a load: they leave few sorted runs, for the reads that follow.
//!
//! ```text
//!   level 0   flushes ────┐
//!   level 2   newer run ──┤
//!   level 4   older run   │
//!   level 5   bottom    <─┘   at most five times as large as all runs above it together
//! ```
//!
//! 1. The runs above a run are compacted into it if it is at most five times as large as they are
//!    together. A byte is then rewritten at most six times after each load, however often a program
//!    loads. Afterwards, each run is more than five times as large as all newer ones together, and
//!    level 0 has one run at most.
//! 2. Up to 1 GiB is one compaction. More is compacted in slices from the smallest keys to the
//!    largest, so that a new load has to wait for one slice only, and little space is used twice.
//!
//! During a load, [lazy leveling](super::lazy_leveled) leaves runs that are larger than their
//! targets. Leveled compaction would move them down level by level: after 75,000,000 random puts,
//! it rewrote more bytes than a compaction of the whole database, and left more runs.

use super::lazy_leveled::Tree;
use super::level_targets::LEVEL_SIZE_MULTIPLIER;
use crate::compaction::compaction_plan::{Compaction, CompactionLimits};
use crate::event::CompactionReason;
use crate::version::Version;

/// Number of slices whose bytes are compacted at once.
const SLICES_AT_ONCE: u64 = 4;

/// Level of the run that all newer runs are compacted into, if the tree is not settled. It is 0 if
/// level 0 becomes a run of its own.
pub(crate) type Settling = Option<usize>;

/// Begins, continues or ends the compactions after a load of `version`.
pub(crate) fn continue_settling(version: &Version, settling: Settling) -> Settling {
    let tree = Tree::new(version);
    if let Some(output_level) = settling
        && tree.runs().any(|level| level < output_level)
    {
        return settling;
    }
    let mut newer_bytes = tree.size(0);
    let mut output_level = None;
    for level in tree.runs().chain([tree.bottom()]) {
        let bytes = tree.size(level);
        if bytes > 0 && bytes <= newer_bytes.saturating_mul(LEVEL_SIZE_MULTIPLIER) {
            output_level = Some(level);
        }
        newer_bytes = newer_bytes.saturating_add(bytes);
    }
    output_level.or((version.level_0_runs() > 1).then_some(0))
}

/// Returns the next compaction. `settling` is the result of [`continue_settling`].
pub(crate) fn pick(version: &Version, settling: Settling, limits: &CompactionLimits) -> Option<Compaction> {
    let output_level = settling?;
    let tree = Tree::new(version);
    let bytes = (0..=output_level).fold(0u64, |sum, level| sum.saturating_add(tree.size(level)));
    let newest = (0..output_level).find(|&level| !version.levels[level].is_empty());
    if let Some(newest) = newest
        && bytes <= limits.slice_bytes.saturating_mul(SLICES_AT_ONCE)
    {
        let files = version.levels[newest].clone();
        return Some(tree.compact(CompactionReason::SortedRuns, newest, output_level, files, limits));
    }
    if version.level_0_runs() > 1 {
        return Some(tree.compact_flushes(None, limits));
    }
    let has_run = tree.runs().any(|level| level < output_level);
    has_run.then(|| tree.slice(limits, 1, output_level))
}

#[cfg(test)]
mod tests {
    use super::super::leveled::tests::{LIMITS, set, text};
    use super::*;
    use crate::compaction::tree_simulation::SimulatedTree;

    const MB: u64 = 1 << 20;

    #[track_caller]
    fn check(files: &str, settling: Settling, expect: &str) {
        let version = set(files).version;
        assert_eq!(text(pick(&version, continue_settling(&version, settling), &LIMITS)), expect);
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
        let two = "0 4 5 a@4 z@4\n 0 3 5 a@3 z@3\n";
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
        let two = "0 91 5 0a@9 9z@9\n 0 90 5 0a@9 9z@9\n";
        check(&format!("{two}{runs}"), None, "0 to 2: 91 90 +  + , above 30 31 32 33 34 35 36 37 38 39");
        let rest = format!("3 39 5 9a@3 9z@3\n 4 49 50 9a@4 9z@4\n {}", run(5, 150));
        check(&rest, None, "nothing");
        check(&rest, Some(5), "3 to 5: 39 + 49 + 59, above ");
        check(&run(5, 150), Some(5), "nothing");
    }

    /// Loads of one to sixteen flushes, each followed by the compactions. The tree has few runs, and
    /// each byte is rewritten a few times.
    #[test]
    fn repeated_loads_leave_few_runs() {
        const FLUSH: u64 = 18 * MB;
        for (loads, flushes, max_compacted, max_runs) in [(200, 1, 10.0, 4), (60, 4, 9.0, 3), (30, 16, 8.0, 2)]
        {
            let limits = CompactionLimits { scales_with_level: true, ..LIMITS };
            let mut tree = SimulatedTree::new(f64::INFINITY);
            let mut compacted = 0;
            for _ in 0..loads {
                for _ in 0..flushes {
                    tree.flush(FLUSH as f64 / SimulatedTree::BYTES_PER_ENTRY);
                }
                let mut settling = continue_settling(&tree.set.version, None);
                while let Some(compaction) = pick(&tree.set.version, settling, &limits) {
                    compacted += tree.compact(&compaction).bytes_read;
                    settling = continue_settling(&tree.set.version, settling);
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
