//! The bytes of one file: as a reader sees them, and as a power cut would leave them.
//!
//! ```text
//!   live    = what every read sees
//!   durable = what was there at the last sync
//!   pending = what happened since, in order:   live = durable + pending
//! ```

use std::sync::Arc;

/// A change of a file since its last sync.
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

    /// What it does to `page`, the bytes of the file from `start` on.
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

    /// How many sectors of `size` bytes it touches; a change of length counts as one.
    pub(super) fn sector_count(&self, size: usize) -> usize {
        match self {
            FileChange::Write { data, .. } if data.is_empty() => 0,
            FileChange::Write { offset, data } => (offset + data.len()).div_ceil(size) - offset / size,
            FileChange::SetLen(_) => 1,
        }
    }
}

/// Puts `data` at `offset`; a gap behind the end is filled with zeros.
pub(super) fn write_into(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// What readers see of changes that a failed sync could not write and took for written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedSyncEffect {
    /// The changes: the cache holds them until the power fails.
    KeepsPages,
    /// What was there before them: the cache dropped its pages.
    DropsPages,
}

/// A file. Copies share their bytes until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct FileContent {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) pending: Vec<FileChange>,
    /// True after a failed sync that took changes for written: readers see them, the medium never will.
    pub(super) has_lost_writes: bool,
}

impl FileContent {
    /// A file all of whose bytes are durable.
    pub(super) fn all_durable(bytes: Arc<Vec<u8>>) -> FileContent {
        FileContent { live: Arc::clone(&bytes), durable: bytes, pending: Vec::new(), has_lost_writes: false }
    }

    pub(super) fn apply_change(&mut self, change: FileChange) {
        change.apply(Arc::make_mut(&mut self.live));
        self.pending.push(change);
    }

    /// Makes every change so far durable.
    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for change in self.pending.drain(..) {
            change.apply(durable);
        }
    }

    /// Fails to make the changes so far durable, and takes them for written all the same.
    pub(super) fn fail_sync(&mut self, cache: FailedSyncEffect) {
        self.pending.clear();
        match cache {
            FailedSyncEffect::KeepsPages => self.has_lost_writes = true,
            FailedSyncEffect::DropsPages => self.live = Arc::clone(&self.durable),
        }
    }

    /// Keeps one copy of the bytes instead of two, if all of them are durable. For when writing is over.
    pub(super) fn share_durable_bytes(&mut self) {
        if self.pending.is_empty() && !self.has_lost_writes {
            self.durable = Arc::clone(&self.live);
        }
    }
}
