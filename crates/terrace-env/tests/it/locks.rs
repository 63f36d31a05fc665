//! File locks against other programs.
//!
//! Python replaces them: `fcntl.lockf` takes the record lock of C++ LevelDB, and `fcntl.flock`
//! takes the lock of Go LevelDB.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace_env::posix::PosixFs;
use terrace_env::{FileSystem, LockMode};

const LOCK_HOLDER_SCRIPT: &str = r#"
import fcntl, sys
f = open(sys.argv[1], sys.argv[3])
try:
    getattr(fcntl, sys.argv[2])(f, (fcntl.LOCK_EX if '+' in sys.argv[3] else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    print('held', flush=True)
    sys.stdin.readline()
except OSError:
    print('refused', flush=True)
"#;

/// Another process that tried to take the lock. If it succeeded, it holds the lock until it ends.
struct OtherProcess {
    child: Child,
    answer: String,
}

impl OtherProcess {
    /// Starts a process that tries to take the lock. `call` is lockf or flock. `mode` is a+ for an
    /// exclusive lock, r for a shared one.
    fn try_lock(path: &Path, call: &str, mode: &str) -> OtherProcess {
        let mut python = Command::new("python3");
        python.args(["-c", LOCK_HOLDER_SCRIPT]).arg(path).args([call, mode]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        OtherProcess { child, answer: answer.trim().to_owned() }
    }

    fn end(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap_or_default();
        self.child.wait().unwrap();
    }
}

/// Returns the result of an attempt by another process: held or refused.
fn lock_in_other_process(path: &Path, call: &str, mode: &str) -> String {
    let other = OtherProcess::try_lock(path, call, mode);
    let answer = other.answer.clone();
    other.end();
    answer
}

#[test]
fn our_lock_excludes_leveldb_and_goleveldb() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = PosixFs::new().lock(&path, LockMode::Exclusive).unwrap();
    for call in ["lockf", "flock"] {
        assert_eq!((call, lock_in_other_process(&path, call, "a+").as_str()), (call, "refused"));
        assert_eq!((call, lock_in_other_process(&path, call, "r").as_str()), (call, "refused"));
    }
    drop(lock);
    for call in ["lockf", "flock"] {
        assert_eq!((call, lock_in_other_process(&path, call, "a+").as_str()), (call, "held"));
    }
}

#[test]
fn shared_lock_excludes_writers_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "").unwrap();
    let _lock = PosixFs::new().lock(&path, LockMode::Shared).unwrap();
    for call in ["lockf", "flock"] {
        assert_eq!((call, lock_in_other_process(&path, call, "a+").as_str()), (call, "refused"));
        assert_eq!((call, lock_in_other_process(&path, call, "r").as_str()), (call, "held"));
    }
}

#[test]
fn leveldb_and_goleveldb_locks_exclude_us() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    for call in ["lockf", "flock"] {
        let other = OtherProcess::try_lock(&path, call, "a+");
        assert_eq!(other.answer, "held");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let refused = PosixFs::new().lock(&path, mode).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WouldBlock);
            let expect = format!("lock {}: the database is open in another process", path.display());
            assert_eq!(refused.to_string(), expect);
        }
        other.end();
        drop(PosixFs::new().lock(&path, LockMode::Exclusive).unwrap());
    }
}

/// Regression test: a second open in one process closed the lock file, which silently released the
/// lock of the first one. Another process could then open the database too.
#[test]
fn refused_second_open_leaves_the_lock_held() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let _lock = PosixFs::new().lock(&path, LockMode::Exclusive).unwrap();
    assert!(PosixFs::new().lock(&path, LockMode::Exclusive).is_err());
    drop(std::fs::File::open(&path).unwrap());
    assert_eq!(lock_in_other_process(&path, "lockf", "a+"), "refused");
    assert_eq!(lock_in_other_process(&path, "flock", "a+"), "refused");
}

#[test]
fn same_directory_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    let link = dir.path().join("link");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let fs = PosixFs::new();
    let _lock = fs.lock(&real.join("LOCK"), LockMode::Exclusive).unwrap();
    let refused = fs.lock(&link.join("LOCK"), LockMode::Exclusive).unwrap_err();
    let expect = format!("lock {}/LOCK: the database is already open in this process", link.display());
    assert_eq!((refused.kind(), refused.to_string()), (ErrorKind::WouldBlock, expect));
}

#[test]
fn lock_file_contents_are_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "a note").unwrap();
    drop(PosixFs::new().lock(&path, LockMode::Exclusive).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"a note");
}
