//! Choice between a mapped and an appended log, by the type of the file system.
//!
//! A store into a mapped file cannot report an error. On a file system that copies on write, the
//! second write of a page needs new space, and a full disk ends the process by SIGBUS. So a log is
//! mapped only on file systems that write allocated space in place.

use std::fmt;
use std::fs::File;

use crate::fs::MappedLogs;
#[cfg(target_os = "linux")]
use magic::{EXT4, TMPFS, XFS};

/// Method of writing a log, and its reason.
#[derive(Debug)]
pub(super) struct LogMethod {
    pub(super) is_mapped: bool,
    reason: String,
}

/// Magic numbers of `statfs`.
#[cfg(target_os = "linux")]
mod magic {
    /// Number of ext4, and also of ext2 and ext3.
    pub(super) const EXT4: u32 = 0xef53;
    pub(super) const TMPFS: u32 = 0x0102_1994;
    pub(super) const XFS: u32 = 0x5846_5342;
}

impl LogMethod {
    fn mapped(reason: &str) -> LogMethod {
        LogMethod { is_mapped: true, reason: reason.into() }
    }

    /// Returns the method that every file system supports.
    pub(super) fn appended(reason: impl Into<String>) -> LogMethod {
        LogMethod { is_mapped: false, reason: reason.into() }
    }

    /// Chooses the method for `file`.
    pub(super) fn choose(file: &File, mapped: MappedLogs) -> LogMethod {
        match mapped {
            MappedLogs::Always => LogMethod::mapped("mapped_logs is Always"),
            MappedLogs::Never => LogMethod::appended("mapped_logs is Never"),
            MappedLogs::Auto => LogMethod::by_file_system(file),
        }
    }

    #[cfg(target_os = "linux")]
    fn by_file_system(file: &File) -> LogMethod {
        let Ok(statistics) = rustix::fs::fstatfs(file) else {
            return LogMethod::appended("the file system does not tell its type");
        };
        if terrace_sync::mutant!(LogMappedOnEveryFileSystem) {
            return LogMethod::mapped("ext4 writes in place");
        }
        match statistics.f_type as u32 {
            EXT4 => LogMethod::mapped("ext4 writes in place"),
            TMPFS => LogMethod::mapped("tmpfs writes in place"),
            XFS if !super::xfs_geometry::may_share_blocks(file) => {
                LogMethod::mapped("XFS without reflinks writes in place")
            }
            XFS => LogMethod::appended("XFS with reflinks copies shared blocks on write"),
            magic => LogMethod::appended(format!("a file system of type {magic:#x} may copy on write")),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn by_file_system(_file: &File) -> LogMethod {
        LogMethod::appended("the type of the file system is unknown")
    }
}

impl fmt::Display for LogMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.is_mapped { "mapped" } else { "appended" };
        write!(f, "{method}: {}", self.reason)
    }
}
