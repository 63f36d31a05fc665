//! Adapters from the files of `terrace-env` to the standard library's `Read` and `Write`, which
//! `terrace-format` uses.

use std::io;
use std::path::Path;

use terrace_env::{FileError, SequentialFile, WritableFile};
use terrace_format::log::LogSource;

use crate::error::Error;

/// [`io::Read`] for a sequential file.
pub(crate) struct FileReader(pub(crate) Box<dyn SequentialFile>);

impl io::Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

impl LogSource for FileReader {
    fn skip_hole(&mut self, unit: u64) -> io::Result<u64> {
        self.0.skip_hole(unit).map_err(io::Error::other)
    }
}

/// [`io::Write`] for a writable file.
pub(crate) struct FileWriter(pub(crate) Box<dyn WritableFile>);

impl io::Write for FileWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.append(buf).map_err(io::Error::other)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(io::Error::other)
    }
}

/// Returns the directory that contains `path`.
pub(crate) fn parent_directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Copies `bytes`, which a caller of the database at `path` gets. Memory that the system refuses is
/// an error.
pub(crate) fn try_copy(bytes: &[u8], path: &Path) -> crate::error::Result<Vec<u8>> {
    let mut copy = Vec::new();
    extend_copy(&mut copy, bytes, path)?;
    Ok(copy)
}

/// Appends `bytes` to `buffer`. Memory that the system refuses is an error.
pub(crate) fn extend_copy(buffer: &mut Vec<u8>, bytes: &[u8], path: &Path) -> crate::error::Result<()> {
    buffer.try_reserve_exact(bytes.len()).map_err(|_| Error::out_of_memory(path, bytes.len()))?;
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// Returns the error that a [`FileReader`] or [`FileWriter`] of the file at `path` wrapped.
pub(crate) fn file_error(path: &Path, error: io::Error) -> Error {
    match error.downcast::<FileError>() {
        Ok(error) => Error::from(error),
        Err(error) => Error::from(FileError::new("access", path, error)),
    }
}
