//! The same operations under eight sets of options, compared with each other: no model that could be wrong, too.
//!
//! Power cuts come after a flush, for how much they take is nobody's promise; sizes and properties are not compared,
//! for they tell of files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use terrace_testkit::op::{self, Op, Slot, Step, Upheaval, ordinary_key};
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Answer, Plan, Subject, shrink};
use terrace_testkit::settings::Settings;

use super::super::Harness;
use crate::runner::quietly;
use crate::subject::{Engine, Threads, World};
use crate::tally::{Figure, Tally};

/// Operations in a case, under each set.
const OPERATIONS: usize = 5_000;

/// Sets of options.
const SETS: u64 = 8;

/// Operations that a search for a shorter list may run in all.
const SHRINKING: usize = 500_000;

/// A cursor's slot that no operation names.
const SCAN: Slot = Slot::MAX;

pub(in super::super) const METAMORPHIC: Harness = Harness {
    id: 2,
    name: "metamorphic",
    shows: "options change no answer: eight sets of them, byte for byte",
    check: 16,
    share: 2,
    run: metamorphic,
};

fn metamorphic(seed: u64, tally: &Tally) -> Result<(), String> {
    let plan = Plan::draw(seed, OPERATIONS, |shape, _| shape.upheavals = true);
    let sets = Set::draw(&plan);
    let (first, others) = sets.split_first().ok_or("no sets")?;
    let answers = first.answers(&plan.ops);
    for other in others {
        if other.answers(&plan.ops) != answers {
            return Err(explain(&plan, first, other));
        }
    }
    tally.add(Figure::SameAnswers, SETS * plan.ops.len() as u64);
    Ok(())
}

/// The operations that show the difference, and the two answers.
fn explain(plan: &Plan, one: &Set, other: &Set) -> String {
    let differ = |ops: &[Op]| one.answers(ops) != other.answers(ops);
    let short = quietly(|| shrink(plan.ops.clone(), SHRINKING, &mut |ops| differ(ops)));
    let (a, b) = (one.answers(&short), other.answers(&short));
    let at = (0..short.len()).find(|&at| a.get(at) != b.get(at)).unwrap_or(short.len());
    let list: String = short.iter().enumerate().map(|(at, op)| format!("{at:6} {op}\n")).collect();
    let [a, b] = [&a, &b].map(|answers| answers.get(at).cloned().unwrap_or_else(|| Ok("none".into())));
    format!("{list}operation {at}:\n  [{}] answers {a:?}\n  [{}] answers {b:?}", one.settings, other.settings)
}

struct Set {
    settings: Settings,
    threads: Threads,
    seed: u64,
}

impl Set {
    fn draw(plan: &Plan) -> Vec<Set> {
        let mut rng = Rng::new(plan.seed ^ 0x5e75);
        let set = |index| Set {
            settings: Settings::draw_own(&mut rng, plan.shape.order),
            threads: if index == SETS - 1 { Threads::Some(2) } else { Threads::None },
            seed: plan.seed ^ index,
        };
        (0..SETS).map(set).collect()
    }

    /// What each operation answers, until one fails.
    fn answers(&self, ops: &[Op]) -> Vec<Answer<String>> {
        let opened = Engine::in_memory(World::new(self.threads, self.seed), &self.settings);
        let mut engine = match opened {
            Ok(engine) => engine,
            Err(error) => return vec![Err(error.to_string())],
        };
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops.iter().chain([&Op::Scan { at: None }]) {
            let answer = self.answer(&mut engine, op);
            let failed = answer.is_err();
            answers.push(answer);
            if failed {
                break;
            }
        }
        answers
    }

    fn answer(&self, engine: &mut Engine, op: &Op) -> Answer<String> {
        match op {
            Op::Put { key, value, sync } => engine.put(key, &value.bytes(), *sync)?,
            Op::Delete { key, sync } => engine.delete(key, *sync)?,
            Op::Batch { writes, sync } => engine.write(writes, *sync)?,
            Op::Get { key, at } => return Ok(digest(&engine.get(key, *at)?)),
            Op::GetMany { first, count, at } => return get_many(engine, *first..first + count, *at),
            Op::Scan { at } => return scan(engine, *at),
            Op::Take { slot } => engine.take(*slot),
            Op::Release { slot } => engine.release(*slot),
            Op::Open { slot, at, range } => engine.open_cursor(*slot, *at, range),
            Op::Step { slot, step } if engine.has_cursor(*slot) => {
                return Ok(digest(&engine.step(*slot, step)?));
            }
            Op::Step { .. } => {}
            Op::Close { slot } => engine.close_cursor(*slot),
            Op::Flush => engine.flush()?,
            Op::Compact { begin, end } => engine.compact(begin.as_deref(), end.as_deref())?,
            Op::Erase { begin, end } => engine.erase(begin.as_deref(), end.as_deref())?,
            Op::Reopen => engine.reopen(&self.settings)?,
            Op::ReopenWith { seed } => {
                let mut rng = Rng::new(seed ^ self.seed);
                engine.reopen(&Settings::draw_own(&mut rng, self.settings.order))?;
            }
            Op::Size { begin, end } => drop(engine.size(begin, end)?),
            Op::Property { name } => return Ok(engine.property(name).is_some().to_string()),
            Op::Upheaval(what) => self.upheaval(engine, *what)?,
        }
        Ok(String::new())
    }

    fn upheaval(&self, engine: &mut Engine, what: Upheaval) -> Answer<()> {
        if what == Upheaval::PowerCut {
            engine.flush()?;
        }
        engine.upheaval(what, &self.settings)?;
        if what == Upheaval::ReadOnly { engine.reopen(&self.settings) } else { Ok(()) }
    }
}

fn get_many(engine: &mut Engine, numbers: Range<u64>, at: Option<Slot>) -> Answer<String> {
    let found = numbers.map(|number| engine.get(&ordinary_key(number), at));
    Ok(digest(&found.collect::<Answer<Vec<_>>>()?))
}

fn scan(engine: &mut Engine, at: Option<Slot>) -> Answer<String> {
    engine.open_cursor(SCAN, at, &op::Range::default());
    let (mut count, mut hasher) = (0, DefaultHasher::new());
    for (first, then) in [(Step::First, Step::Next), (Step::Last, Step::Prev)] {
        let mut entry = engine.step(SCAN, &first)?;
        while let Some(there) = entry {
            count += 1;
            there.hash(&mut hasher);
            entry = engine.step(SCAN, &then)?;
        }
    }
    engine.close_cursor(SCAN);
    Ok(format!("{count} entries both ways, digest {:x}", hasher.finish()))
}

fn digest(answer: &(impl Hash + std::fmt::Debug)) -> String {
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}
