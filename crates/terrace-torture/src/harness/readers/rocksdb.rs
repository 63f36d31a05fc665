//! RocksDB, through its program `ldb`, which opens a database without changing it.
//!
//! The distribution builds RocksDB with assertions. Opened for writing, that build aborts for every
//! database of LevelDB with a table, because LevelDB's MANIFEST has no sequence numbers of tables.

use std::path::Path;
use std::process::Command;

use terrace_testkit::differential::{Entry, OpResult};

use super::entry_stream;
use super::format_reader::FormatReader;

/// Program of RocksDB for its databases.
const PROGRAM: &str = "ldb";

struct RocksDbReader;

impl FormatReader for RocksDbReader {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        let database = format!("--db={}", dir.display());
        let output = entry_stream::run_program(Command::new(PROGRAM).args([&database, "scan", "--hex"]))?;
        let text = String::from_utf8_lossy(&output);
        text.lines().map(|line| parse_line(line).ok_or_else(|| format!("{PROGRAM}: {line}"))).collect()
    }
}

/// Parses an entry: `0x6B : 0x76`.
fn parse_line(line: &str) -> Option<Entry> {
    let (key, value) = line.split_once(" : ")?;
    Some((parse_hex(key)?, parse_hex(value)?))
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    digits.chunks(2).map(parse_hex_byte).collect()
}

fn parse_hex_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    match Command::new(PROGRAM).arg("--version").output() {
        Ok(_) => Ok(Box::new(RocksDbReader)),
        Err(error) => Err(format!("{PROGRAM}: {error}; apt-get install rocksdb-tools")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_ldb_are_parsed() {
        assert_eq!(parse_line("0x6B00 : 0x"), Some((b"k\0".to_vec(), Vec::new())));
        for line in ["", "0x6B", "6B : 76", "0x6X : 0x76", "0x6B :0x76"] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }
}
