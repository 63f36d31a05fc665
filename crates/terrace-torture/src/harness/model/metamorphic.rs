//! The same operations under eight sets of options. The answers are compared with each other, so an
//! error in the model can't hide a bug.
//!
//! Power cuts come after a flush, because the extent of other losses is not promised. Sizes and
//! properties are not compared, because they depend on files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use terrace_testkit::differential::{DatabaseUnderTest, OpResult, Workload, shrink};
use terrace_testkit::op::{self, IteratorMove, LifecycleOp, Op, Slot, numbered_key};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use super::super::Harness;
use crate::counters::{Counter, Counters};
use crate::database_under_test::{BackgroundThreads, SimulatedEnv, TerraceUnderTest};
use crate::runner::with_silenced_panics;

/// Number of operations in a case, for each set of options.
const OPERATIONS_PER_VARIANT: usize = 5_000;

/// Number of sets of options.
const OPTION_VARIANTS: u64 = 8;

/// Total number of operations that shrinking may run.
const SHRINK_BUDGET: usize = 500_000;

/// Iterator slot that no operation uses.
const SCAN_SLOT: Slot = Slot::MAX;

pub(in super::super) const METAMORPHIC: Harness = Harness {
    id: 2,
    name: "metamorphic",
    property: "eight sets of options give identical answers",
    check_cases: 16,
    time_share: 2,
    run: run_case,
};

fn run_case(seed: u64, counters: &Counters) -> Result<(), String> {
    let workload = Workload::draw(seed, OPERATIONS_PER_VARIANT, |params, _| params.lifecycle_ops = true);
    let variants = OptionVariant::draw(&workload);
    let (first, others) = variants.split_first().ok_or("no sets of options")?;
    let answers = first.run(&workload.ops);
    for other in others {
        if other.run(&workload.ops) != answers {
            return Err(explain(&workload, first, other));
        }
    }
    counters.add(Counter::MetamorphicOperations, OPTION_VARIANTS * workload.ops.len() as u64);
    Ok(())
}

/// Returns the shrunk operations and the two different answers.
fn explain(workload: &Workload, one: &OptionVariant, other: &OptionVariant) -> String {
    let ops = with_silenced_panics(|| {
        shrink(workload.ops.clone(), SHRINK_BUDGET, &mut |ops| one.run(ops) != other.run(ops))
    });
    let answers = [one.run(&ops), other.run(&ops)];
    let [a, b] = &answers;
    let index = (0..ops.len()).find(|&index| a.get(index) != b.get(index)).unwrap_or(ops.len());
    let list: String = ops.iter().enumerate().map(|(index, op)| format!("{index:6} {op}\n")).collect();
    let [a, b] = answers.map(|answers| answers.get(index).cloned().unwrap_or_else(|| Ok("none".into())));
    format!(
        "{list}operation {index}:\n  [{}] answers {a:?}\n  [{}] answers {b:?}",
        one.settings, other.settings
    )
}

struct OptionVariant {
    settings: Settings,
    background: BackgroundThreads,
    seed: u64,
}

impl OptionVariant {
    fn draw(workload: &Workload) -> Vec<OptionVariant> {
        let mut rng = Rng::new(workload.seed ^ 0x5e75);
        let variants = (0..OPTION_VARIANTS).map(|index| OptionVariant {
            settings: Settings::draw_with_terrace_features(&mut rng, workload.params.comparator),
            background: if index == OPTION_VARIANTS - 1 {
                BackgroundThreads::Pool(2)
            } else {
                BackgroundThreads::Inline
            },
            seed: workload.seed ^ index,
        });
        variants.collect()
    }

    /// Returns the answer of each operation, up to the first failure.
    fn run(&self, ops: &[Op]) -> Vec<OpResult<String>> {
        let opened =
            TerraceUnderTest::in_memory(SimulatedEnv::new(self.background, self.seed), &self.settings);
        let mut database = match opened {
            Ok(database) => database,
            Err(error) => return vec![Err(error.to_string())],
        };
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops.iter().chain([&Op::Scan { snapshot: None }]) {
            let answer = self.apply(&mut database, op);
            let failed = answer.is_err();
            answers.push(answer);
            if failed {
                break;
            }
        }
        answers
    }

