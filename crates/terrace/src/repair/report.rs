//! Report of a repair, for programs and for people.

use std::fmt;

use crate::verify::{Problem, count_noun};

/// Findings and actions of [`repair`](fn@crate::repair); with a dry run, the planned actions.
///
/// ```text
/// found:
///   000007.ldb at 81920: checksum 0x0000000e, expected 0x0000000f as stored
/// done:
///   000007.ldb: 1 block lost; 2,210 entries salvaged into a new table
///   a new manifest lists the live tables
///   moved 000007.ldb to lost/000007.ldb
/// 11 tables kept, 1 salvaged, 0 missing; 0 logs kept, 0 converted to tables
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether this is the report of a dry run, which writes nothing.
    pub dry_run: bool,
    /// Whether the repair changed the database, or would have changed it.
    pub changed: bool,
    /// Number of tables that stay unchanged.
    pub tables_kept: u64,
    /// Number of damaged tables; their readable entries were written to new tables.
    pub tables_salvaged: u64,
    /// Number of intact tables that were merged with others, because their keys overlap and their
    /// file numbers do not tell which table is newer.
    pub tables_merged: u64,
    /// Number of live tables that are missing from the directory.
    pub tables_missing: u64,
    /// Number of tables that cannot be read at all, such as a special file in the place of a table.
    /// Their entries are lost.
    pub tables_unreadable: u64,
    /// Number of unreadable blocks. Their entries are lost, and an older version of a key may
    /// become visible again.
    pub blocks_lost: u64,
    /// Number of logs that stay unchanged; the next open replays them.
    pub logs_kept: u64,
    /// Number of logs that were converted to tables.
    pub logs_salvaged: u64,
    /// Problems found.
    pub problems: Vec<Problem>,
    /// Actions taken, one sentence each.
    pub actions: Vec<String>,
    /// Files that are no longer part of the database: old and new name, relative to its directory.
    pub moved: Vec<(String, String)>,
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.problems.is_empty() {
            writeln!(f, "found:")?;
            self.problems.iter().try_for_each(|problem| writeln!(f, "  {problem}"))?;
        }
        if self.changed {
            writeln!(f, "{}:", if self.dry_run { "to do" } else { "done" })?;
            self.actions.iter().try_for_each(|action| writeln!(f, "  {action}"))?;
            let verb = if self.dry_run { "move" } else { "moved" };
            self.moved.iter().try_for_each(|(from, to)| writeln!(f, "  {verb} {from} to {to}"))?;
        } else {
            writeln!(f, "nothing to repair: the database is unchanged")?;
        }
        let tables = count_noun(self.tables_kept, "table", "tables");
        write!(f, "{tables} kept, {} salvaged", self.tables_salvaged)?;
        if self.tables_merged > 0 {
            write!(f, ", {} merged", self.tables_merged)?;
        }
        if self.tables_unreadable > 0 {
            write!(f, ", {} unreadable", self.tables_unreadable)?;
        }
        let logs = count_noun(self.logs_kept, "log", "logs");
        write!(
            f,
            ", {} missing; {logs} kept, {} converted to tables",
            self.tables_missing, self.logs_salvaged
        )
    }
}
