//! Report of the open: the end of each log, and damage whose data is missing.

use std::fmt::Arguments;
use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Env, ErrorKind, LogEndReason, Logger, Options, verify};
use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileSystem};
use terrace_sync::Mutex;

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Logger for Lines {
    fn log(&self, line: Arguments<'_>) {
        self.0.lock().push(line.to_string());
    }
}

fn options(fs: &Arc<MemFs>) -> Options {
    Options::default().create_if_missing(true).env(Env::with_file_system(Arc::clone(fs) as _))
}

/// Creates a database of 1,000 entries in one log of more than three blocks.
fn database(closed: bool) -> Arc<MemFs> {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(&fs)).unwrap();
    for n in 0..1000 {
        db.put(format!("key{n:04}"), [b'v'; 100]).unwrap();
    }
    if closed {
        db.close().unwrap();
        return fs;
    }
    Arc::new(fs.fork())
}

fn log_path(fs: &MemFs) -> std::path::PathBuf {
    let names = fs.list("db".as_ref()).unwrap();
    let log = names.iter().find(|name| name.to_string_lossy().ends_with(".log")).unwrap();
    Path::new("db").join(log)
}

fn change_log(fs: &MemFs, change: impl FnOnce(&mut Vec<u8>)) {
    let path = log_path(fs);
    let file = fs.open_random_access(&path, AccessMode::Pread).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    change(&mut bytes);
    let mut file = fs.create(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

/// Regression: reads of a database with a damaged log omitted data without any sign of it.
#[test]
fn damaged_record_is_reported() {
    let fs = database(true);
    change_log(&fs, |bytes| bytes[40_000] ^= 1);
    let db = Db::open_read_only("db", &options(&fs)).unwrap();
    let recovery = db.recovery();
    assert!(recovery.damage[0].to_string().contains("checksum"), "{recovery:?}");
    assert!(recovery.damage[0].offset.is_some_and(|offset| (32_768..=40_000).contains(&offset)));
    assert!(db.iter().count() < 1000);
    let paranoid = options(&fs).paranoid_checks(true);
    assert_eq!(Db::open_read_only("db", &paranoid).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(Db::open_damaged("db", &paranoid).unwrap().iter().count() > 600);
}

#[test]
fn intact_logs_end_without_damage() {
    for (closed, reason) in [(true, LogEndReason::EndOfFile), (false, LogEndReason::UnusedSpace)] {
        let fs = database(closed);
        let db = Db::open_read_only("db", &options(&fs)).unwrap();
        let recovery = db.recovery();
        assert_eq!((recovery.logs.len(), recovery.logs[0].reason), (1, reason));
        assert!(recovery.damage.is_empty() && recovery.logs[0].end > 100_000, "{recovery:?}");
        assert!(recovery.logs[0].end <= recovery.logs[0].length);
    }
}

/// The end of a log that a killed process has torn is no damage. After a clean close, it is.
#[test]
fn torn_tail() {
    for closed in [true, false] {
        let fs = database(closed);
        let intact = Db::open_read_only("db", &options(&fs)).unwrap().recovery().logs[0].clone();
        change_log(&fs, |bytes| bytes.truncate(intact.end as usize - 10));
        let lines = Arc::new(Lines::default());
        let db = Db::open_read_only("db", &options(&fs).logger(Arc::clone(&lines) as _)).unwrap();
        assert_eq!(db.iter().count(), 999);
        // As in LevelDB.
        Db::open_read_only("db", &options(&fs).paranoid_checks(true)).unwrap();
        let report = verify("db", &options(&fs)).unwrap();
        let log = &db.recovery().logs[0];
        let (reason, problems) =
            if closed { (LogEndReason::Damage, 1) } else { (LogEndReason::IncompleteRecord, 0) };
        assert_eq!(log.reason, reason);
        assert_eq!(db.recovery().damage.len(), problems, "{:?}", db.recovery());
        assert_eq!(report.problems.len(), problems, "{report}");
        assert_eq!(report.notes.len(), 1 - problems, "{report}");
        assert_eq!((report.keys, report.versions), (Some(999), 999), "{report}");
        let line = format!("Log #{} ended at {} of {} bytes: {reason}", log.number, log.end, log.length);
        let lines = lines.0.lock();
        assert!(lines.contains(&line), "{lines:?}");
    }
}

/// Regression: a flipped bit in a length made the rest of an unclosed log look like an interrupted
/// write.
#[test]
fn flipped_length_near_the_end() {
    let fs = database(false);
    let end = Db::open_read_only("db", &options(&fs)).unwrap().recovery().logs[0].end as usize;
    change_log(&fs, |bytes| {
        bytes.truncate(end);
        let last_block = end / 32_768 * 32_768;
        // The first fragment of the last block continues a record.
        let len = usize::from(u16::from_le_bytes([bytes[last_block + 4], bytes[last_block + 5]]));
        bytes[last_block + 7 + len + 5] ^= 0x40;
    });
    let db = Db::open_read_only("db", &options(&fs)).unwrap();
    assert_eq!(db.recovery().logs[0].reason, LogEndReason::Damage);
    assert_eq!(db.recovery().damage.len(), 1, "{:?}", db.recovery());
    assert!(!verify("db", &options(&fs)).unwrap().is_clean());
}

#[test]
fn missing_log_is_reported() {
    let fs = database(true);
    fs.remove(&log_path(&fs)).unwrap();
    let db = Db::open_read_only("db", &options(&fs)).unwrap();
    assert!(db.recovery().damage[0].message.starts_with("is missing"), "{:?}", db.recovery());
}

#[test]
fn new_database_has_no_damage() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(&fs)).unwrap();
    assert!(db.recovery().damage.is_empty() && db.recovery().logs.is_empty(), "{:?}", db.recovery());
}

/// An open of a damaged database reads the tables that are left.
#[test]
fn missing_table() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open("db", &options(&fs)).unwrap();
    for key in ["a", "b"] {
        db.put(key, "1").unwrap();
        db.flush().unwrap();
    }
    let first = db.levels().iter().flat_map(|level| &level.files).map(|file| file.number).min().unwrap();
    db.close().unwrap();
    fs.remove(&Path::new("db").join(format!("{first:06}.ldb"))).unwrap();
    assert_eq!(Db::open_read_only("db", &options(&fs)).unwrap_err().kind(), ErrorKind::Corruption);
    let db = Db::open_damaged("db", &options(&fs)).unwrap();
    assert_eq!(db.recovery().damage.len(), 1);
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.get("a").is_err());
    let mut entries = db.raw_iter();
    entries.seek_to_first();
    assert_eq!(entries.key(), b"b");
    assert!(entries.status().is_err());
}

#[test]
fn unreadable_log() {
    use terrace_env::fault::{FaultFs, FaultPlan};
    let plan: FaultPlan = "read .log #1 forever EIO".parse().unwrap();
    let fs = FaultFs::new(database(true) as _, plan);
    let options = Options::default().env(Env::with_file_system(Arc::new(fs)));
    assert_eq!(Db::open_read_only("db", &options).unwrap_err().kind(), ErrorKind::Io);
    let db = Db::open_damaged("db", &options).unwrap();
    let error = crate::system_errors::input_output();
    assert!(db.recovery().damage[0].message.contains(&error), "{:?}", db.recovery());
    let report = verify("db", &options).unwrap();
    assert!(report.problems.iter().any(|problem| problem.message.contains(&error)), "{report}");
}
