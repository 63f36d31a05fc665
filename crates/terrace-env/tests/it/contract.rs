//! Contract of [`FileSystem`]: a table of cases that every implementation runs.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_env::mem::MemFs;
use terrace_env::{AccessMode, FileError, FileSystem, LockMode, MappedLogs};

use crate::{names, read, write};

type ContractCase = fn(&dyn FileSystem, &Path);

static CONTRACT_CASES: &[(&str, ContractCase)] = &[
    ("written bytes are read back", written_bytes),
    ("appends of every size around the buffer", appends_around_the_buffer),
    ("append continues at the end of the file", append_continues),
    ("create replaces an existing file", create_replaces),
    ("no call may follow a close", no_call_after_close),
    ("dropped without close", dropped_without_close),
    ("skip within the file and past its end", skip),
    ("random reads within the file and past its end", random_reads),
    ("removed while open", removed_while_open),
    ("rename replaces the target", rename_replaces),
    ("link: a second name of a file", links),
    ("names of a directory", directory_names),
    ("created and removed directories", directories),
    ("missing files", missing_files),
    ("locks within the process", locks),
    ("log: preallocated space reads as zeros until it is truncated", appended_log_writes),
    ("log: an appended log is reopened", appended_log_reopened),
];

/// Cases for systems that can map logs.
static MAPPED_LOG_CASES: &[(&str, ContractCase)] = &[
    ("log: writes in any order", log_writes),
    ("log: a mapped log ends with zeros", mapped_log_ends_with_zeros),
    ("log: writes past the capacity", log_past_the_capacity),
    ("log: reopened for appending", log_reopened),
    ("log: large records between small ones", large_log_records),
];

fn run(kind: &str, fs: &dyn FileSystem, root: &Path) {
    run_cases(kind, fs, root, CONTRACT_CASES);
    run_cases(kind, fs, root, MAPPED_LOG_CASES);
}

fn run_cases(kind: &str, fs: &dyn FileSystem, root: &Path, cases: &[(&str, ContractCase)]) {
    for (name, case) in cases {
        println!("{kind}: {name}");
        let dir = root.join(name.replace(": ", " "));
        fs.create_dir(&dir).unwrap();
        case(fs, &dir);
    }
}

#[cfg(unix)]
#[test]
fn posix() {
    let dir = tempfile::tempdir().unwrap();
    run("posix", &terrace_env::posix::PosixFs::new(), dir.path());
}

#[cfg(windows)]
#[test]
fn windows() {
    let dir = tempfile::tempdir().unwrap();
    let fs = terrace_env::windows::WindowsFs::new();
    run_cases("windows", &fs, dir.path(), CONTRACT_CASES);
    let log = fs.create_log(&dir.path().join("log"), 1 << 20, MappedLogs::Always).unwrap();
    assert_eq!((log.capacity(), log.write_method().starts_with("appended: ")), (0, true));
    assert!(!log.may_lose_pages(), "a replay would drop records of LevelDB after a gap");
    println!("NOT TESTED: mapped logs, which Windows does not have");
}

#[test]
fn memory() {
    run("memory", &MemFs::new(), Path::new("/"));
}

#[test]
fn faults_without_a_plan() {
    run("fault", &FaultFs::new(Arc::new(MemFs::new()), FaultPlan::default()), Path::new("/"));
}

#[track_caller]
fn kind<T>(result: Result<T, FileError>) -> ErrorKind {
    match result {
        Ok(_) => panic!("an error is expected"),
        Err(e) => e.kind(),
    }
}

/// Bytes of a record of `len` bytes at `offset` of a log, in parts that end with its blocks.
fn large_record(offset: usize, len: usize, byte: u8) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut at = offset;
    while at < offset + len {
        let end = ((at / LOG_BLOCK + 1) * LOG_BLOCK).min(offset + len);
        let head_end = (at + 7).min(end);
        let middle = head_end + (end - head_end) / 3;
        for part in [at..head_end, head_end..middle, middle..end] {
            parts.push(part.map(|n| byte ^ n as u8 | 1).collect());
        }
        at = end;
    }
    parts
}

const LOG_BLOCK: usize = 32 << 10;

