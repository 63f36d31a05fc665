//! Runs operations on a database and on the model, and compares every answer.

use std::ops::Range as Span;

use crate::model::Model;
use crate::op::{Op, Range, Shape, Slot, Source, Step, Upheaval, Write};
use crate::rng::{Rng, splitmix};
use crate::settings::Settings;

mod driver;
mod report;
mod shrink;

use driver::Driver;
pub use report::Report;
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
    /// Removes a range of keys; its end is not part of it.
    fn erase(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()>;
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
        let mut run = Driver { subject, model, settings: self.settings.clone(), own: self.shape.own };
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
    let mut run = Driver { subject, model, settings: Settings::default(), own: false };
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
