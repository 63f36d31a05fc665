//! A log, with everything that a log may hold besides its records.

use terrace_format::batch::WriteBatch;
use terrace_format::log::{LOG_BLOCK_SIZE, RecordWriter};

/// The bytes of a log so far.
#[derive(Debug, Clone, Default)]
pub struct CraftedLog {
    bytes: Vec<u8>,
    /// A record that fits a block moves to the next block rather than being split.
    unsplit_records: bool,
}

impl CraftedLog {
    /// Empty, written as LevelDB writes: records fill every block.
    pub fn new() -> CraftedLog {
        CraftedLog::default()
    }

    /// From here on no record is split that fits one block; the ends of blocks stay zero.
    pub fn unsplit_records(mut self) -> CraftedLog {
        self.unsplit_records = true;
        self
    }

    /// Adds a record of any bytes.
    pub fn record(mut self, record: &[u8]) -> CraftedLog {
        let mut framer = RecordWriter::resume_at(self.bytes.len() as u64);
        for fragment in framer.add_record(record, self.unsplit_records) {
            self.bytes.resize(fragment.offset as usize, 0);
            self.bytes.extend_from_slice(&fragment.header);
            self.bytes.extend_from_slice(fragment.payload);
        }
        self
    }

    /// Adds a batch of puts whose first has the number `sequence`.
    pub fn batch(self, sequence: u64, puts: &[(&str, &str)]) -> CraftedLog {
        let mut batch = WriteBatch::new();
        for (key, value) in puts {
            batch.put(key.as_bytes(), value.as_bytes());
        }
        batch.set_sequence(sequence);
        self.record(batch.as_bytes())
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

    /// Drops everything behind the first `len` bytes.
    pub fn truncate(mut self, len: usize) -> CraftedLog {
        self.bytes.truncate(len);
        self
    }

    /// Flips one bit.
    pub fn flip_bit(mut self, at: usize) -> CraftedLog {
        self.bytes[at] ^= 0x10;
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
