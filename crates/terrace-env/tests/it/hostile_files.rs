//! Links, FIFOs, devices and holes in the place of ordinary files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use terrace_env::posix::PosixFs;
use terrace_env::{FileError, FileSystem, LockMode, MappedLogs, UnexpectedFile};

/// Contents of the file outside of the directory.
const VICTIM: &[u8] = b"do not touch";

/// Directory `db` beside the file `victim`.
struct HostileDir {
    root: tempfile::TempDir,
    fs: PosixFs,
}

impl HostileDir {
    fn new() -> HostileDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("db")).unwrap();
        fs::write(root.path().join("victim"), VICTIM).unwrap();
        HostileDir { root, fs: PosixFs::new() }
    }

    /// Returns the path of the only entry of the directory, after its removal.
    fn entry(&self) -> PathBuf {
        let path = self.root.path().join("db/entry");
        let _ = fs::remove_file(&path);
        path
    }

    /// Replaces the entry by a link to `target`.
    fn link_to(&self, target: impl AsRef<Path>) -> PathBuf {
        let path = self.entry();
        symlink(target, &path).unwrap();
        path
    }

    fn hard_link(&self) -> PathBuf {
        let path = self.entry();
        fs::hard_link(self.root.path().join("victim"), &path).unwrap();
        path
    }

    /// Creates a special file with a program, because not every system has the call.
    fn make_node(&self, program: &str, kind: &[&str]) -> Option<PathBuf> {
        let path = self.entry();
        let made = Command::new(program).arg(&path).args(kind).output();
        made.is_ok_and(|made| made.status.success()).then_some(path)
    }

    #[track_caller]
    fn check_outside(&self) {
        assert_eq!(fs::read(self.root.path().join("victim")).unwrap(), VICTIM);
        let mut names: Vec<_> =
            fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["db", "victim"]);
    }
}

