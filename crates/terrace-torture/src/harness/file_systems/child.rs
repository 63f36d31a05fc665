//! The child process, which works on a disk that is full most of the time.
//!
//! Each stage fills the disk at another moment. Afterwards the child frees space, and every
//! operation must succeed.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{Db, Env, ErrorKind, Options, WriteBatch, WriteOptions};
use terrace_testkit::differential::Entry;
use terrace_testkit::op::Write;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};

use super::ballast::{Ballast, fill_and_free};
use super::job::{DiskJob, DiskReport, Stage};
use crate::database_under_test::options_from_settings;
use crate::harness::process_kill::ledger::Ledger;
use crate::harness::process_kill::thread_writes::{self, ExpectedState};
use crate::harness::process_kill::writer::exit_with_parent;

/// Time after which an operation must succeed on a disk with space. btrfs frees space with its next
/// transaction.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Most attempts of one operation while the disk has little space.
const MAX_STEPS: u64 = 100;

/// Runs a child. Its violation goes to the standard error output.
pub(crate) fn run_child(job: &DiskJob) -> ExitCode {
    exit_with_parent();
    let outcome = DiskWorker::new(job).and_then(|mut worker| {
        let outcome = worker.run();
        worker.save_report()?;
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

struct DiskWorker<'a> {
    job: &'a DiskJob,
    rng: Rng,
    ballast: Ballast,
    ledger: Ledger,
    /// `None` only during a reopen.
    db: Option<Db>,
    /// Number of acknowledged writes.
    acknowledged: u64,
    expected: ExpectedState,
    /// True after an error that blocks writes until the next open.
    must_reopen: bool,
    report: DiskReport,
}

impl<'a> DiskWorker<'a> {
    fn new(job: &'a DiskJob) -> Result<DiskWorker<'a>, String> {
        let ballast = job.directory.join("ballast");
        Ok(DiskWorker {
            job,
            rng: Rng::new(job.seed ^ job.acknowledged),
            ballast: Ballast::create(&ballast).map_err(|error| format!("ballast: {error}"))?,
            ledger: Ledger::open(&job.ledger, 1)?,
            db: None,
            acknowledged: job.acknowledged,
            expected: ExpectedState::new(job.seed, 0),
            must_reopen: false,
            report: DiskReport::default(),
        })
    }

    fn save_report(&self) -> Result<(), String> {
        let text = serde_json::to_string(&self.report).map_err(|error| error.to_string())?;
        std::fs::write(&self.job.report, text).map_err(|error| format!("report: {error}"))
    }

    fn run(&mut self) -> Result<(), String> {
        self.open()?;
        self.check_contents()?;
        for &stage in &self.job.stages {
            self.run_stage(stage).map_err(|message| format!("{stage:?}: {message}"))?;
        }
        self.write_with_space(20)?;
        self.check_contents()?;
        if self.job.exits_without_close {
            // The exit runs no destructor.
            self.save_report()?;
            std::process::exit(0);
        }
        self.close()?;
        let report = terrace::verify(self.job.database(), &Options::default());
        let report = report.map_err(|error| format!("verify: {error}"))?;
        match report.problems.first() {
            Some(problem) => Err(format!("verify: {}: {}", problem.file, problem.message)),
            None => Ok(()),
        }
    }

    fn run_stage(&mut self, stage: Stage) -> Result<(), String> {
        match stage {
            Stage::LogWrites => self.fill_log()?,
            Stage::Flush => {
                let count = 20 + self.rng.below(200);
                self.write_with_space(count)?;
                self.retry_with_more_space(Db::flush)?;
            }
            Stage::Compaction => {
                for _ in 0..3 {
                    let count = 20 + self.rng.below(100);
                    self.write_with_space(count)?;
                    self.succeed_with_space(Db::flush)?;
                }
                self.retry_with_more_space(|db| db.compact_range(None, None))?;
            }
            Stage::Manifest => self.fill_manifest()?,
            Stage::Reopen => self.reopen_full()?,
            Stage::OtherWriter => self.write_beside_other_writer()?,
            Stage::Copy => self.copy_and_write()?,
        }
        self.check_contents()?;
        self.ballast.free_space()?;
        let count = 1 + self.rng.below(20);
        self.write_with_space(count)?;
        if self.rng.one_in(2) {
            self.succeed_with_space(Db::flush)?;
        }
        self.check_contents()
    }

    /// Writes until the disk is full, and some writes more.
    fn fill_log(&mut self) -> Result<(), String> {
        let free_bytes = self.rng.skewed(256 << 10);
        self.ballast.fill(free_bytes)?;
        let mut failures = 0;
        for _ in 0..800 {
            if failures == 6 || self.must_reopen {
                break;
            }
            if !self.write_once()? {
                failures += 1;
                self.check_contents()?;
            }
        }
        Ok(())
    }

    /// Flushes small tables. Each flush first finds no space, then some blocks more at each
    /// attempt. When the MANIFEST needs another block, the table takes the last one before it.
    fn fill_manifest(&mut self) -> Result<(), String> {
        let rounds = 20 + self.rng.below(30);
        for _ in 0..rounds {
            self.write_with_more_space()?;
            self.retry_with_more_space(Db::flush)?;
        }
        Ok(())
    }

    fn reopen_full(&mut self) -> Result<(), String> {
        let count = self.rng.below(60);
        self.write_with_space(count)?;
        self.ballast.fill(0)?;
        self.close()?;
        if self.rng.one_in(2) {
            let db = Db::open_read_only(self.job.database(), &self.draw_options());
            self.db = Some(db.map_err(|error| format!("read-only open on a full disk: {error}"))?);
            self.check_contents()?;
            self.db = None;
        }
        self.reopen_with_more_space()?;
        self.check_contents()?;
        for _ in 0..5 {
            self.write_once()?;
        }
        Ok(())
    }

    fn write_beside_other_writer(&mut self) -> Result<(), String> {
        let path = self.job.directory.join("other");
        let seed = self.rng.next_u64();
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let other = scope.spawn(|| fill_and_free(&path, seed, &stop));
            let outcome = self.write_while_disk_changes();
            stop.store(true, Ordering::Relaxed);
            // A full disk can refuse its calls, too.
            let _ = other.join().map_err(|_| "the thread that fills the disk panicked".to_owned())?;
            outcome
        });
        // The thread may have removed it.
        let _ = std::fs::remove_file(&path);
        outcome
    }

    fn write_while_disk_changes(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(60) {
            if self.must_reopen {
                self.reopen_with_more_space()?;
            }
            if !self.write_once()? {
                std::thread::sleep(Duration::from_micros(300));
            }
            if self.rng.one_in(200) {
                self.attempt(Db::flush)?;
            }
        }
        Ok(())
    }

    /// Copies the open database, fills the disk, writes, and checks the copy.
    fn copy_and_write(&mut self) -> Result<(), String> {
        // No job may change files during the copy: the log is almost empty.
        self.succeed_with_space(|db| db.compact_range(None, None))?;
        self.write_with_space(3)?;
        let copy = self.copy_database()?;
        let acknowledged = self.acknowledged;
        let free_bytes = self.rng.skewed(64 << 10);
        self.ballast.fill(free_bytes)?;
        let mut failures = 0;
        for _ in 0..400 {
            if failures == 3 || self.must_reopen {
                break;
            }
            failures += u64::from(!self.write_once()?);
        }
        self.check_contents()?;
        self.ballast.free_space()?;
        let db = Db::open(&copy, &self.draw_options()).map_err(|error| format!("open of a copy: {error}"))?;
        let entries = scan(&db)?;
        ExpectedState::new(self.job.seed, 0)
            .advance_to_match(&entries, acknowledged)
            .map_err(|message| format!("copy of the database: {message}"))?;
        db.close().map_err(|error| format!("close of a copy: {error}"))?;
        std::fs::remove_dir_all(&copy).map_err(|error| format!("copy: {error}"))
    }

    /// Copies the files of the open database, which share their blocks where files can.
    fn copy_database(&self) -> Result<PathBuf, String> {
        let copy = self.job.directory.join("copy");
        let mode = if self.job.has_reflinks { "--reflink=always" } else { "--reflink=auto" };
        let mut command = Command::new("cp");
        command.args(["-r", mode]).arg(self.job.database()).arg(&copy).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("cp: {error}"))?;
        if output.status.success() {
            Ok(copy)
        } else {
            Err(format!("cp: {}", String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Draws small sizes, so that few writes lead to tables.
    fn draw_options(&mut self) -> Options {
        let mut settings = Settings::draw_with_terrace_features(&mut self.rng, ComparatorKind::Bytewise);
        // Only a new log gets a line in the info log.
        settings.reuse_logs &= !self.job.stages.is_empty();
        settings.write_buffer_size = self.rng.pick(&[64 << 10, 256 << 10, 1 << 20]);
        options_from_settings(&settings, &Env::system())
    }

    /// Opens the database on a disk with space.
    fn open(&mut self) -> Result<(), String> {
        let options = self.draw_options();
        let started = Instant::now();
        loop {
            match Db::open(self.job.database(), &options) {
                Ok(db) => break self.db = Some(db),
                Err(error) if started.elapsed() < TIME_LIMIT => self.count_error(&error)?,
                Err(error) => return Err(format!("open on a disk with space: {error}")),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.must_reopen = false;
        Ok(())
    }

    /// Closes the database. The error of a close on a full disk is no violation.
    fn close(&mut self) -> Result<(), String> {
        match self.db.take().map_or(Ok(()), Db::close) {
            Ok(()) => Ok(()),
            Err(error) => self.count_error(&error),
        }
    }

    /// Opens the database on a full disk, with more space at each attempt.
    fn reopen_with_more_space(&mut self) -> Result<(), String> {
        self.close()?;
        let options = self.draw_options();
        for _ in 0..MAX_STEPS {
            match Db::open(self.job.database(), &options) {
                Ok(db) => {
                    self.db = Some(db);
                    self.must_reopen = false;
                    self.report.opened_full += 1;
                    return Ok(());
                }
                Err(error) => self.count_error(&error)?,
            }
            self.free_some_space()?;
        }
        self.ballast.free_space()?;
        self.open()
    }

    fn free_some_space(&mut self) -> Result<bool, String> {
        let bytes = (1 + self.rng.below(3)) << 12;
        self.ballast.shrink(bytes)
    }

    /// Runs an operation on a full disk, with more space at each attempt.
    fn retry_with_more_space(&mut self, operation: fn(&Db) -> terrace::Result<()>) -> Result<(), String> {
        self.ballast.fill(0)?;
        for step in 0..MAX_STEPS {
            if self.attempt(operation)? {
                return Ok(());
            }
            if step % 16 == 1 {
                self.check_contents()?;
            }
            if !self.free_some_space()? {
                break;
            }
            if self.must_reopen {
                self.reopen_with_more_space()?;
            }
        }
        self.ballast.free_space()?;
        self.succeed_with_space(operation)
    }

    /// Runs an operation on a disk with space.
    fn succeed_with_space(&mut self, operation: fn(&Db) -> terrace::Result<()>) -> Result<(), String> {
        let started = Instant::now();
        while !self.attempt(operation)? {
            if started.elapsed() > TIME_LIMIT {
                return Err("an operation does not succeed on a disk with space".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Returns false if an operation found the disk full.
    fn attempt(&mut self, operation: fn(&Db) -> terrace::Result<()>) -> Result<bool, String> {
        if self.must_reopen {
            self.close()?;
            self.open()?;
        }
        match operation(self.db.as_ref().ok_or("the database is closed")?) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.must_reopen = !error.is_retryable();
                self.count_error(&error).map(|()| false)
            }
        }
    }

    /// Writes the next batch. Returns false if the disk is full.
    fn write_once(&mut self) -> Result<bool, String> {
        let number = self.acknowledged + 1;
        let mut batch = WriteBatch::new();
        for write in thread_writes::nth_batch(self.job.seed, 0, number) {
            match write {
                Write::Put { key, value } => batch.put(&key, value.bytes()),
                Write::Delete { key } => batch.delete(&key),
            };
        }
        let options = WriteOptions::default().sync(self.rng.one_in(10));
        match self.db.as_ref().ok_or("the database is closed")?.write_with(&batch, &options) {
            Ok(()) => {
                self.ledger.record(0, number)?;
                self.acknowledged = number;
                Ok(true)
            }
            Err(error) => {
                self.must_reopen |= !error.is_retryable();
                self.count_error(&error).map(|()| false)
            }
        }
    }

    /// Writes a batch on a full disk, with more space at each attempt.
    fn write_with_more_space(&mut self) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            if self.must_reopen {
                self.reopen_with_more_space()?;
            }
            if self.write_once()? {
                return Ok(());
            }
            self.free_some_space()?;
        }
        self.write_with_space(1)
    }

    /// Writes `count` batches on a disk with space. Only an error that is not retryable permits a
    /// new open.
    fn write_with_space(&mut self, count: u64) -> Result<(), String> {
        self.ballast.free_space()?;
        for _ in 0..count {
            let started = Instant::now();
            loop {
                if self.must_reopen {
                    self.close()?;
                    self.open()?;
                }
                if self.write_once()? {
                    break;
                }
                if started.elapsed() > TIME_LIMIT {
                    return Err("a write does not succeed on a disk with space".into());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Counts an error of a full disk. Every other error is a violation.
    fn count_error(&mut self, error: &terrace::Error) -> Result<(), String> {
        let text = error.to_string();
        if error.kind() != ErrorKind::Io || !text.contains("(os error 28)") {
            return Err(format!("an operation on a full disk failed with another error: {text}"));
        }
        self.report.count_error(&text);
        Ok(())
    }

    /// Compares all entries, and some gets, with the acknowledged writes.
    fn check_contents(&mut self) -> Result<(), String> {
        let db = self.db.as_ref().ok_or("the database is closed")?;
        let entries = scan(db)?;
        self.expected.advance_to_match(&entries, self.acknowledged)?;
        for _ in 0..entries.len().min(10) {
            let (key, value) = &entries[self.rng.below(entries.len() as u64) as usize];
            let found = db.get(key).map_err(|error| format!("get: {error}"))?;
            if found.as_ref() != Some(value) {
                return Err(format!("a get and a scan find different values of \"{}\"", key.escape_ascii()));
            }
        }
        Ok(())
    }
}

fn scan(db: &Db) -> Result<Vec<Entry>, String> {
    db.iter().collect::<terrace::Result<Vec<_>>>().map_err(|error| format!("scan: {error}"))
}