    fn apply(&self, database: &mut TerraceUnderTest, op: &Op) -> OpResult<String> {
        match op {
            Op::Put { key, value, sync } => database.put(key, &value.bytes(), *sync)?,
            Op::Delete { key, sync } => database.delete(key, *sync)?,
            Op::Batch { writes, sync } => database.write(writes, *sync)?,
            Op::Get { key, snapshot } => return Ok(digest(&database.get(key, *snapshot)?)),
            Op::MultiGet { first, count, snapshot } => {
                return multi_get(database, *first..first + count, *snapshot);
            }
            Op::Scan { snapshot } => return scan(database, *snapshot),
            Op::TakeSnapshot { slot } => database.take_snapshot(*slot),
            Op::ReleaseSnapshot { slot } => database.release_snapshot(*slot),
            Op::OpenIterator { slot, snapshot, range } => database.open_iterator(*slot, *snapshot, range),
            Op::MoveIterator { slot, movement } if database.has_iterator(*slot) => {
                return Ok(digest(&database.move_iterator(*slot, movement)?));
            }
            Op::MoveIterator { .. } => {}
            Op::CloseIterator { slot } => database.close_iterator(*slot),
            Op::Flush => database.flush()?,
            Op::CompactRange { begin, end } => database.compact_range(begin.as_deref(), end.as_deref())?,
            Op::DeleteRange { begin, end } => database.delete_range(begin.as_deref(), end.as_deref())?,
            Op::Ingest { entries } => {
                // Tombstones and snapshots of this run may refuse the table.
                if !database.ingest(entries)? {
                    database.bulk_load(entries)?;
                }
            }
            Op::BulkLoad { entries } => database.bulk_load(entries)?,
            Op::Reopen => database.reopen(&self.settings)?,
            Op::ReopenWith { seed } => {
                let mut rng = Rng::new(seed ^ self.seed);
                database.reopen(&Settings::draw_with_terrace_features(&mut rng, self.settings.comparator))?;
            }
            Op::ApproximateSize { begin, end } => drop(database.approximate_size(begin, end)?),
            Op::Property { name } => return Ok(database.property(name).is_some().to_string()),
            Op::Lifecycle(op) => self.run_lifecycle_op(database, *op)?,
        }
        Ok(String::new())
    }

    fn run_lifecycle_op(&self, database: &mut TerraceUnderTest, op: LifecycleOp) -> OpResult<()> {
        if op == LifecycleOp::PowerCut {
            database.flush()?;
        }
        database.run_lifecycle_op(op, &self.settings)?;
        if op == LifecycleOp::ReadOnly { database.reopen(&self.settings) } else { Ok(()) }
    }
}

fn multi_get(
    database: &mut TerraceUnderTest,
    numbers: Range<u64>,
    snapshot: Option<Slot>,
) -> OpResult<String> {
    let found = numbers.map(|number| database.get(&numbered_key(number), snapshot));
    Ok(digest(&found.collect::<OpResult<Vec<_>>>()?))
}

fn scan(database: &mut TerraceUnderTest, snapshot: Option<Slot>) -> OpResult<String> {
    database.open_iterator(SCAN_SLOT, snapshot, &op::IteratorBounds::default());
    let mut count = 0;
    let mut hasher = DefaultHasher::new();
    for (seek, step) in
        [(IteratorMove::SeekToFirst, IteratorMove::Next), (IteratorMove::SeekToLast, IteratorMove::Prev)]
    {
        let mut entry = database.move_iterator(SCAN_SLOT, &seek)?;
        while let Some(found) = entry {
            count += 1;
            found.hash(&mut hasher);
            entry = database.move_iterator(SCAN_SLOT, &step)?;
        }
    }
    database.close_iterator(SCAN_SLOT);
    Ok(format!("{count} entries both ways, digest {:x}", hasher.finish()))
}

fn digest(answer: &(impl Hash + std::fmt::Debug)) -> String {
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}
