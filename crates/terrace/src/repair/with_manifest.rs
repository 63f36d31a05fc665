//! The manifest says what is live: tables stay where they are, each damaged one is replaced on its own level.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use super::job::{RepairAction, RepairJob};
use super::recovered_table::RecoveredTable;
use super::salvage::{inspect_logs, inspect_table};
use crate::error::Result;
use crate::verify::{LogSequenceCheck, Problem, find_table_file};
use crate::version::ManifestRecovery;

impl RepairJob<'_> {
    /// True if the end of the manifest is lost without a trace: what it names is missing, and tables that it does not
    /// name can have taken the place.
    ///
    /// A log goes only after the edit that says that its writes are in a table; a table, after the one that replaces it.
    pub(super) fn is_manifest_stale(&self, recovered: &ManifestRecovery) -> Result<bool> {
        let set = &recovered.version_set;
        let live: Vec<NewFile> = set.version.levels.iter().flatten().map(|file| file.to_new_file()).collect();
        let is_stored = |file: &&NewFile| find_table_file(file.number, &self.files).is_some();
        let (_, missing): (Vec<&NewFile>, Vec<&NewFile>) = live.iter().partition(is_stored);
        let log_missing = set.log_number != 0 && !self.files.contains(&FileName::Log(set.log_number));
        if missing.is_empty() && !log_missing {
            return Ok(false);
        }
        let known: BTreeSet<u64> = live.iter().map(|file| file.number).collect();
        for table in self.files.iter().filter(|file| file.is_table()) {
            if table
                .number()
                .is_none_or(|number| number <= recovered.manifest_number || known.contains(&number))
            {
                continue;
            }
            let tally = inspect_table(&self.output, *table)?.stats;
            if log_missing || missing.iter().any(|file| tally.overlaps_user_keys(file, &self.output.order)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The manifest says what is live, and where.
    pub(super) fn repair_with_manifest(
        &mut self,
        recovered: &ManifestRecovery,
        named: bool,
    ) -> Result<RepairAction> {
        let set = &recovered.version_set;
        self.output.next_file_number = self.output.next_file_number.max(recovered.next_file_number);
        self.new_manifest.is_incompatible =
            set.is_incompatible || !self.output.options.compression.leveldb_compatible;
        let mut changes = false;
        if let Some(torn) = &recovered.torn_tail {
            // It never counted, and the next open begins a new manifest.
            self.report
                .problems
                .push(Problem::from_error(FileName::Manifest(recovered.manifest_number), torn.clone()));
        }
        let mut levels: [Vec<RecoveredTable>; NUM_LEVELS] = Default::default();
        let mut listed = BTreeSet::new();
        for (level, pieces) in levels.iter_mut().enumerate() {
            for file in &set.version.levels[level] {
                if !listed.insert(file.number) {
                    self.report_problem(
                        FileName::Manifest(recovered.manifest_number),
                        format!("lists table {} twice", file.number),
                    );
                    changes = true;
                    continue;
                }
                changes |= self.check_live_table(&file.to_new_file(), pieces)?;
            }
        }
        let last = set.version.levels.iter().flatten().map(|file| file.number).max();
        if let Some(last) = last.filter(|&last| last >= recovered.next_file_number) {
            let what = format!(
                "next file number {}, expected more than {last}, a live table",
                recovered.next_file_number
            );
            self.report_problem(FileName::Manifest(recovered.manifest_number), what);
            changes = true;
        }
        let newest = levels.iter().flatten().map(|piece| piece.max_sequence).max().unwrap_or(0);
        changes |= levels.iter().enumerate().any(|(level, pieces)| {
            self.group_conflicting_tables(level, pieces.clone()).iter().any(|group| group.len() > 1)
        });
        let logs = self.logs_matching(|number| number >= set.log_number || number == set.prev_log_number);
        let row = || LogSequenceCheck::new(recovered.is_written_by_terrace, set.last_sequence, newest);
        let mut seen = row();
        let damage = inspect_logs(&self.output, &logs, &mut seen)?;
        if newest > seen.last_sequence {
            let what =
                format!("last sequence number {}, expected {newest}, as in a table", set.last_sequence);
            self.report_problem(FileName::Manifest(recovered.manifest_number), what);
            changes = true;
        }
        self.new_manifest.last_sequence = newest.max(set.last_sequence);
        let damaged = !damage.is_empty();
        self.report.problems.extend(damage);
        // A new manifest is one of Terrace, which has rules of its own for logs.
        if damaged || (changes && !recovered.is_written_by_terrace) {
            self.new_manifest.last_sequence = self.new_manifest.last_sequence.max(seen.last_sequence);
            levels[0].extend(self.convert_logs_to_tables(&logs, row())?);
            changes |= !logs.is_empty();
            self.replace_log_0(set.prev_log_number);
        } else {
            self.report.logs_kept = logs.len() as u64;
            self.new_manifest.log_number = Some(set.log_number);
            self.new_manifest.prev_log_number = set.prev_log_number;
        }
        if !changes {
            self.report.tables_kept = levels.iter().map(|pieces| pieces.len() as u64).sum();
            return Ok(if named {
                RepairAction::None
            } else {
                RepairAction::WriteCurrent(recovered.manifest_number)
            });
        }
        for (level, pieces) in levels.into_iter().enumerate() {
            self.add_to_level(level, self.group_conflicting_tables(level, pieces))?;
        }
        Ok(RepairAction::WriteManifest)
    }

    /// Sets the log with the number 0 aside, which was old while the log before the last one had another number. Without one
    /// before the last, which a manifest says by that very number, it would count.
    fn replace_log_0(&mut self, prev_log_number: u64) {
        let log = FileName::Log(0);
        if prev_log_number != 0 && self.files.contains(&log) {
            self.report_action(format!("{log}: old, its writes are in tables"));
            self.replaced_files.push(log);
        }
    }

    /// Takes in a table that the manifest names. True if that is not simply to leave it.
    fn check_live_table(&mut self, file: &NewFile, pieces: &mut Vec<RecoveredTable>) -> Result<bool> {
        let Some(name) = find_table_file(file.number, &self.files) else {
            self.report_problem(
                FileName::Table(file.number),
                "missing, and the manifest says that it is live",
            );
            self.report_action(format!("{}: what only it held is lost", FileName::Table(file.number)));
            self.report.tables_missing += 1;
            return Ok(true);
        };
        let seen = inspect_table(&self.output, name)?;
        if !seen.problems.is_empty() {
            pieces.extend(self.replace_damaged_table(name, seen)?);
            return Ok(true);
        }
        let exceeds = seen.stats.entries > 0 && seen.stats.exceeds_key_range(file, &self.output.order);
        let right = file.size == seen.size && !exceeds;
        let stays = match exceeds {
            true => seen.stats.to_new_file(file.number, seen.size)?,
            false => NewFile { size: seen.size, ..file.clone() },
        };
        if !right {
            self.report_problem(name, format!("holds {stays:?}, expected {file:?} as in the manifest"));
            self.report_action(format!("{name}: the manifest takes its size and its keys from it"));
        }
        pieces.push(RecoveredTable::new(stays, &seen.stats, name, true));
        Ok(!right)
    }
}
