//! Fault plans: the failing calls, their partial effects, and the end of a fault.

use std::path::Path;
use std::sync::Arc;

use terrace_env::fault::{FaultFs, FaultPlan, FileOp};
use terrace_env::mem::{Crash, DataLoss, DirEntryLoss, MemFs, PersistedPieces, PowerLoss};
use terrace_env::{AccessMode, AppendingLog, FileSystem, LogFile, MappedLogs};

use crate::{read, write};

fn faulty(plan: &str) -> (Arc<MemFs>, FaultFs) {
    let mem = Arc::new(MemFs::new());
    let fs = FaultFs::new(Arc::clone(&mem) as Arc<dyn FileSystem>, plan.parse().unwrap());
    (mem, fs)
}

/// Returns a dot for each successful call, and a cross for each failed one.
fn outcomes(n: usize, mut call: impl FnMut() -> bool) -> String {
    (0..n).map(|_| if call() { '.' } else { 'x' }).collect()
}

#[test]
fn first_call_and_repeat() {
    let check = |plan: &str, expect: &str| {
        let (_, fs) = faulty(plan);
        let found = outcomes(6, || fs.create(Path::new("000001.log")).is_ok());
        assert_eq!(found, expect, "{plan}");
        assert_eq!((fs.call_count(FileOp::Create), fs.total_call_count()), (6, 6));
        let failed = found.contains('x').then(|| (FileOp::Create, "000001.log".into()));
        assert_eq!(fs.failed_calls(), Vec::from_iter(failed));
    };
    check("", "......");
    check("create * #1 once EIO", "x.....");
    check("any * #2 x2 EIO", ".xx...");
    check("create * #3 once EIO", "..x...");
    check("create * #2 x3 EIO", ".xxx..");
    check("create * #4 forever EIO", "...xxx");
    check("create .log #2 once EIO", ".x....");
    check("create .ldb #2 once EIO", "......");
    check("create 0000 #1 once EIO", "x.....");
    check("remove * #1 forever EIO", "......");
    check("create * #1 once EIO; create .log #3 once EIO", "x.x...");
}

/// The errors are the system's, so that injected errors equal real ones.
#[test]
fn errors_carry_the_errno() {
    #[cfg(unix)]
    let codes = [
        ("ENOSPC", libc::ENOSPC),
        ("EDQUOT", libc::EDQUOT),
        ("EACCES", libc::EACCES),
        ("EROFS", libc::EROFS),
        ("EINTR", libc::EINTR),
        ("EIO", libc::EIO),
        ("EMFILE", libc::EMFILE),
    ];
    // Windows: disk full, quota exceeded, access denied, write protected, device error, too many
    // open files.
    #[cfg(windows)]
    let codes =
        [("ENOSPC", 112), ("EDQUOT", 1295), ("EACCES", 5), ("EROFS", 19), ("EIO", 1117), ("EMFILE", 4)];
    for (name, errno) in codes {
        let reason = std::io::Error::from_raw_os_error(errno);
        let (_, fs) = faulty(&format!("sync-dir * #1 once {name}"));
        let error = fs.sync_dir(Path::new("/")).unwrap_err();
        assert_eq!(error.to_string(), format!("fsync /: {reason}"));
        assert_eq!(error.is_no_space(), ["ENOSPC", "EDQUOT"].contains(&name));
        assert_eq!(error.is_resource_exhausted(), ["ENOSPC", "EDQUOT", "EMFILE"].contains(&name));
    }
}

#[test]
fn plan_changes_under_open_files() {
    let (_, fs) = faulty("");
    let mut file = fs.create(Path::new("a")).unwrap();
    file.append(b"1").unwrap();
    fs.set_plan("append * #1 forever ENOSPC".parse().unwrap());
    assert!(file.append(b"2").is_err());
    fs.set_plan(FaultPlan::default());
    file.append(b"3").unwrap();
    file.close().unwrap();
    assert_eq!((read(&fs, Path::new("a")), fs.call_count(FileOp::Append)), (b"13".to_vec(), 3));
}

