//! Damaged databases: reports of the read commands, and repairs.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests damage the files that the program reads, and fail if that fails"
)]

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cli_test::{CliTest, portable};

/// Entries that fill several blocks of a log.
fn entries() -> String {
    (0..3000).map(|n| format!("key{n:06}\t{}\n", format!("v{n}").repeat(5))).collect()
}

/// Creates a database whose log has a damaged record.
fn damaged_log() -> CliTest {
    let trial = CliTest::with_entries(&entries());
    let log = trial.find_file(".log");
    let mut bytes = trial.read(&log);
    bytes[40_000] ^= 0x40;
    trial.file(&log, bytes);
    trial
}

const READ_COMMANDS: [&str; 4] = ["get db key000001", "scan db", "dump db", "stat db"];

/// Regression: the read commands printed wrong or missing lines, with exit code 0 and an empty
/// standard error.
#[test]
fn damaged_log_is_reported() {
    let trial = damaged_log();
    for line in READ_COMMANDS {
        let result = trial.run(line);
        assert_eq!(result.code, 3, "{line}: {result:?}");
        for part in ["terrace: corruption: db: 00", ".log at 32768: checksum", "--allow-damage", "verify"] {
            assert!(result.err.contains(part), "{line}: no {part:?} in {}", result.err);
        }
        assert_eq!(result.err.lines().count(), 1, "{line}: {}", result.err);
        assert_eq!(result.out.is_empty(), line != "stat db", "{line}: {}", result.out);
    }
    trial.run("stat db").assert_contains(3, &["ends at 105,528 of 105,528 bytes: end of the file"]);
}

#[test]
fn allowed_damage_is_a_warning() {
    let trial = damaged_log();
    for line in READ_COMMANDS {
        let result = trial.run(&format!("{line} --allow-damage"));
        assert_eq!(result.code, 0, "{line}: {result:?}");
        assert!(result.err.starts_with("terrace: warning: corruption: db: 00"), "{line}: {}", result.err);
    }
    assert_eq!(trial.run("scan db --allow-damage").out.lines().count(), 2000);
    trial.run("get db key000001 --allow-damage").assert_output(0, "v1v1v1v1v1\n");
    trial.run("get db key001001 --allow-damage").assert_output(1, "");
    trial.run("put db k v").assert_contains(0, &["terrace: warning: corruption: db: "]);
}

#[test]
fn damaged_table() {
    let trial = CliTest::with_entries(&entries());
    trial.run("compact db").assert_contains(0, &[]);
    let table = trial.find_file(".ldb");
    let mut bytes = trial.read(&table);
    bytes[20_000] ^= 0x40;
    trial.file(&table, bytes);
    for line in ["scan db", "dump db"] {
        trial.run(line).assert_contains(3, &["terrace: corruption: ", "--allow-damage reads all other data"]);
        let allowed = trial.run(&format!("{line} --allow-damage"));
        allowed.assert_contains(0, &["terrace: warning: corruption: "]);
        let lines = allowed.out.lines().count();
        assert!(lines > 2500 && lines < 3000, "{line}: {lines}");
    }
    let kept = trial.run("scan db --allow-damage").out;
    let lost = (0..3000).find(|n| !kept.contains(&format!("key{n:06}\t"))).unwrap();
    trial.run(&format!("get db key{lost:06}")).assert_contains(3, &["terrace: corruption: "]);
    trial.run(&format!("get db key{lost:06} --allow-damage")).assert_contains(1, &["warning: ", "no key"]);
}

