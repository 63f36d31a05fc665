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
}

/// Puts `data` at `offset`; a gap behind the end is filled with zeros.
pub(super) fn write_at(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

/// A file. Copies share their bytes until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) pending: Vec<Change>,
}

impl Content {
    /// A file all of whose bytes are durable.
    pub(super) fn durable(bytes: Arc<Vec<u8>>) -> Content {
        Content { live: Arc::clone(&bytes), durable: bytes, pending: Vec::new() }
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

    /// Keeps one copy of the bytes instead of two, if all of them are durable. For when writing is over.
    pub(super) fn settle(&mut self) {
        if self.pending.is_empty() {
            self.durable = Arc::clone(&self.live);
        }
    }
}