#[test]
fn every_call_can_fail() {
    let run = |plan: &str| {
        let (_, fs) = faulty(plan);
        let path = Path::new("a");
        let mut failed = Vec::new();
        let mut note = |op: &'static str, ok: bool| failed.extend((!ok).then_some(op));
        note("lock", fs.lock(Path::new("LOCK"), terrace_env::LockMode::Exclusive).is_ok());
        note("create-dir", fs.create_dir(Path::new("d")).is_ok());
        note("create", fs.create(path).is_ok());
        if let Ok(mut file) = fs.open_append(path) {
            note("append", file.append(b"0123456789").is_ok());
            note("flush", file.flush().is_ok());
            note("sync", file.sync().is_ok());
            note("close", file.close().is_ok());
        } else {
            note("open-append", false);
        }
        match fs.open_sequential(path) {
            Ok(mut file) => {
                note("skip", file.skip(1).is_ok());
                note("read", file.read(&mut [0; 4]).is_ok());
            }
            Err(_) => note("open", false),
        }
        match fs.create_log(Path::new("log"), 1, MappedLogs::Always) {
            Ok(log) => {
                note("write-at", log.write_at(0, b"head", b"body").is_ok());
                note("truncate-and-close", log.truncate_and_close(8).is_ok());
            }
            Err(_) => note("create-log", false),
        }
        note("stat", fs.file_size(path).is_ok());
        note("list", fs.list(Path::new("/")).is_ok());
        note("sync-dir", fs.sync_dir(Path::new("/")).is_ok());
        note("rename", fs.rename(path, Path::new("b")).is_ok());
        note("remove", fs.remove(Path::new("LOCK")).is_ok() || plan.starts_with("lock"));
        note("remove-dir", fs.remove_dir(Path::new("d")).is_ok() || plan.starts_with("create-dir"));
        failed.join(" ")
    };
    assert_eq!(run(""), "");
    for op in
        "open create open-append create-log read skip append flush close write-at sync truncate-and-close \
               stat list create-dir remove-dir remove rename sync-dir lock"
            .split_whitespace()
    {
        let failed = run(&format!("{op} * #1 once EIO"));
        assert_eq!(failed, op);
    }
}

#[test]
fn short_read_is_not_the_end() {
    let (mem, fs) = faulty("read * #1 forever short-read");
    write(&*mem, Path::new("a"), b"0123456789");
    assert_eq!(read(&fs, Path::new("a")), b"0123456789");
    let mut buf = [0; 1];
    assert_eq!(fs.open_sequential(Path::new("a")).unwrap().read(&mut buf).unwrap(), 1);
    let file = fs.open_random_access(Path::new("a"), AccessMode::Mmap).unwrap();
    assert_eq!((file.read_at(0, &mut [0; 8]).unwrap(), file.mapped_slice()), (4, None));
    let file = fs.with_mapped_files().open_random_access(Path::new("a"), AccessMode::Mmap).unwrap();
    assert_eq!(file.mapped_slice(), Some(&b"0123456789"[..]));
}

#[test]
fn short_write_leaves_half() {
    let (mem, fs) = faulty("append * #2 once short-write; write-at * #1 once short-write");
    let mut file = fs.create(Path::new("a")).unwrap();
    file.append(b"whole,").unwrap();
    assert!(file.append(b"halfLOST").is_err());
    assert_eq!(read(&*mem, Path::new("a")), b"whole,half");
    let log = fs.create_log(Path::new("log"), 1, MappedLogs::Always).unwrap();
    assert!(log.write_at(0, b"head", b"halfLOST").is_err());
    assert_eq!(&read(&*mem, Path::new("log"))[..12], b"headhalf\0\0\0\0");
    assert!(!log.is_intact());
}

/// After a failed append the end of the file is unknown, so a later write could have a wrong
/// offset.
#[test]
fn appending_log_stops_at_a_failed_write() {
    let (mem, fs) = faulty("append * #2 once short-write");
    let log = AppendingLog::new(Path::new("log"), fs.create(Path::new("log")).unwrap());
    log.write_at(0, b"head", b"one.").unwrap();
    assert!(log.write_at(8, b"head", b"two.").is_err());
    let error = log.write_at(16, b"head", b"more").unwrap_err();
    assert_eq!(error.to_string(), "write log: an earlier write failed");
    assert_eq!(read(&*mem, Path::new("log")), b"headone.head");
}

/// A system may mark unwritten pages clean: the second sync succeeds, and a power cut loses the
/// data. This fault finds a database that retries the sync and trusts it.
#[test]
fn sync_loses_data() {
    let (mem, fs) = faulty("sync * #1 once sync-loses-data");
    let mut file = fs.create(Path::new("a")).unwrap();
    let log = fs.create_log(Path::new("log"), 1, MappedLogs::Always).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"lost").unwrap();
    assert_eq!(outcomes(3, || file.sync().is_ok()), "x..");
    log.write_at(0, b"head", b"kept").unwrap();
    log.sync().unwrap();
    assert_eq!(read(&fs, Path::new("a")), b"lost");
    let cut = PowerLoss {
        data: DataLoss::Everything,
        dir_entries: DirEntryLoss::Nothing,
        persisted: PersistedPieces::None,
        seed: 0,
    };
    let image = mem.crash_clone(&Crash::PowerLoss(cut));
    assert_eq!(read(&image, Path::new("a")), b"");
    assert_eq!(&read(&image, Path::new("log"))[..8], b"headkept");
    // A new file with the same name has no fault.
    let mut file = fs.create(Path::new("a")).unwrap();
    file.append(b"new").unwrap();
    file.sync().unwrap();
    assert_eq!(read(&mem.crash_clone(&Crash::PowerLoss(cut)), Path::new("a")), b"new");
}