/// Regression: a backup stored a damaged table without a message.
#[test]
fn backup_of_a_damaged_table() {
    let trial = CliTest::with_entries(&entries());
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("backup create backups db").assert_contains(0, &["backup 1: "]);
    let table = trial.find_file(".ldb");
    let bytes = trial.read(&table);
    let mut damaged = bytes.clone();
    damaged[20_000] ^= 0x40;
    // Another file than the one that the first backup has.
    fs::remove_file(trial.path(&table)).unwrap();
    trial.file(&table, damaged);
    let name = &table["db/".len()..];
    for _ in 0..2 {
        trial.run("backup create backups db").assert_contains(
            3,
            &[
                "terrace: corruption: ",
                name,
                "checksum 0x",
                "terrace verify",
                "--allow-damage stores damaged tables",
            ],
        );
        trial.run("backup list backups").assert_contains(0, &["     1  20"]);
        assert_eq!(trial.list("backups"), ["000001", "000001.files", "LOCK", "tables"]);
        assert_eq!(trial.list("backups/tables").len(), 1);
    }
    let allowed = trial.run("backup create backups db --allow-damage");
    allowed.assert_contains(0, &["terrace: warning: corruption: ", name, "checksum 0x", "backup 2: "]);
    // The damaged table is stored now, and that is no reason to be silent about it.
    trial.run("backup create backups db").assert_contains(3, &["terrace: corruption: ", name]);
    trial.run("backup verify backups").assert_contains(0, &["backup 2: ", "no problem"]);
    trial.file(&table, bytes);
    trial.run("backup create backups db").assert_contains(0, &["backup 3: "]);
}

#[test]
fn missing_table() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("compact db").assert_contains(0, &[]);
    let table = trial.find_file(".ldb");
    fs::remove_file(trial.path(&table)).unwrap();
    trial.run("put db b 2").assert_contains(3, &["1 missing files"]);
    trial.run("scan db").assert_contains(3, &["1 missing files", "--allow-damage reads all other data"]);
    let allowed = trial.run("scan db --allow-damage");
    allowed.assert_contains(0, &["warning: corruption: db: ", "is missing"]);
}

/// The torn end of a log that no close has completed is not damage.
#[test]
fn torn_tail_is_a_note() {
    let trial = CliTest::with_entries(&entries());
    // A foreign MANIFEST has no mark of the close.
    let log = trial.find_file(".log");
    let manifest = trial.find_file("MANIFEST");
    let bytes = trial.read(&manifest);
    let mark = bytes.windows(14).position(|part| part == b"terrace closed").unwrap();
    // The edit of the mark begins before it. Its size is in the header of its record.
    let header = (0..mark).rev().find(|&at| bytes[at + 6] == 1 && ends_file(&bytes, at)).unwrap();
    trial.file(&manifest, &bytes[..header]);
    let log_bytes = trial.read(&log);
    trial.file(&log, &log_bytes[..log_bytes.len() - 20]);
    let verified = trial.run("verify db");
    verified.assert_contains(
        0,
        &[
            "note: ",
            " without a complete record, perhaps an interrupted write",
            "2,000 entries in 2,000 versions: no problem",
        ],
    );
    for line in ["scan db", "dump db"] {
        let result = trial.run(line);
        assert_eq!((result.code, result.err.as_str()), (0, ""), "{line}");
    }
    trial.run("stat db").assert_contains(0, &["incomplete record, perhaps an interrupted write"]);
    trial.run("repair db --dry-run").assert_contains(0, &["nothing to repair", "1 log kept"]);
}

/// Returns true if the record at `at` ends with the file.
fn ends_file(bytes: &[u8], at: usize) -> bool {
    at + 7 + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]])) == bytes.len()
}

#[test]
fn verify_counts_keys_and_versions() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("verify db").assert_contains(0, &["1 entry in 1 version: no problem"]);
    trial.run("put db a 2").assert_contains(0, &[]);
    trial.run("put db b 2").assert_contains(0, &[]);
    trial.run("delete db b").assert_contains(0, &[]);
    let verified = trial.run("verify db");
    verified.assert_contains(0, &["2 files, ", " B, 1 entry in 4 versions: no problem"]);
}

