//! Operations on files that the standard library has in one form for all systems.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_methods)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{FileError, Result};

pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns true if `path` exists. `is_circular_link` recognises the error of links that lead back
/// to themselves: there is no file, as for a dangling link.
pub(crate) fn exists(path: &Path, is_circular_link: fn(&io::Error) -> bool) -> Result<bool> {
    match path.try_exists() {
        Err(e) if is_circular_link(&e) => Ok(false),
        exists => exists.map_err(|e| FileError::new("stat", path, e)),
    }
}

pub(crate) fn is_dir(path: &Path, is_circular_link: fn(&io::Error) -> bool) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(e) if e.kind() == io::ErrorKind::NotFound || is_circular_link(&e) => Ok(false),
        Err(e) => Err(FileError::new("stat", path, e)),
    }
}

pub(crate) fn is_symlink(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_symlink()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(FileError::new("stat", path, e)),
    }
}

pub(crate) fn file_size(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|metadata| metadata.len()).map_err(|e| FileError::new("stat", path, e))
}

pub(crate) fn modified_us(path: &Path) -> Result<u64> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let modified = modified.map_err(|e| FileError::new("stat", path, e))?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

pub(crate) fn list(dir: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(dir).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
    });
    entries.map_err(|e| FileError::new("list", dir, e))
}

pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir(dir).map_err(|e| FileError::new("mkdir", dir, e))
}

/// Gives `from` the additional name `to`. `is_refusal` recognises the errors of files that cannot
/// be linked, but perhaps copied.
pub(crate) fn link(from: &Path, to: &Path, is_refusal: fn(&io::Error) -> bool) -> Result<()> {
    fs::hard_link(from, to).map_err(|e| match is_refusal(&e) {
        true => FileError::new("link", from, io::Error::new(io::ErrorKind::Unsupported, e)),
        false => FileError::new("link", to, e),
    })
}

/// Returns an error for the open of `path`.
pub(crate) fn open_error(path: &Path) -> impl Fn(io::Error) -> FileError {
    move |e| FileError::new("open", path, e)
}
