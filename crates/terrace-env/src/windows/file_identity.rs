//! Identity of files.

use std::fs::File;
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;

use super::calls;
use super::open::open_for_attributes;
use crate::fs::{DirectoryStamp, FileIdentity};

/// Times of files are multiples of 100 ns since 1601.
const NANOS_PER_TICK: i128 = 100;

pub(super) fn identity_of(file: &File) -> io::Result<FileIdentity> {
    let information = calls::file_information(file)?;
    Ok(FileIdentity {
        device: information.volume,
        inode: information.index,
        // A new file gets the time of an old one with the same name that was removed a moment ago.
        created_at: None,
    })
}

pub(super) fn identity_of_path(path: &Path) -> io::Result<FileIdentity> {
    identity_of(&open_for_attributes(path)?)
}

pub(super) fn stamp_of(dir: &Path) -> io::Result<DirectoryStamp> {
    let file = open_for_attributes(dir)?;
    let changed_at = i128::from(file.metadata()?.last_write_time()) * NANOS_PER_TICK;
    Ok(DirectoryStamp { identity: identity_of(&file)?, changed_at })
}
