//! Records of logs on their way into a memtable: gathered, sorted, inserted by several threads.
//!
//! ```text
//!   opener    reads and checks records [ chunk 1 ][ chunk 2 ][ chunk 3 ] ...
//!   a helper                                  [ 1: sort, insert ][ 2: sort, insert ] ...
//! ```
//!
//! In the order of a log each record goes to another end of the tree, and most of its cost is waiting for memory. Those of
//! a chunk go through it from one end to the other.
//!
//! Records of different numbers may be inserted in any order: a memtable has them in that of their keys and numbers. Whoever
//! has numbers that came before calls [`ParallelInserter::finish_memtable`] first.

use std::cmp::Ordering;

use terrace_env::{Env, Priority};
use terrace_format::batch::{BatchOp, BatchRef};
use terrace_format::key::{self, InternalComparator, SequenceNumber, ValueType};
use terrace_format::key_order::{common_prefix_len, head};

use super::task_group::TaskGroup;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::sync::{Arc, Mutex};

/// What a chunk takes at most, in bytes: so much as a core has at hand, and the tree still has several of its records in
/// each leaf.
const MAX_SORTED_CHUNK_BYTES: usize = 4 << 20;
/// A small memtable has so many.
const CHUNKS_PER_MEMTABLE: usize = 8;
/// About what a memtable needs for a record, beside the record.
const RECORD_OVERHEAD: usize = 36;

/// About what `batch` takes in a memtable, in bytes.
pub(super) fn approx_memtable_bytes(batch: &BatchRef<'_>) -> usize {
    batch.rep().len() + batch.len() * RECORD_OVERHEAD
}

/// Inserts `batch` by itself.
pub(super) fn insert_batch(memtable: &Memtable, batch: &BatchRef<'_>) {
    memtable.insert(
        batch.sequence(),
        batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        }),
    );
}

/// Fills one memtable after the other.
pub(super) struct ParallelInserter {
    task_group: TaskGroup,
    chunk: SortedChunk,
    max_chunk_bytes: usize,
    should_sort: bool,
    /// Chunks that were inserted, for their memory.
    free_chunks: Arc<Mutex<Vec<SortedChunk>>>,
}

impl ParallelInserter {
    /// For memtables of about `memtable_size` bytes.
    pub(super) fn new(env: &Env, comparator: &InternalComparator, memtable_size: usize) -> ParallelInserter {
        ParallelInserter::with_max_chunk_bytes(
            env,
            comparator,
            (memtable_size / CHUNKS_PER_MEMTABLE).min(MAX_SORTED_CHUNK_BYTES),
        )
    }

    /// With chunks of at most `chunk_max` bytes; of 0, every batch is inserted by itself, at once.
    pub(super) fn with_max_chunk_bytes(
        env: &Env,
        comparator: &InternalComparator,
        chunk_max: usize,
    ) -> ParallelInserter {
        // The opener's own thread is one.
        let helpers = env.scheduler.parallelism(Priority::Compaction).saturating_sub(1);
        ParallelInserter {
            task_group: TaskGroup::new(&env.scheduler, Priority::Compaction, helpers),
            chunk: SortedChunk::default(),
            max_chunk_bytes: chunk_max,
            should_sort: comparator.is_bytewise(),
            free_chunks: Arc::default(),
        }
    }

    /// Has `batch`, none of whose numbers came before, inserted into `memtable`, which is the same until
    /// [`ParallelInserter::finish_memtable`].
    pub(super) fn add(&mut self, memtable: &Arc<Memtable>, batch: &BatchRef<'_>) {
        if approx_memtable_bytes(batch) > self.max_chunk_bytes / 2 {
            // Not worth a copy.
            return insert_batch(memtable, batch);
        }
        self.chunk.push(batch);
        if self.chunk.memtable_bytes <= self.max_chunk_bytes {
            return;
        }
        let next = self.free_chunks.lock().pop().unwrap_or_default();
        let mut chunk = std::mem::replace(&mut self.chunk, next);
        let (memtable, spare, sorts) =
            (Arc::clone(memtable), Arc::clone(&self.free_chunks), self.should_sort);
        self.task_group.spawn(Box::new(move || {
            chunk.insert_into(&memtable, sorts);
            spare.lock().push(chunk);
        }));
    }

    /// Returns when all that was given is in `memtable`, and nobody else holds that.
    pub(super) fn finish_memtable(&mut self, memtable: &Memtable) -> Result<()> {
        self.chunk.insert_into(memtable, self.should_sort);
        self.task_group.finish()
    }
}

/// Records, in the order of a log.
#[derive(Default)]
struct SortedChunk {
    /// Keys and values.
    bytes: Vec<u8>,
    records: Vec<ChunkRecord>,
    memtable_bytes: usize,
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
    fn push(&mut self, batch: &BatchRef<'_>) {
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
    fn insert_into(&mut self, memtable: &Memtable, sorts: bool) {
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
