//! Runs operations on a database and on the model, and compares every answer.

use std::ops::Range as Span;

use crate::model::Model;
use crate::op::{IteratorBounds, IteratorMove, LifecycleOp, Op, OpGenerator, Slot, WorkloadParams, Write};
use crate::rng::{Rng, splitmix};
use crate::settings::Settings;

mod driver;
mod report;
mod shrink;

use driver::Driver;
pub use report::FailureReport;
pub use shrink::shrink;

/// What a database answers: something, or why not.
pub type OpResult<T> = Result<T, String>;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A database under test. Slots that a call names are filled, except those it fills.
pub trait DatabaseUnderTest {
    /// Gives a key a value.
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> OpResult<()>;
    /// Removes a key.
    fn delete(&mut self, key: &[u8], sync: bool) -> OpResult<()>;
    /// Makes some changes at once.
    fn write(&mut self, writes: &[Write], sync: bool) -> OpResult<()>;
    /// Looks a key up.
    fn get(&mut self, key: &[u8], at: Option<Slot>) -> OpResult<Option<Vec<u8>>>;
    /// Takes a snapshot into a slot.
    fn take_snapshot(&mut self, slot: Slot);
    /// Drops the snapshot of a slot.
    fn release_snapshot(&mut self, slot: Slot);
    /// Opens a cursor in a slot.
    fn open_iterator(&mut self, slot: Slot, at: Option<Slot>, range: &IteratorBounds);
    /// Moves a cursor and says where it stands.
    fn move_iterator(&mut self, slot: Slot, step: &IteratorMove) -> OpResult<Option<Entry>>;
    /// Drops the cursor of a slot.
    fn close_iterator(&mut self, slot: Slot);
    /// Empties the memtable.
    fn flush(&mut self) -> OpResult<()>;
    /// Compacts a range.
    fn compact_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()>;
    /// Removes a range of keys; its end is not part of it.
    fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()>;
    /// Drops every snapshot and cursor, closes, and opens again.
    fn reopen(&mut self, settings: &Settings) -> OpResult<()>;
    /// The approximate size of a range in bytes.
    fn approximate_size(&mut self, begin: &[u8], end: &[u8]) -> OpResult<u64>;
    /// A property's text.
    fn property(&mut self, name: &str) -> Option<String>;
    /// Drops every snapshot and cursor, lets it happen, and opens the database. Only for those in memory.
    fn run_lifecycle_op(&mut self, what: LifecycleOp, _: &Settings) -> OpResult<()> {
        Err(format!("not to be had here: {what}"))
    }
}

/// A run before it starts: everything that a seed stands for.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The seed.
    pub seed: u64,
    /// What its operations are like.
    pub params: WorkloadParams,
    /// The options that the database is opened with first.
    pub settings: Settings,
    /// The operations.
    pub ops: Vec<Op>,
}

impl Workload {
    /// A random plan of `count` operations; `adjust` may change what the seed chose before the operations are drawn.
    pub fn draw(
        seed: u64,
        count: usize,
        adjust: impl FnOnce(&mut WorkloadParams, &mut Settings),
    ) -> Workload {
        let mut rng = Rng::new(seed);
        let mut shape = WorkloadParams::draw(&mut rng);
        let mut settings = Settings::draw_with_terrace_features(&mut rng, shape.comparator);
        adjust(&mut shape, &mut settings);
        settings.zstd &= shape.terrace_only_features;
        let ops = OpGenerator::new(rng.next_u64(), shape).take(count).collect();
        Workload { seed, params: shape, settings, ops }
    }

    /// Runs it on a database opened with its settings. The error is a report for a person to read.
    pub fn run(
        &self,
        subject: &mut dyn DatabaseUnderTest,
        model: &mut Model,
    ) -> Result<(), FailureReport<'_>> {
        self.run_part(0..self.ops.len(), subject, model)
    }

    /// Runs some of the operations, then compares the whole contents.
    pub fn run_part(
        &self,
        part: Span<usize>,
        subject: &mut dyn DatabaseUnderTest,
        model: &mut Model,
    ) -> Result<(), FailureReport<'_>> {
        let mut run = Driver {
            db: subject,
            model,
            settings: self.settings.clone(),
            terrace_only_features: self.params.terrace_only_features,
        };
        let end = part.end;
        for at in part {
            run.apply(&self.ops[at]).map_err(|what| FailureReport {
                workload: self,
                op_index: at,
                message: what,
            })?;
        }
        compare_contents(run.db, run.model).map_err(|what| FailureReport {
            workload: self,
            op_index: end,
            message: what,
        })
    }
}

/// Compares the whole contents: a scan both ways, and a look-up of every key that was ever written.
pub fn compare_contents(subject: &mut dyn DatabaseUnderTest, model: &mut Model) -> OpResult<()> {
    let keys = model.keys_ever_written();
    let mut run = Driver { db: subject, model, settings: Settings::default(), terrace_only_features: false };
    run.check_scan(None)?;
    keys.iter().try_for_each(|key| {
        run.check_get(key, None).map_err(|what| format!("get \"{}\": {what}", key.escape_ascii()))
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
    fn workload_is_determined_by_seed() {
        let draw = |seed| Workload::draw(seed, 50, |_, _| ()).ops;
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn seeds_parse_in_decimal_and_hex() {
        assert_eq!((parse_seed("0xff"), parse_seed("255"), parse_seed("x")), (Some(255), Some(255), None));
    }

    #[test]
    fn report_contains_replay_seed() {
        let plan = Workload::draw(0xabc, 3, |_, _| ());
        let text = FailureReport { workload: &plan, op_index: 1, message: "found x".into() }.to_string();
        assert!(text.starts_with("TERRACE_SEED=0xabc repeats this: operation 1 of 3"), "{text}");
        assert!(
            text.contains(&plan.ops[1].to_string()) && !text.contains(&format!("     2 {}", plan.ops[2]))
        );
    }
}
