//! Real threads on one database; the system draws the schedule, and the judge sees what came of it.

use terrace_races::play::play;
use terrace_races::scenario::{LARGE, Scenario};

use super::Harness;
use crate::tally::{Figure, Tally};

pub(super) const HISTORIES: Harness = Harness {
    id: 21,
    name: "histories",
    shows: "what up to eight threads see has an order that explains it",
    check: 300,
    share: 19,
    run,
};

fn run(seed: u64, tally: &Tally) -> Result<(), String> {
    let played = play(&Scenario::draw(seed, &LARGE))?;
    tally.add(Figure::Histories, 1);
    tally.add(Figure::HistoriesByKey, u64::from(played.by_key));
    Ok(())
}
