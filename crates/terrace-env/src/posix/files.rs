//! Calls of the system for files that are read or written sequentially.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file_identity::identity_of;
use super::file_size_limit::FileSizeLimit;
use super::platform;
use super::reopened_file::ReopenedFile;
use crate::error::{FileError, Result};
use crate::fs::FileIdentity;
use crate::system_files::{
    self, AppendTarget, FileCalls, SystemLiveFile, SystemSequentialFile, SystemWritableFile, closed_error,
};

pub(super) type PosixSequentialFile = SystemSequentialFile<PosixCalls>;
pub(super) type PosixLiveFile = SystemLiveFile<PosixCalls>;
pub(super) type PosixWritableFile = SystemWritableFile<AppendedFile>;

/// Calls of the POSIX family.
#[derive(Debug)]
pub(super) enum PosixCalls {}

impl FileCalls for PosixCalls {
    fn read_once(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match file.read_at(buf, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn next_data(file: &File, offset: u64, end: u64) -> u64 {
        platform::next_data(file, offset, end)
    }

    fn identity(file: &File) -> io::Result<FileIdentity> {
        Ok(identity_of(&file.metadata()?))
    }
}

/// Reads until `buf` is full or the file ends, and returns the number of bytes.
pub(super) fn read_fully(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    system_files::read_fully::<PosixCalls>(file, offset, buf)
}

/// File that takes the bytes of a buffer.
pub(super) struct AppendedFile {
    path: PathBuf,
    file: Option<File>, // None after `close`, and while the descriptor is released.
    released: Option<ReopenedFile>,
    /// Size of the file in bytes, without the buffer.
    len: u64,
    size_limit: FileSizeLimit,
}

impl AppendedFile {
    /// Creates the target for `file`, which has `len` bytes.
    pub(super) fn new(path: &Path, file: File, len: u64) -> AppendedFile {
        AppendedFile {
            path: path.to_path_buf(),
            file: Some(file),
            released: None,
            len,
            size_limit: FileSizeLimit::default(),
        }
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

    fn open_file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| closed_error(&self.path))
    }
}

impl AppendTarget for AppendedFile {
    fn open(&mut self) -> Result<()> {
        if let Some(released) = &self.released {
            let file = released.open(OpenOptions::new().append(true));
            self.file = Some(file.map_err(|e| FileError::new("open", &self.path, e))?);
            self.released = None;
        }
        self.open_file().map(drop)
    }

    fn write(&mut self, data: &[u8]) -> Result<()> {
        let end = self.len.saturating_add(data.len() as u64);
        self.size_limit.check(end).map_err(|e| FileError::new("write", &self.path, e))?;
        self.open()?;
        let written = self.open_file()?.write_all(data);
        let start = std::mem::replace(&mut self.len, end);
        written.map_err(|e| {
            self.discard_from(start);
            FileError::new("write", &self.path, e)
        })
    }

    fn sync(&self) -> Result<()> {
        platform::sync_file(self.open_file()?).map_err(|e| FileError::new("fdatasync", &self.path, e))
    }

    fn close(&mut self) {
        self.file = None;
        self.released = None;
    }

    fn release(&mut self) {
        if let Some(file) = &self.file
            && let Ok(released) = ReopenedFile::new(&self.path, file)
        {
            self.released = Some(released);
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::*;
    use crate::fs::WritableFile;

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
        let mut file = PosixWritableFile::new(AppendedFile::new(path, File::create(path).unwrap(), 0));
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
