//! rusty-leveldb, a LevelDB in Rust.

use std::panic::catch_unwind;
use std::path::Path;

use rusty_leveldb::{DB, LdbIterator, Options, Status};
use terrace_testkit::differential::{Entry, OpResult};

use super::format_reader::FormatReader;
use crate::runner::{panic_message, with_silenced_panics};

struct RustyLevelDb;

impl FormatReader for RustyLevelDb {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        match with_silenced_panics(|| catch_unwind(|| read_all(dir))) {
            Ok(entries) => entries.map_err(|status| status.err),
            Err(panic) => Err(format!("panic: {}", panic_message(panic.as_ref()))),
        }
    }
}

fn read_all(dir: &Path) -> Result<Vec<Entry>, Status> {
    let mut db = DB::open(dir, Options { create_if_missing: false, ..Options::default() })?;
    let mut cursor = db.new_iter()?;
    let mut entries = Vec::new();
    while let Some(entry) = LdbIterator::next(&mut cursor) {
        entries.push(entry);
    }
    db.close()?;
    Ok(entries)
}

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    Ok(Box::new(RustyLevelDb))
}
