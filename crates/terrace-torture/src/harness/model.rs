//! Random operations under random options: every answer must be the model's.

use std::path::Path;

use terrace::Env;
use terrace_testkit::model::Model;
use terrace_testkit::run::Plan;

use super::Harness;
use crate::subject::Engine;
use crate::tally::{Figure, Tally};

/// Operations in a case.
const OPERATIONS: usize = 20_000;

pub(super) const RANDOM: Harness = Harness {
    id: 1,
    name: "model",
    shows: "every answer is that of an ordered map, under any options",
    check: 40,
    share: 10,
    run: random,
};

fn random(seed: u64, tally: &Tally) -> Result<(), String> {
    let plan = Plan::draw(seed, OPERATIONS, |_, _| ());
    let mut engine =
        Engine::open(Path::new("/db"), &plan.settings, &Env::memory()).map_err(|error| error.to_string())?;
    plan.run(&mut engine, &mut Model::new(plan.shape.order)).map_err(|report| report.to_string())?;
    tally.add(Figure::ModelOperations, OPERATIONS as u64);
    Ok(())
}
