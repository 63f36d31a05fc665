//! Compactions on several threads.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use terrace::{Comparator, Db, Env, ErrorKind, Logger, Options, ReadOptions};
use terrace_env::ThreadPool;

struct ChannelLogger(Sender<String>);

impl Logger for ChannelLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let _ = self.0.send(line.to_string());
    }
}

/// Returns options with small tables and four compaction threads, and the lines of the info log.
fn options() -> (Options, Receiver<String>) {
    let (sender, lines) = channel();
    let options = Options::default()
        .create_if_missing(true)
        .env(Env { scheduler: Arc::new(ThreadPool::new(1, 4)), ..Env::in_memory() })
        .logger(Arc::new(ChannelLogger(sender)))
        .write_buffer_size(256 << 10)
        .max_file_size(1 << 20);
    (options, lines)
}

const KEYS: u32 = 12_000;

fn key(n: u32) -> Vec<u8> {
    format!("{:010}", n.wrapping_mul(2_654_435_761)).into_bytes()
}

fn value(n: u32, round: u8) -> Vec<u8> {
    let noise =
        (0..400u32).map(|i| ((n ^ i.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 13) as u8);
    noise.chain([round]).collect()
}

fn put(db: &Db, round: u8, numbers: impl Iterator<Item = u32>) {
    numbers.for_each(|n| db.put(key(n), value(n, round)).unwrap());
}

fn all(db: &Db, options: &ReadOptions) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter_with(options).collect::<Result<_, _>>().unwrap()
}

/// Returns the entries of each number for which `round` gives a round, in the form of [`all`].
fn expected(round: impl Fn(u32) -> Option<u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> =
        (0..KEYS).filter_map(|n| round(n).map(|round| (key(n), value(n, round)))).collect();
    entries.sort();
    entries
}

#[test]
fn subcompactions_give_the_same_result() {
    let (options, lines) = options();
    let db = Db::open("db", &options).unwrap();
    put(&db, 1, 0..KEYS);
    let snapshot = ReadOptions::default().snapshot(db.snapshot());
    put(&db, 2, (0..KEYS).filter(|n| n % 2 == 0));
    (0..KEYS).filter(|n| n % 3 == 0).for_each(|n| db.delete(key(n)).unwrap());
    let now = expected(|n| (n % 3 != 0).then_some(if n % 2 == 0 { 2 } else { 1 }));
    let check = || {
        assert!(
            lines.try_iter().any(|line| line.contains(" subcompactions=")),
            "one thread did all the work"
        );
        assert!(all(&db, &ReadOptions::default()) == now);
    };

    db.compact_range(None, None).unwrap();
    check();
    assert!(all(&db, &snapshot) == expected(|_| Some(1)), "the snapshot sees the first round");

    drop(snapshot);
    db.compact_range(None, None).unwrap();
    check();
    db.close().unwrap();
    assert!(terrace::verify("db", &options).unwrap().is_clean());
}

/// Bytewise comparator that panics at the given comparison.
struct PanicAfterComparator(AtomicU32);

impl Comparator for PanicAfterComparator {
    fn name(&self) -> &str {
        "test.Mortal"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.0.load(Ordering::Relaxed) > 0 && self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("enough"));
        }
        a.cmp(b)
    }
}

/// Whichever thread panics: the compaction fails, no thread waits for ever, and no written entry is
/// lost. A compaction compares each of the 12,000 keys at least once, so the panic occurs.
#[test]
fn panic_in_a_subcompaction_fails_the_compaction() {
    for lives in [2_000, 5_000, 10_000] {
        let (options, lines) = options();
        let comparator = Arc::new(PanicAfterComparator(AtomicU32::new(0)));
        let options = options.comparator(Arc::clone(&comparator) as Arc<dyn Comparator>);
        let db = Db::open("db", &options).unwrap();
        put(&db, 1, 0..KEYS);
        db.flush().unwrap();
        // The memtable makes the compaction merge all tables, even if automatic compactions have
        // merged them already.
        put(&db, 1, 0..1);
        put(&db, 1, KEYS - 1..KEYS);
        while lines.try_recv().is_ok() {}
        comparator.0.store(lives, Ordering::Relaxed);
        let error = db.compact_range(None, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(db.put(b"", b"").is_err());
        let _ = db.close();
        let db = Db::open("db", &options).unwrap();
        assert!(all(&db, &ReadOptions::default()) == expected(|_| Some(1)));
    }
}

/// After an error in one subcompaction no output table of the others stays.
#[test]
fn failed_subcompaction_leaves_no_table() {
    let (options, _lines) = options();
    let db = Db::open("db", &options).unwrap();
    put(&db, 1, 0..KEYS);
    db.close().unwrap();
    let fs = Arc::clone(&options.env.fs);
    let tables = || {
        let mut names = fs.list(Path::new("db")).unwrap();
        names.retain(|name| name.to_string_lossy().ends_with(".ldb"));
        names.sort();
        names
    };
    let last = Path::new("db").join(tables().pop().unwrap());
    let mut bytes = vec![0; fs.file_size(&last).unwrap() as usize];
    fs.open_random_access(&last, terrace_env::AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let mut file = fs.create(&last).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();

    let db = Db::open("db", &options).unwrap();
    let error = db.compact_range(None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    // A concurrent flush may be writing a table.
    let _ = db.close();
    let live = Db::open_read_only("db", &options).unwrap().property("leveldb.sstables").unwrap();
    for name in tables() {
        let number = name.to_string_lossy().trim_end_matches(".ldb").trim_start_matches('0').to_owned();
        assert!(live.contains(&format!(" {number}:")), "{name:?} is in no level:\n{live}");
    }
}