/// Large records between small ones, at the start, within and at the end of a block, and beyond the
/// mapping.
fn large_log_records(fs: &dyn FileSystem, dir: &Path) {
    for fills_fast in [false, true] {
        let path = dir.join(format!("log {fills_fast}"));
        let log = fs.create_log(&path, 600 << 10, MappedLogs::Auto).unwrap();
        if !log.takes_large_records() {
            println!("NOT TESTED: large records: {}", log.write_method());
            return;
        }
        if fills_fast {
            log.expect_fast_fill();
        }
        let mut expected = Vec::new();
        let lens = [100_000, 65_536, 7, 300_000, 2 * LOG_BLOCK - 7, 40, LOG_BLOCK, 70_000, 500_000, 65_529];
        for (n, len) in lens.into_iter().enumerate() {
            if LOG_BLOCK - expected.len() % LOG_BLOCK < 7 {
                expected.resize(expected.len().next_multiple_of(LOG_BLOCK), 0);
            }
            let parts = large_record(expected.len(), len, n as u8);
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            log.write_large_record(expected.len() as u64, &slices).unwrap();
            expected.extend(parts.concat());
            if expected.len() % LOG_BLOCK < LOG_BLOCK - 100 {
                log.write_at(expected.len() as u64, b"small head", b"and body").unwrap();
                expected.extend(b"small headand body");
            }
            let found = read(fs, &path);
            assert!(found.starts_with(&expected), "record {n}");
            let zeros = &found[expected.len()..];
            assert!(zeros.len() >= 7 && zeros.iter().all(|&byte| byte == 0), "record {n}");
            assert_eq!(found.len() % LOG_BLOCK, 0, "record {n}");
        }
        log.sync().unwrap();
        log.truncate_and_close(expected.len() as u64).unwrap();
        assert!(read(fs, &path) == expected);
        assert!(log.write_large_record(0, &[b"too late"]).is_err());
    }
}

fn written_bytes(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("file");
    let mut file = fs.create(&path).unwrap();
    file.append(b"one ").unwrap();
    file.append(b"").unwrap();
    file.append(b"two").unwrap();
    file.flush().unwrap();
    assert_eq!(read(fs, &path), b"one two");
    file.append(b" three").unwrap();
    file.sync().unwrap();
    assert_eq!((read(fs, &path), fs.file_size(&path).unwrap()), (b"one two three".to_vec(), 13));
    file.close().unwrap();
}

fn appends_around_the_buffer(fs: &dyn FileSystem, dir: &Path) {
    let mut expected = Vec::new();
    let mut file = fs.create(&dir.join("file")).unwrap();
    for (i, len) in [1, 65_535, 1, 65_536, 65_537, 0, 200_000, 3, 40_000, 40_000].into_iter().enumerate() {
        let piece = vec![i as u8; len];
        file.append(&piece).unwrap();
        expected.extend(piece);
    }
    file.close().unwrap();
    assert!(read(fs, &dir.join("file")) == expected);
}

fn append_continues(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("file");
    for piece in ["a", "bc", "d"] {
        let mut file = fs.open_append(&path).unwrap();
        file.append(piece.as_bytes()).unwrap();
        file.close().unwrap();
    }
    assert_eq!(read(fs, &path), b"abcd");
}

fn create_replaces(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("file");
    write(fs, &path, b"old and long");
    let mut old = fs.open_sequential(&path).unwrap();
    write(fs, &path, b"new");
    assert_eq!(read(fs, &path), b"new");
    let mut buf = [0; 20];
    let n = old.read(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"old and long", "an open file keeps its contents");
    assert!(!fs.is_symlink(&path).unwrap());
    fs.create_dir(&dir.join("folder")).unwrap();
    assert!(fs.create(&dir.join("folder")).is_err());
}

fn no_call_after_close(fs: &dyn FileSystem, dir: &Path) {
    let mut file = fs.create(&dir.join("file")).unwrap();
    file.append(b"kept").unwrap();
    file.close().unwrap();
    assert!(file.append(b"lost").is_err());
    assert!(file.sync().is_err());
    drop(file);
    assert_eq!(read(fs, &dir.join("file")), b"kept");
}

fn dropped_without_close(fs: &dyn FileSystem, dir: &Path) {
    fs.create(&dir.join("file")).unwrap().append(b"kept").unwrap();
    assert_eq!(read(fs, &dir.join("file")), b"kept");
}

