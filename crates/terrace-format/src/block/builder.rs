//! Writes a block.

use super::RESTART_SIZE;
use crate::coding::{put_fixed32, put_varint32};
use crate::key_order::common_prefix_len;

/// Collects entries, in rising order of their keys, into a block. Knows no order itself.
///
/// Keys and values are shorter than 4 GiB each, and a block's entries together.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: usize,
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// Entries that may share before one has to be a restart point: 0 at first.
    until_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Every `restart_interval`th key (1 or more) is stored whole.
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

    /// Appends an entry. `key` is above every earlier one.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_with_shared_prefix(common_prefix_len(&self.last_key, key), key, value);
    }

    /// As [`add`](BlockBuilder::add), for who knows already how many bytes `key` has in common with the last key.
    #[inline]
    pub fn add_with_shared_prefix(&mut self, same: usize, key: &[u8], value: &[u8]) {
        debug_assert_eq!(same, common_prefix_len(&self.last_key, key));
        let shared = match self.until_restart.checked_sub(1) {
            Some(left) => {
                self.until_restart = left;
                same
            }
            None => {
                self.restarts.push(as_u32(self.buffer.len()));
                self.until_restart = self.restart_interval.saturating_sub(1);
                0
            }
        };
        let (rest, len) = (key.len() - shared, value.len());
        if shared | rest | len < 0x80 {
            // Nearly always three lengths of one byte each.
            self.buffer.extend_from_slice(&[shared as u8, rest as u8, len as u8]);
        } else {
            put_varint32(&mut self.buffer, as_u32(shared));
            put_varint32(&mut self.buffer, as_u32(rest));
            put_varint32(&mut self.buffer, as_u32(len));
        }
        self.buffer.extend_from_slice(&key[shared..]);
        self.buffer.extend_from_slice(value);
        self.last_key.truncate(same);
        self.last_key.extend_from_slice(&key[same..]);
    }

    /// Completes the block and gives its bytes. Call [`reset`](BlockBuilder::reset) before anything else.
    pub fn finish(&mut self) -> &[u8] {
        if self.restarts.is_empty() {
            self.restarts.push(0); // LevelDB's blocks without entries have one, too
        }
        for &restart in &self.restarts {
            put_fixed32(&mut self.buffer, restart);
        }
        put_fixed32(&mut self.buffer, as_u32(self.restarts.len()));
        &self.buffer
    }

    /// Begins another block in the same memory.
    pub fn reset(&mut self) {
        self.reset_keeping_last_key();
        self.last_key.clear();
    }

    /// Begins the block behind this one in the same memory, and still knows the last key.
    pub fn reset_keeping_last_key(&mut self) {
        self.buffer.clear();
        self.restarts.clear();
        self.until_restart = 0;
    }

    /// Every so many keys, from the next block on, one is stored whole.
    pub fn set_restart_interval(&mut self, restart_interval: usize) {
        debug_assert!(restart_interval >= 1 && self.is_empty());
        self.restart_interval = restart_interval;
    }

    /// The bytes that [`finish`](BlockBuilder::finish) would give now.
    pub fn size_estimate(&self) -> usize {
        self.buffer.len() + self.restarts.len().max(1) * RESTART_SIZE + RESTART_SIZE
    }

    /// True while no entry was added.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The key added last, since the last [`reset`](BlockBuilder::reset); empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }
}

/// A length in a block, which is shorter than 4 GiB.
fn as_u32(len: usize) -> u32 {
    debug_assert!(u32::try_from(len).is_ok());
    len as u32
}
