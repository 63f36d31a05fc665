//! The whole engine under schedules that a seed draws, in a program built with shuttle in the place of threads and locks.

use super::Harness;
use super::checker::Checker;
use crate::tally::{Figure, Tally};

pub(super) const SCHEDULES: Harness = Harness {
    id: 20,
    name: "schedules",
    shows: "no schedule of threads, of flushes and merges makes anybody see what was not",
    check: 100,
    share: 10,
    run,
};

static PROGRAM: Checker = Checker::new("schedules", "shuttle");

/// Of the scenario of one seed.
const SCHEDULES_IN_A_CASE: u64 = 200;

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let told = PROGRAM.run(&[seed, SCHEDULES_IN_A_CASE])?;
    let played = told.split_whitespace().next().and_then(|count| count.parse().ok());
    tally.add(Figure::Schedules, played.ok_or("schedules: no count of schedules")?);
    Ok(())
}