fn skip(fs: &dyn FileSystem, dir: &Path) {
    write(fs, &dir.join("file"), b"0123456789");
    let mut file = fs.open_sequential(&dir.join("file")).unwrap();
    let mut buf = [0; 2];
    file.skip(3).unwrap();
    assert_eq!((file.read(&mut buf).unwrap(), &buf), (2, b"34"));
    file.skip(4).unwrap();
    assert_eq!((file.read(&mut buf).unwrap(), buf[0]), (1, b'9'));
    file.skip(u64::MAX).unwrap();
    assert_eq!(file.read(&mut buf).unwrap(), 0);
    file.skip(0).unwrap();
    assert_eq!(file.read(&mut buf).unwrap(), 0);
}

fn random_reads(fs: &dyn FileSystem, dir: &Path) {
    write(fs, &dir.join("file"), b"0123456789");
    write(fs, &dir.join("none"), b"");
    for access in [AccessMode::Pread, AccessMode::Mmap] {
        let file = fs.open_random_access(&dir.join("file"), access).unwrap();
        let read = |offset: u64, n: usize| {
            let mut buf = vec![0; n];
            let n = file.read_at(offset, &mut buf).unwrap();
            String::from_utf8(buf[..n].to_vec()).unwrap()
        };
        assert_eq!([read(0, 10), read(3, 4), read(7, 9), read(2, 0)], ["0123456789", "3456", "789", ""]);
        assert_eq!([read(10, 1), read(11, 1), read(1 << 40, 1)], ["", "", ""]);
        assert_eq!((file.len(), file.is_empty()), (10, false));
        assert!(file.mapped_slice().is_none_or(|bytes| bytes == b"0123456789"));
        let none = fs.open_random_access(&dir.join("none"), access).unwrap();
        assert_eq!((none.len(), none.is_empty(), none.read_at(0, &mut [0; 4]).unwrap()), (0, true, 0));
    }
}

fn removed_while_open(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("file");
    write(fs, &path, b"still here");
    let random = fs.open_random_access(&path, AccessMode::Pread).unwrap();
    let mapped = fs.open_random_access(&path, AccessMode::Mmap).unwrap();
    let mut sequential = fs.open_sequential(&path).unwrap();
    fs.remove(&path).unwrap();
    fs.sync_dir(dir).unwrap();
    assert!(!fs.exists(&path).unwrap());
    let mut buf = [0; 10];
    assert_eq!((random.read_at(0, &mut buf).unwrap(), &buf), (10, b"still here"));
    assert_eq!((mapped.read_at(6, &mut buf).unwrap(), &buf[..4]), (4, &b"here"[..]));
    assert_eq!(sequential.read(&mut buf[..5]).unwrap(), 5);
    assert_eq!(&buf[..5], b"still");
}

fn rename_replaces(fs: &dyn FileSystem, dir: &Path) {
    write(fs, &dir.join("CURRENT"), b"old");
    write(fs, &dir.join("1.dbtmp"), b"new");
    fs.rename(&dir.join("1.dbtmp"), &dir.join("CURRENT")).unwrap();
    assert_eq!((names(fs, dir), read(fs, &dir.join("CURRENT"))), ("CURRENT".into(), b"new".to_vec()));
    fs.rename(&dir.join("CURRENT"), &dir.join("CURRENT")).unwrap();
    assert_eq!(names(fs, dir), "CURRENT");
    fs.create_dir(&dir.join("lost")).unwrap();
    fs.rename(&dir.join("CURRENT"), &dir.join("lost/CURRENT")).unwrap();
    assert_eq!((names(fs, dir), names(fs, &dir.join("lost"))), ("lost".into(), "CURRENT".into()));
}

