//! Files that are read or written sequentially.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file_size_limit::FileSizeLimit;
use super::platform;
use super::reopened_file::ReopenedFile;
use crate::error::{FileError, Result};
use crate::fs::{SequentialFile, WritableFile};
use crate::shared_files;
use crate::sticky_sync::StickySync;
use crate::write_buffer::WriteBuffer;

/// File that is read from its start.
pub(super) struct PosixSequentialFile {
    path: PathBuf,
    file: File,
    offset: u64,
}

impl PosixSequentialFile {
    pub(super) fn new(path: &Path, file: File) -> PosixSequentialFile {
        PosixSequentialFile { path: path.to_path_buf(), file, offset: 0 }
    }
}

impl SequentialFile for PosixSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let read = read_once(&self.file, self.offset, buf);
        let n = read.map_err(|e| FileError::new("read", &self.path, e))?;
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let end = self.file.metadata().map_err(|e| FileError::new("stat", &self.path, e))?.len();
        self.offset = self.offset.saturating_add(n).min(end.max(self.offset));
        Ok(())
    }

    fn skip_hole(&mut self, unit: u64) -> Result<u64> {
        let end = self.file.metadata().map_err(|e| FileError::new("stat", &self.path, e))?.len();
        let data = platform::next_data(&self.file, self.offset, end);
        let hole = data.min(end).saturating_sub(self.offset);
        let skipped = hole - hole % unit.max(1);
        self.offset += skipped;
        Ok(skipped)
    }
}

/// Reads once at `offset` and repeats interrupted calls.
fn read_once(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buf, offset) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Reads until `buf` is full or the file ends, and returns the number of bytes.
pub(super) fn read_fully(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    shared_files::read_fully(offset, buf, |offset, buf| read_once(file, offset, buf))
}

/// File that is appended to through a buffer.
pub(super) struct PosixWritableFile {
    target: AppendedFile,
    buffer: WriteBuffer,
    syncs: StickySync,
}

/// File that takes the bytes of a buffer.
struct AppendedFile {
    path: PathBuf,
    file: Option<File>, // None after `close`, and while the descriptor is released.
    released: Option<ReopenedFile>,
    /// Size of the file in bytes, without the buffer.
    len: u64,
    size_limit: FileSizeLimit,
}

impl PosixWritableFile {
    /// Creates a writer for an empty `file`.
    pub(super) fn new(path: &Path, file: File) -> PosixWritableFile {
        PosixWritableFile::with_len(path, file, 0)
    }

    /// Creates a writer that appends to `file`, which has `len` bytes.
    pub(super) fn with_len(path: &Path, file: File, len: u64) -> PosixWritableFile {
        PosixWritableFile {
            target: AppendedFile {
                path: path.to_path_buf(),
                file: Some(file),
                released: None,
                len,
                size_limit: FileSizeLimit::default(),
            },
            buffer: WriteBuffer::default(),
            syncs: StickySync::default(),
        }
    }
}

impl AppendedFile {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        let end = self.len.saturating_add(data.len() as u64);
        self.size_limit.check(end).map_err(|e| FileError::new("write", &self.path, e))?;
        let mut file = self.open_file()?;
        let written = file.write_all(data);
        let start = std::mem::replace(&mut self.len, end);
        written.map_err(|e| {
            self.discard_from(start);
            FileError::new("write", &self.path, e)
        })
    }

    /// Removes the bytes of a failed write, if the system allows it. LevelDB with `reuse_logs`
    /// continues a MANIFEST without a check of its end: a part of a record would hide its edits.
    fn discard_from(&mut self, start: u64) {
        let Some(mut file) = self.file.as_ref() else { return };
        // Otherwise the size is unknown. The larger value only makes the limit stricter.
        if file.set_len(start).and_then(|()| file.seek(SeekFrom::Start(start))).is_ok() {
            self.len = start;
        }
    }

    /// Returns the file, which is opened again if its descriptor was released.
    fn open_file(&mut self) -> Result<&File> {
        if let Some(released) = &self.released {
            let file = released.open(OpenOptions::new().append(true));
            self.file = Some(file.map_err(|e| FileError::new("open", &self.path, e))?);
            self.released = None;
        }
        self.file
            .as_ref()
            .ok_or_else(|| FileError::new("write", &self.path, io::Error::other("the file was closed")))
    }
}

impl WritableFile for PosixWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.target.open_file()?;
        self.buffer.append(data, |bytes| self.target.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.buffer.flush(|bytes| self.target.write(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.target.open_file()?;
        let AppendedFile { path, file: Some(file), .. } = &self.target else { return Ok(()) };
        self.syncs.sync_with(|| platform::sync_file(file).map_err(|e| FileError::new("fdatasync", path, e)))
    }

    fn close(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.target.file = None;
        self.target.released = None;
        flushed
    }

    fn release_descriptor(&mut self) {
        if self.buffer.is_empty()
            && let Some(file) = &self.target.file
            && let Ok(released) = ReopenedFile::new(&self.target.path, file)
        {
            self.target.released = Some(released);
            self.target.file = None;
        }
    }
}

impl Drop for PosixWritableFile {
    fn drop(&mut self) {
        let _ = self.flush(); // Ignores errors, as the trait documents.
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::*;

    /// Environment variable with the path of the file, for the process of the test.
    const PATH_ENV_VAR: &str = "TERRACE_TEST_LIMITED_FILE";

    /// Symptom: LevelDB lost its writes and did not open the database again. Cause: a limit on the
    /// size of files had cut the last record that Terrace wrote to the MANIFEST, and LevelDB with
    /// `reuse_logs` appended to the rest. Guarantee: no part of a failed write stays in a file.
    #[test]
    fn failed_write_leaves_no_part_of_its_data() {
        if let Some(path) = std::env::var_os(PATH_ENV_VAR) {
            return write_beyond_limit(Path::new(&path));
        }
        // The limit holds for a whole process, and the shell makes it ignore the signal. An
        // emulator runs the tests of another architecture.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let name = "posix::files::tests::failed_write_leaves_no_part_of_its_data";
        let run = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec $TERRACE_EMULATOR \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(PATH_ENV_VAR, &path)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789xyz");
    }

    fn write_beyond_limit(path: &Path) {
        let mut file = PosixWritableFile::new(path, File::create(path).unwrap());
        file.append(b"0123456789").unwrap();
        file.flush().unwrap();
        let limit = Rlimit { current: Some(15), maximum: None };
        setrlimit(Resource::Fsize, limit).unwrap();
        file.append(b"abcdefghij").unwrap();
        assert!(file.flush().is_err());
        file.append(b"xyz").unwrap();
        file.close().unwrap();
    }
}
