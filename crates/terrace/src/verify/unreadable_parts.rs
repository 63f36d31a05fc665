//! Reads of files with unreadable parts, such as bad sectors.
//!
//! ```text
//!   | sector | sector | bad sector | sector |     contents of the file
//!   | bytes  | bytes  | ff ff .. ff | bytes |     bytes that a scan gets, and a report of the part
//! ```
//!
//! A check and a repair use all readable sectors. A read of the database never does that: there, a
//! read error is an error of the call.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use terrace_env::{FileError, RandomAccessFile, SequentialFile};
use terrace_format::log::LogSource;

use crate::error::{Error, Result};
use crate::table::read_exact_at;

/// Returns the result of `read`, after a second attempt if the first one cannot read the file: some
/// errors of a disk are transient.
pub(crate) fn read_twice<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    let first = read();
    if first.as_ref().is_err_and(Error::is_unreadable_file) { read() } else { first }
}

/// Unit in bytes in which a salvage gives up unreadable parts of a file: the sector of most disks,
/// and the page in which the system reads.
const SECTOR_SIZE: u64 = 4096;

/// Stands for each byte that cannot be read. A log or a table of these bytes is damaged: a zero
/// would be unused space.
const UNREADABLE_BYTE: u8 = 0xff;

/// [`io::Read`] for a sequential file with unreadable parts. Returns [`UNREADABLE_BYTE`]s for them.
pub(crate) struct SalvagingFileReader {
    file: Box<dyn SequentialFile>,
    position: u64,
    length: u64,
    unreadable: UnreadableParts,
}

/// Unreadable parts of a file that a [`SalvagingFileReader`] has found: start, length, first error.
pub(crate) type UnreadableParts = Rc<RefCell<Vec<(u64, u64, FileError)>>>;

impl SalvagingFileReader {
    /// Creates a reader of `file`, which has `length` bytes, and the list that it fills.
    pub(crate) fn new(file: Box<dyn SequentialFile>, length: u64) -> (SalvagingFileReader, UnreadableParts) {
        let unreadable = UnreadableParts::default();
        let reader = SalvagingFileReader { file, position: 0, length, unreadable: Rc::clone(&unreadable) };
        (reader, unreadable)
    }

    /// Skips the unreadable sector at the position. Returns the number of skipped bytes, at most
    /// `max`.
    fn skip_sector(&mut self, max: usize, error: FileError) -> io::Result<usize> {
        let rest = self.length.saturating_sub(self.position);
        let skipped = (SECTOR_SIZE - self.position % SECTOR_SIZE).min(rest).min(max as u64);
        if skipped > 0 {
            self.file.skip(skipped).map_err(io::Error::other)?;
        }
        let mut parts = self.unreadable.borrow_mut();
        match parts.last_mut() {
            Some((start, len, _)) if *start + *len == self.position => *len += skipped,
            _ => parts.push((self.position, skipped, error)),
        }
        self.position += skipped;
        Ok(skipped as usize)
    }
}

