//! Choice between a mapped and an appended log, by the type of the file system.
//!
//! A store into a mapped file cannot report an error. On a file system that copies on write, the
//! second write of a page needs new space, and a full disk ends the process by SIGBUS. So a log is
//! mapped only on file systems that write allocated space in place.

use std::fmt;
use std::fs::File;

use crate::fs::MappedLogs;

/// Method of writing a log, and its reason.
#[derive(Debug)]
pub(super) struct LogMethod {
    pub(super) is_mapped: bool,
    reason: String,
}

impl LogMethod {
    /// Chooses the method for `file`.
    pub(super) fn choose(file: &File, mapped: MappedLogs) -> LogMethod {
        match mapped {
            MappedLogs::Always => LogMethod { is_mapped: true, reason: "mapped_logs is Always".into() },
            MappedLogs::Never => LogMethod { is_mapped: false, reason: "mapped_logs is Never".into() },
            MappedLogs::Auto => LogMethod::by_file_system(file),
        }
    }

    #[cfg(target_os = "linux")]
    fn by_file_system(file: &File) -> LogMethod {
        /// Magic numbers of `statfs`, with the name of the file system.
        static IN_PLACE: [(u64, &str); 2] = [(0xef53, "ext4"), (0x0102_1994, "tmpfs")];
        let Ok(statistics) = rustix::fs::fstatfs(file) else {
            return LogMethod { is_mapped: false, reason: "the file system does not tell its type".into() };
        };
        let magic = statistics.f_type as u32 as u64;
        match IN_PLACE.iter().find(|(known, _)| *known == magic) {
            Some((_, name)) => LogMethod { is_mapped: true, reason: format!("{name} writes in place") },
            None => LogMethod {
                is_mapped: false,
                reason: format!("a file system of type {magic:#x} may copy on write"),
            },
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn by_file_system(_file: &File) -> LogMethod {
        LogMethod { is_mapped: false, reason: "the type of the file system is unknown".into() }
    }
}

impl fmt::Display for LogMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.is_mapped { "mapped" } else { "appended" };
        write!(f, "{method}: {}", self.reason)
    }
}
