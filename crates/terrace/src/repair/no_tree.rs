//! Nobody says what is live: every table and log that is not known to be old, in the order of sequence numbers.
//!
//! File numbers and levels say nothing here. All goes to the deepest level, where no two tables share a key, so that
//! there is one place for each key, and what stands there is in order.

use terrace_format::edit::{LEVELS, NewFile};
use terrace_format::filename::FileName;

use super::job::{Job, Remedy};
use super::known::Facts;
use super::piece::Piece;
use super::place::{self, Overlap};
use super::salvage::{inspect, inspect_logs};
use crate::error::{Error, Result};
use crate::verify::{Row, table_name};

impl Job<'_> {
    /// Nobody knows what is live: all that is not known to be old.
    pub(super) fn find_tree(&mut self, facts: &Facts) -> Result<Remedy> {
        self.shop.next_file = self.shop.next_file.max(facts.next_file);
        self.outcome.guarded = facts.guarded || !self.shop.options.compression.portable;
        self.outcome.last_sequence = facts.last_sequence;
        let missing = facts.missing(&self.files);
        let tables: Vec<FileName> = self.files.iter().copied().filter(FileName::is_table).collect();
        let mut pieces = Vec::new();
        for table in tables {
            pieces.extend(self.some_table(table, facts, &missing)?);
        }
        for number in self.needed_logs(|number| facts.is_old_log(number)) {
            self.act(format!("{}: old, its writes are in tables", FileName::Log(number)));
            self.retired.push(FileName::Log(number));
        }
        let logs = self.needed_logs(|number| !facts.is_old_log(number));
        let mut seen = Row::new(false, 0, 0);
        let damage = inspect_logs(&self.shop, &logs, &mut seen)?;
        self.report.problems.extend(damage);
        pieces.extend(self.turn_logs(&logs, Row::new(false, 0, 0))?);
        let newest = pieces.iter().map(|piece| piece.newest).max().unwrap_or(0);
        self.outcome.last_sequence = self.outcome.last_sequence.max(newest).max(seen.last);
        // Versions of a key in two tables of a level would be in no order that both engines follow.
        let groups = place::apart(pieces, &self.shop.order, Overlap::UserKeys);
        self.place(LEVELS - 1, groups)?;
        Ok(Remedy::Manifest)
    }

    /// Takes in a table that nothing is known of, or not much.
    fn some_table(&mut self, name: FileName, facts: &Facts, missing: &[NewFile]) -> Result<Vec<Piece>> {
        let number = name.number().unwrap_or(0);
        let seen = inspect(&self.shop, name)?;
        if facts.is_old_table(number, &seen.tally, missing, &self.shop) {
            self.act(format!("{name}: old, its entries are in other tables"));
            self.retired.push(name);
            return Ok(Vec::new());
        }
        if seen.disorder && seen.lost == 0 && !facts.named {
            let order = self.shop.options.comparator.name();
            return Err(Error::InvalidArgument(format!(
                "the keys of {name} do not rise in the order of {order}: was the database made with another?"
            )));
        }
        self.outcome.guarded |= !seen.portable;
        // A reader that looks for the number finds the table with the present ending.
        let shadowed = table_name(number, &self.files) != Some(name);
        if seen.damage.is_empty() && seen.tally.entries > 0 && !shadowed {
            let file = seen.tally.file(number, seen.size)?;
            return Ok(vec![Piece::new(file, &seen.tally, name, true)]);
        }
        self.salvage(name, seen)
    }
}