fn links(fs: &dyn FileSystem, dir: &Path) {
    let first = dir.join("first");
    let second = dir.join("second");
    write(fs, &first, b"shared");
    fs.link(&first, &second).unwrap();
    assert_eq!((names(fs, dir), read(fs, &second)), ("first second".into(), b"shared".to_vec()));
    assert_eq!(kind(fs.link(&first, &second)), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.link(&dir.join("missing"), &dir.join("third"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.open_append(&second).map(drop)), ErrorKind::Unsupported, "two names");
    write(fs, &first, b"replaced");
    assert_eq!(read(fs, &second), b"shared", "a new file has the first name");
    fs.open_append(&second).unwrap().close().unwrap();
    fs.remove(&first).unwrap();
    assert_eq!(read(fs, &second), b"shared");
}

fn directory_names(fs: &dyn FileSystem, dir: &Path) {
    assert_eq!(names(fs, dir), "");
    for name in ["b", "a", "LOCK"] {
        write(fs, &dir.join(name), b"");
    }
    fs.create_dir(&dir.join("sub")).unwrap();
    write(fs, &dir.join("sub/inside"), b"");
    fs.remove(&dir.join("a")).unwrap();
    assert_eq!((names(fs, dir), names(fs, &dir.join("sub"))), ("LOCK b sub".into(), "inside".into()));
}

fn directories(fs: &dyn FileSystem, dir: &Path) {
    let sub = dir.join("sub");
    assert_eq!((fs.exists(&sub).unwrap(), fs.is_dir(&sub).unwrap()), (false, false));
    fs.create_dir(&sub).unwrap();
    assert_eq!((fs.exists(&sub).unwrap(), fs.is_dir(&sub).unwrap()), (true, true));
    assert_eq!(kind(fs.create_dir(&sub)), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.create_dir(&dir.join("no/sub"))), ErrorKind::NotFound);
    write(fs, &sub.join("file"), b"");
    assert!(!fs.is_dir(&sub.join("file")).unwrap());
    assert_eq!(kind(fs.remove_dir(&sub)), ErrorKind::DirectoryNotEmpty);
    fs.remove(&sub.join("file")).unwrap();
    fs.sync_dir(&sub).unwrap();
    fs.remove_dir(&sub).unwrap();
    assert!(!fs.exists(&sub).unwrap());
}

fn missing_files(fs: &dyn FileSystem, dir: &Path) {
    let none = dir.join("none");
    for error in [
        kind(fs.open_sequential(&none)),
        kind(fs.open_random_access(&none, AccessMode::Mmap)),
        kind(fs.file_size(&none)),
        kind(fs.list(&none)),
        kind(fs.remove(&none)),
        kind(fs.remove_dir(&none)),
        kind(fs.rename(&none, &dir.join("other"))),
        kind(fs.sync_dir(&none)),
        kind(fs.create(&none.join("file"))),
        kind(fs.open_append(&none.join("file"))),
        kind(fs.create_log(&none.join("file"), 1, MappedLogs::Always)),
        kind(fs.lock(&none, LockMode::Shared)),
    ] {
        assert_eq!(error, ErrorKind::NotFound);
    }
    let message = fs.remove(&none).unwrap_err().to_string();
    assert!(message.starts_with(&format!("remove {}: ", none.display())), "{message}");
}

fn locks(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("LOCK");
    let exclusive = fs.lock(&path, LockMode::Exclusive).unwrap();
    let detour = dir.join("..").join(dir.file_name().unwrap()).join("LOCK");
    for other in [&path, &detour] {
        assert_eq!(kind(fs.lock(other, LockMode::Exclusive)), ErrorKind::WouldBlock);
        assert_eq!(kind(fs.lock(other, LockMode::Shared)), ErrorKind::WouldBlock);
    }
    drop(exclusive);
    let readers = [fs.lock(&path, LockMode::Shared).unwrap(), fs.lock(&detour, LockMode::Shared).unwrap()];
    assert_eq!(kind(fs.lock(&path, LockMode::Exclusive)), ErrorKind::WouldBlock);
    let [one, two] = readers;
    drop(one);
    assert_eq!(kind(fs.lock(&path, LockMode::Exclusive)), ErrorKind::WouldBlock);
    drop(two);
    drop(fs.lock(&path, LockMode::Exclusive).unwrap());
    assert!(fs.exists(&path).unwrap());
}

fn log_writes(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("log");
    let log = fs.create_log(&path, 100, MappedLogs::Always).unwrap();
    assert_eq!(log.capacity(), 32 * 1024);
    log.write_at(0, b"head1", b"").unwrap();
    log.write_at(5, b"mid.", b"x").unwrap();
    log.write_at(20, b"head2", b"body2").unwrap();
    log.sync().unwrap();
    let bytes = read(fs, &path);
    assert_eq!(bytes.len(), 32 * 1024, "zeros to the end of the block");
    assert!(bytes[30..].iter().all(|&byte| byte == 0));
    log.truncate_and_close(30).unwrap();
    assert_eq!(read(fs, &path), b"head1mid.x\0\0\0\0\0\0\0\0\0\0head2body2");
    assert!(log.write_at(0, b"late", b"").is_err());
}

