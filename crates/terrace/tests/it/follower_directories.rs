//! Followers of directories that they cannot follow, or cannot write to.

#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::process::Command;

use terrace::{Db, ErrorKind, FollowOptions, Options};
use terrace_format::log::RecordWriter;
#[cfg(unix)]
use terrace_testkit::emulator;

use crate::followers::{busy, write_history};
use crate::{files, process};

/// A user other than root. Root reads files without a permission.
#[cfg(unix)]
const USER: &str = "54321";

#[cfg(unix)]
fn not_tested(reason: &str) {
    // Not captured by the test harness.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {reason}");
}

/// MANIFEST as RocksDB begins one: its tags for the identity of the database, for the comparator
/// and for a new table, each in one record.
fn rocksdb_manifest() -> Vec<u8> {
    let identity = b"\x81\x40\x24e7bb0d9d-6b0e-4b4e-9d3e-0a1f2b3c4d5e";
    let comparator = b"\x01\x1aleveldb.BytewiseComparator";
    let numbers = b"\x02\x04\x09\x00\x03\x06\x04\x00";
    let new_table = b"\x67\x00\x09\xe8\x07\x09aaaaaaaa\x00\x09bbbbbbbb\x00\x01\x01\x01";
    let records: [&[u8]; 4] = [identity, comparator, numbers, new_table];
    let mut writer = RecordWriter::resume_at(0);
    let mut bytes = Vec::new();
    for record in records {
        for fragment in writer.add_record(record) {
            fragment.append_to(&mut bytes, 0);
        }
    }
    bytes
}

/// Symptom: "corruption: MANIFEST-000005 at 7: tag 8193", after which a program may call repair.
/// Cause: the directory holds a database of RocksDB. Guarantee: the error says so, and is no
/// corruption.
#[test]
fn rocksdb_directory() {
    for mark in ["IDENTITY", "OPTIONS-000005"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        files::write(&path.join("CURRENT"), b"MANIFEST-000005\n");
        files::write(&path.join("MANIFEST-000005"), &rocksdb_manifest());
        let open_all = || {
            let options = Options::default();
            [
                Db::follow(path, &options, &FollowOptions::default()).unwrap_err(),
                Db::open_read_only(path, &options).unwrap_err(),
                Db::open(path, &options).unwrap_err(),
            ]
        };
        for error in open_all() {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
        files::write(&path.join(mark), b"");
        for error in open_all() {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("a database of RocksDB (it has a file {mark})")), "{text}");
            assert!(text.contains("MANIFEST-000005") && text.contains("tag 8193"), "{text}");
        }
        // Such a file in a database of LevelDB does no harm.
        files::remove(&path.join("MANIFEST-000005"));
        files::remove(&path.join("CURRENT"));
        let db = Db::open(path, &busy()).unwrap();
        write_history(&db, 1..=10);
        assert_eq!(process::run_in_other_process("follow", path), "ok");
    }
}

/// Command that executes its last arguments as a user without special rights.
#[cfg(unix)]
fn unprivileged(is_root: bool) -> Command {
    let mut shell = Command::new("sh");
    let user = match is_root {
        true => format!("setpriv --reuid {USER} --regid {USER} --clear-groups"),
        false => "env".to_owned(),
    };
    shell.arg("-c").arg(format!("exec {user} \"$0\" \"$@\""));
    shell
}

/// Each file without permission gives an error that names it, and the follower works again after
/// the permission is back.
#[cfg(unix)]
#[test]
fn directory_without_permission() {
    let directory = tempfile::tempdir().unwrap();
    files::set_mode(directory.path(), 0o755);
    let path = directory.path().join("db");
    let program = directory.path().join("program");
    files::copy(&std::env::current_exe().unwrap(), &program);
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=2000);
    db.flush().unwrap();
    write_history(&db, 2001..=2100);
    // A compaction would remove the table whose permission changes.
    db.suspend_compactions().unwrap();
    let manifest = files::only(&path, "MANIFEST-");
    files::set_mode(&manifest, 0o000);
    let is_root = process::run_copy_by(unprivileged(false), &program, "follow", &path) == "ok";
    files::set_mode(&manifest, 0o644);
    let probe = unprivileged(is_root).args(emulator::words()).arg(&program).arg("--list").output().unwrap();
    if !probe.status.success() {
        return not_tested(&format!("files without permission: {}", String::from_utf8_lossy(&probe.stderr)));
    }
    let follow = || process::run_copy_by(unprivileged(is_root), &program, "follow", &path);
    for file in [
        path.clone(),
        path.join("CURRENT"),
        manifest,
        files::files(&path, ".log").pop().unwrap(),
        files::tables(&path).pop().unwrap(),
    ] {
        let mode = if file == path { 0o755 } else { 0o644 };
        files::set_mode(&file, mode);
        assert_eq!(follow(), "ok", "{file:?}");
        files::set_mode(&file, 0o000);
        let error = follow();
        files::set_mode(&file, mode);
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(error.starts_with("io: ") && error.contains("Permission denied"), "{file:?}: {error}");
        assert!(error.contains(name), "{file:?}: {error}");
        assert_eq!(follow(), "ok", "{file:?}");
    }
}

/// A follower on a read-only mount of the directory, whose writer has it mounted for writing.
#[cfg(unix)]
#[test]
fn read_only_mount() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &busy()).unwrap();
    write_history(&db, 1..=3000);
    let point = path.display();
    let mount = format!("mount --bind {point} {point} && mount -o remount,bind,ro {point}");
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &format!("{mount} && {script}")]);
        command
    };
    // A write in the mount must fail.
    let probe = in_namespace(&format!("! touch {point}/new")).output().unwrap();
    if !probe.status.success() {
        return not_tested(&format!("a read-only mount: {}", String::from_utf8_lossy(&probe.stderr)));
    }
    for last in [3000, 6000] {
        write_history(&db, last + 1..=last + 50);
        assert_eq!(process::run_by(in_namespace("exec \"$0\" \"$@\""), "follow", &path), "ok");
        let opened = process::run_by(in_namespace("exec \"$0\" \"$@\""), "open", &path);
        assert!(opened.contains("Read-only file system"), "{opened}");
        write_history(&db, last + 51..=last + 3000);
        db.compact_range(None, None).unwrap();
    }
}
