//! The steps of one repair: read the manifests, recover tables and logs, install the result.
//!
//! The rules for tables and logs depend on whether a manifest is complete: see the modules
//! `with_manifest` and `without_manifest`.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;
use terrace_format::version_edit::NewFile;
use terrace_sync::mutant;

use super::RepairReport;
use super::install::{self, NewManifest};
use super::level_assignment::{self, KeyOverlap};
use super::manifest_facts::{ManifestInfo, read_manifests};
use super::recovered_table::RecoveredTable;
use super::salvage::{TableInspection, inspect_table, salvage_log, salvage_table};
use super::table_merge::merge_tables;
use super::table_output::TableOutput;
use crate::error::Result;
use crate::verify::{LogSequenceCheck, Problem, count_noun};
use crate::version::{CommitError, set_current_file};

/// A running repair.
pub(super) struct RepairJob<'a> {
    pub(super) output: TableOutput<'a>,
    pub(super) files: Vec<FileName>,
    pub(super) report: RepairReport,
    pub(super) new_manifest: NewManifest,
    /// Files that are not part of the repaired database.
    pub(super) replaced_files: Vec<FileName>,
    /// New tables that serve only as inputs of [`merge_tables`].
    pub(super) intermediate_tables: Vec<u64>,
}

impl RepairJob<'_> {
    pub(super) fn run(&mut self) -> Result<()> {
        let action = self.prepare_action();
        if action.is_err() {
            self.output.remove_created_tables();
        }
        match action? {
            RepairAction::None => Ok(()),
            RepairAction::WriteCurrent(manifest) => self.write_current(manifest),
            RepairAction::WriteManifest => self.install().map_err(|error| {
                if let CommitError::NotApplied(_) = error {
                    // The old manifest is still live. A next repair would take the new tables for
                    // tables of the database.
                    self.output.remove_created_tables();
                }
                error.into_error()
            }),
        }
    }

    /// Writes every new table and decides how to install the result.
    fn prepare_action(&mut self) -> Result<RepairAction> {
        let max_number = self.files.iter().filter_map(FileName::number).max().unwrap_or(0);
        self.output.next_file_number = max_number.saturating_add(1);
        match read_manifests(&self.output, &self.files, &mut self.report.problems)? {
            ManifestInfo::Complete { recovered, named_by_current } => {
                match self.facts_of_stale_manifest(&recovered)? {
                    Some(facts) => self.repair_without_manifest(&facts),
                    None => self.repair_with_manifest(&recovered, named_by_current),
                }
            }
            ManifestInfo::Partial(facts) => self.repair_without_manifest(&facts),
        }
    }

    /// Reads a table. Returns None and reports the loss if the file cannot be read at all. `live`
    /// is the entry of the manifest, if there is one.
    pub(super) fn inspect_table(
        &mut self,
        name: FileName,
        live: Option<&NewFile>,
    ) -> Result<Option<TableInspection>> {
        match inspect_table(&self.output, name, live.map(|live| live.size)) {
            Err(error) if error.is_unreadable_file() => {
                self.report.problems.push(Problem::from_error(name, error));
                let lost = live.map(|live| {
                    let first = live.smallest.user_key().escape_ascii();
                    let last = live.largest.user_key().escape_ascii();
                    let bytes = count_noun(live.size, "byte", "bytes");
                    format!(": {bytes}, keys '{first}' to '{last}'")
                });
                self.report_action(format!("{name}: its entries are lost{}", lost.unwrap_or_default()));
                self.report.tables_unreadable += 1;
                if !mutant!(UnreadableTableNotKept) {
                    self.replaced_files.push(name);
                }
                Ok(None)
            }
            inspected => inspected.map(Some),
        }
    }

    /// Copies the readable entries of a damaged table into new tables.
    pub(super) fn replace_damaged_table(
        &mut self,
        name: FileName,
        inspection: TableInspection,
    ) -> Result<Vec<RecoveredTable>> {
        self.report.problems.extend(inspection.problems);
        let salvaged = salvage_table(&mut self.output, name, inspection.size)?;
        let entries = count_noun(salvaged.entries, "entry", "entries");
        let lost = match (inspection.lost_blocks, inspection.index_unreadable) {
            (0, false) => "no block lost".to_owned(),
            (0, true) => "index unreadable, blocks found by their checksums".to_owned(),
            (n, _) => format!("{} lost", count_noun(n, "block", "blocks")),
        };
        self.report_action(format!("{name}: {lost}; {entries} salvaged into a new table"));
        self.report.tables_salvaged += 1;
        self.report.blocks_lost += inspection.lost_blocks;
        self.replaced_files.push(name);
        Ok(salvaged.tables)
    }

    /// Returns the numbers of the stored logs that satisfy `is_needed`, oldest first.
    pub(super) fn logs_matching(&self, is_needed: impl Fn(u64) -> bool) -> Vec<u64> {
        let number = |file: &FileName| if let FileName::Log(number) = *file { Some(number) } else { None };
        self.files.iter().filter_map(number).filter(|&number| is_needed(number)).collect()
    }

    /// Converts logs, oldest first, to tables. `sequence_check` has seen the logs before
    /// them.
    pub(super) fn convert_logs_to_tables(
        &mut self,
        logs: &[u64],
        mut sequence_check: LogSequenceCheck,
    ) -> Result<Vec<RecoveredTable>> {
        let mut tables = Vec::new();
        for &number in logs {
            let salvaged = salvage_log(&mut self.output, number, &mut sequence_check)?;
            let entries = count_noun(salvaged.entries, "entry", "entries");
            self.report_action(format!("{}: {entries} salvaged into a table", FileName::Log(number)));
            tables.extend(salvaged.tables);
            self.report.logs_salvaged += 1;
            self.replaced_files.push(FileName::Log(number));
        }
        Ok(tables)
    }

    /// Groups the tables of a level: tables of one group must be merged.
    pub(super) fn group_conflicting_tables(
        &self,
        level: usize,
        tables: Vec<RecoveredTable>,
    ) -> Vec<Vec<RecoveredTable>> {
        match level {
            0 => level_assignment::group_by_age(tables, &self.output.order),
            _ => level_assignment::group_by_overlap(tables, &self.output.order, KeyOverlap::InternalKeys),
        }
    }

    /// Adds tables to a level, each group as one sorted run.
    pub(super) fn add_to_level(&mut self, level: usize, groups: Vec<Vec<RecoveredTable>>) -> Result<()> {
        for group in groups {
            let run = if group.len() > 1 { self.merge_group(level, &group)? } else { group };
            self.report.tables_kept += run.iter().filter(|table| table.is_original).count() as u64;
            self.new_manifest.needs_marker |= run.iter().any(|table| table.needs_marker);
            self.new_manifest.tables.extend(run.into_iter().map(|table| (level, table.file)));
        }
        Ok(())
    }

    fn merge_group(&mut self, level: usize, group: &[RecoveredTable]) -> Result<Vec<RecoveredTable>> {
        let names: BTreeSet<String> = group.iter().map(|table| table.source.to_string()).collect();
        let names: Vec<String> = names.into_iter().collect();
        self.report_action(format!(
            "merged into level {level} in order of sequence numbers: {}",
            names.join(", ")
        ));
        let merged = merge_tables(&mut self.output, group)?;
        let (originals, intermediates): (Vec<&RecoveredTable>, Vec<&RecoveredTable>) =
            group.iter().partition(|table| table.is_original);
        self.report.tables_merged += originals.len() as u64;
        self.replaced_files.extend(originals.iter().map(|table| table.source));
        self.intermediate_tables.extend(intermediates.iter().map(|table| table.file.number));
        Ok(merged)
    }

    /// Rewrites CURRENT, the only damaged file.
    fn write_current(&mut self, manifest: u64) -> Result<()> {
        self.report.moved = install::unusable_current(&self.output)?;
        self.report_action(format!("CURRENT points to {}, which is intact", FileName::Manifest(manifest)));
        self.report.changed = true;
        if !self.output.dry_run {
            install::archive_files(self.output.env(), self.output.directory, &self.report.moved)?;
            set_current_file(self.output.env(), self.output.directory, manifest)
                .map_err(CommitError::into_error)?;
        }
        Ok(())
    }

    /// Makes the repaired database live.
    fn install(&mut self) -> std::result::Result<(), CommitError> {
        self.report_action("a new manifest lists the live tables".to_owned());
        self.report.changed = true;
        self.replaced_files.extend(self.files.iter().filter(|file| matches!(file, FileName::Manifest(_))));
        let moved = install::archive_paths(&self.output, &self.replaced_files);
        let unusable_current = install::unusable_current(&self.output).map_err(CommitError::NotApplied)?;
        self.report.moved = moved.map_err(CommitError::NotApplied)?;
        if self.output.dry_run {
            self.report.moved.extend(unusable_current);
            return Ok(());
        }
        let env = self.output.env().clone();
        let directory = self.output.directory;
        install::archive_files(&env, directory, &unusable_current).map_err(CommitError::NotApplied)?;
        install::write_manifest(&mut self.output, std::mem::take(&mut self.new_manifest))?;
        let intermediates = std::mem::take(&mut self.intermediate_tables);
        self.output.remove_tables(intermediates);
        let archived = install::archive_files(&env, directory, &self.report.moved);
        self.report.moved.extend(unusable_current);
        archived.map_err(CommitError::Indeterminate)
    }

    pub(super) fn report_problem(&mut self, file: FileName, message: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), offset: None, message: message.into() });
    }

    pub(super) fn report_action(&mut self, action: String) {
        self.report.actions.push(action);
    }
}

/// Repair that a database needs.
pub(super) enum RepairAction {
    /// None: the database is healthy.
    None,
    /// A CURRENT file that names this manifest.
    WriteCurrent(u64),
    /// A new manifest.
    WriteManifest,
}
