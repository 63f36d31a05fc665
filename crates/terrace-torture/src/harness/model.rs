//! Random operations under random options: every answer must equal that of an ordered map.
//!
//! ```text
//!   model           files in memory; power cuts, repairs and copies; some with background threads
//!   model-on-disk   the same on real files, without lifecycle events
//!   metamorphic     the same operations under eight sets of options: identical answers
//! ```
//!
//! A failing list of operations is shrunk while it still fails, and printed.

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

/// Number of operations in a case in memory.
const OPERATIONS_IN_MEMORY: usize = 20_000;

/// Number of operations in a case on disk.
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
    let case = ModelCase::draw(seed, OPERATIONS_IN_MEMORY);
    case.run(&case.workload.ops).map_err(|failure| case.explain(&failure, counters.is_fail_fast()))?;
    counters.add(Counter::ModelOperations, case.workload.ops.len() as u64);
    Ok(())
}

fn run_on_disk(seed: u64, counters: &Counters) -> Result<(), String> {
    let workload = Workload::draw(seed, OPERATIONS_ON_DISK, |params, _| params.sync_one_in = 500);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    run_workload(&workload, dir.path()).map_err(|message| format!("on disk, {message}"))?;
    counters.add(Counter::ModelOperations, workload.ops.len() as u64);
    Ok(())
}

fn run_workload(workload: &Workload, path: &Path) -> Result<(), String> {
    let opened = TerraceUnderTest::open(path, &workload.settings, &Env::system());
    let mut database = opened.map_err(|error| error.to_string())?;
    workload
        .run(&mut database, &mut Model::new(workload.params.comparator))
        .map_err(|report| report.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use terrace_testkit::op::OP_KINDS;

    use super::*;

    /// Each kind must occur at least five times in the cases of one `check`, for any seeds.
    #[test]
    fn every_kind_of_operation_occurs() {
        let mut counts: BTreeMap<&str, usize> = OP_KINDS.iter().map(|kind| (*kind, 0)).collect();
        for seed in 0..MODEL.check_cases {
            for op in ModelCase::draw(seed, OPERATIONS_IN_MEMORY).workload.ops {
                *counts.get_mut(op.kind()).unwrap_or_else(|| panic!("{} is not in OP_KINDS", op.kind())) += 1;
            }
        }
        assert!(OP_KINDS.len() >= 25);
        assert!(counts.values().all(|&count| count >= 5), "{counts:#?}");
    }

    /// Without threads, two runs of one seed leave the same files, so a seed repeats its failure.
    #[test]
    fn single_threaded_case_is_bytewise_deterministic() {
        let cases = (0..).map(|seed| ModelCase::draw(seed, 2_000)).filter(ModelCase::is_single_threaded);
        for case in cases.take(5) {
            assert_eq!(case.final_files(), case.final_files(), "{case}");
        }
    }

    #[test]
    fn case_is_deterministic() {
        let draw = |seed| {
            let case = ModelCase::draw(seed, 500);
            (case.to_string(), case.workload.ops)
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
