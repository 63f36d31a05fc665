//! Records of logs on their way into a memtable, in chunks that are sorted by key.

use std::cmp::Ordering;

use terrace_format::batch::{BatchOp, BatchRef};
use terrace_format::key::{self, SequenceNumber, ValueType};
use terrace_format::key_order::{common_prefix_len, head};

use crate::memtable::Memtable;
use crate::sync::Mutex;

/// Approximate bytes that a memtable needs for a record, beside the record.
const RECORD_OVERHEAD: usize = 36;

/// About what `batch` takes in a memtable, in bytes.
pub(crate) fn approx_memtable_bytes(batch: &BatchRef<'_>) -> usize {
    batch.rep().len() + batch.len() * RECORD_OVERHEAD
}

/// Inserts `batch` by itself.
pub(crate) fn insert_batch(memtable: &Memtable, batch: &BatchRef<'_>) {
    memtable.insert(
        batch.sequence(),
        batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        }),
    );
}

/// Records, in the order of a log.
#[derive(Default)]
pub(crate) struct SortedChunk {
    /// Keys and values.
    bytes: Vec<u8>,
    records: Vec<ChunkRecord>,
    pub(crate) memtable_bytes: usize,
}

struct ChunkRecord {
    /// The bytes of the key by which most records are told apart, once that is known.
    head: u64,
    trailer: u64,
    start: u32,
    key_len: u32,
    value_len: u32,
}

impl SortedChunk {
    /// Takes a batch that is far smaller than 4 GiB.
    pub(crate) fn push(&mut self, batch: &BatchRef<'_>) {
        self.memtable_bytes += approx_memtable_bytes(batch);
        for (sequence, operation) in (batch.sequence()..).zip(batch.iter()) {
            match operation {
                BatchOp::Put { key, value } => self.push_record(sequence, ValueType::Value, key, value),
                BatchOp::Delete { key } => self.push_record(sequence, ValueType::Deletion, key, &[]),
            }
        }
    }

    fn push_record(&mut self, sequence: SequenceNumber, kind: ValueType, key: &[u8], value: &[u8]) {
        let record = ChunkRecord {
            head: 0,
            trailer: key::pack_sequence_and_type(sequence, kind),
            start: self.bytes.len() as u32,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records.push(record);
    }

    /// Inserts what is in it, in the order of keys if it `sorts`, and is empty then.
    pub(crate) fn insert_into(&mut self, memtable: &Memtable, sorts: bool) {
        if sorts {
            self.sort();
        }
        for record in &self.records {
            let (key, value) = (record.key(&self.bytes), record.value(&self.bytes));
            let value = (record.trailer as u8 == ValueType::Value as u8).then_some(value);
            memtable.insert(record.trailer >> 8, std::iter::once((key, value)));
        }
        self.bytes.clear();
        self.records.clear();
        self.memtable_bytes = 0;
    }

    /// By the bytes of the keys; of one key, the oldest first, so that each goes before the others.
    fn sort(&mut self) {
        let SortedChunk { bytes, records, .. } = self;
        let Some(first) = records.first().map(|record| record.key(bytes)) else { return };
        let common = |len: usize, record: &ChunkRecord| common_prefix_len(&first[..len], record.key(bytes));
        let prefix = records.iter().fold(first.len(), common);
        for record in records.iter_mut() {
            record.head = head(&record.key(bytes)[prefix..]);
        }
        records.sort_unstable_by(|a, b| match a.head.cmp(&b.head) {
            Ordering::Equal => a.key(bytes).cmp(b.key(bytes)).then_with(|| a.trailer.cmp(&b.trailer)),
            order => order,
        });
    }
}

impl ChunkRecord {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..self.key_len as usize]
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize + self.key_len as usize..][..self.value_len as usize]
    }
}

/// Chunks whose records were inserted, for reuse of their memory.
#[derive(Default)]
pub(crate) struct SortedChunkPool {
    free: Mutex<Vec<SortedChunk>>,
}

impl SortedChunkPool {
    pub(crate) fn take(&self) -> SortedChunk {
        self.free.lock().pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&self, chunk: SortedChunk) {
        self.free.lock().push(chunk);
    }
}
