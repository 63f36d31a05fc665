//! Append-only memory for the records of a memtable.
//!
//! ```text
//!   record:  key length (u32 LE) | value length (u32 LE) | internal key | value
//! ```
//!
//! Records are never moved, changed or freed before the arena is.

/// Where a record is: chunk number, then offset in the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordId {
    chunk: u32,
    offset: u32,
}

const CHUNK: usize = 256 << 10;
const HEADER: usize = 8;

/// The records of one memtable.
#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Arena {
    /// The bytes that its chunks take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores a record whose key is `user_key` followed by `trailer`. Both parts are shorter than 4 GiB.
    pub(crate) fn push(&mut self, user_key: &[u8], trailer: u64, value: &[u8]) -> RecordId {
        let key_len = user_key.len() + 8;
        let need = HEADER + key_len + value.len();
        if self.chunks.last().is_none_or(|chunk| chunk.capacity() - chunk.len() < need) {
            // A record larger than a chunk gets one of its own.
            let chunk = Vec::with_capacity(need.max(CHUNK));
            self.bytes += chunk.capacity();
            self.chunks.push(chunk);
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let id = RecordId { chunk: number as u32, offset: chunk.len() as u32 };
        chunk.extend_from_slice(&(key_len as u32).to_le_bytes());
        chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
        chunk.extend_from_slice(user_key);
        chunk.extend_from_slice(&trailer.to_le_bytes());
        chunk.extend_from_slice(value);
        id
    }

    /// The internal key of a record.
    pub(crate) fn key(&self, id: RecordId) -> &[u8] {
        self.record(id).0
    }

    /// The internal key and the value of a record.
    pub(crate) fn record(&self, id: RecordId) -> (&[u8], &[u8]) {
        let record = &self.chunks[id.chunk as usize][id.offset as usize..];
        let length =
            |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let (key_len, value_len) = (length(0) as usize, length(4) as usize);
        record[HEADER..HEADER + key_len + value_len].split_at(key_len)
    }
}
