//! Copies, links and hashes of single files.

use std::path::Path;

use terrace_env::{Env, RandomAccessFile, SequentialFile};

use super::content_hash::ContentHash;
use super::progress::Progress;
use crate::error::{Error, Result};
use crate::sync::Arc;

/// Size in bytes of the buffer of a copy. Larger buffers copy no faster.
const COPY_BUFFER_SIZE: usize = 256 << 10;

/// Size and content hash of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileDigest {
    pub(super) size: u64,
    pub(super) hash: u64,
}

/// Open file, read from its start to its end. Its name may not exist any more.
pub(super) struct HeldFile {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) position: u64,
}

impl SequentialFile for HeldFile {
    fn read(&mut self, buf: &mut [u8]) -> terrace_env::Result<usize> {
        let read = self.file.read_at(self.position, buf)?;
        self.position += read as u64;
        Ok(read)
    }

    fn skip(&mut self, n: u64) -> terrace_env::Result<()> {
        self.position = self.position.saturating_add(n).min(self.file.len());
        Ok(())
    }
}

/// Reads the file at `path` and returns its digest.
pub(super) fn digest_file(env: &Env, path: &Path, progress: &mut Progress<'_>) -> Result<FileDigest> {
    let mut file = env.fs.open_sequential(path)?;
    read_pieces(&mut *file, u64::MAX, progress, |_| Ok(()))
}

/// Copies the first `len` bytes of `from` to the new file `to`, durably, and returns their digest.
/// The whole file if `len` is [`u64::MAX`]. The name is not durable yet.
///
/// A shorter file is an error that names `from_path`.
pub(super) fn copy_file(
    env: &Env,
    from: &mut dyn SequentialFile,
    from_path: &Path,
    to: &Path,
    len: u64,
    progress: &mut Progress<'_>,
) -> Result<FileDigest> {
    let mut file = env.fs.create(to)?;
    let digest = read_pieces(from, len, progress, |piece| Ok(file.append(piece)?))?;
    if digest.size < len && len < u64::MAX {
        let message = format!("{} bytes, expected {len}", digest.size);
        return Err(Error::corruption(from_path, Some(digest.size), message));
    }
    file.sync()?;
    file.close()?;
    Ok(digest)
}

/// Gives the file `from` the second name `to` in the same file system. Returns false if it cannot
/// be linked, so that the caller copies it.
///
/// `from` is a table that a MANIFEST has named. Its contents were made durable before, so a link
/// needs no sync, except for its name.
pub(super) fn link_file(env: &Env, from: &Path, to: &Path) -> Result<bool> {
    match env.fs.link(from, to) {
        Err(error) if error.is_unsupported() => Ok(false),
        linked => Ok(linked.map(|()| true)?),
    }
}

/// Passes at most `len` bytes of `from` to `consume`, and returns their digest.
pub(super) fn read_pieces(
    from: &mut dyn SequentialFile,
    len: u64,
    progress: &mut Progress<'_>,
    mut consume: impl FnMut(&[u8]) -> Result<()>,
) -> Result<FileDigest> {
    let mut hash = ContentHash::new();
    let mut buffer = vec![0; COPY_BUFFER_SIZE];
    let mut size = 0;
    while size < len {
        let wanted = (len - size).min(COPY_BUFFER_SIZE as u64) as usize;
        let read = from.read(&mut buffer[..wanted])?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        consume(&buffer[..read])?;
        size += read as u64;
        progress.add(read as u64);
    }
    Ok(FileDigest { size, hash: hash.finish() })
}
