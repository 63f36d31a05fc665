//! Directories with links, special files and holes. Terrace changes no file outside of a directory,
//! and no file in `lost/`.
#![cfg(unix)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "prepares files that the engine must not create"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use terrace::{Db, Env, Error, Options, RepairOptions, destroy, repair, verify};
use terrace_env::LockMode;
use terrace_format::filename::FileName;

/// Contents of the file outside of the directory.
const VICTIM: &[u8] = b"do not touch";

/// Database `db` beside the file `victim` and the empty directory `elsewhere`.
struct HostileDb {
    root: tempfile::TempDir,
}

impl HostileDb {
    /// Creates a database of 2,000 entries that was closed.
    fn closed() -> HostileDb {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("elsewhere")).unwrap();
        fs::write(root.path().join("victim"), VICTIM).unwrap();
        let hostile = HostileDb { root };
        let db = hostile.create();
        db.close().unwrap();
        hostile
    }

    fn create(&self) -> Db {
        let db = Db::open(self.path("db"), &Options::default().create_if_missing(true)).unwrap();
        (0..2000u32).for_each(|n| db.put(n.to_be_bytes(), [7; 100]).unwrap());
        db
    }

    /// Creates a database that was killed, whose log then lost a page.
    fn with_lost_page() -> HostileDb {
        let hostile = HostileDb::closed();
        fs::remove_dir_all(hostile.path("db")).unwrap();
        let db = hostile.create();
        let killed = hostile.path("killed");
        fs::create_dir(&killed).unwrap();
        for entry in fs::read_dir(hostile.path("db")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
        }
        drop(db);
        fs::remove_dir_all(hostile.path("db")).unwrap();
        fs::rename(killed, hostile.path("db")).unwrap();
        let mut log = fs::read(hostile.log()).unwrap();
        log[3 << 15..][8192..12_288].fill(0);
        fs::write(hostile.log(), log).unwrap();
        hostile
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns the path of the first file of a kind.
    fn find(&self, is_kind: fn(&FileName) -> bool) -> PathBuf {
        let names = fs::read_dir(self.path("db")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names = names.filter_map(|name| FileName::parse(name.to_str()?));
        self.path("db").join(names.find(is_kind).unwrap().to_string())
    }

    fn log(&self) -> PathBuf {
        self.find(|name| matches!(name, FileName::Log(_)))
    }

    fn manifest(&self) -> PathBuf {
        self.find(|name| matches!(name, FileName::Manifest(_)))
    }

    /// Replaces `path` by a link to a file outside with the same bytes.
    fn move_outside(&self, path: &Path, link: fn(&Path, &Path) -> std::io::Result<()>) -> Vec<u8> {
        let outside = self.path("elsewhere").join(path.file_name().unwrap());
        fs::rename(path, &outside).unwrap();
        link(&outside, path).unwrap();
        fs::read(outside).unwrap()
    }

    fn open(&self) -> Result<Db, Error> {
        Db::open(self.path("db"), &Options::default())
    }

    #[track_caller]
    fn check_outside(&self) {
        assert_eq!(fs::read(self.path("victim")).unwrap(), VICTIM);
        let names = fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["db", "elsewhere", "victim"]);
    }

    #[track_caller]
    fn check_elsewhere_is_empty(&self) {
        assert_eq!(fs::read_dir(self.path("elsewhere")).unwrap().count(), 0);
    }
}

#[track_caller]
fn check_error<T: std::fmt::Debug>(result: Result<T, Error>, expected: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
}

/// Symptom: opening a database wrote to another directory. Cause: `lost` was a link to it.
#[test]
fn lost_that_is_a_link() {
    let hostile = HostileDb::with_lost_page();
    let lost = hostile.path("db/lost");
    symlink("../elsewhere", &lost).unwrap();
    let log = fs::read(hostile.log()).unwrap();
    check_error(hostile.open(), "db/lost: found a symbolic link, expected a directory");
    hostile.check_elsewhere_is_empty();
    fs::remove_file(&lost).unwrap();
    fs::write(&lost, "").unwrap();
    check_error(hostile.open(), "db/lost: found a file, expected a directory");
    fs::remove_file(&lost).unwrap();
    let name = hostile.log().file_name().unwrap().to_owned();
    drop(hostile.open().unwrap());
    assert_eq!(fs::read(lost.join(name)).unwrap(), log);
    hostile.check_outside();
}

/// Symptom: opening a database replaced a file outside. Cause: `lost/000002.log` was a link to it.
#[test]
fn names_in_lost_that_exist() {
    let hostile = HostileDb::with_lost_page();
    let lost = hostile.path("db/lost");
    let name = hostile.log().file_name().unwrap().to_str().unwrap().to_owned();
    let log = fs::read(hostile.log()).unwrap();
    fs::create_dir(&lost).unwrap();
    symlink("../../victim", lost.join(&name)).unwrap();
    symlink("../../missing", lost.join(format!("{name}.1"))).unwrap();
    fs::write(lost.join(format!("{name}.2")), "mine").unwrap();
    drop(hostile.open().unwrap());
    assert_eq!(fs::read(lost.join(format!("{name}.2"))).unwrap(), b"mine");
    assert_eq!(fs::read(lost.join(format!("{name}.3"))).unwrap(), log);
    hostile.check_outside();
}

