//! A Terrace database as a store under crash tests.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, Iter, Logger, ReadOptions, RepairOptions, Snapshot, WriteBatch, WriteOptions};
use terrace_env::{Clock, DeterministicScheduler, FileSystem, ManualClock, Scheduler, SeededRandom};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use super::contents::Entry;
use super::script::ScriptStep;
use super::store::CrashableStore;
use crate::database_under_test;

/// Directory of the database.
pub const DB_DIR: &str = "/db";

/// Options of a database and of its environment, without the files.
#[derive(Debug, Clone)]
pub struct OpenConfig {
    /// Options of the database.
    pub settings: Settings,
    /// Seed of the order of background jobs.
    pub seed: u64,
    /// True if messages go to the file LOG.
    pub info_log: bool,
    /// Clock, if it is not the default one.
    pub clock: Option<Arc<dyn Clock>>,
    /// Scheduler, if it is not the default one.
    pub scheduler: Option<Arc<dyn Scheduler>>,
}

impl OpenConfig {
    /// Draws random options with small buffers.
    pub fn draw(rng: &mut Rng) -> OpenConfig {
        let settings = Settings {
            write_buffer_size: rng.pick(&[64 << 10, 64 << 10, 128 << 10]),
            max_file_size: 1 << 20,
            cache_bytes: Some(rng.pick(&[0, 64 << 10])),
            paranoid_checks: false,
            ..Settings::draw(rng, ComparatorKind::Bytewise)
        };
        let seed = rng.next_u64();
        let settings = Settings { zstd: (seed / 8).is_multiple_of(8), ..settings };
        OpenConfig { settings, seed, info_log: rng.one_in(4), clock: None, scheduler: None }
    }

    /// Returns the options of a database on `fs`.
    pub fn options(&self, fs: &Arc<dyn FileSystem>) -> terrace::Options {
        let env = Env {
            fs: Arc::clone(fs),
            clock: self.clock.clone().unwrap_or_else(|| Arc::new(ManualClock::new(0))),
            scheduler: self.scheduler.clone().unwrap_or_else(|| DeterministicScheduler::new(self.seed)),
            random: Arc::new(SeededRandom::new(self.seed)),
        };
        let mut options = database_under_test::options_from_settings(&self.settings, &env);
        if !self.info_log {
            options.logger = Some(Arc::new(NullLogger));
        }
        options
    }
}

struct NullLogger;

impl Logger for NullLogger {
    fn log(&self, _line: fmt::Arguments<'_>) {}
}

/// An open database, with a snapshot and an iterator of the same time.
pub struct TerraceStore {
    db: Db,
    options: terrace::Options,
    snapshot_readers: Option<(Snapshot, Iter)>,
}

impl TerraceStore {
    /// Opens the database and returns the typed error.
    pub fn try_open(options: &terrace::Options) -> terrace::Result<TerraceStore> {
        Ok(TerraceStore { db: Db::open(DB_DIR, options)?, options: options.clone(), snapshot_readers: None })
    }

    /// Returns the database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Writes a batch and returns the typed error.
    pub fn try_write(&self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> terrace::Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        self.db.write_with(&batch, &WriteOptions::default().sync(sync))
    }

    /// Reads all entries with an iterator and compares each with a get.
    pub fn try_entries(&self, snapshot: Option<Snapshot>) -> terrace::Result<Result<Vec<Entry>, String>> {
        let options = ReadOptions::default().snapshot(snapshot);
        let entries: Vec<Entry> = self.db.iter_with(&options).collect::<terrace::Result<_>>()?;
        for (key, value) in &entries {
            if self.db.get_with(key, &options)?.as_ref() != Some(value) {
                let key = key.escape_ascii();
                return Ok(Err(format!("get and the iterator return different values of {key}")));
            }
        }
        Ok(Ok(entries))
    }
}

fn error_text(error: terrace::Error) -> String {
    error.to_string()
}

impl CrashableStore for TerraceStore {
    type Options = OpenConfig;

    fn open(fs: &Arc<dyn FileSystem>, config: &OpenConfig) -> Result<TerraceStore, String> {
        TerraceStore::try_open(&config.options(fs)).map_err(error_text)
    }

    fn write(&mut self, changes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), String> {
        self.try_write(changes, sync).map_err(error_text)
    }

    fn entries(&self) -> Result<Vec<Entry>, String> {
        self.try_entries(None).map_err(error_text)?
    }

    fn close(self) -> Result<(), String> {
        drop(self.snapshot_readers);
        self.db.close().map_err(error_text)
    }

    fn make_durable(mut self, step: &ScriptStep) -> Result<TerraceStore, String> {
        match step {
            ScriptStep::Flush => self.db.flush().map_err(error_text)?,
            ScriptStep::Compact => self.db.compact_range(None, None).map_err(error_text)?,
            ScriptStep::Settle => {
                while self.db.property("terrace.settled").as_deref() != Some("1") {
                    if !self.options.env.scheduler.run_one_here() {
                        return Err("the tree has not settled, and no job is left".into());
                    }
                }
            }
            ScriptStep::Reopen | ScriptStep::Repair => {
                self.snapshot_readers = None;
                self.db.close().map_err(error_text)?;
                if matches!(step, ScriptStep::Repair) {
                    let report = terrace::repair(Path::new(DB_DIR), &self.options, &RepairOptions::default());
                    report.map_err(error_text)?;
                }
                self.db = Db::open(DB_DIR, &self.options).map_err(error_text)?;
            }
            ScriptStep::Write { .. } | ScriptStep::TakeSnapshot => {}
        }
        Ok(self)
    }

    fn take_snapshot(&mut self) {
        self.snapshot_readers = Some((self.db.snapshot(), self.db.iter()));
    }

    fn read_snapshot(&mut self) -> Option<Result<Vec<Entry>, String>> {
        let (snapshot, iterator) = self.snapshot_readers.take()?;
        let iterated: Result<Vec<Entry>, String> = iterator.map(|entry| entry.map_err(error_text)).collect();
        let read = self.try_entries(Some(snapshot)).map_err(error_text).and_then(|entries| entries);
        Some(iterated.and_then(|iterated| match read {
            Ok(read) if read == iterated => Ok(read),
            Ok(_) => Err("an iterator and a snapshot of the same sequence number differ".into()),
            error => error,
        }))
    }
}
