//! Names, links and open files of Windows.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::windows::fs::OpenOptionsExt;
use std::path::PathBuf;

use terrace_env::windows::WindowsFs;
use terrace_env::{AccessMode, FileSystem, LockMode, MappedLogs};

use crate::{names, read, write};

/// Path above 260 characters, with names outside of ASCII and of the first 65,536 characters.
fn long_path(root: &tempfile::TempDir) -> PathBuf {
    let part = "Größe-プラットフォーム-🦀-".repeat(5);
    root.path().join(&part).join(&part).join(&part)
}

#[test]
fn long_names_and_every_character() {
    let root = tempfile::tempdir().unwrap();
    let dir = long_path(&root);
    assert!(dir.as_os_str().len() > 260);
    let fs = WindowsFs::new();
    fs::create_dir_all(&dir).unwrap();
    write(&fs, &dir.join("Ä"), b"a table");
    fs.rename(&dir.join("Ä"), &dir.join("000005.ldb")).unwrap();
    assert_eq!(
        (names(&fs, &dir), read(&fs, &dir.join("000005.ldb"))),
        ("000005.ldb".into(), b"a table".to_vec())
    );
    drop(fs.lock(&dir.join("LOCK"), LockMode::Exclusive).unwrap());
    fs.check_writable(&dir).unwrap();
    assert!(fs.free_space(&dir).unwrap() > 0);
    let log = fs.create_log(&dir.join("000006.log"), 1, MappedLogs::Auto).unwrap();
    log.write_at(0, b"head", b"body").unwrap();
    log.truncate_and_close(8).unwrap();
    assert_eq!(read(&fs, &dir.join("000006.log")), b"headbody");
}

/// A compaction removes tables that iterators read, and a new file may get the name at once.
#[test]
fn name_of_an_open_file_is_free_after_its_removal() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    let path = root.path().join("000005.ldb");
    write(&fs, &path, b"old");
    let table = fs.open_random_access(&path, AccessMode::Mmap).unwrap();
    fs.remove(&path).unwrap();
    assert!(!fs.exists(&path).unwrap());
    write(&fs, &path, b"new");
    let mut bytes = [0; 8];
    assert_eq!((table.read_at(0, &mut bytes).unwrap(), &bytes[..3]), (3, &b"old"[..]));
    assert_eq!(read(&fs, &path), b"new");
    drop(table);
    assert_eq!(names(&fs, root.path()), "000005.ldb", "the last handle ends the file");
}

#[test]
fn removed_directory_with_a_leftover_of_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    let dir = root.path().join("db");
    fs.create_dir(&dir).unwrap();
    write(&fs, &dir.join("00000000000000ff.removed"), b"old");
    write(&fs, &dir.join("photo"), b"of another program");
    assert_eq!(fs.remove_dir(&dir).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(names(&fs, &dir), "photo");
    fs.remove(&dir.join("photo")).unwrap();
    fs.remove_dir(&dir).unwrap();
    assert!(!fs.exists(&dir).unwrap());
}

/// Opens a file without sharing, and closes it after some milliseconds.
fn open_for_a_moment(path: PathBuf) -> std::thread::JoinHandle<()> {
    let file = OpenOptions::new().read(true).share_mode(0).open(path).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(file);
    })
}

/// A virus scanner opens a new file for a moment, and shares nothing.
#[test]
fn names_of_files_that_another_program_opens_for_a_moment() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    for name in ["CURRENT", "000001.dbtmp", "000005.ldb"] {
        write(&fs, &root.path().join(name), name.as_bytes());
    }
    let scanners = ["CURRENT", "000005.ldb"].map(|name| open_for_a_moment(root.path().join(name)));
    fs.remove(&root.path().join("000005.ldb")).unwrap();
    fs.rename(&root.path().join("000001.dbtmp"), &root.path().join("CURRENT")).unwrap();
    scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    assert_eq!(
        (names(&fs, root.path()), read(&fs, &root.path().join("CURRENT"))),
        ("CURRENT".into(), b"000001.dbtmp".to_vec())
    );
}

#[test]
fn other_kinds_of_files_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    let entry = root.path().join("entry");
    let check = |found: &str| {
        let text = format!("found {found}, expected a regular file");
        let refusals = [
            fs.create(&entry).err(),
            fs.create_log(&entry, 1, MappedLogs::Auto).err(),
            fs.open_append(&entry).err(),
            fs.reopen_log(&entry, 1, MappedLogs::Auto).err(),
            fs.lock(&entry, LockMode::Exclusive).err(),
        ];
        for refusal in refusals {
            let refusal = refusal.expect("a refusal");
            assert!(refusal.to_string().ends_with(&text), "{refusal}");
            assert_eq!(refusal.unexpected_file().map(|file| file.found), Some(found));
        }
        assert_eq!(fs.open_append(&entry).err().map(|e| e.kind()), Some(ErrorKind::Unsupported));
    };
    fs::create_dir(&entry).unwrap();
    check("a directory");
    assert!(fs.open_sequential(&entry).is_err());
    fs::remove_dir(&entry).unwrap();
    fs::write(root.path().join("victim"), b"do not touch").unwrap();
    match std::os::windows::fs::symlink_file(root.path().join("victim"), &entry) {
        Ok(()) if fs::symlink_metadata(&entry).is_ok_and(|metadata| metadata.is_symlink()) => {
            check("a symbolic link");
            assert_eq!(read(&fs, &entry), b"do not touch");
        }
        _ => println!("NOT TESTED: symbolic links, which this system or this user cannot create"),
    }
    assert_eq!(fs::read(root.path().join("victim")).unwrap(), b"do not touch");
    assert!(fs.open_sequential(&root.path().join("NUL")).is_err(), "a reserved name");
}

#[test]
fn identities_of_files() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    let path = root.path().join("log");
    write(&fs, &path, b"one");
    let live = fs.open_live(&path).unwrap();
    assert_eq!(live.identity(), fs.identity(&path).unwrap());
    fs::write(&path, b"one two").unwrap();
    let mut bytes = [0; 8];
    assert_eq!((live.read_at(4, &mut bytes).unwrap(), &bytes[..3], live.len().unwrap()), (3, &b"two"[..], 7));
    fs.remove(&path).unwrap();
    write(&fs, &path, b"another file");
    assert_ne!(live.identity(), fs.identity(&path).unwrap());
    let before = fs.directory_stamp(root.path()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    write(&fs, &root.path().join("new"), b"");
    let after = fs.directory_stamp(root.path()).unwrap();
    assert!(after.identity == before.identity && after.changed_at > before.changed_at);
}

#[test]
fn limits_of_the_machine() {
    let fs = WindowsFs::new();
    assert!(fs.memory_limit().is_some_and(|bytes| bytes >= 16 << 20));
    assert!(fs.free_space(&std::env::temp_dir()).unwrap() > 0);
    assert!(fs.free_space(&std::env::temp_dir().join("missing")).unwrap_err().is_not_found());
    assert!(fs.check_writable(&std::env::temp_dir()).is_ok());
}

/// Regression: `terrace get` with such a path reported an error of the system.
#[test]
fn refused_name_is_no_file() {
    let root = tempfile::tempdir().unwrap();
    let fs = WindowsFs::new();
    for name in ["a\u{1b}b", "a?b", "a|b"] {
        let path = root.path().join(name);
        assert_eq!((fs.exists(&path).unwrap(), fs.is_dir(&path).unwrap()), (false, false), "{name:?}");
        fs.create_dir(&path).unwrap_err();
    }
}
