//! Checkpoints beside threads that write at full speed: each one is the state at its sequence
//! number.
//!
//! Each write is a single put, so the writes of all threads together are as many as the last
//! sequence number. A thread writes 0, 1, 2, .. to its keys in a fixed order. The entries of a
//! thread therefore tell how many of its writes the checkpoint has, and whether one is missing in
//! between.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Db, Env, MappedLogs, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

use super::read_entries;
use crate::counters::{Counter, Counters};

const THREADS: u64 = 3;

/// Number of keys of each thread.
const KEYS: u64 = 300;

const CHECKPOINTS: usize = 4;

pub(super) fn run(rng: &mut Rng, counters: &Counters) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let in_memory = rng.one_in(2);
    let root = if in_memory { Path::new("/") } else { directory.path() };
    let mut options = Options::default().create_if_missing(true);
    options.env = if in_memory { Env::in_memory() } else { Env::system() };
    options.mapped_logs = rng.pick(&[MappedLogs::Auto, MappedLogs::Never]);
    options.write_buffer_size = Some(rng.pick(&[64 << 10, 64 << 10, 256 << 10]));
    let db = Db::open(root.join("db"), &options).map_err(|error| error.to_string())?;
    let value_len = rng.pick(&[16, 100, 3000]);
    let checkpoints = checkpoints_beside_writers(&db, root, value_len)?;
    for (name, sequence) in checkpoints {
        let path = root.join(&name);
        let context =
            |message| format!("{name}, in memory: {in_memory}, {:?}: {message}", options.mapped_logs);
        check_state(&read_entries(&path, &options).map_err(context)?, sequence).map_err(context)?;
        if !in_memory && let Ok(stock) = StockLevelDb::load() {
            let opened = stock.open(&path, &Settings { paranoid_checks: true, ..Settings::default() });
            let entries = opened.and_then(|db| db.scan()).map_err(|error| context(error.text))?;
            check_state(&entries, sequence).map_err(|message| context(format!("LevelDB: {message}")))?;
            counters.add(Counter::LevelDbHandovers, 1);
        }
        counters.add(Counter::Checkpoints, 1);
    }
    Ok(())
}

/// Returns the names of the checkpoints and their sequence numbers.
fn checkpoints_beside_writers(db: &Db, root: &Path, value_len: usize) -> Result<Vec<(String, u64)>, String> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let is_done = &is_done;
                    move || write(db, thread, value_len, is_done)
                })
            })
            .collect();
        let mut checkpoints = Vec::new();
        let mut outcome = Ok(());
        for number in 0..CHECKPOINTS {
            let name = format!("checkpoint-{number}");
            match db.checkpoint(root.join(&name)) {
                Ok(sequence) => checkpoints.push((name, sequence)),
                Err(error) => outcome = Err(format!("{name}: {error}")),
            }
            terrace_env::Clock::sleep(&terrace_env::SystemClock, std::time::Duration::from_millis(2));
        }
        is_done.store(true, Ordering::Relaxed);
        for writer in writers {
            let written = writer.join().map_err(|_| "a writer panicked".to_owned());
            outcome = outcome.and(written.and_then(|written| written));
        }
        outcome.map(|()| checkpoints)
    })
}

fn write(db: &Db, thread: u64, value_len: usize, is_done: &AtomicBool) -> Result<(), String> {
    let mut value = vec![b'.'; value_len];
    for count in 0u64.. {
        if is_done.load(Ordering::Relaxed) {
            break;
        }
        value[..8].copy_from_slice(&count.to_be_bytes());
        db.put(key(thread, count % KEYS), &value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn key(thread: u64, slot: u64) -> String {
    format!("{thread}-{slot:04}")
}

/// Checks that `entries` are the state after exactly `sequence` writes.
fn check_state(entries: &[Entry], sequence: u64) -> Result<(), String> {
    let mut total = 0;
    for thread in 0..THREADS {
        let prefix = format!("{thread}-");
        let of_thread = entries.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()));
        let counts =
            of_thread.map(|(_, value)| value.first_chunk().map_or(0, |count| u64::from_be_bytes(*count)));
        let counts: Vec<u64> = counts.collect();
        let written = counts.iter().max().map_or(0, |last| last + 1);
        if counts.len() as u64 != written.min(KEYS) {
            return Err(format!("thread {thread}: {} keys after {written} writes", counts.len()));
        }
        for (slot, &count) in (0..).zip(&counts) {
            // The last write of this key among the first `written`.
            let expected = (written - 1 - slot) / KEYS * KEYS + slot;
            if count != expected {
                return Err(format!("thread {thread}, key {slot}: write {count}, expected {expected}"));
            }
        }
        total += written;
    }
    if total != sequence {
        return Err(format!("the state after {total} writes, expected {sequence}, its sequence number"));
    }
    Ok(())
}
