//! Bytes of one file: the live bytes, and the bytes that a power cut may leave.
//!
//! ```text
//!   live    = bytes that every read sees
//!   durable = bytes of the last sync
//!   pending = changes since then, in order:   live = durable + pending
//! ```

use std::sync::Arc;

/// Change of a file since its last sync.
#[derive(Debug, Clone)]
pub(super) enum FileChange {
    Write { offset: usize, data: Arc<[u8]> },
    SetLen(usize),
}

impl FileChange {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            FileChange::Write { offset, data } => write_into(bytes, *offset, data),
            FileChange::SetLen(len) => bytes.resize(*len, 0),
        }
    }

    /// Applies the change to `page`, the bytes of the file from `start` on.
    pub(super) fn apply_to_page(&self, start: usize, page: &mut [u8]) {
        match self {
            FileChange::Write { offset, data } => {
                let from = (*offset).clamp(start, start + page.len());
                let to = (offset + data.len()).clamp(start, start + page.len());
                if from < to {
                    page[from - start..to - start].copy_from_slice(&data[from - offset..to - offset]);
                }
            }
            FileChange::SetLen(len) => {
                let kept = len.saturating_sub(start).min(page.len());
                page[kept..].fill(0);
            }
        }
    }

    /// Returns the number of sectors of `size` bytes that the change touches. A change of length
    /// counts as one.
    pub(super) fn sector_count(&self, size: usize) -> usize {
        match self {
            FileChange::Write { data, .. } if data.is_empty() => 0,
            FileChange::Write { offset, data } => (offset + data.len()).div_ceil(size) - offset / size,
            FileChange::SetLen(_) => 1,
        }
    }
}

/// Writes `data` at `offset`, and fills a gap after the old end with zeros.
pub(super) fn write_into(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// Effect of a failed sync on the live bytes. The sync treated unwritten changes as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedSyncEffect {
    /// The page cache keeps the changes until a power cut.
    KeepsPages,
    /// The page cache drops the changes, so reads see the bytes before them.
    DropsPages,
}

/// Contents of a file. Copies share their bytes until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct FileContent {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) pending: Vec<FileChange>,
    /// True after a failed sync: readers see changes that will never be durable.
    pub(super) has_lost_writes: bool,
}

impl FileContent {
    /// Creates a file whose bytes are all durable.
    pub(super) fn all_durable(bytes: Arc<Vec<u8>>) -> FileContent {
        FileContent { live: Arc::clone(&bytes), durable: bytes, pending: Vec::new(), has_lost_writes: false }
    }

    pub(super) fn apply_change(&mut self, change: FileChange) {
        change.apply(Arc::make_mut(&mut self.live));
        self.pending.push(change);
    }

    /// Makes all changes durable.
    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for change in self.pending.drain(..) {
            change.apply(durable);
        }
    }

    /// Drops the pending changes as a failed sync does, although they are not durable.
    pub(super) fn fail_sync(&mut self, effect: FailedSyncEffect) {
        self.pending.clear();
        match effect {
            FailedSyncEffect::KeepsPages => self.has_lost_writes = true,
            FailedSyncEffect::DropsPages => self.live = Arc::clone(&self.durable),
        }
    }

    /// Keeps one copy of the bytes instead of two if all of them are durable. Called at the end of
    /// writing.
    pub(super) fn share_durable_bytes(&mut self) {
        if self.pending.is_empty() && !self.has_lost_writes {
            self.durable = Arc::clone(&self.live);
        }
    }
}
