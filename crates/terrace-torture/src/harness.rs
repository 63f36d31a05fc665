//! The attacks, a row each.

use crate::counters::Counters;

mod bit_rot;
mod clocks;
mod coverage_guided;
mod crash;
mod fuzz;
mod histories;
mod io_errors;
mod leveldb_interop;
mod loom_models;
mod model;
mod model_checker;
pub(crate) mod process_kill;
mod recovery_crash;
mod schedules;

/// One attack. A case is whatever one seed stands for; cases know nothing of each other and run on several threads.
#[derive(Debug)]
pub struct Harness {
    /// Names the attack in every seed of it: never given to another one.
    pub id: u8,
    /// What a command line calls it.
    pub name: &'static str,
    /// What it shows, in one line.
    pub property: &'static str,
    /// Cases in `check`: a second or two of two cores for each attack, some tens for the great ones.
    pub check_cases: u64,
    /// Its part of a torture's time, relative to the others'; 0 where there are no more cases than those of `check`.
    pub time_share: u32,
    /// Runs a case, counting what it did. The error says what was violated, for a person to read. A panic is one, too.
    pub run: fn(u64, &Counters) -> Result<(), String>,
}

/// Every attack.
pub static HARNESSES: &[Harness] = &[
    model::MODEL,
    model::MODEL_ON_DISK,
    model::metamorphic::METAMORPHIC,
    crash::CRASH,
    recovery_crash::RECOVERY_CRASH,
    io_errors::IO_ERRORS,
    bit_rot::BIT_ROT,
    clocks::CLOCKS,
    schedules::SCHEDULES,
    histories::HISTORIES,
    loom_models::LOOM_MODELS,
    process_kill::PROCESS_KILL,
    process_kill::FAILED_SYNCS,
    process_kill::FULL_DISK,
    process_kill::concurrent_open::CONCURRENT_OPEN,
    leveldb_interop::ALTERNATE_WITH_LEVELDB,
    process_kill::LEVELDB_AFTER_CRASH,
    leveldb_interop::LEVELDB_AFTER_POWER_CUT,
    leveldb_interop::REPAIR_VS_LEVELDB,
    fuzz::FUZZ,
    coverage_guided::COVERAGE_GUIDED,
];

/// The attack of that name.
pub fn by_name(name: &str) -> Option<&'static Harness> {
    HARNESSES.iter().find(|harness| harness.name == name)
}

/// True for the attack that needs libFuzzer, which not every machine can build.
pub fn needs_libfuzzer(harness: &Harness) -> bool {
    harness.id == coverage_guided::COVERAGE_GUIDED.id
}
