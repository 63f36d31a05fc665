//! Small models of the engine's concurrency protocols. Loom explores every schedule, and every
//! value that the memory orders allow a load to see.

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

/// Runs all models in one case. Each is explored completely, so a second run would find nothing
/// new.
fn run(_seed: u64, counters: &Counters) -> Result<(), String> {
    let output = PROGRAM.run(&[])?;
    for line in output.lines() {
        let executions = line.split_whitespace().nth(1).and_then(|count| count.parse().ok());
        counters.add(Counter::LoomModels, 1);
        counters.add(
            Counter::LoomExecutions,
            executions.ok_or("loom_models: the output has no count of executions")?,
        );
    }
    Ok(())
}
