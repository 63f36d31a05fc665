//! Backups: stored tables, several databases in one place, pruning, damage.

use std::path::Path;

use terrace::{Backups, Db, Env, Error, ErrorKind, Options};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(db: &Db) -> Entries {
    db.iter().collect::<Result<_, _>>().unwrap()
}

fn in_memory() -> Options {
    Options::default().create_if_missing(true).env(Env::in_memory())
}

/// Writes `keys` entries with values of `round` to tables.
fn fill(db: &Db, keys: u32, round: u32) {
    for key in 0..keys {
        db.put(format!("key {key:05}"), format!("{round:04} {}", "x".repeat(100))).unwrap();
    }
    db.flush().unwrap();
}

fn names(options: &Options, dir: &str) -> Vec<String> {
    let names = options.env.fs.list(dir.as_ref()).unwrap();
    let mut names: Vec<String> = names.into_iter().map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn unchanged_tables_are_stored_once() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 20_000, 1);
    let backups = Backups::open("backups", &options).unwrap();
    let first = backups.create(&db).unwrap();
    assert_eq!((first.id, first.new_bytes), (1, first.bytes));
    db.put("key", "value").unwrap();
    let second = backups.create(&db).unwrap();
    assert!(second.bytes > 100_000 && second.new_bytes < 2_000, "{second:?}");
    assert_eq!(backups.list().unwrap(), [first, second]);
    let tables = db.levels().iter().map(|level| level.files.len()).sum::<usize>();
    assert_eq!(names(&options, "backups/tables").len(), tables);
}

/// A restored database gives its tables the numbers of tables that the original has written since
/// the backup. Only their contents differ.
#[test]
fn restored_database_in_the_same_backups() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let backups = Backups::open("backups", &options).unwrap();
    let mut saved = Vec::new();
    fill(&db, 10, 1);
    let first = backups.create(&db).unwrap();
    saved.push((first.id, entries(&db)));
    backups.restore(first.id, "restored").unwrap();
    let restored = Db::open("restored", &options).unwrap();
    for (round, db) in [(2, &db), (3, &restored), (4, &db), (5, &restored)] {
        fill(db, 10, round);
        saved.push((backups.create(db).unwrap().id, entries(db)));
    }
    for (id, expected) in saved {
        let path = format!("restored {id}");
        backups.restore(id, &path).unwrap();
        assert_eq!(entries(&Db::open(&path, &options).unwrap()), expected, "{id}");
        assert!(backups.verify(id).unwrap().is_clean());
    }
}

/// `prune` counts the backups of each database.
#[test]
fn two_databases_in_one_place() {
    let options = in_memory();
    let backups = Backups::open("backups", &options).unwrap();
    let dbs = ["one", "two"].map(|path| Db::open(path, &options).unwrap());
    for round in 0..3 {
        for (n, db) in (0..).zip(&dbs) {
            fill(db, 10, 2 * round + n);
            backups.create(db).unwrap();
        }
    }
    let sources: Vec<String> = backups.list().unwrap().into_iter().map(|info| info.source).collect();
    assert_eq!(sources, ["one", "two", "one", "two", "one", "two"]);
    assert_eq!(backups.prune(1).unwrap(), [1, 2, 3, 4]);
    backups.restore(5, "restored one").unwrap();
    backups.restore(6, "restored two").unwrap();
    assert_eq!(entries(&Db::open("restored one", &options).unwrap()), entries(&dbs[0]));
    assert_eq!(entries(&Db::open("restored two", &options).unwrap()), entries(&dbs[1]));
    assert_eq!(backups.prune(0).unwrap(), [5, 6]);
    assert_eq!(names(&options, "backups"), ["LOCK", "tables"]);
    assert!(names(&options, "backups/tables").is_empty());
}

/// The database and its backups are in two envs, so nothing can be linked.
#[test]
fn backup_in_another_env() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open("db", &in_memory()).unwrap();
    fill(&db, 100, 1);
    let options = Options::default().create_if_missing(true);
    let backups = Backups::open(dir.path().join("backups"), &options).unwrap();
    let info = backups.create(&db).unwrap();
    backups.restore(info.id, dir.path().join("restored")).unwrap();
    assert_eq!(entries(&Db::open(dir.path().join("restored"), &options).unwrap()), entries(&db));
}

