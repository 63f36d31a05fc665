//! Files that the MANIFEST names, and the question whether it has lost its last edits.
//!
//! ```text
//!   MANIFEST   [ edit ][ edit: log 7 ] | lost: [ flush of log 7 to table 20, log 9 ]
//!   files      20.ldb  9.log             7.log was removed after the flush
//! ```
//!
//! The database removes a log only after the edit that adds its tables. So if its log is missing,
//! the MANIFEST has lost its last edits, or another program has removed the log. A table with later
//! writes than the MANIFEST decides it. Then an open without the table would lose these writes.
//!
//! A damaged edit at the end of the MANIFEST is usually one that a power cut has torn. But it may
//! have added tables, and may have been acknowledged, such as an ingest. So the open keeps all
//! tables that no edit names, in `lost/`.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;

use super::hidden_entries;
use super::open::DbOpener;
use crate::error::{Corruption, Error, Result};
use crate::version::tables_without_edit;

impl DbOpener<'_> {
    /// Checks that all tables of the version exist. Returns the numbers of the logs to replay.
    pub(super) fn find_logs_to_replay(&mut self, files: &[FileName]) -> Result<Vec<u64>> {
        let version_set = &self.recovered.version_set;
        let tables = files.iter().filter(|file| file.is_table());
        let tables: BTreeSet<u64> = tables.filter_map(FileName::number).collect();
        let live = version_set.version.levels.iter().flatten().map(|file| file.number);
        let missing: Vec<u64> = live.filter(|number| !tables.contains(number)).collect();
        let mut damage = Vec::new();
        match missing.first() {
            Some(first) if !self.allows_damage => {
                let first = self.directory.join(FileName::Table(*first).to_string());
                let message = format!("{} missing files; e.g.: {}", missing.len(), first.display());
                return Err(Error::corruption(self.directory, None, message));
            }
            _ => damage.extend(missing.iter().map(|&number| self.missing(FileName::Table(number)))),
        }
        match self.recovered.lost_edit(files) {
            Some(Error::Corruption(lost)) if self.allows_damage => damage.push(lost.clone()),
            Some(error) => return Err(error.clone()),
            None => {}
        }
        if let Some(log) = self.missing_log(files) {
            self.logger.log(format_args!("Ignoring error: {log} is missing"));
            damage.push(self.missing(log));
        }
        if let Some(torn) = &self.recovered.torn_tail {
            self.logger
                .log(format_args!("Ignoring an incomplete version edit at the end of the MANIFEST: {torn}"));
        }
        let mut logs = BTreeSet::new();
        for file in files {
            if let FileName::Log(number) = *file
                && (number >= version_set.log_number || number == version_set.prev_log_number)
            {
                logs.insert(number);
            }
        }
        self.report.damage.append(&mut damage);
        Ok(logs.into_iter().collect())
    }

    /// Returns the tables that no version edit names, if the MANIFEST may have lost its last edits.
    ///
    /// It has certainly lost them if its log is missing and such a table has later writes. This is
    /// an error: a repair takes the table for a live one.
    pub(super) fn tables_of_lost_edits(&self, files: &[FileName]) -> Result<Vec<FileName>> {
        let missing_log = self.missing_log(files);
        if missing_log.is_none() && self.recovered.torn_tail.is_none() {
            return Ok(Vec::new());
        }
        let env = &self.options.env;
        let manifest = self.recovered.manifest_number;
        let unlisted = tables_without_edit(env, self.directory, manifest, files)?;
        let Some(log) = missing_log.filter(|_| !self.allows_damage) else { return Ok(unlisted) };
        for table in &unlisted {
            let path = self.directory.join(table.to_string());
            let last = match hidden_entries::greatest_sequence(&path, self.options) {
                Err(error) if error.is_unreadable_file() => 0,
                last => last?,
            };
            if last > self.recovered.version_set.last_sequence {
                let message = format!(
                    "its last version edits are missing: {log} is gone, and {table} has later writes; run repair"
                );
                let path = self.directory.join(FileName::Manifest(manifest).to_string());
                return Err(Error::corruption(&path, None, message));
            }
        }
        Ok(unlisted)
    }

    /// Returns the log of the MANIFEST if it is missing. Terrace makes a log durable before the
    /// MANIFEST that names it; LevelDB does not.
    fn missing_log(&self, files: &[FileName]) -> Option<FileName> {
        let log = FileName::Log(self.recovered.version_set.log_number);
        let is_new = self.recovered.manifest_number == 0;
        let is_missing = self.recovered.is_written_by_terrace && !is_new && !files.contains(&log);
        is_missing.then_some(log)
    }

    fn missing(&self, file: FileName) -> Corruption {
        let path = self.directory.join(file.to_string());
        Corruption { path, offset: None, message: "is missing, but the MANIFEST lists it".into() }
    }
}
