//! A log, with everything that a log may hold besides its records.

use terrace_format::batch::WriteBatch;
use terrace_format::log::{BLOCK_SIZE, Framer};

/// The bytes of a log so far.
#[derive(Debug, Clone, Default)]
pub struct Log {
    bytes: Vec<u8>,
    /// A record that fits a block moves to the next block rather than being split.
    whole: bool,
}

impl Log {
    /// Empty, written as LevelDB writes: records fill every block.
    pub fn new() -> Log {
        Log::default()
    }

    /// From here on no record is split that fits one block; the ends of blocks stay zero.
    pub fn whole(mut self) -> Log {
        self.whole = true;
        self
    }

    /// Adds a record of any bytes.
    pub fn record(mut self, record: &[u8]) -> Log {
        let mut framer = Framer::at(self.bytes.len() as u64);
        for fragment in framer.frame(record, self.whole) {
            self.bytes.resize(fragment.offset as usize, 0);
            self.bytes.extend_from_slice(&fragment.header);
            self.bytes.extend_from_slice(fragment.payload);
        }
        self
    }

    /// Adds a batch of puts whose first has the number `sequence`.
    pub fn batch(self, sequence: u64, puts: &[(&str, &str)]) -> Log {
        let mut batch = WriteBatch::new();
        for (key, value) in puts {
            batch.put(key.as_bytes(), value.as_bytes());
        }
        batch.set_sequence(sequence);
        self.record(batch.as_bytes())
    }

    /// Adds zeros.
    pub fn zeros(mut self, len: usize) -> Log {
        self.bytes.resize(self.bytes.len() + len, 0);
        self
    }

    /// Adds zeros up to the next block.
    pub fn to_next_block(self) -> Log {
        let len = self.bytes.len().next_multiple_of(BLOCK_SIZE) - self.bytes.len();
        self.zeros(len)
    }

    /// Drops everything behind the first `len` bytes.
    pub fn cut(mut self, len: usize) -> Log {
        self.bytes.truncate(len);
        self
    }

    /// Flips one bit.
    pub fn flip(mut self, at: usize) -> Log {
        self.bytes[at] ^= 0x10;
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