#[test]
fn repair_with_links_in_lost() {
    let hostile = HostileDb::closed();
    let name = hostile.manifest().file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(hostile.manifest(), "not a MANIFEST").unwrap();
    let lost = hostile.path("db/lost");
    symlink("../elsewhere", &lost).unwrap();
    let run = || repair(hostile.path("db"), &Options::default(), &RepairOptions::default());
    check_error(run(), "db/lost: found a symbolic link, expected a directory");
    hostile.check_elsewhere_is_empty();
    fs::remove_file(&lost).unwrap();
    fs::create_dir(&lost).unwrap();
    symlink("../../missing", lost.join(&name)).unwrap();
    assert!(run().unwrap().changed);
    assert_eq!(fs::read_link(lost.join(&name)).unwrap(), Path::new("../../missing"));
    assert_eq!(fs::read(lost.join(format!("{name}.1"))).unwrap(), b"not a MANIFEST");
    assert!(hostile.open().unwrap().get(1u32.to_be_bytes()).unwrap().is_some());
    hostile.check_outside();
}

/// Symptom: opening a database overwrote a file outside. Cause: `LOG` was a link to it, and the
/// directory `LOG.old` prevented its rename.
#[test]
fn info_log_that_is_a_link() {
    for link_to in ["../victim", "../missing"] {
        let hostile = HostileDb::with_lost_page();
        let _ = fs::remove_file(hostile.path("db/LOG"));
        let _ = fs::remove_file(hostile.path("db/LOG.old"));
        symlink(link_to, hostile.path("db/LOG")).unwrap();
        fs::create_dir_all(hostile.path("db/LOG.old/full")).unwrap();
        drop(hostile.open().unwrap());
        assert!(fs::symlink_metadata(hostile.path("db/LOG")).unwrap().is_file());
        hostile.check_outside();
    }
}

/// Symptom: opening a database created a file outside. Cause: `LOCK` was a dangling link to it.
#[test]
fn lock_file_that_is_a_link() {
    let hostile = HostileDb::closed();
    for link_to in ["../victim", "../missing"] {
        fs::remove_file(hostile.path("db/LOCK")).unwrap();
        symlink(link_to, hostile.path("db/LOCK")).unwrap();
        let expected = "db/LOCK: found a symbolic link, expected a regular file";
        check_error(hostile.open(), expected);
        check_error(destroy(hostile.path("db"), &Options::default()), expected);
        hostile.check_outside();
    }
}