/// Reason of a refusal: operation, kind of error, found and expected kind of file.
type Refusal = (&'static str, ErrorKind, &'static str, &'static str);

#[track_caller]
fn refusal<T>(result: Result<T, FileError>) -> Refusal {
    let error = result.err().expect("a refusal");
    let UnexpectedFile { found, expected } = error.unexpected_file().unwrap_or_else(|| panic!("{error}"));
    assert!(error.to_string().ends_with(&format!("entry: found {found}, expected {expected}")), "{error}");
    (error.op, error.kind(), found, expected)
}

/// Every way of opening a file for writing, with the result for an existing link.
#[track_caller]
fn check_refused_for_writing(dir: &HostileDir, path: &Path, found: &'static str) {
    let fs = &dir.fs;
    let refused = |op, kind| (op, kind, found, "a regular file");
    assert_eq!(refusal(fs.create(path)), refused("open", ErrorKind::InvalidInput));
    assert_eq!(
        refusal(fs.create_log(path, 1 << 20, MappedLogs::Always)),
        refused("open", ErrorKind::InvalidInput)
    );
    assert_eq!(refusal(fs.open_append(path)), refused("open", ErrorKind::Unsupported));
    assert_eq!(
        refusal(fs.reopen_log(path, 1 << 20, MappedLogs::Always)),
        refused("open", ErrorKind::Unsupported)
    );
    assert_eq!(refusal(fs.lock(path, LockMode::Exclusive)), refused("open", ErrorKind::InvalidInput));
    dir.check_outside();
}

#[test]
fn symbolic_links_are_not_followed_for_writing() {
    let dir = HostileDir::new();
    let absolute = dir.root.path().join("victim");
    for target in [absolute.as_path(), "../victim".as_ref(), "../missing".as_ref(), "entry".as_ref()] {
        let path = dir.link_to(target);
        assert!(dir.fs.is_symlink(&path).unwrap());
        check_refused_for_writing(&dir, &path, "a symbolic link");
        assert_eq!(fs::read_link(&path).unwrap(), target, "the link stays");
    }
}

#[test]
fn symbolic_links_are_followed_for_reading() {
    let dir = HostileDir::new();
    let path = dir.link_to("../victim");
    let mut buf = [0; 99];
    assert_eq!(dir.fs.open_sequential(&path).unwrap().read(&mut buf).unwrap(), VICTIM.len());
    let access = terrace_env::AccessMode::Mmap;
    assert_eq!(dir.fs.open_random_access(&path, access).unwrap().len(), VICTIM.len() as u64);
    drop(dir.fs.lock(&path, LockMode::Shared).unwrap());
}

#[test]
fn hard_links_keep_their_contents() {
    let dir = HostileDir::new();
    for log in [false, true] {
        let path = dir.hard_link();
        if log {
            dir.fs
                .create_log(&path, 1 << 20, MappedLogs::Always)
                .unwrap()
                .write_at(0, b"head", b"body")
                .unwrap();
        } else {
            dir.fs.create(&path).unwrap().append(b"new").unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
        dir.check_outside();
    }
    let path = dir.hard_link();
    let refused = ("open", ErrorKind::Unsupported, "a file with several hard links", "one hard link");
    assert_eq!(refusal(dir.fs.open_append(&path)), refused);
    assert_eq!(refusal(dir.fs.reopen_log(&path, 1 << 20, MappedLogs::Always)), refused);
    drop(dir.fs.lock(&path, LockMode::Exclusive).unwrap());
    dir.check_outside();
}

/// Symptom: a FIFO in the place of a file blocked the process forever.
#[test]
fn other_kinds_of_files_are_refused() {
    let dir = HostileDir::new();
    let kinds: [(&str, &[&str], &str); 2] =
        [("mkfifo", &[], "a FIFO"), ("mknod", &["c", "1", "3"], "a special file")];
    for (program, kind, found) in kinds {
        let Some(path) = dir.make_node(program, kind) else {
            println!("NOT TESTED: {found}, for lack of permission to create one");
            continue;
        };
        check_refused_for_writing(&dir, &path, found);
        let refused = |op| (op, ErrorKind::InvalidInput, found, "a regular file");
        assert_eq!(refusal(dir.fs.open_sequential(&path)), refused("open"));
        assert_eq!(refusal(dir.fs.lock(&path, LockMode::Shared)), refused("open"));
    }
    let path = dir.entry();
    fs::create_dir(&path).unwrap();
    check_refused_for_writing(&dir, &path, "a directory");
}

/// Symptom: a log with a hole of terabytes filled the disk when its database was written.
#[test]
fn log_with_a_large_hole_is_not_continued() {
    let dir = HostileDir::new();
    let path = dir.entry();
    for (len, is_refused) in [(1 << 20, false), (1 << 40, true)] {
        fs::File::create(&path).unwrap().set_len(len).unwrap();
        let opened = dir.fs.reopen_log(&path, len + 1, MappedLogs::Always);
        assert_eq!(opened.is_err_and(|error| error.is_unsupported()), is_refused, "{len}");
    }
}

/// Symptom: reading a file with a hole of terabytes took hours.
#[test]
fn holes_are_skipped_in_whole_units() {
    const UNIT: u64 = 32 << 10;
    let dir = HostileDir::new();
    let path = dir.entry();
    let file = fs::File::create(&path).unwrap();
    let data_at = (1u64 << 40) + 5 * UNIT / 2; // Not at the start of a unit.
    std::os::unix::fs::FileExt::write_all_at(&file, b"data", data_at).unwrap();
    file.set_len(2 << 40).unwrap();
    let mut reader = dir.fs.open_sequential(&path).unwrap();
    let skipped = reader.skip_hole(UNIT).unwrap();
    if skipped == 0 {
        println!("NOT TESTED: holes, which this file system does not report");
        return;
    }
    assert!(skipped <= data_at && skipped.is_multiple_of(UNIT), "{skipped}");
    let mut position = skipped;
    let mut found = Vec::new();
    let mut buf = vec![0; UNIT as usize];
    loop {
        let n = reader.read(&mut buf).unwrap();
        found.extend(buf[..n].iter().filter(|byte| **byte != 0));
        position += n as u64;
        position += reader.skip_hole(UNIT).unwrap();
        if n == 0 {
            break;
        }
    }
    assert_eq!((found.as_slice(), position), (&b"data"[..], 2 << 40));
}
