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
use terrace_env::fault::{FaultFs, Plan};
use terrace_env::posix::PosixFs;
use terrace_testkit::op::{Value, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::Stock;

use super::ledger::Ledger;
use super::{settings, work};

/// Attempts at one write, a millisecond apart, before it counts as an error for ever.
const ATTEMPTS: u64 = 20_000;

/// What to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(super) database: PathBuf,
    pub(super) seed: u64,
    /// The seed of its options.
    pub(super) settings: u64,
    /// The number of writes that each thread has behind it.
    pub(super) after: Vec<u64>,
    pub(super) sync_one_in: u64,
    /// Calls that fail, as a [`Plan`].
    pub(super) fail: Option<String>,
    /// A file to remove when the disk is full.
    pub(super) ballast: Option<PathBuf>,
    /// By stock LevelDB, in one thread.
    pub(super) theirs: bool,
    /// With options that it has, too.
    pub(super) for_both: bool,
}

/// Memtables of the least size: something is always under way in the background.
pub(super) fn options(settings: &Settings, env: Env) -> Options {
    let small = Settings { write_buffer_size: 0, create_if_missing: true, ..settings.clone() };
    crate::subject::options(&small, &env)
}

/// Writes until it is killed, or something goes wrong, or nobody watches any more.
pub(crate) fn write(job: &Job, ledger: &Path) -> ExitCode {
    end_when_nobody_watches();
    let wrote = match job.theirs {
        true => write_with_theirs(job, ledger),
        false => Writer::open(job, ledger).map(|writer| writer.write_for_ever()),
    };
    if let Err(error) = wrote {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn write_with_theirs(job: &Job, ledger: &Path) -> Result<(), String> {
    let (ledger, mut rng) = (Ledger::open(ledger, 1)?, Rng::new(job.seed));
    let db = Stock::load()?.open(&job.database, &settings(job.settings, true)).map_err(|error| error.text)?;
    for number in job.after[0] + 1.. {
        let writes: Vec<(Vec<u8>, Option<Vec<u8>>)> = work::batch(job.seed, 0, number)
            .iter()
            .map(|write| (write.key().to_vec(), write.value().map(Value::bytes)))
            .collect();
        let writes: Vec<_> = writes.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        db.write(&writes, rng.one_in(job.sync_one_in)).map_err(|error| error.text)?;
        ledger.note(0, number)?;
    }
    Ok(())
}

/// Ends this process with the one that started it.
pub(super) fn end_when_nobody_watches() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

struct Writer<'a> {
    job: &'a Job,
    options: Options,
    ledger: Ledger,
    /// None only while it is opened anew.
    db: RwLock<Option<Db>>,
    /// How often it was.
    opened: AtomicU64,
}

impl<'a> Writer<'a> {
    fn open(job: &'a Job, ledger: &Path) -> Result<Writer<'a>, String> {
        let options = options(&settings(job.settings, job.for_both), env(job)?);
        let ledger = Ledger::open(ledger, job.after.len())?;
        let writer = Writer { job, options, ledger, db: RwLock::new(None), opened: AtomicU64::new(0) };
        writer.open_anew(0)?;
        Ok(writer)
    }

    /// One thread's error is all threads': the first of them opens the database anew.
    fn open_anew(&self, opened: u64) -> Result<(), String> {
        let mut db = self.db.write();
        if self.opened.load(Ordering::Relaxed) != opened {
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
                    if attempt < ATTEMPTS && error.kind() == terrace::ErrorKind::Io && !error.is_locked() =>
                {
                    self.make_room();
                }
                Err(error) => return Err(format!("open, attempt {attempt}: {error}")),
            }
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// One thread's error ends the process, whatever the others do.
    fn write_for_ever(&self) {
        std::thread::scope(|scope| {
            for thread in 0..self.job.after.len() as u64 {
                scope.spawn(move || {
                    if let Err(error) = self.thread(thread) {
                        eprintln!("{error}");
                        std::process::exit(1);
                    }
                });
            }
        });
    }

    fn thread(&self, thread: u64) -> Result<(), String> {
        let mut rng = Rng::new(self.job.seed ^ thread);
        for number in self.job.after[thread as usize] + 1.. {
            let mut batch = WriteBatch::new();
            for write in work::batch(self.job.seed, thread, number) {
                match write {
                    Write::Put { key, value } => batch.put(&key, &value.bytes()),
                    Write::Delete { key } => batch.delete(&key),
                }
            }
            self.until_it_is_written(&batch, &WriteOptions { sync: rng.one_in(self.job.sync_one_in) })?;
            self.ledger.note(thread, number)?;
        }
        Ok(())
    }

    fn until_it_is_written(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<(), String> {
        for attempt in 1.. {
            let (opened, written) = {
                let db = self.db.read();
                let db = db.as_ref().ok_or("the database is closed")?;
                (self.opened.load(Ordering::Relaxed), db.write_with(batch, options))
            };
            match written {
                Ok(()) => break,
                Err(error) if attempt == ATTEMPTS => return Err(format!("a write failed for ever: {error}")),
                Err(error) if error.is_resumable() => self.make_room(),
                // Only where calls are made to fail: any other error is a find.
                Err(_) if self.job.fail.is_some() => self.open_anew(opened)?,
                Err(error) => return Err(format!("a write failed: {error}")),
            }
        }
        Ok(())
    }

    fn make_room(&self) {
        if let Some(ballast) = &self.job.ballast {
            // Another thread may have done it.
            let _ = std::fs::remove_file(ballast);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn env(job: &Job) -> Result<Env, String> {
    let Some(fail) = &job.fail else { return Ok(Env::system()) };
    let plan: Plan = fail.parse().map_err(|error| format!("{fail}: {error:?}"))?;
    Ok(Env::on(Arc::new(FaultFs::new(Arc::new(PosixFs::new()), plan))))
}
