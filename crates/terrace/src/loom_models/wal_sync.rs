//! Writers who wait for the device, on logs that note what was stored in them and what of it is durable.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex as Unseen;
use std::sync::atomic::{AtomicBool as Flag, Ordering::Relaxed};

use terrace_env::{FileError, LogFile};
use terrace_sync::thread;

use crate::db::components::background_error::BackgroundError;
use crate::db::components::wal::WalFile;
use crate::db::components::wal_sync::WalSync;
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// Which writes are stored, and which are durable; a store or a sync is one step.
#[derive(Debug, Default)]
struct RecordingLogFile {
    writes: Unseen<(Vec<u64>, Vec<u64>)>,
    fails: Flag,
    panics: Flag,
}

impl LogFile for RecordingLogFile {
    fn capacity(&self) -> u64 {
        0
    }

    /// `offset` is the number of the write.
    fn write_at(&self, offset: u64, _head: &[u8], _body: &[u8]) -> terrace_env::Result<()> {
        self.writes.lock().unwrap().0.push(offset);
        Ok(())
    }

    fn sync(&self) -> terrace_env::Result<()> {
        if self.panics.swap(false, Relaxed) {
            // As a panic, but without a word on the terminal.
            resume_unwind(Box::new("once"));
        }
        if self.fails.swap(false, Relaxed) {
            return Err(FileError::new("sync", "log", io::Error::other("once")));
        }
        let mut writes = self.writes.lock().unwrap();
        writes.1 = writes.0.clone();
        Ok(())
    }

    fn truncate_and_close(&self, _len: u64) -> terrace_env::Result<()> {
        Ok(())
    }
}

/// As much of the engine as this takes.
struct WalSyncModel {
    /// The paper to write on, and the number of the last write.
    commit: Mutex<(Arc<RecordingLogFile>, u64)>,
    wal_sync: WalSync,
    background_error: BackgroundError,
    dir_synced: Flag,
}

impl WalSyncModel {
    fn new() -> (Arc<WalSyncModel>, Arc<RecordingLogFile>) {
        let paper = Arc::<RecordingLogFile>::default();
        let durability = WalSync::new(vec![WalFile { number: 1, file: paper.clone() }]);
        let commit = Mutex::new((paper.clone(), 0));
        let desk = WalSyncModel {
            commit,
            wal_sync: durability,
            background_error: BackgroundError::new(),
            dir_synced: Flag::new(false),
        };
        (Arc::new(desk), paper)
    }

    /// A write; says its number, and whether it is durable when this was to see to that.
    fn write(&self, sync: bool) -> (u64, Result<()>) {
        let mut commit = self.commit.lock();
        commit.1 += 1;
        let write = commit.1;
        commit.0.write_at(write, &[0; 4], b"").unwrap();
        self.wal_sync.record_write();
        assert_eq!(self.wal_sync.last_write(), write);
        drop(commit);
        let flush = || {
            let synced = self.wal_sync.sync_logs(|| {
                self.dir_synced.store(true, Relaxed);
                Ok(())
            });
            synced.inspect_err(|error| self.background_error.set(error))
        };
        let waited = if sync {
            self.wal_sync.wait_until_durable(write, || self.background_error.check(), flush)
        } else {
            Ok(())
        };
        (write, waited)
    }

    fn switch_wal(&self, number: u64) -> Arc<RecordingLogFile> {
        let paper = Arc::<RecordingLogFile>::default();
        let mut commit = self.commit.lock();
        self.wal_sync.add_log(WalFile { number, file: paper.clone() }, 0);
        commit.0 = paper.clone();
        paper
    }
}

/// All writes up to `last` are durable, in one of the logs.
fn check_durable(papers: &[&Arc<RecordingLogFile>], last: u64) {
    let durable: Vec<u64> = papers.iter().flat_map(|paper| paper.writes.lock().unwrap().1.clone()).collect();
    assert!((1..=last).all(|write| durable.contains(&write)), "{durable:?} are durable, of {last}");
}

pub(super) fn two_writers() {
    let (desk, paper) = WalSyncModel::new();
    let write = |desk: Arc<WalSyncModel>, paper: Arc<RecordingLogFile>| {
        move || {
            let (write, waited) = desk.write(true);
            waited.unwrap();
            check_durable(&[&paper], write);
            assert!(desk.dir_synced.load(Relaxed), "the log's name is not durable");
        }
    };
    let others = [0, 1].map(|_| thread::spawn(write(Arc::clone(&desk), Arc::clone(&paper))));
    others.into_iter().for_each(|writer| writer.join().unwrap());
}

pub(super) fn wal_switch() {
    let (desk, old) = WalSyncModel::new();
    desk.write(false).1.unwrap();
    let first = {
        let desk = Arc::clone(&desk);
        thread::spawn(move || {
            let (write, waited) = desk.write(true);
            waited.unwrap();
            write
        })
    };
    let new = desk.switch_wal(2);
    let (write, waited) = desk.write(true);
    waited.unwrap();
    check_durable(&[&old, &new], write);
    let write = first.join().unwrap();
    check_durable(&[&old, &new], write);
}

pub(super) fn failed_sync() {
    let (desk, paper) = WalSyncModel::new();
    paper.fails.store(true, Relaxed);
    let other = {
        let desk = Arc::clone(&desk);
        thread::spawn(move || desk.write(true).1)
    };
    let (_, one) = desk.write(true);
    let other = other.join().unwrap();
    let told = |outcome: &Result<()>| matches!(outcome, Err(Error::Io(_)));
    let refused = |outcome: &Result<()>| matches!(outcome, Err(Error::BackgroundError(_)));
    assert!([&one, &other].into_iter().any(told), "{one:?}, {other:?}");
    // The second may have begun when the first had been told.
    assert!(
        [&one, &other].into_iter().all(|outcome| told(outcome) || refused(outcome)),
        "{one:?}, {other:?}"
    );
}

/// The writer whose sync panics is gone; the other does not wait for it for ever.
pub(super) fn panicking_sync() {
    let (desk, paper) = WalSyncModel::new();
    paper.panics.store(true, Relaxed);
    let write =
        |desk: Arc<WalSyncModel>| move || catch_unwind(AssertUnwindSafe(|| desk.write(true).1)).is_err();
    let other = thread::spawn(write(Arc::clone(&desk)));
    let panics = [write(desk)(), other.join().unwrap()];
    assert_eq!(panics.into_iter().filter(|panics| *panics).count(), 1);
}
