//! Runs operations on a database and on the model, and compares every answer.

use std::ops::Range as Span;

use crate::model::Model;
use crate::op::{Op, Range, Shape, Slot, Source, Step, Upheaval, Value, Write, is_property, ordinary_key};
use crate::rng::{Rng, splitmix};
use crate::settings::Settings;

mod report;
mod shrink;

pub use report::Report;
use report::{show_entry, show_expected, show_expected_entry, show_value};
pub use shrink::shrink;

/// What a database answers: something, or why not.
pub type Answer<T> = Result<T, String>;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A database under test. Slots that a call names are filled, except those it fills.
pub trait Subject {
    /// Gives a key a value.
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Answer<()>;
    /// Removes a key.
    fn delete(&mut self, key: &[u8], sync: bool) -> Answer<()>;
    /// Makes some changes at once.
    fn write(&mut self, writes: &[Write], sync: bool) -> Answer<()>;
    /// Looks a key up.
    fn get(&mut self, key: &[u8], at: Option<Slot>) -> Answer<Option<Vec<u8>>>;
    /// Takes a snapshot into a slot.
    fn take(&mut self, slot: Slot);
    /// Drops the snapshot of a slot.
    fn release(&mut self, slot: Slot);
    /// Opens a cursor in a slot.
    fn open_cursor(&mut self, slot: Slot, at: Option<Slot>, range: &Range);
    /// Moves a cursor and says where it stands.
    fn step(&mut self, slot: Slot, step: &Step) -> Answer<Option<Entry>>;
    /// Drops the cursor of a slot.
    fn close_cursor(&mut self, slot: Slot);
    /// Empties the memtable.
    fn flush(&mut self) -> Answer<()>;
    /// Compacts a range.
    fn compact(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()>;
    /// Drops every snapshot and cursor, closes, and opens again.
    fn reopen(&mut self, settings: &Settings) -> Answer<()>;
    /// The approximate size of a range in bytes.
    fn size(&mut self, begin: &[u8], end: &[u8]) -> Answer<u64>;
    /// A property's text.
    fn property(&mut self, name: &str) -> Option<String>;
    /// Drops every snapshot and cursor, lets it happen, and opens the database. Only for those in memory.
    fn upheaval(&mut self, what: Upheaval, _: &Settings) -> Answer<()> {
        Err(format!("not to be had here: {what}"))
    }
}

/// A run before it starts: everything that a seed stands for.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// What its operations are like.
    pub shape: Shape,
    /// The options that the database is opened with first.
    pub settings: Settings,
    /// The operations.
    pub ops: Vec<Op>,
}

impl Plan {
    /// A random plan of `count` operations; `adjust` may change what the seed chose before the operations are drawn.
    pub fn draw(seed: u64, count: usize, adjust: impl FnOnce(&mut Shape, &mut Settings)) -> Plan {
        let mut rng = Rng::new(seed);
        let mut shape = Shape::draw(&mut rng);
        let mut settings = Settings::draw_own(&mut rng, shape.order);
        adjust(&mut shape, &mut settings);
        settings.zstd &= shape.own;
        let ops = Source::new(rng.next_u64(), shape).take(count).collect();
        Plan { seed, shape, settings, ops }
    }

    /// The writes that it makes, in their order.
    pub fn writes(&self) -> impl Iterator<Item = Write> {
        self.ops.iter().flat_map(Op::writes)
    }

    /// Runs it on a database opened with its settings. The error is a report for a person to read.
    pub fn run(&self, subject: &mut dyn Subject, model: &mut Model) -> Result<(), Report<'_>> {
        self.run_part(0..self.ops.len(), subject, model)
    }

    /// Runs some of the operations, then compares the whole contents.
    pub fn run_part(
        &self,
        part: Span<usize>,
        subject: &mut dyn Subject,
        model: &mut Model,
    ) -> Result<(), Report<'_>> {
        let mut run = Run { subject, model, settings: self.settings.clone(), own: self.shape.own };
        let end = part.end;
        for at in part {
            run.apply(&self.ops[at]).map_err(|what| Report { plan: self, at, what })?;
        }
        compare(run.subject, run.model).map_err(|what| Report { plan: self, at: end, what })
    }
}

/// Compares the whole contents: a scan both ways, and a look-up of every key that was ever written.
pub fn compare(subject: &mut dyn Subject, model: &mut Model) -> Answer<()> {
    let keys = model.keys_ever();
    let mut run = Run { subject, model, settings: Settings::default(), own: false };
    run.scan(None)?;
    keys.iter().try_for_each(|key| {
        run.get(key, None).map_err(|what| format!("get \"{}\": {what}", key.escape_ascii()))
    })
}

