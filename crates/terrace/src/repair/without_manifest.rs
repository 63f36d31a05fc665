//! Repair without a complete manifest, from every table and log that is not known to be obsolete.
//!
//! File numbers and levels carry no information here. All tables go to the deepest level. No two
//! tables of that level share a key, so each key has one place and its versions are in order.

use terrace_format::filename::FileName;
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use super::job::{RepairAction, RepairJob};
use super::level_assignment::{self, KeyOverlap};
use super::manifest_facts::ManifestFacts;
use super::recovered_table::RecoveredTable;
use super::salvage::inspect_logs;
use crate::error::{Error, Result};
use crate::verify::{LogSequenceCheck, find_table_file};

impl RepairJob<'_> {
    /// Repairs from all tables and logs that are not known to be obsolete.
    pub(super) fn repair_without_manifest(&mut self, facts: &ManifestFacts) -> Result<RepairAction> {
        self.output.next_file_number = self.output.next_file_number.max(facts.next_file_number);
        // Without a name, the tables alone decide.
        self.new_manifest.can_have_marker |= facts.is_incompatible || !facts.comparator_known;
        self.new_manifest.last_sequence = facts.last_sequence;
        let missing = facts.missing_tables(&self.files);
        let table_files: Vec<FileName> = self.files.iter().copied().filter(FileName::is_table).collect();
        let mut tables = Vec::new();
        for file in table_files {
            tables.extend(self.recover_table(file, facts, &missing)?);
        }
        for number in self.logs_matching(|number| facts.is_obsolete_log(number)) {
            self.report_action(format!("{}: obsolete, its writes are in tables", FileName::Log(number)));
            self.replaced_files.push(FileName::Log(number));
        }
        let logs = self.logs_matching(|number| !facts.is_obsolete_log(number));
        let mut sequence_check = LogSequenceCheck::new(false, 0, 0);
        let problems = inspect_logs(&self.output, &logs, &mut sequence_check)?;
        self.report.problems.extend(problems);
        tables.extend(self.convert_logs_to_tables(&logs, LogSequenceCheck::new(false, 0, 0))?);
        let newest = tables.iter().map(|table| table.max_sequence).max().unwrap_or(0);
        self.new_manifest.last_sequence =
            self.new_manifest.last_sequence.max(newest).max(sequence_check.last_sequence);
        // Two tables of one level must not share a user key: Terrace and LevelDB would order its
        // versions differently.
        let groups = level_assignment::group_by_overlap(tables, &self.output.order, KeyOverlap::UserKeys);
        self.add_to_level(NUM_LEVELS - 1, groups)?;
        Ok(RepairAction::WriteManifest)
    }

    /// Recovers a table of which the manifests say little or nothing.
    fn recover_table(
        &mut self,
        name: FileName,
        facts: &ManifestFacts,
        missing: &[NewFile],
    ) -> Result<Vec<RecoveredTable>> {
        let number = name.number().unwrap_or(0);
        let recorded = facts.live_tables.get(&number);
        let Some(inspection) = self.inspect_table(name, recorded)? else { return Ok(Vec::new()) };
        if facts.is_obsolete_table(number, &inspection.stats, missing, &self.output) {
            self.report_action(format!("{name}: obsolete, its entries are in other tables"));
            self.replaced_files.push(name);
            return Ok(Vec::new());
        }
        if inspection.keys_out_of_order && inspection.lost_blocks == 0 && !facts.comparator_known {
            let order = self.output.options.comparator.name();
            return Err(Error::InvalidArgument(format!(
                "the keys of {name} are not in the order of {order}: was the database created with another comparator?"
            )));
        }
        // Readers look for `.ldb` before `.sst`, so a table with the older suffix may be shadowed
        // by one with the same number.
        let shadowed = find_table_file(number, &self.files) != Some(name);
        if inspection.problems.is_empty() && inspection.stats.entries > 0 && !shadowed {
            let file = inspection.stats.to_new_file(number, inspection.size)?;
            return Ok(vec![RecoveredTable::new(
                file,
                &inspection.stats,
                name,
                true,
                inspection.needs_marker,
            )]);
        }
        self.replace_damaged_table(name, inspection)
    }
}
