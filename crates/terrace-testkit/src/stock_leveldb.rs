//! The distribution's LevelDB, loaded at run time: the judge of what is compatible.
//!
//! ```text
//!   Stock      the loaded library: open, repair, destroy
//!    +-- StockDb          an open database; closed when it and its cursors and snapshots are dropped
//!         +-- StockCursor
//!         +-- StockSnapshot
//!   StockSubject  the same as a [`DatabaseUnderTest`](crate::run::DatabaseUnderTest) for random operations
//! ```
//!
//! Errors are LevelDB's own text with the class that its first words stand for. The only rooms with `unsafe` in this
//! crate are here: below this border are C functions, above it everything is safe to call from one thread at a time.

mod api;
mod db;
mod error;
mod options;
mod raw_objects;
mod under_test;

use std::path::Path;
use std::sync::OnceLock;

pub use api::Api;
pub use db::{StockDb, StockIterator, StockSnapshot};
pub use error::{StatusCode, StockError};
pub use under_test::StockLevelDbUnderTest;

use crate::settings::Settings;

/// Where the library is looked for, in this order.
const LIBRARY_NAMES: &[&str] = &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// A loaded LevelDB.
pub struct StockLevelDb {
    api: Api,
}

impl StockLevelDb {
    /// The distribution's library, loaded once for the process. The error says what was tried.
    pub fn load() -> Result<&'static StockLevelDb, String> {
        static LOADED: OnceLock<Result<StockLevelDb, String>> = OnceLock::new();
        LOADED.get_or_init(|| StockLevelDb::load_any(LIBRARY_NAMES)).as_ref().map_err(String::clone)
    }

    /// A library with LevelDB's C functions, by name or path. It stays loaded for good.
    pub fn load_from(name: &str) -> Result<&'static StockLevelDb, String> {
        let api = Api::load(name).map_err(|error| format!("{name}: {error}"))?;
        Ok(Box::leak(Box::new(StockLevelDb { api })))
    }

    fn load_any(names: &[&str]) -> Result<StockLevelDb, String> {
        let mut tried = Vec::new();
        for name in names {
            match Api::load(name) {
                Ok(api) => return Ok(StockLevelDb { api }),
                Err(error) => tried.push(format!("{name}: {error}")),
            }
        }
        Err(tried.join("; "))
    }

    /// Opens a database.
    pub fn open(&'static self, path: &Path, settings: &Settings) -> Result<StockDb, StockError> {
        StockDb::open(&self.api, path, settings)
    }

    /// Rebuilds a database from its files, in LevelDB's way.
    pub fn repair(&'static self, path: &Path, settings: &Settings) -> Result<(), StockError> {
        db::repair(&self.api, path, settings)
    }

    /// Removes a database's files.
    pub fn destroy(&'static self, path: &Path, settings: &Settings) -> Result<(), StockError> {
        db::destroy(&self.api, path, settings)
    }

    /// Major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }
}

/// The stock library for a test that needs it, or None after saying loudly that the test proves nothing.
///
/// Panics instead where a silent gap would be worse: in CI, and with `TERRACE_REQUIRE_STOCK` set.
pub fn stock_leveldb_or_skip() -> Option<&'static StockLevelDb> {
    match StockLevelDb::load() {
        Ok(stock) => Some(stock),
        Err(why) => {
            let banner = format!("STOCK LEVELDB MISSING: {why}. Install libleveldb-dev (make setup)");
            let required =
                ["CI", "TERRACE_REQUIRE_STOCK"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!required, "{banner}");
            eprintln!("\n*** {banner} ***\n*** this test was skipped and proves nothing ***\n");
            None
        }
    }
}

#[cfg(test)]
mod tests;
