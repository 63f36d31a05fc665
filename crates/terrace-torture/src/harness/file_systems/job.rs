//! Work and report of a child process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Moment at which the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Writes of the log.
    LogWrites,
    /// A flush, which gets a few blocks more at each attempt.
    Flush,
    /// A manual compaction, with the same steps.
    Compaction,
    /// Many flushes with hardly enough space for the table, so that the MANIFEST finds none.
    Manifest,
    /// An open, which gets a few blocks more at each attempt.
    Reopen,
    /// Random moments: a thread fills the disk and frees it.
    OtherWriter,
    /// Writes after a copy of the open database, which shares its blocks where files can.
    Copy,
}

/// All stages.
pub(super) const STAGES: [Stage; 7] = [
    Stage::LogWrites,
    Stage::Flush,
    Stage::Compaction,
    Stage::Manifest,
    Stage::Reopen,
    Stage::OtherWriter,
    Stage::Copy,
];

/// Work of a child process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DiskJob {
    /// Directory on the file system.
    pub(super) directory: PathBuf,
    pub(super) ledger: PathBuf,
    /// File for the [`DiskReport`].
    pub(super) report: PathBuf,
    pub(super) seed: u64,
    /// Number of acknowledged writes.
    pub(super) acknowledged: u64,
    /// Stages in their order. Empty for a child that only checks the database.
    pub(super) stages: Vec<Stage>,
    pub(super) has_reflinks: bool,
    /// True to end without a close.
    pub(super) exits_without_close: bool,
}

/// Numbers of errors of a child, by the file that found no space.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(super) struct DiskReport {
    pub(super) log: u64,
    pub(super) table: u64,
    pub(super) manifest: u64,
    pub(super) other: u64,
    /// Opens on a full disk that succeeded.
    pub(super) opened_full: u64,
}

impl DiskReport {
    /// Counts an error by the file in its text.
    pub(super) fn count_error(&mut self, text: &str) {
        let count = if text.contains(".log") {
            &mut self.log
        } else if text.contains(".ldb") {
            &mut self.table
        } else if text.contains("MANIFEST") {
            &mut self.manifest
        } else {
            &mut self.other
        };
        *count += 1;
    }

    /// Returns the number of all errors.
    pub(super) fn errors(&self) -> u64 {
        self.log + self.table + self.manifest + self.other
    }
}

impl DiskJob {
    pub(super) fn database(&self) -> PathBuf {
        self.directory.join("db")
    }
}
