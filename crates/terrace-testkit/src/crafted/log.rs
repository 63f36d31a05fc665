//! A log with batches, arbitrary records, zeros and damage.

use terrace_format::batch::WriteBatch;
use terrace_format::log::{FRAGMENT_HEADER_SIZE, LOG_BLOCK_SIZE, RecordWriter};

/// A log in memory.
#[derive(Debug, Clone, Default)]
pub struct CraftedLog {
    bytes: Vec<u8>,
    /// True if a record that fits into a block is not split.
    unsplit_records: bool,
}

impl CraftedLog {
    /// Creates an empty log that splits records like LevelDB, so that they fill each block.
    pub fn new() -> CraftedLog {
        CraftedLog::default()
    }

    /// Does not split later records that fit into one block. Zeros fill the rest of the block
    /// before such a record.
    pub fn unsplit_records(mut self) -> CraftedLog {
        self.unsplit_records = true;
        self
    }

    /// Adds a record of any bytes.
    pub fn record(mut self, record: &[u8]) -> CraftedLog {
        let left = LOG_BLOCK_SIZE - self.bytes.len() % LOG_BLOCK_SIZE;
        let fragment_len = FRAGMENT_HEADER_SIZE + record.len();
        if self.unsplit_records && left < fragment_len && fragment_len <= LOG_BLOCK_SIZE {
            self.bytes.resize(self.bytes.len() + left, 0);
        }
        let mut writer = RecordWriter::resume_at(self.bytes.len() as u64);
        for fragment in writer.add_record(record) {
            self.bytes.resize(fragment.offset as usize, 0);
            self.bytes.extend_from_slice(&fragment.header);
            self.bytes.extend_from_slice(fragment.payload);
        }
        self
    }

    /// Adds a batch of puts with the first sequence number `sequence`.
    pub fn batch(self, sequence: u64, puts: &[(&str, &str)]) -> CraftedLog {
        let mut batch = WriteBatch::new();
        for (key, value) in puts {
            batch.put(key.as_bytes(), value.as_bytes());
        }
        batch.set_sequence(sequence);
        self.record(batch.as_bytes())
    }

    /// Adds zeros up to the end of the block.
    pub fn pad_to_block_end(mut self) -> CraftedLog {
        self.bytes.resize(self.bytes.len().next_multiple_of(LOG_BLOCK_SIZE), 0);
        self
    }

    /// Adds zeros.
    pub fn append_zeros(mut self, len: usize) -> CraftedLog {
        self.bytes.resize(self.bytes.len() + len, 0);
        self
    }

    /// Adds zeros up to the next block.
    pub fn pad_to_block(self) -> CraftedLog {
        let len = self.bytes.len().next_multiple_of(LOG_BLOCK_SIZE) - self.bytes.len();
        self.append_zeros(len)
    }

    /// Truncates the log to `len` bytes.
    pub fn truncate(mut self, len: usize) -> CraftedLog {
        self.bytes.truncate(len);
        self
    }

    /// Flips one bit at a byte offset.
    pub fn flip_bit(mut self, offset: usize) -> CraftedLog {
        self.bytes[offset] ^= 0x10;
        self
    }

    /// Returns the bytes of the log.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