#[test]
fn refused_calls() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let existing = options.clone().create_if_missing(false);
    let check = |result: terrace::Result<()>, kind, message: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    let invalid = ErrorKind::InvalidArgument;
    let missing = Backups::open("backups", &existing).map(drop);
    assert!(matches!(missing, Err(Error::DoesNotExist { .. })), "{missing:?}");
    check(missing, invalid, "backups: does not exist");
    check(Backups::open("db", &options).map(drop), invalid, "db: is a database, expected backups");
    let backups = Backups::open("backups", &options).unwrap();
    assert!(Backups::open("backups", &options).unwrap_err().is_locked());
    options.env.fs.create("file".as_ref()).unwrap();
    for options in [&options, &existing] {
        check(Backups::open("file", options).map(drop), invalid, "file: is a file, expected backups");
    }
    let inside = Backups::open("db/backups", &options).unwrap();
    check(inside.create(&db).map(drop), invalid, "db/backups: is inside of the database db");
    let info = backups.create(&db).unwrap();
    check(backups.restore(info.id, "db"), invalid, "db: exists");
    check(
        backups.restore(info.id, "backups/db"),
        invalid,
        "backups/db: is inside of the directory of backups",
    );
    check(backups.restore(7, "new"), ErrorKind::NotFound, "backups: no backup 7");
    check(backups.verify(7).map(drop), ErrorKind::NotFound, "backups: no backup 7");
}

/// A backup on a disk that is mounted read-only can be restored.
#[test]
fn read_only_mount() {
    let fs = std::sync::Arc::new(terrace::env::mem::MemFs::new());
    let options = in_memory().env(Env { fs: fs.clone(), ..Env::in_memory() });
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let id = Backups::open("backups", &options).unwrap().create(&db).unwrap().id;
    let plan = "lock LOCK #1 once EROFS; create * #1 forever EROFS; create-dir * #1 forever EROFS";
    let faults = terrace::env::fault::FaultFs::new(fs, plan.parse().unwrap());
    let faults = std::sync::Arc::new(faults);
    let read_only = Options::default().env(Env { fs: faults.clone(), ..Env::in_memory() });
    let backups = Backups::open("backups", &read_only).unwrap();
    assert!(backups.verify(id).unwrap().is_clean());
    assert!(backups.prune(0).is_err());
    faults.set_plan("create-dir backups #1 forever EROFS".parse().unwrap());
    backups.restore(id, "restored").unwrap();
    assert_eq!(entries(&Db::open("restored", &options).unwrap()), entries(&db));
}

/// Returns a file system in memory, and options that use it.
fn options_in_memory() -> (std::sync::Arc<terrace::env::mem::MemFs>, Options) {
    let fs = std::sync::Arc::new(terrace::env::mem::MemFs::new());
    let env = Env { fs: std::sync::Arc::clone(&fs) as _, ..Env::in_memory() };
    (fs, Options::default().create_if_missing(true).env(env))
}

/// Damage of a backup is reported with its file, and is never restored.
#[test]
fn damaged_backup() {
    let (fs, options) = options_in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let backups = Backups::open("backups", &options).unwrap();
    let id = backups.create(&db).unwrap().id;
    db.close().unwrap();
    for name in names(&options, "backups/000001") {
        let path = Path::new("backups/000001").join(&name);
        fs.corrupt(&path, |bytes| bytes.push(0)).unwrap();
        let report = backups.verify(id).unwrap();
        assert_eq!(report.problems.len(), 1, "{report}");
        assert!(report.to_string().contains(&name), "{report}");
        let error = backups.restore(id, "restored").unwrap_err();
        assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(&name), "{error}");
        assert!(!fs_exists(&options, "restored") && !fs_exists(&options, "restored.partial"));
        fs.corrupt(&path, |bytes| bytes.truncate(bytes.len() - 1)).unwrap();
    }
    backups.restore(id, "restored").unwrap();
    fs.corrupt("backups/000001.files".as_ref(), |bytes| bytes[20] ^= 1).unwrap();
    let error = backups.list().unwrap_err();
    assert!(error.to_string().contains("000001.files: is no complete list"), "{error}");
    drop(backups);
    // The damaged list may need its tables, so the next calls remove none.
    let backups = Backups::open("backups", &options).unwrap();
    assert_eq!(backups.prune(1).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(names(&options, "backups/tables").len(), 1);
}

