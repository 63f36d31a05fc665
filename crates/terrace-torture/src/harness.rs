//! The list of attacks.

use crate::counters::Counters;

#[cfg(target_os = "linux")]
pub(crate) mod alternate;
mod anomalies;
mod backups;
mod bit_rot;
mod clocks;
mod coverage_guided;
mod crash;
#[cfg(target_os = "linux")]
pub(crate) mod file_systems;
pub(crate) mod followers;
pub(crate) mod fork;
pub(crate) mod fuzz;
mod histories;
mod hostile_directories;
mod io_errors;
mod leveldb_interop;
mod loom_models;
mod model;
mod model_checker;
#[cfg(target_os = "linux")]
pub(crate) mod power_cuts;
pub(crate) mod process_kill;
mod readers;
mod recovery_crash;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod refusals;
mod schedules;
mod server_histories;

/// One attack. Each seed determines one case. Cases are independent and run on several threads.
#[derive(Debug)]
pub struct Harness {
    /// First byte of each seed of the attack; never used for another attack.
    pub id: u8,
    /// Name on the command line.
    pub name: &'static str,
    /// Property that the attack tests, in one line.
    pub property: &'static str,
    /// Number of cases in `check`. They take one or two seconds on two cores for most attacks, and
    /// tens of seconds for a few.
    pub check_cases: u64,
    /// Share of the time of `torture`, relative to other attacks; 0 if no cases exist besides those
    /// of `check`.
    pub time_share: u32,
    /// Runs the case of a seed, whose number it receives. Returns the violation as an error.
    pub run: fn(u64, &Counters) -> Result<(), String>,
}

/// All attacks.
pub static HARNESSES: &[Harness] = &[
    model::MODEL,
    model::MODEL_ON_DISK,
    model::metamorphic::METAMORPHIC,
    crash::CRASH,
    crash::SETTLE_CRASH,
    recovery_crash::RECOVERY_CRASH,
    io_errors::IO_ERRORS,
    bit_rot::BIT_ROT,
    clocks::CLOCKS,
    hostile_directories::HOSTILE_DIRECTORIES,
    schedules::SCHEDULES,
    histories::HISTORIES,
    server_histories::SERVER_HISTORIES,
    anomalies::ANOMALIES,
    backups::BACKUPS,
    loom_models::LOOM_MODELS,
    process_kill::PROCESS_KILL,
    process_kill::FAILED_SYNCS,
    process_kill::FULL_DISK,
    process_kill::concurrent_open::CONCURRENT_OPEN,
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    refusals::REFUSALS_HARNESS,
    fork::FORK,
    fork::DAEMON,
    followers::FOLLOWERS,
    #[cfg(target_os = "linux")]
    file_systems::FILE_SYSTEMS_HARNESS,
    #[cfg(target_os = "linux")]
    power_cuts::POWER_CUTS,
    leveldb_interop::ALTERNATE_WITH_LEVELDB,
    process_kill::LEVELDB_AFTER_CRASH,
    leveldb_interop::LEVELDB_AFTER_POWER_CUT,
    leveldb_interop::REPAIR_VS_LEVELDB,
    readers::READERS_OF_THE_FORMAT,
    #[cfg(target_os = "linux")]
    alternate::ALTERNATE,
    #[cfg(target_os = "linux")]
    alternate::interrupted_loads::INTERRUPTED_LOADS,
    fuzz::FUZZ,
    coverage_guided::COVERAGE_GUIDED,
];

/// Returns the attack with a name.
pub fn by_name(name: &str) -> Option<&'static Harness> {
    HARNESSES.iter().find(|harness| harness.name == name)
}

/// Returns true for the attack that needs libFuzzer, which some machines can't build.
pub fn needs_libfuzzer(harness: &Harness) -> bool {
    harness.id == coverage_guided::COVERAGE_GUIDED.id
}
