//! The lock of the machine's files, against other programs.
//!
//! Python stands for them: `fcntl.lockf` is the record lock that C++ LevelDB takes, `fcntl.flock` is Go LevelDB's.

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

/// Another process that tried to take the lock, and holds it while it lives if it got it.
struct Other {
    child: Child,
    answer: String,
}

impl Other {
    /// `call` is lockf or flock; `mode` is a+ for an exclusive lock, r for a shared one.
    fn tries(path: &Path, call: &str, mode: &str) -> Other {
        let mut python = Command::new("python3");
        python.args(["-c", LOCK_HOLDER_SCRIPT]).arg(path).args([call, mode]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        Other { child, answer: answer.trim().to_owned() }
    }

    fn ends(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap_or_default();
        self.child.wait().unwrap();
    }
}

/// What another process's attempt gives: held or refused.
fn other(path: &Path, call: &str, mode: &str) -> String {
    let other = Other::tries(path, call, mode);
    let answer = other.answer.clone();
    other.ends();
    answer
}

#[test]
fn our_lock_excludes_leveldb_and_goleveldb() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = PosixFs::new().lock(&path, LockMode::Exclusive).unwrap();
    for call in ["lockf", "flock"] {
        assert_eq!((call, other(&path, call, "a+").as_str()), (call, "refused"));
        assert_eq!((call, other(&path, call, "r").as_str()), (call, "refused"));
    }
    drop(lock);
    for call in ["lockf", "flock"] {
        assert_eq!((call, other(&path, call, "a+").as_str()), (call, "held"));
    }
}

#[test]
fn shared_lock_excludes_writers_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "").unwrap();
    let _lock = PosixFs::new().lock(&path, LockMode::Shared).unwrap();
    for call in ["lockf", "flock"] {
        assert_eq!((call, other(&path, call, "a+").as_str()), (call, "refused"));
        assert_eq!((call, other(&path, call, "r").as_str()), (call, "held"));
    }
}

#[test]
fn leveldb_and_goleveldb_locks_exclude_us() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    for call in ["lockf", "flock"] {
        let other = Other::tries(&path, call, "a+");
        assert_eq!(other.answer, "held");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let refused = PosixFs::new().lock(&path, mode).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WouldBlock);
            let expect = format!("lock {}: the database is open in another process", path.display());
            assert_eq!(refused.to_string(), expect);
        }
        other.ends();
        drop(PosixFs::new().lock(&path, LockMode::Exclusive).unwrap());
    }
}

/// A second open in one process used to end with a close of the lock file, and the close dropped the first one's
/// lock without a word: another process could then open the database too. The lock now survives both.
#[test]
fn refused_second_open_leaves_the_lock_held() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let _lock = PosixFs::new().lock(&path, LockMode::Exclusive).unwrap();
    assert!(PosixFs::new().lock(&path, LockMode::Exclusive).is_err());
    drop(std::fs::File::open(&path).unwrap());
    assert_eq!(other(&path, "lockf", "a+"), "refused");
    assert_eq!(other(&path, "flock", "a+"), "refused");
}

#[test]
fn same_directory_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
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
    std::fs::write(&path, "somebody's note").unwrap();
    drop(PosixFs::new().lock(&path, LockMode::Exclusive).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's note");
}
