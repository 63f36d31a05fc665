//! A database in memory and everything that will happen to it, from one seed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::CraftedDb;
use terrace_testkit::differential::{Workload, shrink};
use terrace_testkit::model::Model;
use terrace_testkit::op::Op;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use crate::database_under_test::{BackgroundThreads, SimulatedEnv, TerraceUnderTest};
use crate::runner::{panic_message, with_silenced_panics};

/// Operations that a search for a shorter list may run in all: half a minute's worth.
const SHRINK_BUDGET: usize = 1_000_000;

/// How many numbers a list of operations may use up, with room to spare.
const SEQUENCES_PER_OPERATION: u64 = 64;

/// Values of which a few fill a file, and some hundreds a level: merges then find versions of one key in several files.
const LARGE_VALUE_LENS: [u64; 2] = [50_000, 200_000];

/// Few enough keys for several versions of each, and enough bytes for several tables a level, when those are as small as
/// they may be.
const MANY_VERSIONS_KEYS_AND_VALUE_LENS: (u64, [u64; 2]) = (100, [20_000, 60_000]);

/// What a life holds at most, in bytes, unless it is one of the few that may be heavy: most of its time would go by with
/// reading all of it after each upheaval.
const MAX_CONTENT_BYTES: u64 = 500_000;

/// One case.
pub(super) struct ModelCase {
    pub(super) workload: Workload,
    background: BackgroundThreads,
    /// The number of the last write that was made before.
    initial_sequence: SequenceNumber,
}

/// What went wrong, and where.
pub(super) struct Failure {
    op_index: usize,
    message: String,
}

impl ModelCase {
    /// The life of `count` operations, or of fewer with large values, that `seed` stands for.
    pub(super) fn draw(seed: u64, count: usize) -> ModelCase {
        let mut rng = Rng::new(!seed);
        let (large, heavy) = (rng.one_in(20), rng.one_in(10));
        let strata = rng.one_in(12);
        let count = if large || strata { count / 8 } else { count };
        let plan = Workload::draw(seed, count, |shape, settings| {
            shape.lifecycle_ops = !strata;
            if strata {
                shape.many_versions = true;
                (shape.keys, [shape.value_min, shape.value_max]) = MANY_VERSIONS_KEYS_AND_VALUE_LENS;
                (settings.write_buffer_size, settings.max_file_size) = (64 << 10, 1 << 20);
            } else if large {
                (shape.keys, [shape.value_min, shape.value_max]) = (300, LARGE_VALUE_LENS);
            } else if !heavy {
                shape.value_max = shape.value_max.min(MAX_CONTENT_BYTES / shape.keys);
            }
        });
        let threads = rng.pick(&[
            BackgroundThreads::Inline,
            BackgroundThreads::Inline,
            BackgroundThreads::Inline,
            BackgroundThreads::Pool(1 + seed as usize % 3),
        ]);
        let last = MAX_SEQUENCE_NUMBER - count as u64 * SEQUENCES_PER_OPERATION;
        ModelCase { workload: plan, background: threads, initial_sequence: rng.pick(&[0, 0, 0, last]) }
    }

    /// A world in which `sequence` writes were made, and all that they wrote was deleted.
    pub(super) fn initial_env(&self) -> Result<SimulatedEnv, String> {
        let world = SimulatedEnv::new(self.background, self.workload.seed);
        if self.initial_sequence == 0 {
            return Ok(world);
        }
        let edit = VersionEdit { last_sequence: Some(self.initial_sequence), ..VersionEdit::default() };
        let mut record = Vec::new();
        edit.encode(&mut record);
        let order = self.workload.params.comparator.build();
        let old = CraftedDb::new().comparator(order.name()).manifest_record(&record);
        world.with_files(&old).map_err(|error| error.to_string())
    }

    /// Leads it with these operations instead of its own.
    pub(super) fn run(&self, ops: &[Op]) -> Result<(), Failure> {
        let fail = |what: String| Failure { op_index: ops.len(), message: what };
        let plan = Workload { ops: ops.to_vec(), ..self.workload.clone() };
        let run = || {
            let mut engine = TerraceUnderTest::in_memory(self.initial_env().map_err(fail)?, &plan.settings)
                .map_err(|e| fail(e.to_string()))?;
            plan.run(&mut engine, &mut Model::new(plan.params.comparator)).map_err(|report| Failure {
                op_index: report.op_index(),
                message: report.message().to_owned(),
            })
        };
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(fail(format!("panic: {}", panic_message(panic.as_ref())))))
    }

    /// True if no threads take part.
    #[cfg(test)]
    pub(super) fn is_single_threaded(&self) -> bool {
        self.background == BackgroundThreads::Inline
    }

    /// The files that are there after all operations, with their lengths.
    #[cfg(test)]
    pub(super) fn final_files(&self) -> Vec<(String, u64)> {
        let mut engine =
            TerraceUnderTest::in_memory(self.initial_env().unwrap(), &self.workload.settings).unwrap();
        self.workload.run(&mut engine, &mut Model::new(self.workload.params.comparator)).unwrap();
        engine.files_and_lengths()
    }

    /// For a person: as few operations as it takes, unless it is to be `brief`, and what they find.
    pub(super) fn explain(&self, failure: &Failure, brief: bool) -> String {
        let until = (failure.op_index + 1).min(self.workload.ops.len());
        let ops = &self.workload.ops[..until];
        if brief {
            return self.describe_last_ops(ops, failure);
        }
        let alone = ModelCase {
            workload: self.workload.clone(),
            background: BackgroundThreads::Inline,
            initial_sequence: self.initial_sequence,
        };
        with_silenced_panics(|| {
            let found = [self, &alone].into_iter().find(|life| life.run(ops).is_err());
            found.map_or_else(
                || self.describe_unrepeatable(ops, failure),
                |life| life.shrink_and_describe(ops),
            )
        })
    }

    /// What failed, and does not again.
    fn describe_unrepeatable(&self, ops: &[Op], failure: &Failure) -> String {
        self.describe_last_ops(ops, failure) + "\nbut not when it was repeated"
    }

    fn describe_last_ops(&self, ops: &[Op], failure: &Failure) -> String {
        let from = ops.len().saturating_sub(20);
        format!("{self}\n{}{}", format_ops(&ops[from..], from), failure.message)
    }

    fn shrink_and_describe(&self, ops: &[Op]) -> String {
        let short = shrink(ops.to_vec(), SHRINK_BUDGET, &mut |ops| self.run(ops).is_err());
        let found = self.run(&short).err().map_or("nothing, the last time".into(), |failure| failure.message);
        format!(
            "{self}\n{} operations, of {} that were made:\n{}{found}",
            short.len(),
            ops.len(),
            format_ops(&short, 0)
        )
    }
}

fn format_ops(ops: &[Op], from: usize) -> String {
    ops.iter().enumerate().map(|(at, op)| format!("{:6} {op}\n", from + at)).collect()
}

impl fmt::Display for ModelCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelCase { workload: plan, background: threads, initial_sequence: sequence } = self;
        let settings: &Settings = &plan.settings;
        write!(f, "[{settings}], background threads: {threads:?}, {sequence} writes before")
    }
}
