//! Random-access files.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::files::read_fully;
use crate::error::{FileError, Result};
use crate::fs::RandomAccessFile;

/// Open file. A process may have millions of handles, so there is no limit, and the file is
/// readable after its removal.
#[derive(Debug)]
pub(super) struct WindowsRandomAccessFile {
    path: PathBuf,
    len: u64,
    file: File,
}

impl WindowsRandomAccessFile {
    pub(super) fn new(path: &Path, file: File) -> Result<WindowsRandomAccessFile> {
        let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
        Ok(WindowsRandomAccessFile { path: path.to_path_buf(), len, file })
    }
}

impl RandomAccessFile for WindowsRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, offset, buf).map_err(|e| FileError::new("read", &self.path, e))
    }

    fn len(&self) -> u64 {
        self.len
    }
}
