//! The distribution's LevelDB, with and without paranoid checks.

use std::path::Path;

use terrace_testkit::differential::{Entry, OpResult};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::format_reader::FormatReader;

struct StockReader {
    stock: &'static StockLevelDb,
    paranoid_checks: bool,
}

impl FormatReader for StockReader {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        let settings =
            Settings { paranoid_checks: self.paranoid_checks, bloom_bits: 10, ..Settings::default() };
        self.stock.open(dir, &settings).and_then(|db| db.scan()).map_err(|error| error.text)
    }
}

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    find_with(false)
}

pub(super) fn find_paranoid() -> Result<Box<dyn FormatReader>, String> {
    find_with(true)
}

fn find_with(paranoid_checks: bool) -> Result<Box<dyn FormatReader>, String> {
    // In CI, a missing library is a panic.
    let stock = stock_leveldb_or_skip().ok_or("apt-get install libleveldb-dev")?;
    Ok(Box::new(StockReader { stock, paranoid_checks }))
}
