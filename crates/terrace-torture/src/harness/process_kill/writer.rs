//! The process that writes until it is killed.
//!
//! It never ends by itself but to say that something went wrong. After an error that the database says can pass it makes
//! room and tries again; after one that makes it refuse writes it opens the database anew. Both times it goes on with
//! the same write: whether that had arrived, nobody knows, and it would change nothing.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use terrace::{Db, Env, Options, WriteBatch, WriteOptions};
use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::posix::PosixFs;
use terrace_testkit::op::{ValueSpec, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use super::ledger::Ledger;
use super::{draw_settings, thread_writes};

/// Attempts at one write, a millisecond apart, before it counts as an error for ever.
const MAX_ATTEMPTS: u64 = 20_000;

/// What to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WriterJob {
    pub(super) database: PathBuf,
    pub(super) seed: u64,
    /// The seed of its options.
    pub(super) settings_seed: u64,
    /// The number of writes that each thread has behind it.
    pub(super) acknowledged: Vec<u64>,
    pub(super) sync_one_in: u64,
    /// Calls that fail, as a [`Plan`].
    pub(super) fault_plan: Option<String>,
    /// A file to remove when the disk is full.
    pub(super) ballast: Option<PathBuf>,
    /// By stock LevelDB, in one thread.
    pub(super) by_leveldb: bool,
    /// With options that it has, too.
    pub(super) leveldb_compatible: bool,
}

/// Memtables of the least size: something is always under way in the background.
pub(super) fn open_options(settings: &Settings, env: Env) -> Options {
    let small = Settings { write_buffer_size: 0, create_if_missing: true, ..settings.clone() };
    crate::database_under_test::options_from_settings(&small, &env)
}

/// Writes until it is killed, or something goes wrong, or nobody watches any more.
pub(crate) fn run_writer(job: &WriterJob, ledger: &Path) -> ExitCode {
    exit_with_parent();
    let wrote = match job.by_leveldb {
        true => write_with_leveldb(job, ledger),
        false => TerraceWriter::open(job, ledger).map(|writer| writer.run_threads()),
    };
    if let Err(error) = wrote {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn write_with_leveldb(job: &WriterJob, ledger: &Path) -> Result<(), String> {
    let (ledger, mut rng) = (Ledger::open(ledger, 1)?, Rng::new(job.seed));
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

/// Ends this process with the one that started it.
pub(super) fn exit_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

struct TerraceWriter<'a> {
    job: &'a WriterJob,
    options: Options,
    ledger: Ledger,
    /// None only while it is opened anew.
    db: RwLock<Option<Db>>,
    /// How often it was.
    open_count: AtomicU64,
}

impl<'a> TerraceWriter<'a> {
    fn open(job: &'a WriterJob, ledger: &Path) -> Result<TerraceWriter<'a>, String> {
        let options =
            open_options(&draw_settings(job.settings_seed, job.leveldb_compatible), fault_env(job)?);
        let ledger = Ledger::open(ledger, job.acknowledged.len())?;
        let writer =
            TerraceWriter { job, options, ledger, db: RwLock::new(None), open_count: AtomicU64::new(0) };
        writer.reopen(0)?;
        Ok(writer)
    }

    /// One thread's error is all threads': the first of them opens the database anew.
    fn reopen(&self, opened: u64) -> Result<(), String> {
        let mut db = self.db.write();
        if self.open_count.load(Ordering::Relaxed) != opened {
            return Ok(());
        }
        // What closing says of an error is what writing said.
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

    /// One thread's error ends the process, whatever the others do.
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
                    Write::Put { key, value } => batch.put(&key, &value.bytes()),
                    Write::Delete { key } => batch.delete(&key),
                }
            }
            self.write_with_retry(&batch, &WriteOptions { sync: rng.one_in(self.job.sync_one_in) })?;
            self.ledger.record(thread, number)?;
        }
        Ok(())
    }

    fn write_with_retry(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<(), String> {
        for attempt in 1.. {
            let (opened, written) = {
                let db = self.db.read();
                let db = db.as_ref().ok_or("the database is closed")?;
                (self.open_count.load(Ordering::Relaxed), db.write_with(batch, options))
            };
            match written {
                Ok(()) => break,
                Err(error) if attempt == MAX_ATTEMPTS => {
                    return Err(format!("a write failed for ever: {error}"));
                }
                Err(error) if error.is_retryable() => self.free_space(),
                // Only where calls are made to fail: any other error is a find.
                Err(_) if self.job.fault_plan.is_some() => self.reopen(opened)?,
                Err(error) => return Err(format!("a write failed: {error}")),
            }
        }
        Ok(())
    }

    fn free_space(&self) {
        if let Some(ballast) = &self.job.ballast {
            // Another thread may have done it.
            let _ = std::fs::remove_file(ballast);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn fault_env(job: &WriterJob) -> Result<Env, String> {
    let Some(fail) = &job.fault_plan else { return Ok(Env::system()) };
    let plan: FaultPlan = fail.parse().map_err(|error| format!("{fail}: {error:?}"))?;
    Ok(Env::with_file_system(Arc::new(FaultFs::new(Arc::new(PosixFs::new()), plan))))
}
