//! Nobody says what is live: every table and log that is not known to be old, in the order of sequence numbers.
//!
//! File numbers and levels say nothing here. All goes to the deepest level, where no two tables share a key, so that
//! there is one place for each key, and what stands there is in order.

use terrace_format::filename::FileName;
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use super::job::{RepairAction, RepairJob};
use super::level_assignment::{self, KeyOverlap};
use super::manifest_facts::ManifestFacts;
use super::recovered_table::RecoveredTable;
use super::salvage::{inspect_logs, inspect_table};
use crate::error::{Error, Result};
use crate::verify::{LogSequenceCheck, find_table_file};

impl RepairJob<'_> {
    /// Nobody knows what is live: all that is not known to be old.
    pub(super) fn repair_without_manifest(&mut self, facts: &ManifestFacts) -> Result<RepairAction> {
        self.output.next_file_number = self.output.next_file_number.max(facts.next_file_number);
        self.new_manifest.is_incompatible =
            facts.is_incompatible || !self.output.options.compression.leveldb_compatible;
        self.new_manifest.last_sequence = facts.last_sequence;
        let missing = facts.missing_tables(&self.files);
        let tables: Vec<FileName> = self.files.iter().copied().filter(FileName::is_table).collect();
        let mut pieces = Vec::new();
        for table in tables {
            pieces.extend(self.recover_table(table, facts, &missing)?);
        }
        for number in self.logs_matching(|number| facts.is_obsolete_log(number)) {
            self.report_action(format!("{}: old, its writes are in tables", FileName::Log(number)));
            self.replaced_files.push(FileName::Log(number));
        }
        let logs = self.logs_matching(|number| !facts.is_obsolete_log(number));
        let mut seen = LogSequenceCheck::new(false, 0, 0);
        let damage = inspect_logs(&self.output, &logs, &mut seen)?;
        self.report.problems.extend(damage);
        pieces.extend(self.convert_logs_to_tables(&logs, LogSequenceCheck::new(false, 0, 0))?);
        let newest = pieces.iter().map(|piece| piece.max_sequence).max().unwrap_or(0);
        self.new_manifest.last_sequence = self.new_manifest.last_sequence.max(newest).max(seen.last_sequence);
        // Versions of a key in two tables of a level would be in no order that both engines follow.
        let groups = level_assignment::group_by_overlap(pieces, &self.output.order, KeyOverlap::UserKeys);
        self.add_to_level(NUM_LEVELS - 1, groups)?;
        Ok(RepairAction::WriteManifest)
    }

    /// Takes in a table that nothing is known of, or not much.
    fn recover_table(
        &mut self,
        name: FileName,
        facts: &ManifestFacts,
        missing: &[NewFile],
    ) -> Result<Vec<RecoveredTable>> {
        let number = name.number().unwrap_or(0);
        let seen = inspect_table(&self.output, name)?;
        if facts.is_obsolete_table(number, &seen.stats, missing, &self.output) {
            self.report_action(format!("{name}: old, its entries are in other tables"));
            self.replaced_files.push(name);
            return Ok(Vec::new());
        }
        if seen.keys_out_of_order && seen.lost_blocks == 0 && !facts.comparator_known {
            let order = self.output.options.comparator.name();
            return Err(Error::InvalidArgument(format!(
                "the keys of {name} do not rise in the order of {order}: was the database made with another?"
            )));
        }
        self.new_manifest.is_incompatible |= !seen.leveldb_compatible;
        // A reader that looks for the number finds the table with the present ending.
        let shadowed = find_table_file(number, &self.files) != Some(name);
        if seen.problems.is_empty() && seen.stats.entries > 0 && !shadowed {
            let file = seen.stats.to_new_file(number, seen.size)?;
            return Ok(vec![RecoveredTable::new(file, &seen.stats, name, true)]);
        }
        self.replace_damaged_table(name, seen)
    }
}
