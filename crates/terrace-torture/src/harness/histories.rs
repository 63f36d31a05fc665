//! Real threads on one database; the system draws the schedule, and the judge sees what came of it.

use terrace_linearizability::runner::run_scenario;
use terrace_linearizability::scenario::{LARGE_SCENARIO, Scenario};

use super::Harness;
use crate::counters::{Counters, Figure};

pub(super) const HISTORIES: Harness = Harness {
    id: 21,
    name: "histories",
    property: "what up to eight threads see has an order that explains it",
    check_cases: 300,
    time_share: 19,
    run,
};

fn run(seed: u64, tally: &Counters) -> Result<(), String> {
    let played = run_scenario(&Scenario::draw(seed, &LARGE_SCENARIO))?;
    tally.add(Figure::Histories, 1);
    tally.add(Figure::HistoriesByKey, u64::from(played.checked_per_key));
    Ok(())
}
