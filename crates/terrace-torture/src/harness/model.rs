//! Random operations under random options: every answer must be that of an ordered map.
//!
//! ```text
//!   model         files in memory, and upheavals: power cuts, repairs, copies; a quarter with threads of their own
//!   disk          the same on the machine's files, without upheavals
//!   metamorphic   the same operations under eight sets of options: the same answers
//! ```
//!
//! A list that fails is shrunk as long as it fails again, and shown whole.

mod life;
pub(super) mod metamorphic;

use std::path::Path;

use terrace::Env;
use terrace_testkit::model::Model;
use terrace_testkit::run::Plan;

use super::Harness;
use crate::subject::Engine;
use crate::tally::{Figure, Tally};
use life::Life;

/// Operations in a case in memory.
const OPERATIONS: usize = 20_000;

/// Operations in a case on disk.
const ON_DISK: usize = 8_000;

pub(super) const RANDOM: Harness = Harness {
    id: 1,
    name: "model",
    shows: "every answer is that of an ordered map, under any options, through any upheaval",
    check: 40,
    share: 60,
    run: random,
};

pub(super) const DISK: Harness = Harness {
    id: 3,
    name: "disk",
    shows: "every answer is that of an ordered map, on the machine's own files",
    check: 8,
    share: 1,
    run: disk,
};

fn random(seed: u64, tally: &Tally) -> Result<(), String> {
    let life = Life::draw(seed, OPERATIONS);
    life.run(&life.plan.ops).map_err(|failure| life.explain(&failure, tally.is_brief()))?;
    tally.add(Figure::ModelOperations, life.plan.ops.len() as u64);
    Ok(())
}

fn disk(seed: u64, tally: &Tally) -> Result<(), String> {
    let plan = Plan::draw(seed, ON_DISK, |shape, _| shape.sync_one_in = 500);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    run_on(&plan, dir.path()).map_err(|what| format!("on disk, {what}"))?;
    tally.add(Figure::ModelOperations, plan.ops.len() as u64);
    Ok(())
}

fn run_on(plan: &Plan, path: &Path) -> Result<(), String> {
    let opened = Engine::open(path, &plan.settings, &Env::system());
    let mut engine = opened.map_err(|error| error.to_string())?;
    plan.run(&mut engine, &mut Model::new(plan.shape.order)).map_err(|report| report.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use terrace_testkit::op::KINDS;

    use super::*;

    /// Each at least five times in the cases of one `check`, whatever its seeds.
    #[test]
    fn every_kind_of_operation_occurs() {
        let mut counts: BTreeMap<&str, usize> = KINDS.iter().map(|kind| (*kind, 0)).collect();
        for seed in 0..RANDOM.check {
            for op in Life::draw(seed, OPERATIONS).plan.ops {
                *counts.get_mut(op.kind()).unwrap_or_else(|| panic!("{} is not in KINDS", op.kind())) += 1;
            }
        }
        assert!(KINDS.len() >= 25);
        assert!(counts.values().all(|&count| count >= 5), "{counts:#?}");
    }

    /// Without threads a life leaves the same files behind each time: what a seed shows, it shows again.
    #[test]
    fn a_life_repeats_to_the_last_byte() {
        let alone = (0..).map(|seed| Life::draw(seed, 2_000)).filter(Life::is_alone);
        for life in alone.take(5) {
            assert_eq!(life.leaves(), life.leaves(), "{life}");
        }
    }

    #[test]
    fn a_case_repeats() {
        let of = |seed| {
            let life = Life::draw(seed, 500);
            (life.to_string(), life.plan.ops)
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
