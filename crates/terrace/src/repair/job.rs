//! One repair, step by step: what is known, what goes on, and making it count.
//!
//! How tables and logs are judged depends on whether the tree is known: see the rooms `tree` and `no_tree`.

use std::collections::BTreeSet;

use terrace_format::filename::FileName;

use super::RepairReport;
use super::known::{Facts, Known, learn};
use super::merge::merge;
use super::piece::Piece;
use super::place::{self, Overlap};
use super::salvage::{Inspected, rescue_log, rescue_table};
use super::settle::{self, Outcome};
use super::workshop::Workshop;
use crate::error::Result;
use crate::verify::{Problem, Row};
use crate::version::{Failure, set_current};

/// A repair at work.
pub(super) struct Job<'a> {
    pub(super) shop: Workshop<'a>,
    pub(super) files: Vec<FileName>,
    pub(super) report: RepairReport,
    pub(super) outcome: Outcome,
    /// Files that are no part of the outcome.
    pub(super) retired: Vec<FileName>,
    /// Tables that were made only to be merged.
    pub(super) scrap: Vec<u64>,
}

impl Job<'_> {
    pub(super) fn run(&mut self) -> Result<()> {
        let prepared = self.prepare();
        if prepared.is_err() {
            self.shop.clear();
        }
        match prepared? {
            Remedy::None => Ok(()),
            Remedy::Current(manifest) => self.name_manifest(manifest),
            Remedy::Manifest => self.finish().map_err(|failure| {
                if let Failure::Before(_) = failure {
                    // What was there still counts: a next try would take these for tables of the database.
                    self.shop.clear();
                }
                failure.into_error()
            }),
        }
    }

    /// Writes every new table, and finds out what is to be done.
    fn prepare(&mut self) -> Result<Remedy> {
        let used = self.files.iter().filter_map(FileName::number).max().unwrap_or(0);
        self.shop.next_file = used.saturating_add(1);
        match learn(&self.shop, &self.files, &mut self.report.problems)? {
            Known::Tree { recovered, named } => match self.is_behind(&recovered)? {
                true => {
                    let facts = Facts::read(
                        &self.shop,
                        &self.files,
                        Some(recovered.manifest),
                        &mut self.report.problems,
                    )?;
                    self.find_tree(&facts)
                }
                false => self.keep_tree(&recovered, named),
            },
            Known::Facts(facts) => self.find_tree(&facts),
        }
    }

    /// Copies what can be read of a damaged table.
    pub(super) fn salvage(&mut self, name: FileName, seen: Inspected) -> Result<Vec<Piece>> {
        self.report.problems.extend(seen.damage);
        let rescued = rescue_table(&mut self.shop, name)?;
        let lost = match (seen.lost, seen.unindexed) {
            (0, false) => "no block lost".to_owned(),
            (0, true) => "its blocks had to be searched".to_owned(),
            (1, _) => "1 block lost".to_owned(),
            (n, _) => format!("{n} blocks lost"),
        };
        self.act(format!("{name}: {lost}, {} entries go on in a new table", rescued.entries));
        self.report.tables_salvaged += 1;
        self.report.blocks_lost += seen.lost;
        self.retired.push(name);
        Ok(rescued.pieces)
    }

    /// The logs that are there and for which `is_needed` holds, in their order.
    pub(super) fn needed_logs(&self, is_needed: impl Fn(u64) -> bool) -> Vec<u64> {
        let number = |file: &FileName| if let FileName::Log(number) = *file { Some(number) } else { None };
        self.files.iter().filter_map(number).filter(|&number| is_needed(number)).collect()
    }

    /// Makes tables of logs, the next of `row`.
    pub(super) fn turn_logs(&mut self, logs: &[u64], mut row: Row) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        for &number in logs {
            let rescued = rescue_log(&mut self.shop, number, &mut row)?;
            self.act(format!("{}: {} entries go on in a table", FileName::Log(number), rescued.entries));
            pieces.extend(rescued.pieces);
            self.report.logs_salvaged += 1;
            self.retired.push(FileName::Log(number));
        }
        Ok(pieces)
    }

    /// Which tables of a level may stand as they are, and which must be merged.
    pub(super) fn groups(&self, level: usize, pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
        match level {
            0 => place::by_age(pieces, &self.shop.order),
            _ => place::apart(pieces, &self.shop.order, Overlap::InternalKeys),
        }
    }

    /// Puts tables on a level, those of a group as one run.
    pub(super) fn place(&mut self, level: usize, groups: Vec<Vec<Piece>>) -> Result<()> {
        for group in groups {
            let run = if group.len() > 1 { self.merge(level, &group)? } else { group };
            self.report.tables_kept += run.iter().filter(|piece| piece.stored).count() as u64;
            self.outcome.tables.extend(run.into_iter().map(|piece| (level, piece.file)));
        }
        Ok(())
    }

    fn merge(&mut self, level: usize, group: &[Piece]) -> Result<Vec<Piece>> {
        let names: BTreeSet<String> = group.iter().map(|piece| piece.from.to_string()).collect();
        let names: Vec<String> = names.into_iter().collect();
        self.act(format!("merge into level {level}, by sequence number: {}", names.join(", ")));
        let merged = merge(&mut self.shop, group)?;
        let (stored, made): (Vec<&Piece>, Vec<&Piece>) = group.iter().partition(|piece| piece.stored);
        self.report.tables_merged += stored.len() as u64;
        self.retired.extend(stored.iter().map(|piece| piece.from));
        self.scrap.extend(made.iter().map(|piece| piece.file.number));
        Ok(merged)
    }

    /// All that is wrong is CURRENT.
    fn name_manifest(&mut self, manifest: u64) -> Result<()> {
        self.act(format!("CURRENT names {}, which is whole", FileName::Manifest(manifest)));
        self.report.changed = true;
        if !self.shop.dry_run {
            set_current(self.shop.env(), self.shop.directory, manifest).map_err(Failure::into_error)?;
        }
        Ok(())
    }

    /// Makes the outcome count.
    fn finish(&mut self) -> std::result::Result<(), Failure> {
        self.act("a new manifest says what is live".to_owned());
        self.report.changed = true;
        self.retired.extend(self.files.iter().filter(|file| matches!(file, FileName::Manifest(_))));
        self.report.moved = settle::moves(&self.shop, &self.retired).map_err(Failure::Before)?;
        if self.shop.dry_run {
            return Ok(());
        }
        settle::install(&mut self.shop, std::mem::take(&mut self.outcome))?;
        let scrap = std::mem::take(&mut self.scrap);
        self.shop.scrap(scrap);
        settle::set_aside(&self.shop, &self.report.moved).map_err(Failure::Unknown)
    }

    pub(super) fn note(&mut self, file: FileName, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.to_string(), at: None, what: what.into() });
    }

    pub(super) fn act(&mut self, action: String) {
        self.report.actions.push(action);
    }
}

/// What a database needs.
pub(super) enum Remedy {
    /// It is healthy.
    None,
    /// CURRENT, naming this manifest.
    Current(u64),
    /// A new manifest.
    Manifest,
}
