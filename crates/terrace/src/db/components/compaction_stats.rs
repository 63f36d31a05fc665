//! Work of the compactions into one level.

use std::time::Duration;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompactionStats {
    pub(crate) time: Duration,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl CompactionStats {
    pub(crate) fn add(&mut self, other: CompactionStats) {
        self.time += other.time;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}
