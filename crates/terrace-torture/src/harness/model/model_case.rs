//! A database in memory and all operations on it, from one seed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::CraftedDb;
use terrace_testkit::differential::{Workload, shrink};
use terrace_testkit::model::Model;
use terrace_testkit::op::{KeyPattern, Op};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use crate::database_under_test::{BackgroundThreads, SimulatedEnv, TerraceUnderTest};
use crate::runner::{panic_message, with_silenced_panics};

/// Total number of operations that shrinking may run, about half a minute.
const SHRINK_BUDGET: usize = 1_000_000;

/// Upper bound on the sequence numbers that one operation uses, with a margin.
const SEQUENCES_PER_OPERATION: u64 = 64;

/// Range of value lengths in bytes, so that a few values fill a table and some hundreds a level.
/// Compactions then find versions of one key in several tables.
const LARGE_VALUE_LENS: [u64; 2] = [50_000, 200_000];

/// Number of keys and range of value lengths in bytes. Few keys have several versions each, and the
/// values fill several tables per level at the smallest table size.
const MANY_VERSIONS_KEYS_AND_VALUE_LENS: (u64, [u64; 2]) = (100, [20_000, 60_000]);

/// Maximum size in bytes of the contents of most cases. Larger contents spend most of the time on
/// full scans after lifecycle events.
const MAX_CONTENT_BYTES: u64 = 500_000;

/// One case.
pub(super) struct ModelCase {
    pub(super) workload: Workload,
    background: BackgroundThreads,
    /// Sequence number of the last earlier write.
    initial_sequence: SequenceNumber,
}

/// A failed operation and its message.
pub(super) struct Failure {
    op_index: usize,
    message: String,
}

impl ModelCase {
    /// Draws a case of `count` operations, or of fewer with large values.
    pub(super) fn draw(seed: u64, count: usize) -> ModelCase {
        let mut rng = Rng::new(!seed);
        let large_values = rng.one_in(20);
        let unlimited = rng.one_in(10);
        let many_versions = rng.one_in(12);
        let count = if large_values || many_versions { count / 8 } else { count };
        let compactions = 1 + seed as usize % 3;
        let background = rng.pick(&[
            BackgroundThreads::Inline,
            BackgroundThreads::Inline,
            BackgroundThreads::Inline,
            BackgroundThreads::Pool(compactions),
            BackgroundThreads::PoolWithSlowTables(compactions),
        ]);
        let workload = Workload::draw(seed, count, |params, settings| {
            params.lifecycle_ops = !many_versions;
            if let BackgroundThreads::PoolWithSlowTables(_) = background {
                params.key_pattern = KeyPattern::Windows;
                params.keys = 1_000;
                settings.write_buffer_size = 4 << 10;
            }
            if many_versions {
                params.many_versions = true;
                params.keys = MANY_VERSIONS_KEYS_AND_VALUE_LENS.0;
                [params.value_min, params.value_max] = MANY_VERSIONS_KEYS_AND_VALUE_LENS.1;
                settings.write_buffer_size = 64 << 10;
                settings.max_file_size = 1 << 20;
            } else if large_values {
                params.keys = 300;
                [params.value_min, params.value_max] = LARGE_VALUE_LENS;
            } else if !unlimited {
                params.value_max = params.value_max.min(MAX_CONTENT_BYTES / params.keys);
            }
        });
        let last = MAX_SEQUENCE_NUMBER - count as u64 * SEQUENCES_PER_OPERATION;
        ModelCase { workload, background, initial_sequence: rng.pick(&[0, 0, 0, last]) }
    }

    /// Creates an environment in which `initial_sequence` earlier writes exist, all of them deleted
    /// again.
    pub(super) fn initial_env(&self) -> Result<SimulatedEnv, String> {
        let simulated = SimulatedEnv::new(self.background, self.workload.seed);
        if self.initial_sequence == 0 {
            return Ok(simulated);
        }
        let edit = VersionEdit { last_sequence: Some(self.initial_sequence), ..VersionEdit::default() };
        let mut record = Vec::new();
        edit.encode(&mut record);
        let comparator = self.workload.params.comparator.build();
        let files = CraftedDb::new().comparator(comparator.name()).manifest_record(&record);
        simulated.with_files(&files).map_err(|error| error.to_string())
    }

