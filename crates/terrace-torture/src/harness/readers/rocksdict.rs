//! RocksDB in a release build, from the Python package rocksdict. It converts the directory to its
//! own format.

use std::path::Path;
use std::process::Command;

use terrace_testkit::differential::{Entry, OpResult};

use super::entry_stream;
use super::format_reader::FormatReader;

/// Program that prints the entries of a database.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/rocksdict_reader.py");

struct RocksDictReader;

impl FormatReader for RocksDictReader {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        entry_stream::run_reader(Command::new("python3").arg(PROGRAM).arg(dir))
    }
}

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    // Without a directory, the program only loads the package.
    match entry_stream::run_program(Command::new("python3").arg(PROGRAM)) {
        Ok(_) => Ok(Box::new(RocksDictReader)),
        Err(error) => Err(format!("{error}; pip install rocksdict")),
    }
}
