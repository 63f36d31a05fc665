//! Compares a bulk load with puts by four threads: random keys of 10 bytes, values of 16 bytes.
//!
//! ```sh
//! cargo run --release --package terrace-bench --example bulk_load -- DIRECTORY 4000000 3
//! ```
//!
//! Each round prints the millions of entries per second of both. The puts end with the compactions
//! that the load does not need.

use std::path::Path;

use terrace::env::{Clock, SystemClock};
use terrace::{Db, LoadOptions, Options, Result, bulk_load, destroy};

const PUT_THREADS: u64 = 4;

/// Returns the entry with number `n`. No two numbers have the same key.
fn entry(n: u64) -> ([u8; 10], [u8; 16]) {
    let mut rest = (n as u32).wrapping_mul(2_654_435_761);
    let mut key = [b'0'; 10];
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    let mut value = [0; 16];
    value[..8].copy_from_slice(&(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    value[8..].copy_from_slice(&(n + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes());
    (key, value)
}

/// Runs `load` on an empty database. Returns millions of entries per second until its return, and
/// until the end of its compactions.
fn measure(directory: &Path, count: u64, load: impl FnOnce(&Db) -> Result<()>) -> Result<(f64, f64)> {
    let options = Options::default().create_if_missing(true);
    destroy(directory, &options)?;
    let db = Db::open(directory, &options)?;
    let start = SystemClock.monotonic();
    load(&db)?;
    let loaded = SystemClock.monotonic() - start;
    db.flush()?;
    db.compact_range(None, None)?;
    let settled = SystemClock.monotonic() - start;
    let sample = (0..count).step_by((count / 1000).max(1) as usize);
    for (key, value) in sample.map(entry) {
        assert_eq!(db.get(key)?.as_deref(), Some(value.as_slice()), "an entry is wrong");
    }
    db.close()?;
    let millions = count as f64 / 1e6;
    Ok((millions / loaded.as_secs_f64(), millions / settled.as_secs_f64()))
}

fn put_by_threads(db: &Db, count: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PUT_THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    (thread..count)
                        .step_by(PUT_THREADS as usize)
                        .map(entry)
                        .try_for_each(|(k, v)| db.put(k, v))
                })
            })
            .collect();
        // A panic of a thread ends the program.
        threads.into_iter().try_for_each(|thread| thread.join().expect("no put panics"))
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count, rounds] = &arguments[..] else {
        return Err("usage: bulk_load DIRECTORY ENTRIES ROUNDS".into());
    };
    let directory = Path::new(directory);
    let count: u64 = count.parse()?;
    for _ in 0..rounds.parse()? {
        let puts = measure(directory, count, |db| put_by_threads(db, count))?;
        let load = measure(directory, count, |db| {
            let entries = (0..count).map(|n| Ok::<_, terrace::Error>(entry(n)));
            bulk_load(db, entries, &LoadOptions::default()).map(drop)
        })?;
        println!(
            "puts {:.2} M/s, compacted {:.2}; bulk load {:.2} M/s, compacted {:.2}; ratio {:.2}",
            puts.0,
            puts.1,
            load.0,
            load.1,
            load.0 / puts.0
        );
    }
    Ok(())
}
