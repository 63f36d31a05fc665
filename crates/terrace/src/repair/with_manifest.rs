//! Repair with a complete manifest: tables keep their levels, and each damaged table is replaced on
//! its own level.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use super::job::{RepairAction, RepairJob};
use super::manifest_facts::ManifestFacts;
use super::recovered_table::RecoveredTable;
use super::salvage::{inspect_logs, inspect_table};
use crate::error::Result;
use crate::verify::{LogSequenceCheck, Problem, find_table_file};
use crate::version::{LogWriteMethod, ManifestRecovery, tables_without_edit};

impl RepairJob<'_> {
    /// Returns the facts from the edits of the manifest if its end is lost without a trace: files
    /// that it names are missing, and tables that it does not name may replace them.
    ///
    /// A log is removed only after the edit that records the flush of its writes. A table is
    /// removed only after the edit that replaces it.
    pub(super) fn facts_of_stale_manifest(
        &mut self,
        recovered: &ManifestRecovery,
    ) -> Result<Option<ManifestFacts>> {
        let set = &recovered.version_set;
        let mut live = set.version.levels.iter().flatten();
        let log_missing = set.log_number != 0 && !self.files.contains(&FileName::Log(set.log_number));
        if !log_missing && live.all(|file| find_table_file(file.number, &self.files).is_some()) {
            return Ok(None);
        }
        let mut problems = Vec::new();
        let number = recovered.manifest_number;
        let facts = ManifestFacts::read(&self.output, &self.files, Some(number), &mut problems)?;
        let missing = facts.missing_tables(&self.files);
        for table in self.files.iter().filter(|file| file.is_table()) {
            let Some(number) = table.number().filter(|number| !facts.live_tables.contains_key(number)) else {
                continue;
            };
            let stats = match inspect_table(&self.output, *table, None) {
                // The repair reports it if it is live.
                Err(error) if error.is_unreadable_file() => continue,
                inspected => inspected?.stats,
            };
            let order = &self.output.order;
            let replaces_files =
                log_missing || missing.iter().any(|file| stats.overlaps_user_keys(file, order));
            if replaces_files && !facts.is_obsolete_table(number, &stats, &missing, &self.output) {
                self.report.problems.append(&mut problems);
                return Ok(Some(facts));
            }
        }
        Ok(None)
    }

    /// Repairs with the live tables and levels that the manifest lists.
    pub(super) fn repair_with_manifest(
        &mut self,
        recovered: &ManifestRecovery,
        named_by_current: bool,
    ) -> Result<RepairAction> {
        self.output.next_file_number = self.output.next_file_number.max(recovered.next_file_number);
        self.new_manifest.can_have_marker |= recovered.is_marked;
        if let Some(error) = &recovered.torn_tail {
            // The torn edit never took effect. The new manifest lacks it.
            self.report
                .problems
                .push(Problem::from_error(FileName::Manifest(recovered.manifest_number), error.clone()));
        }
        let mut levels: [Vec<RecoveredTable>; NUM_LEVELS] = Default::default();
        let mut changes = recovered.torn_tail.is_some();
        changes |= self.check_live_tables(recovered, &mut levels)?;
        changes |= levels.iter().enumerate().any(|(level, tables)| {
            self.group_conflicting_tables(level, tables.clone()).iter().any(|group| group.len() > 1)
        });
        changes |= self.recover_logs(recovered, &mut levels, changes)?;
        if recovered.is_marked && !levels.iter().flatten().any(|table| table.needs_marker) {
            self.report_action(
                "the comparator name is LevelDB's again: no table has a block that LevelDB lacks".to_owned(),
            );
            changes = true;
        }
        if recovered.torn_tail.is_some() || self.report.tables_missing > 0 || self.is_log_missing(recovered) {
            self.archive_unlisted_tables(recovered)?;
        }
        if !changes {
            self.report.tables_kept = levels.iter().map(|tables| tables.len() as u64).sum();
            return Ok(if named_by_current {
                RepairAction::None
            } else {
                RepairAction::WriteCurrent(recovered.manifest_number)
            });
        }
        for (level, tables) in levels.into_iter().enumerate() {
            self.add_to_level(level, self.group_conflicting_tables(level, tables))?;
        }
        Ok(RepairAction::WriteManifest)
    }

    /// Adds the live tables to `levels`. Returns whether a table or the manifest must change.
    fn check_live_tables(
        &mut self,
        recovered: &ManifestRecovery,
        levels: &mut [Vec<RecoveredTable>; NUM_LEVELS],
    ) -> Result<bool> {
        let manifest = FileName::Manifest(recovered.manifest_number);
        let live_levels = &recovered.version_set.version.levels;
        let mut changes = false;
        let mut listed = BTreeSet::new();
        for (level, tables) in levels.iter_mut().enumerate() {
            for file in &live_levels[level] {
                if !listed.insert(file.number) {
                    self.report_problem(manifest, format!("lists table {} twice", file.number));
                    changes = true;
                    continue;
                }
                changes |= self.check_live_table(&file.to_new_file(), tables)?;
            }
        }
        if let Some(last) = listed.last().filter(|&&last| last >= recovered.next_file_number) {
            let message = format!(
                "next file number {}, expected more than {last}, the number of a live table",
                recovered.next_file_number
            );
            self.report_problem(manifest, message);
            changes = true;
        }
        Ok(changes)
    }

    /// Keeps the live logs, or converts them to tables of level 0 if they are damaged. Returns
    /// whether a new manifest is needed because of the logs or of their sequence numbers.
    fn recover_logs(
        &mut self,
        recovered: &ManifestRecovery,
        levels: &mut [Vec<RecoveredTable>; NUM_LEVELS],
        tables_changed: bool,
    ) -> Result<bool> {
        let set = &recovered.version_set;
        let newest = levels.iter().flatten().map(|table| table.max_sequence).max().unwrap_or(0);
        let logs = self.logs_matching(|number| number >= set.log_number || number == set.prev_log_number);
        let new_check = || {
            LogSequenceCheck::new(
                recovered.log_method != LogWriteMethod::Appended && recovered.closed_log.is_none(),
                set.last_sequence,
                newest,
            )
            .with_closed_log(recovered.closed_log)
        };
        let mut sequence_check = new_check();
        let log_problems = inspect_logs(&self.output, &logs, &mut sequence_check)?;
        let log_missing = self.reports_missing_log(recovered);
        let mut changes = log_missing;
        if newest > sequence_check.last_sequence {
            let message = format!(
                "last sequence number {}, expected at least {newest}, the largest in a table",
                set.last_sequence
            );
            self.report_problem(FileName::Manifest(recovered.manifest_number), message);
            changes = true;
        }
        self.new_manifest.last_sequence = newest.max(set.last_sequence);
        let logs_damaged = !log_problems.is_empty();
        self.report.problems.extend(log_problems);
        // Terrace checks the logs of its own manifests more strictly, and a new manifest is one of
        // those.
        if logs_damaged || log_missing || ((tables_changed || changes) && !recovered.is_written_by_terrace) {
            self.new_manifest.last_sequence =
                self.new_manifest.last_sequence.max(sequence_check.last_sequence);
            levels[0].extend(self.convert_logs_to_tables(&logs, new_check())?);
            changes |= !logs.is_empty();
            self.replace_log_0(set.prev_log_number);
        } else {
            self.report.logs_kept = logs.len() as u64;
            self.new_manifest.log_number = Some(set.log_number);
            self.new_manifest.prev_log_number = set.prev_log_number;
        }
        Ok(changes)
    }

    /// Archives the tables that no edit of the manifest names, because an edit may be lost. The
    /// next open would remove them.
    fn archive_unlisted_tables(&mut self, recovered: &ManifestRecovery) -> Result<()> {
        let manifest = recovered.manifest_number;
        let output = &self.output;
        for table in tables_without_edit(output.env(), output.directory, manifest, &self.files)? {
            self.report_action(format!("{table}: no edit names it, but the manifest may have lost one"));
            self.replaced_files.push(table);
        }
        Ok(())
    }

    /// Returns whether the log of the manifest is missing. A manifest of LevelDB may name a log
    /// that LevelDB has not created yet.
    fn is_log_missing(&self, recovered: &ManifestRecovery) -> bool {
        let log = FileName::Log(recovered.version_set.log_number);
        recovered.is_written_by_terrace && log != FileName::Log(0) && !self.files.contains(&log)
    }

    /// Reports the log of the manifest if it is missing. Returns whether it is.
    fn reports_missing_log(&mut self, recovered: &ManifestRecovery) -> bool {
        let log = FileName::Log(recovered.version_set.log_number);
        let is_missing = self.is_log_missing(recovered);
        if is_missing {
            self.report_problem(log, "is missing");
            self.report_action(format!("{log}: writes stored only in this log are lost"));
        }
        is_missing
    }

    /// Archives log 0. It was obsolete while `prev_log_number` was another log. A manifest without
    /// a previous log stores the number 0, which would make log 0 live again.
    fn replace_log_0(&mut self, prev_log_number: u64) {
        let log = FileName::Log(0);
        if prev_log_number != 0 && self.files.contains(&log) {
            self.report_action(format!("{log}: obsolete, its writes are in tables"));
            self.replaced_files.push(log);
        }
    }

    /// Adds a live table to `tables`. Returns whether the table or its manifest entry must change.
    fn check_live_table(&mut self, file: &NewFile, tables: &mut Vec<RecoveredTable>) -> Result<bool> {
        let Some(name) = find_table_file(file.number, &self.files) else {
            self.report_problem(FileName::Table(file.number), "missing, but the manifest lists it as live");
            self.report_action(format!(
                "{}: entries stored only in this table are lost",
                FileName::Table(file.number)
            ));
            self.report.tables_missing += 1;
            return Ok(true);
        };
        let Some(inspection) = self.inspect_table(name, Some(file))? else { return Ok(true) };
        if !inspection.problems.is_empty() || inspection.stats.entries == 0 {
            tables.extend(self.replace_damaged_table(name, inspection)?);
            return Ok(true);
        }
        let has_key_range = inspection.stats.has_key_range(file, &self.output.order);
        let matches = file.size == inspection.size && has_key_range;
        let actual = match has_key_range {
            true => NewFile { size: inspection.size, ..file.clone() },
            false => inspection.stats.to_new_file(file.number, inspection.size)?,
        };
        if !matches {
            self.report_problem(name, format!("has {actual:?}, the manifest says {file:?}"));
            self.report_action(format!("{name}: size and key range in the manifest are corrected"));
        }
        tables.push(RecoveredTable::new(actual, &inspection.stats, name, true, inspection.needs_marker));
        Ok(!matches)
    }
}