/// Symptom: a backup stored a damaged table without an error, and its hash was that of the damage.
/// Guarantee: each damaged byte of a table before its footer is found.
#[test]
fn damaged_table_is_no_backup() {
    let (fs, options) = options_in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let backups = Backups::open("backups", &options).unwrap();
    let table = names(&options, "db").into_iter().find(|name| name.ends_with(".ldb")).unwrap();
    let path = Path::new("db").join(&table);
    let size = options.env.fs.file_size(&path).unwrap();
    let footer = size - 48;
    for byte in (0..footer).step_by(13).chain([footer - 1, size - 1]) {
        fs.corrupt(&path, |bytes| bytes[byte as usize] ^= 0x10).unwrap();
        let error = backups.create(&db).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Corruption && error.to_string().contains(&table),
            "{byte}: {error}"
        );
        fs.corrupt(&path, |bytes| bytes[byte as usize] ^= 0x10).unwrap();
    }
    fs.corrupt(&path, |bytes| bytes.truncate(bytes.len() - 1)).unwrap();
    assert_eq!(backups.create(&db).unwrap_err().kind(), ErrorKind::Corruption);
    fs.corrupt(&path, |bytes| bytes.push(0)).unwrap();
    assert!(backups.ids().unwrap().is_empty() && names(&options, "backups/tables").is_empty());
    assert_eq!(names(&options, "backups"), ["LOCK", "tables"]);
    let (info, damage) = backups.create_damaged(&db, |_, _| ()).unwrap();
    assert_eq!((info.id, damage.len()), (1, 1), "{damage:?}");
    assert!(backups.verify(1).unwrap().is_clean());
    assert_eq!(backups.create(&db).unwrap_err().kind(), ErrorKind::Corruption, "a stored table");
}

/// Bytes after the end of a table are no damage: the MANIFEST has its size.
#[test]
fn bytes_after_the_end_of_a_table() {
    let (fs, options) = options_in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let table = names(&options, "db").into_iter().find(|name| name.ends_with(".ldb")).unwrap();
    fs.corrupt(&Path::new("db").join(table), |bytes| bytes.extend([7; 100])).unwrap();
    let backups = Backups::open("backups", &options).unwrap();
    let id = backups.create(&db).unwrap().id;
    backups.restore(id, "restored").unwrap();
    assert_eq!(entries(&Db::open("restored", &options).unwrap()), entries(&db));
}

/// Symptom: a backup whose directory was lost was taken for an interrupted call. The next open
/// removed its list and its tables.
#[test]
fn lost_directory_is_damage() {
    let (_, options) = options_in_memory();
    let fs = &options.env.fs;
    let db = Db::open("db", &options).unwrap();
    let backups = Backups::open("backups", &options).unwrap();
    for round in 1..4 {
        fill(&db, 100, round);
        db.rewrite_tables().unwrap();
        backups.create(&db).unwrap();
    }
    drop(backups);
    for lost in ["backups/000001", "backups/000003"] {
        for name in names(&options, lost) {
            fs.remove(&Path::new(lost).join(name)).unwrap();
        }
        fs.remove_dir(lost.as_ref()).unwrap();
    }
    let tables = names(&options, "backups/tables");
    let backups = Backups::open("backups", &options).unwrap();
    assert_eq!(backups.ids().unwrap(), [1, 2, 3]);
    for id in [1, 3] {
        let name = format!("00000{id}: is missing");
        let errors = [
            backups.info(id).unwrap_err(),
            backups.verify(id).unwrap_err(),
            backups.restore(id, "restored").unwrap_err(),
        ];
        for error in errors {
            assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(&name), "{error}");
        }
    }
    assert_eq!(backups.list().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(backups.verify(2).unwrap().is_clean());
    assert_eq!(names(&options, "backups/tables"), tables);
    // Only backup 2 is complete, and it stays.
    assert_eq!(backups.prune(1).unwrap(), [1]);
    assert_eq!(backups.ids().unwrap(), [2, 3]);
    assert_eq!(backups.create(&db).unwrap().id, 4);
    assert_eq!(backups.prune(1).unwrap(), [2, 3]);
    assert_eq!(backups.list().unwrap().len(), 1);
    assert_eq!(names(&options, "backups"), ["000004", "000004.files", "LOCK", "tables"]);
}

