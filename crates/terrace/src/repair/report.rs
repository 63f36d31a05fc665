//! What a repair found and did, for programs and for people.

use std::fmt;

use crate::verify::Problem;

/// What [`repair`](crate::repair) found and did, or with a dry run would do.
///
/// ```text
/// found:
///   000007.ldb at 81920: checksum 0x0000000e, expected 0x0000000f as stored
/// done:
///   000007.ldb: 1 block lost, 2210 entries go on in a new table
///   a new manifest says what is live
///   moved 000007.ldb to lost/000007.ldb
/// 11 tables kept, 1 salvaged, 0 missing; 0 logs kept, 0 turned into tables
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether nothing was written, because only the report was wanted.
    pub dry_run: bool,
    /// Whether anything changed, or would have.
    pub changed: bool,
    /// Tables that stay as they are.
    pub tables_kept: u64,
    /// Tables that were damaged, and what can be read of them goes on in new ones.
    pub tables_salvaged: u64,
    /// Sound tables that were merged with others, because their keys overlap and nothing else says which is newer.
    pub tables_merged: u64,
    /// Tables that should be there and are not.
    pub tables_missing: u64,
    /// Blocks of entries that could not be read. What they held is lost; an older version of a key may show again.
    pub blocks_lost: u64,
    /// Logs that stay as they are, for the next open to replay.
    pub logs_kept: u64,
    /// Logs whose writes became tables.
    pub logs_salvaged: u64,
    /// What was wrong.
    pub problems: Vec<Problem>,
    /// What was done about it, a sentence each.
    pub actions: Vec<String>,
    /// Files that are not part of the database any more: their old and new names in its directory.
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
            writeln!(f, "nothing to repair: the database stays as it is")?;
        }
        write!(f, "{} tables kept, {} salvaged", self.tables_kept, self.tables_salvaged)?;
        if self.tables_merged > 0 {
            write!(f, ", {} merged", self.tables_merged)?;
        }
        write!(f, ", {} missing; ", self.tables_missing)?;
        write!(f, "{} logs kept, {} turned into tables", self.logs_kept, self.logs_salvaged)
    }
}
