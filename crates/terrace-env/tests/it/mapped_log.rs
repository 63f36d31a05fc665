//! Logs and random-access files of the operating system, beyond the common contract.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use terrace_env::posix::PosixFs;
use terrace_env::{AccessMode, FileSystem, LogFile, RandomAccessFile};

#[test]
fn preallocated_space_is_freed_on_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let allocated = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let log = PosixFs::new().create_log(&path, 1 << 20).unwrap();
    assert!(allocated() >= 1 << 20, "{} bytes", allocated());
    log.write_at(0, b"head", b"body").unwrap();
    log.truncate_and_close(8).unwrap();
    assert!(allocated() <= 64 * 1024, "{} bytes", allocated());
}

#[test]
fn capacity_larger_than_any_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let fs = PosixFs::new();
    for capacity in [1 << 60, u64::MAX] {
        let refused = fs.create_log(&path, capacity).unwrap_err();
        assert!(refused.is_no_space(), "{refused}");
        assert_eq!(fs.file_size(&path).unwrap(), 0);
    }
}

/// Eight threads write every eighth record each. The records have every alignment.
#[test]
fn threads_write_concurrently() {
    const RECORDS: u64 = 8_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log: Arc<dyn LogFile> = Arc::from(PosixFs::new().create_log(&path, RECORDS * 27).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || {
                for i in (thread..RECORDS).step_by(8) {
                    log.write_at(i * 27, format!("{i:07}").as_bytes(), format!("{i:020}").as_bytes())
                        .unwrap();
                }
            });
        }
    });
    log.truncate_and_close(RECORDS * 27).unwrap();
    let expected: String = (0..RECORDS).map(|i| format!("{i:07}{i:020}")).collect();
    assert!(std::fs::read(&path).unwrap() == expected.as_bytes());
}

/// Writes through the mapping and by system calls alternate across the ends of pages and of large
/// pieces. Preparation changes no record before or after the prepared space.
#[test]
fn log_preallocated_now_and_then() {
    const RECORDS: u64 = 6000;
    // The fast fill starts at the first record, at a later one, or never.
    for fast_fill_start in [0, 1234, RECORDS] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = PosixFs::new().create_log(&path, RECORDS * 107).unwrap();
        let mut ready = 0;
        for i in 0..RECORDS {
            if i == fast_fill_start || i == fast_fill_start + 500 {
                log.expect_fast_fill(i * 107);
                ready = 0;
            }
            let end = (i + 1) * 107;
            if i % 3000 > 1000 && end > ready {
                ready = log.preallocate(end).unwrap();
                assert!(ready >= end, "{ready}, expected {end}");
            }
            log.write_at(i * 107, format!("{i:07}").as_bytes(), format!("{i:0100}").as_bytes()).unwrap();
        }
        assert_eq!(log.preallocate(u64::MAX).unwrap(), u64::MAX, "no preparation is left");
        log.truncate_and_close(RECORDS * 107).unwrap();
        let expected: String = (0..RECORDS).map(|i| format!("{i:07}{i:0100}")).collect();
        assert!(std::fs::read(&path).unwrap() == expected.as_bytes());

        let reopened = PosixFs::new().reopen_log(&path, RECORDS * 214).unwrap();
        assert!(reopened.preallocate(10).unwrap() >= 10);
        assert!(reopened.preallocate(RECORDS * 107 + 10).unwrap() >= RECORDS * 107 + 10);
        reopened.write_at(RECORDS * 107, b"head", b"body").unwrap();
        reopened.truncate_and_close(RECORDS * 107 + 8).unwrap();
        assert!(std::fs::read(&path).unwrap() == (expected + "headbody").as_bytes());
    }
}

#[test]
fn fast_fill_log_synced_now_and_then() {
    const RECORDS: u64 = 40_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, RECORDS * 107).unwrap();
    log.expect_fast_fill(0);
    for i in 0..RECORDS {
        log.write_at(i * 107, format!("{i:07}").as_bytes(), format!("{i:0100}").as_bytes()).unwrap();
        if matches!(i, 0 | 100 | 20_000) {
            log.sync().unwrap();
        }
    }
    log.truncate_and_close(RECORDS * 107).unwrap();
    let expected: String = (0..RECORDS).map(|i| format!("{i:07}{i:0100}")).collect();
    assert!(std::fs::read(&path).unwrap() == expected.as_bytes());
}

#[test]
fn every_alignment_of_the_last_four_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, 1).unwrap();
    for offset in 4096 - 32..4096 + 32 {
        log.write_at(offset, b"1234567", b"").unwrap();
        let stored = &std::fs::read(&path).unwrap()[offset as usize..][..7];
        assert_eq!(stored, b"1234567");
    }
}

/// Reads must succeed even if a database has more tables than the process may have descriptors.
#[test]
fn more_files_than_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let fs = PosixFs::with_limits(1, 10, 2);
    let open = |name: &str| -> Arc<dyn RandomAccessFile> {
        let path = dir.path().join(name);
        std::fs::write(&path, name).unwrap();
        fs.open_random_access(&path, AccessMode::Mmap).unwrap()
    };
    let form = |file: &Arc<dyn RandomAccessFile>| {
        let mut buf = [0; 1];
        assert_eq!(file.read_at(0, &mut buf).unwrap(), 1);
        let debug = format!("{file:?}");
        let kind = match debug.split(' ').next().unwrap() {
            "PosixMmapReadableFile" => "mapped",
            "PosixRandomAccessFile" => "open",
            "ReopeningRandomAccessFile" => "reopening",
            other => other,
        };
        format!("{}:{kind}", buf[0] as char)
    };
    let mut files: Vec<_> = ["a", "b", "c", "d", "e"].map(open).into();
    let forms = |files: &[_]| files.iter().map(form).collect::<Vec<_>>().join(" ");
    assert_eq!(forms(&files), "a:mapped b:open c:open d:reopening e:reopening");
    files.drain(..2);
    files.extend(["f", "g", "h"].map(open));
    assert_eq!(forms(&files), "c:open d:reopening e:reopening f:mapped g:open h:reopening");
    let plain =
        PosixFs::with_limits(1, 10, 1).open_random_access(&dir.path().join("a"), AccessMode::Pread).unwrap();
    assert_eq!(form(&plain), "a:open");
}

/// Regression test: on a page fault, the system reads megabytes around the address. If the mappings
/// exceeded the memory, every get paid for that.
#[test]
fn more_bytes_than_the_mmap_limit() {
    let dir = tempfile::tempdir().unwrap();
    let fs = PosixFs::with_limits(10, 10, 10);
    let open = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        fs.open_random_access(&path, AccessMode::Mmap).unwrap()
    };
    let six = open("six", b"123456");
    let five = open("five", b"12345");
    assert!(six.mapped_slice().is_some() && five.mapped_slice().is_none());
    assert!(open("four", b"1234").mapped_slice().is_some());
    drop(six);
    assert!(open("five again", b"12345").mapped_slice().is_some());
}

#[test]
fn reopened_log_allocates_at_the_first_write_past_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, b"first mark").unwrap();
    let len = || std::fs::metadata(&path).unwrap().len();
    let log = PosixFs::new().reopen_log(&path, 1 << 20).unwrap();
    assert_eq!((log.capacity(), len()), (1 << 20, 10));
    log.write_at(6, &[0; 4], &[]).unwrap();
    assert_eq!(len(), 10);
    log.write_at(6, b"head", b"body").unwrap();
    assert_eq!(len(), 1 << 20);
    log.truncate_and_close(14).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"first headbody");
}
