//! The whole engine under seeded schedules, in a program where shuttle replaces threads and locks.

use super::Harness;
use super::model_checker::ModelCheckerProgram;
use crate::counters::{Counter, Counters};

pub(super) const SCHEDULES: Harness = Harness {
    id: 20,
    name: "schedules",
    property: "histories are linearizable under seeded thread schedules",
    check_cases: 100,
    time_share: 10,
    run,
};

static PROGRAM: ModelCheckerProgram = ModelCheckerProgram::new("schedules", "shuttle");

/// Number of schedules for the scenario of one seed.
const SCHEDULES_PER_CASE: u64 = 200;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let output = PROGRAM.run(&[seed, SCHEDULES_PER_CASE])?;
    let schedules = output.split_whitespace().next().and_then(|count| count.parse().ok());
    counters.add(Counter::Schedules, schedules.ok_or("schedules: the output has no count of schedules")?);
    Ok(())
}
