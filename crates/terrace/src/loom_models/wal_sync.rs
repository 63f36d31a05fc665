//! Models of sync writers, on logs that record the stored and the durable writes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex as UntrackedMutex;
use std::sync::atomic::{AtomicBool as Flag, Ordering::Relaxed};

use terrace_env::{FileError, LogFile};
use terrace_sync::thread;

use crate::db::components::background_error::BackgroundError;
use crate::db::components::wal::WalFile;
use crate::db::components::wal_sync::WalSync;
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// Log that records the stored writes and the durable writes. A write or a sync is one step.
#[derive(Debug, Default)]
struct RecordingLogFile {
    writes: UntrackedMutex<(Vec<u64>, Vec<u64>)>,
    fails: Flag,
    panics: Flag,
}

impl LogFile for RecordingLogFile {
    fn capacity(&self) -> u64 {
        0
    }

    /// Stores a write. `offset` is its number.
    fn write_at(&self, offset: u64, _head: &[u8], _body: &[u8]) -> terrace_env::Result<()> {
        self.writes.lock().unwrap().0.push(offset);
        Ok(())
    }

    fn sync(&self) -> terrace_env::Result<()> {
        if self.panics.swap(false, Relaxed) {
            // A panic without a message on the terminal.
            resume_unwind(Box::new("once"));
        }
        if self.fails.swap(false, Relaxed) {
            return Err(FileError::new("sync", "log", io::Error::other("once")));
        }
        let mut writes = self.writes.lock().unwrap();
        writes.1 = writes.0.clone();
        Ok(())
    }

    fn is_intact(&self) -> bool {
        true
    }

    fn truncate_and_close(&self, _len: u64) -> terrace_env::Result<()> {
        Ok(())
    }
}

/// Parts of the engine that sync writes need.
struct WalSyncModel {
    /// Current log, and the number of the last write.
    commit: Mutex<(Arc<RecordingLogFile>, u64)>,
    wal_sync: WalSync,
    background_error: BackgroundError,
    dir_synced: Flag,
}

impl WalSyncModel {
    fn new() -> (Arc<WalSyncModel>, Arc<RecordingLogFile>) {
        let log = Arc::<RecordingLogFile>::default();
        let model = WalSyncModel {
            commit: Mutex::new((log.clone(), 0)),
            wal_sync: WalSync::new(vec![WalFile::new(1, log.clone())]),
            background_error: BackgroundError::new(),
            dir_synced: Flag::new(false),
        };
        (Arc::new(model), log)
    }

    /// Writes once. Returns the number of the write and the result of its sync, if `sync`.
    fn write(&self, sync: bool) -> (u64, Result<()>) {
        let mut commit = self.commit.lock();
        commit.1 += 1;
        let write = commit.1;
        commit.0.write_at(write, &[0; 4], b"").unwrap();
        self.wal_sync.record_write();
        assert_eq!(self.wal_sync.last_write(), write);
        drop(commit);
        if !sync {
            return (write, Ok(()));
        }
        let result =
            self.wal_sync.wait_until_durable(write, || self.background_error.check(), || self.sync_logs());
        (write, result)
    }

    fn sync_logs(&self) -> Result<u64> {
        let synced = self.wal_sync.sync_logs(|| {
            self.dir_synced.store(true, Relaxed);
            Ok(())
        });
        synced.inspect_err(|error| self.background_error.set(error))
    }

    fn switch_wal(&self, number: u64) -> Arc<RecordingLogFile> {
        let log = Arc::<RecordingLogFile>::default();
        let mut commit = self.commit.lock();
        self.wal_sync.add_log(WalFile::new(number, log.clone()), 0);
        commit.0 = log.clone();
        log
    }
}

/// Checks that all writes up to `last` are durable in one of the logs.
fn check_durable(logs: &[&Arc<RecordingLogFile>], last: u64) {
    let durable: Vec<u64> = logs.iter().flat_map(|log| log.writes.lock().unwrap().1.clone()).collect();
    assert!(
        (1..=last).all(|write| durable.contains(&write)),
        "only {durable:?} of {last} writes are durable"
    );
}

pub(super) fn two_writers() {
    let (model, log) = WalSyncModel::new();
    let writers = [0, 1].map(|_| {
        let model = Arc::clone(&model);
        let log = Arc::clone(&log);
        thread::spawn(move || {
            let (write, result) = model.write(true);
            result.unwrap();
            check_durable(&[&log], write);
            assert!(model.dir_synced.load(Relaxed), "the directory entry of the log is not durable");
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
}

pub(super) fn wal_switch() {
    let (model, old) = WalSyncModel::new();
    model.write(false).1.unwrap();
    let first = {
        let model = Arc::clone(&model);
        thread::spawn(move || {
            let (write, result) = model.write(true);
            result.unwrap();
            write
        })
    };
    let new = model.switch_wal(2);
    let (write, result) = model.write(true);
    result.unwrap();
    check_durable(&[&old, &new], write);
    let write = first.join().unwrap();
    check_durable(&[&old, &new], write);
}

pub(super) fn failed_sync() {
    let (model, log) = WalSyncModel::new();
    log.fails.store(true, Relaxed);
    let other = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.write(true).1)
    };
    let (_, one) = model.write(true);
    let other = other.join().unwrap();
    let results = [one, other];
    assert!(results.iter().any(|result| matches!(result, Err(Error::Io(_)))), "{results:?}");
    // The second write may start after the failure of the first.
    assert!(
        results.iter().all(|result| matches!(result, Err(Error::Io(_) | Error::BackgroundError(_)))),
        "{results:?}"
    );
}

/// The sync of one writer panics. The other writer does not wait for ever.
pub(super) fn panicking_sync() {
    let (model, log) = WalSyncModel::new();
    log.panics.store(true, Relaxed);
    let write =
        |model: Arc<WalSyncModel>| move || catch_unwind(AssertUnwindSafe(|| model.write(true).1)).is_err();
    let other = thread::spawn(write(Arc::clone(&model)));
    let panics = [write(model)(), other.join().unwrap()];
    assert_eq!(panics.into_iter().filter(|panics| *panics).count(), 1);
}
