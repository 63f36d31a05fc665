//! What was done, counted by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is counted. A row: what the scoreboard calls it, and how many a recorded torture reaches at least.
macro_rules! figures {
    ($($(#[$doc:meta])* $figure:ident $name:literal $goal:literal,)*) => {
        /// What is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure { $($(#[$doc])* $figure,)* }

        /// Every figure, in the order in which a scoreboard shows them.
        pub static FIGURES: &[Figure] = &[$(Figure::$figure,)*];

        impl Figure {
            /// Its name in a scoreboard.
            pub fn name(self) -> &'static str {
                match self { $(Figure::$figure => $name,)* }
            }

            /// How many a recorded torture reaches at least; 0 where none was set.
            pub fn goal(self) -> u64 {
                match self { $(Figure::$figure => $goal,)* }
            }
        }
    };
}

figures! {
    /// Calls at which a workload was cut off.
    CrashPoints "crash_points" 20_000,
    /// Images that a crash might leave, opened and checked.
    CrashImages "crash_images" 1_000_000,
    /// Crashes in the recovery from a crash.
    NestedCrashes "nested_crashes" 0,
    /// Calls that were made to fail.
    ErrorsInjected "errors_injected" 50_000,
    /// Bits that were flipped in files at rest.
    BitFlips "bit_flips" 200_000,
    /// Operations compared with the model's answer.
    ModelOperations "model_ops" 50_000_000,
    /// Operations whose answers were the same under other options.
    SameAnswers "same_answers" 0,
    /// Models of a protocol explored to their end.
    LoomModels "loom_models" 12,
    /// Schedules and memory orders that this took.
    LoomExecutions "loom_executions" 0,
    /// Schedules of the whole engine.
    Schedules "schedules" 100_000,
    /// Recorded histories found linearizable.
    Histories "histories" 10_000,
    /// Among them those that had too many orders, and were judged key by key.
    HistoriesByKey "histories_by_key" 0,
    /// Inputs given to decoders and to the directory reader.
    FuzzRuns "fuzz_execs" 50_000_000,
    /// Those of them, a sample of those that have checksums, that were looked at for them ...
    FuzzSampled "fuzz_sampled" 0,
    /// ... and whose checksums were right.
    FuzzPassed "fuzz_passed" 0,
    /// Processes killed while they wrote.
    Kills "kills" 1_000,
    /// Writes that they had acknowledged, all found again.
    Acknowledged "acked" 5_000_000,
    /// Databases handed from Terrace to stock LevelDB or back.
    Relays "relays" 0,
    /// Damaged databases that both engines repaired.
    Repairs "repairs" 0,
}

/// Counters, and how much is to be made of a violation.
#[derive(Debug)]
pub struct Counters {
    counts: Vec<AtomicU64>,
    fail_fast: bool,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { counts: FIGURES.iter().map(|_| AtomicU64::new(0)).collect(), fail_fast: false }
    }
}

impl Counters {
    /// For a run that ends with the first violation, shown as it came.
    pub fn fail_fast() -> Counters {
        Counters { fail_fast: true, ..Counters::default() }
    }

    /// Whether nobody looks for a shorter way to the same violation.
    pub fn is_fail_fast(&self) -> bool {
        self.fail_fast
    }

    /// So many violations are enough.
    pub(crate) fn max_violations(&self) -> usize {
        if self.fail_fast { 1 } else { 3 }
    }

    /// Counts `more`.
    pub fn add(&self, figure: Figure, more: u64) {
        self.counts[figure as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self, figure: Figure) -> u64 {
        self.counts[figure as usize].load(Ordering::Relaxed)
    }
}
