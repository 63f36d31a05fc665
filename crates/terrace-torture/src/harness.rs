//! The attacks, a row each.

use crate::tally::Tally;

mod checker;
mod clocks;
mod crash;
mod errors;
mod fuzz;
mod guided;
mod histories;
pub(crate) mod kills;
mod model;
mod nested;
mod protocols;
mod rot;
mod schedules;
mod stock;

/// One attack. A case is whatever one seed stands for; cases know nothing of each other and run on several threads.
#[derive(Debug)]
pub struct Harness {
    /// Names the attack in every seed of it: never given to another one.
    pub id: u8,
    /// What a command line calls it.
    pub name: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// Cases in `check`: a second or two of two cores for each attack, some tens for the great ones.
    pub check: u64,
    /// Its part of a torture's time, relative to the others'; 0 where there are no more cases than those of `check`.
    pub share: u32,
    /// Runs a case, counting what it did. The error says what was violated, for a person to read. A panic is one, too.
    pub run: fn(u64, &Tally) -> Result<(), String>,
}

/// Every attack.
pub static HARNESSES: &[Harness] = &[
    model::RANDOM,
    model::DISK,
    model::metamorphic::METAMORPHIC,
    crash::CRASH,
    nested::NESTED,
    errors::ERRORS,
    rot::ROT,
    clocks::CLOCKS,
    schedules::SCHEDULES,
    histories::HISTORIES,
    protocols::PROTOCOLS,
    kills::KILLS,
    kills::FAILED_SYNCS,
    kills::FULL_DISK,
    kills::openers::OPENERS,
    stock::RELAY,
    kills::HEIRS,
    stock::POWER_CUTS,
    stock::REPAIRS,
    fuzz::RANDOM,
    guided::GUIDED,
];

/// The attack of that name.
pub fn named(name: &str) -> Option<&'static Harness> {
    HARNESSES.iter().find(|harness| harness.name == name)
}

/// True for the attack that needs libFuzzer, which not every machine can build.
pub fn is_guided(harness: &Harness) -> bool {
    harness.id == guided::GUIDED.id
}