/// The seeds that a test runs: `count` of its own, or the one in `TERRACE_SEED`, decimal or `0x` and hexadecimal.
///
/// `name` keeps the seeds of different tests apart.
pub fn seeds(name: &str, count: usize) -> Vec<u64> {
    if let Ok(text) = std::env::var("TERRACE_SEED") {
        return vec![parse_seed(&text).expect("TERRACE_SEED is a number")];
    }
    let mut state = name.bytes().fold(0, |state: u64, byte| state.wrapping_mul(31) + u64::from(byte));
    (0..count).map(|_| splitmix(&mut state)).collect()
}

fn parse_seed(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The cursor's slot that a comparison of everything uses.
const SCAN: Slot = Slot::MAX;

struct Run<'a> {
    subject: &'a mut dyn Subject,
    model: &'a mut Model,
    settings: Settings,
    /// Whether other options may be such as only Terrace has.
    own: bool,
}

impl Run<'_> {
    fn apply(&mut self, op: &Op) -> Answer<()> {
        match op {
            Op::Put { key, value, sync } => {
                self.subject.put(key, &value.bytes(), *sync)?;
                self.model.set(key, Some(*value));
                self.settle_if(*sync);
            }
            Op::Delete { key, sync } => {
                self.subject.delete(key, *sync)?;
                self.model.set(key, None);
                self.settle_if(*sync);
            }
            Op::Batch { writes, sync } => {
                self.subject.write(writes, *sync)?;
                self.model.write(writes);
                self.settle_if(*sync);
            }
            Op::Get { key, at } => self.get(key, self.filled(*at))?,
            Op::GetMany { first, count, at } => self.get_many(*first..first + count, self.filled(*at))?,
            Op::Scan { at } => self.scan(self.filled(*at))?,
            Op::Take { slot } => {
                self.subject.take(*slot);
                self.model.take(*slot);
            }
            Op::Release { slot } => {
                self.subject.release(*slot);
                self.model.release(*slot);
            }
            Op::Open { slot, at, range } => self.open(*slot, self.filled(*at), range),
            Op::Step { slot, step } => self.step(*slot, step)?,
            Op::Close { slot } => self.close(*slot),
            Op::Flush => {
                self.subject.flush()?;
                self.model.settle();
            }
            Op::Compact { begin, end } => {
                self.subject.compact(begin.as_deref(), end.as_deref())?;
                self.model.settle();
            }
            Op::Reopen => self.reopen()?,
            Op::ReopenWith { seed } => {
                self.settings = Settings::draw_own(&mut Rng::new(*seed), self.model.order());
                self.settings.zstd &= self.own;
                self.reopen()?;
            }
            Op::Size { begin, end } => self.size(begin, end)?,
            Op::Property { name } => self.property(name)?,
            Op::Upheaval(what) => self.upheaval(*what)?,
        }
        Ok(())
    }

    fn settle_if(&mut self, sync: bool) {
        if sync {
            self.model.settle();
        }
    }

    fn filled(&self, at: Option<Slot>) -> Option<Slot> {
        at.filter(|slot| self.model.has_snapshot(*slot))
    }

    fn get(&mut self, key: &[u8], at: Option<Slot>) -> Answer<()> {
        let found = self.subject.get(key, at)?;
        let expected = self.model.get(key, at);
        let same = match (&found, expected) {
            (Some(found), Some(expected)) => expected.is(found),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if same {
            return Ok(());
        }
        Err(format!("found {}, expected {}", show_value(found.as_deref()), show_expected(expected)))
    }

    fn get_many(&mut self, numbers: Span<u64>, at: Option<Slot>) -> Answer<()> {
        numbers.map(ordinary_key).try_for_each(|key| {
            self.get(&key, at).map_err(|what| format!("get \"{}\": {what}", key.escape_ascii()))
        })
    }

    fn open(&mut self, slot: Slot, at: Option<Slot>, range: &Range) {
        self.subject.open_cursor(slot, at, range);
        self.model.open(slot, at, range);
    }

    fn close(&mut self, slot: Slot) {
        self.subject.close_cursor(slot);
        self.model.close(slot);
    }

    fn step(&mut self, slot: Slot, step: &Step) -> Answer<()> {
        if self.model.may_step(slot, step) { self.step_both(slot, step) } else { Ok(()) }
    }

    fn step_both(&mut self, slot: Slot, step: &Step) -> Answer<()> {
        let found = self.subject.step(slot, step)?;
        let expected = self.model.step(slot, step);
        check_entry(step, found.as_ref(), expected)
    }

    /// Every entry, both ways.
    fn scan(&mut self, at: Option<Slot>) -> Answer<()> {
        let Run { subject, model, .. } = self;
        subject.open_cursor(SCAN, at, &Range::default());
        let forward = walk(*subject, [Step::First, Step::Next], model.scan(at));
        let both = forward.and_then(|()| walk(*subject, [Step::Last, Step::Prev], model.scan(at).rev()));
        subject.close_cursor(SCAN);
        both.map_err(|what| format!("scan: {what}"))
    }

    fn reopen(&mut self) -> Answer<()> {
        self.model.forget_readers();
        self.subject.reopen(&self.settings)?;
        self.model.settle();
        self.scan(None)
    }

    fn upheaval(&mut self, what: Upheaval) -> Answer<()> {
        self.model.forget_readers();
        self.subject.upheaval(what, &self.settings)?;
        match what {
            Upheaval::PowerCut => self.go_back()?,
            Upheaval::Destroy => self.model.clear(),
            Upheaval::ReadOnly => {
                self.scan(None)?;
                self.subject.reopen(&self.settings)?;
            }
            _ => {}
        }
        self.model.settle();
        self.scan(None)
    }

    /// Finds out which writes a power cut took away.
    fn go_back(&mut self) -> Answer<()> {
        let (unsettled, before) = (self.model.unsettled(), self.model.scan(None).count());
        self.subject.open_cursor(SCAN, None, &Range::default());
        let mut found = Vec::new();
        let mut next = self.subject.step(SCAN, &Step::First)?;
        while let Some(entry) = next {
            found.push(entry);
            next = self.subject.step(SCAN, &Step::Next)?;
        }
        self.subject.close_cursor(SCAN);
        let count = found.len();
        let lost = self.model.go_back_to(&found);
        lost.map(drop).ok_or_else(|| {
            format!(
                "found {count} entries after the power cut, {before} before it; expected the state before \
                 some of the last {unsettled} writes, batches whole"
            )
        })
    }

    /// The figure is an estimate of what lies on disk, so only an empty range has a known answer.
    fn size(&mut self, begin: &[u8], end: &[u8]) -> Answer<()> {
        let size = self.subject.size(begin, end)?;
        let empty = self.model.order().comparator().compare(begin, end).is_ge();
        if empty && size != 0 { Err(format!("{size} bytes in an empty range")) } else { Ok(()) }
    }

    fn property(&mut self, name: &str) -> Answer<()> {
        match (self.subject.property(name), is_property(name)) {
            (None, true) => Err(format!("property {name} is not known")),
            (Some(text), false) => Err(format!("property {name} is {text}, expected none")),
            _ => Ok(()),
        }
    }
}

