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
pub(super) enum Change {
    Write { offset: usize, data: Arc<[u8]> },
    SetLen(usize),
}

impl Change {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { offset, data } => write_at(bytes, *offset, data),
            Change::SetLen(len) => bytes.resize(*len, 0),
        }
    }

    /// What it does to `page`, the bytes of the file from `start` on.
    pub(super) fn apply_within(&self, start: usize, page: &mut [u8]) {
        match self {
            Change::Write { offset, data } => {
                let from = (*offset).clamp(start, start + page.len());
                let to = (offset + data.len()).clamp(start, start + page.len());
                if from < to {
                    page[from - start..to - start].copy_from_slice(&data[from - offset..to - offset]);
                }
            }
            Change::SetLen(len) => {
                let kept = len.saturating_sub(start).min(page.len());
                page[kept..].fill(0);
            }
        }
    }

    /// How many sectors of `size` bytes it touches; a change of length counts as one.
    pub(super) fn pieces(&self, size: usize) -> usize {
        match self {
            Change::Write { data, .. } if data.is_empty() => 0,
            Change::Write { offset, data } => (offset + data.len()).div_ceil(size) - offset / size,
            Change::SetLen(_) => 1,
        }
    }
}

/// Puts `data` at `offset`; a gap behind the end is filled with zeros.
pub(super) fn write_at(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// What readers see of changes that a failed sync could not write and took for written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailedSync {
    /// The changes: the cache holds them until the power fails.
    Keeps,
    /// What was there before them: the cache dropped its pages.
    Reverts,
}

/// A file. Copies share their bytes until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) pending: Vec<Change>,
    /// True after a failed sync that took changes for written: readers see them, the medium never will.
    pub(super) forgot: bool,
}

impl Content {
    /// A file all of whose bytes are durable.
    pub(super) fn durable(bytes: Arc<Vec<u8>>) -> Content {
        Content { live: Arc::clone(&bytes), durable: bytes, pending: Vec::new(), forgot: false }
    }

    pub(super) fn change(&mut self, change: Change) {
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
    pub(super) fn forget(&mut self, cache: AfterFailedSync) {
        self.pending.clear();
        match cache {
            AfterFailedSync::Keeps => self.forgot = true,
            AfterFailedSync::Reverts => self.live = Arc::clone(&self.durable),
        }
    }

    /// Keeps one copy of the bytes instead of two, if all of them are durable. For when writing is over.
    pub(super) fn settle(&mut self) {
        if self.pending.is_empty() && !self.forgot {
            self.durable = Arc::clone(&self.live);
        }
    }
}
