//! Random operations under random options: every answer must be that of an ordered map.
//!
//! ```text
//!   model         files in memory, and upheavals: power cuts, repairs, copies; a quarter with threads of their own
//!   disk          the same on the machine's files, without upheavals
//!   metamorphic   the same operations under eight sets of options: the same answers
//! ```
//!
//! A list that fails is shrunk as long as it fails again, and shown whole.

pub(super) mod metamorphic;
mod model_case;

use std::path::Path;

use terrace::Env;
use terrace_testkit::differential::Workload;
use terrace_testkit::model::Model;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::database_under_test::TerraceUnderTest;
use model_case::ModelCase;

/// Operations in a case in memory.
const OPERATIONS_IN_MEMORY: usize = 20_000;

/// Operations in a case on disk.
const OPERATIONS_ON_DISK: usize = 8_000;

pub(super) const MODEL: Harness = Harness {
    id: 1,
    name: "model",
    property: "every answer equals an ordered map's, under any options and lifecycle events",
    check_cases: 40,
    time_share: 60,
    run: run_in_memory,
};

pub(super) const MODEL_ON_DISK: Harness = Harness {
    id: 3,
    name: "model-on-disk",
    property: "every answer equals an ordered map's, on real files",
    check_cases: 8,
    time_share: 1,
    run: run_on_disk,
};

fn run_in_memory(seed: u64, counters: &Counters) -> Result<(), String> {
    let life = ModelCase::draw(seed, OPERATIONS_IN_MEMORY);
    life.run(&life.workload.ops).map_err(|failure| life.explain(&failure, counters.is_fail_fast()))?;
    counters.add(Counter::ModelOperations, life.workload.ops.len() as u64);
    Ok(())
}

fn run_on_disk(seed: u64, counters: &Counters) -> Result<(), String> {
    let plan = Workload::draw(seed, OPERATIONS_ON_DISK, |shape, _| shape.sync_one_in = 500);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    run_workload(&plan, dir.path()).map_err(|what| format!("on disk, {what}"))?;
    counters.add(Counter::ModelOperations, plan.ops.len() as u64);
    Ok(())
}

fn run_workload(plan: &Workload, path: &Path) -> Result<(), String> {
    let opened = TerraceUnderTest::open(path, &plan.settings, &Env::system());
    let mut engine = opened.map_err(|error| error.to_string())?;
    plan.run(&mut engine, &mut Model::new(plan.params.comparator)).map_err(|report| report.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use terrace_testkit::op::OP_KINDS;

    use super::*;

    /// Each at least five times in the cases of one `check`, whatever its seeds.
    #[test]
    fn every_kind_of_operation_occurs() {
        let mut counts: BTreeMap<&str, usize> = OP_KINDS.iter().map(|kind| (*kind, 0)).collect();
        for seed in 0..MODEL.check_cases {
            for op in ModelCase::draw(seed, OPERATIONS_IN_MEMORY).workload.ops {
                *counts.get_mut(op.kind()).unwrap_or_else(|| panic!("{} is not in KINDS", op.kind())) += 1;
            }
        }
        assert!(OP_KINDS.len() >= 25);
        assert!(counts.values().all(|&count| count >= 5), "{counts:#?}");
    }

    /// Without threads a life leaves the same files behind each time: what a seed shows, it shows again.
    #[test]
    fn single_threaded_case_is_bytewise_deterministic() {
        let alone = (0..).map(|seed| ModelCase::draw(seed, 2_000)).filter(ModelCase::is_single_threaded);
        for life in alone.take(5) {
            assert_eq!(life.final_files(), life.final_files(), "{life}");
        }
    }

    #[test]
    fn case_is_deterministic() {
        let of = |seed| {
            let life = ModelCase::draw(seed, 500);
            (life.to_string(), life.workload.ops)
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
