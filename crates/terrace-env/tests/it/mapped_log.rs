//! Logs and random-access files of the operating system, beyond the common contract.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use terrace_env::posix::PosixFs;
use terrace_env::{AccessMode, FileSystem, LogFile, MappedLogs, RandomAccessFile};

/// Size of a block of a log, in bytes.
const BLOCK: u64 = 32 * 1024;
/// Largest number of zeros at the end of a mapped log, except for the rest of a block.
const MAX_EXTENSION: u64 = 256 << 10;
/// Size of a test record, in bytes. Records fill blocks completely.
const RECORD: u64 = 128;

fn write_record(log: &dyn LogFile, number: u64) {
    log.write_at(number * RECORD, format!("{number:07}").as_bytes(), format!("{number:0121}").as_bytes())
        .unwrap();
}

fn expected_records(count: u64) -> String {
    (0..count).map(|number| format!("{number:07}{number:0121}")).collect()
}

fn file_len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn allocated_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// A mapped log ends at the end of a block. Its length limits its zeros at the end, and also its
/// allocated space.
#[test]
fn mapped_log_grows_by_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, 4 << 20, MappedLogs::Always).unwrap();
    assert_eq!((file_len(&path), allocated_bytes(&path)), (0, BLOCK));
    for number in 0..5000 {
        write_record(&*log, number);
        let end = (number + 1) * RECORD;
        let len = file_len(&path);
        assert!(len.is_multiple_of(BLOCK) && len >= end, "{len} at {end}");
        assert!(len <= end + end.min(MAX_EXTENSION) + BLOCK, "{len} at {end}");
        assert!(allocated_bytes(&path) <= 2 * len.next_multiple_of(BLOCK) + BLOCK, "{number}");
    }
    log.truncate_and_close(5000 * RECORD).unwrap();
    assert!(std::fs::read(&path).unwrap() == expected_records(5000).as_bytes());
    assert!(allocated_bytes(&path) <= (5000 * RECORD).next_multiple_of(BLOCK));
}

/// An appended log has the length of its records at every moment.
#[test]
fn appended_log_has_no_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, 1 << 20, MappedLogs::Never).unwrap();
    assert_eq!((log.capacity(), log.may_lose_pages()), (0, false));
    for number in 0..600 {
        write_record(&*log, number);
        assert_eq!(file_len(&path), (number + 1) * RECORD);
    }
    assert!(std::fs::read(&path).unwrap() == expected_records(600).as_bytes());
}

/// Beyond its capacity, a mapped log appends. The system may refuse the whole mapping.
#[test]
fn log_beyond_its_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for (capacity, is_mapped) in [(1, true), (1 << 60, false)] {
        let log = PosixFs::new().create_log(&path, capacity, MappedLogs::Always).unwrap();
        assert_eq!(log.may_lose_pages(), is_mapped);
        for number in 0..600 {
            write_record(&*log, number);
        }
        let rounded = (600 * RECORD).next_multiple_of(BLOCK);
        assert_eq!(file_len(&path), if is_mapped { rounded } else { 600 * RECORD });
        log.truncate_and_close(600 * RECORD).unwrap();
        assert!(std::fs::read(&path).unwrap() == expected_records(600).as_bytes());
    }
    assert!(PosixFs::new().create_log(&path, u64::MAX, MappedLogs::Always).is_err());
}

#[test]
fn fast_fill_log_synced_now_and_then() {
    const RECORDS: u64 = 40_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, RECORDS * RECORD, MappedLogs::Always).unwrap();
    for number in 0..RECORDS {
        if number == 1234 {
            log.expect_fast_fill();
        }
        write_record(&*log, number);
        if matches!(number, 0 | 1300 | 20_000) {
            log.sync().unwrap();
        }
    }
    log.truncate_and_close(RECORDS * RECORD).unwrap();
    assert!(std::fs::read(&path).unwrap() == expected_records(RECORDS).as_bytes());
}

#[test]
fn every_alignment_of_the_last_four_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = PosixFs::new().create_log(&path, 1, MappedLogs::Always).unwrap();
    log.write_at(0, b"1234567", b"").unwrap();
    for offset in 4096 - 32..4096 + 32 {
        log.write_at(offset, b"1234567", b"").unwrap();
        let stored = &std::fs::read(&path).unwrap()[offset as usize..][..7];
        assert_eq!(stored, b"1234567");
    }
}

/// A write after a gap fails and leaves the file as it was.
#[test]
fn failed_write_leaves_no_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, b"first").unwrap();
    let log = PosixFs::new().reopen_log(&path, 1 << 20, MappedLogs::Always).unwrap();
    let error = log.write_at(i64::MAX as u64 - 100, b"head", b"body").unwrap_err();
    assert!(log.is_intact(), "{error}");
    assert_eq!(file_len(&path), 5);
    log.write_at(5, b"head", b"body").unwrap();
    log.truncate_and_close(13).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"firstheadbody");
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
fn reopened_log_changes_at_the_first_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, b"first record").unwrap();
    let log = PosixFs::new().reopen_log(&path, 1 << 20, MappedLogs::Always).unwrap();
    assert_eq!((log.capacity(), file_len(&path)), (1 << 20, 12));
    log.write_at(12, b"head", b"body").unwrap();
    assert_eq!(file_len(&path), BLOCK);
    log.write_at(20, b"more", b"body").unwrap();
    log.truncate_and_close(28).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"first recordheadbodymorebody");
    // Without a write, a close changes nothing.
    let log = PosixFs::new().reopen_log(&path, 1 << 20, MappedLogs::Always).unwrap();
    log.truncate_and_close(28).unwrap();
    assert_eq!(file_len(&path), 28);
}
