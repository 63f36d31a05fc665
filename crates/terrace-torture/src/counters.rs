//! Counters of a run, which all of its threads increment.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares [`Counter`]. Each row gives the variant, its name on the scoreboard, and its goal.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident $name:literal $goal:literal,)*) => {
        /// Kind of event that a run counts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $counter,)* }

        /// All counters, in the order of the scoreboard.
        pub static COUNTERS: &[Counter] = &[$(Counter::$counter,)*];

        impl Counter {
            /// Returns the name of the counter on the scoreboard.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$counter => $name,)* }
            }

            /// Returns the minimum count of a recorded run of two hours, or 0 if there is no goal.
            pub fn goal(self) -> u64 {
                match self { $(Counter::$counter => $goal,)* }
            }
        }
    };
}

counters! {
    /// File system calls at which a workload was interrupted.
    CrashPoints "crash_points" 20_000,
    /// Crash images that were opened and checked.
    CrashImages "crash_images" 1_000_000,
    /// Crashes during the recovery from a crash.
    RecoveryCrashes "recovery_crashes" 0,
    /// File system calls that failed as planned.
    ErrorsInjected "errors_injected" 50_000,
    /// Flipped bits in the files of closed databases.
    BitFlips "bit_flips" 200_000,
    /// Directories with links and special files on which databases were opened and repaired.
    HostileDirectories "hostile_directories" 5_000,
    /// Operations whose answers were compared with the model.
    ModelOperations "model_ops" 50_000_000,
    /// Operations whose answers were compared between sets of options.
    MetamorphicOperations "metamorphic_ops" 0,
    /// Loom models that were explored completely.
    LoomModels "loom_models" 12,
    /// Executions of all loom models.
    LoomExecutions "loom_executions" 0,
    /// Seeded thread schedules of the whole engine.
    Schedules "schedules" 100_000,
    /// Recorded histories that were found linearizable.
    Histories "histories" 10_000,
    /// Histories that were too large for the full search and were checked key by key.
    HistoriesCheckedPerKey "histories_checked_per_key" 0,
    /// Committed transactions whose reads were checked.
    Transactions "transactions" 1_000_000,
    /// Transactions that a conflict or deadlock ended.
    TransactionConflicts "transaction_conflicts" 0,
    /// Write skews of transactions with snapshot isolation, which the check must be able to see.
    WriteSkews "write_skews" 1,
    /// Checkpoints whose states were checked.
    Checkpoints "checkpoints" 1_000,
    /// Restored backups whose states were checked.
    Restores "restores" 1_000,
    /// Inputs that fuzz targets checked.
    FuzzExecutions "fuzz_execs" 50_000_000,
    /// Sampled fuzz inputs of formats with checksums.
    FuzzChecksumsSampled "fuzz_checksums_sampled" 0,
    /// Sampled fuzz inputs whose checksums were valid.
    FuzzChecksumsValid "fuzz_checksums_valid" 0,
    /// States that followers showed and that were compared with the history of the writer.
    FollowedStates "followed_states" 100_000,
    /// Entries and gets of these states.
    FollowedReads "followed_reads" 100_000_000,
    /// Followers that noticed that their database was replaced.
    ReplacedDatabases "replaced_databases" 100,
    /// Writing processes that were killed.
    ProcessKills "process_kills" 1_000,
    /// Workloads that ran while the system refused a call, or under a limit.
    Refusals "refusals" 0,
    /// Forks of a process with running threads.
    Forks "forks" 10_000,
    /// Databases that were tested on a small disk of a real file system.
    FileSystems "file_systems" 0,
    /// Operations that found a disk of a real file system full.
    DiskFullErrors "disk_full_errors" 0,
    /// Writes of file systems to their recorded disks.
    RecordedWrites "recorded_writes" 0,
    /// Images of recorded disks after a power cut.
    PowerCuts "power_cuts" 0,
    /// Images of recorded disks that the system does not mount.
    UnmountableImages "unmountable_images" 0,
    /// Databases with unsynced writes without earlier ones, where that is a known limit.
    KnownHoles "known_holes" 0,
    /// Writes that killed processes had acknowledged and that were found again.
    AcknowledgedWrites "acked_writes" 5_000_000,
    /// Databases that one engine opened after the other had written them.
    LevelDbHandovers "leveldb_handovers" 0,
    /// Turns of engines that open one directory one after the other.
    EngineTurns "engine_turns" 10_000,
    /// Trees of interrupted loads with levels above LevelDB's limits.
    UnsettledTrees "unsettled_trees" 0,
    /// Acknowledged batches that LevelDB or goleveldb have lost without Terrace.
    KnownLosses "known_losses" 0,
    /// Damaged databases that both engines repaired.
    Repairs "repairs" 0,
    /// Databases of Terrace that another reader of the format opened.
    ReaderOpens "reader_opens" 0,
    /// Differences that a reader also shows for databases of LevelDB.
    KnownReaderDifferences "known_reader_differences" 0,
}

/// Counts of one run, and its limit of violations.
#[derive(Debug)]
pub struct Counters {
    counts: Vec<AtomicU64>,
    fail_fast: bool,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { counts: COUNTERS.iter().map(|_| AtomicU64::new(0)).collect(), fail_fast: false }
    }
}

impl Counters {
    /// Returns counters for a run that stops at the first violation and does not shrink it.
    pub fn fail_fast() -> Counters {
        Counters { fail_fast: true, ..Counters::default() }
    }

    /// Returns true if violations are not shrunk.
    pub fn is_fail_fast(&self) -> bool {
        self.fail_fast
    }

    /// Returns the number of violations after which an attack stops.
    #[cfg(unix)]
    pub(crate) fn max_violations(&self) -> usize {
        if self.fail_fast { 1 } else { 3 }
    }

    /// Adds `count` to a counter.
    pub fn add(&self, counter: Counter, count: u64) {
        self.counts[counter as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize].load(Ordering::Relaxed)
    }
}
