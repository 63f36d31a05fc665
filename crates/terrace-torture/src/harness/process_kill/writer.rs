//! The process that writes until it is killed.
//!
//! It ends by itself only to report an error. After a retryable error it frees disk space and tries
//! again. After an error that blocks writes it reopens the database. In both cases it repeats the
//! failed write, which is harmless if the first attempt was stored.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use terrace::{Db, Env, MappedLogs, Options, WriteBatch, WriteOptions};
use terrace_env::SystemFs;
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_testkit::op::{ValueSpec, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use super::ledger::Ledger;
use super::{draw_settings, thread_writes};

/// Number of attempts at one write, a millisecond apart, before its error counts as permanent.
const MAX_ATTEMPTS: u64 = 20_000;

/// Work of a writer process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WriterJob {
    pub(super) database: PathBuf,
    pub(super) seed: u64,
    /// Seed of the options.
    pub(super) settings_seed: u64,
    /// Number of acknowledged writes of each thread.
    pub(super) acknowledged: Vec<u64>,
    pub(super) sync_one_in: u64,
    /// Calls that fail, as a [`FaultPlan`].
    pub(super) fault_plan: Option<String>,
    /// File to remove when the disk is full.
    pub(super) ballast: Option<PathBuf>,
    /// True if stock LevelDB writes, in one thread.
    pub(super) by_leveldb: bool,
    /// True if only options that LevelDB also has are used.
    pub(super) leveldb_compatible: bool,
}

/// Returns options with memtables of the smallest size, so that background jobs always run.
pub(super) fn open_options(settings: &Settings, env: Env) -> Options {
    let settings = Settings { write_buffer_size: 0, create_if_missing: true, ..settings.clone() };
    crate::database_under_test::options_from_settings(&settings, &env)
}

/// Writes until the process is killed, an error occurs, or the parent ends.
pub(crate) fn run_writer(job: &WriterJob, ledger: &Path) -> ExitCode {
    exit_with_parent();
    let result = match job.by_leveldb {
        true => write_with_leveldb(job, ledger),
        false => TerraceWriter::open(job, ledger).map(|writer| writer.run_threads()),
    };
    if let Err(error) = result {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn write_with_leveldb(job: &WriterJob, ledger: &Path) -> Result<(), String> {
    let ledger = Ledger::open(ledger, 1)?;
    let mut rng = Rng::new(job.seed);
    let db = StockLevelDb::load()?
        .open(&job.database, &draw_settings(job.settings_seed, true))
        .map_err(|error| error.text)?;
    for number in job.acknowledged[0] + 1.. {
        let writes: Vec<(Vec<u8>, Option<Vec<u8>>)> = thread_writes::nth_batch(job.seed, 0, number)
            .iter()
            .map(|write| (write.key().to_vec(), write.value().map(ValueSpec::bytes)))
            .collect();
        let writes: Vec<_> = writes.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        db.write(&writes, rng.one_in(job.sync_one_in)).map_err(|error| error.text)?;
        ledger.record(0, number)?;
    }
    Ok(())
}

/// Ends this process when its parent ends. Returns after the thread has started that waits for it.
pub(in super::super) fn exit_with_parent() {
    let (started, has_started) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(started);
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    // The error means that the thread has dropped its end.
    let _: Result<(), _> = has_started.recv();
}

struct TerraceWriter<'a> {
    job: &'a WriterJob,
    options: Options,
    ledger: Ledger,
    /// None only during a reopen.
    db: RwLock<Option<Db>>,
    /// Number of opens.
    open_count: AtomicU64,
}

impl<'a> TerraceWriter<'a> {
    fn open(job: &'a WriterJob, ledger: &Path) -> Result<TerraceWriter<'a>, String> {
        let mut options =
            open_options(&draw_settings(job.settings_seed, job.leveldb_compatible), fault_env(job)?);
        let methods = [MappedLogs::Auto, MappedLogs::Always, MappedLogs::Never];
        options.mapped_logs = methods[(job.settings_seed % 3) as usize];
        let ledger = Ledger::open(ledger, job.acknowledged.len())?;
        let writer =
            TerraceWriter { job, options, ledger, db: RwLock::new(None), open_count: AtomicU64::new(0) };
        writer.reopen(0)?;
        Ok(writer)
    }

    /// Reopens the database after an error. Only the first thread that reports an error of one open
    /// does so.
    fn reopen(&self, open_count: u64) -> Result<(), String> {
        let mut db = self.db.write();
        if self.open_count.load(Ordering::Relaxed) != open_count {
            return Ok(());
        }
        // The close reports the same error as the failed write.
        *db = None;
        for attempt in 1.. {
            match Db::open(&self.job.database, &self.options) {
                Ok(open) => {
                    *db = Some(open);
                    break;
                }
                Err(error)
                    if attempt < MAX_ATTEMPTS
                        && error.kind() == terrace::ErrorKind::Io
                        && !error.is_locked() =>
                {
                    self.free_space();
                }
                Err(error) => return Err(format!("open, attempt {attempt}: {error}")),
            }
        }
        self.open_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs all threads. An error of one thread ends the process.
    fn run_threads(&self) {
        std::thread::scope(|scope| {
            for thread in 0..self.job.acknowledged.len() as u64 {
                scope.spawn(move || {
                    if let Err(error) = self.write_in_loop(thread) {
                        eprintln!("{error}");
                        std::process::exit(1);
                    }
                });
            }
        });
    }

    fn write_in_loop(&self, thread: u64) -> Result<(), String> {
        let mut rng = Rng::new(self.job.seed ^ thread);
        for number in self.job.acknowledged[thread as usize] + 1.. {
            let mut batch = WriteBatch::new();
            for write in thread_writes::nth_batch(self.job.seed, thread, number) {
                match write {
                    Write::Put { key, value } => batch.put(&key, value.bytes()),
                    Write::Delete { key } => batch.delete(&key),
                };
            }
            self.write_with_retry(&batch, &WriteOptions::default().sync(rng.one_in(self.job.sync_one_in)))?;
            self.ledger.record(thread, number)?;
        }
        Ok(())
    }

    fn write_with_retry(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<(), String> {
        for attempt in 1.. {
            let (open_count, written) = {
                let db = self.db.read();
                let db = db.as_ref().ok_or("the database is closed")?;
                (self.open_count.load(Ordering::Relaxed), db.write_with(batch, options))
            };
            match written {
                Ok(()) => break,
                Err(error) if attempt == MAX_ATTEMPTS => {
                    return Err(format!("a write failed {MAX_ATTEMPTS} times: {error}"));
                }
                Err(error) if error.is_retryable() => self.free_space(),
                // Only planned faults may cause such an error.
                Err(_) if self.job.fault_plan.is_some() => self.reopen(open_count)?,
                Err(error) => return Err(format!("a write failed: {error}")),
            }
        }
        Ok(())
    }

    fn free_space(&self) {
        if let Some(ballast) = &self.job.ballast {
            // Another thread may have removed the file already.
            let _ = std::fs::remove_file(ballast);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn fault_env(job: &WriterJob) -> Result<Env, String> {
    let Some(text) = &job.fault_plan else { return Ok(Env::system()) };
    let plan: FaultPlan = text.parse().map_err(|error| format!("{text}: {error:?}"))?;
    Ok(Env::with_file_system(Arc::new(FaultFs::new(Arc::new(SystemFs::new()), plan))))
}