/// A record that fills the last block was taken for one of another program: nothing showed that the
/// log is mapped.
fn mapped_log_ends_with_zeros(fs: &dyn FileSystem, dir: &Path) {
    const BLOCK: u64 = 32 * 1024;
    let path = dir.join("log");
    let log = fs.create_log(&path, 2 * BLOCK, MappedLogs::Always).unwrap();
    // Ends of records close to the end of a block, within the mapping and beyond it.
    for block in 1..4 {
        let mut start = (block - 1) * BLOCK;
        for end in [8, 7, 6, 1, 0].map(|left| block * BLOCK - left) {
            let record = vec![b'x'; (end - start) as usize];
            if record.len() >= 4 {
                log.write_at(start, &record[..4], &record[4..]).unwrap();
                start = end;
            }
            let bytes = read(fs, &path);
            let zeros = bytes.len() as u64 - start;
            assert!(zeros >= 7 && bytes[start as usize..].iter().all(|&byte| byte == 0), "{zeros} zeros");
            assert_eq!(bytes.len() as u64 % BLOCK, 0);
        }
    }
}

fn appended_log_writes(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("log");
    let log = fs.create_log(&path, 100, MappedLogs::Never).unwrap();
    assert_eq!(log.capacity(), 0);
    log.write_at(0, b"head", b"body").unwrap();
    assert_eq!(read(fs, &path), b"headbody");
    // Up to six bytes at the end of a block are zero.
    log.write_at(14, b"head", b"next").unwrap();
    assert_eq!(read(fs, &path), b"headbody\0\0\0\0\0\0headnext");
    assert!(log.write_at(50, b"head", b"far").is_err());
    log.truncate_and_close(22).unwrap();
    assert_eq!(read(fs, &path), b"headbody\0\0\0\0\0\0headnext");
}

fn appended_log_reopened(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("log");
    assert_eq!(kind(fs.reopen_log(&path, 1, MappedLogs::Never)), ErrorKind::NotFound);
    write(fs, &path, b"first ");
    let log = fs.reopen_log(&path, 1, MappedLogs::Never).unwrap();
    assert_eq!((read(fs, &path), log.is_reusable()), (b"first ".to_vec(), true));
    let large = vec![b'x'; 100_000];
    log.write_at(6, b"head", &large).unwrap();
    log.sync().unwrap();
    let end = 10 + large.len() as u64;
    assert!(log.write_at(u64::MAX - 2, b"head", b"body").is_err());
    assert!(log.is_intact());
    log.truncate_and_close(end).unwrap();
    assert!(log.write_at(end, b"late", b"").is_err());
    assert!(read(fs, &path) == [b"first head", large.as_slice()].concat());
}

fn log_past_the_capacity(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("log");
    let log = fs.create_log(&path, 1, MappedLogs::Always).unwrap();
    let capacity = log.capacity();
    log.write_at(0, b"head", b"body").unwrap();
    log.write_at(capacity - 10, b"head", b"within").unwrap();
    log.write_at(capacity, b"head", b"beyond").unwrap();
    log.sync().unwrap();
    assert!(log.write_at(u64::MAX - 2, b"head", b"body").is_err());
    log.truncate_and_close(capacity + 10).unwrap();
    let bytes = read(fs, &path);
    assert_eq!(&bytes[capacity as usize - 10..], b"headwithinheadbeyond");
}

fn log_reopened(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("log");
    assert_eq!(kind(fs.reopen_log(&path, 1, MappedLogs::Always)), ErrorKind::NotFound);
    write(fs, &path, b"first ");
    let log = fs.reopen_log(&path, 1, MappedLogs::Always).unwrap();
    assert_eq!(log.capacity(), 32 * 1024);
    log.write_at(6, b"head", b"body").unwrap();
    log.sync().unwrap();
    log.truncate_and_close(14).unwrap();
    assert_eq!(read(fs, &path), b"first headbody");
    // The capacity is never less than the old contents.
    let log = fs.reopen_log(&path, 0, MappedLogs::Always).unwrap();
    log.truncate_and_close(14).unwrap();
    assert_eq!(read(fs, &path), b"first headbody");
}