/// Moves the cursor of a scan over all that is expected, and once more: the first movement, then the others.
fn walk<'a>(
    subject: &mut dyn Subject,
    [first, then]: [Step; 2],
    expected: impl Iterator<Item = (&'a [u8], Value)>,
) -> Answer<()> {
    let mut step = &first;
    for expected in expected.map(Some).chain([None]) {
        check_entry(step, subject.step(SCAN, step)?.as_ref(), expected)?;
        step = &then;
    }
    Ok(())
}

fn check_entry(step: &Step, found: Option<&Entry>, expected: Option<(&[u8], Value)>) -> Answer<()> {
    let same = match (found, expected) {
        (Some((key, value)), Some((right_key, right))) => key == right_key && right.is(value),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    if same {
        return Ok(());
    }
    Err(format!("{step} found {}, expected {}", show_entry(found), show_expected_entry(expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_its_seed() {
        let draw = |seed| Plan::draw(seed, 50, |_, _| ()).ops;
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn seeds_are_numbers_of_either_base() {
        assert_eq!((parse_seed("0xff"), parse_seed("255"), parse_seed("x")), (Some(255), Some(255), None));
    }

    #[test]
    fn a_report_says_how_to_repeat_it() {
        let plan = Plan::draw(0xabc, 3, |_, _| ());
        let text = Report { plan: &plan, at: 1, what: "found x".into() }.to_string();
        assert!(text.starts_with("TERRACE_SEED=0xabc repeats this: operation 1 of 3"), "{text}");
        assert!(
            text.contains(&plan.ops[1].to_string()) && !text.contains(&format!("     2 {}", plan.ops[2]))
        );
    }
}