    /// Runs the given operations instead of the workload's. A panic is a failure.
    pub(super) fn run(&self, ops: &[Op]) -> Result<(), Failure> {
        catch_unwind(AssertUnwindSafe(|| self.run_or_panic(ops))).unwrap_or_else(|panic| {
            let message = format!("panic: {}", panic_message(panic.as_ref()));
            Err(Failure { op_index: ops.len(), message })
        })
    }

    fn run_or_panic(&self, ops: &[Op]) -> Result<(), Failure> {
        let fail = |message: String| Failure { op_index: ops.len(), message };
        let workload = Workload { ops: ops.to_vec(), ..self.workload.clone() };
        let simulated = self.initial_env().map_err(fail)?;
        let mut database = TerraceUnderTest::in_memory(simulated, &workload.settings)
            .map_err(|error| fail(error.to_string()))?;
        workload
            .run(&mut database, &mut Model::new(workload.params.comparator))
            .map_err(|report| Failure { op_index: report.op_index(), message: report.message().to_owned() })
    }

    /// Returns true if the case has no background threads.
    #[cfg(test)]
    pub(super) fn is_single_threaded(&self) -> bool {
        self.background == BackgroundThreads::Inline
    }

    /// Returns the names and lengths of the files after all operations.
    #[cfg(test)]
    pub(super) fn final_files(&self) -> Vec<(String, u64)> {
        let mut database =
            TerraceUnderTest::in_memory(self.initial_env().unwrap(), &self.workload.settings).unwrap();
        self.workload.run(&mut database, &mut Model::new(self.workload.params.comparator)).unwrap();
        database.files_and_lengths()
    }

    /// Describes a failure. Shrinks the operations first, unless `fail_fast` is set.
    pub(super) fn explain(&self, failure: &Failure, fail_fast: bool) -> String {
        let until = (failure.op_index + 1).min(self.workload.ops.len());
        let ops = &self.workload.ops[..until];
        if fail_fast {
            return self.describe_last_ops(ops, failure);
        }
        let single_threaded = ModelCase {
            workload: self.workload.clone(),
            background: BackgroundThreads::Inline,
            initial_sequence: self.initial_sequence,
        };
        with_silenced_panics(|| {
            let failing = [self, &single_threaded].into_iter().find(|case| case.run(ops).is_err());
            failing.map_or_else(
                || self.describe_unrepeatable(ops, failure),
                |case| case.shrink_and_describe(ops),
            )
        })
    }

    /// Describes a failure that did not happen again.
    fn describe_unrepeatable(&self, ops: &[Op], failure: &Failure) -> String {
        self.describe_last_ops(ops, failure) + "\nbut a second run did not fail"
    }

    fn describe_last_ops(&self, ops: &[Op], failure: &Failure) -> String {
        let first = ops.len().saturating_sub(20);
        format!("{self}\n{}{}", format_ops(&ops[first..], first), failure.message)
    }

    fn shrink_and_describe(&self, ops: &[Op]) -> String {
        let short = shrink(ops.to_vec(), SHRINK_BUDGET, &mut |ops| self.run(ops).is_err());
        let message =
            self.run(&short).err().map_or("the last run did not fail".into(), |failure| failure.message);
        format!(
            "{self}\n{} operations, shrunk from {}:\n{}{message}",
            short.len(),
            ops.len(),
            format_ops(&short, 0)
        )
    }
}

fn format_ops(ops: &[Op], first: usize) -> String {
    ops.iter().enumerate().map(|(index, op)| format!("{:6} {op}\n", first + index)).collect()
}

impl fmt::Display for ModelCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelCase { workload, background, initial_sequence } = self;
        let settings: &Settings = &workload.settings;
        write!(f, "[{settings}], background threads: {background:?}, {initial_sequence} earlier writes")
    }
}
