//! The same operations under eight sets of options, compared with each other: no model that could be wrong, too.
//!
//! Power cuts come after a flush, for how much they take is nobody's promise; sizes and properties are not compared,
//! for they tell of files.

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

/// Operations in a case, under each set.
const OPERATIONS_PER_VARIANT: usize = 5_000;

/// Sets of options.
const OPTION_VARIANTS: u64 = 8;

/// Operations that a search for a shorter list may run in all.
const SHRINK_BUDGET: usize = 500_000;

/// A cursor's slot that no operation names.
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
    let plan = Workload::draw(seed, OPERATIONS_PER_VARIANT, |shape, _| shape.lifecycle_ops = true);
    let sets = OptionVariant::draw(&plan);
    let (first, others) = sets.split_first().ok_or("no sets")?;
    let answers = first.run(&plan.ops);
    for other in others {
        if other.run(&plan.ops) != answers {
            return Err(explain(&plan, first, other));
        }
    }
    counters.add(Counter::MetamorphicOperations, OPTION_VARIANTS * plan.ops.len() as u64);
    Ok(())
}

/// The operations that show the difference, and the two answers.
fn explain(plan: &Workload, one: &OptionVariant, other: &OptionVariant) -> String {
    let differ = |ops: &[Op]| one.run(ops) != other.run(ops);
    let short = with_silenced_panics(|| shrink(plan.ops.clone(), SHRINK_BUDGET, &mut |ops| differ(ops)));
    let (a, b) = (one.run(&short), other.run(&short));
    let at = (0..short.len()).find(|&at| a.get(at) != b.get(at)).unwrap_or(short.len());
    let list: String = short.iter().enumerate().map(|(at, op)| format!("{at:6} {op}\n")).collect();
    let [a, b] = [&a, &b].map(|answers| answers.get(at).cloned().unwrap_or_else(|| Ok("none".into())));
    format!("{list}operation {at}:\n  [{}] answers {a:?}\n  [{}] answers {b:?}", one.settings, other.settings)
}

struct OptionVariant {
    settings: Settings,
    background: BackgroundThreads,
    seed: u64,
}

impl OptionVariant {
    fn draw(plan: &Workload) -> Vec<OptionVariant> {
        let mut rng = Rng::new(plan.seed ^ 0x5e75);
        let set = |index| OptionVariant {
            settings: Settings::draw_with_terrace_features(&mut rng, plan.params.comparator),
            background: if index == OPTION_VARIANTS - 1 {
                BackgroundThreads::Pool(2)
            } else {
                BackgroundThreads::Inline
            },
            seed: plan.seed ^ index,
        };
        (0..OPTION_VARIANTS).map(set).collect()
    }

    /// What each operation answers, until one fails.
    fn run(&self, ops: &[Op]) -> Vec<OpResult<String>> {
        let opened =
            TerraceUnderTest::in_memory(SimulatedEnv::new(self.background, self.seed), &self.settings);
        let mut engine = match opened {
            Ok(engine) => engine,
            Err(error) => return vec![Err(error.to_string())],
        };
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops.iter().chain([&Op::Scan { snapshot: None }]) {
            let answer = self.apply(&mut engine, op);
            let failed = answer.is_err();
            answers.push(answer);
            if failed {
                break;
            }
        }
        answers
    }

    fn apply(&self, engine: &mut TerraceUnderTest, op: &Op) -> OpResult<String> {
        match op {
            Op::Put { key, value, sync } => engine.put(key, &value.bytes(), *sync)?,
            Op::Delete { key, sync } => engine.delete(key, *sync)?,
            Op::Batch { writes, sync } => engine.write(writes, *sync)?,
            Op::Get { key, snapshot: at } => return Ok(digest(&engine.get(key, *at)?)),
            Op::MultiGet { first, count, snapshot: at } => {
                return get_many(engine, *first..first + count, *at);
            }
            Op::Scan { snapshot: at } => return scan(engine, *at),
            Op::TakeSnapshot { slot } => engine.take_snapshot(*slot),
            Op::ReleaseSnapshot { slot } => engine.release_snapshot(*slot),
            Op::OpenIterator { slot, snapshot: at, range } => engine.open_iterator(*slot, *at, range),
            Op::MoveIterator { slot, movement: step } if engine.has_iterator(*slot) => {
                return Ok(digest(&engine.move_iterator(*slot, step)?));
            }
            Op::MoveIterator { .. } => {}
            Op::CloseIterator { slot } => engine.close_iterator(*slot),
            Op::Flush => engine.flush()?,
            Op::CompactRange { begin, end } => engine.compact_range(begin.as_deref(), end.as_deref())?,
            Op::DeleteRange { begin, end } => engine.delete_range(begin.as_deref(), end.as_deref())?,
            Op::Reopen => engine.reopen(&self.settings)?,
            Op::ReopenWith { seed } => {
                let mut rng = Rng::new(seed ^ self.seed);
                engine.reopen(&Settings::draw_with_terrace_features(&mut rng, self.settings.comparator))?;
            }
            Op::ApproximateSize { begin, end } => drop(engine.approximate_size(begin, end)?),
            Op::Property { name } => return Ok(engine.property(name).is_some().to_string()),
            Op::Lifecycle(what) => self.run_lifecycle_op(engine, *what)?,
        }
        Ok(String::new())
    }

    fn run_lifecycle_op(&self, engine: &mut TerraceUnderTest, what: LifecycleOp) -> OpResult<()> {
        if what == LifecycleOp::PowerCut {
            engine.flush()?;
        }
        engine.run_lifecycle_op(what, &self.settings)?;
        if what == LifecycleOp::ReadOnly { engine.reopen(&self.settings) } else { Ok(()) }
    }
}

fn get_many(engine: &mut TerraceUnderTest, numbers: Range<u64>, at: Option<Slot>) -> OpResult<String> {
    let found = numbers.map(|number| engine.get(&numbered_key(number), at));
    Ok(digest(&found.collect::<OpResult<Vec<_>>>()?))
}

fn scan(engine: &mut TerraceUnderTest, at: Option<Slot>) -> OpResult<String> {
    engine.open_iterator(SCAN_SLOT, at, &op::IteratorBounds::default());
    let (mut count, mut hasher) = (0, DefaultHasher::new());
    for (first, then) in
        [(IteratorMove::SeekToFirst, IteratorMove::Next), (IteratorMove::SeekToLast, IteratorMove::Prev)]
    {
        let mut entry = engine.move_iterator(SCAN_SLOT, &first)?;
        while let Some(there) = entry {
            count += 1;
            there.hash(&mut hasher);
            entry = engine.move_iterator(SCAN_SLOT, &then)?;
        }
    }
    engine.close_iterator(SCAN_SLOT);
    Ok(format!("{count} entries both ways, digest {:x}", hasher.finish()))
}

fn digest(answer: &(impl Hash + std::fmt::Debug)) -> String {
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}
