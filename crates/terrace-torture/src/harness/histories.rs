//! Real threads on one database. The system chooses the schedule, and the checker judges the
//! recorded history.

use terrace_linearizability::runner::run_scenario;
use terrace_linearizability::scenario::{LARGE_SCENARIO, Scenario};

use super::Harness;
use crate::counters::{Counter, Counters};

pub(super) const HISTORIES: Harness = Harness {
    id: 21,
    name: "histories",
    property: "histories of up to eight real threads are linearizable",
    check_cases: 300,
    time_share: 19,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let report = run_scenario(&Scenario::draw(seed, &LARGE_SCENARIO))?;
    counters.add(Counter::Histories, 1);
    counters.add(Counter::HistoriesCheckedPerKey, u64::from(report.checked_per_key));
    Ok(())
}
