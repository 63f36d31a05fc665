//! A database in memory and everything that will happen to it, from one seed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_format::edit::VersionEdit;
use terrace_format::key::{MAX_SEQUENCE, Sequence};
use terrace_testkit::fabricate::Fabricated;
use terrace_testkit::model::Model;
use terrace_testkit::op::Op;
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Plan, shrink};
use terrace_testkit::settings::Settings;

use crate::runner::{message, quietly};
use crate::subject::{Engine, Threads, World};

/// Operations that a search for a shorter list may run in all: half a minute's worth.
const SHRINKING: usize = 1_000_000;

/// How many numbers a list of operations may use up, with room to spare.
const NUMBERS_PER_OPERATION: u64 = 64;

/// Values of which a few fill a file, and some hundreds a level: merges then find versions of one key in several files.
const LARGE: [u64; 2] = [50_000, 200_000];

/// Few enough keys for several versions of each, and enough bytes for several tables a level, when those are as small as
/// they may be.
const STRATA: (u64, [u64; 2]) = (100, [20_000, 60_000]);

/// What a life holds at most, in bytes, unless it is one of the few that may be heavy: most of its time would go by with
/// reading all of it after each upheaval.
const LIGHT: u64 = 500_000;

/// One case.
pub(super) struct Life {
    pub(super) plan: Plan,
    threads: Threads,
    /// The number of the last write that was made before.
    sequence: Sequence,
}

/// What went wrong, and where.
pub(super) struct Failure {
    at: usize,
    what: String,
}

impl Life {
    /// The life of `count` operations, or of fewer with large values, that `seed` stands for.
    pub(super) fn draw(seed: u64, count: usize) -> Life {
        let mut rng = Rng::new(!seed);
        let (large, heavy) = (rng.one_in(20), rng.one_in(10));
        let strata = rng.one_in(12);
        let count = if large || strata { count / 8 } else { count };
        let plan = Plan::draw(seed, count, |shape, settings| {
            shape.upheavals = !strata;
            if strata {
                shape.strata = true;
                (shape.keys, [shape.value_min, shape.value_max]) = STRATA;
                (settings.write_buffer_size, settings.max_file_size) = (64 << 10, 1 << 20);
            } else if large {
                (shape.keys, [shape.value_min, shape.value_max]) = (300, LARGE);
            } else if !heavy {
                shape.value_max = shape.value_max.min(LIGHT / shape.keys);
            }
        });
        let threads =
            rng.pick(&[Threads::None, Threads::None, Threads::None, Threads::Some(1 + seed as usize % 3)]);
        let last = MAX_SEQUENCE - count as u64 * NUMBERS_PER_OPERATION;
        Life { plan, threads, sequence: rng.pick(&[0, 0, 0, last]) }
    }

    /// A world in which `sequence` writes were made, and all that they wrote was deleted.
    pub(super) fn world(&self) -> Result<World, String> {
        let world = World::new(self.threads, self.plan.seed);
        if self.sequence == 0 {
            return Ok(world);
        }
        let edit = VersionEdit { last_sequence: Some(self.sequence), ..VersionEdit::default() };
        let mut record = Vec::new();
        edit.encode(&mut record);
        let order = self.plan.shape.order.comparator();
        let old = Fabricated::new().comparator(order.name()).manifest_record(&record);
        world.with(&old).map_err(|error| error.to_string())
    }

    /// Leads it with these operations instead of its own.
    pub(super) fn run(&self, ops: &[Op]) -> Result<(), Failure> {
        let fail = |what: String| Failure { at: ops.len(), what };
        let plan = Plan { ops: ops.to_vec(), ..self.plan.clone() };
        let run = || {
            let mut engine = Engine::in_memory(self.world().map_err(fail)?, &plan.settings)
                .map_err(|e| fail(e.to_string()))?;
            plan.run(&mut engine, &mut Model::new(plan.shape.order))
                .map_err(|report| Failure { at: report.at(), what: report.what().to_owned() })
        };
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(fail(format!("panic: {}", message(panic.as_ref())))))
    }

    /// True if no threads take part.
    #[cfg(test)]
    pub(super) fn is_alone(&self) -> bool {
        self.threads == Threads::None
    }

    /// The files that are there after all operations, with their lengths.
    #[cfg(test)]
    pub(super) fn leaves(&self) -> Vec<(String, u64)> {
        let mut engine = Engine::in_memory(self.world().unwrap(), &self.plan.settings).unwrap();
        self.plan.run(&mut engine, &mut Model::new(self.plan.shape.order)).unwrap();
        engine.files_and_lengths()
    }

    /// For a person: as few operations as it takes, unless it is to be `brief`, and what they find.
    pub(super) fn explain(&self, failure: &Failure, brief: bool) -> String {
        let until = (failure.at + 1).min(self.plan.ops.len());
        let ops = &self.plan.ops[..until];
        if brief {
            return self.last_of(ops, failure);
        }
        let alone = Life { plan: self.plan.clone(), threads: Threads::None, sequence: self.sequence };
        quietly(|| {
            let found = [self, &alone].into_iter().find(|life| life.run(ops).is_err());
            found.map_or_else(|| self.once(ops, failure), |life| life.shrunk(ops))
        })
    }

    /// What failed, and does not again.
    fn once(&self, ops: &[Op], failure: &Failure) -> String {
        self.last_of(ops, failure) + "\nbut not when it was repeated"
    }

    fn last_of(&self, ops: &[Op], failure: &Failure) -> String {
        let from = ops.len().saturating_sub(20);
        format!("{self}\n{}{}", list(&ops[from..], from), failure.what)
    }

    fn shrunk(&self, ops: &[Op]) -> String {
        let short = shrink(ops.to_vec(), SHRINKING, &mut |ops| self.run(ops).is_err());
        let found = self.run(&short).err().map_or("nothing, the last time".into(), |failure| failure.what);
        format!(
            "{self}\n{} operations, of {} that were made:\n{}{found}",
            short.len(),
            ops.len(),
            list(&short, 0)
        )
    }
}

fn list(ops: &[Op], from: usize) -> String {
    ops.iter().enumerate().map(|(at, op)| format!("{:6} {op}\n", from + at)).collect()
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Life { plan, threads, sequence } = self;
        let settings: &Settings = &plan.settings;
        write!(f, "[{settings}], background threads: {threads:?}, {sequence} writes before")
    }
}
