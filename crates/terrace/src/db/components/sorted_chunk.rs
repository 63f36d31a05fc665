//! Records of logs on their way into a memtable, in chunks that are sorted by key.

use std::cmp::Ordering;

use terrace_format::batch::{BatchOp, BatchRef};
use terrace_format::key::{self, SequenceNumber, ValueType};
use terrace_format::key_order::{common_prefix_len, head};

use crate::memtable::{InsertMode, Memtable};
use crate::sync::Mutex;

/// Approximate bytes that a memtable needs for a record, beside the record.
const RECORD_OVERHEAD: usize = 36;

/// Approximate bytes that `batch` takes in a memtable.
pub(crate) fn approx_memtable_bytes(batch: &BatchRef<'_>) -> usize {
    batch.rep().len() + batch.len() * RECORD_OVERHEAD
}

/// Inserts one batch without sorting.
pub(crate) fn insert_batch(memtable: &Memtable, batch: &BatchRef<'_>) {
    memtable.insert(
        batch.sequence(),
        batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        }),
    );
}

/// Records, in log order until they are sorted.
#[derive(Default)]
pub(crate) struct SortedChunk {
    /// Keys and values of all records.
    bytes: Vec<u8>,
    records: Vec<ChunkRecord>,
    pub(crate) memtable_bytes: usize,
}

struct ChunkRecord {
    /// First bytes of the key after the common prefix of the chunk. Computed by `sort`.
    head: u64,
    trailer: u64,
    start: u32,
    key_len: u32,
    value_len: u32,
}

impl SortedChunk {
    /// Adds a batch. The caller passes only batches far smaller than 4 GiB.
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

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Inserts all records into `memtable`, in key order if `should_sort` is set, and clears the
    /// chunk.
    pub(crate) fn insert_into(&mut self, memtable: &Memtable, should_sort: bool, mode: InsertMode) {
        if should_sort {
            self.sort();
        }
        for record in &self.records {
            let key = record.key(&self.bytes);
            let value = record.value(&self.bytes);
            let value = (record.trailer as u8 == ValueType::Value as u8).then_some(value);
            memtable.insert_with_mode(mode, record.trailer >> 8, std::iter::once((key, value)));
        }
        self.bytes.clear();
        self.records.clear();
        self.memtable_bytes = 0;
    }

    /// Sorts by key. Records of one key are sorted from oldest to newest, so that each insert goes
    /// to the front of the version chain.
    fn sort(&mut self) {
        let SortedChunk { bytes, records, .. } = self;
        let Some(first) = records.first().map(|record| record.key(bytes)) else { return };
        let prefix = records
            .iter()
            .fold(first.len(), |len, record| common_prefix_len(&first[..len], record.key(bytes)));
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
