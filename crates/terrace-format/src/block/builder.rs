//! Block builder.

use super::RESTART_SIZE;
use crate::coding::{put_fixed32, put_varint32};
use crate::key_order::common_prefix_len;

/// Collects entries into a block. The caller adds them in rising order of their keys; the builder
/// knows no order.
///
/// Each key and each value is shorter than 4 GiB, and so is the sum of a block's entries.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: usize,
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// Number of entries that may share bytes before the next restart point. It is 0 at first.
    until_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Creates a builder that stores every `restart_interval`th key in full. The interval is 1 or
    /// more.
    pub fn new(restart_interval: usize) -> BlockBuilder {
        debug_assert!(restart_interval >= 1);
        BlockBuilder {
            restart_interval,
            buffer: Vec::new(),
            restarts: Vec::new(),
            until_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Appends an entry. `key` is above all earlier keys.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_with_shared_prefix(common_prefix_len(&self.last_key, key), key, value);
    }

    /// Like [`add`](BlockBuilder::add), for a caller that already knows the common prefix length of
    /// `key` and the last key.
    #[inline]
    pub fn add_with_shared_prefix(&mut self, same: usize, key: &[u8], value: &[u8]) {
        debug_assert_eq!(same, common_prefix_len(&self.last_key, key));
        let shared = match self.until_restart.checked_sub(1) {
            Some(remaining) => {
                self.until_restart = remaining;
                same
            }
            None => {
                self.restarts.push(as_u32(self.buffer.len()));
                self.until_restart = self.restart_interval.saturating_sub(1);
                0
            }
        };
        let unshared = key.len() - shared;
        let value_len = value.len();
        if shared | unshared | value_len < 0x80 {
            // Nearly all lengths take one byte each.
            self.buffer.extend_from_slice(&[shared as u8, unshared as u8, value_len as u8]);
        } else {
            put_varint32(&mut self.buffer, as_u32(shared));
            put_varint32(&mut self.buffer, as_u32(unshared));
            put_varint32(&mut self.buffer, as_u32(value_len));
        }
        self.buffer.extend_from_slice(&key[shared..]);
        self.buffer.extend_from_slice(value);
        self.last_key.truncate(same);
        self.last_key.extend_from_slice(&key[same..]);
    }

    /// Reserves memory for one more entry and for the end of the block, in a builder of large
    /// entries. Returns false if the system refuses.
    pub fn try_reserve(&mut self, key: &[u8], value: &[u8]) -> bool {
        // Three lengths, and the restart points of the entry and of `finish` with their count.
        let fixed = 3 * 5 + (self.restarts.len() + 3) * RESTART_SIZE;
        self.buffer.try_reserve_exact(key.len() + value.len() + fixed).is_ok()
            && self.last_key.try_reserve_exact(key.len()).is_ok()
    }

    /// Completes the block and returns its bytes. Only [`reset`](BlockBuilder::reset) may follow.
    pub fn finish(&mut self) -> &[u8] {
        if self.restarts.is_empty() {
            self.restarts.push(0); // LevelDB's blocks without entries have a restart point, too.
        }
        for &restart in &self.restarts {
            put_fixed32(&mut self.buffer, restart);
        }
        put_fixed32(&mut self.buffer, as_u32(self.restarts.len()));
        &self.buffer
    }

    /// Starts another block in the same memory.
    pub fn reset(&mut self) {
        self.reset_keeping_last_key();
        self.last_key.clear();
    }

    /// Starts the next block in the same memory and keeps the last key.
    pub fn reset_keeping_last_key(&mut self) {
        self.buffer.clear();
        self.restarts.clear();
        self.until_restart = 0;
    }

    /// Sets the restart interval of an empty block and of later ones.
    pub fn set_restart_interval(&mut self, restart_interval: usize) {
        debug_assert!(restart_interval >= 1 && self.is_empty());
        self.restart_interval = restart_interval;
    }

    /// Returns the size that [`finish`](BlockBuilder::finish) would return now, in bytes.
    pub fn size_estimate(&self) -> usize {
        self.buffer.len() + self.restarts.len().max(1) * RESTART_SIZE + RESTART_SIZE
    }

    /// Returns true if the block has no entries.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the last key added since [`reset`](BlockBuilder::reset), or an empty key.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }
}

/// Converts a length within a block, which is less than 4 GiB.
fn as_u32(len: usize) -> u32 {
    debug_assert!(u32::try_from(len).is_ok());
    len as u32
}
