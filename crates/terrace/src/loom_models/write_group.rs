//! Models of writers that write in groups, on whole databases with appended logs.
//!
//! ```text
//!   writer   batch: own key, shared key ──> queue ──> leader ──> log, memtable ──> outcome
//! ```
//!
//! The records of the logs show which batches were written, and in which order. The shared key
//! shows that the memtable has the same order.

use std::path::Path;

use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::{Crash, MemFs};
use terrace_env::{FileSystem, MappedLogs};
use terrace_format::batch::{BatchOp, WriteBatch, validate};
use terrace_format::log::{LogItem, LogReader};
use terrace_sync::thread;

use super::whole_database::{env, files, options};
use crate::db::Db;
use crate::error::Result;
use crate::file_io::FileReader;
use crate::options::Options;
use crate::sync::Arc;

/// Key that each batch puts, with the name of its writer as the value.
const SHARED_KEY: &[u8] = b"shared";

/// Number of operations of a batch.
const OPERATIONS: u64 = 2;

/// Size of a value with which a write is too large for the queue, in bytes.
const LARGE_VALUE: usize = 17 << 10;

/// Options of a database whose writers write in groups.
fn group_options(fs: Arc<dyn FileSystem>) -> Options {
    Options { env: env(fs), mapped_logs: MappedLogs::Never, paranoid_checks: true, ..options() }
}

fn open(fs: Arc<dyn FileSystem>) -> Db {
    Db::open("/db", &group_options(fs)).unwrap()
}

/// Writes the batch of the writer `name`. Checks that the writer then sees its own batch, or that a
/// failed batch stays invisible.
fn write(db: &Db, name: &str, value_len: usize) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(name, vec![b'v'; value_len]).put(SHARED_KEY, name);
    let written = db.write(&batch);
    assert_eq!(db.get(name).unwrap().is_some(), written.is_ok(), "{name}: {written:?}");
    written
}

/// Returns the writers of the batches in the logs, in order. Checks that each batch is whole and
/// that its sequence numbers follow those of the batch before it.
fn logged_writers(fs: &MemFs) -> Vec<String> {
    let directory = Path::new("/db");
    let mut logs: Vec<_> = fs.list(directory).unwrap();
    logs.retain(|name| name.to_string_lossy().ends_with(".log"));
    logs.sort();
    let mut writers = Vec::new();
    for name in logs {
        let mut log = LogReader::new(FileReader(fs.open_sequential(&directory.join(name)).unwrap()));
        while let Some(item) = log.next().unwrap() {
            let LogItem::Record { data, .. } = item else { panic!("the log is corrupt: {item:?}") };
            let batch = validate(data).unwrap();
            assert_eq!(batch.sequence(), 1 + OPERATIONS * writers.len() as u64, "sequence numbers");
            let puts: Vec<_> = batch
                .iter()
                .map(|operation| match operation {
                    BatchOp::Put { key, value } => (key, value),
                    BatchOp::Delete { .. } => panic!("no writer deletes"),
                })
                .collect();
            let [(name, _), (SHARED_KEY, shared_value)] = puts[..] else { panic!("a torn batch: {puts:?}") };
            assert_eq!(name, shared_value);
            writers.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    writers
}

/// Checks that the logs contain the batches of exactly these writers, each once, and that the
/// database shows the batch of the last of them.
fn check_written(db: &Db, fs: &MemFs, expected: &[&str]) {
    let logged = logged_writers(fs);
    let mut sorted = logged.clone();
    sorted.sort();
    assert_eq!(sorted, expected, "batches in the logs");
    let visible = db.get(SHARED_KEY).unwrap().map(|name| String::from_utf8_lossy(&name).into_owned());
    assert_eq!(visible.as_ref(), logged.last(), "the memtable and the logs have different orders");
}

/// Lets a writer in this thread and others in their own threads write at the same time. Returns
/// their results in this order.
fn write_together(db: &Db, others: &[(&'static str, usize)], own: &str) -> Vec<Result<()>> {
    let threads: Vec<_> = others
        .iter()
        .map(|&(name, value_len)| {
            let db = db.clone();
            thread::spawn(move || write(&db, name, value_len))
        })
        .collect();
    let mut results = vec![write(db, own, 1)];
    results.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    results
}

pub(super) fn three_writers() {
    write_successfully(&[("b", 1), ("c", 1)], &["a", "b", "c"]);
}

/// One of two writers does not use the queue.
pub(super) fn large_write() {
    write_successfully(&[("b", LARGE_VALUE)], &["a", "b"]);
}

fn write_successfully(others: &[(&'static str, usize)], all: &[&str]) {
    let fs = files();
    let db = open(fs.clone());
    let results = write_together(&db, others, "a");
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    check_written(&db, &fs, all);
    db.close().unwrap();
}

/// The first append hits a full disk.
pub(super) fn full_disk() {
    let memory = files();
    let faults = Arc::new(FaultFs::new(memory.clone(), FaultPlan::default()));
    let db = open(faults.clone());
    faults.set_plan("write-at .log #1 once ENOSPC".parse().unwrap());
    let results = write_together(&db, &[("b", 1), ("c", 1)], "a");
    let written: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .zip(&results)
        .filter(|(_, result)| result.as_ref().map_err(|error| assert!(error.is_retryable())).is_ok())
        .map(|(name, _)| name)
        .collect();
    assert!(written.len() < results.len(), "no writer has got the error");
    check_written(&db, &memory, &written);
    write(&db, "d", 1).unwrap();
    let image = Arc::new(memory.crash_clone(&Crash::Kill));
    db.close().unwrap();
    let db = open(image);
    for name in ["a", "b", "c", "d"] {
        let is_written = name == "d" || written.contains(&name);
        assert_eq!(db.get(name).unwrap().is_some(), is_written, "{name} after a kill");
    }
    db.close().unwrap();
}

/// Writes `b` and then `c` in a thread of its own, beside `a` in this thread. Returns the results
/// in the order of the keys.
fn write_beside_two(db: &Db) -> Vec<Result<()>> {
    let thread = {
        let db = db.clone();
        thread::spawn(move || ["b", "c"].map(|name| write(&db, name, 1)))
    };
    let own = write(db, "a", 1);
    std::iter::once(own).chain(thread.join().unwrap()).collect()
}

/// One of two writers writes twice, so it may lead the next group beside the end of the first.
pub(super) fn consecutive_groups() {
    let fs = files();
    let db = open(fs.clone());
    let results = write_beside_two(&db);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    check_written(&db, &fs, &["a", "b", "c"]);
    db.close().unwrap();
}
