//! File whose descriptor is closed while nothing uses it, and opened again.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name and identity of a file, to open it again.
#[derive(Debug)]
pub(super) struct ReopenedFile {
    /// Absolute path: the process may change its directory.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl ReopenedFile {
    /// Returns the identity of `file`, which was opened at `path`.
    pub(super) fn new(path: &Path, file: &File) -> io::Result<ReopenedFile> {
        let metadata = file.metadata()?;
        Ok(ReopenedFile { path: std::path::absolute(path)?, device: metadata.dev(), inode: metadata.ino() })
    }

    /// Opens the file again. Returns an error if its name belongs to another file now.
    ///
    /// The identity also rules out links and special files.
    pub(super) fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        // Hard links are allowed: a backup may have made one since.
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&self.path)?;
        if self.is_identity(&file.metadata()?) {
            return Ok(file);
        }
        Err(io::Error::other("the file was replaced while the database was open"))
    }

    fn is_identity(&self, metadata: &Metadata) -> bool {
        (metadata.dev(), metadata.ino()) == (self.device, self.inode)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn renamed_or_replaced_file_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        let reopened = ReopenedFile::new(&path, &file).unwrap();
        let open = || reopened.open(OpenOptions::new().append(true)).map_err(|error| error.kind());
        fs::hard_link(&path, directory.path().join("backup")).unwrap();
        assert!(open().is_ok());
        fs::rename(&path, directory.path().join("moved")).unwrap();
        assert_eq!(open().unwrap_err(), io::ErrorKind::NotFound);
        fs::write(&path, b"other").unwrap();
        assert_eq!(open().unwrap_err(), io::ErrorKind::Other);
    }
}
