//! Read samples: a scan reports about one entry per MiB that it reads, its seeks in several sorted
//! runs, and many skipped entries. The database uses them to choose compactions and flushes.

use crate::error::Result;
use crate::sync::Arc;

/// Number of entries of the newest memtable from which one step reports that it skipped them. The
/// report of a shorter run would cost more than it is worth.
const SKIPPED_REPORT_MIN: usize = 64;

/// Mean number of bytes between two read samples.
pub(crate) const READ_BYTES_PERIOD: usize = 1 << 20;

/// Database of an iterator. The iterator keeps it alive.
pub(crate) trait IterObserver: Send + Sync {
    /// Records a read sample at `internal_key`.
    fn record_read_sample(&self, internal_key: &[u8]);

    /// Returns the number of bytes until the next sample. The number is random, so that repeated
    /// scans of one range sample different entries.
    fn bytes_until_next_sample(&self) -> usize;

    /// Records a seek that merged several sorted runs and found `user_key`.
    fn record_merged_seek(&self, user_key: &[u8]);

    /// Records that one step skipped `entries` entries of the newest memtable, at least
    /// [`SKIPPED_REPORT_MIN`].
    fn record_skipped(&self, entries: usize);

    /// Returns an error in a forked child that cannot read the database.
    fn check_not_lost_in_fork(&self) -> Result<()> {
        Ok(())
    }
}

/// Reporter of read samples and skipped entries. Without an observer, it reports nothing.
pub(super) struct ReadSampler {
    observer: Option<Arc<dyn IterObserver>>,
    bytes_until_sample: usize,
}

impl ReadSampler {
    /// Creates a sampler without an observer.
    pub(super) fn disabled() -> ReadSampler {
        ReadSampler { observer: None, bytes_until_sample: READ_BYTES_PERIOD }
    }

    /// Creates a sampler that reports to `observer`.
    pub(super) fn new(observer: Arc<dyn IterObserver>) -> ReadSampler {
        let bytes_until_sample = observer.bytes_until_next_sample();
        ReadSampler { observer: Some(observer), bytes_until_sample }
    }

    /// Counts the bytes of an entry that the iterator read.
    #[inline]
    pub(super) fn record_read(&mut self, internal_key: &[u8], value_len: usize) {
        match self.bytes_until_sample.checked_sub(internal_key.len() + value_len) {
            Some(left) => self.bytes_until_sample = left,
            None => self.take_sample(internal_key),
        }
    }

    #[cold]
    fn take_sample(&mut self, internal_key: &[u8]) {
        if let Some(observer) = &self.observer {
            self.bytes_until_sample = observer.bytes_until_next_sample();
            observer.record_read_sample(internal_key);
        }
    }

    /// Reports a seek that merged several sorted runs and found `user_key`.
    #[inline]
    pub(super) fn record_merged_seek(&self, user_key: &[u8]) {
        if let Some(observer) = &self.observer {
            observer.record_merged_seek(user_key);
        }
    }

    /// Reports that one step skipped `entries` entries of the newest memtable.
    #[inline]
    pub(super) fn record_skipped(&self, entries: usize) {
        if entries >= SKIPPED_REPORT_MIN
            && let Some(observer) = &self.observer
        {
            observer.record_skipped(entries);
        }
    }
}
