//! Files of the env crate as the standard library's readers and writers, for the format crate, which knows no file.

use std::io;
use std::path::Path;

use terrace_env::{FileError, SequentialFile, WritableFile};

use crate::error::Error;

/// A sequential file as a reader.
pub(crate) struct FileReader(pub(crate) Box<dyn SequentialFile>);

impl io::Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

/// A writable file as a writer.
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

/// The error behind what a [`Reading`] or [`Writing`] of the file at `path` reported.
pub(crate) fn file_error(path: &Path, error: io::Error) -> Error {
    match error.downcast::<FileError>() {
        Ok(error) => Error::from(error),
        Err(error) => Error::from(FileError::new("access", path, error)),
    }
}
