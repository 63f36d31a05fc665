//! The manifest says what is live: tables stay where they are, each damaged one is replaced on its own level.

use std::collections::BTreeSet;

use terrace_format::edit::{LEVELS, NewFile};
use terrace_format::filename::FileName;

use super::job::{Job, Remedy};
use super::piece::Piece;
use super::salvage::{inspect, inspect_logs};
use crate::error::Result;
use crate::verify::{Problem, Row, table_name};
use crate::version::Recovered;

impl Job<'_> {
    /// True if the end of the manifest is lost without a trace: what it names is missing, and tables that it does not
    /// name can have taken the place.
    ///
    /// A log goes only after the edit that says that its writes are in a table; a table, after the one that replaces it.
    pub(super) fn is_behind(&self, recovered: &Recovered) -> Result<bool> {
        let set = &recovered.set;
        let live: Vec<NewFile> = set.version.levels.iter().flatten().map(|file| file.to_edit()).collect();
        let is_stored = |file: &&NewFile| table_name(file.number, &self.files).is_some();
        let (_, missing): (Vec<&NewFile>, Vec<&NewFile>) = live.iter().partition(is_stored);
        let log_missing = set.log_number != 0 && !self.files.contains(&FileName::Log(set.log_number));
        if missing.is_empty() && !log_missing {
            return Ok(false);
        }
        let known: BTreeSet<u64> = live.iter().map(|file| file.number).collect();
        for table in self.files.iter().filter(|file| file.is_table()) {
            if table.number().is_none_or(|number| number <= recovered.manifest || known.contains(&number)) {
                continue;
            }
            let tally = inspect(&self.shop, *table)?.tally;
            if log_missing || missing.iter().any(|file| tally.overlaps(file, &self.shop.order)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The manifest says what is live, and where.
    pub(super) fn keep_tree(&mut self, recovered: &Recovered, named: bool) -> Result<Remedy> {
        let set = &recovered.set;
        self.shop.next_file = self.shop.next_file.max(recovered.next_file);
        self.outcome.guarded = set.guarded || !self.shop.options.compression.portable;
        let mut changes = false;
        if let Some(torn) = &recovered.torn {
            // It never counted, and the next open begins a new manifest.
            self.report.problems.push(Problem::of(FileName::Manifest(recovered.manifest), torn.clone()));
        }
        let mut levels: [Vec<Piece>; LEVELS] = Default::default();
        let mut listed = BTreeSet::new();
        for (level, pieces) in levels.iter_mut().enumerate() {
            for file in &set.version.levels[level] {
                if !listed.insert(file.number) {
                    self.note(
                        FileName::Manifest(recovered.manifest),
                        format!("lists table {} twice", file.number),
                    );
                    changes = true;
                    continue;
                }
                changes |= self.live_table(&file.to_edit(), pieces)?;
            }
        }
        let last = set.version.levels.iter().flatten().map(|file| file.number).max();
        if let Some(last) = last.filter(|&last| last >= recovered.next_file) {
            let what =
                format!("next file number {}, expected more than {last}, a live table", recovered.next_file);
            self.note(FileName::Manifest(recovered.manifest), what);
            changes = true;
        }
        let newest = levels.iter().flatten().map(|piece| piece.newest).max().unwrap_or(0);
        changes |= levels
            .iter()
            .enumerate()
            .any(|(level, pieces)| self.groups(level, pieces.clone()).iter().any(|group| group.len() > 1));
        let logs = self.needed_logs(|number| number >= set.log_number || number == set.prev_log_number);
        let row = || Row::new(recovered.ours, set.last_sequence, newest);
        let mut seen = row();
        let damage = inspect_logs(&self.shop, &logs, &mut seen)?;
        if newest > seen.last {
            let what =
                format!("last sequence number {}, expected {newest}, as in a table", set.last_sequence);
            self.note(FileName::Manifest(recovered.manifest), what);
            changes = true;
        }
        self.outcome.last_sequence = newest.max(set.last_sequence);
        let damaged = !damage.is_empty();
        self.report.problems.extend(damage);
        // A new manifest is one of Terrace, which has rules of its own for logs.
        if damaged || (changes && !recovered.ours) {
            self.outcome.last_sequence = self.outcome.last_sequence.max(seen.last);
            levels[0].extend(self.turn_logs(&logs, row())?);
            changes |= !logs.is_empty();
            self.retire_log_0(set.prev_log_number);
        } else {
            self.report.logs_kept = logs.len() as u64;
            self.outcome.log_number = Some(set.log_number);
            self.outcome.prev_log_number = set.prev_log_number;
        }
        if !changes {
            self.report.tables_kept = levels.iter().map(|pieces| pieces.len() as u64).sum();
            return Ok(if named { Remedy::None } else { Remedy::Current(recovered.manifest) });
        }
        for (level, pieces) in levels.into_iter().enumerate() {
            self.place(level, self.groups(level, pieces))?;
        }
        Ok(Remedy::Manifest)
    }

    /// Sets the log with the number 0 aside, which was old while the log before the last one had another number. Without one
    /// before the last, which a manifest says by that very number, it would count.
    fn retire_log_0(&mut self, prev_log_number: u64) {
        let log = FileName::Log(0);
        if prev_log_number != 0 && self.files.contains(&log) {
            self.act(format!("{log}: old, its writes are in tables"));
            self.retired.push(log);
        }
    }

    /// Takes in a table that the manifest names. True if that is not simply to leave it.
    fn live_table(&mut self, file: &NewFile, pieces: &mut Vec<Piece>) -> Result<bool> {
        let Some(name) = table_name(file.number, &self.files) else {
            self.note(FileName::Table(file.number), "missing, and the manifest says that it is live");
            self.act(format!("{}: what only it held is lost", FileName::Table(file.number)));
            self.report.tables_missing += 1;
            return Ok(true);
        };
        let seen = inspect(&self.shop, name)?;
        if !seen.damage.is_empty() {
            pieces.extend(self.salvage(name, seen)?);
            return Ok(true);
        }
        let exceeds = seen.tally.entries > 0 && seen.tally.exceeds(file, &self.shop.order);
        let right = file.size == seen.size && !exceeds;
        let stays = match exceeds {
            true => seen.tally.file(file.number, seen.size)?,
            false => NewFile { size: seen.size, ..file.clone() },
        };
        if !right {
            self.note(name, format!("holds {stays:?}, expected {file:?} as in the manifest"));
            self.act(format!("{name}: the manifest takes its size and its keys from it"));
        }
        pieces.push(Piece::new(stays, &seen.tally, name, true));
        Ok(!right)
    }
}
