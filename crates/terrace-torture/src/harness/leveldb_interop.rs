//! Terrace and the distribution's LevelDB on the same directories.
//!
//! ```text
//!   alternate-with-leveldb    the engines write in turns; each finds the other's writes
//!   leveldb-after-crash       one engine writes and is killed, the other reads: `process_kill`
//!   leveldb-after-power-cut   both engines read the same contents after a power cut
//!   repair-vs-leveldb         Terrace's repair recovers all that LevelDB's does
//! ```
//!
//! Without the library these attacks do nothing, which is an error in CI.

mod alternate_with_leveldb;
mod leveldb_after_power_cut;
mod repair_vs_leveldb;

use std::path::Path;

use terrace::Env;
use terrace_testkit::differential::{DatabaseUnderTest, Entry, OpResult};
use terrace_testkit::op::{IteratorBounds, IteratorMove, Slot};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, StockLevelDbUnderTest};

use super::Harness;
use crate::database_under_test::TerraceUnderTest;
pub(super) use alternate_with_leveldb::ALTERNATE_WITH_LEVELDB;
pub(super) use leveldb_after_power_cut::{
    LEVELDB_AFTER_POWER_CUT, cut_power_of_terrace, may_have_log_hole, truncate_leveldb_log,
};
pub(super) use repair_vs_leveldb::{REPAIR_VS_LEVELDB, inflict_damage};

/// Iterator slot that no operation uses.
const SCAN_SLOT: Slot = Slot::MAX;

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineKind {
    LevelDb,
    Terrace,
}

impl EngineKind {
    fn other(self) -> EngineKind {
        match self {
            EngineKind::LevelDb => EngineKind::Terrace,
            EngineKind::Terrace => EngineKind::LevelDb,
        }
    }

    pub(super) fn open(
        self,
        stock: &'static StockLevelDb,
        path: &Path,
        settings: &Settings,
    ) -> OpResult<Box<dyn DatabaseUnderTest>> {
        match self {
            EngineKind::LevelDb => {
                let opened = StockLevelDbUnderTest::open(stock, path, settings);
                Ok(Box::new(opened.map_err(|error| error.text)?))
            }
            EngineKind::Terrace => {
                let opened = TerraceUnderTest::open(path, settings, &Env::system());
                Ok(Box::new(opened.map_err(|error| error.to_string())?))
            }
        }
    }
}

/// Reads all entries.
fn read_all(database: &mut dyn DatabaseUnderTest) -> OpResult<Vec<Entry>> {
    database.open_iterator(SCAN_SLOT, None, &IteratorBounds::default());
    let mut entries = Vec::new();
    let mut next = database.move_iterator(SCAN_SLOT, &IteratorMove::SeekToFirst)?;
    while let Some(entry) = next {
        entries.push(entry);
        next = database.move_iterator(SCAN_SLOT, &IteratorMove::Next)?;
    }
    database.close_iterator(SCAN_SLOT);
    Ok(entries)
}

/// Returns an error with the first entry that differs between two databases.
fn check_equal(ours: &[Entry], theirs: &[Entry]) -> OpResult<()> {
    if ours == theirs {
        return Ok(());
    }
    let index = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let [our_entry, their_entry] = [ours, theirs].map(|entries| describe_entry(entries.get(index)));
    Err(format!(
        "Terrace has {} entries, LevelDB {}; at entry {index} Terrace has {our_entry}, LevelDB {their_entry}",
        ours.len(),
        theirs.len()
    ))
}

fn describe_entry(entry: Option<&Entry>) -> String {
    match entry {
        Some((key, value)) => format!("\"{}\" with {} bytes", key.escape_ascii(), value.len()),
        None => "no entry".into(),
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
