//! The process that writes to a recorded disk, and ends without a close.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{Advice, fadvise, syncfs};
use serde::{Deserialize, Serialize};
use terrace::{Db, Env, MappedLogs, Options, WriteBatch, WriteOptions};
use terrace_testkit::op::Write;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use super::history;
use crate::database_under_test::options_from_settings;
use crate::harness::process_kill::writer::exit_with_parent;

/// Work of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecordedJob {
    /// Directory on the recorded disk.
    pub(super) directory: PathBuf,
    /// Records of the disk, whose length tells the time.
    pub(super) records: PathBuf,
    /// File for the [`Acknowledgement`]s, one line each.
    pub(super) acknowledgements: PathBuf,
    pub(super) seed: u64,
    pub(super) writes: u64,
    pub(super) sync_one_in: u64,
    /// False for [`MappedLogs::Never`].
    pub(super) maps_logs: bool,
}

/// The writes up to a number are durable from a position of the records on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledgement {
    pub(super) number: u64,
    pub(super) position: u64,
}

impl Acknowledgement {
    pub(super) fn parse(line: &str) -> Option<Acknowledgement> {
        let (number, position) = line.split_once(' ')?;
        Some(Acknowledgement { number: number.parse().ok()?, position: position.parse().ok()? })
    }
}

/// Runs the process. Its error goes to the standard error output.
pub(crate) fn run_workload(job: &RecordedJob) -> ExitCode {
    exit_with_parent();
    match RecordedWriter::new(job).and_then(|mut writer| writer.run()) {
        // Runs no destructor: the database stays open.
        Ok(()) => std::process::exit(0),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

struct RecordedWriter<'a> {
    job: &'a RecordedJob,
    rng: Rng,
    /// `None` only during a reopen.
    db: Option<Db>,
    acknowledgements: File,
    directory: File,
}

fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> RecordedWriter<'a> {
    fn new(job: &'a RecordedJob) -> Result<RecordedWriter<'a>, String> {
        Ok(RecordedWriter {
            job,
            rng: Rng::new(job.seed),
            db: None,
            acknowledgements: File::create(&job.acknowledgements).map_err(describe)?,
            directory: File::open(&job.directory).map_err(describe)?,
        })
    }

    fn run(&mut self) -> Result<(), String> {
        self.open()?;
        for number in 1..=self.job.writes {
            self.write(number)?;
            self.work_on_files(number)?;
            if self.rng.one_in(8) {
                self.write_back_some_pages()?;
            }
            if self.rng.one_in(12) {
                self.sync_other_file()?;
            }
            if self.rng.one_in(100) {
                // Only the recorded file system.
                syncfs(&self.directory).map_err(describe)?;
            }
        }
        Ok(())
    }

    fn database(&self) -> PathBuf {
        self.job.directory.join("db")
    }

    fn open(&mut self) -> Result<(), String> {
        let mut settings = Settings::draw_with_terrace_features(&mut self.rng, ComparatorKind::Bytewise);
        settings.write_buffer_size = self.rng.pick(&[64 << 10, 64 << 10, 256 << 10]);
        // Stock LevelDB reads the database, too.
        settings.zstd = false;
        let mapped_logs = if self.job.maps_logs { MappedLogs::Auto } else { MappedLogs::Never };
        let options: Options = options_from_settings(&settings, &Env::system()).mapped_logs(mapped_logs);
        self.db = Some(Db::open(self.database(), &options).map_err(describe)?);
        Ok(())
    }

    fn write(&mut self, number: u64) -> Result<(), String> {
        let mut batch = WriteBatch::new();
        for write in history::nth_batch(self.job.seed, number) {
            match write {
                Write::Put { key, value } => batch.put(&key, value.bytes()),
                Write::Delete { key } => batch.delete(&key),
            };
        }
        let is_synced = self.rng.one_in(self.job.sync_one_in);
        let db = self.db.as_ref().ok_or("the database is closed")?;
        db.write_with(&batch, &WriteOptions::default().sync(is_synced)).map_err(describe)?;
        if is_synced { self.acknowledge(number) } else { Ok(()) }
    }

    /// Sometimes flushes, compacts, or closes and opens the database. All earlier writes are
    /// durable then.
    fn work_on_files(&mut self, number: u64) -> Result<(), String> {
        let db = self.db.as_ref().ok_or("the database is closed")?;
        if self.rng.one_in(150) {
            db.flush().map_err(describe)?;
        } else if self.rng.one_in(300) {
            db.compact_range(None, None).map_err(describe)?;
        } else if self.rng.one_in(300) {
            self.db.take().map_or(Ok(()), Db::close).map_err(describe)?;
            self.acknowledge(number)?;
            return self.open();
        } else {
            return Ok(());
        }
        self.acknowledge(number)
    }

    fn acknowledge(&mut self, number: u64) -> Result<(), String> {
        let position = std::fs::metadata(&self.job.records).map_err(describe)?.len();
        writeln!(self.acknowledgements, "{number} {position}").map_err(describe)
    }

    /// Lets the system write some pages of a file, as it does when memory is short: in any order.
    fn write_back_some_pages(&mut self) -> Result<(), String> {
        let Some(path) = self.draw_file().map_err(describe)? else { return Ok(()) };
        // A job may have removed the file.
        let Ok(file) = File::open(&path) else { return Ok(()) };
        let pages = file.metadata().map_err(describe)?.len().div_ceil(4096);
        let first = self.rng.below(pages.max(1));
        let len = 1 + self.rng.skewed(8);
        fadvise(&file, first * 4096, std::num::NonZeroU64::new(len * 4096), Advice::DontNeed)
            .map_err(describe)
    }

    /// Syncs a file that does not belong to the database. This commits the journal of the file
    /// system, with the lengths of all files.
    fn sync_other_file(&mut self) -> Result<(), String> {
        let file = File::create(self.job.directory.join("other")).map_err(describe)?;
        (&file).write_all(&self.rng.next_u64().to_le_bytes()).map_err(describe)?;
        file.sync_all().map_err(describe)
    }

    /// Draws a file of the database, mostly the newest log.
    fn draw_file(&mut self) -> std::io::Result<Option<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(self.database())? {
            paths.push(entry?.path());
        }
        paths.sort();
        let newest_log = paths.iter().rfind(|path| is_log(path));
        if self.rng.one_in(4) || newest_log.is_none() {
            let index = self.rng.below(paths.len().max(1) as u64) as usize;
            return Ok(paths.get(index).cloned());
        }
        Ok(newest_log.cloned())
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}
