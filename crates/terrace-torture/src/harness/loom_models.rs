//! Small models of the engine's protocols, explored to their end by loom: every schedule, and every value that the memory
//! orders allow a load to see.

use super::Harness;
use super::model_checker::ModelCheckerProgram;
use crate::counters::{Counter, Counters};

pub(super) const LOOM_MODELS: Harness = Harness {
    id: 22,
    name: "loom-models",
    property: "each concurrency protocol is correct in every schedule of a small model",
    check_cases: 1,
    time_share: 0,
    run,
};

static PROGRAM: ModelCheckerProgram = ModelCheckerProgram::new("loom_models", "loom");

/// All models in one case: each is explored whole, so that a second time would show nothing new.
fn run(_seed: u64, counters: &Counters) -> Result<(), String> {
    let told = PROGRAM.run(&[])?;
    for line in told.lines() {
        let executions = line.split_whitespace().nth(1).and_then(|count| count.parse().ok());
        counters.add(Counter::LoomModels, 1);
        counters.add(Counter::LoomExecutions, executions.ok_or("models: no count of executions")?);
    }
    Ok(())
}
