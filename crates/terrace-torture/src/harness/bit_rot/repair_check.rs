//! Check of the repair of a damaged database, and of the `verify` before it.

use std::path::Path;
use std::sync::Arc;

use terrace::{Db, ErrorKind, RepairOptions, repair, verify};
use terrace_env::FileSystem;

use super::ClosedDatabase;
use crate::crash_workload::contents::{Entry, describe_difference, parse_state};
use crate::crash_workload::terrace::DB_DIR;

impl ClosedDatabase<'_> {
    /// Verifies and repairs the database after a change of one file. A closed database has no torn
    /// end of a log, so `verify` must report everything that the repair drops.
    pub(super) fn check_repair(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let image = self.files.fork();
        image.corrupt(path, change).map_err(|error| error.to_string())?;
        let fs: Arc<dyn FileSystem> = Arc::new(image);
        let options = self.config.options(&fs);
        let (verified, repaired) =
            match (verify(DB_DIR, &options), repair(DB_DIR, &options, &RepairOptions::default())) {
                (Ok(verified), Ok(repaired)) => (verified, repaired),
                // A sector of another file can make the MANIFEST name another comparator.
                (_, Err(error)) if error.kind() == ErrorKind::InvalidArgument => return Ok(()),
                (verified, repaired) => {
                    return Err(format!("verify: {:?}, repair: {:?}", verified.err(), repaired.err()));
                }
            };
        let context = |message: &str| format!("{message}\n{verified}\n{repaired}");
        if verified.is_clean() && verified.notes.is_empty() && !repaired.problems.is_empty() {
            return Err(context("a repair found damage that verify did not find"));
        }
        let after = verify(DB_DIR, &options).map_err(|error| format!("verify after a repair: {error}"))?;
        if !after.is_clean() {
            return Err(context(&format!("not valid after a repair: {after}")));
        }
        let db = Db::open(DB_DIR, &options).map_err(|error| format!("open after a repair: {error}"))?;
        let entries: Vec<Entry> = db.iter().collect::<terrace::Result<_>>().map_err(|e| e.to_string())?;
        let found = parse_state(&entries, &self.script.values)?;
        let expected = &self.script.states[self.script.states.len() - 1];
        if found == *expected {
            return Ok(());
        }
        if verified.is_clean() {
            let difference = describe_difference(expected, &found);
            return Err(context(&format!("verify did not find the missing data: {difference}")));
        }
        self.check_plausible(&entries, true)
    }
}
