//! File locks of Windows against other programs.
//!
//! A second process of this test opens the lock file with the access rights, the sharing mode and
//! the lock of each program.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use terrace_env::windows::WindowsFs;
use terrace_env::{FileSystem, LockMode};

const PATH_ENV_VAR: &str = "TERRACE_TEST_LOCK_FILE";
const PROGRAM_ENV_VAR: &str = "TERRACE_TEST_LOCK_PROGRAM";

const SHARE_READ: u32 = 1;
const SHARE_ALL: u32 = 7;

/// Programs that lock a database: name, sharing mode, and whether they open for writing.
static PROGRAMS: &[(&str, u32, bool)] = &[
    ("LevelDB", SHARE_READ, true),
    ("Chromium", SHARE_ALL, true),
    ("Go LevelDB", 0, true),
    ("Go LevelDB, read-only", SHARE_READ, false),
];

fn open_as(program: &str, path: &Path) -> std::io::Result<File> {
    let (_, share, writes) = PROGRAMS.iter().find(|(name, ..)| *name == program).unwrap();
    OpenOptions::new().read(true).write(*writes).create(*writes).share_mode(*share).open(path)
}

/// Another process that tried to take the lock. If it succeeded, it holds the lock until it ends.
struct OtherProcess {
    child: Child,
    /// Open until the process ends, which prints more.
    _output: BufReader<ChildStdout>,
    answer: String,
}

impl OtherProcess {
    fn try_lock(path: &Path, program: &str) -> OtherProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "windows_locks::second_process", "--nocapture"]);
        command.env(PATH_ENV_VAR, path).env(PROGRAM_ENV_VAR, program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let answer = output.by_ref().lines().map_while(Result::ok).find_map(|line| {
            let (_, answer) = line.rsplit_once("answer: ")?;
            Some(answer.to_owned())
        });
        OtherProcess { child, _output: output, answer: answer.unwrap_or_default() }
    }

    fn end(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap_or_default();
        self.child.wait().unwrap();
    }
}

fn lock_in_other_process(path: &Path, program: &str) -> String {
    let other = OtherProcess::try_lock(path, program);
    let answer = other.answer.clone();
    other.end();
    answer
}

/// Body of the second process. Without its environment, it is no test.
#[test]
fn second_process() {
    let (Some(path), Ok(program)) = (std::env::var_os(PATH_ENV_VAR), std::env::var(PROGRAM_ENV_VAR)) else {
        return;
    };
    let path = Path::new(&path);
    let held: Option<Box<dyn std::any::Any>> = if program == "Terrace" {
        WindowsFs::new().lock(path, LockMode::Exclusive).ok().map(|lock| Box::new(lock) as _)
    } else {
        open_as(&program, path).ok().map(|file| Box::new(file) as _)
    };
    println!("answer: {}", if held.is_some() { "held" } else { "refused" });
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn our_lock_excludes_every_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = WindowsFs::new().lock(&path, LockMode::Exclusive).unwrap();
    let programs = || PROGRAMS.iter().map(|(name, ..)| *name).chain(["Terrace"]);
    for program in programs() {
        assert_eq!((program, lock_in_other_process(&path, program).as_str()), (program, "refused"));
    }
    drop(lock);
    for program in programs() {
        assert_eq!((program, lock_in_other_process(&path, program).as_str()), (program, "held"));
    }
}

#[test]
fn shared_lock_excludes_writers_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "").unwrap();
    let _lock = WindowsFs::new().lock(&path, LockMode::Shared).unwrap();
    for (program, _, writes) in PROGRAMS {
        let expected = if *writes { "refused" } else { "held" };
        assert_eq!((*program, lock_in_other_process(&path, program).as_str()), (*program, expected));
    }
}

#[test]
fn locks_of_every_program_exclude_us() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    for program in ["LevelDB", "Chromium", "Go LevelDB", "Terrace"] {
        let other = OtherProcess::try_lock(&path, program);
        assert_eq!((program, other.answer.as_str()), (program, "held"));
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let refused = WindowsFs::new().lock(&path, mode).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WouldBlock);
            let expected = format!("lock {}: the database is open in another process", path.display());
            assert_eq!(refused.to_string(), expected);
        }
        other.end();
        drop(WindowsFs::new().lock(&path, LockMode::Exclusive).unwrap());
    }
}

#[test]
fn lock_file_stays_as_it_is_and_is_removable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "a note").unwrap();
    let fs = WindowsFs::new();
    let lock = fs.lock(&path, LockMode::Exclusive).unwrap();
    let refused = fs.lock(&path, LockMode::Exclusive).unwrap_err().to_string();
    assert!(refused.ends_with("the database is already open in this process"), "{refused}");
    drop(lock);
    assert_eq!(std::fs::read(&path).unwrap(), b"a note");
    let lock = fs.lock(&path, LockMode::Exclusive).unwrap();
    fs.remove(&path).unwrap();
    assert!(!fs.exists(&path).unwrap());
    drop(lock);
    drop(fs.lock(&path, LockMode::Exclusive).unwrap());
}
