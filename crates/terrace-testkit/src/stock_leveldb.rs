//! The distribution's LevelDB, loaded at run time, as the reference for compatibility.
//!
//! ```text
//!   StockLevelDb             the loaded library: open, repair, destroy
//!    +-- StockDb             an open database; the last drop of it and its readers closes it
//!         +-- StockIterator
//!         +-- StockSnapshot
//!   StockLevelDbUnderTest    a database for random operations
//! ```
//!
//! Errors contain LevelDB's text and the status code that its first words denote. Only this module
//! of the crate has `unsafe` code. Its public types are safe to use from one thread at a time. See
//! also [`DatabaseUnderTest`](crate::differential::DatabaseUnderTest).

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

/// File names of the library, in the order of attempts.
const LIBRARY_NAMES: &[&str] = &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// A loaded LevelDB library.
pub struct StockLevelDb {
    api: Api,
}

impl StockLevelDb {
    /// Returns the distribution's library, which is loaded once per process. An error lists all
    /// attempts.
    pub fn load() -> Result<&'static StockLevelDb, String> {
        static LOADED: OnceLock<Result<StockLevelDb, String>> = OnceLock::new();
        LOADED.get_or_init(|| StockLevelDb::load_any(LIBRARY_NAMES)).as_ref().map_err(String::clone)
    }

    /// Loads a library with LevelDB's C functions, by name or path. It is never unloaded.
    pub fn load_from(name: &str) -> Result<&'static StockLevelDb, String> {
        let api = Api::load(name).map_err(|error| format!("{name}: {error}"))?;
        Ok(Box::leak(Box::new(StockLevelDb { api })))
    }

    fn load_any(names: &[&str]) -> Result<StockLevelDb, String> {
        let mut attempts = Vec::new();
        for name in names {
            match Api::load(name) {
                Ok(api) => return Ok(StockLevelDb { api }),
                Err(error) => attempts.push(format!("{name}: {error}")),
            }
        }
        Err(attempts.join("; "))
    }

    /// Opens a database.
    pub fn open(&'static self, path: &Path, settings: &Settings) -> Result<StockDb, StockError> {
        StockDb::open(&self.api, path, settings)
    }

    /// Repairs a database with LevelDB's repair.
    pub fn repair(&'static self, path: &Path, settings: &Settings) -> Result<(), StockError> {
        db::repair(&self.api, path, settings)
    }

    /// Removes the files of a database.
    pub fn destroy(&'static self, path: &Path, settings: &Settings) -> Result<(), StockError> {
        db::destroy(&self.api, path, settings)
    }

    /// Returns the major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }
}

/// Returns the stock library, or prints a warning and returns None if it is missing, so that the
/// test is skipped.
///
/// Panics instead in CI, and if `TERRACE_REQUIRE_STOCK` is set, because a skipped test must not go
/// unnoticed there.
pub fn stock_leveldb_or_skip() -> Option<&'static StockLevelDb> {
    match StockLevelDb::load() {
        Ok(stock) => Some(stock),
        Err(reason) => {
            let banner = format!("STOCK LEVELDB MISSING: {reason}. Install libleveldb-dev (make setup)");
            let required =
                ["CI", "TERRACE_REQUIRE_STOCK"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!required, "{banner}");
            eprintln!("\n*** {banner} ***\n*** this test was skipped ***\n");
            None
        }
    }
}

#[cfg(test)]
mod tests;