/// Calls that only read remove nothing. The next `create` and `prune` remove the files of an
/// interrupted one.
#[test]
fn leftovers_of_interrupted_calls() {
    let (_, options) = options_in_memory();
    let fs = &options.env.fs;
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    Backups::open("backups", &options).unwrap().create(&db).unwrap();
    let leave = || {
        fs.create_dir("backups/000007.partial".as_ref()).unwrap();
        fs.create_dir("backups/000007.partial/database".as_ref()).unwrap();
        fs.create("backups/000007.partial/database/CURRENT".as_ref()).unwrap();
        fs.create("backups/000007.files".as_ref()).unwrap();
        fs.create("backups/tables/000009-7-0123456789abcdef.ldb".as_ref()).unwrap();
    };
    leave();
    let before = names(&options, "backups");
    let backups = Backups::open("backups", &options).unwrap();
    assert_eq!(backups.list().unwrap().len(), 1);
    assert!(backups.verify(1).unwrap().is_clean());
    assert_eq!(backups.info(7).unwrap_err().kind(), ErrorKind::NotFound);
    backups.restore(1, "restored").unwrap();
    assert_eq!(names(&options, "backups"), before);
    assert_eq!(names(&options, "backups/tables").len(), 2);
    assert_eq!(backups.create(&db).unwrap().id, 2);
    let complete = ["000001", "000001.files", "000002", "000002.files", "LOCK", "tables"];
    assert_eq!(names(&options, "backups"), complete);
    assert_eq!(names(&options, "backups/tables").len(), 1);
    leave();
    assert!(backups.prune(9).unwrap().is_empty());
    assert_eq!(names(&options, "backups"), complete);
    assert_eq!(names(&options, "backups/tables").len(), 1);
}

/// Regression: one damaged list hid all backups, because each list of them ended with its error.
#[test]
fn damaged_list_hides_no_other_backup() {
    let (fs, options) = options_in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let backups = Backups::open("backups", &options).unwrap();
    let infos = [backups.create(&db).unwrap(), backups.create(&db).unwrap()];
    fs.corrupt("backups/000001.files".as_ref(), |bytes| bytes[20] ^= 1).unwrap();
    assert_eq!(backups.ids().unwrap(), [1, 2]);
    assert_eq!(backups.info(1).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(backups.info(2).unwrap(), infos[1]);
    assert!(backups.verify(2).unwrap().is_clean());
    backups.restore(2, "restored").unwrap();
    assert_eq!(entries(&Db::open("restored", &options).unwrap()), entries(&db));
}

/// Symptom: a backup without its list was in no report, and the next call removed its tables.
/// Guarantee: it is a damaged backup, and its tables stay.
#[test]
fn missing_list_is_damage() {
    let (_, options) = options_in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db, 100, 1);
    let backups = Backups::open("backups", &options).unwrap();
    backups.create(&db).unwrap();
    drop(backups);
    options.env.fs.remove("backups/000001.files".as_ref()).unwrap();
    let backups = Backups::open("backups", &options).unwrap();
    assert_eq!(backups.ids().unwrap(), [1]);
    let error = backups.info(1).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("000001.files"), "{error}");
    assert_eq!(names(&options, "backups/tables").len(), 1);
    assert_eq!(backups.create(&db).unwrap().id, 2);
}

/// Regression: a list was read as a whole, and files before the comparison of their sizes. A file
/// may be a hole of terabytes.
#[cfg(target_os = "linux")]
#[test]
fn holes_in_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    fill(&db, 100, 1);
    let path = dir.path().join("backups");
    let backups = Backups::open(&path, &options).unwrap();
    let id = backups.create(&db).unwrap().id;
    let lengthen = |name: &str| {
        let truncate =
            std::process::Command::new("truncate").args(["--size", "1T"]).arg(path.join(name)).status();
        assert!(truncate.unwrap().success());
    };
    lengthen("000001/CURRENT");
    let report = backups.verify(id).unwrap();
    assert!(report.to_string().contains("CURRENT: 1099511627776 bytes, expected 16"), "{report}");
    let error = backups.restore(id, dir.path().join("restored")).unwrap_err();
    assert!(error.to_string().contains("CURRENT: 1099511627776 bytes, expected 16"), "{error}");
    lengthen("000001.files");
    let error = backups.info(id).unwrap_err();
    assert!(error.to_string().contains("000001.files: is no complete list"), "{error}");
}

/// Regression: a program that only looked for backups created a lock and a directory of tables in
/// any directory.
#[test]
fn directory_of_another_kind() {
    let options = in_memory();
    options.env.fs.create_dir("other".as_ref()).unwrap();
    let existing = options.clone().create_if_missing(false);
    let error = Backups::open("other", &existing).unwrap_err();
    assert!(error.to_string().contains("other: no directory of backups"), "{error}");
    assert!(names(&options, "other").is_empty());
}

fn fs_exists(options: &Options, path: &str) -> bool {
    options.env.fs.exists(path.as_ref()).unwrap()
}