/// Puts something else in the place of a file.
type Replacement = (&'static str, fn(&Path));

static REPLACEMENTS: &[Replacement] = &[
    #[cfg(unix)]
    ("a dangling link", |path| symlink("/nonexistent/file", path).unwrap()),
    #[cfg(unix)]
    ("a link to itself", |path| symlink(path, path).unwrap()),
    ("a directory", |path| fs::create_dir(path).unwrap()),
    #[cfg(unix)]
    ("a FIFO", |path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success())),
    // Reads of address 0 fail with EIO.
    #[cfg(unix)]
    ("a file with EIO", |path| symlink("/proc/self/mem", path).unwrap()),
    #[cfg(unix)]
    ("a special file", |path| symlink("/dev/null", path).unwrap()),
];

/// Regression: one unreadable file ended the repair with an error, and nothing was saved.
#[test]
fn repair_saves_all_other_files() {
    for (name, replace) in REPLACEMENTS {
        for file in [".ldb", ".log", "CURRENT", "MANIFEST", "LOCK"] {
            let trial = CliTest::with_entries("a\t1\n");
            trial.run("compact db").assert_contains(0, &[]);
            trial.run("put db b 2").assert_contains(0, &[]);
            let damaged = trial.find_file(file);
            fs::remove_file(trial.path(&damaged)).unwrap();
            replace(&trial.path(&damaged));
            let dry = trial.run("repair db --dry-run");
            let repaired = trial.run("repair db");
            assert_eq!((dry.code, repaired.code), (0, 0), "{name} for {file}: {dry:?} {repaired:?}");
            let expect = match file {
                ".ldb" => "b\t2\n",
                ".log" => "a\t1\n",
                _ => "a\t1\nb\t2\n",
            };
            let scanned = trial.run("scan db");
            assert_eq!((scanned.code, scanned.out.as_str()), (0, expect), "{name} for {file}: {repaired:?}");
            let base = &damaged["db/".len()..];
            assert!(repaired.out.contains(base), "{name} for {file}: {repaired:?}");
            if file != "CURRENT" {
                let lost = trial.list("db/lost");
                assert!(lost.iter().any(|lost| lost == base), "{name} for {file}: {lost:?}");
            }
            trial.run("verify db").assert_contains(0, &["no problem"]);
        }
    }
}

#[test]
fn destroy_reports_lost_files() {
    let trial = damaged_log();
    trial.run("repair db").assert_contains(0, &["moved "]);
    trial.file("db/lost/000002.log.1", "");
    let destroyed = trial.run("destroy db --yes");
    destroyed.assert_output(0, "");
    let message =
        "db/lost remains, with 3 files: files that a repair has replaced; --with-lost removes them\n";
    assert_eq!(portable(&destroyed.err), message);
    assert_eq!(trial.list("db"), ["lost"]);
    trial.file("db/lost/mine.txt", "");
    let message = "db/lost remains, with 1 file: names of no database file\n";
    assert_eq!(portable(&trial.run("destroy db --yes --with-lost").err), message);
    assert_eq!(trial.list("db/lost"), ["mine.txt"]);
    fs::remove_file(trial.path("db/lost/mine.txt")).unwrap();
    trial.run("destroy db --yes --with-lost").assert_output(0, "");
    assert!(!trial.path("db").exists());
}

#[test]
fn destroy_with_lost_at_once() {
    let trial = damaged_log();
    trial.run("repair db").assert_contains(0, &[]);
    let destroyed = trial.run("destroy db --yes --with-lost");
    assert_eq!((destroyed.code, destroyed.err.as_str()), (0, ""));
    assert!(!trial.path("db").exists());
}

/// The link may come from an archive. Its target is not part of the database.
#[cfg(unix)]
#[test]
fn destroy_follows_no_link() {
    let trial = CliTest::with_entries("a\t1\n");
    fs::create_dir(trial.path("other")).unwrap();
    trial.file("other/000001.log", "");
    symlink(trial.path("other"), trial.path("db/lost")).unwrap();
    trial.run("destroy db --yes --with-lost").assert_contains(3, &["a symbolic link"]);
    assert_eq!(trial.list("other"), ["000001.log"]);
}
