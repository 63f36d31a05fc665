//! One repair, step by step: what is known, what goes on, and making it count.
//!
//! How tables and logs are judged depends on whether the tree is known: see the rooms `tree` and `no_tree`.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;

use super::RepairReport;
use super::install::{self, NewManifest};
use super::level_assignment::{self, KeyOverlap};
use super::manifest_facts::{ManifestFacts, ManifestInfo, read_manifests};
use super::recovered_table::RecoveredTable;
use super::salvage::{TableInspection, salvage_log, salvage_table};
use super::table_merge::merge_tables;
use super::table_output::TableOutput;
use crate::error::Result;
use crate::verify::{LogSequenceCheck, Problem};
use crate::version::{CommitError, set_current_file};

/// A repair at work.
pub(super) struct RepairJob<'a> {
    pub(super) output: TableOutput<'a>,
    pub(super) files: Vec<FileName>,
    pub(super) report: RepairReport,
    pub(super) new_manifest: NewManifest,
    /// Files that are no part of the outcome.
    pub(super) replaced_files: Vec<FileName>,
    /// Tables that were made only to be merged.
    pub(super) intermediate_tables: Vec<u64>,
}

impl RepairJob<'_> {
    pub(super) fn run(&mut self) -> Result<()> {
        let prepared = self.prepare_action();
        if prepared.is_err() {
            self.output.remove_created_tables();
        }
        match prepared? {
            RepairAction::None => Ok(()),
            RepairAction::WriteCurrent(manifest) => self.write_current(manifest),
            RepairAction::WriteManifest => self.install().map_err(|failure| {
                if let CommitError::NotApplied(_) = failure {
                    // What was there still counts: a next try would take these for tables of the database.
                    self.output.remove_created_tables();
                }
                failure.into_error()
            }),
        }
    }

    /// Writes every new table, and finds out what is to be done.
    fn prepare_action(&mut self) -> Result<RepairAction> {
        let used = self.files.iter().filter_map(FileName::number).max().unwrap_or(0);
        self.output.next_file_number = used.saturating_add(1);
        match read_manifests(&self.output, &self.files, &mut self.report.problems)? {
            ManifestInfo::Complete { recovered, named_by_current: named } => {
                match self.is_manifest_stale(&recovered)? {
                    true => {
                        let facts = ManifestFacts::read(
                            &self.output,
                            &self.files,
                            Some(recovered.manifest_number),
                            &mut self.report.problems,
                        )?;
                        self.repair_without_manifest(&facts)
                    }
                    false => self.repair_with_manifest(&recovered, named),
                }
            }
            ManifestInfo::Partial(facts) => self.repair_without_manifest(&facts),
        }
    }

    /// Copies what can be read of a damaged table.
    pub(super) fn replace_damaged_table(
        &mut self,
        name: FileName,
        seen: TableInspection,
    ) -> Result<Vec<RecoveredTable>> {
        self.report.problems.extend(seen.problems);
        let rescued = salvage_table(&mut self.output, name)?;
        let lost = match (seen.lost_blocks, seen.index_unreadable) {
            (0, false) => "no block lost".to_owned(),
            (0, true) => "its blocks had to be searched".to_owned(),
            (1, _) => "1 block lost".to_owned(),
            (n, _) => format!("{n} blocks lost"),
        };
        self.report_action(format!("{name}: {lost}, {} entries go on in a new table", rescued.entries));
        self.report.tables_salvaged += 1;
        self.report.blocks_lost += seen.lost_blocks;
        self.replaced_files.push(name);
        Ok(rescued.tables)
    }

    /// The logs that are there and for which `is_needed` holds, in their order.
    pub(super) fn logs_matching(&self, is_needed: impl Fn(u64) -> bool) -> Vec<u64> {
        let number = |file: &FileName| if let FileName::Log(number) = *file { Some(number) } else { None };
        self.files.iter().filter_map(number).filter(|&number| is_needed(number)).collect()
    }

    /// Makes tables of logs, the next of `row`.
    pub(super) fn convert_logs_to_tables(
        &mut self,
        logs: &[u64],
        mut row: LogSequenceCheck,
    ) -> Result<Vec<RecoveredTable>> {
        let mut pieces = Vec::new();
        for &number in logs {
            let rescued = salvage_log(&mut self.output, number, &mut row)?;
            self.report_action(format!(
                "{}: {} entries go on in a table",
                FileName::Log(number),
                rescued.entries
            ));
            pieces.extend(rescued.tables);
            self.report.logs_salvaged += 1;
            self.replaced_files.push(FileName::Log(number));
        }
        Ok(pieces)
    }

    /// Which tables of a level may stand as they are, and which must be merged.
    pub(super) fn group_conflicting_tables(
        &self,
        level: usize,
        pieces: Vec<RecoveredTable>,
    ) -> Vec<Vec<RecoveredTable>> {
        match level {
            0 => level_assignment::group_by_age(pieces, &self.output.order),
            _ => level_assignment::group_by_overlap(pieces, &self.output.order, KeyOverlap::InternalKeys),
        }
    }

    /// Puts tables on a level, those of a group as one run.
    pub(super) fn add_to_level(&mut self, level: usize, groups: Vec<Vec<RecoveredTable>>) -> Result<()> {
        for group in groups {
            let run = if group.len() > 1 { self.merge_group(level, &group)? } else { group };
            self.report.tables_kept += run.iter().filter(|piece| piece.is_original).count() as u64;
            self.new_manifest.tables.extend(run.into_iter().map(|piece| (level, piece.file)));
        }
        Ok(())
    }

    fn merge_group(&mut self, level: usize, group: &[RecoveredTable]) -> Result<Vec<RecoveredTable>> {
        let names: BTreeSet<String> = group.iter().map(|piece| piece.source.to_string()).collect();
        let names: Vec<String> = names.into_iter().collect();
        self.report_action(format!("merge into level {level}, by sequence number: {}", names.join(", ")));
        let merged = merge_tables(&mut self.output, group)?;
        let (stored, made): (Vec<&RecoveredTable>, Vec<&RecoveredTable>) =
            group.iter().partition(|piece| piece.is_original);
        self.report.tables_merged += stored.len() as u64;
        self.replaced_files.extend(stored.iter().map(|piece| piece.source));
        self.intermediate_tables.extend(made.iter().map(|piece| piece.file.number));
        Ok(merged)
    }

    /// All that is wrong is CURRENT.
    fn write_current(&mut self, manifest: u64) -> Result<()> {
        self.report_action(format!("CURRENT names {}, which is whole", FileName::Manifest(manifest)));
        self.report.changed = true;
        if !self.output.dry_run {
            set_current_file(self.output.env(), self.output.directory, manifest)
                .map_err(CommitError::into_error)?;
        }
        Ok(())
    }

    /// Makes the outcome count.
    fn install(&mut self) -> std::result::Result<(), CommitError> {
        self.report_action("a new manifest says what is live".to_owned());
        self.report.changed = true;
        self.replaced_files.extend(self.files.iter().filter(|file| matches!(file, FileName::Manifest(_))));
        self.report.moved =
            install::archive_paths(&self.output, &self.replaced_files).map_err(CommitError::NotApplied)?;
        if self.output.dry_run {
            return Ok(());
        }
        install::write_manifest(&mut self.output, std::mem::take(&mut self.new_manifest))?;
        let scrap = std::mem::take(&mut self.intermediate_tables);
        self.output.remove_tables(scrap);
        install::archive_files(&self.output, &self.report.moved).map_err(CommitError::Indeterminate)
    }

    pub(super) fn report_problem(&mut self, file: FileName, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), offset: None, message: what.into() });
    }

    pub(super) fn report_action(&mut self, action: String) {
        self.report.actions.push(action);
    }
}

/// What a database needs.
pub(super) enum RepairAction {
    /// It is healthy.
    None,
    /// CURRENT, naming this manifest.
    WriteCurrent(u64),
    /// A new manifest.
    WriteManifest,
}