/// Kind of a file, and a function that creates it.
type Replacement = (&'static str, fn(&Path));

/// Regression: a LOCK that no program can lock ended a repair.
#[test]
fn repair_replaces_lock_that_is_no_regular_file() {
    let replacements: [Replacement; 6] = [
        ("a symbolic link", |path| symlink("../victim", path).unwrap()),
        ("a symbolic link", |path| symlink("../missing", path).unwrap()),
        ("a symbolic link", |path| symlink("LOCK", path).unwrap()),
        ("a directory", |path| fs::create_dir_all(path.join("full")).unwrap()),
        ("a FIFO", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ];
    for (found, replace) in replacements {
        let hostile = HostileDb::closed();
        fs::remove_file(hostile.path("db/LOCK")).unwrap();
        replace(&hostile.path("db/LOCK"));
        let problem = format!("LOCK: found {found}, expected a regular file");
        check_error(hostile.open(), &format!("db/{problem}"));
        let verified = verify(hostile.path("db"), &Options::default()).unwrap();
        assert!(verified.problems.iter().any(|found| found.to_string() == problem), "{verified}");
        let repair = |dry_run| {
            repair(hostile.path("db"), &Options::default(), &RepairOptions::default().dry_run(dry_run))
                .unwrap()
        };
        let mut dry = repair(true);
        check_error(hostile.open(), &format!("db/{problem}"));
        let report = repair(false);
        dry.dry_run = false;
        assert_eq!(dry, report);
        let text = report.to_string();
        for line in [problem.as_str(), "LOCK: a new file replaces it", "moved LOCK to lost/LOCK"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(fs::symlink_metadata(hostile.path("db/lost/LOCK")).is_ok(), "{found}");
        assert_eq!(hostile.open().unwrap().iter().count(), 2000, "{found}");
        assert!(verify(hostile.path("db"), &Options::default()).unwrap().is_clean());
        hostile.check_outside();
    }
}

/// LevelDB follows a link, and locks its target.
#[test]
fn repair_does_not_replace_link_to_a_locked_file() {
    let hostile = HostileDb::closed();
    fs::rename(hostile.path("db/LOCK"), hostile.path("elsewhere/LOCK")).unwrap();
    symlink("../elsewhere/LOCK", hostile.path("db/LOCK")).unwrap();
    let target = hostile.path("elsewhere/LOCK");
    let lock = Env::system().fs.lock(&target, LockMode::Exclusive).unwrap();
    for dry_run in [true, false] {
        let refused =
            repair(hostile.path("db"), &Options::default(), &RepairOptions::default().dry_run(dry_run));
        assert!(refused.as_ref().is_err_and(Error::is_locked), "{refused:?}");
    }
    drop(lock);
    assert!(fs::symlink_metadata(hostile.path("db/LOCK")).unwrap().is_symlink());
    let repaired = repair(hostile.path("db"), &Options::default(), &RepairOptions::default());
    assert!(repaired.unwrap().changed);
}

/// Symptom: writes to a database changed files outside. Cause: its MANIFEST and its log were links,
/// and both are continued after a clean close.
#[test]
fn closed_log_and_manifest_that_are_links() {
    for link in [|from: &Path, to: &Path| symlink(from, to), |from: &Path, to: &Path| fs::hard_link(from, to)]
    {
        let hostile = HostileDb::closed();
        let db = hostile.open().unwrap();
        db.flush().unwrap();
        db.put("late", "in the log").unwrap();
        db.close().unwrap();
        let paths = [hostile.log(), hostile.manifest()];
        let bytes = paths.clone().map(|path| hostile.move_outside(&path, link));
        let db = hostile.open().unwrap();
        db.put("later", "in a new log").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = hostile.open().unwrap();
        assert_eq!(db.get("late").unwrap().as_deref(), Some(&b"in the log"[..]));
        assert_eq!(db.get("later").unwrap().as_deref(), Some(&b"in a new log"[..]));
        for (path, bytes) in paths.iter().zip(bytes) {
            assert!(fs::read(hostile.path("elsewhere").join(path.file_name().unwrap())).unwrap() == bytes);
        }
        hostile.check_outside();
    }
}

/// Live tables may be links, for example to another disk.
#[test]
fn tables_that_are_links() {
    let hostile = HostileDb::closed();
    let db = hostile.open().unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let table = hostile.find(FileName::is_table);
    let bytes = hostile.move_outside(&table, |from, to| symlink(from, to));
    let db = hostile.open().unwrap();
    assert!(db.get(5u32.to_be_bytes()).unwrap().is_some());
    db.delete(5u32.to_be_bytes()).unwrap();
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    destroy(hostile.path("db"), &Options::default()).unwrap();
    assert!(fs::read(hostile.path("elsewhere").join(table.file_name().unwrap())).unwrap() == bytes);
}

/// Symptom: a repair took hours. Cause: a table ended with a hole of terabytes, not with its index.
#[test]
fn table_that_ends_with_a_hole() {
    let hostile = HostileDb::closed();
    let db = hostile.open().unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let path = hostile.find(FileName::is_table);
    let len = fs::metadata(&path).unwrap().len();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(len / 2).unwrap();
    if file.set_len(8 << 40).is_err() {
        println!("NOT TESTED: holes of terabytes, which this file system does not support");
        return;
    }
    let started = Instant::now();
    for path in [hostile.path("db/CURRENT"), hostile.manifest()] {
        fs::remove_file(path).unwrap();
    }
    let report = repair(hostile.path("db"), &Options::default(), &RepairOptions::default()).unwrap();
    assert_eq!(report.tables_salvaged, 1, "{report}");
    assert!(hostile.open().unwrap().get(5u32.to_be_bytes()).unwrap().is_some());
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

/// Symptom: opening, verifying or repairing a database took hours. Cause: its log or its MANIFEST
/// had a hole of terabytes. A write then filled the disk, because the log was allocated.
#[test]
fn holes_of_terabytes() {
    const HOLE: u64 = 8 << 40;
    for in_manifest in [false, true] {
        for with_end in [false, true] {
            let hostile = HostileDb::closed();
            let path = if in_manifest { hostile.manifest() } else { hostile.log() };
            let bytes = fs::read(&path).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            if file.set_len(HOLE).is_err() {
                println!("NOT TESTED: holes of terabytes, which this file system does not support");
                return;
            }
            if with_end {
                // The close marker of a log, or the last edit of a MANIFEST.
                let end = &bytes[bytes.len() - 19..];
                std::os::unix::fs::FileExt::write_all_at(&file, end, HOLE).unwrap();
            }
            let started = Instant::now();
            let _ = verify(hostile.path("db"), &Options::default()).unwrap();
            if let Ok(db) = hostile.open() {
                db.put("a", "b").unwrap();
                db.close().unwrap();
            }
            repair(hostile.path("db"), &Options::default(), &RepairOptions::default()).unwrap();
            let db = hostile.open().unwrap();
            assert!(db.get(5u32.to_be_bytes()).unwrap().is_some());
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        }
    }
}
