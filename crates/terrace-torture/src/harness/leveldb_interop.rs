//! Beside the distribution's LevelDB, on the same directories.
//!
//! ```text
//!   relay       a life led in turns by the two engines: each finds what the other left
//!   heirs       one writes and is killed, one looks                          (a kind of `kills`)
//!   power-cuts  what a power cut leaves of a database is the same to both
//!   repairs     of a damaged database ours recovers all that theirs does
//! ```
//!
//! Needs the library; without it nothing is done, and CI calls that an error.

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
pub(super) use leveldb_after_power_cut::LEVELDB_AFTER_POWER_CUT;
pub(super) use repair_vs_leveldb::REPAIR_VS_LEVELDB;

/// A cursor's slot that no operation names.
const SCAN_SLOT: Slot = Slot::MAX;

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineKind {
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

    fn open(
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

/// Every entry.
fn read_all(subject: &mut dyn DatabaseUnderTest) -> OpResult<Vec<Entry>> {
    subject.open_iterator(SCAN_SLOT, None, &IteratorBounds::default());
    let (mut entries, mut next) = (Vec::new(), subject.move_iterator(SCAN_SLOT, &IteratorMove::SeekToFirst)?);
    while let Some(entry) = next {
        entries.push(entry);
        next = subject.move_iterator(SCAN_SLOT, &IteratorMove::Next)?;
    }
    subject.close_iterator(SCAN_SLOT);
    Ok(entries)
}

/// The first entry that only one of two databases has.
fn check_equal(ours: &[Entry], theirs: &[Entry]) -> OpResult<()> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let show = |entry: Option<&Entry>| {
        entry.map_or("the end".into(), |(k, v)| format!("\"{}\" with {} bytes", k.escape_ascii(), v.len()))
    };
    let [our, their] = [ours, theirs].map(|entries| show(entries.get(at)));
    let (count, other) = (ours.len(), theirs.len());
    Err(format!("ours shows {count} entries, theirs {other}; at entry {at} ours has {our}, theirs {their}"))
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
