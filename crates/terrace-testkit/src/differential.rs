//! Runs operations on a database and on the model, and compares every answer.

use std::ops::Range as Span;

use crate::model::Model;
use crate::op::{
    IteratorBounds, IteratorMove, KeyPattern, LifecycleOp, Op, OpGenerator, Slot, ValueSpec, WorkloadParams,
    Write,
};
use crate::rng::{Rng, splitmix};
use crate::settings::Settings;

mod driver;
mod report;
mod shrink;

use driver::Driver;
pub use report::FailureReport;
pub use shrink::shrink;

/// Answer of a database, or its error message.
pub type OpResult<T> = Result<T, String>;

/// Key and value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A database under test. Callers use only slots that are filled, except for calls that fill one.
pub trait DatabaseUnderTest {
    /// Sets the value of a key.
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> OpResult<()>;
    /// Deletes a key.
    fn delete(&mut self, key: &[u8], sync: bool) -> OpResult<()>;
    /// Writes a batch.
    fn write(&mut self, writes: &[Write], sync: bool) -> OpResult<()>;
    /// Returns the value of a key.
    fn get(&mut self, key: &[u8], snapshot: Option<Slot>) -> OpResult<Option<Vec<u8>>>;
    /// Takes a snapshot into a slot.
    fn take_snapshot(&mut self, slot: Slot);
    /// Releases the snapshot in a slot.
    fn release_snapshot(&mut self, slot: Slot);
    /// Opens an iterator in a slot.
    fn open_iterator(&mut self, slot: Slot, snapshot: Option<Slot>, range: &IteratorBounds);
    /// Moves an iterator and returns its entry.
    fn move_iterator(&mut self, slot: Slot, movement: &IteratorMove) -> OpResult<Option<Entry>>;
    /// Closes the iterator in a slot.
    fn close_iterator(&mut self, slot: Slot);
    /// Flushes the memtable.
    fn flush(&mut self) -> OpResult<()>;
    /// Compacts a range.
    fn compact_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()>;
    /// Deletes a range of keys; its end is excluded.
    fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()>;
    /// Ingests a table with `entries`, in any order and with different keys. Returns false if their
    /// range is not free or a snapshot is open. Databases without this call refuse all.
    fn ingest(&mut self, entries: &[(Vec<u8>, ValueSpec)]) -> OpResult<bool> {
        let _ = entries;
        Ok(false)
    }
    /// Loads `entries` in bulk, or puts them in order.
    fn bulk_load(&mut self, entries: &[(Vec<u8>, ValueSpec)]) -> OpResult<()> {
        entries.iter().try_for_each(|(key, value)| self.put(key, &value.bytes(), true))
    }
    /// Releases all snapshots and iterators, closes the database, and opens it.
    fn reopen(&mut self, settings: &Settings) -> OpResult<()>;
    /// Returns the approximate size of a range in bytes.
    fn approximate_size(&mut self, begin: &[u8], end: &[u8]) -> OpResult<u64>;
    /// Returns the text of a property.
    fn property(&mut self, name: &str) -> Option<String>;
    /// Releases all snapshots and iterators, runs a lifecycle event, and opens the database. Only
    /// databases in memory support this.
    fn run_lifecycle_op(&mut self, op: LifecycleOp, _: &Settings) -> OpResult<()> {
        Err(format!("not supported by this database: {op}"))
    }
}

/// Operations and options of a run, which a seed determines.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Seed of the run.
    pub seed: u64,
    /// Parameters of its operations.
    pub params: WorkloadParams,
    /// Options of the first open.
    pub settings: Settings,
    /// Operations in order.
    pub ops: Vec<Op>,
}

impl Workload {
    /// Draws a workload of `count` operations. `adjust` may change the drawn parameters and options
    /// before the operations are drawn.
    pub fn draw(
        seed: u64,
        count: usize,
        adjust: impl FnOnce(&mut WorkloadParams, &mut Settings),
    ) -> Workload {
        let mut rng = Rng::new(seed);
        let mut params = WorkloadParams::draw(&mut rng);
        params.key_pattern = Rng::new(seed.rotate_left(32)).pick(&[
            KeyPattern::Random,
            KeyPattern::Random,
            KeyPattern::Ascending,
            KeyPattern::Windows,
        ]);
        let mut settings = Settings::draw_with_terrace_features(&mut rng, params.comparator);
        adjust(&mut params, &mut settings);
        settings.zstd &= params.terrace_only_features;
        let ops = OpGenerator::new(rng.next_u64(), params).take(count).collect();
        Workload { seed, params, settings, ops }
    }

    /// Runs all operations on a database that was opened with `settings`. An error is a report for
    /// people.
    pub fn run(
        &self,
        database: &mut dyn DatabaseUnderTest,
        model: &mut Model,
    ) -> Result<(), FailureReport<'_>> {
        self.run_part(0..self.ops.len(), database, model)
    }

    /// Runs a part of the operations, then compares all contents.
    pub fn run_part(
        &self,
        part: Span<usize>,
        database: &mut dyn DatabaseUnderTest,
        model: &mut Model,
    ) -> Result<(), FailureReport<'_>> {
        let mut driver = Driver {
            db: database,
            model,
            settings: self.settings.clone(),
            terrace_only_features: self.params.terrace_only_features,
        };
        let end = part.end;
        for op_index in part {
            driver.apply(&self.ops[op_index]).map_err(|message| FailureReport {
                workload: self,
                op_index,
                message,
            })?;
        }
        compare_contents(driver.db, driver.model).map_err(|message| FailureReport {
            workload: self,
            op_index: end,
            message,
        })
    }
}

/// Compares all contents: a scan in both directions, and a get of every key that was ever written.
pub fn compare_contents(database: &mut dyn DatabaseUnderTest, model: &mut Model) -> OpResult<()> {
    let keys = model.keys_ever_written();
    let mut driver =
        Driver { db: database, model, settings: Settings::default(), terrace_only_features: false };
    driver.check_scan(None)?;
    keys.iter().try_for_each(|key| {
        driver.check_get(key, None).map_err(|message| format!("get \"{}\": {message}", key.escape_ascii()))
    })
}

/// Returns the seeds of a test: `count` of its own, or the one in `TERRACE_SEED`, in decimal or in
/// hexadecimal with `0x`.
///
/// `name` makes the seeds of different tests different.
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
        let workload = Workload::draw(0xabc, 3, |_, _| ());
        let text = FailureReport { workload: &workload, op_index: 1, message: "found x".into() }.to_string();
        assert!(text.starts_with("TERRACE_SEED=0xabc repeats this: operation 1 of 3"), "{text}");
        assert!(
            text.contains(&workload.ops[1].to_string())
                && !text.contains(&format!("     2 {}", workload.ops[2]))
        );
    }
}