impl io::Read for SalvagingFileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut read = self.file.read(buf);
        let rest_of_sector = (SECTOR_SIZE - self.position % SECTOR_SIZE).min(buf.len() as u64) as usize;
        // The second attempt is for a transient error, too.
        if read.as_ref().is_err_and(FileError::is_unreadable) {
            read = self.file.read(&mut buf[..rest_of_sector]);
        }
        match read {
            Ok(len) => {
                self.position += len as u64;
                Ok(len)
            }
            Err(error) if error.is_unreadable() => {
                let skipped = self.skip_sector(buf.len(), error)?;
                buf[..skipped].fill(UNREADABLE_BYTE);
                Ok(skipped)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl LogSource for SalvagingFileReader {
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        let skipped = self.file.skip_hole(unit).map_err(io::Error::other)?;
        self.position += skipped;
        Ok(skipped)
    }
}

/// Reads like [`read_exact_at`] in a file with unreadable parts. They
/// become [`UNREADABLE_BYTE`]s.
pub(crate) fn salvage_exact_at(
    file: &dyn RandomAccessFile,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
    let read = read_exact_at(file, path, offset, buf);
    if !read.as_ref().is_err_and(Error::is_unreadable_file) {
        return read;
    }
    let mut done = 0;
    while done < buf.len() {
        let position = offset + done as u64;
        let len = ((SECTOR_SIZE - position % SECTOR_SIZE) as usize).min(buf.len() - done);
        let sector = &mut buf[done..done + len];
        match read_exact_at(file, path, position, sector) {
            Err(error) if error.is_unreadable_file() => sector.fill(UNREADABLE_BYTE),
            read => read?,
        }
        done += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// File of three sectors, of which the second one is bad.
    #[derive(Debug)]
    struct BadSector {
        position: u64,
    }

    const LENGTH: u64 = 3 * SECTOR_SIZE;

    impl BadSector {
        fn read(offset: u64, buf: &mut [u8]) -> terrace_env::Result<usize> {
            let len = buf.len().min(LENGTH.saturating_sub(offset) as usize);
            let end = offset + len as u64;
            if offset < 2 * SECTOR_SIZE && end > SECTOR_SIZE && len > 0 {
                return Err(FileError::new("read", "file", io::Error::from_raw_os_error(EIO)));
            }
            buf[..len].fill(7);
            Ok(len)
        }
    }

    /// Error number of a bad sector: `EIO` on Linux and on BSD, `ERROR_IO_DEVICE` on Windows.
    const EIO: i32 = if cfg!(windows) { 1117 } else { 5 };

    impl SequentialFile for BadSector {
        fn read(&mut self, buf: &mut [u8]) -> terrace_env::Result<usize> {
            let len = BadSector::read(self.position, buf)?;
            self.position += len as u64;
            Ok(len)
        }

        fn skip(&mut self, n: u64) -> terrace_env::Result<()> {
            self.position += n;
            Ok(())
        }
    }

    impl RandomAccessFile for BadSector {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> terrace_env::Result<usize> {
            BadSector::read(offset, buf)
        }

        fn len(&self) -> u64 {
            LENGTH
        }
    }

    fn expected() -> Vec<u8> {
        let mut expected = vec![7; LENGTH as usize];
        expected[SECTOR_SIZE as usize..2 * SECTOR_SIZE as usize].fill(UNREADABLE_BYTE);
        expected
    }

    #[test]
    fn sequential_read_skips_a_bad_sector() {
        for size in [1, 100, 4096, 5000, 100_000] {
            let (mut reader, unreadable) =
                SalvagingFileReader::new(Box::new(BadSector { position: 0 }), LENGTH);
            let mut bytes = Vec::new();
            let mut buf = vec![0; size];
            loop {
                let len = reader.read(&mut buf).unwrap();
                if len == 0 {
                    break;
                }
                bytes.extend_from_slice(&buf[..len]);
            }
            assert!(bytes == expected(), "reads of {size} bytes");
            let parts: Vec<(u64, u64)> = unreadable.borrow().iter().map(|part| (part.0, part.1)).collect();
            assert_eq!(parts, [(SECTOR_SIZE, SECTOR_SIZE)], "reads of {size} bytes");
        }
    }

    #[test]
    fn positioned_read_skips_a_bad_sector() {
        let file = BadSector { position: 0 };
        for (from, len) in [(0, LENGTH), (1, LENGTH - 1), (4095, 2), (5000, 100), (8191, 2), (8192, 4096)] {
            let mut bytes = vec![0; len as usize];
            salvage_exact_at(&file, "file".as_ref(), from, &mut bytes).unwrap();
            assert!(bytes == expected()[from as usize..][..len as usize], "{len} bytes at {from}");
        }
    }

    /// A file of another kind, whose reads always fail, ends at its length.
    #[test]
    fn reads_that_always_fail_end() {
        let (mut reader, _) = SalvagingFileReader::new(Box::new(BadSector { position: SECTOR_SIZE }), 100);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 100);
    }
}
