//! A Terrace database as a store that is crashed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, Logger, ReadOptions, RepairOptions, Snapshot, WriteBatch, WriteOptions};
use terrace_env::{Clock, Deterministic, FileSystem, ManualClock, Scheduler, SeededRandom};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{Order, Settings};

use super::contents::Entry;
use super::script::Step;
use super::store::Store;
use crate::subject;

/// The directory of the database.
pub const DIR: &str = "/db";

/// How a database is opened: options, and the world beside the files.
#[derive(Debug, Clone)]
pub struct How {
    /// Its options.
    pub settings: Settings,
    /// Decides the order of background work.
    pub seed: u64,
    /// Whether messages go to the file LOG.
    pub info_log: bool,
    /// A clock of its own kind.
    pub clock: Option<Arc<dyn Clock>>,
    /// A scheduler of its own kind.
    pub scheduler: Option<Arc<dyn Scheduler>>,
}

impl How {
    /// Small buffers, everything else any.
    pub fn draw(rng: &mut Rng) -> How {
        let settings = Settings {
            write_buffer_size: rng.pick(&[64 << 10, 64 << 10, 128 << 10]),
            max_file_size: 1 << 20,
            cache_bytes: Some(rng.pick(&[0, 64 << 10])),
            paranoid_checks: false,
            ..Settings::draw(rng, Order::Bytewise)
        };
        How { settings, seed: rng.next_u64(), info_log: rng.one_in(4), clock: None, scheduler: None }
    }

    /// The options on these files.
    pub fn options(&self, fs: &Arc<dyn FileSystem>) -> terrace::Options {
        let env = Env {
            fs: Arc::clone(fs),
            clock: self.clock.clone().unwrap_or_else(|| Arc::new(ManualClock::new(0))),
            scheduler: self.scheduler.clone().unwrap_or_else(|| Deterministic::new(self.seed)),
            random: Arc::new(SeededRandom::new(self.seed)),
        };
        let mut options = subject::options(&self.settings, &env);
        if !self.info_log {
            options.logger = Some(Arc::new(Silent));
        }
        options
    }
}

struct Silent;

impl Logger for Silent {
    fn log(&self, _line: fmt::Arguments<'_>) {}
}

/// An open database and a snapshot of it.
pub struct Terrace {
    db: Db,
    options: terrace::Options,
    held: Option<Snapshot>,
}

impl Terrace {
    /// Opens it, with an error that is more than a text.
    pub fn try_open(options: &terrace::Options) -> terrace::Result<Terrace> {
        Ok(Terrace { db: Db::open(DIR, options)?, options: options.clone(), held: None })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Writes.
    pub fn try_write(&self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> terrace::Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.db.write_with(&batch, &WriteOptions { sync })
    }

    /// Everything, by iterator and by key.
    pub fn try_entries(&self, at: Option<Snapshot>) -> terrace::Result<Result<Vec<Entry>, String>> {
        let reading = ReadOptions { snapshot: at, ..ReadOptions::default() };
        let entries: Vec<Entry> =
            self.db.iter_with(&reading).into_forward().collect::<terrace::Result<_>>()?;
        for (key, value) in &entries {
            if self.db.get_with(key, &reading)?.as_ref() != Some(value) {
                let key = key.escape_ascii();
                return Ok(Err(format!("{key}: get and the iterator give different values")));
            }
        }
        Ok(Ok(entries))
    }
}

fn text(error: terrace::Error) -> String {
    error.to_string()
}

impl Store for Terrace {
    type Options = How;

    fn open(fs: &Arc<dyn FileSystem>, how: &How) -> Result<Terrace, String> {
        Terrace::try_open(&how.options(fs)).map_err(text)
    }

    fn write(&mut self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), String> {
        self.try_write(changes, sync).map_err(text)
    }

    fn entries(&self) -> Result<Vec<Entry>, String> {
        self.try_entries(None).map_err(text)?
    }

    fn close(self) -> Result<(), String> {
        drop(self.held);
        self.db.close().map_err(text)
    }

    fn settle(mut self, step: &Step) -> Result<Terrace, String> {
        match step {
            Step::Flush => self.db.flush().map_err(text)?,
            Step::Compact => self.db.compact_range(None, None).map_err(text)?,
            Step::Reopen | Step::Repair => {
                self.held = None;
                self.db.close().map_err(text)?;
                if matches!(step, Step::Repair) {
                    let report = terrace::repair(Path::new(DIR), &self.options, &RepairOptions::default());
                    report.map_err(text)?;
                }
                self.db = Db::open(DIR, &self.options).map_err(text)?;
            }
            Step::Write { .. } | Step::Hold => {}
        }
        Ok(self)
    }

    fn hold(&mut self) {
        self.held = Some(self.db.snapshot());
    }

    fn release(&mut self) -> Option<Result<Vec<Entry>, String>> {
        let held = self.held.take()?;
        Some(self.try_entries(Some(held)).map_err(text).and_then(|entries| entries))
    }
}
